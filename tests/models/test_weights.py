"""Weights: written once, found by name, and refused in one line where they do not fit."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import hnets
from hnets import models
from hnets.errors import InputError
from hnets.models import _weights as store
from hnets.models import _weights as weights
from hnets.models._hdsn import EdgeNetwork
from networks import digits, lively

INFO: dict[str, Any] = {
    "options": {},
    "recipe": {"epochs": 3},
    "data": {"name": "rotmnist-r"},
    "metrics": {"test error": 0.0169},
    "commit": "0123abc",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for that of the package."""
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    return tmp_path


def logits(net: nn.Module) -> torch.Tensor:
    x = torch.linspace(-1, 1, 2 * 28 * 28).reshape(2, 1, 28, 28)
    with torch.no_grad():
        return net.eval()(x)


def test_what_is_packed_is_what_is_loaded(folder: Path) -> None:
    net = digits()
    path = weights.pack(net, "hnet_mnist", folder, INFO)
    assert path == folder / "hnet_mnist.safetensors"
    assert weights.available() == ("hnet_mnist",)
    card = weights.describe("hnet_mnist")
    assert card == {
        **INFO,
        "model": "hnet_mnist",
        "parameters": 33_347,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    loaded = hnets.create_model("hnet_mnist", pretrained=True)
    assert torch.equal(logits(loaded), logits(net))
    assert all(p.requires_grad for p in loaded.parameters())


def test_half_as_many_bytes_are_nearly_the_same(folder: Path) -> None:
    net = digits()
    whole = weights.pack(net, "hnet_mnist", folder, INFO).stat().st_size
    assert weights.pack(net, "hnet_mnist", folder, INFO, half=True).stat().st_size < 0.6 * whole
    loaded = hnets.create_model("hnet_mnist", pretrained=True)
    assert all(p.dtype == torch.float32 for p in loaded.parameters())
    assert torch.allclose(logits(loaded), logits(net), rtol=0.01, atol=0.01)


def test_another_process_loads_the_same(folder: Path) -> None:
    net = digits()
    weights.pack(net, "hnet_mnist", folder, INFO)
    program = (
        "import pathlib, sys, torch, hnets\n"
        "from hnets.models import _weights as store\n"
        "store.FOLDER = pathlib.Path(sys.argv[1])\n"
        "net = hnets.create_model('hnet_mnist', pretrained=True).eval()\n"
        "x = torch.linspace(-1, 1, 2 * 28 * 28).reshape(2, 1, 28, 28)\n"
        "with torch.no_grad(): print(net(x).double().tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == logits(net).double().tolist()


def test_the_same_values_give_the_same_files(tmp_path: Path) -> None:
    net = digits()
    first, second = (weights.pack(net, "hnet_mnist", tmp_path / each, INFO) for each in "ab")
    assert first.read_bytes() == second.read_bytes()
    for suffix in (".safetensors", ".json"):
        assert first.with_suffix(suffix).read_bytes() == second.with_suffix(suffix).read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()
    assert sorted(file.name for file in first.parent.iterdir()) == [
        "hnet_mnist.json",
        "hnet_mnist.safetensors",
    ]


def test_options_of_training_are_the_defaults_of_the_trained_model(folder: Path) -> None:
    net = lively(models.z2cnn(classes=4, dropout=0.3), torch.randn(4, 1, 28, 28))
    info = {**INFO, "options": {"classes": 4, "dropout": 0.3}}
    weights.pack(net, "z2cnn", folder, info)
    loaded = hnets.create_model("z2cnn", pretrained=True)
    assert torch.equal(logits(loaded), logits(net))
    assert any(isinstance(part, nn.Dropout) for part in loaded.modules())
    plain = hnets.create_model("z2cnn", pretrained=True, dropout=0.0)  # changes no shape
    assert not any(isinstance(part, nn.Dropout) for part in plain.modules())
    with pytest.raises(InputError, match=r"trained with classes=4, dropout=0\.3") as caught:
        hnets.create_model("z2cnn", pretrained=True, classes=10)
    assert "expected layers.6.0.weight of shape (10, 20, 4, 4), got (4, 20, 4, 4)" in str(
        caught.value
    )
    assert "options that change shapes need pretrained=False" in str(caught.value)


def test_models_without_weights_say_which_have(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no trained weights for z2cnn; .* none yet"):
        hnets.create_model("z2cnn", pretrained=True)
    weights.pack(models.p4cnn(), "p4cnn", folder, INFO)
    with pytest.raises(InputError, match=r"no trained weights for z2cnn; .* p4cnn"):
        hnets.create_model("z2cnn", pretrained=True)


def damage(folder: Path, kind: str) -> None:
    """Make one thing wrong in a folder with weights for hnet_mnist."""
    values, card = folder / "hnet_mnist.safetensors", folder / "hnet_mnist.json"
    if kind == "truncated":
        values.write_bytes(values.read_bytes()[:-1000])
    elif kind == "one bit":
        content = bytearray(values.read_bytes())
        content[-1] ^= 1
        values.write_bytes(content)
    elif kind == "wrong sha256":
        card.write_text(json.dumps({**json.loads(card.read_text()), "sha256": "0" * 64}))
    elif kind == "renamed":
        weights.pack(models.z2cnn(), "z2cnn", folder, INFO)
        for suffix in (".json", ".safetensors"):
            (folder / f"z2cnn{suffix}").replace(folder / f"hnet_mnist{suffix}")
    elif kind == "other model":
        weights.pack(models.z2cnn(), "hnet_mnist", folder, INFO)
    elif kind == "more values":
        weights.pack(nn.ModuleDict({"layers": digits().layers, "x": nn.Linear(1, 2)}),
                     "hnet_mnist", folder, INFO)  # fmt: skip
    elif kind == "no safetensors":
        values.write_bytes(b"not weights")
        sha256 = hashlib.sha256(b"not weights").hexdigest()
        card.write_text(json.dumps({**json.loads(card.read_text()), "sha256": sha256}))
    elif kind == "half a card":
        card.write_text(card.read_text()[:40])
    elif kind == "empty card":
        card.write_text("{}")
    elif kind == "listed card":
        card.write_text("[]")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("truncated", r"hnet_mnist\.safetensors is damaged: its SHA-256 should be .*, got "),
        ("one bit", "is damaged: its SHA-256"),
        ("wrong sha256", f"is damaged: its SHA-256 should be {'0' * 64}, got [0-9a-f]{{64}};"),
        ("renamed", "should describe the weights of hnet_mnist, but describes those of z2cnn"),
        ("other model", r"expected layers\.0\.0\.filters\.radial\.0 of shape .*, got none"),
        ("more values", r"expected no x\.\w+, got one of shape \(2"),
        ("no safetensors", "is not a safetensors file"),
        ("half a card", r"hnet_mnist\.json is damaged: it describes no weights"),
        ("empty card", "it describes no weights"),
        ("listed card", "it describes no weights"),
    ],
)
def test_what_is_wrong_with_weights_is_one_line(folder: Path, kind: str, message: str) -> None:
    weights.pack(digits(), "hnet_mnist", folder, INFO)
    damage(folder, kind)
    before = models.hnet_mnist()
    state = {key: value.clone() for key, value in before.state_dict().items()}
    with pytest.raises(InputError, match=message) as caught:
        weights.load_into(before, "hnet_mnist")
    assert "\n" not in str(caught.value)
    assert all(torch.equal(value, state[key]) for key, value in before.state_dict().items())


def test_a_failed_write_leaves_the_old_pair(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    weights.pack(digits(), "hnet_mnist", folder, INFO)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        weights.pack(models.hnet_mnist(), "hnet_mnist", folder, INFO)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize("info", [{}, {**INFO, "colour": 1}])
def test_a_card_says_everything(tmp_path: Path, info: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="info has options, recipe, data, metrics, commit, got"):
        weights.pack(models.z2cnn(), "z2cnn", tmp_path, info)


@pytest.mark.parametrize("name", weights.available())
def test_shipped_weights_load(name: str) -> None:
    net, card = hnets.create_model(name, pretrained=True), weights.describe(name)
    assert sum(p.numel() for p in net.parameters()) == card["parameters"]
    assert set(card) == {"model", "parameters", "sha256", *store.TOLD}
    finds_boundaries = isinstance(net, EdgeNetwork)
    answers = net(torch.rand(2, 3, 33, 49)) if finds_boundaries else logits(net)
    assert answers.isfinite().all()


def test_the_network_for_digits_ships() -> None:
    assert "hnet_mnist" in weights.available()
