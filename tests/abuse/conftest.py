"""Options and fixtures of the harness that attacks the package."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from abuse.harness import NewPart, Part, write_page
from abuse.launcher import Launcher
from abuse.training import Tiny

_PARTS: list[Part] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("abuse", "tests/abuse")
    group.addoption("--minutes", type=float, default=0.0, help="attack for so long, not as in CI")
    group.addoption("--seed", type=int, default=0, help="draw other attacks")
    group.addoption("--case", type=int, default=None, help="only the attack of this number")
    group.addoption("--write-page", action="store_true", help="write docs/survives.md")


@pytest.fixture
def part(request: pytest.FixtureRequest) -> NewPart:
    """Makes a part of the harness, whose row goes to the page."""
    config = request.config

    def make(name: str, unit: str, share: float, target: int = 0) -> Part:
        # The options are unknown where another folder's tests were asked for first.
        made = Part(
            name,
            unit,
            share,
            target,
            seed=config.getoption("--seed", 0),
            minutes=config.getoption("--minutes", 0.0),
            only=config.getoption("--case", None),
        )
        _PARTS.append(made)
        return made

    return make


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    if sys.platform == "win32":
        pytest.skip("processes are forked here, and this system cannot")
    started = Launcher(tmp_path_factory.mktemp("launcher"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def tiny(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny.make(launcher, tmp_path_factory.mktemp("tiny"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-page", False) and _PARTS:
        write_page(_PARTS)
