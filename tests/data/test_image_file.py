"""Reading image files of every kind."""

import errno
import io
import os
import socket
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hnets.data.image_file import LARGEST, SUFFIXES, ImageError, read_image


def gradient(width: int = 40, height: int = 30) -> Image.Image:
    """Dark at the left, bright at the right; the top row is red."""
    values = np.broadcast_to(np.linspace(0, 255, width), (height, width))
    pixels = np.repeat(values[..., None], 3, axis=-1).round().astype(np.uint8)
    pixels[:5] = (255, 0, 0)
    return Image.fromarray(pixels)


def written(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("mode", ["RGB", "P", "L", "1", "RGBA", "LA", "CMYK", "YCbCr", "I;16"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.asarray(gradient().convert("L")).astype(np.uint16) * 200)
    else:
        image = gradient().convert(mode)
    kind = "tif" if mode in ("CMYK", "YCbCr") else "png"
    read = read_image(written(image, tmp_path / f"image.{kind}"))
    assert (read.mode, read.size) == ("RGB", (40, 30))
    grey = np.asarray(read.convert("L")).astype(float)
    assert grey[10:, -8:].mean() - grey[10:, :8].mean() > 120


def test_sixteen_bits_and_floats_are_not_clipped(tmp_path: Path) -> None:
    ramp = np.broadcast_to(np.linspace(0, 1, 50), (20, 50))
    wide = Image.fromarray((ramp * 40000).astype(np.uint16))
    real = Image.fromarray((ramp * 3 - 1).astype(np.float32))
    for path in (written(wide, tmp_path / "wide.png"), written(real, tmp_path / "real.tif")):
        column = np.asarray(read_image(path))[10, :, 0].astype(int)
        assert (column[0], column[-1]) == (0, 255)
        assert (np.diff(column) > 0).all()


def test_transparency_is_laid_on_white(tmp_path: Path) -> None:
    image = Image.new("RGBA", (20, 20), (200, 0, 0, 0))
    read = read_image(written(image, tmp_path / "clear.png"))
    assert read.getpixel((5, 5)) == (255, 255, 255)


def test_the_orientation_of_the_camera_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera lay on its side: to be rotated clockwise
    read = read_image(written(gradient(), tmp_path / "photo.png", exif=exif))
    assert read.size == (30, 40)
    assert read.getpixel((28, 20)) == (255, 0, 0), "the red top row belongs to the right now"


def test_an_animation_gives_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("blue", "red")]
    path = tmp_path / "film.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert read_image(path).getpixel((3, 3)) == (0, 0, 255)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_is_read(tmp_path: Path, suffix: str) -> None:
    image = gradient().convert("1" if suffix == ".pbm" else "RGB")
    assert read_image(written(image, tmp_path / f"image{suffix}")).size == (40, 30)


@pytest.mark.parametrize("name", ["image.eps", "image.png"])
def test_formats_that_start_other_programs_are_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.check_call", lambda *_, **__: pytest.fail("it ran a program"))
    gradient().save(tmp_path / name, "EPS")
    with pytest.raises(ImageError) as caught:
        read_image(tmp_path / name)
    assert str(caught.value) == (
        f"{tmp_path / name} is not an image that can be read; "
        "give a PNG, JPEG, WebP, GIF, BMP, TIFF or PPM file"
    )


def damaged(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.png"
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("not an image")
    elif kind == "truncated":
        data = io.BytesIO()
        noise = np.random.default_rng(0).integers(0, 255, (80, 80, 3), dtype=np.uint8)
        Image.fromarray(noise).save(data, "png")
        path.write_bytes(data.getvalue()[:9000])
    elif kind == "tiny":
        Image.new("RGB", (1, 1)).save(path)
    elif kind == "huge":
        Image.new("1", (14000, 14000)).save(path)
    elif kind == "nan":
        path = path.with_suffix(".tif")
        Image.fromarray(np.full((20, 20), np.nan, np.float32)).save(path)
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "there is no file .*; give the path of an image"),
        ("folder", "is a folder; give one image in it"),
        ("empty", "is empty; give a PNG"),
        ("text", "is not an image that can be read; give a PNG"),
        ("truncated", r"is damaged or cut short \(.*\); save it again"),
        ("tiny", "is 1×1 pixels, and at least 16×16 are needed"),
        ("huge", "has more than 89 million pixels; make it smaller first"),
        ("nan", "it holds no finite value"),
    ],
)
def test_what_is_wrong_with_an_image_is_one_line(
    tmp_path: Path, kind: str, message: str
) -> None:  # fmt: skip
    with pytest.raises(ImageError, match=message) as caught:
        read_image(damaged(tmp_path, kind))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["tif", "png", "gif"])
