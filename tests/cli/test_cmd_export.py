"""hnets export: files that agree with torch, and one line about anything else."""

import builtins
import shutil
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import hnets
from commands import Command
from hnets.cli import cmd_export as command
from hnets.errors import InputError
from hnets.models import _weights as weights
from networks import digits, relative


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def trained() -> Path:
    """Weights of the digits network that are not those of the package."""
    path = Path("model.safetensors")
    save_file(digits().state_dict(), path)
    return path


@pytest.fixture
def run(hnets_command: Command) -> Path:
    """The folder of a run with coloured pictures of three classes, and an option of the model."""
    for number in range(9):
        folder = Path("pictures") / "abc"[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (28, 28), (20 * number, 100, 50)).save(folder / f"{number}.png")
    changes = ("data.name=pictures", "data.size=28", "training.epochs=1", "training.batch=3",
               "model.name=hnet_mnist", "model.options.rings=gaussian")  # fmt: skip
    settings = [part for change in changes for part in ("--set", change)]
    assert hnets_command("train", "pictures-small", "--out", "run", *settings).code == 0
    return Path("run")


def test_weights_of_the_package_as_onnx(hnets_command: Command) -> None:
    done = hnets_command("export", "hnet_mnist", "new folder/digits.onnx", "--size", "32x30")
    assert (done.code, done.err) == (0, "")
    path = Path("new folder/digits.onnx")
    size = path.stat().st_size
    assert done.out.startswith(
        f"wrote {path}: {size / 1000:,.0f} kB, input (batch, 1, height, width) to output "
        "(batch, 10), differs from torch by "
    )
    assert done.out.endswith(" at most in onnxruntime\n")
    assert done.out.count("\n") == 1
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    onnx.checker.check_model(onnx.load(path), full_check=True)
    net = hnets.create_model("hnet_mnist", pretrained=True).eval()
    x = torch.rand(3, 1, 41, 36)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found = torch.from_numpy(session.run(None, {"input": x.numpy()})[0])
    assert relative(found, net(x)) < 1e-5


# Until torch 2.13, torch.export.load warns of how it reads its own files.
@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")
def test_weights_of_ones_own_as_a_program(hnets_command: Command, trained: Path) -> None:
    done = hnets_command("export", "hnet_mnist", "digits.pt2", "--weights", str(trained))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("wrote digits.pt2: ")
    assert sorted(p.name for p in Path().iterdir()) == ["digits.pt2", "model.safetensors"]
    content = Path("digits.pt2").read_bytes()
    assert b"site-packages" not in content
    assert str(Path(__file__).parent).encode() not in content
    net = hnets.create_model("hnet_mnist").eval()
    net.load_state_dict(load_file(trained))
    x = torch.rand(2, 1, 32, 29)
    assert relative(torch.export.load("digits.pt2").module()(x), net(x)) < 1e-5


def test_a_run_with_its_own_pictures_and_options(hnets_command: Command, run: Path) -> None:
    file = run / "seed-1" / "model.safetensors"
    done = hnets_command("export", "hnet_mnist", "own.onnx", "--weights", str(file))
    assert (done.code, done.err) == (0, "")
    assert "input (batch, 3, height, width) to output (batch, 3), differs" in done.out
    net = hnets.create_model("hnet_mnist", in_channels=3, classes=3, rings="gaussian").eval()
    net.load_state_dict(load_file(file))
    x = torch.rand(2, 3, 28, 33)
    session = onnxruntime.InferenceSession("own.onnx", providers=["CPUExecutionProvider"])
    found = torch.from_numpy(session.run(None, {"input": x.numpy()})[0])
    assert relative(found, net(x)) < 1e-5


def test_what_a_run_says_of_its_network_is_found(
    monkeypatch: pytest.MonkeyPatch, run: Path
) -> None:
    net, file = hnets.create_model("hnet_mnist"), run / "seed-1" / "model.safetensors"

    def classes() -> int:
        own = command._own(net, "hnet_mnist", file)
        return own.eval()(torch.zeros(1, 3, 28, 28)).shape[1]

    assert classes() == 3
    (run / "result.json").write_text("{")  # run.json is still there
    assert classes() == 3
    shutil.move(run / "run.json", "run.json")  # as hnets reproduce does
    assert classes() == 3
    shutil.move("run.json", run / "seed-1" / "result.json")
    assert classes() == 3
    monkeypatch.chdir(run / "seed-1")
    file = Path("model.safetensors")
    assert classes() == 3
    Path("result.json").write_text('{"recipe": "of another program"}')
    with pytest.raises(InputError, match=r"model\.safetensors does not fit hnet_mnist: expected"):
        classes()


def test_a_run_of_another_model(hnets_command: Command, run: Path) -> None:
    file = run / "seed-1" / "model.safetensors"
    done = hnets_command("export", "z2cnn", "x.onnx", "--weights", str(file))
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"hnets: {file} was trained as hnet_mnist, as {Path('run/result.json').absolute()} says, "
        "not as z2cnn; export it as hnet_mnist\n"
    )
    assert not Path("x.onnx").exists()


def test_options_that_the_model_does_not_have(run: Path) -> None:
    path = run / "result.json"
    path.write_text(path.read_text().replace('"rings"', '"circles"'))
    file = run / "seed-1" / "model.safetensors"
    with pytest.raises(InputError, match=r"result\.json describes no network: .* no option 'circ"):
        command._own(hnets.create_model("hnet_mnist"), "hnet_mnist", file)


