"""Responses of filters to patches that rotate."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import Command
from hnets import plot
from hnets.errors import InputError
from hnets.studies import Response, Stability, measure_stability
from hnets.studies.stability import PLAIN


def photo(size: int = 160) -> Image.Image:
    random = np.random.default_rng(0).random((size // 8, size // 8, 3))
    small = Image.fromarray((255 * random).astype(np.uint8))
    return small.resize((size, size), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def study() -> Stability:
    return measure_stability(photo(), step=22.5)


def test_a_rotation_by_90_degrees_changes_no_magnitude(study: Stability) -> None:
    for response in study.responses:
        if response.order is None:
            continue
        rotated = np.roll(response.magnitudes, 4, axis=-1)  # by 4 · 22.5 degrees
        np.testing.assert_allclose(rotated, response.magnitudes, atol=1e-10)


def test_magnitudes_hold_between_multiples_of_90_degrees_and_a_plain_convolution_does_not(
    study: Stability,
) -> None:
    worst = {"H-Net layer, Gaussian rings": 0.04, "H-Net layer, exact rings": 0.15}
    for kind in ("random", "natural"):
        for layer, bound in worst.items():
            responses = study.find(layer, kind)
            assert [response.order for response in responses] == [0, 1, 2]
            assert max(response.deviation for response in responses) < bound, (kind, layer)
        (plain,) = study.find(PLAIN, kind)
        assert plain.deviation > 0.2


def test_deviation_is_zero_of_a_constant_and_relative() -> None:
    angles = np.linspace(0, 2 * np.pi, 90, endpoint=False)
    ripple = np.ones((2, 3, 90)) * (1 + 0.1 * np.cos(angles))
    assert Response("", "", 0, np.ones((2, 3, 90))).deviation == 0
    for scale in (1, 100):
        deviation = Response("", "", 0, scale * ripple).deviation
        assert deviation == pytest.approx(0.1 / np.sqrt(2))


def test_the_same_seed_gives_the_same_numbers_and_another_others() -> None:
    first, same, other = (measure_stability(step=90, seed=seed) for seed in (0, 0, 1))
    assert (first.responses[0].magnitudes == same.responses[0].magnitudes).all()
    assert (first.responses[0].magnitudes != other.responses[0].magnitudes).any()


def test_the_figure_has_a_panel_per_layer_and_patch(study: Stability) -> None:
    axes = plot.stability_figure(study).axes
    panels = [each for each in axes if each.lines]
    assert len(panels) == 3 * 2
    assert sorted(len(panel.lines) for panel in panels) == [1, 1, 3, 3, 3, 3]
    legend = panels[0].get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text().startswith("m = 0: ")
    assert sum(len(each.images) for each in axes) == 2  # the patches themselves


def test_a_photograph_that_is_too_small_is_refused() -> None:
    with pytest.raises(InputError, match=r"at least \d+ pixels per side, got 24×24"):
        measure_stability(photo(24), step=90)


def test_command(hnets_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    photo().save("photo.png")
    done = hnets_command("inspect", "stability", "photo.png", "--out", "new/steady.svg")
    assert done.code == 0, done.err
    assert "plain convolution" in done.out
    assert (tmp_path / "new" / "steady.svg").stat().st_size > 1000
