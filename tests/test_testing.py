"""The public check of equivariance: what it accepts, what it catches, and what it says."""

import math
import re

import pytest
import torch
from torch import Tensor, nn

import hnets
from hnets import Streams
from hnets import nn as hnn
from hnets.testing import assert_equivariant, band_limited, equivariance_error

BOTH = Streams("2x0 + 2x1")


def conv() -> hnn.HConv2d:
    return hnn.HConv2d("1x0r", "2x0 + 2x1", 5, padding="same")


class Own(nn.Module):
    """A user's module that names no streams."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class Flat(nn.Module):
    """A image to a vector: a layer's fields, with their orders, in the middle of the image."""

    in_streams, out_streams = Streams("1x0r"), Streams("4x0r + 4x1 + 4x2")

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        # The even kernel gives an even image a pixel in its middle.
        self.layer = hnn.HConv2d(self.in_streams, self.out_streams, 6, rings="gaussian")
        self.broken = broken

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        y = y[:, :, y.shape[2] // 2, y.shape[3] // 2]
        if self.broken:
            y = torch.cat([y[:, :4], y[:, 4:12].abs(), y[:, 12:]], dim=1)
        return y


class Conjugated(nn.Module):
    """Right in every stream but the last, whose order has the wrong sign."""

    in_streams = out_streams = Streams("1x0r + 3x1 + 2x2")

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, :9], -x[:, 9:]], dim=1)


class Constant(nn.Module):
    in_streams, out_streams = Streams("1x0r"), Streams("1x1")

    def __init__(self, value: float, at: int) -> None:
        super().__init__()
        self.value, self.at, self.calls = value, at, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y = torch.cat([x, x], dim=1) * 0
        return y + self.value if self.calls > self.at else y


# What passes -------------------------------------------------------------------------------------


def test_images_pass() -> None:
    report = equivariance_error(conv())
    assert report.streams == BOTH
    angles = (15.0, 30.0, 45.0, 60.0, 75.0, 90.0, 180.0, 270.0)
    assert report.motions == tuple((angle, False) for angle in angles)
    for motion, errors in zip(report.motions, report.errors, strict=True):
        assert motion.exact == (motion.angle % 90 == 0)
        assert max(errors) < (1e-12 if motion.exact else 0.1)
    assert report.max == max(max(row) for row in report.errors)
    assert_equivariant(conv())


def test_vectors_pass() -> None:
    report = equivariance_error(Flat())
    assert max(map(max, report.interpolation)) < 1e-12
    assert report.max < 0.05
    assert_equivariant(Flat(), tolerance=0.05)


@pytest.mark.parametrize("angles", [[90.0], [-90.0, 450.0, 0.0], [-15.0, 7.5, 359.0]])
def test_any_angles_can_be_asked_for(angles: list[float]) -> None:
    report = equivariance_error(conv(), angles)
    assert len(report.errors) == len(report.interpolation) == len(angles)
    assert_equivariant(conv(), angles)


@pytest.mark.parametrize("size", [32, 33, 48])
def test_any_size_and_image_can_be_asked_for(size: int) -> None:
    assert_equivariant(conv(), size=size, wavelength=12.0, seed=3)


def test_streams_are_those_of_the_first_and_last_part() -> None:
    net = nn.Sequential(
        nn.Identity(), conv(), hnn.ModReLU(BOTH), hnn.Magnitude(BOTH), nn.Identity()
    )
    assert equivariance_error(net, [90.0]).streams == Streams("4x0r")


def test_a_users_own_module_passes_once_its_streams_are_named() -> None:
    assert_equivariant(Own(), in_streams="2x1", out_streams="2x1", tolerance=0.01)


def test_the_module_is_left_as_it_was() -> None:
    net = nn.Sequential(conv(), hnn.HBatchNorm2d(BOTH))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    assert_equivariant(net)
    assert net.training
    for name, value in net.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, before[name])


def test_another_default_device_changes_nothing() -> None:
    net = conv()
    with torch.device("meta"):
        image = band_limited(Streams(BOTH), 16)
        assert_equivariant(net, angles=(45, 90))
    assert torch.equal(image, band_limited(Streams(BOTH), 16))


# What is caught ----------------------------------------------------------------------------------


def test_a_broken_vector_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"Flat is not equivariant: at .* stream 4x1 of"):
        assert_equivariant(Flat(broken=True))


