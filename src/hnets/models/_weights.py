"""Weight files: safetensors with the model's name and options in the header.

Those that come with the package have a card beside them, which says what they were trained on.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hnets.errors import InputError
from hnets.files import replacing

FOLDER = Path(__file__).parents[1] / "weights"
WEIGHTS = "model.safetensors"
"""What a training calls its weights, in the folder of each seed."""
TRAINED = ("recipe", "data", "metrics", "commit")
"""What a card says beside what the weights say themselves."""
KEY = "hnets"
"""The entry of the header; a single one, because safetensors writes several in random order."""


@dataclass(frozen=True)
class ModelConfig:
    """How a network was built, ``model.config`` of each of ours: its name and all its options."""

    name: str
    options: Mapping[str, Any]
    trained: Mapping[str, Any] = field(default_factory=dict)
    """What `hnets train` taught it on a folder of images, for `hnets.predict`: the ``size`` and
    ``channels`` that images were brought to, and ``classes`` or the ``threshold`` of pixels."""


def remember_options(model: nn.Module, **options: Any) -> None:
    """Change options of a network as `save` writes them; nothing while it is being built.

    What it was trained for does not hold any more, as for a classifier of other classes.
    """
    config = model.__dict__.get("config")
    if isinstance(config, ModelConfig):
        changed = {**config.options, **options}
        model.__dict__["config"] = replace(config, options=changed, trained={})


def remember_training(model: nn.Module, trained: Mapping[str, Any]) -> None:
    """Say of a network what it was trained for; `save` writes it too."""
    config = model.config
    assert isinstance(config, ModelConfig)
    model.__dict__["config"] = replace(config, trained=dict(trained))


def unwrapped(model: nn.Module) -> tuple[nn.Module, ModelConfig]:
    """The network inside what torch.compile and data parallelism wrap, and how it was built."""
    while (inner := getattr(model, "_orig_mod", getattr(model, "module", None))) is not None:
        model = inner
    config = getattr(model, "config", None)
    if not isinstance(config, ModelConfig):
        raise InputError(
            f"expected a network of hnets.create_model, got a {type(model).__name__}, which hnets "
            "could not build again; save its state_dict() instead"
        )
    return model, config


class Weights(NamedTuple):
    """What a file holds."""

    path: Path
    config: ModelConfig
    state: Mapping[str, Tensor]


def save(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    half: bool = False,
    card: Mapping[str, Any] | None = None,
) -> Path:
    """Write a network's weights, and how it was built, to a file that `hnets.load` reads.

    The same values give the same bytes. The file appears only when it is complete.

    Args:
        model: made by `hnets.create_model` or a function of `hnets.models`.
        path: a name that ends in ``.safetensors``.
        half: write float16, half as many bytes; values are float32 again when they are loaded.
        card: recipe, data, metrics and commit, written to a JSON file beside the weights, as for
            those that come with the package. The file is then called by the model and the tag.
    """
    from safetensors.torch import save as to_bytes

    from hnets import __version__

    path, (model, config) = Path(path), unwrapped(model)
    # Copies, as safetensors refuses values that share memory or lie in channels_last.
    plain = {"memory_format": torch.contiguous_format}
    state = {k: v.detach().cpu().clone(**plain) for k, v in model.state_dict().items()}
    if half:
        state = {k: _halved(k, v) for k, v in state.items()}
    header = {"model": config.name, "options": config.options, "version": __version__}
    if config.trained:
        header["trained"] = config.trained
    text = json.dumps(header, default=int)
    content = to_bytes(state, {KEY: json.dumps({**json.loads(text), "sha256": seal(text, state)})})
    if card is not None and set(card) != set(TRAINED):
        raise ValueError(f"card has {', '.join(TRAINED)}, got {', '.join(card) or 'nothing'}")
    with replacing(path) as part:
        part.write_bytes(content)
        if card is not None:
            whole = {
                "model": config.name,
                "tag": path.stem.partition(".")[2],
                "parameters": sum(p.numel() for p in model.parameters()),
                "sha256": hashlib.sha256(content).hexdigest(),
                "options": config.options,
                **{key: card[key] for key in TRAINED},
            }
            text = json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False, default=int)
            with replacing(path.with_suffix(".json")) as part_of_card:
                part_of_card.write_text(text + "\n", encoding="utf-8")
    return path


def _halved(name: str, value: Tensor) -> Tensor:
    """A value in float16, which has to hold it; numbers that are not floating-point stay."""
    if not value.is_floating_point():
        return value
    half = value.half()
    if (half.isinf() & value.isfinite()).any():
        raise InputError(
            f"{name} has values of up to {value.abs().max():.3g}, and float16 ends at 65504; "
            "save the network without half=True"
        )
    return half


def shipped() -> list[str]:
    """Models, with their tags, whose weights come with the package."""
    files = FOLDER.glob("*.safetensors")
    return sorted(file.stem for file in files if file.with_suffix(".json").is_file())


def model_card(name: str) -> dict[str, Any]:
    """The card of weights that come with the package: their data, recipe, metrics and more.

    >>> card = model_card("hnet_mnist")
    >>> card["parameters"], card["metrics"]["test_error"]
    (33347, 1.446)
    """
    if name not in shipped():
        names = ", ".join(shipped()) or "none yet"
        raise InputError(f"there are no trained weights for {name}; models that have some: {names}")
    path = FOLDER / f"{name}.json"
    try:
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        described = ".".join(filter(None, (card["model"], card["tag"])))
        if not isinstance(card["sha256"], str):
            raise TypeError("a SHA-256 is text")
    except (ValueError, KeyError, TypeError):
        message = f"{path} is damaged: it describes no weights; install hnets again"
        raise InputError(message) from None
    if described != name:
        raise InputError(
            f"{path} should describe the weights of {name}, but describes those of {described}"
        )
    return card


def find(source: str | os.PathLike[str]) -> Path:
    """The weight file that is meant: the file itself, or the one in a run's folder.

    The folder may be that of one seed, or that of a run with a single seed.
    """
    path = Path(source).expanduser()
    if not path.is_dir():
        if path.is_file():
            return path
        raise InputError(f"there is no file or folder {path}; hnets train writes a {WEIGHTS}")
    if (path / WEIGHTS).is_file():
        return path / WEIGHTS
    seeds = sorted(path.glob(f"seed-*/{WEIGHTS}"))
    if not seeds:
        raise InputError(f"there is no {WEIGHTS} in {path}; has the training finished?")
    if len(seeds) > 1:
        raise InputError(f"{path} has {len(seeds)} seeds; name one, such as {seeds[0].parent}")
    return seeds[0]


def read_shipped(name: str) -> Weights:
    """The content of a weight file that comes with the package."""
    return read(FOLDER / f"{name}.safetensors", model_card(name)["sha256"])


def read(path: Path, sha256: str = "") -> Weights:
    """The content of a weight file that is whole: by the SHA-256 of its card, or its own seal."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = path.read_bytes()
    if sha256 and (digest := hashlib.sha256(content).hexdigest()) != sha256:
        raise InputError(
            f"{path} is damaged: its SHA-256 should be {sha256}, got {digest}; install hnets again"
        )
    try:
        state = load(content)
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file ({error})") from None
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    if KEY not in metadata:
        raise InputError(
            f"{path} does not say which network it is of: hnets.save did not write it; build the "
            "network with hnets.create_model and give it the values with load_state_dict"
        )
    try:
        header = json.loads(metadata[KEY])
        name, options = str(header["model"]), dict(header["options"])
        config = ModelConfig(name, options, dict(header.get("trained", {})))
        own = header.pop("sha256", None)
        whole = own is None or own == seal(json.dumps(header), state)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is damaged: its header names no network") from None
    if not whole:
        raise InputError(f"{path} is damaged: its SHA-256 is not that of its content")
    return Weights(path, config, state)


