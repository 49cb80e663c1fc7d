"""A drawn digit, rotated: the predictions of two networks, and the maps and filters of one."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hnets.export import freeze
from hnets.functional import rotate_pixels
from hnets.models import create_model, model_card
from hnets.nn.kernel import HarmonicFilters
from hnets.plan import Block, StreamPath
from hnets.predict.digit_classifier import ANGLES
from hnets.predict.ink import Ink, find_ink
from hnets.streams import Streams
from hnets.web.payloads import Complex, encoded, quantised, uploaded

LAYERS = 7
PIXELS = 2**20
"""The most pixels of a drawing."""
SHOWN = 24
"""Filters of one path that are shown, the strongest first."""
BINS = 24
"""Of a histogram of phases."""


class DigitViews:
    """The two networks, frozen."""

    def __init__(self) -> None:
        self.hnet: Any = freeze(create_model("hnet_mnist", pretrained=True))
        self.plain = freeze(create_model("z2cnn", pretrained=True))

    def about(self) -> dict[str, Any]:
        """The cards of both networks, and the streams and number of filters of every layer."""
        layers = [
            {
                "layer": number,
                "streams": str(convolution.out_streams),
                "orders": list(convolution.out_streams.orders),
                "filters": sum(
                    block.shape[1] * block.shape[3] * len(block.filters)
                    for block in convolution.filters.plan.blocks
                ),
            }
            for number, (convolution, *_) in enumerate(self.hnet.layers, start=1)
        ]
        return {"hnet": _card("hnet_mnist"), "plain": _card("z2cnn"), "layers": layers}

    def rotated(self, drawing: bytes, degrees: float, layer: int) -> dict[str, Any]:
        """The predictions for a rotated drawing, and one map per order of a layer."""
        ink = _ink(drawing)
        x = _batch([ink.digit(), ink.digit(degrees)])
        with torch.inference_mode():
            logits, maps, streams = self._forward(x, layer)
            plain = self.plain(x)
        # Pixels rotated back, phases as they are: what is left is the rotation of the phases.
        back = rotate_pixels(maps[1:], -math.radians(degrees))
        shown = []
        for stream, channels in zip(streams, streams.slices, strict=True):
            upright, rotated = _complex(maps[:, channels])
            # The map with most contrast for the upright digit: rotating does not change the choice.
            best = int(np.abs(upright).std((1, 2)).argmax())
            # One phase for the whole map: the one that fits the upright map to the other best.
            fit = complex(np.vdot(upright[best], _complex(back[:, channels])[0, best]))
            shown.append(
                {
                    "order": stream.order,
                    "phase": round(math.degrees(np.angle(fit)) % 360, 1) if fit else 0.0,
                    **quantised(rotated[[best]], float(np.percentile(np.abs(upright[best]), 99.5))),
                }
            )
        return {
            "degrees": degrees,
            "seen": encoded(x[1, 0].numpy() * 255, np.uint8),
            "hnet": _prediction(logits[1]),
            "plain": _prediction(plain[1]),
            "upright": {"hnet": _prediction(logits[0]), "plain": _prediction(plain[0])},
            "maps": shown,
        }

    def round(self, drawing: bytes) -> dict[str, Any]:
        """The digits predicted for a drawing at every ten degrees of a full rotation."""
        ink = _ink(drawing)
        x = _batch([ink.digit(angle) for angle in ANGLES])
        with torch.inference_mode():
            hnet, plain = (net(x).argmax(1).tolist() for net in (self.hnet, self.plain))
        return {"angles": ANGLES, "hnet": hnet, "plain": plain}

    def fields(self, drawing: bytes, degrees: float, layer: int, order: int) -> dict[str, Any]:
        """All maps of one order of a layer, for a rotated drawing."""
        x = _batch([_ink(drawing).digit(degrees)])
        with torch.inference_mode():
            _, maps, streams = self._forward(x, layer)
        values = _complex(maps[:, streams.slices[streams.orders.index(order)]])[0]
        return quantised(values, float(np.percentile(np.abs(values), 99.5)))

    def filters(self, layer: int, order: int) -> dict[str, Any]:
        """The filters that lead to one order of a layer, and a histogram of the layer's phases."""
        bank: HarmonicFilters = self.hnet.layers[layer - 1][0].filters
        kinds = [
            _filters(bank, str(number), block, path)
            for number, block in enumerate(bank.plan.blocks)
            for path in block.paths
            if block.outputs[path.target].order == order
        ]
        phases = [beta.detach().numpy().ravel() for beta in bank.phase.values()]
        angles = np.concatenate([np.empty(0, np.float32), *phases]) % (2 * np.pi)
        counts, _ = np.histogram(angles, BINS, (0, 2 * np.pi))
        return {"kinds": kinds, "histogram": counts.tolist()}

    def _forward(self, x: Tensor, layer: int) -> tuple[Tensor, Tensor, Streams]:
        """Logits, and the maps of a layer, counted from 1, before pooling, with their streams.

        Of the last layer, the maps of its convolution: one per digit and order.
        """
        convolution, nonlinear, *_ = self.hnet.layers[layer - 1]
        module, maps = nonlinear if layer < LAYERS else convolution, list[Tensor]()
        with module.register_forward_hook(lambda _module, _input, output: maps.append(output)):
            logits = self.hnet(x)
        return logits, maps[0], convolution.out_streams


