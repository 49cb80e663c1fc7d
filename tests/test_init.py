"""The names of the package: those at hand, and those imported when they are first used."""

import subprocess
import sys

import pytest

import hnets

PROGRAM = """
import sys, hnets
rooms = ("data", "metrics", "train", "predict", "studies", "plot")
assert not [name for name in sys.modules if name.startswith(tuple(f"hnets.{r}" for r in rooms))]
assert set(hnets.__all__) <= set(dir(hnets))
assert hnets.data.available()[0] == "mnist"
assert hnets.EdgeDetector is hnets.predict.EdgeDetector
"""


def test_rooms_of_the_laboratory_are_imported_when_they_are_used() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


@pytest.mark.parametrize("name", hnets.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(hnets, name) is not None


def test_functions_are_not_modules_and_other_names_are_refused() -> None:
    assert isinstance(hnets.cost(hnets.models.z2cnn(), (1, 28, 28)), hnets.Cost)
    with pytest.raises(AttributeError, match="module 'hnets' has no attribute 'datta'"):
        _ = hnets.datta
