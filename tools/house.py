"""The house as it stands: who imports whom, and which files a walk passes through.

    python tools/house.py           # draws docs/images/house.svg, writes the walks to docs/built.md
    python tools/house.py --json    # prints the walks

`tests/test_layering.py` holds the house to the order given here.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import io
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hnets"
LIBRARY = {
    "errors": 0, "files": 0, "devices": 1, "streams": 1, "basis": 1, "plan": 2,
    "initialisation": 3, "functional": 3, "nn": 4, "models": 5, "testing": 5, "export": 6,
    "_cost": 6, "timm": 6, "_convert": 7,
}  # fmt: skip
"""Parts of the library; each imports only parts of a lower number."""
LABORATORY = ("data", "metrics", "train", "predict", "studies", "plot", "web", "cli")
"""Rooms of the laboratory; each imports the library and rooms before it. The command starts the
page, so `web` stands before `cli`."""
EVERYWHERE = {"errors", "files", "devices"}
"""Used by every room; left out of the diagram."""
LAYERS = ("nn", "functional", "streams.py", "basis.py", "plan.py", "initialisation.py")
"""What a network is made of: a walk to an output counts the network as its own file alone."""

_MODULE = re.compile(r"hnets(\.\w+)+\.?")


def part_of(path: Path) -> str:
    """The room or part of the library that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The modules of the package that a file names: in imports, wherever they stand, and in texts.

    A text counts if it is a module's dotted name or, in an f-string, begins with one: that is how
    `importlib.import_module` refers to modules. A name of the package itself, such as
    `hnets.create_model`, is that of the module it comes from.
    """
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.level:
                raise ValueError(f"{path} imports by a relative name")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Constant) and _MODULE.fullmatch(str(node.value)):
            names.add(str(node.value))
    origins = _origins()
    return {origins.get(name, name) for name in names if name.startswith("hnets.")}


@functools.cache
def _origins() -> dict[str, str]:
    """The modules that names of the package come from, as its front door lists them."""
    for node in ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_MODULES":
            table: dict[str, tuple[str, ...]] = ast.literal_eval(node.value)
            return {
                f"hnets.{name}": f"hnets.{module}" for module in table for name in table[module]
            }
    raise LookupError("hnets/__init__.py has no table _MODULES")


def parts_imported(path: Path) -> set[str]:
    """The rooms and parts of the library that a file names, less its own."""
    known = LIBRARY.keys() | set(LABORATORY)
    return {name.split(".")[1] for name in imports(path)} & known - {part_of(path)}


def modules() -> list[Path]:
    """Every Python file of the package."""
    return sorted(SOURCE.rglob("*.py"))


def walk(function: Callable[[], object]) -> list[str]:
    """The files of the package whose functions run, in the order in which they are entered.

    The bodies of modules and classes, which run when a file is imported, do not count.
    """
    files: dict[str, None] = {}
    prefix = str(SOURCE) + os.sep

    def enter(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        inside = code.co_filename.startswith(prefix)
        if event == "call" and inside and code.co_flags & inspect.CO_NEWLOCALS:
            files.setdefault(Path(code.co_filename).relative_to(SOURCE).as_posix())

    threading.setprofile(enter)  # files are read and written by threads
    sys.setprofile(enter)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(files)


def walk_edges() -> list[str]:
    """From ``hnets edges photo.png`` to the pixels of the written file."""
    import numpy as np
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        photo = Path(folder) / "photo.png"
        Image.fromarray(np.arange(40 * 48 * 3, dtype=np.uint8).reshape(40, 48, 3)).save(photo)
        return _walk_command("edges", str(photo), "-o", folder)


def walk_training() -> tuple[list[str], list[str]]:
    """From ``hnets train`` to the first training step, and through that step."""
    import numpy as np
    from PIL import Image

    from hnets.train.step import Learner

    reach, step, plain_step = list[str](), list[str](), Learner.step

    def first_step(learner: Learner) -> None:
        sys.setprofile(None)
        if not step:
            step.extend(walk(lambda: plain_step(learner)))
        else:
            plain_step(learner)

    with tempfile.TemporaryDirectory() as folder:
        for kind in ("light", "dark"):
            (Path(folder) / "images" / kind).mkdir(parents=True)
            for number in range(10):
                image = np.full((16, 16), 20 * number + 50 * (kind == "light"), np.uint8)
                Image.fromarray(image).save(Path(folder) / "images" / kind / f"{number}.png")
        recipe = Path(folder) / "recipe.toml"
        recipe.write_text(
            'title = "two kinds"\n[model]\nname = "hnet_mnist"\n[data]\n'
            f'name = "{folder}/images"\nsize = 16\n[training]\nepochs = 1\nbatch = 4\n'
        )
        Learner.step = first_step
        try:
            reach = _walk_command("train", str(recipe), "--out", f"{folder}/run")
        finally:
            Learner.step = plain_step
    return reach, step


def walk_convolution() -> list[str]:
    """A forward pass of `hnets.nn.HConv2d` in eager mode."""
    import torch

    from hnets import nn as hnn

    layer, x = hnn.HConv2d("8x0 + 8x1", "8x0 + 8x1", 5), torch.randn(1, 32, 8, 8)
    return walk(lambda: layer(x))


def _walk_command(*arguments: str) -> list[str]:
    with contextlib.redirect_stdout(io.StringIO()):
        _command(arguments[0], "--help")  # what is imported for the command is no part of the walk
        return walk(lambda: _command(*arguments))


def _command(*arguments: str) -> None:
    from hnets.cli import main

    before, sys.argv = sys.argv, ["hnets", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before


def _narrowed(name: str, width: float) -> str:
    """The style of a name that would not fit in a box."""
    size = min(13.0, 1.8 * width / len(name))
    return f' style="font-size:{size:.1f}px"' if size < 13 else ""


def diagram() -> str:
    """An SVG: rooms on two floors, and an arc from each to those that it imports."""
    arrows = {
        (part_of(path), other)
        for path in modules()
        if part_of(path) in LIBRARY.keys() | set(LABORATORY)
        for other in parts_imported(path) - EVERYWHERE
        if part_of(path) not in EVERYWHERE
    }
    library = sorted(LIBRARY.keys() - EVERYWHERE, key=lambda part: (LIBRARY[part], part))
    floors = ((LABORATORY, 170, "laboratory"), (library, 390, "library"))
    wide, places, body = 1060, {}, list[str]()
    for rooms, height, title in floors:
        step = wide / len(rooms)
        body.append(f'<text class="floor" x="14" y="{height + 64}">{title}</text>')
        for number, room in enumerate(rooms):
            places[room] = 20 + step * (number + 0.5), height
            x, y = places[room]
            half = step / 2 - 6
            body.append(
                f'<rect x="{x - half:.0f}" y="{y}" width="{2 * half:.0f}" height="42" rx="7"/>'
                f'<text x="{x:.0f}" y="{y + 26}"{_narrowed(room, 2 * half)}>'
                f"{room.strip('_')}</text>"
            )
    for start, end in sorted(arrows):
        (x1, y1), (x2, y2) = places[start], places[end]
        if y1 == y2:  # an arc above the floor, always to the left
            rise = 16 + 0.17 * abs(x1 - x2)
            path = (
                f"M{x1:.0f},{y1} C{x1:.0f},{y1 - rise:.0f} {x2:.0f},{y2 - rise:.0f} {x2:.0f},{y2}"
            )
        else:
            path = f"M{x1:.0f},{y1 + 42} C{x1:.0f},{y1 + 130} {x2:.0f},{y2 - 110} {x2:.0f},{y2}"
        kind = "within" if y1 == y2 else "down"
        body.append(f'<path class="{kind}" d="{path}"/>')
    style = (
        "text{font:600 13px system-ui,sans-serif;text-anchor:middle;fill:#1d2a3a}"
        ".floor{text-anchor:start;font-size:12px;fill:#5b6b7d}"
        "rect{fill:#eef4fb;stroke:#7fa3cc}path{fill:none}"
        ".within{stroke:#2f6db3;opacity:.75}.down{stroke:#c3ccd6;opacity:.55}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide + 40} 470">'
        f'<style>{style}</style><rect width="100%" height="100%" style="fill:#fff;stroke:none"/>\n'
        + "\n".join(sorted(body, key=lambda line: not line.startswith("<path")))
        + "\n</svg>\n"
    )


def outside(files: list[str]) -> list[str]:
    """The files of a walk that are no part of the inside of a network.

    A network that builds on another one is its own file, and the other is inside of it.
    """
    shown = [file for file in files if not file.startswith(LAYERS)]
    networks = [file for file in shown if file.startswith("models/_h")]
    return [file for file in shown if file not in networks[1:]]


def walks() -> dict[str, list[str]]:
    """The files of the walks, by what is walked."""
    reach, step = walk_training()
    return {
        "`hnets edges photo.png`, from the command to the pixels": walk_edges(),
        "`hnets train recipe.toml`, from the command to the first step": reach,
        "a training step": step,
        "`HConv2d.forward`": walk_convolution(),
    }


def page_of(files_by_walk: dict[str, list[str]]) -> str:
    """The walks as Markdown."""
    lines = []
    for title, files in files_by_walk.items():
        listed = files if "HConv2d" in title else outside(files)
        inside = len(files) - len(listed)
        more = f", and {inside} inside the network" if inside else ""
        lines += [f"**{title}**: {len(listed)} files{more}", ""]
        lines += [f"{number}. `{file}`" for number, file in enumerate(listed, start=1)]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.path.insert(0, str(SOURCE.parent))
    found = walks()
    if sys.argv[1:] == ["--json"]:
        json.dump(found, sys.stdout)
        sys.exit()
    (ROOT / "docs" / "images" / "house.svg").write_text(diagram(), encoding="utf-8")
    page = ROOT / "docs" / "built.md"
    head, rest = page.read_text(encoding="utf-8").split("<!-- walks -->")
    tail = rest.split("<!-- /walks -->")[1]
    text = f"{head}<!-- walks -->\n\n{page_of(found)}\n<!-- /walks -->{tail}"
    page.write_text(text, encoding="utf-8")
