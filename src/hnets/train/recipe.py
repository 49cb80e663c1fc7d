"""A recipe: everything that fixes a training run, read from a TOML file and checked at once."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
import typing
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from hnets.errors import InputError, suggest

SHIPPED = Path(__file__).parents[1] / "recipes"
_LONGEST = 100
"""Characters of a wrong value that an error quotes."""


def quoted(value: object) -> str:
    """A value for an error, cut short if it is long.

    >>> quoted("six"), len(quoted("six" * 1000))
    ("'six'", 101)
    """
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def expect(met: bool, where: str, wanted: str, value: object, advice: str = "") -> None:
    """Complain about the value of a key unless a condition is met."""
    if not met:
        raise InputError(f"{where}: expected {wanted}, got {quoted(value)}{advice}")


class Section:
    """A dataclass whose fields, if annotated with a condition and its name, are checked."""

    def __post_init__(self) -> None:
        for name, hint in typing.get_type_hints(type(self), include_extras=True).items():
            if typing.get_origin(hint) is Annotated:
                _, met, wanted = typing.get_args(hint)
                value = getattr(self, name)
                expect(met(value), f"{type(self).__name__.lower()}.{name}", wanted, value)


# Types with the values that they may have, and how to name these in a message.
Whole = Annotated[int, lambda n: n > 0, "a whole number from 1 up"]
Count = Annotated[int, lambda n: n >= 0, "a whole number from 0 up"]
Workers = Annotated[int, lambda n: 0 <= n <= 256, "a whole number from 0 to 256"]
Fold = Annotated[int, lambda n: 0 <= n < 10, "a whole number from 0 to 9"]
Seed = Annotated[int, lambda n: 0 <= n < 2**32, "a whole number below 2^32"]
Views = Annotated[int, lambda n: n >= 0 and n != 1, "0, or 2 up"]
Split = Annotated[str, bool, "the name of a split"]
Above = Annotated[float, lambda x: x > 0, "a number above 0"]
NonNegative = Annotated[float, lambda x: x >= 0, "a number from 0 up"]
Fraction = Annotated[float, lambda x: 0 <= x < 1, "a number from 0 to below 1"]
Share = Annotated[float, lambda x: 0 < x <= 1, "a number above 0, up to 1"]
Weight = Annotated[float, lambda x: 0 <= x <= 1, "a number from 0 to 1"]
Degrees = Annotated[float, lambda x: 0 <= x <= 180, "degrees from 0 to 180"]
Several = Annotated[int, lambda n: n > 1, "a whole number from 2 up"]
Scales = Annotated[
    tuple[float, ...],
    lambda xs: xs and all(0.1 <= x <= 4 for x in xs),
    "numbers from 0.1 to 4, such as [0.5, 1.0, 1.5]",
]
Part = Annotated[
    tuple[int, ...],
    lambda ns: not ns or (len(ns) == 2 and 0 <= ns[0] < ns[1] > 1),
    "[], or the number of a part and how many parts there are, such as [0, 4]",
]


@dataclass(frozen=True)
class Model:
    """Which network: a name and options of `hnets.create_model`."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Data(Section):
    """Which data set. An empty name of a split leaves it out."""

    name: str
    train: Split = "train"
    val: str = "val"
    test: str = ""
    """Evaluated once, after the last step; nothing in the training depends on it."""
    transfer: str = ""
    """Another data set, whose test split is evaluated then as well."""
    share: Share = 1.0
    """Train on this share of each class only, at least one image of each: the same images whenever
    the share is the same, and all of them again in every larger share."""
    limit: Count = 0
    """Train on the first so many images only; 0 is all of them."""
    hold_out: Part = ()
    """``[k, n]``: train without the images of number k, k + n, k + 2n and so on, as in n-fold
    cross-validation; empty: with all of them."""
    size: int = 0
    """Side to which images of a folder or of plankton are resized, and those of MiraBest cropped; 0
    is the default of `hnets.data.load`."""
    channels: int = 0
    """1 for grey and 3 for colour images of a folder; 0 is the default of `hnets.data.load`."""
    fold: Fold = 0
    """Which tenth of a set with ten folds is its test split."""
    stream: bool | Literal["auto"] = "auto"
    """Whether images of a folder stay in their files until they are needed; ``auto``: if they take
    more than a quarter of the memory. The weights do not depend on it."""
    workers: Workers = 0
    """Processes that decode such images; 0 is one less than there are cores, at most 16."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, split in (("val", self.val), ("test", self.test)):
            apart = not set(split.split("+")) & set(self.train.split("+"))
            wanted = f"a split that shares no image with data.train, {quoted(self.train)}, or none"
            expect(apart, f"data.{name}", wanted, split)
        # Results name splits and this set alike.
        apart = not self.transfer or self.transfer not in (self.train, self.val, self.test)
        wanted, advice = "a data set named otherwise than a split", f"; write ./{self.transfer}"
        expect(apart, "data.transfer", wanted, self.transfer, advice)


@dataclass(frozen=True)
class Augment(Section):
    """Random changes to each image, different in each epoch."""

    rotate: Degrees = 0.0
    """Rotate by up to so many degrees either way; 180 is every angle."""
    shift: NonNegative = 0.0
    """Move by up to so many pixels along each axis."""
    zoom: Fraction = 0.0
    """Enlarge or shrink by up to this fraction."""
    shear: Fraction = 0.0
    """Slant by up to this fraction."""
    elastic: NonNegative = 0.0
    """Deform: move the points of a coarse grid by so many pixels on average and interpolate between
    them; the middle as a whole does not move."""
    flip: bool = False
    """Mirror horizontally and vertically, each with probability ½."""
    gamma: Fraction = 0.0
    """Raise the values, from 0 to 1, to a power drawn from a normal distribution about 1 of
    deviation 1, cut off this far from 1; the paper's authors cut it off at 0.5."""
    colour: Fraction = 0.0
    """Brighten or darken each colour by up to this fraction."""
    keep_centre: bool = False
    """Shift each image so that its centre of mass lies where rotating and mirroring alone would put
    it: for light shapes on black whose position matters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shift", "gamma", "colour"):
            alone = not self.keep_centre or not getattr(self, name)
            wanted = "0 beside keep_centre, as it moves the centre of mass"
            expect(alone, f"augment.{name}", wanted, getattr(self, name))


@dataclass(frozen=True)
class Edges(Section):
    """What an edge detector learns from the edges that several people drew."""

    labels: Literal["people", "share", "near"] = "people"
    """What is an edge. ``people``: what at least so many people drew, and all else is none, as in
    the paper's authors' code. ``share``: what at least this share of the people drew; where fewer
    did, nothing is learned, as in later work. ``near``: what anyone drew, if at least this share
    of the people drew something within two pixels; where fewer did, nothing is learned."""
    people: Whole = 3
    share: Share = 0.3
    balance: Weight = 1.0
    """1 gives the pixels on edges and those off them the same total weight, 0 gives the same weight
    to each pixel; values between interpolate."""
    agreement: NonNegative = 0.0
    """A pixel on an edge counts by this power of the share of the people who drew it; 0 is the same
    for all. The mean over the edges of a photograph stays as it is."""
    sides: NonNegative = 1.0
    """Weight of the loss of each side output; that of their fusion weighs 1. The lower it is, the
    more the side outputs are free to complement one another."""
    sparsity: NonNegative = 0.1
    """Weight of the term that holds the mean of an output to the share of edge pixels."""


@dataclass(frozen=True)
class Optimiser(Section):
    """Adam with decoupled weight decay (which leaves biases, norms and phases alone)."""

    rate: Above = 0.0076
    weight_decay: NonNegative = 0.0
    beta1: Fraction = 0.9
    beta2: Fraction = 0.999
    eps: Above = 1e-8
    phase_rate: NonNegative = 1.0
    """Steps of the phases, as a multiple of the others'. Adam does not see the scale of a gradient,
    so the paper's authors' factor on the gradient of the phases becomes one on their step."""


@dataclass(frozen=True)
class Schedule(Section):
    """How the learning rate falls."""

    name: Literal["constant", "step", "plateau", "cosine"] = "cosine"
    warmup: NonNegative = 0.0
    """Epochs over which the rate grows from 0, whatever follows."""
    floor: Fraction = 0.0
    """``cosine``: the part of the rate that is left at the end. With a running mean of the weights,
    a rate that never falls to 0 fits the training images less closely."""
    every: Whole = 40
    """``step``: epochs between two falls."""
    patience: Whole = 10
    """``plateau``: epochs without a better validation error before a fall, as in the paper."""
    factor: Share = 0.1
    """``step`` and ``plateau``: what the rate is multiplied by."""


@dataclass(frozen=True)
class Training(Section):
    """How long, and in which batches."""

    epochs: Whole = 200
    batch: Whole = 46
    seed: Seed = 1
    label_smoothing: Fraction = 0.0
    dice: NonNegative = 0.0
    """Of pixels: weight of the Dice loss beside the cross-entropy."""
    ema: Fraction = 0.0
    """Decay of a running mean of the weights, which is then what is evaluated; 0 is none."""
    statistics: Literal["running", "recomputed"] = "running"
    """Of batch norms, for the finished network: the running means of training, or those of all
    training images, without augmentation and with the last weights."""
    precision: Literal["float32", "tf32", "bfloat16"] = "tf32"
    """Of convolutions. ``tf32`` multiplies with 10 bits of mantissa on a GPU and is float32 on CPU;
    so is ``bfloat16`` on a CPU without instructions for it."""
    save_every: NonNegative = 10.0
    """Seconds between checkpoints, at the ends of epochs: what a kill can cost."""
    deterministic: bool = False
    """Ask for kernels that give the same bits each time, where a GPU has faster ones."""


@dataclass(frozen=True)
class Teachers(Section):
    """Networks that soften the labels of an edge detector, each those of images it has not seen."""

    weight: Weight = 0.0
    """Part of the teachers' output in what is taught at a pixel, beside its label. Pixels without a
    label then count too, as this part of one off the edges. 0 is no teachers."""
    recipe: str = ""
    """By which they are trained, a name or a .toml file, but for its data and its own teachers;
    empty is the recipe itself."""
    folds: Several = 4
    """How many they are; each leaves out one part of the images, and predicts that part."""
    epochs: Count = 0
    """Epochs of each; 0 is as many as their recipe has."""
    scales: Scales = (0.5, 1.0, 1.5)
    """Images are resized by these factors, and the outputs averaged."""


@dataclass(frozen=True)
class Evaluation(Section):
    """How the test set is evaluated, besides the plain way."""

    views: Views = 0
    """Report also the error of predictions averaged over so many copies of each image, rotated by
    equal parts of 90°; 0 is none."""


@dataclass(frozen=True)
class Search(Section):
    """What `hnets search` tries: a range or a list of choices for each dotted key.

    ```toml
    [search.space]
    "optimiser.rate" = { low = 1e-3, high = 1e-1, log = true }
    "training.batch" = { choices = [46, 128] }
    ```
    """

    trials: Whole = 20
    space: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """One file is one reported number."""

    title: str
    model: Model
    data: Data
    augment: Augment = Augment()
    edges: Edges = Edges()
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    training: Training = Training()
    teachers: Teachers = Teachers()
    evaluation: Evaluation = Evaluation()
    search: Search = Search()

    def __post_init__(self) -> None:
        if self.schedule.name == "plateau" and not self.data.val:
            raise InputError(
                'schedule.name = "plateau" watches the validation error, and data.val is empty: '
                'set data.val = "val", or take the schedule "step" or "cosine"'
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Nested dictionaries, as TOML and JSON have them; a wrong key is an `InputError`."""
        recipe: Self = _build(cls, values, "")
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """The inverse of `from_dict`, with the defaults written out and lists as JSON has them."""

        def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            return {key: list(v) if isinstance(v, tuple) else v for key, v in pairs}

        return dataclasses.asdict(self, dict_factory=table)

    def replace(self, changes: Mapping[str, Any]) -> Recipe:
        """A recipe with some dotted keys changed, such as ``{"training.epochs": 10}``."""
        values = self.to_dict()
        for key, value in changes.items():
            if key not in _KEYS and not key.startswith("model.options."):
                raise InputError(f"a recipe has no key {quoted(key)}{suggest(key, _KEYS)}")
            *parents, last = key.split(".")
            place = values
            for parent in parents:
                place = place.setdefault(parent, {})
                expect(isinstance(place, dict), key.rpartition(".")[0], "a table of keys", place)
            place[last] = value
        return Recipe.from_dict(values)


