"""Figures of harmonics, filters, feature maps and orientation maps."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.quiver import Quiver
from PIL import Image

from hnets import plot, studies


@pytest.mark.parametrize("order", [-2, -1, 0, 1, 2, 3])
def test_harmonic_rotated_by_90_degrees_is_multiplied_by_its_phase(order: int) -> None:
    w = plot.circular_harmonic(order, size=32)
    np.testing.assert_allclose(np.rot90(w), w * np.exp(-0.5j * np.pi * order), atol=1e-12)
    np.testing.assert_allclose(plot.circular_harmonic(-order, size=32), w.conj(), atol=1e-12)


def test_harmonics_figure_shows_three_rows_for_every_order(tmp_path: Path) -> None:
    figure = plot.harmonics_figure(orders=(-1, 0, 1), size=64)
    assert sum(len(axes.images) for axes in figure.axes) == 3 * 3 + 1
    path = plot.save(figure, tmp_path / "new" / "harmonics.png")
    with Image.open(path) as image:
        image.load()
        assert image.size[0] > image.size[1] > 300


@pytest.mark.parametrize(
    ("name", "layers", "roses", "shown"), [("hnet_mnist", 7, 6, 16), ("hdsn", 10, 10, 16)]
)
def test_filters_of_the_shipped_networks(name: str, layers: int, roses: int, shown: int) -> None:
    study = studies.measure_filters(name)
    assert (len(study.layers), len(study.first)) == (layers, shown)
    axes = plot.filters_figure(study).axes
    assert sum(each.name == "polar" for each in axes) == roses
    assert sum(len(each.images) for each in axes) == shown + len(study.plain_first)


def test_arrows_are_the_phases() -> None:
    z = np.full((6, 6), 1j, dtype=np.complex64)
    z[0, 0] = 0  # has no phase, and no arrow
    image, fields = np.zeros((6, 6), np.float32), (studies.Field(1, 1, z),)
    figure = plot.features_figure(studies.FeatureMaps("net", "layer 1", image, fields, 0, 0))
    arrows = [q for axes in figure.axes for q in axes.collections if isinstance(q, Quiver)]
    assert sum(quiver.N for quiver in arrows) == 35
    for quiver in arrows:
        np.testing.assert_allclose(quiver.U, 0, atol=1e-6)
        np.testing.assert_allclose(quiver.V, 1, atol=1e-6)


def test_flow_has_the_image_its_maps_and_the_wheel() -> None:
    maps = tuple(studies.FlowMap(n, np.ones((8, 8), np.complex64)) for n in (2, 4, 6, 8, 10))
    axes = plot.flow_figure(studies.Flow("net", np.zeros((16, 16, 3), np.float32), maps)).axes
    assert [len(each.images) for each in axes] == [1] * 7
    assert [each.get_title() for each in axes][:2] == ["image", "layer 2: 8×8 pixels"]