@lru_cache(maxsize=8)
def _ink(drawing: bytes) -> Ink:
    """The digit in a drawing, located once for all the angles that the dial passes."""
    return find_ink(uploaded(drawing, PIXELS), "the drawing")


def _batch(digits: list[NDArray[np.float32]]) -> Tensor:
    return torch.from_numpy(np.stack(digits)[:, None])


def _complex(maps: Tensor) -> Complex:
    """Real channels ``(batch, 2·n, h, w)`` of one stream as ``(batch, n, h, w)``."""
    re, im = maps.chunk(2, 1)
    fields: Complex = torch.complex(re, im).numpy()
    return fields


def _prediction(logits: Tensor) -> dict[str, Any]:
    probabilities = logits.softmax(0)
    return {
        "digit": int(probabilities.argmax()),
        "confidence": round(float(probabilities.max()), 4),
        "probabilities": [round(p, 4) for p in probabilities.tolist()],
    }


def _filters(bank: HarmonicFilters, number: str, block: Block, path: StreamPath) -> dict[str, Any]:
    """The strongest filters of one path, each scaled to its own largest value."""
    drawn = block.filters[path.filter]
    radial = bank.radial[number].detach().double().numpy()  # (out, in, columns)
    kernels = np.tensordot(radial[..., drawn.columns], bank.spec.basis(drawn.order), 1)
    phases: NDArray[np.floating] | None = None
    if number in bank.phase and drawn.phased and bank.spec.phase == "filter":
        column = [f for f in block.filters if f.phased].index(drawn)
        phases = bank.phase[number].detach().double().numpy()[..., column]  # (out, in)
        kernels = kernels * np.exp(1j * phases)[..., None, None]
    if path.order < 0:  # W of −m is the conjugate of W of m
        kernels, phases = kernels.conj(), None if phases is None else -phases
    flat = kernels.reshape(-1, *kernels.shape[2:])  # (out · in, k, k)
    best = np.argsort(-np.linalg.norm(flat, axis=(1, 2)), kind="stable")[:SHOWN]
    peak = np.abs(flat[best]).max((1, 2), keepdims=True)
    degrees = None if phases is None else np.degrees(phases.reshape(-1)[best]) % 360
    return {
        "order": path.order,
        "from": block.inputs[path.source].order,
        "of": len(flat),
        "phases": None if degrees is None else [round(angle, 1) for angle in degrees.tolist()],
        **quantised(flat[best] / np.maximum(peak, 1e-12), 1.0),
    }


def _card(name: str) -> dict[str, Any]:
    card = model_card(name)
    recipe = card["recipe"]
    return {
        "name": name,
        "parameters": card["parameters"],
        "data": recipe["data"]["name"],
        "recipe": recipe["name"],
        "metrics": card["metrics"],
    }