_KEYS = ["title"] + [
    f"{name}.{part.name}"
    for name, hint in typing.get_type_hints(Recipe).items()
    if dataclasses.is_dataclass(hint)
    for part in dataclasses.fields(hint)
]


def _build(kind: Any, values: Any, where: str) -> Any:
    """A dataclass from a dictionary, checked key by key and type by type."""
    place = f"[{where}]" if where else "a recipe"
    expect(isinstance(values, Mapping), where or place, "a table of keys", values)
    hints = typing.get_type_hints(kind)
    for key in values:
        if key not in hints:
            raise InputError(f"{place} has no key {quoted(key)}{suggest(key, hints)}")
    for part in dataclasses.fields(kind):
        needed = part.default is part.default_factory is dataclasses.MISSING
        if needed and part.name not in values:
            raise InputError(f"{place} needs a key {part.name!r}")
    prefix = f"{where}." if where else ""
    return kind(**{key: _convert(hints[key], v, f"{prefix}{key}") for key, v in values.items()})


def _convert(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        near = suggest(str(value), choices)
        expect(value in choices, where, f"one of {', '.join(choices)}", value, near)
    elif hint == bool | Literal["auto"]:
        met = isinstance(value, bool) or value == "auto"
        expect(met, where, "true, false or auto", value)
    elif hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        expect(number and math.isfinite(value), where, "a number", value)
        return float(value)
    elif hint is int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        expect(whole, where, "a whole number", value)
    elif typing.get_origin(hint) is tuple:
        expect(isinstance(value, list | tuple), where, "a list of numbers", value)
        return tuple(_convert(typing.get_args(hint)[0], one, where) for one in value)
    elif hint in (bool, str):
        name = "true or false" if hint is bool else "text"
        expect(isinstance(value, hint), where, name, value)
    else:
        expect(isinstance(value, Mapping), where, "a table of keys", value)
        return dict(value)
    return value


def first_difference(
    before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = ()
) -> str:
    """The first key whose value differs between two recipes as dictionaries, and what to do.

    >>> first_difference({"training": {"epochs": 1}}, {"training": {"epochs": 2}})
    'training.epochs = 1, and the recipe says 2: change it back'
    """
    for part, values in before.items():
        for key, value in (values if isinstance(values, Mapping) else {}).items():
            other = now.get(part, {}).get(key)
            if value != other and not {part, f"{part}.{key}"} & set(free):
                change = f"{quoted(value)}, and the recipe says {quoted(other)}"
                return f"{part}.{key} = {change}: change it back"
    return ""


def to_toml(recipe: Recipe) -> str:
    """The text of a recipe file, of which `read_recipe` makes the same recipe."""
    lines = [f"title = {_toml(recipe.title)}"]
    for section, values in recipe.to_dict().items():
        if section != "title":
            lines += ["", f"[{section}]", *(f"{key} = {_toml(v)}" for key, v in values.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_toml(key)} = {_toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    # JSON escapes texts as TOML does, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def shipped_recipes() -> tuple[str, ...]:
    """Names of the recipes that come with the package."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


def read_recipe(source: str | Path, changes: list[str] | None = None) -> Recipe:
    """A recipe from a file, or a shipped one by name, with ``key=value`` changes applied."""
    path = Path(source)
    if not path.suffix and (SHIPPED / f"{path}.toml").is_file():
        path = SHIPPED / f"{path}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except IsADirectoryError:
        raise InputError(
            f"expected a recipe, got the folder {source}; to train on the images in it, use "
            f"pictures-small --set data.name={source}"
        ) from None
    except FileNotFoundError:
        near = suggest(str(source), shipped_recipes())
        raise InputError(f"there is no recipe or .toml file {source}{near}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise InputError(f"the recipe {path} cannot be read: {reason}") from None
    try:
        recipe = Recipe.from_dict(tomllib.loads(text))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except ValueError as error:  # of tomllib, or of a number with thousands of digits
        raise InputError(f"{path} is not valid TOML: {error}") from None
    return recipe.replace(dict(map(_parse_change, changes or [])))


def teacher_recipe(recipe: Recipe) -> Recipe:
    """What the teachers of a recipe are trained by, but for the images that each leaves out."""
    rules, data = recipe.teachers, recipe.data
    expect(not data.hold_out, "data.hold_out", "[] beside teachers, who hold out", data.hold_out)
    try:
        base = read_recipe(rules.recipe) if rules.recipe else recipe
        training = dataclasses.replace(base.training, epochs=rules.epochs or base.training.epochs)
        return dataclasses.replace(
            base,
            data=dataclasses.replace(data, val="", test="", transfer=""),
            training=training,
            teachers=Teachers(),
            evaluation=Evaluation(),
            search=Search(),
        )
    except InputError as error:
        raise InputError(f"teachers.recipe: {error}") from None


def _parse_change(text: str) -> tuple[str, Any]:
    key, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not key:
        raise InputError(f"expected key=value, as in training.epochs=10, got {quoted(text)}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except ValueError:
        return key, value  # a bare word is text
