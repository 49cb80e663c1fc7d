"""hnets edges: images of every kind in, maps of their size out, and one line for what is none."""

import functools
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from commands import Command
from hnets import models
from hnets.models import EdgeNetwork
from hnets.models import _weights as store
from hnets.predict import EdgeDetector, edge_detector, suppress_edges, tiles
from hnets.predict.orientation import OrientationReader
from networks import edge_network, lively

INFO = {"recipe": {}, "data": {}, "metrics": {}, "commit": ""}


@functools.cache
def detector() -> EdgeDetector:
    return EdgeDetector(edge_network())


_readers = dict[bytes, OrientationReader]()


def calibrated(network: EdgeNetwork) -> OrientationReader:
    """The same one for the same weights: each command would take a second to calibrate its own."""
    weights = b"".join(value.numpy().tobytes() for value in network.state_dict().values())
    if weights not in _readers:
        _readers[weights] = OrientationReader(network)
    return _readers[weights]


@pytest.fixture
def command(hnets_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """hnets edges in an empty folder, with weights that are random."""
    models.save(edge_network(), tmp_path / "weights/hdsn.safetensors", card=INFO)
    monkeypatch.setattr(store, "FOLDER", tmp_path / "weights")
    monkeypatch.setattr(edge_detector, "OrientationReader", calibrated)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("COLUMNS", "80")
    return functools.partial(hnets_command, "edges", "--model", "hdsn")


def photo(width: int = 37, height: int = 26) -> Image.Image:
    random = np.random.default_rng(width * height)
    coarse = random.integers(0, 255, (height // 5 + 2, width // 5 + 2, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def pixels(path: Path | str | io.BytesIO) -> NDArray[np.uint8]:
    with Image.open(path) as opened:
        assert opened.format == "PNG"
        return np.array(opened)


def eight_bits(strength: NDArray[np.float32]) -> NDArray[np.uint8]:
    return (255 * strength).round().astype(np.uint8)


def names(folder: str = "edges-out") -> list[str]:
    return sorted(file.name for file in Path(folder).iterdir())


# Which network -----------------------------------------------------------------------------------


def test_a_network_is_named_or_a_file(command: Command, tmp_path: Path) -> None:
    photo(20, 20).save("photo.png")
    net = lively(models.hedge_tiny(), torch.rand(2, 3, 48, 48))
    models.save(net, tmp_path / "weights/hedge_tiny.safetensors", card=INFO)
    models.save(models.hed_low(), "mine.safetensors")
    strength = EdgeDetector(net)(np.asarray(photo(20, 20)))
    for name in ("tiny", "hedge_tiny", str(tmp_path / "weights/hedge_tiny.safetensors")):
        done = command("photo.png", "--model", name, "--orientation")
        assert done.code == 0, done.err
        np.testing.assert_array_equal(pixels("edges-out/photo.edges.png"), eight_bits(strength))
    done = command("photo.png", "--model", "mine.safetensors", "--thin", "-o", "thin")
    assert (done.code, names("thin")) == (0, ["photo.edges.png", "photo.thin.png"])


# What is written ----------------------------------------------------------------------------------


def test_a_image_becomes_a_map_of_its_size(command: Command) -> None:
    photo().save("photo.png")
    done = command("photo.png")
    assert (done.code, done.out, done.err) == (0, "wrote edges-out/photo.edges.png\n", "")
    edges = pixels("edges-out/photo.edges.png")
    assert (edges.shape, edges.dtype) == ((26, 37), np.uint8)
    np.testing.assert_array_equal(edges, eight_bits(detector()(photo())))


def test_the_rest_is_written_on_request(command: Command) -> None:
    image = photo(120, 100)
    image.save("photo.png")
    done = command("photo.png", "--thin", "--orientation", "--overlay", "--npz", "-o", "maps")
    assert (done.code, done.err) == (0, "")
    assert names("maps") == [f"photo.{end}" for end in (
        "edges.npz", "edges.png", "orientation.png", "overlay.png", "thin.png"
    )]  # fmt: skip
    strength, angle = detector().oriented(image)
    with np.load("maps/photo.edges.npz") as arrays:
        assert sorted(arrays) == ["angle", "magnitude"]
        np.testing.assert_array_equal(arrays["magnitude"], strength)
        np.testing.assert_array_equal(arrays["angle"], angle)
    np.testing.assert_array_equal(pixels("maps/photo.edges.png"), eight_bits(strength))
    lines = eight_bits(suppress_edges(strength))
    np.testing.assert_array_equal(pixels("maps/photo.thin.png"), lines)
    for name in ("orientation", "overlay"):
        assert pixels(f"maps/photo.{name}.png").shape == (100, 120, 3)


def test_scales_are_averaged(command: Command) -> None:
    photo().save("photo.png")
    expected = eight_bits(detector()(photo(), (0.5, 1, 1.5)))
    for texts in (["0.5,1,1.5"], ["0.5", "1,1.5"], ["0.5", "1", "1.5"]):
        options = [part for scale in texts for part in ("--scale", scale)]
        assert command("photo.png", *options).code == 0
        np.testing.assert_array_equal(pixels("edges-out/photo.edges.png"), expected)


def test_bfloat16_is_used_on_request(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_detector, "cpu_has_bfloat16", lambda: True)
    photo().save("a.png")
    assert command("a.png", "--fast").code == 0
    strength = EdgeDetector(edge_network(), fast=True)(photo())
    assert np.array_equal(pixels("edges-out/a.edges.png"), eight_bits(strength))
    assert not np.array_equal(strength, detector()(photo()))


def test_a_large_image_is_cut_into_tiles(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    photo(260, 30).save("photo.png")
    command("photo.png", "--orientation")
    whole = [pixels(f"edges-out/{name}") for name in names()]
    halves = [(range(30), range(131)), (range(30), range(131, 260))]
    monkeypatch.setattr(tiles, "split", lambda *_: halves)
    command("photo.png", "--orientation", "-o", "again")
    for name, expected in zip(names(), whole, strict=True):
        difference = np.abs(pixels(f"again/{name}").astype(int) - expected)
        assert np.quantile(difference, 0.999) <= 1


# Pictures of every kind ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("RGB", "jpg"), ("L", "png"), ("P", "png"), ("P", "gif"), ("1", "png"), ("LA", "png"),
     ("RGBA", "png"), ("RGBA", "webp"), ("CMYK", "jpg"), ("CMYK", "tif"), ("YCbCr", "tif"),
     ("LAB", "tif"), ("I;16", "png"), ("I", "tif"), ("F", "tif"), ("RGB", "bmp")],
)  # fmt: skip
def test_every_kind_of_image_is_read(command: Command, mode: str, kind: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.asarray(photo().convert("L")).astype(np.uint16) * 201)
    elif mode == "LAB":
        image = Image.frombytes("LAB", photo().size, photo().tobytes())
    else:
        image = photo().convert("L" if mode in ("I", "F") else "RGB").convert(mode)
    image.save(f"photo.{kind}")
    done = command(f"photo.{kind}")
    assert (done.code, done.err) == (0, "")
    assert pixels("edges-out/photo.edges.png").shape == (26, 37)


def test_a_photograph_that_lies_on_its_side_is_put_upright(command: Command) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    photo().save("photo.png", exif=exif)
    assert command("photo.png", "--overlay").code == 0
    upright = photo().transpose(Image.Transpose.ROTATE_270)
    edges = pixels("edges-out/photo.edges.png")
    assert edges.shape == (37, 26)
    np.testing.assert_array_equal(edges, eight_bits(detector()(upright)))
    assert pixels("edges-out/photo.overlay.png").shape == (37, 26, 3)


def test_images_may_be_small(command: Command) -> None:
    sizes = [(1, 1), (1, 40), (40, 1), (2, 2), (15, 17)]
    for number, size in enumerate(sizes):
        photo(*size).save(f"{number}.png")
    done = command("*.png", "--thin", "--orientation", "--overlay", "--npz", "--scale", "0.5,2")
    assert (done.code, done.err) == (0, "")
    for number, size in enumerate(sizes):
        for name in ("edges", "thin", "orientation", "overlay"):
            assert pixels(f"edges-out/{number}.{name}.png").shape[:2] == size[::-1]


# Files, folders and patterns ----------------------------------------------------------------------


def test_files_folders_and_patterns_come_in_order_and_once(command: Command) -> None:
    for name in ("one.png", "more/b.png", "more/A.JPG", "more/.hidden.png", "x/1.png", "x/[2].png"):
        Path(name).parent.mkdir(exist_ok=True)
        photo(20, 20).save(name, format="png")
    Path("more/notes.txt").write_text("no image")
    done = command("one.png", "more", "./more/b.png", "x/?.png", "x/[2].png")
    assert (done.code, done.err) == (0, "")
    written = re.findall(r"wrote edges-out/(.*)\.edges\.png", done.out)
    assert written == ["one", "A", "b", "1", "[2]"]


def test_what_it_wrote_itself_is_not_read_from_a_folder(command: Command) -> None:
    Path("in").mkdir()
    photo(20, 20).save("in/photo.png")
    for _ in range(2):
        done = command("in", "-o", "in", "--thin", "--orientation", "--overlay", "--npz")
        assert done.code == 0
        assert len(names("in")) == 6
    np.testing.assert_array_equal(pixels("in/photo.png"), np.asarray(photo(20, 20)))


def test_of_many_files_only_the_number_is_said(command: Command) -> None:
    Path("in").mkdir()
    for number in range(14):
        photo(8, 8).save(f"in/{number:02}.png")
    done = command("in")
    summary = r"wrote 14 files for 14 images in edges-out: [\d.]+ images/s, 0 failed, 0 skipped\n"
    assert re.fullmatch(summary, done.out), done.out
    assert len(names()) == 14


def test_two_images_of_one_name_get_two_names(command: Command) -> None:
    for name in ("a/photo.jpg", "a/photo.png", "b/photo.png", "c/PHOTO.bmp"):
        Path(name).parent.mkdir(exist_ok=True)
        photo(20, 20).save(name)
    done = command("a", "b", "c")
    assert done.code == 0
    assert names() == [
        "PHOTO.bmp.edges.png",
        "photo-2.edges.png",
        "photo.jpg.edges.png",
        "photo.png.edges.png",
    ]
    assert done.err == (
        "hnets: a/photo.jpg is written as photo.jpg.edges.png: another has the name photo\n"
        "hnets: a/photo.png is written as photo.png.edges.png: another has the name photo\n"
        "hnets: b/photo.png is written as photo-2.edges.png: another has the name photo\n"
        "hnets: c/PHOTO.bmp is written as PHOTO.bmp.edges.png: another has the name PHOTO\n"
    )


def test_folders_in_a_folder_are_mirrored(command: Command) -> None:
    for name in ("a.png", "x/a.png", "x/y/b.png", ".git/c.png", "x/.d.png"):
        Path("in", name).parent.mkdir(parents=True, exist_ok=True)
        photo(20, 20).save(f"in/{name}")
    done = command("in", "-o", "in/out")
    assert (done.code, done.err) == (0, "")
    files = [f"in/out/{name}.edges.png" for name in ("a", "x/a", "x/y/b")]
    assert done.out.splitlines() == [f"wrote {file}" for file in files]
    assert sorted(map(str, Path("in/out").rglob("*.png"))) == sorted(files)
    assert command("in", "-o", "in/out").out == done.out


def test_a_job_that_was_stopped_goes_on(command: Command) -> None:
    Path("in/x").mkdir(parents=True)
    for number in range(3):
        photo(20, 20 + number).save(f"in/x/{number}.png")
    command("in", "--thin")
    old, lost = Path("edges-out/x/0.edges.png"), Path("edges-out/x/1.thin.png")
    old.write_bytes(b"")
    lost.unlink()
    damaged("in/x/cut.png")
    done = command("in", "--thin", "--skip-existing")
    assert (done.code, done.err.count("\n")) == (2, 1)
    summary = "wrote 2 files for 1 images in edges-out: .* images/s, 1 failed, 2 skipped\n"
    assert re.fullmatch(summary, done.out), done.out
    assert old.read_bytes() == b""
    assert lost.is_file()
    done = command("in", "--thin", "--skip-existing")
    assert done.out == "wrote 0 files for 0 images in edges-out: 1 failed, 3 skipped\n"
    Path("in/x/cut.png").unlink()
    done = command("in", "--thin", "--skip-existing")
    assert (done.code, done.err) == (0, "")
    assert done.out == "wrote 0 files for 0 images in edges-out: 0 failed, 3 skipped\n"


def test_no_input_is_written_over(command: Command) -> None:
    photo(20, 20).save("photo.png")
    photo(24, 20).save("photo.edges.png")
    done = command("photo.png", "photo.edges.png", "-o", ".")
    assert done.code == 0
    np.testing.assert_array_equal(pixels("photo.edges.png"), np.asarray(photo(24, 20)))
    assert names(".") == [
        "photo.edges.edges.png", "photo.edges.png", "photo.png", "photo.png.edges.png"
    ]  # fmt: skip


# What is wrong ------------------------------------------------------------------------------------


def damaged(name: str) -> None:
    path = Path(name)
    data = io.BytesIO()
    photo(80, 80).save(data, "png")
    if path.name == "cut.png":
        path.write_bytes(data.getvalue()[: len(data.getvalue()) // 2])
    elif name == "empty.png":
        path.touch()
    elif name == "text.png":
        path.write_text("no image")
    elif name == "bomb.png":
        Image.new("1", (14000, 14000)).save(path)
    elif name == "nothing":
        path.mkdir()
    elif name == "loop.png":
        path.symlink_to(path)
    elif name == "pipe.png":
        os.mkfifo(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.png", r"there is no file missing\.png; give the path of an image"),
        ("cut.png", r"cut\.png is damaged or cut short \(.*\); save it again"),
        ("empty.png", r"empty\.png is empty; give a PNG"),
        ("text.png", r"text\.png is not an image that can be read; give a PNG"),
        ("bomb.png", r"bomb\.png has more than 178 million pixels; make it smaller first"),
        ("nothing", "there is no image in the folder nothing; expected files that end in .png"),
        ("no*.gif", r"there is no file like no\*\.gif; give the path of an image"),
        ("loop.png", r"loop\.png cannot be read \(Too many levels of symbolic links\)"),
        ("pipe.png", r"pipe\.png is not a regular file"),
        ("x" * 300, "there is no file x+; give the path of an image"),
    ],
)
def test_what_is_wrong_is_one_line_and_the_others_are_done(
    command: Command, name: str, message: str
) -> None:
    damaged(name)
    photo(20, 20).save("a.png")
    photo(20, 20).save("z.png")
    done = command("a.png", name, "z.png")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert re.fullmatch(f"hnets: {message}.*\n", done.err), done.err
    assert names() == ["a.edges.png", "z.edges.png"]
    done = command(name, "-o", "other")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert not Path("other").exists()


def test_a_folder_that_may_not_be_read_is_one_line_and_the_others_are_done(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read every folder, so the refusal is the file system's in name only."""
    scandir = os.scandir

    def refuse(folder: Any) -> Any:
        if str(folder).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    Path("in/locked").mkdir(parents=True)
    photo(20, 20).save("in/a.png")
    monkeypatch.setattr(os, "scandir", refuse)
    done = command("in", "in/locked")
    message = "hnets: in/locked cannot be read (Permission denied)\n"
    assert (done.code, done.err) == (2, 2 * message)
    assert names() == ["a.edges.png"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("b", r"edges-out/b\.edges\.png cannot be written \(is a folder; name a file in it\)"),
        ("b" * 250, r"edges-out/b+\.edges\.png cannot be written \(File name too long\)"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_line_and_the_others_are_done(
    command: Command, name: str, message: str
) -> None:
    Path("edges-out/b.edges.png").mkdir(parents=True)
    for each in ("a", name, "c"):
        photo(20, 20).save(f"{each}.png")
    done = command("a.png", f"{name}.png", "c.png")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert re.fullmatch(f"hnets: {message}\n", done.err), done.err
    assert names() == ["a.edges.png", "b.edges.png", "c.edges.png"]


def test_all_that_is_wrong_is_said(command: Command) -> None:
    wrong = ["missing.png", "cut.png", "text.png", "no*.gif"]
    for name in wrong:
        damaged(name)
    photo(20, 20).save("fine.png")
    done = command(*wrong, "fine.png")
    assert (done.code, done.err.count("\n")) == (2, 4)
    assert all(line.startswith("hnets: ") for line in done.err.splitlines())
    assert names() == ["fine.edges.png"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", r"Missing argument .*; see hnets edges --help"),
        ("photo.png --scale big", "expected numbers from 0.1 to 4 .*, as in 0.5,1,1.5, got 'big'"),
        ("photo.png --scale 1,,2", "got ''"),
        ("photo.png --scale 0", "got '0'"),
        ("photo.png --scale nan", "got 'nan'"),
        ("photo.png --device moon", "expected a device such as cpu or cuda, got 'moon'"),
        ("photo.png -o photo.png", "expected a folder to write to, got 'photo.png'"),
        ("photo.png other.png -o -", "expected one image for stdout, got 2; give a folder"),
        ("photo.png -o - --thin --npz", "expected one of --thin, --npz for stdout, got 2; give"),
        ("photo.png --thick", "No such option"),
        ("photo.png --model zebra", "no edge detector is called 'zebra'; choose from tiny, small"),
        ("photo.png --model base", "no trained weights for hedge_base; models that have some: "),
    ],
)  # fmt: skip
def test_bad_options_are_one_line(command: Command, arguments: str, message: str) -> None:
    photo(20, 20).save("photo.png")
    photo(20, 20).save("other.png")
    done = command(*arguments.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert re.search(message, done.err), done.err
    assert not Path("edges-out").exists()


def test_without_weights_the_command_says_so(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    photo(20, 20).save("photo.png")
    done = command("photo.png")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "there are no trained weights for hdsn" in done.err


@pytest.mark.parametrize("ending", ["png", "npz"])
def test_a_full_disk_is_named_and_leaves_no_half_a_file(
    command: Command, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    photo(20, 20).save("photo.png")
    monkeypatch.setattr(*((Image.Image, "save") if ending == "png" else (np, "savez")), full)
    done = command("photo.png", "photo.png", "--npz")
    assert done.code == 1
    assert done.err == f"hnets: edges-out/photo.edges.{ending}: No space left on device\n"
    assert names() == ([] if ending == "png" else ["photo.edges.png"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("kind", ["thin", "npz"])
def test_a_full_disk_is_named_on_stdout_too(
    command: Command, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    photo(20, 20).save("photo.png")
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=full, isatty=lambda: False))
        done = command("photo.png", f"--{kind}", "-o", "-")
    assert (done.code, done.err) == (1, "hnets: /dev/full: No space left on device\n")


def test_it_can_be_stopped(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    photo(20, 20).save("photo.png")
    monkeypatch.setattr(EdgeDetector, "__call__", stopped)
    done = command("photo.png")
    assert (done.code, done.err) == (130, "hnets: stopped\n")


def test_no_study_and_no_figure_is_imported_to_write_a_png(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photo().save("photo.png")
    code = (
        "import sys\nfrom hnets.cli import main\nsys.argv[:] = ['hnets', 'edges', 'photo.png']\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wrote, modules = done.stdout.splitlines()
    assert wrote == "wrote edges-out/photo.edges.png"
    others = ("hnets.studies", "hnets.plot", "hnets.train", "hnets.web", "matplotlib")
    assert not [name for name in modules.split() if name.startswith(others)]


# Pipes --------------------------------------------------------------------------------------------


class Pipe(io.TextIOWrapper):
    """A stdout that keeps its bytes."""

    def __init__(self, terminal: bool = False) -> None:
        self.held, self.terminal = io.BytesIO(), terminal
        super().__init__(self.held, encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return self.terminal


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def png(image: Image.Image) -> bytes:
    data = io.BytesIO()
    image.save(data, "png")
    return data.getvalue()


def test_stdin_goes_to_stdout(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, png(photo()))
    pipe = Pipe()
    monkeypatch.setattr(sys, "stdout", pipe)
    done = command("-")
    assert (done.code, done.err) == (0, "")
    np.testing.assert_array_equal(
        pixels(io.BytesIO(pipe.held.getvalue())), eight_bits(detector()(photo()))
    )
    assert not Path("edges-out").exists()


def test_one_kind_may_be_asked_for(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    photo().save("photo.png")
    command("photo.png", "--thin", "--orientation", "--overlay", "--npz")
    for kind in ("thin", "orientation", "overlay", "npz"):
        end = ".edges.npz" if kind == "npz" else f".{kind}.png"
        expected = Path(f"edges-out/photo{end}").read_bytes()
        pipe = Pipe()
        monkeypatch.setattr(sys, "stdout", pipe)
        assert command("photo.png", f"--{kind}", "-o", "-").code == 0
        if kind == "npz":  # a zip archive, which holds the time
            held = io.BytesIO(pipe.held.getvalue())
            with np.load(held) as one, np.load(io.BytesIO(expected)) as other:
                for name in ("magnitude", "angle"):
                    np.testing.assert_array_equal(one[name], other[name])
        else:
            assert pipe.held.getvalue() == expected


def test_stdin_may_go_to_a_folder(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, png(photo()))
    done = command("-", "-o", "maps")
    assert (done.code, done.out) == (0, "wrote maps/stdin.edges.png\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "stdin is empty; give a PNG"),
        (b"no image", "stdin is not an image that can be read"),
        (png(photo(80, 80))[:2000], r"stdin is damaged or cut short \(.*\)"),
    ],
)
def test_stdin_that_is_no_image_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, data: bytes, message: str
) -> None:
    feed(monkeypatch, data)
    done = command("-")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert re.match(f"hnets: {message}", done.err), done.err


def test_a_terminal_gets_no_bytes(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe(terminal=True)
    monkeypatch.setattr(sys, "stdout", pipe)
    done = command("-")
    assert (done.code, pipe.held.getvalue(), done.err.count("\n")) == (2, b"", 1)
    assert "expected stdout to be a file or a pipe, got a terminal" in done.err


def test_closed_pipes_are_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has None for a stream that was closed before it started."""
    photo(20, 20).save("photo.png")
    monkeypatch.setattr(sys, "stdin", None)
    done = command("-", "photo.png", "-o", "maps")
    assert (done.code, done.out) == (2, "wrote maps/photo.edges.png\n")
    assert done.err == "hnets: stdin is closed; write < photo.jpg, or give the path of an image\n"
    monkeypatch.setattr(sys, "stdout", None)
    done = command("photo.png", "-o", "-")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "expected stdout to be a file or a pipe, got a closed stdout; write >" in done.err


def test_help_has_examples(command: Command) -> None:
    done = command("--help")
    assert done.code == 0
    for example in ("hnets edges photo.jpg", "--scale 0.5,1,1.5", "hnets edges - <"):
        assert example in done.out
    assert "CPU time, hdsn = 1" in done.out
