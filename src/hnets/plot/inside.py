"""What is inside a network: harmonics, filters, feature maps and orientation maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from hnets.basis import grid
from hnets.plot.style import BLUE, FRAME, GREEN, GRID, INK, MUTED, RED, Sheet, bare, figure_style
from hnets.predict.rendering import colour_wheel, phase_colours
from hnets.studies.features import FeatureMaps, Field, Flow
from hnets.studies.filters import BLANK, FilterStudy, LayerFilters, filter_totals
from hnets.studies.numbers import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

_REACH = 2.1
"""Radius at the edge of a harmonic's image: exp(−r²) has fallen to one part in a hundred."""
_MOST, _MOST_PLAIN = 12, 24
"""First-layer filters that are drawn, of each order and of the plain network."""
_ARROWS = 28
"""Arrows along the longer side of a map, or fewer if it has fewer pixels."""
_FAINT, _PALE = 0.12, 0.7
"""Parts of the order's largest magnitude: fainter values have no arrow, as their phase says
nothing; brighter ones have dark arrows."""


# Harmonics -----------------------------------------------------------------------------------


def circular_harmonic(order: int, size: int = 256) -> NDArray[np.complex128]:
    """exp(−r²)·exp(i·order·φ) on ``(size, size)`` pixels, y up.

    >>> w = circular_harmonic(1, size=64)
    >>> bool(np.allclose(circular_harmonic(-1, size=64), w.conj()))
    True
    """
    radius, phi = grid(size)
    r = radius * (2 * _REACH / size)
    return np.exp(-(r**2) + 1j * order * phi)


@figure_style()
def harmonics_figure(orders: Sequence[int] = (-2, -1, 0, 1, 2, 3), size: int = 240) -> Figure:
    """Real and imaginary parts of the harmonics, and their phases as colours.

    The paper's first figure of its filters, with a Gaussian envelope.
    """
    from matplotlib.colors import LinearSegmentedColormap

    signed = LinearSegmentedColormap.from_list("signed", [BLUE, "white", RED])
    smooth = {"interpolation": "antialiased"}
    step, side, left, top = 1.3, 1.24, 0.42, 0.36
    sheet = Sheet(left + step * (len(orders) + 1), top + 3 * step)
    radius, _ = grid(size)
    inside = np.clip(size / 2 - radius, 0, 1)[..., None]  # the largest disc
    for column, order in enumerate(orders):
        w, x = circular_harmonic(order, size), left + column * step
        for row, part in enumerate((w.real, w.imag)):
            sheet.image(x, top + row * step, side, side, part, cmap=signed, vmin=-1, **smooth)
        colours = np.concatenate([phase_colours(w, ceiling=1), inside], axis=-1)
        sheet.image(x, top + 2 * step, side, side, colours, **smooth)
        name = f"m = {order}".replace("-", "−")
        sheet.text(x + side / 2, 0.28, name, ha="center", size=10)
    for row, name in enumerate(("real part", "imaginary part", "phase as colour")):
        middle = top + row * step + side / 2
        sheet.text(0.25, middle, name, rotation=90, ha="center", va="center", size=9)
    x = left + len(orders) * step
    inner = side - 0.52
    sheet.image(x + 0.26, top + 2 * step + 0.26, inner, inner, colour_wheel(size), **smooth)
    sheet.text(x + side / 2, top + 2 * step + 0.19, "phase", ha="center", size=8.5, color=MUTED)
    return sheet.figure


# Filters -------------------------------------------------------------------------------------