def seal(text: str, state: Mapping[str, Tensor]) -> str:
    """The SHA-256 of a text and of tensors, their names, types and shapes included."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(state):
        value = state[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.view(-1).view(torch.uint8).numpy().tobytes())  # NumPy lacks bfloat16
    return digest.hexdigest()


def fill(model: nn.Module, weights: Weights, advice: str = "") -> None:
    """Give a network the values of a file, if they fit."""
    if wrong := _mismatch(model, weights.state):
        options = ", ".join(f"{key}={value!r}" for key, value in weights.config.options.items())
        raise InputError(
            f"{weights.path} does not fit this {type(model).__name__}: {wrong}; it holds "
            f"{weights.config.name} with {options or 'no options'}{advice}"
        )
    model.load_state_dict(weights.state)


def fine_tune(model: nn.Module, weights: Weights) -> list[str]:
    """Give a network the values of a file; the names of those that start anew.

    These are the values of a classifier of another number of classes, or of none. All others have
    to fit.
    """
    config = model.config
    assert isinstance(config, ModelConfig)
    old, new = (each.options.get("num_classes") for each in (weights.config, config))
    own, anew = model.state_dict(), dict[str, Tensor]()
    for key, value in weights.state.items():
        if old != new and key in own and value.dim() and own[key].dim() == value.dim():
            rows = value.shape[0] * int(new or 0) == own[key].shape[0] * int(old or 0)
            if value.shape != own[key].shape and rows and value.shape[1:] == own[key].shape[1:]:
                anew[key] = own[key]
    if old == 0:  # saved without its last layer
        last = f"{getattr(model, 'last_layer', None)}."
        anew = {key: value for key, value in own.items() if key.startswith(last)}
    advice = "; model.name, model.options and data.channels of the recipe have to be those of it"
    fill(model, weights._replace(state={**weights.state, **anew}), advice)
    return list(anew)


def _mismatch(model: nn.Module, state: Mapping[str, Tensor]) -> str | None:
    """What is wrong with the first value that does not fit the network; None if all fit."""
    expected = model.state_dict()
    for key in [*expected, *state]:
        if key not in state:
            return f"expected {key} of shape {tuple(expected[key].shape)}, got none"
        shape, dtype = tuple(state[key].shape), state[key].dtype
        if key not in expected:
            return f"expected no {key}, got one of shape {shape}"
        if tuple(expected[key].shape) != shape:
            return f"expected {key} of shape {tuple(expected[key].shape)}, got {shape}"
        both_float = expected[key].is_floating_point() and dtype.is_floating_point
        if dtype != expected[key].dtype and not both_float:
            return f"expected {key} in {expected[key].dtype}, got {dtype}"
    return None
