"""Weights: saved with how the network was built, loaded by name or path, refused in one line."""

import copy
import hashlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save as to_bytes
from torch import nn

import hnets
from hnets import models
from hnets.errors import InputError
from hnets.models import _weights as store
from networks import digits, lively

CARD: dict[str, Any] = {
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


def small() -> nn.Module:
    """A network whose options are not the defaults, with values as training leaves them."""
    net = hnets.create_model("z2cnn", num_classes=4, dropout=0.3)
    return lively(net, torch.randn(4, 1, 28, 28))


# Files and folders --------------------------------------------------------------------------------


def test_a_saved_network_is_loaded_with_its_options(tmp_path: Path) -> None:
    net = small()
    path = hnets.save(net, tmp_path / "new folder" / "mine.safetensors")
    loaded = hnets.load(path)
    assert not any(part.training for part in loaded.modules())
    assert all(p.requires_grad for p in loaded.parameters())
    assert torch.equal(logits(loaded), logits(net))
    options = {"in_chans": 1, "num_classes": 4, "dropout": 0.3}
    assert loaded.config == models.ModelConfig("z2cnn", options)
    assert [p.name for p in path.parent.iterdir()] == ["mine.safetensors"]
    assert hnets.load(str(path)).config == loaded.config


@pytest.mark.parametrize("name", hnets.list_models())
def test_networks_know_how_they_were_built(name: str) -> None:
    net = getattr(models, name)()
    assert net.config.name == name
    again = hnets.create_model(name, **json.loads(json.dumps(net.config.options)))
    assert again.config == net.config == copy.deepcopy(net).config == hnets.freeze(net).config
    assert pickle.loads(pickle.dumps(net)).config == net.config
    assert not any("config" in key for key in net.state_dict())


def test_the_same_values_give_the_same_bytes_without_paths(tmp_path: Path) -> None:
    net = digits()
    first, second = (hnets.save(net, tmp_path / each / "x.safetensors") for each in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()
    (tmp_path / "any").touch()
    assert first.stat().st_mode == (tmp_path / "any").stat().st_mode


def test_options_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    net = hnets.create_model("z2cnn", num_classes=np.int64(4))
    loaded = hnets.load(hnets.save(net, tmp_path / "x.safetensors"))
    assert loaded.config == net.config


@pytest.mark.parametrize(
    "wrap", [torch.compile, nn.DataParallel, lambda net: torch.compile(nn.DataParallel(net))]
)
def test_a_wrapped_network_is_saved_as_the_one_inside(
    tmp_path: Path, wrap: Callable[[nn.Module], nn.Module]
) -> None:
    net = small()
    path = hnets.save(wrap(net), tmp_path / "x.safetensors")
    assert torch.equal(logits(hnets.load(path)), logits(net))


def test_the_memory_format_does_not_matter(tmp_path: Path) -> None:
    net = small()
    path = hnets.save(net, tmp_path / "x.safetensors")
    last = hnets.save(net.to(memory_format=torch.channels_last), tmp_path / "last.safetensors")
    assert path.read_bytes() == last.read_bytes()


def test_a_network_of_someone_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a network of hnets.create_model, got a Linear"):
        hnets.save(nn.Linear(1, 1), tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


def test_a_run_is_loaded_by_its_folder(tmp_path: Path) -> None:
    run, net = tmp_path / "run", small()
    for place in (run / "seed-1", run):
        hnets.save(net, run / "seed-1" / "model.safetensors")
        assert torch.equal(logits(hnets.load(place)), logits(net))
    hnets.save(small(), run / "seed-2" / "model.safetensors")
    with pytest.raises(InputError, match=r"run has 2 seeds; name one, such as .*run/seed-1$"):
        hnets.load(run)
    assert torch.equal(logits(hnets.load(str(run / "seed-1"))), logits(net))
    with pytest.raises(InputError, match=r"no model.safetensors in .*; has the training finished"):
        hnets.load(tmp_path)


def headed(header: str) -> bytes:
    return to_bytes(small().state_dict(), {"hnets": header})


def z2cnn(**changes: Any) -> bytes:
    """The file of a network that is another one's than its header says."""
    state = hnets.create_model("z2cnn", num_classes=4).state_dict()
    state |= {key: value for key, value in changes.items() if value is not None}
    header = {"model": "z2cnn", "options": {"num_classes": 4}}
    return to_bytes(state, {"hnets": json.dumps(header)})


BIAS, STEPS = "layers.6.0.bias", "layers.1.1.num_batches_tracked"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: b"text", r"mine\.safetensors is not a safetensors file \("),
        (lambda: to_bytes(small().state_dict()), "does not say which network it is of: hnets.save"),
        (lambda: headed("{"), "is damaged: its header names no network"),
        (lambda: headed("[" * 10_000), "is damaged: its header names no network"),
        (lambda: headed("[]"), "is damaged: its header names no network"),
        (lambda: headed('{"model": "z2cnn"}'), "is damaged: its header names no network"),
        (lambda: headed('{"model": "z3", "options": {}}'), "no network of this hnets: no model is"),
        (
            lambda: headed('{"model": "z2cnn", "options": {"colour": 1}}'),
            "holds no network of this hnets: z2cnn has no option 'colour'",
        ),
        (
            lambda: headed('{"model": "z2cnn", "options": {"dropout": 2}}'),
            "holds no network of this hnets: dropout is a probability",
        ),
        (
            lambda: headed('{"model": "z2cnn", "options": {"num_classes": 1000000000000}}'),
            "holds no network of this hnets: num_classes is at most 1,000,000",
        ),
        (
            lambda: headed('{"model": "z2cnn", "options": {}}'),
            r"expected layers.6.0.weight of shape \(10, 20, 4, 4\), got \(4, 20, 4, 4\)",
        ),
        (
            lambda: headed('{"model": "hdsn", "options": {}}'),
            r"does not fit this HDSN: expected .* got none; it holds hdsn with no options",
        ),
        (lambda: z2cnn(more=torch.ones(1)), r"expected no more, got one of shape \(1,\)"),
        (
            lambda: z2cnn(**{BIAS: torch.ones(4, dtype=torch.int8)}),
            f"expected {BIAS} in torch.float32, got torch.int8",
        ),
        (
            lambda: z2cnn(**{BIAS: torch.ones(4, dtype=torch.complex64)}),
            f"expected {BIAS} in torch.float32, got torch.complex64",
        ),
        (
            lambda: z2cnn(**{STEPS: torch.tensor(1.0)}),
            f"expected {STEPS} in torch.int64, got torch.float32",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_that_names_it(
    tmp_path: Path, content: Callable[[], bytes], message: str
) -> None:
    path = tmp_path / "mine.safetensors"
    path.write_bytes(content())
    with pytest.raises(InputError, match=message) as caught:
        hnets.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "hnet_minst",
            "^no model is called 'hnet_minst', nor is there such a file; did you mean",
        ),
        ("flowers", "^no model is called 'flowers', .*; choose from hdsn, hed_low, hedge"),
        ("p4cnn", "^there are no trained weights for p4cnn; models that have some: hdsn, hed_low,"),
        ("hnet_mnist.tag", r"^there are no trained weights for hnet_mnist\.tag; models that have"),
        ("no/where", "^there is no file or folder no/where; hnets train writes a model.safet"),
        (Path("hnet_mnist"), "^there is no file or folder hnet_mnist; "),
        ("x.safetensors", r"^there is no file or folder x\.safetensors; "),
    ],
)
def test_what_is_not_there_is_one_line(source: str | Path, message: str) -> None:
    with pytest.raises(InputError, match=message):
        hnets.load(source)


