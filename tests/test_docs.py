"""Every Python example in the documentation runs, and every file that it links or shows exists."""

import importlib
import json
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<code>.*?)^(?P=indent)``` *$",
    re.MULTILINE | re.DOTALL,
)
_INLINE_CODE = re.compile(r"(`+).+?\1")
_LINK = re.compile(r"\[[^\]]*\]\((?!\w+:|#)([^)\s#]+)|<img[^>]*\ssrc=\"(?!\w+:)([^\"]+)\"")


@dataclass(frozen=True)
class Example:
    """A fenced block of Python, and the line of its file on which the code starts."""

    line: int
    code: str


def examples(text: str) -> list[Example]:
    """The blocks opened by ```` ```python ````, less those marked ``notest``."""
    found = []
    for fence in _FENCE.finditer(text):
        words = re.findall(r"\w+", fence["info"])  # "python notest" and "{.python .notest}" alike
        if words[:1] == ["python"] and "notest" not in words:
            code = re.sub(f"^{fence['indent']}", "", fence["code"], flags=re.MULTILINE)
            found.append(Example(1 + text.count("\n", 0, fence.start("code")), code))
    return found


def run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples of a page in order, in one namespace; fail with the line that failed."""
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # where dataclasses and pickle look for it
    for example in examples(page.read_text(encoding="utf-8")):
        # The empty lines make Python count as the page does.
        source = "\n" * (example.line - 1) + example.code
        try:
            exec(compile(source, str(page), "exec"), module.__dict__)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == str(page)]
            line = lines[-1] if lines else getattr(error, "lineno", None) or example.line
            shown = page.read_text(encoding="utf-8").splitlines()[line - 1].strip()
            message = f"{page.name}:{line}: {shown}\n{type(error).__name__}: {error}"
            raise AssertionError(message) from error


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        run(page, monkeypatch)


@pytest.mark.parametrize(
    "page",
    [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"],
    ids=lambda page: page.name,
)
def test_linked_files_exist(page: Path) -> None:
    prose = _INLINE_CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    targets = [link or image for link, image in _LINK.findall(prose)]
    missing = [target for target in targets if not (page.parent / target).is_file()]
    assert not missing, f"{page.name} points at files that are not there: {missing}"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\nx.nope()", r"page\.md:4: x\.nope\(\)\nAttributeError"),
        ("x = 1\nx = = 2", r"page\.md:4: x = = 2\nSyntaxError"),
    ],
)
def test_broken_example_is_named_by_its_line(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n```python\n{code}\n```\n")
    with pytest.raises(AssertionError, match=message):
        run(page, monkeypatch)


def test_only_python_examples_are_run() -> None:
    text = """
```python
a = 1
```
```python notest
b = 1
```
``` {.python .notest}
c = 1
```
```sh
d
```
- item

    ```python
    if e:
        f = 1
    ```
"""
    assert examples(text) == [Example(3, "a = 1\n"), Example(17, "if e:\n    f = 1\n")]


def test_the_tables_of_measured_sets_are_those_of_their_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    page = importlib.import_module("sets_page")
    text, rows = page.PAGE.read_text(encoding="utf-8"), json.loads(page.RESULTS.read_text())
    tables = {name: getattr(page, name)(rows) for name in ("plankton", "galaxies", "vessels")}
    assert page.filled(text, tables) == text, "run python benchmarks/sets_page.py"

    def row(share: float, error: float, device: str = "NVIDIA H200") -> dict[str, Any]:
        settings = {"data": {"name": "plankton"}, "model": {"name": "hresnet18"}}
        scores = {"test": {"error": {"mean": error, "std": 0.5, "n": 3}, "loss": {"mean": 1.0}}}
        facts = {"share": share, "images": int(1000 * share), "parameters": 690_000}
        times: dict[str, Any] = {"multiplications": 6e8, "cpu_ms": 9.0, "seconds": 31.0}
        times["versions"] = {"device": device}
        return {"recipe": "mine", "settings": settings, "scores": scores, **facts, **times}

    body = page.plankton([row(1, 20.0), row(0.1, 30.0, "CPU")]).splitlines()[-1]
    assert "| 0.69M | 0.6 G | 9 | 80.0 ± 0.5 (1.00) | 70.0 ± 0.5 (1.00) | 31, – |" in body
