"""Data sets by name: what they hold, and what is said of names that are unknown."""

import hashlib
import sys

import numpy as np
import pytest
import torch

from hnets import data
from hnets.data import dataset, sklearn_digits
from hnets.errors import InputError, MissingExtra

SIZES = {
    "mnist": (50_000, 10_000, 10_000),
    "rotmnist-r": (10_000, 2_000, 50_000),
    "rotmnist-c": (10_000, 2_000, 50_000),
    "digits": (1_000, 297, 500),
    "digits-r": (1_000, 297, 500),
}


@pytest.mark.parametrize("name", SIZES)
def test_splits_have_their_sizes_and_the_promised_form(
    name: str, request: pytest.FixtureRequest
) -> None:
    if "mnist" in name:
        request.getfixturevalue("data_folder")
    train, val, both, test = (data.load(name, split) for split in dataset.SPLITS)
    assert (len(train), len(val), len(test)) == SIZES[name]
    assert torch.equal(both.images, torch.cat([train.images, val.images]))
    assert torch.equal(both.labels, torch.cat([train.labels, val.labels]))
    for part in (train, val, test):
        images, labels = part
        assert images.shape == (len(part), 1, 28, 28)
        assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
        assert images.is_contiguous()
        assert (images.min(), images.max()) == (0, 1)
        assert set(labels.tolist()) == set(range(10))
        assert part.classes == tuple("0123456789")
        assert (part.name, part.split) == (name, part.split)


def test_a_data_set_knows_its_bits() -> None:
    train = data.load("digits", "train")
    expected = hashlib.sha256(train.images.numpy().tobytes() + train.labels.numpy().tobytes())
    assert train.digest == expected.hexdigest()
    assert train.digest == data.load("digits", "train").digest
    assert train.digest != data.load("digits-r", "train").digest


def test_subsets() -> None:
    val = data.load("digits", "val")
    first = val.subset(10)
    assert torch.equal(first.images, val.images[:10])
    assert torch.equal(val.subset(torch.tensor([5, 2])).labels, val.labels[[5, 2]])
    assert val.subset(val.labels == 3).labels.unique().tolist() == [3]
    assert len(val.subset(np.int64(7))) == 7
    assert (first.classes, first.split, len(val.subset([]))) == (val.classes, "val", 0)
    with pytest.raises(InputError, match="has 0 to 297 images, got 298"):
        val.subset(298)
    with pytest.raises(InputError, match="has images 0 to 296, got indices from 1 to 297"):
        val.subset([1, 297])


def test_shares_of_classes_are_nested_and_fixed() -> None:
    labels = torch.tensor([0] * 300 + [1] * 40 + [2] * 3)
    whole, tenth, hundredth = (data.stratified(labels, share) for share in (1, 0.1, 0.01))
    assert torch.equal(whole, torch.arange(343))
    assert torch.bincount(labels[tenth]).tolist() == [30, 4, 1]
    assert torch.bincount(labels[hundredth]).tolist() == [3, 1, 1]
    assert set(hundredth.tolist()) < set(tenth.tolist())
    assert hundredth.tolist() == data.stratified(labels.clone(), 0.01).tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mnst",), r"no data set or folder 'mnst'; did you mean 'mnist'\?"),
        (("rotmnist_r",), r"did you mean 'rotmnist-r'\?"),
        (("zebra",), r"no data set or folder 'zebra'; choose from mnist, rotmnist,"),
        (("mnist", "training"), r"no split 'training'; did you mean 'train'\?"),
        (("mnist", "valid"), r"did you mean 'val'\?"),
        (("some/where",), "there is no folder some/where"),
        (("mnist", "train", "no/such/root"), "root is 'no/such/root', which is not a folder"),
    ],
)
def test_what_load_does_not_know_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        data.load(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", [{"size": 32}, {"channels": 3}])
def test_sets_of_one_size_have_no_other(form: dict[str, int]) -> None:
    with pytest.raises(
        InputError, match=r"images of digits have one size, got size=.* and channels="
    ):
        data.load("digits", **form)


def test_every_name_is_listed() -> None:
    others = {"rotmnist", "plankton", "mirabest", "bsds500", "drive", "chase_db1"}
    assert set(data.available()) == others | set(SIZES)


def test_rotated_digits_are_the_upright_ones_rotated() -> None:
    upright, rotated = data.load("digits", "val"), data.load("digits-r", "val")
    assert torch.equal(upright.labels, rotated.labels)
    mass = rotated.images.sum((1, 2, 3)) / upright.images.sum((1, 2, 3))
    assert (mass - 1).abs().max() < 0.05, "rotation loses nothing at the corners"
    assert (upright.images - rotated.images).abs().mean() > 0.1


def test_without_scikit_learn_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    sklearn_digits.upright.cache_clear()
    with pytest.raises(MissingExtra, match=r'scikit-learn: pip install "hnets\[bench\]"'):
        data.load("digits")
