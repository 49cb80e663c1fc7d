"""Arrows point one way: a file never imports one that stands above it."""

import ast
import subprocess
import sys
from pathlib import Path

import hnets

SOURCE = Path(hnets.__file__).parent
LAYERS = [
    ["errors"],
    ["devices", "files", "streams"],
    ["basis", "pictures", "weights"],
    ["paths", "data"],
    ["initialisation", "functional", "metrics"],
    ["nn"],
    ["models", "testing"],
    ["cost", "export", "train"],
    ["predict"],
    ["inspect"],
    ["turn", "quickstart", "reproduce", "web"],
    ["cli"],
    ["__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def _imports(path: Path) -> set[str]:
    """The parts of the package that a file names in its imports, wherever they stand in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{path} imports by a relative name"
            names = [node.module]
            if node.module == "hnets":
                names = [f"hnets.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("hnets.")}
    return found


def test_every_file_has_its_place() -> None:
    parts = {p.stem for p in SOURCE.glob("*.py")} | {p.parent.name for p in SOURCE.glob("*/*.py")}
    assert parts - {"__init__"} == set(LEVEL)


def test_no_file_imports_from_above_or_beside() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        wrong += [
            f"{path.relative_to(SOURCE)} imports hnets.{other}"
            for other in _imports(path) & LEVEL.keys() - {part}
            if LEVEL[other] >= LEVEL[part]
        ]
    assert not wrong, "\n".join(wrong)


def test_the_check_sees_imports_inside_functions(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text("def f():\n    from hnets import cli\n    import hnets.export\n")
    assert _imports(file) == {"cli", "export"}


def test_importing_hnets_brings_torch_and_numpy_only_and_says_nothing() -> None:
    code = (
        "import sys, torch, numpy\n"
        "before = set(sys.modules)\n"
        "import hnets\n"
        "new = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'hnets', 'torch', 'numpy'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
