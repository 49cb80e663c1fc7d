"""The layout of channels as a value: text, arithmetic, and the action of a rotation."""

import copy
import math
import pickle
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hnets import Stream, Streams

BAD_TEXT = [
    "8y0",
    "8x1r",
    "8x-1r",
    "0x1",
    "-3x0",
    "",
    "  ",
    "8x0 +",
    "+ 8x0",
    "8x0 ++ 8x1",
    "8x0, 8x1",
    "x1",
    "8x",
    "8x1.5",
    "8 x 0 r",
    "8x0R",
]

stream = st.builds(Stream, st.integers(-5, 5), st.integers(1, 6)) | st.builds(
    Stream, st.just(0), st.integers(1, 6), st.just(True)
)
layout = st.lists(stream, min_size=1, max_size=5).map(Streams)
angle = st.floats(-7, 7)


def image(streams: Streams, batch: int = 2) -> Tensor:
    return torch.randn(batch, streams.channels, 3, 4, dtype=torch.float64)


def as_complex(x: Tensor, streams: Streams) -> list[Tensor]:
    """Each stream as complex numbers, read by hand from the documented layout."""
    fields, start = [], 0
    for s in streams:
        n = s.multiplicity
        real = x[:, start : start + n]
        imag = torch.zeros_like(real) if s.real else x[:, start + n : start + 2 * n]
        fields.append(torch.complex(real, imag))
        start += n if s.real else 2 * n
    assert start == x.shape[1]
    return fields


# Text --------------------------------------------------------------------------------------------


@given(layout)
def test_prints_what_it_parses(streams: Streams) -> None:
    assert Streams(str(streams)) == streams
    assert eval(repr(streams), {"Streams": Streams}) == streams


@pytest.mark.parametrize("text", ["8x0+8x1", " 8x0  +  8x1 ", "8x0 + 8x1"])
def test_spaces_do_not_matter(text: str) -> None:
    assert str(Streams(text)) == "8x0 + 8x1"


def test_reads_every_kind_of_stream() -> None:
    assert list(Streams("3x0r + 8x0 + 2x-11")) == [
        Stream(order=0, multiplicity=3, real=True),
        Stream(order=0, multiplicity=8),
        Stream(order=-11, multiplicity=2),
    ]


@pytest.mark.parametrize("text", BAD_TEXT)
def test_bad_text_is_quoted_beside_a_correct_example(text: str) -> None:
    with pytest.raises(ValueError, match="streams") as error:
        Streams(text)
    message = str(error.value)
    assert f'"{text}"' in message
    shown = [part for part in message.split('"')[1::2] if part != text]
    assert any(readable(part) for part in shown), message


