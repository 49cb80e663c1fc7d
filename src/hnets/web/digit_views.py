"""A drawn digit, turned: what two networks say of it, and what goes on inside one of them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hnets.export import freeze
from hnets.models import _weights as weights
from hnets.models import create_model
from hnets.plot import TurnedMap
from hnets.predict.digit_classifier import ROUND
from hnets.predict.ink import Ink, find_ink
from hnets.streams import Streams
from hnets.web.encoding import Complex, as_text, quantised
from hnets.web.uploads import read

__all__ = ["LAYERS", "Digits"]

LAYERS = 7
PIXELS = 2**20
"""Of a drawing."""


class Digits:
    """The two networks, frozen."""

    def __init__(self) -> None:
        self.hnet: Any = freeze(create_model("hnet_mnist", pretrained=True))
        self.plain = freeze(create_model("z2cnn", pretrained=True))

    def about(self) -> dict[str, Any]:
        """What the networks are and what they have learned from, as their cards say."""
        return {"hnet": _card("hnet_mnist"), "plain": _card("z2cnn")}

    def turned(self, drawing: bytes, degrees: float, layer: int) -> dict[str, Any]:
        """The answers to a turned drawing, and a map of each order that a layer makes of it."""
        ink = _ink(drawing)
        x = _batch([ink.digit(), ink.digit(degrees)])
        with torch.inference_mode():
            logits, maps, streams = self._look(x, layer)
            plain = self.plain(x)
        shown = []
        for stream, where in zip(streams, streams.slices, strict=True):
            upright, turned = _complex(maps[:, where])
            # The one with most to see, of the upright digit: turning does not change the choice.
            best = int(np.abs(upright).std((1, 2)).argmax())
            shown.append(_map(upright[best], turned[best], stream.order, degrees, best))
        return {
            "degrees": degrees,
            "seen": as_text(x[1, 0].numpy() * 255, np.uint8),
            "hnet": _answer(logits[1]),
            "plain": _answer(plain[1]),
            "upright": {"hnet": _answer(logits[0]), "plain": _answer(plain[0])},
            "layer": layer,
            "maps": shown,
        }

    def round(self, drawing: bytes) -> dict[str, Any]:
        """The answers all the way round."""
        ink = _ink(drawing)
        x = _batch([ink.digit(angle) for angle in ROUND])
        with torch.inference_mode():
            answers = {"hnet": self.hnet(x).softmax(1), "plain": self.plain(x).softmax(1)}
        found: dict[str, Any] = {"angles": ROUND}
        for name, values in answers.items():
            best = values.max(1)
            found[name] = {
                "digits": best.indices.tolist(),
                "confidences": [round(p, 4) for p in best.values.tolist()],
            }
        return found

    def fields(self, drawing: bytes, degrees: float, layer: int, order: int) -> dict[str, Any]:
        """All maps of one order that a layer makes of a turned drawing."""
        x = _batch([_ink(drawing).digit(degrees)])
        with torch.inference_mode():
            _, maps, streams = self._look(x, layer)
        where = streams.slices[streams.orders.index(order)]
        values = _complex(maps[:, where])[0]
        return {"order": order, **quantised(values, float(np.percentile(np.abs(values), 99.5)))}

    def _look(self, x: Tensor, layer: int) -> tuple[Tensor, Tensor, Streams]:
        """Logits, and the maps that a layer, counted from 1, leaves before they are pooled.

        Of the last one, those of its convolution: a map for each digit and order.
        """
        maps = x
        for number, (convolution, nonlinear, *pooling) in enumerate(self.hnet.layers, start=1):
            x = convolution(x)
            if number == layer == LAYERS:
                maps = x
            x = nonlinear(x)
            if number == layer < LAYERS:
                maps = x
            for pool in pooling:
                x = pool(x)
        return x, maps, self.hnet.layers[layer - 1][0].out_streams


@lru_cache(maxsize=8)
def _ink(drawing: bytes) -> Ink:
    """The digit of a drawing, found once for all the angles that the dial passes."""
    return find_ink(read(drawing, PIXELS), "the drawing")


def _batch(digits: list[NDArray[np.float32]]) -> Tensor:
    return torch.from_numpy(np.stack(digits)[:, None])


def _complex(maps: Tensor) -> Complex:
    """Real channels ``(batch, 2·n, h, w)`` of one stream as ``(batch, n, h, w)``."""
    re, im = maps.chunk(2, 1)
    fields: Complex = torch.complex(re, im).numpy()
    return fields


def _answer(logits: Tensor) -> dict[str, Any]:
    chances = logits.softmax(0)
    return {
        "digit": int(chances.argmax()),
        "confidence": round(float(chances.max()), 4),
        "chances": [round(p, 4) for p in chances.tolist()],
    }


def _map(
    upright: Complex, turned: Complex, order: int, degrees: float, field: int
) -> dict[str, Any]:
    pair = TurnedMap("", "", upright, turned, order, degrees)
    # One angle for the whole map: that by which the upright one fits the one moved back best.
    fit = complex(np.vdot(upright, pair.moved_back))
    return {
        "order": order,
        "field": field,
        "error": round(pair.error, 4),
        "phase": round(math.degrees(np.angle(fit)) % 360, 1) if fit else 0.0,
        **quantised(turned[None], float(np.percentile(np.abs(upright), 99.5))),
    }


def _card(name: str) -> dict[str, Any]:
    card = weights.describe(name)
    recipe = card["recipe"]
    return {
        "name": name,
        "parameters": card["parameters"],
        "data": recipe["data"]["name"],
        "recipe": recipe["name"],
        "metrics": card["metrics"],
    }
