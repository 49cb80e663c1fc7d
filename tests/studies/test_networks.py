"""Networks and images that a user names."""

import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

import hnets
from hnets import nn as hnn
from hnets.errors import InputError, MissingExtra
from hnets.studies.networks import find_image, find_network, model_input


def test_a_name_is_trained_where_weights_ship_and_always_the_same() -> None:
    assert find_network("hnet_mnist").trained
    first, second = find_network("p4cnn"), find_network("p4cnn")
    assert (first.trained, first.title) == (False, "p4cnn, untrained")
    for one, other in zip(first.module.parameters(), second.module.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["model.safetensors", "12:30/model.safetensors"])
def test_a_file_of_weights_is_a_network(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    hnets.save(hnets.create_model("z2cnn", num_classes=3), path)
    network = find_network(str(path))
    assert (network.trained, network.title) == (True, str(path))
    assert network.module(torch.zeros(1, 1, 28, 28)).shape == (1, 3)


def test_an_image_becomes_the_input_of_a_network() -> None:
    image = Image.new("L", (100, 50), 255)
    grey = model_input(nn.Sequential(hnn.HConv2d("1x0r", "2x0", 3)), image, 80, "it")
    colour = model_input(nn.Sequential(hnn.HConv2d("3x0r", "2x0", 3)), image, 80, "it")
    assert (grey.shape, colour.shape) == ((1, 1, 32, 80), (1, 3, 32, 80))
    assert (grey == 1).all()
    with pytest.raises(InputError, match="images with 1 or 3 channels, got Sequential with 2"):
        model_input(nn.Sequential(hnn.HConv2d("2x0r", "2x0", 3)), image, 80, "it")


def test_without_scikit_image_a_sample_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(MissingExtra, match=r"hnets\[plot\]"):
        find_image(None)