def readable(text: str) -> bool:
    try:
        Streams(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("value", [None, 3, 1.5, [], [8], ["8x0"], b"8x0", {"8x0": 1}])
def test_other_values_are_quoted_beside_a_correct_example(value: object) -> None:
    with pytest.raises(ValueError, match="8x0 \\+ 8x1") as error:
        Streams(value)
    assert repr(value) in str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_a_stream_checks_its_own_values() -> None:
    with pytest.raises(ValueError, match="at least one channel"):
        Stream(order=1, multiplicity=0)
    with pytest.raises(ValueError, match="only order 0 can be real"):
        Stream(order=1, multiplicity=8, real=True)
    with pytest.raises(ValueError, match=r"^the order of a stream is a whole number, got 1\.5"):
        Stream(order=1.5, multiplicity=8)
    with pytest.raises(ValueError, match="the multiplicity of a stream is a whole number, got '8'"):
        Stream(order=1, multiplicity="8")
    with pytest.raises(ValueError, match=r"orders go from -1000 to 1000, .* got \"1x1000000000"):
        Streams("1x100000000000000000000")
    assert repr(Stream(1, 8)) == 'Stream("8x1")'


# A value -----------------------------------------------------------------------------------------


@given(layout, layout)
def test_equality_and_hash_follow_the_text(a: Streams, b: Streams) -> None:
    assert (a == b) == (str(a) == str(b))
    assert hash(a) == hash(Streams(str(a)))
    assert a != str(a)


@given(layout)
def test_pickles_and_copies_to_an_equal_value(streams: Streams) -> None:
    for twin in (pickle.loads(pickle.dumps(streams)), copy.copy(streams), copy.deepcopy(streams)):
        assert twin == streams
        assert twin.slices == streams.slices


def test_cannot_be_changed() -> None:
    streams = Streams("8x0 + 8x1")
    with pytest.raises(AttributeError, match="cannot be changed"):
        streams.channels = 3
    with pytest.raises(AttributeError, match="cannot be changed"):
        del streams.channels
    with pytest.raises(TypeError):
        streams[0] = Stream(0, 8)
    with pytest.raises(AttributeError):
        streams[0].order = 2
    assert streams == Streams("8x0 + 8x1")


@given(layout)
def test_is_a_sequence(streams: Streams) -> None:
    assert len(streams) == len(list(streams))
    assert [streams[i] for i in range(len(streams))] == list(streams)
    assert streams[-1] == list(streams)[-1]
    for cut in range(1, len(streams)):
        assert streams[:cut] + streams[cut:] == streams


def test_an_empty_slice_is_an_error() -> None:
    with pytest.raises(ValueError, match="streams are text"):
        Streams("8x0")[1:]


@given(layout, layout)
def test_adding_is_the_layout_of_cat(a: Streams, b: Streams) -> None:
    x, y = image(a), image(b)
    both = as_complex(torch.cat([x, y], dim=1), a + b)
    for actual, expected in zip(both, as_complex(x, a) + as_complex(y, b), strict=True):
        assert torch.equal(actual, expected)
    assert str(a) + b == a + str(b) == a + b
    assert a * 3 == a + a + a


@given(layout)
def test_counts_channels(streams: Streams) -> None:
    assert streams.fields == sum(s.multiplicity for s in streams)
    assert streams.channels == sum(s.multiplicity * (1 if s.real else 2) for s in streams)
    assert streams.orders == tuple(dict.fromkeys(s.order for s in streams))
    assert [s.stop - s.start for s in streams.slices] == [s.channels for s in streams]
    covered = [i for where in streams.slices for i in range(where.start, where.stop)]
    assert covered == list(range(streams.channels))


@given(layout)
def test_groups_are_neighbours_alike_and_as_long_as_can_be(streams: Streams) -> None:
    unrolled = [(r.multiplicity, r.parts) for r in streams.runs for _ in range(r.streams)]
    assert unrolled == [(s.multiplicity, s.parts) for s in streams]
    kinds = [(r.multiplicity, r.parts) for r in streams.runs]
    assert all(a != b for a, b in pairwise(kinds))
    assert sum(r.channels for r in streams.runs) == streams.channels
    assert sum(r.fields for r in streams.runs) == streams.fields


# Turning -----------------------------------------------------------------------------------------


@given(layout, angle)
def test_rotation_multiplies_each_stream_by_its_phase(streams: Streams, theta: float) -> None:
    x = image(streams)
    rotated = as_complex(streams.rotate(x, theta), streams)
    for s, before, after in zip(streams, as_complex(x, streams), rotated, strict=True):
        phase = complex(math.cos(s.order * theta), math.sin(s.order * theta))
        torch.testing.assert_close(after, phase * before, rtol=0, atol=1e-13)


@given(layout, angle, angle)
def test_rotation_is_a_group_action(streams: Streams, a: float, b: float) -> None:
    x = image(streams)
    together = streams.rotate(x, a + b)
    torch.testing.assert_close(
        streams.rotate(streams.rotate(x, b), a), together, rtol=0, atol=1e-12
    )
    assert torch.equal(streams.rotate(x, 0.0), x)


@given(layout)
def test_a_batch_of_angles_rotates_each_element_by_its_own(streams: Streams) -> None:
    x, angles = image(streams, batch=3), torch.tensor([0.3, -2.0, 5.0], dtype=torch.float64)
    expected = [streams.rotate(x[i : i + 1], theta) for i, theta in enumerate(map(float, angles))]
    torch.testing.assert_close(streams.rotate(x, angles), torch.cat(expected), rtol=0, atol=1e-14)


def test_order_zero_is_left_alone() -> None:
    streams = Streams("3x0r + 2x0 + 2x1")
    x = image(streams)
    rotated = streams.rotate(x, 1.0)
    assert torch.equal(rotated[:, :7], x[:, :7])
    assert not torch.allclose(rotated[:, 7:], x[:, 7:])


# Mirrors -----------------------------------------------------------------------------------------


@given(layout, angle)
def test_a_mirror_conjugates_each_stream_about_its_axis(streams: Streams, axis: float) -> None:
    x = image(streams)
    mirrored = as_complex(streams.reflect(x, axis), streams)
    for s, before, after in zip(streams, as_complex(x, streams), mirrored, strict=True):
        phase = complex(math.cos(2 * s.order * axis), math.sin(2 * s.order * axis))
        torch.testing.assert_close(after, phase * before.conj(), rtol=0, atol=1e-13)


@given(layout, angle, angle)
def test_mirrors_and_rotations_are_the_group_o2(streams: Streams, a: float, b: float) -> None:
    x = image(streams)

    def same(one: Tensor, other: Tensor) -> None:
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)

    same(streams.reflect(streams.reflect(x, a), a), x)
    same(streams.reflect(streams.reflect(x, a), b), streams.rotate(x, 2 * (b - a)))
    same(streams.rotate(streams.reflect(x, a), b), streams.reflect(x, a + b / 2))


