"""Uploaded files: read, or refused in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hnets.errors import InputError
from webserver import seven

pytest.importorskip("fastapi", reason='needs fastapi: pip install "hnets[web]"')

from fastapi import HTTPException

from hnets.web.payloads import uploaded


def outcome(data: bytes) -> str:
    try:
        return uploaded(data).mode
    except (HTTPException, InputError) as error:
        return str(error)


@given(st.binary(max_size=200), st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "BMP"]))
def test_any_bytes_are_an_image_or_refused_in_one_line(noise: bytes, kind: str) -> None:
    file = seven(kind)
    for data in (noise, file[:20] + noise, file[: len(file) // 2] + noise):
        assert len(outcome(data).splitlines()) == 1


def test_a_jpeg_with_too_many_scans_is_refused() -> None:
    file = seven("JPEG")
    with pytest.raises(HTTPException, match="more scans than any camera writes"):
        uploaded(file + 200 * b"\xff\xda")
