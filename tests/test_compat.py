"""Networks work under what torch users put around networks, each checked on a whole network."""

import copy
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.utils.checkpoint import checkpoint_sequential

import hnets
from hnets import functional as F
from hnets import nn as hnn
from networks import digits, every_layer, example, fresh_example, lively, relative

CIRCLE = "2x0r + 2x1"
ROUNDING = 1e-5
"""Relative distance that float32 rounding explains."""


COMPILER = any(map(shutil.which, ("g++", "c++", "clang++")))


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    """Sizes that one test has compiled for are not remembered in the next."""
    torch._dynamo.reset()


def gradients(net: nn.Module, x: Tensor, dtype: torch.dtype | None = None) -> list[Tensor]:
    """Of a loss in which every output counts differently; under autocast if there is a type."""
    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        y = net(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    loss = (weights * y).sum() + y.square().mean()
    return list(torch.autograd.grad(loss, [*net.parameters()]))


def assert_alike(actual: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert relative(a, b) < tolerance


# Compiled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_compiles_into_one_graph_with_its_backward(training: bool) -> None:
    eager = example().train(training)
    traced = copy.deepcopy(eager)
    compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 3, 16, 20)
    assert_alike(gradients(compiled, x), gradients(eager, x), ROUNDING)
    buffers = zip(traced.named_buffers(), eager.named_buffers(), strict=True)
    for (name, actual), (_, expected) in buffers:
        torch.testing.assert_close(actual, expected, msg=name)
    torch.testing.assert_close(compiled(x), eager(x))


@pytest.mark.skipif(not COMPILER, reason="needs a C++ compiler, and there is none")
@pytest.mark.parametrize(
    ("streams", "after"),
    [
        ("1x1", [hnn.ModReLU("1x1")]),
        (CIRCLE, [hnn.LightBlock(CIRCLE, CIRCLE, 3, stride=2), hnn.Magnitude(CIRCLE)]),
        (CIRCLE, [hnn.PolyAct(CIRCLE)]),
    ],
)
def test_compiled_code_computes_the_same_at_any_size(
    streams: str, after: Sequence[nn.Module]
) -> None:
    net = lively(nn.Sequential(hnn.HConv2d("1x0r", streams, 3), *after), torch.randn(1, 1, 6, 6))
    compiled = torch.compile(net, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for shape in [(2, 1, 6, 8), (3, 1, 9, 7)]:
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), net(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # of checks of the input's shape
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("act", [hnn.HBatchNorm2d(CIRCLE), hnn.FourierAct(CIRCLE, norm=True)])
def test_a_jit_trace_computes_the_same_at_any_size(act: nn.Module, enabled: bool) -> None:
    """TensorBoard's ``add_graph`` and other exporters still trace so."""
    layers = (hnn.HConv2d("1x0r", CIRCLE, 3), act, hnn.HAvgPool2d(2))
    net = nn.Sequential(*layers, hnn.Magnitude(CIRCLE)).eval()
    x = torch.randn(3, 1, 12, 9)
    with torch.set_grad_enabled(enabled):
        for each in (net, hnets.freeze(net)):
            traced = torch.jit.trace(each, torch.randn(2, 1, 8, 8))
            torch.testing.assert_close(traced(x), each(x))


# Types and layouts --------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("build", "shape"), [(example, (2, 3, 20, 20)), (digits, (4, 1, 28, 28))])
def test_bf16_autocast(build: Callable[[], nn.Module], shape: tuple[int, ...], training: bool):
    net = build().train(training)
    x = torch.randn(shape)
    with torch.autocast("cpu", torch.bfloat16):
        y = net(x)
    rounded = gradients(net, x, torch.bfloat16)
    assert all(g.isfinite().all() for g in rounded)
    assert relative(y.float(), net(x)) < 0.02
    whole = [torch.cat([g.flatten() for g in each]) for each in (rounded, gradients(net, x))]
    assert relative(*whole) < 0.15


def test_autocast_assembles_kernels_in_float32() -> None:
    conv = hnn.HConv2d("4x0 + 4x1", "4x0 + 4x1", 5)
    with torch.autocast("cpu", torch.bfloat16):
        kernel = conv.filters()
    assert kernel.dtype == torch.float32
    assert torch.equal(kernel, conv.filters())


@pytest.mark.parametrize("training", [True, False])
def test_channels_last(training: bool) -> None:
    net = example().train(training)
    last = copy.deepcopy(net).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 20, 20)
    x_last = x.to(memory_format=torch.channels_last)
    torch.testing.assert_close(last(x_last), net(x), rtol=1e-4, atol=1e-5)
    assert_alike(gradients(last, x_last), gradients(net, x), ROUNDING)
    features = last[:4](x_last)
    assert features.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("training", [True, False])
def test_float64_gradients_are_exact(training: bool) -> None:
    net = example().double().train(training)
    x = torch.randn(2, 3, 10, 12, dtype=torch.float64, requires_grad=True)
    assert net(x).dtype == torch.float64
    names, values = zip(*net.named_parameters(), strict=True)
    state = {name: value.clone() for name, value in net.named_buffers()}

    def loss(x: Tensor, *values: Tensor) -> Tensor:
        buffers = {name: value.clone() for name, value in state.items()}
        return functional_call(net, dict(zip(names, values, strict=True)) | buffers, (x,))

    # Gradients in a random direction against differences; functional_call keeps the fused form.
    assert torch.autograd.gradcheck(loss, (x, *values), fast_mode=True)


def test_conversion_to_float64_and_back_changes_nothing() -> None:
    net, x = example().eval(), torch.randn(2, 3, 16, 16)
    before = net(x)
    wide = net.double()(x.double())
    assert relative(before.double(), wide) < ROUNDING
    assert torch.equal(net.float()(x), before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    net, x = example().eval(), torch.randn(2, 3, 16, 16)
    y = copy.deepcopy(net).to(dtype)(x.to(dtype))
    assert y.dtype == dtype
    assert relative(y.float(), net(x)) < 0.05


# Copies and files ---------------------------------------------------------------------------------


def test_deepcopy_is_independent() -> None:
    net, x = example().eval(), torch.randn(2, 3, 16, 16)
    before = net(x)
    other = copy.deepcopy(net)
    assert torch.equal(other(x), before)
    with torch.no_grad():
        for value in other.parameters():
            value.add_(1)
    other.train()(x)
    assert torch.equal(net(x), before)


_READ = """
import pickle, sys, torch
for path in sys.argv[1:]:
    net, x = pickle.load(open(path, "rb"))
    torch.save((net(x), [type(m).__name__ for m in net.modules()]), path + ".pt")
"""


def test_pickle_into_another_process(tmp_path: Path) -> None:
    net, x = example().eval(), torch.randn(2, 3, 16, 16)
    nets = {str(tmp_path / "net"): net, str(tmp_path / "frozen"): hnets.freeze(net)}
    for path, each in nets.items():
        Path(path).write_bytes(pickle.dumps((each, x)))
    subprocess.run([sys.executable, "-c", _READ, *nets], check=True)
    for path, each in nets.items():
        y, kinds = torch.load(f"{path}.pt")
        torch.testing.assert_close(y, each(x))
        assert kinds == [type(m).__name__ for m in each.modules()]


def save_torch(net: nn.Module, path: Path) -> dict[str, Tensor]:
    torch.save(net.state_dict(), path)
    return torch.load(path)


def save_safetensors(net: nn.Module, path: Path) -> dict[str, Tensor]:
    safetensors.torch.save_file(net.state_dict(), path)
    return safetensors.torch.load_file(path)


FORMS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "train": lambda net: net.train(),
    "eval": lambda net: net.eval(),
    "frozen": hnets.freeze,
}


@pytest.mark.parametrize("into", FORMS)
@pytest.mark.parametrize("saved_from", FORMS)
@pytest.mark.parametrize("save", [save_torch, save_safetensors])
@pytest.mark.parametrize(
    ("build", "shape"), [(example, (2, 3, 16, 16)), (every_layer, (2, 2, 16, 16))]
)
def test_state_dicts_fit_every_form(
    build: Callable[[], nn.Module],
    shape: tuple[int, ...],
    save: Callable[[nn.Module, Path], dict[str, Tensor]],
    saved_from: str,
    into: str,
    tmp_path: Path,
) -> None:
    source, target = build(), FORMS[into](build())
    x = torch.randn(shape)
    expected = copy.deepcopy(source).eval()(x)
    state = save(FORMS[saved_from](source), tmp_path / "weights")
    assert set(state) == set(target.state_dict())
    target.load_state_dict(state)
    torch.testing.assert_close(target.eval()(x), expected)


# Function transforms ------------------------------------------------------------------------------


def test_functional_call_with_grad() -> None:
    net, x = example(), torch.randn(2, 3, 16, 16)
    reference = copy.deepcopy(net)

    def loss(parameters: dict[str, Tensor]) -> Tensor:
        # As with nn.BatchNorm2d, statistics that move are handed over rather than captured.
        buffers = {name: value.clone() for name, value in net.named_buffers()}
        return functional_call(net, parameters | buffers, (x,)).square().mean()

    transformed = grad(loss)(dict(net.named_parameters()))
    reference(x).square().mean().backward()
    for name, value in reference.named_parameters():
        assert relative(transformed[name], value.grad) < ROUNDING, name


def test_ensemble_by_vmap_over_stacked_parameters() -> None:
    nets = [example().eval() for _ in range(3)]
    x = torch.randn(2, 3, 16, 16)
    stacked = stack_module_state(nets)
    skeleton = copy.deepcopy(nets[0]).to("meta")

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
        return functional_call(skeleton, (parameters, buffers), (x,))

    ensemble = vmap(one)(*stacked)
    torch.testing.assert_close(ensemble, torch.stack([net(x) for net in nets]))


def test_gradients_of_each_example_by_vmap() -> None:
    net, x = example().eval(), torch.randn(3, 3, 16, 16)
    parameters = dict(net.named_parameters())

    def loss(parameters: dict[str, Tensor], image: Tensor) -> Tensor:
        return functional_call(net, parameters, (image[None],)).square().mean()

    each = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(3):
        net.zero_grad()
        net(x[i : i + 1]).square().mean().backward()
        for name, value in parameters.items():
            assert relative(each[name][i], value.grad) < ROUNDING, name


# Unusual inputs and modes -------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("build", "shape", "out"),
    [(example, (0, 3, 16, 20), (0, 32, 4, 6)), (digits, (0, 1, 28, 28), (0, 10))],
)
def test_empty_batch(
    build: Callable[[], nn.Module], shape: tuple[int, ...], out: tuple[int, ...], training: bool
) -> None:
    net = build().train(training)
    before = copy.deepcopy(net.state_dict())
    x = torch.empty(shape, requires_grad=True)
    y = net(x)
    assert y.shape == out
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == shape
    assert all(p.grad is not None and not p.grad.any() for p in net.parameters())
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]), name


