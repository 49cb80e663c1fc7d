"""What a rotation of the input does: errors of layers, responses of filters, and feature maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hnets.plot.style import BLUE, GREEN, INK, MUTED, ORANGE, RED, Sheet, bare, figure_style, light
from hnets.predict.rendering import colour_wheel, phase_colours
from hnets.studies.equivariance import SOURCES, NetworkErrors
from hnets.studies.numbers import percent
from hnets.studies.rotated_image import DISC, RotatedImage
from hnets.studies.stability import FILTERS, PATCHES, Response, Stability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Equivariance --------------------------------------------------------------------------------


@figure_style()
def equivariance_figure(studies: Sequence[NetworkErrors]) -> Figure:
    """Networks side by side: error against angle above, where it comes from below."""
    left, panel, gap, top, high, low = 0.85, 4.9, 0.75, 0.72, 2.5, 2.2
    down = top + high + 1.0
    sheet = Sheet(left + len(studies) * (panel + gap), down + low + 1.05)
    layers = [layer for study in studies for layer in study.layers]
    ceiling = min(max(108 * max(max(layer.errors) for layer in layers), 1.0), 160.0)
    bars = min(112 * max(layer.total for layer in layers), ceiling)
    for column, study in enumerate(studies):
        x = left + column * (panel + gap)
        note = "error against the angle of the input, layer by layer"
        sheet.heading(x, 0.32, study.network, note)
        _curves(sheet.panel(x, top, panel, high), study, ceiling)
        note = "where it comes from: squares of the parts add up to the square of the bar"
        sheet.text(x, down - 0.13, note, size=8.5, color=MUTED)
        _bars(sheet.panel(x, down, panel, low), study, bars, legend=column == 0)
    return sheet.figure


def _curves(axes: Axes, study: NetworkErrors, ceiling: float) -> None:
    from matplotlib import colormaps

    layers = [layer for layer in study.layers if layer.kind == "layer"]
    for number, layer in enumerate(layers):
        colour = colormaps["viridis"](0.92 * number / max(1, len(layers) - 1))
        label = layer.name if number in (0, len(layers) - 1) or len(layers) <= 7 else None
        errors = [100 * error for error in layer.errors]
        axes.plot(study.angles, errors, color=colour, label=label, linewidth=1.3)
    errors = [100 * error for error in study.layers[-1].errors]
    axes.plot(study.angles, errors, color=INK, linestyle=(0, (3, 2)), linewidth=1.3, label="output")
    axes.set(xlim=(min(study.angles), max(study.angles)), ylim=(0, ceiling))
    if max(study.angles) == 360:
        _degrees(axes, 90)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    light(axes, "y", labels=8)
    axes.legend(frameon=False, fontsize=7.5, ncols=4, loc="upper left", handlelength=1.4,
                bbox_to_anchor=(-0.02, -0.09), columnspacing=1.2)  # fmt: skip


def _bars(axes: Axes, study: NetworkErrors, ceiling: float, legend: bool) -> None:
    names = [layer.name.replace("layer ", "").replace("pooling ", "p") for layer in study.layers]
    base = np.zeros(len(names))
    totals = np.array([100 * layer.total for layer in study.layers])
    for source, colour in zip(SOURCES, (BLUE, ORANGE, "#afb8c1", RED), strict=True):
        squares = np.nan_to_num([100 * layer.sources[source] for layer in study.layers]) ** 2
        parts = np.divide(squares, totals, out=np.zeros_like(totals), where=totals > 0)
        axes.bar(range(len(names)), parts, 0.72, base, color=colour, label=source)
        base += parts
    for number, total in enumerate(totals):
        if total > ceiling:
            axes.text(number, 0.97 * ceiling, f"{total:.0f}", size=7, ha="center", va="top",
                      color="white")  # fmt: skip
    axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(0, ceiling))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    axes.set_xlabel("layer; p is the pooling after it", size=8.5, color=MUTED)
    light(axes, "y", labels=8)
    axes.set_xticks(range(len(names)), names, size=8 if len(names) < 12 else 7)
    if legend:
        axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper left", handlelength=1,
                    bbox_to_anchor=(-0.02, -0.22), columnspacing=1.2)  # fmt: skip


# Stability -----------------------------------------------------------------------------------


@figure_style()
def stability_figure(study: Stability) -> Figure:
    """Magnitudes against the angle: one row per layer, one column per kind of patch."""
    layers = list(dict.fromkeys(response.layer for response in study.responses))
    left, panel, gap, top, high, step, side = 0.75, 4.0, 0.35, 1.22, 1.6, 2.05, 0.76
    sheet = Sheet(left + len(study.shown) * (panel + gap), top + len(layers) * step + 0.1)
    for column, (kind, patch) in enumerate(study.shown.items()):
        x = left + column * (panel + gap)
        sheet.image(x, 0.1, side, side, patch, interpolation=None)
        note = f"{PATCHES} of them, {FILTERS} filters of {study.kernel_size}×{study.kernel_size}"
        sheet.heading(x + side + 0.12, 0.4, f"{kind} patches", note)
        for row, layer in enumerate(layers):
            axes = sheet.panel(x, top + row * step, panel, high)
            _responses(axes, study.degrees, study.find(layer, kind))
            axes.set_title("" if column else layer, loc="left", size=9.5, weight="bold")
            axes.tick_params(labelleft=not column, labelbottom=row == len(layers) - 1)
            axes.set_ylabel("" if column else "magnitude / mean")
    middle = (left + sheet.width - gap) / 2
    text = "the patch rotated by, counter-clockwise"
    sheet.text(middle, sheet.height - 0.1, text, ha="center")
    return sheet.figure


def _responses(axes: Axes, degrees: NDArray[np.float64], responses: Sequence[Response]) -> None:
    """The middle filter of each order as a line, and where four fifths of all of them lie."""
    degrees = np.append(degrees, 360)
    colours = {0: INK, 1: BLUE, 2: GREEN, None: ORANGE}  # of the orders, as in the paper
    for response in responses:
        colour = colours[response.order]
        curves = np.concatenate([response.curves, response.curves[:, :1]], axis=1)
        low, high = np.percentile(curves, (10, 90), axis=0)
        axes.fill_between(degrees, low, high, color=colour, alpha=0.16, linewidth=0)
        middle = np.argsort(curves.std(1))[len(curves) // 2]
        name = "" if response.order is None else f"m = {response.order}: "
        label = f"{name}{percent(response.deviation)}"
        axes.plot(degrees, curves[middle], color=colour, linewidth=1.4, label=label)
    axes.set(xlim=(0, 360), ylim=(0, 2.6))
    _degrees(axes, 45)
    axes.set_yticks([0, 1, 2])
    light(axes, labels=8)
    axes.legend(
        loc="upper center", ncols=3, frameon=False, fontsize=8.5, handlelength=1.4,
        borderaxespad=0.1, columnspacing=1.5, title="", labelcolor="linecolor",
    )  # fmt: skip


def _degrees(axes: Axes, step: int) -> None:
    axes.set_xticks(range(0, 361, step), [f"{angle}°" for angle in range(0, 361, step)])


# Feature maps of a rotated image -------------------------------------------------------------


@figure_style()
def rotation_figure(study: RotatedImage) -> Figure:
    """An image and its maps: upright, rotated, moved back, and what is left.

    A phase is a hue and a magnitude a brightness, as in `hnets.predict.rendering.phase_colours`.
    Each map has one scale of brightness down its column.
    """
    step, side, left, top = 2.0, 1.91, 0.405, 0.605
    sheet = Sheet(0.46 + step * (1 + len(study.maps)), 0.9 + 4 * step)
    rows = [top, top + step, top + 2 * step, top + 3 * step + 0.24]
    angle = f"{study.degrees:g}°"
    names = ("upright", f"rotated by {angle}", "pixels moved back", "what is left")
    for down, name in zip(rows, names, strict=True):
        sheet.text(0.2, down + side / 2, name, rotation=90, ha="center", va="center", size=10)
    note = f"an image, rotated by θ = {angle}"
    sheet.heading(left + side / 2, 0.24, "input", note, ha="center")
    _disc(sheet, left, rows[0], study.upright)
    _disc(sheet, left, rows[1], study.rotated)
    _legend(sheet.panel(left, rows[2], side, side), study.degrees)
    text = (
        "Moved back, a map of\norder m differs from the\nupright one by exp(imθ).\n"
        "Without that factor this\nis left, in per cent of\nthe map: the error of\n"
        "working with pixels."
    )
    look = {"ha": "center", "va": "center", "size": 8.5, "color": MUTED, "linespacing": 1.35}
    sheet.text(left + side / 2, rows[3] + side / 2, text, **look)
    for column, one in enumerate(study.maps, start=1):
        x = left + step * column
        sheet.heading(x + side / 2, 0.24, one.title, one.note, ha="center")
        ceiling = float(np.percentile(np.abs(one.upright), 99.5)) or 1.0
        for down, z in zip(rows, (one.upright, one.rotated, one.moved_back), strict=False):
            has_phase = np.iscomplexobj(z)
            _disc(sheet, x, down, phase_colours(z, ceiling) if has_phase else np.abs(z) / ceiling)
        axes = _disc(sheet, x, rows[3], np.abs(one.difference) / ceiling)
        axes.set_title(f"{100 * one.error:.0f} %", pad=4)
    return sheet.figure


def _disc(sheet: Sheet, left: float, top: float, pixels: NDArray[np.floating]) -> Axes:
    from matplotlib.patches import Circle

    look = {"extent": (-1, 1, -1, 1), "interpolation": "antialiased"}
    axes = sheet.image(left, top, 1.91, 1.91, pixels, **look)
    axes.images[0].set_clip_path(Circle((0, 0), DISC, transform=axes.transData))
    axes.set(xlim=(-DISC, DISC), ylim=(-DISC, DISC))
    return axes


def _legend(axes: Axes, degrees: float) -> None:
    """The colour wheel, with the rotation drawn on it."""
    from matplotlib.patches import FancyArrowPatch

    bare(axes)
    axes.imshow(colour_wheel(), extent=(-1, 1, -1, 1))
    axes.set(xlim=(-1.55, 1.55), ylim=(-1.75, 1.35))
    end = math.radians(degrees)
    axes.add_patch(
        FancyArrowPatch(
            (1.12, 0), (1.12 * math.cos(end), 1.12 * math.sin(end)),
            connectionstyle=f"arc3,rad={math.tan(end / 4):.4f}", arrowstyle="-|>",
            mutation_scale=10, color=INK, linewidth=1.2, shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
    x, y = 1.22 * math.cos(end / 2), 1.22 * math.sin(end / 2)
    axes.text(x, y, f"{degrees:g}°", va="center")
    note = "colour: phase\nbrightness: magnitude"
    axes.text(0, -1.2, note, ha="center", va="top", fontsize=8.5, color=MUTED, linespacing=1.35)