def test_order_zero_has_an_even_and_an_odd_part() -> None:
    streams = Streams("3x0r + 2x0")
    x = image(streams)
    mirrored = streams.reflect(x, 0.4)
    assert torch.equal(mirrored[:, :5], x[:, :5])
    assert torch.equal(mirrored[:, 5:], -x[:, 5:])


def test_a_batch_of_axes_mirrors_each_element_by_its_own() -> None:
    streams, axes = Streams("1x0 + 2x1"), torch.tensor([0.3, -2.0], dtype=torch.float64)
    x = image(streams, batch=2)
    expected = [streams.reflect(x[i : i + 1], axis) for i, axis in enumerate(map(float, axes))]
    torch.testing.assert_close(streams.reflect(x, axes), torch.cat(expected), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_values_but_no_angles(dtype: torch.dtype) -> None:
    x, theta = torch.tensor([[1.0, 0.0]], dtype=dtype), torch.linspace(0, 100, 50)
    rotated = Streams("1x3").rotate(x.expand(50, 2), theta)
    exact = torch.stack([(3 * theta).cos(), (3 * theta).sin()], 1)
    assert rotated.dtype == dtype
    assert (rotated - exact).abs().max() <= torch.finfo(dtype).eps


def test_rotation_of_vectors_keeps_dtype_and_gradient() -> None:
    streams = Streams("2x1")
    x = torch.randn(3, 4, requires_grad=True)
    y = streams.rotate(x, 0.7)
    assert y.dtype == torch.float32
    y.square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


# Checking tensors --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (4,), ()])
def test_a_wrong_shape_is_named_beside_the_expected_channels(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"HThing expects 1x0 \+ 1x1 = 4 channels") as error:
        Streams("1x0 + 1x1").check(torch.zeros(shape), "HThing")
    assert str(tuple(shape)) in str(error.value)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool, torch.complex64])
def test_a_wrong_dtype_is_named(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=f"floating-point input, got {dtype}"):
        Streams("1x0").check(torch.zeros(2, 2, dtype=dtype), "HThing")
