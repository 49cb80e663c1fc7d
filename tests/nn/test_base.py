"""Bad input gets one clear error with what was expected and what came."""

import math
from collections.abc import Callable

import pytest
import torch

import hnets
from hnets import Streams
from hnets import nn as hnn

CONV = hnn.HConv2d("8x0 + 8x1", "4x0 + 4x1", 3)
MODULES = [
    CONV,
    hnn.ModReLU("8x0 + 8x1"),
    hnn.ModAct("8x0 + 8x1", torch.tanh),
    hnn.HBatchNorm2d("8x0 + 8x1"),
    hnn.HDropout2d("8x0 + 8x1"),
    hnn.Magnitude("8x0 + 8x1"),
    hnets.freeze(CONV),
    hnets.freeze(hnn.HBatchNorm2d("8x0 + 8x1")),
]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: type(m).__name__)
def test_wrong_channels_are_named(module: torch.nn.Module) -> None:
    with pytest.raises(ValueError, match=r"expects 8x0 \+ 8x1 = 32 channels") as caught:
        module(torch.randn(2, 30, 6, 6))
    assert "(2, 30, 6, 6)" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.complex64])
def test_wrong_types_are_named(module: torch.nn.Module, dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match="floating-point") as caught:
        module(torch.ones(2, 32, 6, 6).to(dtype))
    assert str(dtype) in str(caught.value)


def test_complex_numbers_get_advice() -> None:
    with pytest.raises(TypeError, match=r"torch\.cat\(\[x\.real, x\.imag\], 1\)"):
        CONV(torch.ones(2, 32, 6, 6, dtype=torch.complex64))


SAMPLING = [hnn.HAvgPool2d(2), hnn.HBlurPool2d(2), hnn.HUpsample2d(2), hnn.GlobalMean()]


@pytest.mark.parametrize("module", SAMPLING, ids=lambda m: type(m).__name__)
def test_sampling_asks_for_images(module: torch.nn.Module) -> None:
    name = type(module).__name__
    with pytest.raises(ValueError, match=f"{name} expects an input of shape") as caught:
        module(torch.randn(4, 8, 8))
    assert "got (4, 8, 8)" in str(caught.value)
    with pytest.raises(TypeError, match=f"{name} expects a floating-point input, got torch.uint8"):
        module(torch.ones(1, 4, 8, 8, dtype=torch.uint8))


def test_layers_that_do_not_fit_name_the_one_that_expected_something_else() -> None:
    net = torch.nn.Sequential(hnn.HConv2d("3x0r", "8x0 + 8x1", 3), hnn.ModReLU("8x0 + 4x1"))
    with pytest.raises(ValueError, match=r"ModReLU expects 8x0 \+ 4x1 = 24 channels") as caught:
        net(torch.randn(1, 3, 8, 8))
    assert "(1, 32, 6, 6)" in str(caught.value)


def test_batch_norm_of_one_value_is_refused_in_training_only() -> None:
    norm, x = hnn.HBatchNorm2d("2x1"), torch.randn(1, 4, 1, 1)
    with pytest.raises(ValueError, match="more than one value") as caught:
        norm(x)
    assert "(1, 4, 1, 1)" in str(caught.value)
    assert norm.eval()(x).isfinite().all()