@figure_style()
def filters_figure(study: FilterStudy) -> Figure:
    """The first layers of both networks side by side, and the phases of every layer below."""
    orders = list(dict.fromkeys(each.order for each in study.first))
    rows = [[each for each in study.first if each.order == order][:_MOST] for order in orders]
    plain = study.plain_first[:_MOST_PLAIN]
    plain_across = -(-len(plain) // 3)
    roses = [layer for layer in study.layers if layer.phases.size]
    left, top, cell, step = 0.62, 0.78, 0.62, 0.72
    plain_left = left + max(map(len, rows)) * step + 0.45
    width = max(plain_left + plain_across * step + 0.15, 9.6)
    rose = min(1.5, (width - left) / max(len(roses), 1))
    height = top + max(0.08 + len(rows) * (2 * step + 0.1), 3 * step) + 0.5 + rose + 1.0
    sheet = Sheet(width, height)

    colours = len(study.first[0].aligned) == 3
    below = "below, the phase β of each colour" if colours else "below each, its phase β"
    note = f"real parts, aligned at phase 0; {below}"
    sheet.heading(0.15, 0.3, f"first layer of {study.network}", note)
    limit = max(float(np.abs(each.aligned).max()) for each in study.first)
    for row, line in enumerate(rows):
        down = top + row * (2 * step + 0.1)
        sheet.text(0.15, down + cell / 2, f"m = {orders[row]}", va="center", size=9.5)
        for column, each in enumerate(line):
            x = left + column * step
            sheet.image(x, down, cell, cell, _grey(each.aligned, limit))
            if each.phases:
                strong = np.linalg.norm(each.aligned, axis=(1, 2)) > BLANK * limit
                _dial(sheet.panel(x, down + step, cell, cell), each.phases, strong)
    sheet.heading(plain_left, 0.3, f"first layer of {study.plain}", "as they are")
    limit = float(np.abs(plain).max())
    for number, kernel in enumerate(plain):
        row, column = divmod(number, plain_across)
        x, down = plain_left + column * step, top + row * step
        sheet.image(x, down, cell, cell, _grey(kernel, limit))

    down = height - rose - 1.0
    sheet.text(0.15, down - 0.34, "phases β of every layer", size=11, weight="bold")
    note = "area is number; evenness is 1 if they are spread evenly, 0 if all agree"
    sheet.text(2.35, down - 0.34, note, color=MUTED, size=8.5)
    for number, layer in enumerate(roses):
        x, side = left + number * (width - left) / len(roses), rose - 0.3
        axes = sheet.panel(x, down + 0.02, side, side, projection="polar")
        _rose(cast("PolarAxes", axes), layer.phases)
        middle, text = x + side / 2, f"{layer.phases.size:,} · {layer.evenness:.2f}"
        sheet.text(middle, down + rose - 0.06, layer.name, ha="center", size=8.5)
        sheet.text(middle, down + rose + 0.11, text, ha="center", size=7.5, color=MUTED)
    sheet.text(0.15, height - 0.42, _counts(study.network, study.layers))
    sheet.text(0.15, height - 0.2, _counts(study.plain, study.plain_layers))
    return sheet.figure


def _counts(name: str, layers: Sequence[LayerFilters]) -> str:
    parts = []
    for where, some in (("first layer", layers[:1]), ("all layers", layers)):
        count, blank, copies = filter_totals(some)
        parts.append(f"{where}: {percent(blank)} blank, {percent(copies)} near-copies of {count:,}")
    return f"{name}, filters of the " + "; of ".join(parts)


def _grey(kernel: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
    """Pixels of a kernel, in grey or in the colours of its three channels; 0 is mid-grey."""
    shown = 0.5 + 0.5 * kernel / limit
    return np.moveaxis(shown, 0, -1) if len(kernel) == 3 else np.asarray(shown.mean(0))


def _dial(axes: Axes, phases: Sequence[float], strong: NDArray[np.bool_]) -> None:
    """A circle with a hand per channel, a pale one if the channel's filter is nearly empty."""
    from matplotlib.patches import Circle

    bare(axes)
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor="#afb8c1", linewidth=1))
    colours = (RED, GREEN, BLUE) if len(phases) == 3 else (INK,) * len(phases)
    for beta, colour, dark in zip(phases, colours, strong, strict=True):
        axes.plot([0, np.cos(beta)], [0, np.sin(beta)], color=colour, linewidth=2,
                  solid_capstyle="round", alpha=1 if dark else 0.25)  # fmt: skip


