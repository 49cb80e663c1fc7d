"""One look for all figures, and files that appear only when they are complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "INK", "MUTED", "PlottingMissing", "bare", "new_figure", "save", "style"]

INK = "#1f2328"
MUTED = "#656d76"
FORMATS = ("png", "svg", "pdf")


class PlottingMissing(ImportError):
    """A package that only figures need is not installed."""


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of the project, and leave the user's own settings alone."""
    try:
        import matplotlib
    except ImportError:
        raise PlottingMissing('figures need matplotlib: pip install "hnets[plot]"') from None
    settings = {
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


def save(figure: Figure, path: str | os.PathLike[str], dpi: int = 150) -> Path:
    """Write a figure as PNG, SVG or PDF; a reader never sees a half-written file.

    The folder is made if need be.
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ValueError(f"a figure is written as .{', .'.join(FORMATS)}, got {str(path)!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    dates = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    try:
        with style():
            figure.savefig(part, format=kind, dpi=dpi, metadata=dates[kind])
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path