@pytest.mark.parametrize("name", ["hdsn", "hnet_fourier_tiny", "p4cnn"])
def test_channels_and_classes_are_read_off_the_weights(name: str) -> None:
    counts = {} if name == "hdsn" else {"in_channels": 2, "classes": 7}
    state = hnets.create_model(name, **counts).state_dict()
    assert command._counted(command._Record(Path(), name, {}), state) == counts


@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")
@pytest.mark.parametrize("size", ["28x28", "40x40"])
def test_programs_of_networks_that_shrink_pictures_to_one_pixel(
    hnets_command: Command, size: str
) -> None:
    done = hnets_command("export", "z2cnn", "x.pt2", "--size", size)
    assert (done.code, done.err) == (0, "")
    net = hnets.create_model("z2cnn", pretrained=True).eval()
    program = torch.export.load("x.pt2").module()
    for shape in [(1, 1, 28, 28), (3, 1, 28, 50), (2, 1, 61, 40)]:
        x = torch.rand(shape)
        assert relative(program(x), net(x)) < 1e-5


def test_help(hnets_command: Command) -> None:
    assert "export" in hnets_command("--help").out
    done = hnets_command("export", "--help")
    for word in (".onnx", ".pt2", "--weights", "--size"):
        assert word in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("hnet_minst x.onnx", "no model is called 'hnet_minst'; did you mean 'hnet_mnist'?"),
        ("hnet_mnist x.onxx", "expected a file that ends in .onnx or .pt2, got 'x.onxx'"),
        ("hnet_mnist onnx", "expected a file that ends in .onnx or .pt2, got 'onnx'"),
        ("hnet_mnist folder.onnx", "expected a file that ends in .onnx or .pt2, got"),
        ("hnet_mnist x.onnx --size 28", "'28' is not HEIGHTxWIDTH in pixels"),
        ("hnet_mnist x.onnx --size 2x2", "2x2 is too small for hnet_mnist; try 28x28"),
        ("p4cnn x.onnx", "there are no trained weights for p4cnn; models that have some: "),
        ("hnet_mnist x.onnx --weights no", "there is no file no; hnets train writes a model."),
        ("hnet_mnist x.onnx --weights folder.onnx", "there is no file folder.onnx; "),
        ("hnet_mnist x.onnx --weights text", "text is not a safetensors file ("),
        (
            "hnet_mnist x.onnx --weights other.safetensors",
            "other.safetensors does not fit hnet_mnist: expected layers.0.0.filters.radial.0 of "
            "shape (8, 1, 11), got none",
        ),
        (
            "z2cnn x.onnx --weights five.safetensors",
            "five.safetensors does not fit z2cnn: expected layers.6.0.weight of shape "
            "(10, 20, 4, 4), got (5, 20, 4, 4)",
        ),
        (
            "z2cnn x.onnx --weights more.safetensors",
            "more.safetensors does not fit z2cnn: expected no more, got one of shape (1,)",
        ),
        ("hnet_mnist text/x.onnx", "expected a folder to write to, got 'text' ("),
    ],
)
def test_bad_input_is_one_line_and_nothing_written(
    hnets_command: Command, arguments: str, message: str
) -> None:
    Path("folder.onnx").mkdir()
    Path("text").write_text("no weights")
    ten, five = (hnets.models.z2cnn(classes=n).state_dict() for n in (10, 5))
    save_file({"weight": torch.ones(3)}, "other.safetensors")
    save_file(five, "five.safetensors")
    save_file({**ten, "more": torch.ones(1)}, "more.safetensors")
    before = sorted(Path().iterdir())
    done = hnets_command("export", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("hnets: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


def test_advice_where_no_weights_ship(hnets_command: Command) -> None:
    done = hnets_command("export", "p4cnn", "x.onnx")
    assert ", ".join(weights.available()) in done.err
    assert "give your own with --weights FILE.safetensors" in done.err


def test_a_network_that_gives_no_numbers_is_not_kept(hnets_command: Command, trained: Path) -> None:
    state = load_file(trained)
    state["layers.0.1.bias"][:] = float("nan")
    save_file(state, trained)
    Path("x.pt2").write_text("what was there before")
    done = hnets_command("export", "hnet_mnist", "x.pt2", "--weights", str(trained))
    assert done.code == 2
    assert done.err.startswith("hnets: the exported network differs from torch by nan")
    assert Path("x.pt2").read_text() == "what was there before"
    assert len(list(Path().iterdir())) == 2


def test_a_file_that_takes_small_pictures_only_is_not_kept(hnets_command: Command) -> None:
    """One that is traced with maps of one pixel, which torch.export takes for constants."""
    done = hnets_command("export", "hnet_fourier_tiny", "x.pt2", "--size", "4x4")
    assert (done.code, done.out) == (2, "")
    assert "made with an input of 4x4, the file takes none of 69x4" in done.err
    assert "give a larger --size" in done.err
    assert not list(Path().iterdir())


def test_without_onnxruntime_it_says_that_nothing_was_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = builtins.__import__

    def without(name: str, *others: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(hnets.export, "onnx", lambda *_: None)
    monkeypatch.setattr(builtins, "__import__", without)
    said = command._onnx(torch.nn.Identity(), tmp_path / "x.onnx", (1, 1, 28, 28))
    assert said == "not checked: that needs onnxruntime"


def test_missing_packages_are_one_line(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ImportError('ONNX export needs more packages: pip install "hnets[export]"')

    monkeypatch.setattr(hnets.export, "onnx", refuse)
    done = hnets_command("export", "hnet_mnist", "x.onnx")
    assert done.code == 2
    assert done.err == 'hnets: ONNX export needs more packages: pip install "hnets[export]"\n'
    assert not list(Path().iterdir())
