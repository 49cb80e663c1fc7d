"""Image files of every kind, and ways to damage them."""

from __future__ import annotations

import functools
import io
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

from PIL import Image

SIZE = (24, 20)
INTEGERS = (0, 1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1)


def _noise(mode: str, size: tuple[int, int] = SIZE) -> Image.Image:
    rng = random.Random(mode)
    colours = Image.frombytes("RGB", size, rng.randbytes(3 * size[0] * size[1]))
    if mode == "I;16":
        return Image.frombytes(mode, size, rng.randbytes(2 * size[0] * size[1]))
    if mode == "P":
        return colours.quantize(16)
    if mode in ("LA", "RGBA"):
        result = colours.convert(mode)
        result.putalpha(colours.getchannel(0))
        return result
    return colours.convert(mode)


def _saved(mode: str, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    _noise(mode).save(file, kind, **options)
    return file.getvalue()


@functools.cache
def samples() -> tuple[tuple[str, bytes], ...]:
    """Whole files as (suffix, content): the formats that are read, then some that may not be."""
    frames = {"save_all": True, "append_images": [_noise("RGB").rotate(a) for a in (90, 180)]}
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "a description"
    wanted: list[tuple[str, str, str, dict[str, Any]]] = [
        *((".png", mode, "PNG", {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")),
        (".png", "P", "PNG", {"transparency": 3}),
        (".png", "RGB", "PNG", frames),
        (".png", "RGB", "PNG", {"exif": exif, "icc_profile": b"no profile"}),
        *((".jpg", mode, "JPEG", {}) for mode in ("L", "RGB", "CMYK")),
        (".jpg", "RGB", "JPEG", {"progressive": True, "quality": 40}),
        (".jpeg", "RGB", "JPEG", {"exif": exif, "comment": b"c" * 50}),
        *(
            (".tif", mode, "TIFF", {})
            for mode in ("1", "L", "P", "RGB", "CMYK", "I;16", "F", "LAB")
        ),
        (".tiff", "RGB", "TIFF", frames),
        *(
            (".tif", "RGB", "TIFF", {"compression": name})
            for name in ("tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits")
        ),
        (".tif", "1", "TIFF", {"compression": "group4"}),
        (".webp", "RGB", "WEBP", {}),
        (".webp", "RGBA", "WEBP", {"lossless": True}),
        (".webp", "RGB", "WEBP", frames),
        (".gif", "P", "GIF", {"transparency": 2}),
        (".gif", "RGB", "GIF", {**frames, "loop": 0, "duration": 40}),
        *((".bmp", mode, "BMP", {}) for mode in ("1", "L", "P", "RGB", "RGBA")),
        *(
            (f".{kind.lower()}", "RGB", kind, {})
            for kind in ("EPS", "ICO", "PCX", "PPM", "SGI", "TGA", "PDF", "DDS", "ICNS")
        ),
        (".xbm", "1", "XBM", {}),
    ]
    made = []
    for suffix, mode, kind, options in wanted:
        try:
            made.append((suffix, _saved(mode, kind, **options)))
        except (KeyError, OSError, ValueError):  # this Pillow cannot write it
            continue
    others = {
        ".svg": b'<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"/></svg>',
        ".txt": "no image: ä".encode(),
        ".png": b"",
        ".fits": b"SIMPLE  =                    T".ljust(2880),
        ".wmf": b"\xd7\xcd\xc6\x9a\x00\x00\x00\x00\x00\x00\x10\x00\x10\x00H".ljust(80, b"\0"),
        ".eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
        ".gz": zlib.compress(b"deflated"),
    }
    return (*made, *others.items())


def mutated(rng: random.Random) -> tuple[str, str, bytes]:
    """A damaged file: what was done to it, a suffix, and the content."""
    suffix, content = rng.choice(samples())
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        how = rng.choice(_MUTATIONS)
        content = how(content, rng)
        done.append(how.__name__.strip("_"))
    if content.startswith(b"\x89PNG") and rng.random() < 0.7:
        content = _sealed(content)  # so that the damage gets past the checksums
    if rng.random() < 0.1:
        suffix = rng.choice((".png", ".jpg", ".tif", ".webp", ".gif", ".bmp", ".JPEG", ".eps"))
        done.append("renamed")
    return "+".join(done), suffix, content


def _flip_bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    # Half of the time in the first bytes, where the formats keep what they expect.
    reach = len(changed) if rng.random() < 0.5 else min(len(changed), 120)
    for _ in range(rng.choice((1, 1, 2, 8)) if reach else 0):
        changed[rng.randrange(reach)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut_short(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _splice(content: bytes, rng: random.Random) -> bytes:
    other = rng.choice(samples())[1]
    start, end = sorted(rng.randrange(len(other) + 1) for _ in range(2))
    place = rng.randrange(len(content) + 1)
    skipped = rng.choice((0, end - start))
    return content[:place] + other[start:end] + content[place + skipped :]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:end] + content[start:end] * rng.choice((1, 3, 30)) + content[end:]


def _remove(content: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:start] + content[end:]


def _overwrite(content: bytes, rng: random.Random) -> bytes:
    place, size = rng.randrange(len(content) + 1), rng.choice((1, 2, 4))
    value = rng.choice(INTEGERS) % 256**size
    return content[:place] + value.to_bytes(size, rng.choice(("big", "little"))) + content[
        place + size :
    ]  # fmt: skip


def _declare_huge(content: bytes, rng: random.Random) -> bytes:
    """Write another size where the format keeps it."""
    width, height = (rng.choice((0, 1, 9_000, 65_535, 2**31 - 1, 2**32 - 1)) for _ in range(2))
    short = struct.pack("<HH", width % 2**16, height % 2**16)
    if content.startswith(b"\x89PNG"):
        return _sealed(content[:16] + struct.pack(">II", width, height) + content[24:])
    if content.startswith(b"GIF"):
        return content[:6] + short + content[10:]
    if content.startswith(b"BM"):
        return content[:18] + struct.pack("<II", width, height) + content[26:]
    if content.startswith(b"\xff\xd8"):
        for marker in (b"\xff\xc0", b"\xff\xc2"):
            place = content.find(marker)
            if place > 0:
                size = struct.pack(">HH", height % 2**16, width % 2**16)
                return content[: place + 5] + size + content[place + 9 :]
    if content.startswith((b"II*\0", b"MM\0*")):
        order = "<" if content.startswith(b"II") else ">"
        for tag, value in ((256, width), (257, height), (322, width), (278, height)):
            place = content.find(struct.pack(f"{order}H", tag), 8)
            if place > 0 and rng.random() < 0.7:
                entry = struct.pack(f"{order}HHII", tag, 4, 1, value)
                content = content[:place] + entry + content[place + 12 :]
        return content
    if content[8:12] == b"WEBP":
        return content[:24] + width.to_bytes(4, "little")[:3] + height.to_bytes(4, "little")[:3] + (
            content[30:]
        )  # fmt: skip
    return content


_MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip_bits,
    _flip_bits,
    _cut_short,
    _splice,
    _repeat,
    _remove,
    _overwrite,
    _overwrite,
    _declare_huge,
)


def _sealed(content: bytes) -> bytes:
    """A PNG with the checksums that its chunks should have."""
    whole, place = bytearray(content), 8
    while place + 12 <= len(whole):
        (size,) = struct.unpack_from(">I", whole, place)
        end = place + 8 + size
        if end + 4 > len(whole):
            break
        struct.pack_into(">I", whole, end, zlib.crc32(whole[place + 4 : end]))
        place = end + 4
    return bytes(whole)
