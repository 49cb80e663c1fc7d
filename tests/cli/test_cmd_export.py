"""hnets export: files that agree with torch, and one line about anything else."""

from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import hnets
from commands import Command
from hnets.cli import cmd_export as command
from hnets.errors import MissingExtra
from networks import digits, relative


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def test_weights_of_the_package_as_onnx(hnets_command: Command) -> None:
    done = hnets_command("export", "z2cnn", "new folder/digits.onnx", "--size", "32x30")
    assert (done.code, done.err) == (0, "")
    path = Path("new folder/digits.onnx")
    size = path.stat().st_size
    assert done.out.startswith(
        f"wrote {path}: {size / 1000:,.0f} kB, input (batch, 1, height, width) to output "
        "(batch, 10), differs from torch by "
    )
    assert done.out.endswith(" at most\n")
    assert done.out.count("\n") == 1
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    onnx.checker.check_model(onnx.load(path), full_check=True)
    x = torch.rand(3, 1, 41, 36)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    output = torch.from_numpy(session.run(None, {"input": x.numpy()})[0])
    assert relative(output, hnets.load("z2cnn")(x)) < 1e-5


def test_brackets_in_a_name_are_no_markup(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hnets.export, "onnx", lambda net, path, _: hnets.save(net, path))
    monkeypatch.setattr(hnets.export, "compare", lambda *_: 0.0)
    hnets.save(hnets.create_model("z2cnn"), "runs[/b]/z2cnn.safetensors")
    done = hnets_command("export", "runs[/b]/z2cnn.safetensors", "x.onnx")
    assert (done.code, done.err) == (0, "")


def test_edge_detectors_by_their_short_names(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hnets.export, "onnx", lambda net, path, _: hnets.save(net, path))
    monkeypatch.setattr(hnets.export, "compare", lambda *_: 0.0)
    assert hnets_command("export", "tiny", "x.onnx", "--size", "32x48").code == 0
    Path("x.onnx").rename("x.safetensors")
    assert hnets.load("x.safetensors").config.name == "hedge_tiny"


