"""Random changes to images: what was asked for, in pixels, and no more."""

import math

import pytest
import torch

from hnets.train.augment import PLAIN, POINTS, augment, draw
from hnets.train.recipe import Augment
from hnets.train.task import Classification


def blob() -> torch.Tensor:
    """A smooth blob off the centre of an image that is wider than high."""
    y, x = torch.meshgrid(torch.arange(24.0), torch.arange(36.0), indexing="ij")
    return (-((x - 21) ** 2 + (y - 9) ** 2) / 8).exp()[None, None]


def centre(image: torch.Tensor) -> tuple[float, float]:
    """The centre of mass, in pixels from the middle, y down."""
    total, (height, width) = float(image.sum()), image.shape[-2:]
    y = torch.arange(height).double() - (height - 1) / 2
    x = torch.arange(width).double() - (width - 1) / 2
    mass = image[0, 0].double()
    return float((mass * x).sum()) / total, float((mass * y[:, None]).sum()) / total


def drawn(recipe: Augment, count: int = 64) -> torch.Tensor:
    matrices = draw(recipe, count, (24, 36), torch.Generator().manual_seed(0))
    assert matrices is not None
    return matrices


def test_a_turn_keeps_the_distance_from_the_middle_in_pixels() -> None:
    image = blob()
    radius = math.hypot(*centre(image))
    angles = []
    for matrix in drawn(Augment(rotate=180.0)):
        x, y = centre(augment(image, matrix[None]))
        assert math.hypot(x, y) == pytest.approx(radius, abs=0.05)
        angles.append(math.atan2(y, x))
    spread = torch.tensor(angles)
    assert torch.histc(spread, 4, -math.pi, math.pi).min() > 4, "some angles are never drawn"


def test_small_turns_shifts_and_zooms_stay_within_what_was_asked() -> None:
    image = blob()
    x, y = centre(image)
    for matrix in drawn(Augment(shift=3.0), 16):
        moved_x, moved_y = centre(augment(image, matrix[None]))
        assert max(abs(moved_x - x), abs(moved_y - y)) <= 3.05
    mass = float(image.sum())
    for matrix in drawn(Augment(zoom=0.2), 16):
        zoomed = float(augment(image, matrix[None]).sum())
        assert mass / 1.2**2 * 0.97 < zoomed < mass * 1.2**2 * 1.03
    no_turn = drawn(Augment(rotate=1e-9))
    torch.testing.assert_close(augment(image, no_turn[:1]), image, atol=1e-5, rtol=0)


def test_bends_are_as_long_as_was_asked_and_smooth() -> None:
    rows = drawn(Augment(elastic=0.8), 400)
    pixels = torch.tensor([18.0, 12.0])[:, None]
    steps = pixels * rows[:, PLAIN:].unflatten(1, (2, -1))
    assert float(steps.square().sum(1).sqrt().mean()) == pytest.approx(0.8, rel=0.05)
    image = blob()
    bent = augment(image, rows[:1])
    assert 0.005 < float((bent - image).abs().mean()) < 0.2
    assert float(bent.sum()) == pytest.approx(float(image.sum()), rel=0.2)
    middle = steps.unflatten(2, (POINTS, POINTS))[:, :, 1:-1, 1:-1].mean((2, 3))
    assert float(middle.abs().max()) < 1e-5, "what is bent is also moved"
    calm = rows[:1].clone()
    calm[:, PLAIN:] = 0
    torch.testing.assert_close(augment(image, calm), image, atol=1e-5, rtol=0)


@pytest.mark.parametrize("mirrored", [False, True])
def test_what_is_changed_can_keep_its_centre_of_mass(mirrored: bool) -> None:
    image = blob()
    before = torch.tensor(centre(image), dtype=torch.float64)
    strong = Augment(rotate=180.0, zoom=0.2, shear=0.2, elastic=0.8, flip=mirrored)
    pixels = torch.tensor([36.0, 24.0], dtype=torch.float64)
    drift, kept = [], []
    for row in drawn(strong):
        matrix = row[:6].double().unflatten(0, (2, 3))[:, :2] * pixels[:, None] / pixels
        left, _, right = torch.linalg.svd(matrix)
        wanted = (left @ right).T @ before  # without zoom and shear
        for found, keep in ((drift, False), (kept, True)):
            where = torch.tensor(centre(augment(image, row[None], keep)), dtype=torch.float64)
            found.append(float((where - wanted).norm()))
    assert sum(drift) / len(drift) > 0.4
    assert sum(kept) / len(kept) < 0.1  # not 0: bends stay where they were
    assert augment(torch.zeros(1, 1, 24, 36), drawn(strong)[:1], True).abs().max() == 0


def test_a_network_learns_from_images_that_kept_their_centre() -> None:
    seen = []

    def remember(x: torch.Tensor) -> torch.Tensor:
        seen.append(x)
        return torch.zeros(len(x), 10)

    for keep in (False, True):
        recipe = Augment(elastic=1.0, keep_centre=keep)
        task = Classification(blob(), torch.tensor([3]), augment=recipe)
        changes = draw(recipe, 1, (24, 36), torch.Generator().manual_seed(0))
        task.loss(remember, blob(), torch.tensor([0]), changes)
    was = centre(blob())
    moved, kept = (math.dist(centre(x), was) for x in seen)
    assert kept < 0.2 * moved