class Halve(nn.Module):
    """Half the size."""

    def forward(self, x: Tensor) -> Tensor:
        """About the centre of the image."""
        return F.halve2d(x)


def on_meta(build: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        net = build()
    assert all(t.is_meta for t in [*net.parameters(), *net.buffers()])
    return net


def bare() -> nn.Module:
    return nn.Sequential(
        hnn.HConv2d("1x0r", "4x0 + 4x1", 5),
        hnn.ModReLU("4x0 + 4x1"),
        hnn.HBlurPool2d(2),
        hnn.HConv2d("4x0 + 4x1", "2x0 + 2x1", 3),
        hnn.HBatchNorm2d("2x0 + 2x1"),
        hnn.Magnitude("2x0 + 2x1"),
    )


def test_meta_device_then_reset() -> None:
    net = on_meta(bare).to_empty(device="cpu")
    for value in net.state_dict().values():
        value.fill_(float("nan"))  # what uninitialised memory may hold
    net.apply(lambda module: getattr(module, "reset_parameters", lambda: None)())
    fresh = bare().state_dict()
    for name, value in net.state_dict().items():
        spread, expected = float(value.std(correction=0)), float(fresh[name].std(correction=0))
        assert spread == pytest.approx(expected, rel=0.7), name
    assert net(torch.randn(2, 1, 20, 20)).isfinite().all()


def test_meta_device_gives_shapes() -> None:
    net = on_meta(fresh_example)
    assert net(torch.empty(2, 3, 16, 20, device="meta")).shape == (2, 32, 4, 6)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_meta_device_then_load(assign: bool, dtype: torch.dtype) -> None:
    source = example().to(dtype).eval()
    net = on_meta(fresh_example)
    if not assign:
        net = net.to(dtype).to_empty(device="cpu")
    net.load_state_dict(source.state_dict(), assign=assign)
    x = torch.randn(2, 3, 16, 16, dtype=dtype)
    assert torch.equal(net.eval()(x), source(x))


@pytest.mark.parametrize("assign", [False, True])
def test_frozen_on_meta_device_then_load(assign: bool) -> None:
    source = example().eval()
    net = hnets.freeze(on_meta(fresh_example))
    if not assign:
        net = net.to_empty(device="cpu")
    net.load_state_dict(source.state_dict(), assign=assign)
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(net(x), source(x))


def test_another_default_device_changes_nothing() -> None:
    net, x = every_layer().eval(), torch.randn(2, 2, 16, 16)
    weights = list(net.parameters())
    expected = torch.autograd.grad([y.sum() for y in net(x)], weights)
    with torch.device("meta"):
        actual = torch.autograd.grad([y.sum() for y in net(x)], weights)
    assert all(map(torch.equal, actual, expected))


@pytest.mark.parametrize(
    "build",
    [
        lambda **where: hnn.HConv2d("1x0r", "2x0 + 2x1", 3, **where),
        lambda **where: hnn.FourierAct(CIRCLE, norm=True, **where),
        lambda **where: hnn.PolyAct(CIRCLE, **where),
    ],
)
def test_layers_are_built_and_moved_inside_another_default_device(
    build: Callable[..., nn.Module],
) -> None:
    with torch.device("meta"):
        built, moved = build(device="cpu"), build().to_empty(device="cpu")
    for net in (built, moved):
        assert all(t.device.type == "cpu" for t in [*net.parameters(), *net.buffers()])
    expected = dict(build().named_buffers())
    for net in (built, moved):
        for name, value in net.named_buffers():
            if "running" not in name:
                assert torch.equal(value, expected[name])


@pytest.mark.parametrize("eps", [0.00123, 0.00124])  # which nobody else has used yet
def test_fake_tensors_leave_nothing_behind(eps: float) -> None:
    act, x = hnn.ModReLU("1x1", magnitude_eps=eps), torch.randn(2, 2, 4, 4)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        y = act(mode.from_tensor(x) if eps == 0.00123 else x)
    assert isinstance(y, FakeTensor)
    assert torch.equal(act(x), x)  # as the bias is 0


def test_loading_keeps_computed_buffers_that_fit() -> None:
    """A CUDA graph that was captured before goes on reading their memory."""
    net = nn.Sequential(example(), hnn.FourierAct(CIRCLE), hnn.HBlurPool2d())
    before = dict(net.named_buffers())
    net.load_state_dict(net.state_dict())
    assert all(value is before[name] for name, value in net.named_buffers())


def test_a_move_to_where_a_network_is_keeps_computed_buffers() -> None:
    """As above; torch keeps parameters then."""
    net = nn.Sequential(example(), hnn.FourierAct(CIRCLE), hnn.HBlurPool2d())
    before = dict(net.named_buffers())
    net.to("cpu").float()
    assert all(value is before[name] for name, value in net.named_buffers())


def test_blur_is_where_loaded_parameters_are() -> None:
    with torch.device("meta"):
        empty = hnn.HBlurPool2d(2)
    empty.load_state_dict({}, assign=True)
    x = torch.randn(1, 2, 8, 8)
    assert torch.equal(empty(x), hnn.HBlurPool2d(2)(x))


def test_blur_survives_to_empty() -> None:
    pool, x = hnn.HBlurPool2d(2), torch.randn(1, 2, 8, 8)
    with torch.device("meta"):
        empty = hnn.HBlurPool2d(2)
    assert torch.equal(empty.to_empty(device="cpu")(x), pool(x))
    exact = F.blur_pool2d(x.double(), F.gaussian_window(pool.window.numel(), pool.sigma), 2)
    assert torch.equal(pool.double()(x.double()), exact)


def test_inference_mode() -> None:
    net, x = example().eval(), torch.randn(2, 3, 16, 16)
    with torch.inference_mode():
        y = net(x)
    assert y.is_inference()
    assert torch.equal(y, net(x))
    net.train()(x).sum().backward()  # and it trains afterwards


@pytest.mark.parametrize("size", [9, 300])  # on CPU, maps of these sizes take different ways
@pytest.mark.parametrize(
    "layer",
    [
        hnn.Magnitude("2x0r + 2x1"),
        hnn.Magnitude("3x1"),
        hnn.ModReLU("3x1"),
        hnn.HBatchNorm2d("2x0r + 2x1"),
        hnn.FourierAct("2x0r + 2x1"),
        hnn.HAvgPool2d(2),
        Halve(),
    ],
)
def test_outputs_may_be_changed_in_place(layer: nn.Module, size: int) -> None:
    x = torch.randn(2, 6, size, size, requires_grad=True)
    expected = torch.autograd.grad(2 * layer(x).sum(), x)[0]
    assert torch.equal(torch.autograd.grad(layer(x).mul_(2).sum(), x)[0], expected)


def test_gradient_checkpointing() -> None:
    net = example().eval()  # in training, statistics would move twice, as those of nn.BatchNorm2d
    x = torch.randn(2, 3, 16, 16, requires_grad=True)
    checkpointed = checkpoint_sequential(net, 3, x, use_reentrant=False)
    wanted = [x, *net.parameters()]
    actual = torch.autograd.grad(checkpointed.square().mean(), wanted)
    expected = torch.autograd.grad(net(x).square().mean(), wanted)
    assert_alike(list(actual), list(expected), ROUNDING)


# Second derivatives -------------------------------------------------------------------------------


def second_order_cases() -> dict[str, nn.Module]:
    """Modules from 6 channels; widths differ, so that there is more than one group of streams."""
    streams = "1x0r + 1x1 + 1x0r + 1x2"
    return {
        "ModReLU": hnn.ModReLU(streams),
        "HBatchNorm2d": hnn.HBatchNorm2d(streams),
        "HAvgPool2d": hnn.HAvgPool2d(2),
        "Magnitude": hnn.Magnitude(streams),
        "HConv2d": hnn.HConv2d(streams, "1x0r + 1x1", 3),
        "LightBlock": hnn.LightBlock("2x0r + 2x1", "2x0r + 2x1", 3, squeeze=True),
    }


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", list(second_order_cases()))
def test_second_derivatives(name: str, training: bool) -> None:
    module = second_order_cases()[name].double()
    x = torch.randn(2, 6, 4, 4, dtype=torch.float64, requires_grad=True)
    module = lively(module, x).train(training)
    names = [name for name, _ in module.named_parameters()]

    def call(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(module, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradgradcheck(call, (x, *module.parameters()), fast_mode=True)


def test_gradient_penalty_through_a_network() -> None:
    net = example().double()
    x = torch.randn(2, 3, 14, 14, dtype=torch.float64, requires_grad=True)
    parameters = dict(net.named_parameters())

    def penalty(values: dict[str, Tensor]) -> Tensor:  # under transforms, which take the plain form
        def loss(x: Tensor) -> Tensor:
            buffers = {name: value.clone() for name, value in net.named_buffers()}
            return functional_call(net, values | buffers, (x,)).square().sum()

        return grad(loss)(x).square().sum()

    (slope,) = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
    fused = torch.autograd.grad(slope.square().sum(), [*parameters.values()])
    assert_alike(list(fused), list(grad(penalty)(parameters).values()), 1e-9)