def test_the_message_names_the_worst_angle_and_stream() -> None:
    angles = [10.0, 45.0, 80.0]
    with pytest.raises(AssertionError) as error:
        assert_equivariant(Conjugated(), angles)
    message = str(error.value)
    actual = re.search(
        r"at (\S+) degrees stream (\S+) of (.*) is off by (\S+) of its norm, allowed (\S+)", message
    )
    assert actual is not None
    assert actual.groups()[:3] == ("45", "2x2", "1x0r + 3x1 + 2x2")
    assert float(actual[4]) > float(actual[5]) > 0.2
    assert "1x0r         3x1         2x2" in message  # and the whole table follows
    assert len(message.splitlines()) == 2 + len(angles)


def test_a_fault_that_quarter_turns_cannot_see_is_caught_in_between() -> None:
    assert_equivariant(Conjugated(), [90.0, 180.0])
    with pytest.raises(AssertionError, match="stream 2x2"):
        assert_equivariant(Conjugated(), [45.0])


def test_a_small_fault_at_a_quarter_turn_is_caught_with_a_hint() -> None:
    class Shifted(nn.Module):
        in_streams = out_streams = Streams("1x0r")

        def forward(self, x: Tensor) -> Tensor:
            return x + 1e-6 * x.roll(1, 3)

    with pytest.raises(AssertionError, match=r"at (90|180|270) degrees .* exact unless a layer"):
        assert_equivariant(Shifted())