# Weights of the package ---------------------------------------------------------------------------


def test_weights_with_a_card_are_loaded_by_name_and_tag(folder: Path) -> None:
    net = digits()
    path = hnets.save(net, folder / "hnet_mnist.mine.safetensors", card=CARD)
    assert hnets.list_models(pretrained=True) == ["hnet_mnist.mine"]
    assert models.model_card("hnet_mnist.mine") == {
        **CARD,
        "model": "hnet_mnist",
        "tag": "mine",
        "options": {"in_chans": 1, "num_classes": 10, "rings": "exact", "mirror": False},
        "parameters": 33_347,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    for loaded in (
        hnets.create_model("hnet_mnist.mine", pretrained=True),
        hnets.load("hnet_mnist.mine"),
        hnets.load(path),
    ):
        assert torch.equal(logits(loaded), logits(net))
    with pytest.raises(InputError, match=r"no trained weights for hnet_mnist; .*: hnet_mnist.mine"):
        hnets.load("hnet_mnist")


def test_half_as_many_bytes_are_nearly_the_same(folder: Path) -> None:
    net, path = digits(), folder / "hnet_mnist.safetensors"
    whole = hnets.save(net, path, card=CARD).stat().st_size
    assert hnets.save(net, path, card=CARD, half=True).stat().st_size < 0.6 * whole
    loaded = hnets.create_model("hnet_mnist", pretrained=True)
    assert all(p.dtype == torch.float32 for p in loaded.parameters())
    assert torch.allclose(logits(loaded), logits(net), rtol=0.01, atol=0.01)


def test_values_that_float16_cannot_hold_are_not_written_as_infinity(folder: Path) -> None:
    """Such as the variances of a network trained on images of 16 bits."""
    net, path = digits(), folder / "hnet_mnist.safetensors"
    name = next(key for key in net.state_dict() if key.endswith("running_var"))
    net.get_buffer(name)[2] = 1e5
    with pytest.raises(InputError, match=f"^{name} has values of up to 1e.05, and float16 ends"):
        hnets.save(net, path, half=True)
    assert not path.exists()
    hnets.save(net, path)
    assert torch.equal(logits(hnets.load(path)), logits(net))


def test_another_process_loads_the_same(folder: Path) -> None:
    path = hnets.save(digits(), folder / "hnet_mnist.safetensors")
    program = (
        "import sys, torch, hnets\n"
        "net = hnets.load(sys.argv[1])\n"
        "x = torch.linspace(-1, 1, 2 * 28 * 28).reshape(2, 1, 28, 28)\n"
        "with torch.no_grad(): print(net(x).double().tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == logits(hnets.load(path)).double().tolist()


def test_options_of_training_are_the_defaults_of_the_trained_model(folder: Path) -> None:
    net = small()
    hnets.save(net, folder / "z2cnn.four.safetensors", card=CARD)
    loaded = hnets.create_model("z2cnn.four", pretrained=True)
    assert torch.equal(logits(loaded), logits(net))
    assert any(isinstance(part, nn.Dropout) for part in loaded.modules())
    plain = hnets.create_model("z2cnn.four", pretrained=True, dropout=0.0)  # changes no shape
    assert not any(isinstance(part, nn.Dropout) for part in plain.modules())
    untrained = hnets.create_model("z2cnn.four")
    assert untrained.config == loaded.config
    assert not torch.equal(logits(untrained), logits(net))
    with pytest.raises(
        InputError, match=r"z2cnn with in_chans=1, num_classes=4, dropout=0\.3"
    ) as e:
        hnets.create_model("z2cnn.four", pretrained=True, num_classes=10)
    assert "expected layers.6.0.weight of shape (10, 20, 4, 4), got (4, 20, 4, 4)" in str(e.value)
    assert "options that change shapes need pretrained=False" in str(e.value)


def test_models_without_weights_say_which_have(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no trained weights for z2cnn; .* none yet"):
        hnets.create_model("z2cnn", pretrained=True)
    hnets.save(models.p4cnn(), folder / "p4cnn.safetensors", card=CARD)
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
        hnets.save(models.z2cnn(), folder / "z2cnn.safetensors", card=CARD)
        for suffix in (".json", ".safetensors"):
            (folder / f"z2cnn{suffix}").replace(folder / f"hnet_mnist{suffix}")
    elif kind == "half a card":
        card.write_text(card.read_text()[:40])
    else:
        card.write_text(kind)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("truncated", r"hnet_mnist\.safetensors is damaged: its SHA-256 should be .*, got "),
        ("one bit", "is damaged: its SHA-256"),
        ("wrong sha256", f"is damaged: its SHA-256 should be {'0' * 64}, got [0-9a-f]{{64}};"),
        ("renamed", "should describe the weights of hnet_mnist, but describes those of z2cnn"),
        ("half a card", r"hnet_mnist\.json is damaged: it describes no weights"),
        ("{}", "it describes no weights"),
        ("[]", "it describes no weights"),
    ],
)
def test_what_is_wrong_with_shipped_weights_is_one_line(
    folder: Path, kind: str, message: str
) -> None:
    hnets.save(digits(), folder / "hnet_mnist.safetensors", card=CARD)
    damage(folder, kind)
    for make in (hnets.load, lambda name: hnets.create_model(name, pretrained=True)):
        with pytest.raises(InputError, match=message) as caught:
            make("hnet_mnist")
        assert "\n" not in str(caught.value)


def test_a_failed_write_leaves_the_old_pair(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    path = hnets.save(digits(), folder / "hnet_mnist.safetensors", card=CARD)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        hnets.save(models.hnet_mnist(), path, card=CARD)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize("card", [{}, {**CARD, "colour": 1}])
def test_a_card_says_everything(tmp_path: Path, card: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="card has recipe, data, metrics, commit, got"):
        hnets.save(models.z2cnn(), tmp_path / "z2cnn.safetensors", card=card)


@pytest.mark.parametrize("name", hnets.list_models(pretrained=True))
def test_shipped_weights_load(name: str) -> None:
    net, card = hnets.load(name), models.model_card(name)
    assert sum(p.numel() for p in net.parameters()) == card["parameters"]
    assert card["options"].items() <= net.config.options.items()
    # Options that are newer than the weights have their defaults.
    assert net.config == hnets.create_model(card["model"], **card["options"]).config
    assert set(card) == {"model", "tag", "parameters", "sha256", "options", *store.TRAINED}
    edges = isinstance(net, models.EdgeNetwork)
    outputs = net(torch.rand(2, 3, 33, 49)) if edges else logits(net)
    assert outputs.isfinite().all()


def test_the_networks_for_digits_ship() -> None:
    assert {"hnet_mnist", "hnet_fourier_base.pointing"} <= set(hnets.list_models(pretrained=True))
