"""What networks predict: edges in a photograph, digits, and accuracy on rotated digits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hnets.plot.style import BLUE, FRAME, INK, MUTED, RED, Sheet, bare, figure_style, light
from hnets.predict import RotatedPredictions
from hnets.predict.rendering import orientation_colours, orientation_wheel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

    from hnets.studies.quickstart import ReadDigit

# After Okabe and Ito: colour-blind readers tell them apart. Predictions have a mark besides.
_NETWORKS = ("#0072b2", "#b07c00")
_RIGHT, _WRONG = "#00805f", "#c8480c"


# Edges ---------------------------------------------------------------------------------------


@figure_style()
def edges_figure(
    image: NDArray[np.uint8], strength: NDArray[np.floating], angle: NDArray[np.floating]
) -> Figure:
    """A photograph ``(height, width, 3)``, its edges, and which way they run."""
    wide, gap, top, side = 3.3, 0.1, 0.56, 1.4
    tall = wide * image.shape[0] / image.shape[1]
    body = max(tall, side + 0.65)  # the legend has two lines below it
    sheet = Sheet(3 * wide + 4 * gap + side + 0.15, top + body + gap)
    panels = (
        ("image", "", image),
        ("edges", "how sure the network is", 1 - strength),
        ("orientations", "from the phases of the fields", orientation_colours(strength, angle)),
    )
    for number, (title, note, pixels) in enumerate(panels):
        left = gap + number * (wide + gap)
        sheet.heading(left + wide / 2, top - 0.32, title, note, ha="center")
        down = top + (body - tall) / 2
        sheet.image(left, down, wide, tall, pixels, interpolation="antialiased")
    left, down = sheet.width - side - 0.05, top + (body - side) / 2
    _orientation_legend(sheet.panel(left, down, side, side))
    return sheet.figure


def _orientation_legend(axes: Axes) -> None:
    """The wheel, and some of the directions beside their colours."""
    bare(axes)
    axes.imshow(orientation_wheel(), extent=(-1, 1, -1, 1))
    look: dict[str, Any] = {"ha": "center", "color": MUTED}
    for degrees in range(0, 360, 45):
        x, y = 1.36 * math.cos(math.radians(degrees)), 1.3 * math.sin(math.radians(degrees))
        axes.text(x, y, f"{degrees % 180}°", va="center", fontsize=7.5, **look)
    axes.set(xlim=(-1.7, 1.7), ylim=(-1.7, 1.7))
    note = "a line has the colour\nof its direction"
    axes.text(0, -1.75, note, va="top", fontsize=8.5, linespacing=1.35, **look)


# Digits --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RotatedDigit:
    """An image of a digit, and the predictions for it at every angle."""

    name: str
    image: Image.Image
    predictions: RotatedPredictions


@figure_style()
def digits_figure(digits: Sequence[RotatedDigit]) -> Figure:
    """Images, what the network sees of them, and its confidence at every angle.

    The distance from the middle is the probability of the digit predicted for the image as it is.
    Angles at which another digit is more probable are marked in red, with that digit.
    """
    side, gap, top = 1.9, 0.2, 0.34
    across = 1 if len(digits) < 4 else 2
    wide, high = 3 * (side + gap) + gap, side + top + gap
    sheet = Sheet(across * wide, -(-len(digits) // across) * high)
    for number, digit in enumerate(digits):
        row, column = divmod(number, across)
        x, y = column * wide + gap, row * high + top
        original = digit.predictions.original
        titles = (_short(digit.name), "what the network sees",
                  f"{original.digit}, {100 * original.confidence:.1f} %")  # fmt: skip
        for place, title in enumerate(titles):
            middle = x + place * (side + gap) + side / 2
            sheet.text(middle, y - 0.09, title, ha="center", color=MUTED if place == 1 else INK)
        image = digit.image.convert("RGB")
        sheet.image(x, y, side, side, image, interpolation="antialiased")
        sheet.image(x + side + gap, y, side, side, original.seen)
        inset = 0.24  # room for what is written round the circle
        left, inner = x + 2 * (side + gap) + inset, side - 2 * inset
        axes = sheet.panel(left, y + inset, inner, inner, projection="polar")
        _round(cast("PolarAxes", axes), digit.predictions)
    return sheet.figure


def _short(name: str, length: int = 26) -> str:
    return name if len(name) <= length else f"{name[: length // 2 - 1]}…{name[-length // 2 :]}"


def _round(axes: PolarAxes, predictions: RotatedPredictions) -> None:
    angles = np.radians(predictions.angles)
    order = np.argsort(angles % (2 * np.pi))
    closed = np.append(order, order[0])
    axes.plot(angles[closed], predictions.confidences[closed], color=MUTED, linewidth=0.8, zorder=2)
    other = ~predictions.same
    for shown, colour in ((~other, BLUE), (other, RED)):
        confidences = predictions.confidences[shown]
        axes.scatter(angles[shown], confidences, 12, colour, zorder=3, clip_on=False)
    for angle, digit in zip(angles[other], predictions.digits[other], strict=True):
        axes.text(angle, 1.15, str(digit), color=RED, fontsize=7.5, ha="center", va="center")
    axes.set_theta_zero_location("N")  # the image as it is; rotations go counter-clockwise
    axes.set_ylim(0, 1)
    axes.set_yticks([0.5, 1], ["", ""])
    axes.set_xticks(np.radians([0, 90, 180, 270]), ["0°", "90°", "180°", "270°"])
    axes.tick_params(labelsize=7, labelcolor=MUTED, pad=4)
    axes.grid(color=FRAME, linewidth=0.6)
    axes.spines["polar"].set_color(FRAME)


# Accuracy against the angle ------------------------------------------------------------------


@figure_style()
def accuracy_figure(
    title: str,
    degrees: Sequence[float],
    accuracies: Mapping[str, Sequence[float]],
    digits: Sequence[ReadDigit],
    guessing: float,
) -> Figure:
    """The accuracy of two networks at every angle, and their predictions for digits below.

    Accuracies, by the name of the network, and ``guessing``, what blind guessing reaches, are in
    per cent; curves are closed at 360 degrees, and each digit is drawn below its own angle.
    """
    from matplotlib.lines import Line2D

    if len(accuracies) != len(_NETWORKS):
        raise ValueError(f"the figure compares two networks, got {len(accuracies)}")
    left, across, top, tall, side, line = 1.78, 8.04, 0.82, 2.5, 0.98, 0.34
    below = top + tall + 0.46 + side
    sheet = Sheet(left + across + 0.64, below + 2 * line + 0.1)

    def write(x: float, y: float, text: str, **look: Any) -> None:
        sheet.text(x, y, text, va="center_baseline", **look)

    write(left, 0.24, title, size=12.5, weight="bold")
    plot = sheet.panel(left, top, across, tall)
    _accuracies(plot, degrees, list(accuracies.values()), guessing)
    for row, (name, values) in enumerate(accuracies.items()):
        x, colour = left + row * across / 2, _NETWORKS[row]
        # A legend above the plot, where no curve can run through it.
        ends, high = (x / sheet.width, (x + 0.26) / sheet.width), 1 - 0.55 / sheet.height
        sheet.figure.add_artist(Line2D(ends, (high, high), color=colour, linewidth=2.6))
        label = f"{name}: {np.mean(values):.1f} % over all angles"
        write(x + 0.36, 0.55, label, size=10, weight="bold", color=colour)
        y = below + (row + 0.5) * line
        write(left - 0.55, y, f"{name} reads", color=colour, weight="bold", ha="right")
    for digit in digits:
        x = left + digit.degrees / 360 * across
        _rotated_disc(sheet.panel(x - side / 2, below - side, side, side), digit)
        for row, prediction in enumerate(digit.predictions):
            y = below + (row + 0.5) * line
            right = prediction == digit.label
            mark, colour = ("✓", _RIGHT) if right else ("✗", _WRONG)
            write(x - 0.02, y, prediction, size=14, weight="bold", color=colour, ha="right")
            write(x + 0.05, y, mark, size=11, color=colour)
    return sheet.figure


def _accuracies(
    axes: Axes, degrees: Sequence[float], curves: Sequence[Sequence[float]], guessing: float
) -> None:
    for values, colour, height in zip(curves, _NETWORKS, (4, 3), strict=True):
        axes.plot([*degrees, 360], [*values, values[0]], color=colour, linewidth=2.6, marker="o",
                  markersize=4.2, clip_on=False, zorder=height)  # fmt: skip
    axes.axhline(guessing, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    axes.annotate("guessing", (1, guessing), (6, 0), size=8, color=MUTED, va="center",
                  xycoords=("axes fraction", "data"), textcoords="offset points")  # fmt: skip
    axes.set(xlim=(0, 360), ylim=(0, 100))
    axes.set_xticks(range(0, 361, 45), [f"{angle}°" for angle in range(0, 361, 45)])
    axes.set_yticks(range(0, 101, 25), [f"{part} %" for part in range(0, 101, 25)])
    axes.set_ylabel("test digits read correctly", labelpad=8)
    light(axes)
    axes.tick_params(pad=7, labelcolor=INK)


def _rotated_disc(axes: Axes, digit: ReadDigit) -> None:
    """A digit in a disc, and a pointer on its rim to where its top has moved."""
    from matplotlib.patches import Circle, RegularPolygon

    bare(axes)
    shown = axes.imshow(digit.image, cmap="gray", vmin=0, vmax=1, extent=(-1, 1, -1, 1),
                        interpolation="bicubic")  # fmt: skip
    shown.set_clip_path(Circle((0, 0), 1, transform=axes.transData))
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
    theta = math.radians(digit.degrees)
    tip = (-1.13 * math.sin(theta), 1.13 * math.cos(theta))
    axes.add_patch(RegularPolygon(tip, 3, radius=0.12, orientation=theta, color=INK))