class OneSided(nn.Module):
    """A convolution whose input is continued at the left and is zero beyond the other sides."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = hnn.HConv2d("1x0r", BOTH, 5, padding=(2, 0), rings="gaussian")

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.pad(x, (2, 0, 0, 0), mode="replicate")
        y: Tensor = self.layer(nn.functional.pad(x, (0, 2)))
        return y


class Corner(nn.Module):
    """A frame with one corner cut off."""

    in_streams = out_streams = BOTH

    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[:, :, 0, 0] = 0
        return y


@pytest.mark.parametrize("module", [OneSided(), Corner()])
def test_a_fault_at_the_border_alone_is_caught(module: nn.Module) -> None:
    assert_equivariant(module, (45,))  # where it cannot be seen
    with pytest.raises(AssertionError, match=r"at 90 degrees .* breaks the symmetry"):
        assert_equivariant(module, (45, 90))


def test_a_stride_that_does_not_fit_is_caught_with_a_hint() -> None:
    layer = hnn.HConv2d("1x0r", "2x1", 5, stride=2, padding="same")
    with pytest.raises(AssertionError, match="or a stride or pooling does not divide the size"):
        assert_equivariant(layer, size=64)
    assert_equivariant(layer, size=65)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("at", [0, 1, 3])
def test_nan_and_infinity_are_caught(value: float, at: int) -> None:
    with pytest.raises(AssertionError, match="is not equivariant"):
        assert_equivariant(Constant(value, at))
    assert not math.isfinite(equivariance_error(Constant(value, at)).max)


# Mirrors -----------------------------------------------------------------------------------------

MIXED = Streams("2x0r + 2x0 + 2x1 + 2x2")


def mirror_net() -> nn.Sequential:
    options = {"padding": "same", "rings": "gaussian", "mirror": True}
    return nn.Sequential(
        hnn.HConv2d("1x0r", MIXED, 5, **options),
        hnn.HBatchNorm2d(MIXED),
        hnn.HConv2d(MIXED, MIXED, 5, **options),
        hnn.ModReLU(MIXED),
    )


def test_a_mirror_network_passes_and_is_rotated_in_the_mirror_too() -> None:
    report = equivariance_error(mirror_net(), [30.0, 90.0], mirror=True)
    pairs = [(30.0, False), (90.0, False), (0.0, True), (30.0, True), (90.0, True)]
    assert list(report.motions) == pairs
    for motion, errors in zip(report.motions, report.errors, strict=True):
        assert max(errors) < (1e-12 if motion.exact else 0.2)
    assert_equivariant(mirror_net(), mirror=True)
    lines = str(report).splitlines()
    assert [line.split()[:2] for line in lines[3:]] == [
        [f"{a:g}°", "mirrored"] for a in (0, 30, 90)
    ]


def test_vectors_pass_in_a_mirror() -> None:
    net = Flat()
    net.layer = hnn.HConv2d(net.in_streams, net.out_streams, 6, rings="gaussian", mirror=True)
    assert_equivariant(net, mirror=True, tolerance=0.05)


def test_a_layer_that_only_rotates_is_caught_in_a_mirror_and_named() -> None:
    net = mirror_net()
    net[2] = hnn.HConv2d(MIXED, MIXED, 5, padding="same", rings="gaussian")
    assert_equivariant(net)
    with pytest.raises(AssertionError) as error:
        assert_equivariant(net, mirror=True)
    message = str(error.value)
    assert re.search(r"is not equivariant: in a mirror( and at \d+ degrees)? stream", message)
    assert "a flip is exact unless a layer breaks the symmetry" in message
    assert "layers without mirror=True: 2\n" in message


@pytest.mark.parametrize("size", [32, 33])
def test_the_image_is_mirrored_exactly(size: int) -> None:
    straight = band_limited(MIXED, size)
    flipped = band_limited(MIXED, size, mirrored=True)
    sign = MIXED.reflect(torch.ones(1, MIXED.channels, dtype=torch.float64))[..., None, None]
    torch.testing.assert_close(flipped, sign * straight.flip(2), rtol=0, atol=1e-12)
    sideways = band_limited(MIXED, size, math.pi, mirrored=True)
    expected = MIXED.reflect(straight.flip(3), math.pi / 2)
    torch.testing.assert_close(sideways, expected, rtol=0, atol=1e-12)


# What is asked back ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "missing"), [({}, "in_streams"), ({"in_streams": "1x0r"}, "out_streams")]
)
def test_a_module_without_streams_is_asked_for_them(known: dict[str, str], missing: str) -> None:
    message = f'cannot tell the {missing} of Own: .* give {missing}="3x0r" or the like'
    with pytest.raises(ValueError, match=message):
        assert_equivariant(Own(), **known)


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (1, 4, 8), (4,)])
def test_an_output_of_another_shape_is_named(shape: tuple[int, ...]) -> None:
    class Fixed(nn.Module):
        in_streams, out_streams = Streams("1x0r"), Streams("2x1")

        def forward(self, x: Tensor) -> Tensor:
            return x.new_zeros(shape)

    with pytest.raises(ValueError, match=r"should have 2x1 = 4 channels") as error:
        assert_equivariant(Fixed())
    assert str(shape) in str(error.value)


def test_an_output_of_several_tensors_is_refused_with_advice() -> None:
    net = hnets.create_model("hresnet10", features_only=True, fields=[1, 1, 1, 1])
    with pytest.raises(ValueError, match="one tensor, got a list: test a module around it"):
        assert_equivariant(net)


@pytest.mark.parametrize("angles", [[], [math.nan], [90.0, math.inf]])
def test_angles_that_cannot_be_tested_are_refused(angles: list[float]) -> None:
    with pytest.raises(ValueError, match=r"^angles are finite numbers of degrees, at least one"):
        assert_equivariant(conv(), angles)


def test_the_report_prints_a_row_an_angle_and_a_column_a_stream() -> None:
    lines = str(equivariance_error(conv(), [30.0, 90.0])).splitlines()
    assert lines[0].split() == ["angle", "2x0", "2x1"]
    assert [line.split()[0] for line in lines[1:]] == ["30°", "90°"]
    assert all(len(line.split()) == 3 for line in lines)


# The test image --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [32, 33])
def test_the_image_rotates_exactly(size: int) -> None:
    streams = Streams("2x0r + 2x1")
    straight = band_limited(streams, size)
    rotated = band_limited(streams, size, math.pi / 2)
    pixels = torch.rot90(straight, 1, (2, 3))
    expected = torch.cat([pixels[:, :2], -pixels[:, 4:], pixels[:, 2:4]], dim=1)
    torch.testing.assert_close(rotated, expected, rtol=0, atol=1e-12)


def test_the_image_is_smooth_and_ends_inside_the_frame() -> None:
    x = band_limited(Streams("8x0"), 64, wavelength=16.0)
    assert x.dtype == torch.float64
    assert x.shape == (1, 16, 64, 64)
    assert x[..., 0, :].abs().max() < 1e-30
    assert x[..., :, -1].abs().max() < 1e-30
    power = torch.fft.fft2(x).abs() ** 2
    frequency = torch.fft.fftfreq(64).abs()
    short = torch.hypot(frequency[:, None], frequency[None, :]) > 1 / 8
    assert power[..., short].sum() < 1e-3 * power.sum()


def test_the_image_follows_its_seed() -> None:
    one, again, other = (band_limited(BOTH, 16, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.allclose(one, other)