def test_a_run_with_its_own_images_and_options(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coloured images of three classes, and an option of the model."""
    for number in range(9):
        folder = Path("images") / "abc"[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (28, 28), (20 * number, 100, 50)).save(folder / f"{number}.png")
    changes = ("data.name=images", "data.size=28", "training.epochs=1", "training.batch=3",
               "model.name=z2cnn", "model.options.dropout=0.5")  # fmt: skip
    settings = [part for change in changes for part in ("--set", change)]
    assert hnets_command("train", "pictures-small", "--out", "run", *settings).code == 0
    monkeypatch.setattr(hnets.export, "onnx", lambda net, path, _: hnets.save(net, path))
    monkeypatch.setattr(hnets.export, "compare", lambda *_: 0.0)
    net = hnets.load("run")
    assert net.config.options == {"in_chans": 3, "num_classes": 3, "dropout": 0.5}
    done = hnets_command("export", "run/seed-1", "own.onnx")
    assert (done.code, done.err) == (0, "")
    assert "input (batch, 3, height, width) to output (batch, 3), differs" in done.out
    assert Path("own.onnx").read_bytes() == Path("run/seed-1/model.safetensors").read_bytes()


# Until torch 2.13, torch.export.load warns of how it reads its own files.
@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")
def test_programs_of_networks_that_shrink_images_to_one_pixel(hnets_command: Command) -> None:
    """From a file of one's own, to a file that exists already."""
    hnets.save(hnets.load("z2cnn"), "mine.safetensors")
    Path("x.pt2").write_text("what was there before")
    done = hnets_command("export", "mine.safetensors", "x.pt2")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("wrote x.pt2: ")
    assert sorted(p.name for p in Path().iterdir()) == ["mine.safetensors", "x.pt2"]
    content = Path("x.pt2").read_bytes()
    assert b"site-packages" not in content
    assert str(Path(__file__).parent).encode() not in content
    net, program = hnets.load("z2cnn"), torch.export.load("x.pt2").module()
    for shape in [(1, 1, 28, 28), (3, 1, 28, 50), (2, 1, 61, 40)]:
        x = torch.rand(shape)
        assert relative(program(x), net(x)) < 1e-5


def test_the_maps_of_a_backbone(hnets_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which come in a list, and not for every size; files of lists are written in test_export."""
    shapes = list[tuple[int, ...]]()
    monkeypatch.setattr(hnets.export, "onnx", lambda _, path, shape: path.write_text(str(shape)))
    monkeypatch.setattr(hnets.export, "compare", lambda *given: shapes.append(given[2]) or 0.0)
    net = hnets.create_model("hresnet10", features_only=True, out_indices=(1, 3))
    hnets.save(net, "maps.safetensors")
    done = hnets_command("export", "maps.safetensors", "maps.onnx")
    assert (done.code, done.err, shapes) == (0, "", [(1, 3, 96, 96)])
    widths = [f"(batch, {width}, height, width)" for width in net.feature_info.channels()]
    assert f"input (batch, 3, height, width) to outputs {', '.join(widths)}, differs" in done.out
    done = hnets_command("export", "maps.safetensors", "other.onnx", "--size", "95x95")
    assert done.code == 2
    assert "expects sides that are multiples of 16, or one more, got (1, 3, 95, 95)" in done.err


def test_help(hnets_command: Command) -> None:
    assert "export" in hnets_command("--help").out
    done = hnets_command("export", "--help")
    for word in (".onnx", ".pt2", "folder", "--size"):
        assert word in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "hnet_minst x.onnx",
            "no model is called 'hnet_minst', nor is there such a file; did you",
        ),
        ("hnet_mnist x.onxx", "expected a file that ends in .onnx or .pt2, got 'x.onxx'"),
        ("hnet_mnist onnx", "expected a file that ends in .onnx or .pt2, got 'onnx'"),
        ("hnet_mnist folder.onnx", "expected a file that ends in .onnx or .pt2, got"),
        ("hnet_mnist x.onnx --size 28", "'28' is not HEIGHTxWIDTH in pixels"),
        ("hnet_mnist x.onnx --size 2x2", "2x2 is too small for this HNetMNIST; try 96x96"),
        ("p4cnn x.onnx", "there are no trained weights for p4cnn; models that have some: "),
        ("no/where x.onnx", "there is no file or folder no/where; hnets train writes a model."),
        ("folder.onnx x.onnx", "there is no model.safetensors in folder.onnx; has the training "),
        ("text x.onnx", "text is not a safetensors file ("),
        ("other.safetensors x.onnx", "other.safetensors does not say which network it is of"),
        ("hnet_mnist text/x.onnx", "expected a folder to write to, got 'text' ("),
    ],
)
def test_bad_input_is_one_line_and_nothing_written(
    hnets_command: Command, arguments: str, message: str
) -> None:
    Path("folder.onnx").mkdir()
    Path("text").write_text("no weights")
    save_file({"weight": torch.ones(3)}, "other.safetensors")
    before = sorted(Path().iterdir())
    done = hnets_command("export", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("hnets: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("difference", [0.01, float("nan")])
def test_a_file_that_differs_is_not_kept(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch, difference: float
) -> None:
    monkeypatch.setattr(hnets.export, "onnx", lambda _, path, __: path.write_text("other"))
    monkeypatch.setattr(hnets.export, "compare", lambda *_: difference)
    Path("x.onnx").write_text("what was there before")
    done = hnets_command("export", "hnet_mnist", "x.onnx")
    assert done.code == 2
    assert done.err.startswith(
        f"hnets: the exported network differs from torch by {difference:.1e}"
    )
    assert Path("x.onnx").read_text() == "what was there before"
    assert len(list(Path().iterdir())) == 1


def test_a_file_that_takes_small_images_only_is_not_kept(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried with maps of one pixel too; the error is that of the attempt without."""
    tried = []

    def write(_: nn.Module, path: Path, __: tuple[int, ...], one_pixel: bool = False) -> None:
        path.write_text("small")
        tried.append(one_pixel)

    def compare(*_: object, small: bool = True) -> float:
        raise hnets.export.SizeError(f"attempt {len(tried)}")

    monkeypatch.setattr(hnets.export, "pt2", write)
    monkeypatch.setattr(hnets.export, "compare", compare)
    done = hnets_command("export", "hnet_mnist", "x.pt2", "--size", "4x4")
    assert done == (2, "", "hnets: attempt 1\n")
    assert tried == [False, True]
    assert not list(Path().iterdir())


def test_a_program_that_takes_no_map_of_one_pixel_is_kept_and_says_so(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an hresnet, which the attempt with maps of one pixel leaves without batches of one."""

    def compare(_: nn.Module, path: Path, shape: tuple[int, ...], small: bool = True) -> float:
        assert shape[2:] == (96, 96)
        if small or path.read_text() == "True":
            raise hnets.export.SizeError("takes none of 28x28")
        return 0.0

    def write(_: nn.Module, path: Path, __: object, one_pixel: bool = False) -> None:
        path.write_text(str(one_pixel))

    monkeypatch.setattr(hnets.export, "pt2", write)
    monkeypatch.setattr(hnets.export, "compare", compare)
    monkeypatch.setattr(hnets.export, "smallest_side", lambda _, *numbers: sum(numbers))
    hnets.save(hnets.create_model("hresnet10"), "mine.safetensors")
    done = hnets_command("export", "mine.safetensors", "x.pt2")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith(
        " at most; it takes images from 99×99 pixels on, an ONNX file smaller ones\n"
    )
    assert Path("x.pt2").read_text() == "False"
    assert sorted(path.name for path in Path().iterdir()) == ["mine.safetensors", "x.pt2"]


def test_without_onnxruntime_it_says_that_nothing_was_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> float:
        raise MissingExtra("comparisons", "onnxruntime", "export")

    monkeypatch.setattr(hnets.export, "onnx", lambda *_: None)
    monkeypatch.setattr(hnets.export, "compare", refuse)
    check = command._write(digits(), tmp_path / "x.onnx", (1, 1, 28, 28))
    assert check == (
        'not compared with torch: comparisons need onnxruntime: pip install "hnets[export]"'
    )


def test_missing_packages_are_one_line(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise MissingExtra("ONNX files", "onnx and onnxscript", "export")

    monkeypatch.setattr(hnets.export, "onnx", refuse)
    done = hnets_command("export", "hnet_mnist", "x.onnx")
    assert done.code == 2
    assert done.err == 'hnets: ONNX files need onnx and onnxscript: pip install "hnets[export]"\n'
    assert not list(Path().iterdir())
