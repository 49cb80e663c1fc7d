"""One look for all figures, and files that appear only when they are complete."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from hnets.errors import MissingExtra
from hnets.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "INK", "MUTED", "bare", "new_figure", "percent", "save", "style"]

INK = "#1f2328"
MUTED = "#656d76"
FORMATS = ("png", "svg", "pdf")


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of the project, and leave the user's own settings alone."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("figures", "matplotlib", "plot") from None
    settings: dict[Any, Any] = {
        "font.family": "DejaVu Sans",  # comes with matplotlib, so pictures agree everywhere
        "font.size": 9.0,
        "text.color": INK,
        "axes.titlesize": 10.0,
        "axes.titlecolor": INK,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "svg.hashsalt": "hnets",
    }
    with matplotlib.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window and no global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))


def bare(axes: Axes) -> None:
    """Leave only the picture: no ticks, no frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_frame_on(False)


def save(
    figure: Figure, path: str | os.PathLike[str], dpi: int = 110, compact: bool = False
) -> Path:
    """Write a figure as PNG, SVG or PDF; a reader never sees a half-written file.

    The folder is made if need be. ``compact`` gives a PNG 256 colours of its own, dithered: a third
    of the bytes, for figures with photographs in them.
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ValueError(f"a figure is written as .{', .'.join(FORMATS)}, got {str(path)!r}")
    dates = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with replacing(path) as part:
        with style():
            figure.savefig(part, format=kind, dpi=dpi, metadata=dates[kind])
        if compact and kind == "png":
            _shrink(part)
    return path


def percent(share: float) -> str:
    """Two digits of a percentage; nothing where it is not known, and "exact" for rounding.

    >>> percent(0.123), percent(0.0123), percent(0.00123), percent(1e-15), percent(0)
    ('12 %', '1.2 %', '0.12 %', 'exact', '0 %')
    """
    if math.isnan(share):
        return ""
    if 0 < share < 1e-9:
        return "exact"
    return f"{100 * share:.{0 if share >= 0.1 or not share else 1 if share >= 0.01 else 2}f} %"


def _shrink(path: Path) -> None:
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    # Chosen from the distinct colours, not from the pixels: a small patch of rare ones counts too.
    coarse = np.asarray(image).astype(np.int64) // 10 @ [26 * 26, 26, 1]
    distinct = np.flatnonzero(np.bincount(np.append(coarse, 0)))  # black is always there
    colours = np.stack(np.unravel_index(distinct, (26, 26, 26)), axis=-1) * 10 + 5
    colours = colours[colours.min(1) < 245]  # else Pillow takes them for white
    chosen = Image.fromarray(colours[None].astype(np.uint8)).quantize(254, kmeans=4).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette([0, 0, 0, 255, 255, 255, *(chosen or [])[: 3 * 254]])
    image.quantize(palette=palette).save(path, format="png", optimize=True)
