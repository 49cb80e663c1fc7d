"""The house: two floors, rooms in order, and each name once."""

import ast
import importlib
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import house

ROOT = Path(__file__).parents[1]

PARALLEL = {"reference", "cpu", "triton"}
"""The same parts of parallel operations: the only module names that may stand more than once."""
FRONT_DOOR = {"__init__", "__main__"}


def test_every_file_has_its_room() -> None:
    parts = {house.part_of(path) for path in house.modules()}
    assert parts - FRONT_DOOR == house.LIBRARY.keys() | set(house.LABORATORY)


def test_the_library_imports_nothing_of_the_laboratory_and_only_lower_parts() -> None:
    wrong = [
        f"{path.relative_to(house.SOURCE)} imports {other}"
        for path in house.modules()
        if house.part_of(path) in house.LIBRARY
        for other in house.parts_imported(path)
        if house.LIBRARY.get(other, 99) >= house.LIBRARY[house.part_of(path)]
    ]
    assert not wrong, "\n".join(wrong)


def test_a_room_of_the_laboratory_imports_only_the_library_and_rooms_before_it() -> None:
    order = {room: place for place, room in enumerate(house.LABORATORY)}
    wrong = [
        f"{path.relative_to(house.SOURCE)} imports {other}"
        for path in house.modules()
        if house.part_of(path) in order
        for other in house.parts_imported(path) & order.keys()
        if order[other] >= order[house.part_of(path)]
    ]
    assert not wrong, "\n".join(wrong)


def test_late_imports_and_modules_named_in_texts_count(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text(
        "def f(name):\n    from hnets import cli\n    import hnets.export\n"
        "    import_module('hnets.studies.svm')\n    import_module(f'hnets.plot.{name}')\n"
        "    from hnets import EdgeDetector\n    return hnets.data.load, hnets.create_model\n"
    )
    names = {"cli", "export", "studies.svm", "plot.", "predict", "data", "models"}
    assert house.imports(file) == {f"hnets.{name}" for name in names}


def test_no_two_modules_share_a_name() -> None:
    places = defaultdict(list)
    for path in house.modules():
        name = path.parent.name if path.stem == "__init__" else path.stem
        if name not in PARALLEL | FRONT_DOOR:
            places[name.strip("_")].append(str(path.relative_to(house.SOURCE)))
    assert not [files for files in places.values() if len(files) > 1]


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path in house.modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(house.SOURCE)))
    assert not [files for files in places.values() if len(files) > 1]


def test_no_name_of_a_package_hides_one_of_its_modules() -> None:
    hidden = []
    for path in house.modules():
        if path.stem in FRONT_DOOR or "import triton" in path.read_text(encoding="utf-8"):
            continue  # triton comes with torch for CUDA only
        if path.name == "timm.py":
            continue  # its user has timm
        *package, name = path.relative_to(house.SOURCE).with_suffix("").parts
        importlib.import_module(".".join(["hnets", *package, name]))
        parent = importlib.import_module(".".join(["hnets", *package]))
        if not isinstance(getattr(parent, name), ModuleType):
            hidden.append(f"hnets.{'.'.join([*package, name])}")
    assert not hidden


def test_importing_hnets_brings_torch_and_numpy_only_and_prints_nothing() -> None:
    code = (
        "import sys, torch, numpy\n"
        "before = set(sys.modules)\n"
        "import hnets\n"
        "new = set(sys.modules) - before\n"
        "outside = {m.split('.')[0] for m in new} - set(sys.stdlib_module_names)\n"
        f"rooms = {{m.split('.')[1] for m in new if m.startswith('hnets.')}}\n"
        "print(sorted(outside - {'hnets', 'torch', 'numpy'}), "
        f"sorted(rooms & set({house.LABORATORY!r})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[] []", "")


def test_walks_are_short_and_the_page_shows_them() -> None:
    # In a process of its own: what other tests have cached would not be walked through.
    command = [sys.executable, house.__file__, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    walks = json.loads(done.stdout)
    edges, reach, step, convolution = walks.values()
    assert 10 < len(house.outside(edges)) <= 15, edges
    of_training = [file for file in reach if file.startswith(("train/", "cli/cmd_"))]
    assert 5 < len(of_training) <= 10, of_training
    assert 2 < len(house.outside(step)) <= 5, step
    assert 2 < len(convolution) <= 5, convolution
    page = (ROOT / "docs" / "built.md").read_text(encoding="utf-8")
    assert house.page_of(walks) in page, "walk again: python tools/house.py"


def test_the_diagram_shows_the_house_as_it_is() -> None:
    drawn = (ROOT / "docs" / "images" / "house.svg").read_text(encoding="utf-8")
    assert drawn == house.diagram(), "draw it again: python tools/house.py"