@pytest.mark.parametrize("shape", [(32,), (2, 32), (2, 32, 6), (1, 2, 32, 6, 6)])
def test_wrong_ranks_are_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="HConv2d expects") as caught:
        CONV(torch.randn(shape))
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize(
    ("call", "fragments"),
    [
        (lambda: hnn.HConv2d("8y0", "8x0", 3), ["8y0", '"8x0 + 8x1"']),
        (lambda: hnn.HConv2d("3x0r", "8x1r", 3), ["8x1r", "only order 0 can be real"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 0), ["kernel_size", "got 0"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 1.5), ["kernel_size", "got 1.5"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", (3, 5)), ["kernel_size", "got (3, 5)"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", "3"), ["kernel_size", "got '3'"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", None), ["kernel_size", "got None"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, stride=0), ["stride", "got 0"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, stride=(2, 0)), ["stride", "got (2, 0)"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, dilation=-1), ["dilation", "got -1"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 4, padding="same"), ["odd kernel_size", "got 4"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, padding="full"), ["padding", "'full'"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, padding=-1), ["padding", "got -1"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, padding=1.5), ["padding", "got 1.5"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, padding=None), ["padding", "got None"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, padding=(1, -1)), ["padding", "got (1, -1)"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, padding=(1, 1, 1)), ["pair", "got (1, 1, 1)"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, padding_mode="wrap"), ["reflect", "'wrap'"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, rings="round"), ["gaussian", "'round'"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, phase="all"), ['"ring"', "'all'"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, share="False"), ["share is True or", "'False'"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, combine="mean"), ['"stack"', "'mean'"]),
        (lambda: hnn.HConv2d("3x0r", "8x2", 3), ["order 2", "kernel_size=5 would do"]),
        (lambda: hnn.HConv2d("3x0r", "8x0", 3, rings="gaussian", sigma=0), ["sigma", "got 0"]),
        (lambda: hnn.Magnitude("8x0 + 4x1", combine="sum"), ["equal", "8x0 + 4x1"]),
        (lambda: hnn.Magnitude("8x0", combine="mean"), ['"sum"', "'mean'"]),
        (lambda: hnn.HDropout2d("8x0", p=1.5), ["probability", "got 1.5"]),
        (lambda: hnn.HAvgPool2d(0), ["kernel_size", "got 0"]),
        (lambda: hnn.HAvgPool2d(2.0), ["kernel_size", "got 2.0"]),
        (lambda: hnn.HBlurPool2d(1.5), ["stride", "got 1.5"]),
        (lambda: hnn.HBlurPool2d(2, sigma=-1), ["sigma", "got -1"]),
        (lambda: hnn.HUpsample2d(0), ["scale", "got 0"]),
        (lambda: Streams("8x1").rotate(torch.randn(1, 8), 0.1), ["16 channels", "(1, 8)"]),
    ],
)
def test_options_say_what_they_expect_and_got(
    call: Callable[[], object], fragments: list[str]
) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: hnn.HAvgPool2d(10**20), "kernel_size is at most 1,000,000, got 1000"),
        (lambda: hnn.ModReLU(f"{10**30}x0"), "a stream has at most 1,000,000 channels"),
        (
            lambda: hnn.ModReLU("8x1", magnitude_eps="3"),
            "magnitude_eps is a number above 0, got",
        ),
        (lambda: hnn.ModReLU("8x1", magnitude_eps=0), "magnitude_eps is a number above 0, got 0"),
        (lambda: hnn.HBatchNorm2d("8x1", magnitude_eps=0.0), "magnitude_eps is a number above 0"),
        (lambda: hnn.ModAct("8x1", torch.tanh, magnitude_eps=0), "magnitude_eps is a number above"),
        (lambda: hnn.HBatchNorm2d("8x1", eps=math.nan), "eps is a number from 0, got nan"),
        (
            lambda: hnn.HBatchNorm2d("8x1", momentum=1.5),
            "momentum is a number from 0 to 1, got",
        ),
        (lambda: hnn.FourierAct("8x0r + 8x1", norm="no"), "norm is True or False"),
        (lambda: hnn.HBlurPool2d(2, sigma=1e300), "sigma is a width of at most 1000 pixels"),
        (lambda: hnn.HConv2d("1x0r", "8x0", 5, sigma=100), "sigma is a width of at most 10 pixels"),
        (lambda: hnn.ModReLU("8x1", dtype=torch.float8_e4m3fn), "dtype is a floating-point type"),
    ],
)
def test_numbers_that_no_layer_can_use_are_named(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_a_function_is_a_function() -> None:
    with pytest.raises(TypeError, match=r"act is a function of tensors, such as torch\.relu, got"):
        hnn.ModAct("8x1", None)
