"""One look for all figures: colours, a sheet with places in inches, and files that are complete."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from hnets.errors import MissingExtra
from hnets.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, FRAME = "#1f2328", "#656d76", "#d8dee4", "#d0d7de"
BLUE, ORANGE, GREEN, RED = "#1b5fa8", "#c27c0e", "#1f8a5b", "#c0392b"
PURPLE, TEAL = "#8e5bb5", "#3f8f9f"
FORMATS = ("png", "svg", "pdf")


def check_matplotlib() -> None:
    """Raise `MissingExtra` where figures cannot be drawn; called before long work for one."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("figures", "matplotlib", "plot") from None


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw in the style of the project, as a block or a decorator; the user's settings stay."""
    check_matplotlib()
    import matplotlib

    settings: dict[Any, Any] = {
        "font.family": "DejaVu Sans",  # comes with matplotlib, so figures agree everywhere
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


class Sheet:
    """A figure whose panels and texts have places in inches from its upper left corner.

    It belongs to no window and to no global state.
    """

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height))

    def panel(self, left: float, top: float, width: float, height: float, **options: Any) -> Axes:
        """Axes with their upper left corner there; options are those of ``Figure.add_axes``."""
        low = self.height - top - height
        box = (left / self.width, low / self.height, width / self.width, height / self.height)
        return self.figure.add_axes(box, **options)

    def image(
        self,
        left: float,
        top: float,
        width: float,
        height: float,
        pixels: ArrayLike | Image.Image,
        **look: Any,
    ) -> Axes:
        """A panel with an image and nothing else; numbers from 0 to 1 are drawn in greys."""
        axes = self.panel(left, top, width, height)
        bare(axes)
        grey = {"cmap": "gray", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
        axes.imshow(pixels, **{**grey, **look})
        return axes

    def text(self, left: float, top: float, text: str, **look: Any) -> None:
        """A text whose baseline begins there."""
        # Some hold names of files, which need not be UTF-8.
        text = text.encode("utf-8", "replace").decode()
        self.figure.text(left / self.width, 1 - top / self.height, text, parse_math=False, **look)

    def heading(self, left: float, top: float, title: str, note: str = "", **look: Any) -> None:
        """A bold line, and a smaller one below it."""
        self.text(left, top, title, size=11, weight="bold", **look)
        self.text(left, top + 0.22, note, size=8.5, color=MUTED, **look)


def bare(axes: Axes) -> None:
    """Leave only what is drawn: no ticks, no frame."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_frame_on(False)


def light(axes: Axes, grid: Literal["both", "x", "y"] = "both", labels: float = 9.0) -> None:
    """Pale lines behind the curves, and neither frame nor tick marks; ``labels`` is their size."""
    axes.grid(axis=grid, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=labels)
    axes.set_frame_on(False)


def save(
    figure: Figure, path: str | os.PathLike[str], dpi: int = 110, compact: bool = False
) -> Path:
    """Write a figure as PNG, SVG or PDF, whose folder is made if need be; returns its path.

    A file that is there stays until the new one is complete. ``compact`` gives a PNG 256 colours of
    its own, dithered: a third of the bytes, for figures with photographs in them.
    """
    path = Path(path)
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ValueError(f"a figure is written as .{', .'.join(FORMATS)}, got {str(path)!r}")
    dates = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with replacing(path) as part:
        with figure_style(), warnings.catch_warnings():
            # Names of files in scripts that the font does not have are drawn as boxes.
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            figure.savefig(part, format=kind, dpi=dpi, metadata=dates[kind])
        if compact and kind == "png":
            _shrink(part)
    return path


def _shrink(path: Path) -> None:
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    # Chosen from the distinct colours, not from the pixels: a small patch of rare ones counts too.
    coarse = np.asarray(image).astype(np.int64) // 10 @ [26 * 26, 26, 1]
    distinct = np.flatnonzero(np.bincount(np.append(coarse, 0)))  # black is always one
    colours = np.stack(np.unravel_index(distinct, (26, 26, 26)), axis=-1) * 10 + 5
    colours = colours[colours.min(1) < 245]  # else Pillow takes them for white
    chosen = Image.fromarray(colours[None].astype(np.uint8)).quantize(254, kmeans=4).getpalette()
    palette = Image.new("P", (1, 1))
    palette.putpalette([0, 0, 0, 255, 255, 255, *(chosen or [])[: 3 * 254]])
    image.quantize(palette=palette).save(path, format="png", optimize=True)