def test_a_file_that_says_more_pixels_than_it_can_have_is_damaged(
    tmp_path: Path, suffix: str
) -> None:
    """Pillow reads the others as black; millions would keep a network busy for minutes."""
    path = written(Image.new("1", (24, 20)), tmp_path / f"tall.{suffix}")
    content = bytearray(path.read_bytes())
    if suffix == "png":
        struct.pack_into(">I", content, 20, 2**21)
        struct.pack_into(">I", content, 29, zlib.crc32(content[12:29]))
    elif suffix == "gif":
        struct.pack_into("<HH", content, 6, 2**12, 2**13)
    else:
        rows = content.index(struct.pack("<HHI", 257, 4, 1)) + 8  # the tag of the height
        struct.pack_into("<I", content, rows, 2**21)
    path.write_bytes(content)
    with Image.open(path) as opened:
        assert opened.height >= 2**13
    for source in (path, io.BytesIO(content)):
        with pytest.raises(ImageError, match=r"is damaged .* fewer pixels than it says"):
            read_image(source, largest=2 * LARGEST, name=path.name)


def test_a_damaged_tiff_prints_nothing_itself(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (80, 80, 3), dtype=np.uint8)
    path = written(Image.fromarray(noise), tmp_path / "noise.tif", compression="tiff_lzw")
    content = bytearray(path.read_bytes())
    content[20:-250:37] = bytes(len(content[20:-250:37]))
    path.write_bytes(content)

    def read() -> None:
        with pytest.raises(ImageError, match=r"noise\.tif is damaged or cut short"):
            read_image(path)

    with ThreadPoolExecutor(4) as pool:
        for task in [pool.submit(read) for _ in range(8)]:
            task.result()
    os.write(2, b"restored")
    assert capfd.readouterr() == ("", "restored")


def special(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.png"
    if kind == "pipe":
        os.mkfifo(path)  # to open it would wait for a writer
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "below a file":
        tmp_path.joinpath("file").touch()
        path = tmp_path / "file" / "image.png"
    return {"device": Path("/dev/zero"), "NUL": Path("\0.png"), "long": Path("x" * 300)}.get(
        kind, path
    )


@pytest.mark.skipif(os.name == "nt", reason="needs the special files of POSIX systems")
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pipe", "is not a regular file"),
        ("socket", "is not a regular file"),
        ("device", "is not a regular file"),
        ("loop", r"cannot be read \(Too many levels of symbolic links\)"),
        ("long", r"cannot be read \(File name too long\)"),
        ("below a file", r"cannot be read \(Not a directory\)"),
        ("NUL", r"cannot be read \(.*null byte\)"),
    ],
)
def test_only_regular_files_are_opened(
    tmp_path: Path, kind: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    with pytest.raises(ImageError, match=message) as caught:
        read_image(special(Path(), kind))
    assert "\n" not in str(caught.value)


def test_a_file_without_permission_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:  # as chmod cannot deny a file to root
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = written(gradient(), tmp_path / "image.png")
    monkeypatch.setattr(Image, "open", denied)
    with pytest.raises(ImageError, match=r"image\.png cannot be read \(Permission denied\)$"):
        read_image(path)


def test_limits_are_those_of_the_arguments(tmp_path: Path) -> None:
    path = written(gradient(4, 3), tmp_path / "small.png")
    assert read_image(path, smallest=1).size == (4, 3)
    with pytest.raises(ImageError, match="is 4×3 pixels, and at least 4×4 are needed"):
        read_image(path, smallest=4)
    large = written(Image.new("1", (9500, 9500)), tmp_path / "large.png")
    assert read_image(large, largest=10**8).size == (9500, 9500)
    with pytest.raises(ImageError, match="has more than 89 million pixels; make it smaller"):
        read_image(large)


def test_an_open_file_is_read_and_errors_use_its_name() -> None:
    data = io.BytesIO()
    gradient().save(data, "png")
    assert read_image(data, name="stdin").size == (40, 30)
    for content, message in (
        (b"", "stdin is empty"),
        (b"text", "stdin is not an image"),
        (data.getvalue()[:60], "stdin is damaged or cut short"),
    ):
        with pytest.raises(ImageError, match=f"^{message}"):
            read_image(io.BytesIO(content), name="stdin")


def test_large_images_of_many_bits_are_stretched_strip_by_strip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).uniform(-3, 5, (60, 50)).astype(np.float32)
    values[7, 7], values[30, 3] = np.nan, np.inf
    path = written(Image.fromarray(values), tmp_path / "real.tif")
    whole = np.asarray(read_image(path))
    monkeypatch.setattr("hnets.data.image_file._STRIP", 100)
    np.testing.assert_array_equal(np.asarray(read_image(path)), whole)
    assert (whole.min(), whole.max()) == (0, 255)
    assert whole[7, 7, 0] == 0, "NaN is as dark as the darkest"


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 800).astype(np.uint8)
    whole = Image.fromarray(np.broadcast_to(ramp, (600, 800)).copy())
    whole.save(tmp_path / "a.jpg", quality=95)
    whole.save(tmp_path / "a.png")
    for needed, size in ((100, (100, 75)), (101, (200, 150)), (400, (400, 300)), (401, (800, 600))):
        image = read_image(tmp_path / "a.jpg", needed=needed)
        assert image.size == size
        small = np.asarray(whole.resize(size, Image.Resampling.BOX), int)
        assert np.abs(np.asarray(image)[..., 0].astype(int) - small).max() <= 4
    assert read_image(tmp_path / "a.png", needed=100).size == (800, 600)
    assert read_image(tmp_path / "a.jpg", needed=9999).size == (800, 600)