def _rose(axes: PolarAxes, phases: NDArray[np.float64]) -> None:
    bins = 24 if phases.size >= 100 else 12
    counts, edges = np.histogram(phases, bins, (0, 2 * np.pi))
    radius = np.sqrt(counts / max(counts.max(), 1))  # so that areas are numbers
    middle = (edges[:-1] + edges[1:]) / 2
    axes.bar(middle, radius, 2 * np.pi / bins * 0.92, color=BLUE, linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_xticks(np.radians([0, 90, 180, 270]), ["", "", "", ""])
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines["polar"].set_color(FRAME)


# Feature maps --------------------------------------------------------------------------------


@figure_style()
def features_figure(study: FeatureMaps) -> Figure:
    """The fields beside the image: magnitude as colour, phase as arrows."""
    lines: list[list[Field]] = []
    for order in dict.fromkeys(field.order for field in study.fields):
        own = [field for field in study.fields if field.order == order]
        per_line = math.ceil(len(own) / math.ceil(len(own) / 4))
        lines += [own[at : at + per_line] for at in range(0, len(own), per_line)]
    rows, columns = study.image.shape[:2]
    side, gap, top, left, head = 2.3, 0.12, 0.66, 0.15, 0.26
    wide, tall = side * min(1.0, columns / rows), side * min(1.0, rows / columns)
    width = left + (max(map(len, lines)) + 1) * (wide + gap) + 0.9
    sheet = Sheet(width, top + len(lines) * (tall + head + gap))
    counts = ((study.weaker, "weaker"), (study.empty, "empty"))
    missing = " and ".join(f"{count} {what}" for count, what in counts if count)
    note = "arrows are phases" + (f"; {missing} maps are not shown" if missing else "")
    sheet.heading(left, 0.3, f"{study.layer} of {study.network}", note)
    axes = sheet.image(left, top + head, wide, tall, study.image)
    axes.set_title("what the network sees", size=8.5, color=MUTED, pad=4)
    for row, line in enumerate(lines):
        own = [field for field in study.fields if field.order == line[0].order]
        ceiling = max(float(np.abs(field.values).max()) for field in own) or 1.0
        for column, field in enumerate(line, 1):
            z = field.values / ceiling
            x, down = left + column * (wide + gap), top + row * (tall + head + gap) + head
            axes = sheet.image(x, down, wide, tall, np.abs(z), cmap="viridis")
            _arrows(axes, z)
            axes.set_title(f"m = {field.order}, map {field.number}", size=8.5, pad=4)
    bar = sheet.panel(width - 0.8, top + head, 0.14, tall)
    sheet.figure.colorbar(axes.images[0], cax=bar)
    bar.tick_params(labelsize=7.5, length=0)
    bar.set_ylabel("magnitude / largest of its order", size=8, color=MUTED)
    bar.spines[:].set_visible(False)
    return sheet.figure


def _arrows(axes: Axes, field: NDArray[np.complex64]) -> None:
    height, width = field.shape
    step = max(1, math.ceil(max(height, width) / _ARROWS))
    y, x = np.mgrid[step // 2 : height : step, step // 2 : width : step]
    z = field[y, x]
    size = np.abs(z)
    for wanted, colour in (((size > _FAINT) & (size <= _PALE), "white"), (size > _PALE, INK)):
        unit = z[wanted] / size[wanted]
        axes.quiver(
            x[wanted], y[wanted], unit.real, unit.imag, color=colour, pivot="middle",
            angles="uv", scale=1 / (0.85 * step), scale_units="x", units="x",
            width=0.09 * step, headwidth=4, headlength=4, headaxislength=3.6,
        )  # fmt: skip


@figure_style()
def flow_figure(study: Flow) -> Figure:
    """The image, its orientation maps, and the colour wheel."""
    height, width = study.image.shape[:2]
    wide = max(2.4, 3.0 * min(1.0, width / height))  # room for titles and for the note
    tall = wide * height / width
    gap, head = 0.12, 0.3
    down = 0.08 + 2 * (tall + head) + 0.2
    sheet = Sheet(0.15 + 3 * (wide + gap), down + 1.3)
    panels: list[tuple[str, NDArray[np.floating]]] = [("image", study.image)]
    for each in study.maps:
        rows, columns = each.values.shape
        title = f"layer {each.layer}: {columns}×{rows} pixels"
        panels.append((title, phase_colours(each.values)))
    for number, (title, pixels) in enumerate(panels):
        row, column = divmod(number, 3)
        x, y = 0.15 + column * (wide + gap), 0.08 + row * (tall + head) + head
        axes = sheet.image(x, y, wide, tall, pixels)
        axes.set_title(title, size=9.5, weight="bold", pad=5)
    sheet.image(0.25, down, 1.2, 1.2, colour_wheel(), interpolation=None)
    text = (
        f"{study.network}, fields of order 1. Colour is the direction from dark to bright:\n"
        "red where it gets brighter to the right, and on counter-clockwise. Brightness is\n"
        "magnitude. The phase offset of each field is subtracted, so that one colour means\n"
        "one direction in all layers."
    )
    sheet.text(1.7, down + 0.6, text, va="center", size=9, linespacing=1.5)
    return sheet.figure
