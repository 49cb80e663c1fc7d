"""Biases of every order, which rotate with the direction to an image's centre of mass."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import hnets
from hnets import Streams
from hnets import functional as F
from hnets import nn as hnn
from hnets.testing import assert_equivariant


@given(theta=st.floats(0, 2 * math.pi), x=st.floats(-5, 5), y=st.floats(-5, 5))
def test_what_points_rotates_with_its_direction(theta: float, x: float, y: float) -> None:
    streams = Streams("2x0r + 2x0 + 3x1 + 2x-2 + 1x3")
    weight = torch.linspace(-1, 1, streams.channels, dtype=torch.float64)
    direction = torch.tensor([[x, y]], dtype=torch.float64)
    rotated = Streams("1x1").rotate(direction[:, :, None, None], theta)[:, :, 0, 0]
    before, after = (F.pointing(weight, d, streams) for d in (direction, rotated))
    expected = streams.rotate(before[:, :, None, None], theta)[:, :, 0, 0]
    torch.testing.assert_close(after, expected, atol=1e-5, rtol=0)


def test_the_direction_of_the_mass_is_right_and_up_and_of_order_1() -> None:
    image = torch.zeros(1, 1, 9, 13, dtype=torch.float64)
    image[0, 0, 2, 9] = 0.5  # two above the middle and three right of it
    assert F.centre_of_mass(image).tolist() == [[3, 2]]
    direction = F.mass_direction(image)
    expected = torch.tensor([[3, 2]], dtype=torch.float64) / math.sqrt(14)
    torch.testing.assert_close(direction, expected)
    quarter = F.mass_direction(image.rot90(1, (2, 3)))
    torch.testing.assert_close(quarter, direction.flip(1) * torch.tensor([-1, 1]))
    black = torch.zeros(2, 1, 8, 8, requires_grad=True)
    assert F.mass_direction(black).abs().max() == 0
    bias = hnn.PointingBias("1x0r + 1x1")
    bias(torch.zeros(2, 3, 8, 8), F.mass_direction(black)).sum().backward()
    assert black.grad is not None
    assert black.grad.isfinite().all()


def test_a_direction_for_another_number_of_images_is_refused() -> None:
    bias = hnn.PointingBias("1x0r + 1x1", dtype=torch.float64)
    assert bias.weight.dtype == torch.float64
    with pytest.raises(ValueError, match=r"of shape \(3, 2\), .*got \(2, 2\)"):
        bias(torch.zeros(3, 3, 8, 8), torch.zeros(2, 2))


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 8), (1, 2, 3, 8, 8)])
def test_what_is_no_batch_of_images_is_refused(shape: tuple[int, ...]) -> None:
    shapes = rf"shape \(batch, channels, height, width\), got {re.escape(str(shape))}"
    with pytest.raises(ValueError, match=f"PointingBias expects an input of {shapes}"):
        hnn.PointingBias("1x0r + 1x1")(torch.zeros(shape), torch.rand(shape[0], 2))
    net = hnets.models.hnet_fourier_tiny(centre_of_mass=True)
    for find in (F.centre_of_mass, F.mass_direction, net):
        with pytest.raises(ValueError, match=f"a centre of mass needs images of {shapes}"):
            find(torch.zeros(shape))


class Pointing(nn.Module):
    """A convolution and a bias that points to the centre of mass of the image."""

    def __init__(self, mirror: bool = False) -> None:
        super().__init__()
        out = "1x0r + 1x0 + 1x1 + 1x-2"
        self.conv = hnn.HConv2d("1x0r", out, 5, padding="same", mirror=mirror)
        self.bias = hnn.PointingBias(out, mirror=mirror)

    def forward(self, x: Tensor) -> Tensor:
        biased: Tensor = self.bias(self.conv(x), F.mass_direction(x.abs()))
        return biased


def test_a_bias_is_as_equivariant_as_its_direction() -> None:
    assert_equivariant(Pointing(), in_streams="1x0r")


def test_a_bias_with_mirror_is_real_and_commutes_with_reflections() -> None:
    net, x = Pointing(mirror=True).double(), torch.randn(2, 1, 9, 9, dtype=torch.float64)
    assert net.bias.weight.shape == (4,)
    for degrees in (0, 45, 90, 135):
        axis = math.radians(degrees)
        expected = F.reflect(net(x), net.bias.out_streams, axis)
        torch.testing.assert_close(net(F.reflect_pixels(x, axis)), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("mirror", [False, True])
def test_every_form_of_a_network_knows_the_centre_of_mass(mirror: bool) -> None:
    net, x = Pointing(mirror).eval(), torch.rand(3, 1, 24, 17)
    with torch.no_grad():
        output = net(x)
        program = hnets.export.program(net, (2, 1, 20, 20)).module()
        compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
        for form in (hnets.freeze(net), program, compiled):
            torch.testing.assert_close(form(x), output, rtol=1e-4, atol=1e-5)
        net.bias.weight.zero_()
        assert not torch.allclose(net(x), output, rtol=1e-3)


def test_a_network_with_the_centre_of_mass_is_as_equivariant() -> None:
    torch.manual_seed(0)
    net = hnets.models.hnet_fourier_tiny(centre_of_mass=True).eval()
    biases = [part for part in net.modules() if isinstance(part, hnn.PointingBias)]
    assert len(biases) == 6
    x = torch.rand(2, 1, 20, 20)
    x[:, :, 13:] = 0
    with torch.no_grad():
        output, moved = net(x), net(x.roll(2, dims=3))
        torch.testing.assert_close(net(x.rot90(1, (2, 3))), output)
        for bias in biases:
            bias.weight.zero_()
        # Without the direction, only the border changes the output of a moved image.
        by_border = (net(x.roll(2, dims=3)) - net(x)).norm()
        assert (moved - output).norm() > 2 * by_border
