"""Whole networks on CUDA give what they give on CPU, under what torch users put around them."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

import hnets
from hnets import nn as hnn
from networks import digits, every_layer, example, fresh_example, lively, relative

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch._dynamo.reset()


def step(net: nn.Module, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    y = net(x)
    y = y if isinstance(y, Tensor) else torch.cat([part.flatten(1) for part in y], 1)
    return y, list(torch.autograd.grad(y.float().square().mean(), [*net.parameters()]))


def flat(gradients: list[Tensor]) -> Tensor:
    return torch.cat([g.flatten() for g in gradients]).cpu().float()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("build", "shape"),
    [(example, (4, 3, 24, 20)), (digits, (4, 1, 28, 28)), (every_layer, (2, 2, 16, 20))],
)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_cuda_is_cpu(build, shape, training: bool, memory_format: torch.memory_format) -> None:
    net = build().train(training)
    for layer in net.modules():
        if isinstance(layer, hnn.HDropout2d):
            layer.eval()
    x = torch.randn(shape)
    twin = copy.deepcopy(net).cuda().to(memory_format=memory_format)
    y, gradients = step(twin, x.cuda().to(memory_format=memory_format))
    expected, expected_gradients = step(net, x)
    assert relative(y.cpu(), expected) < 1e-4
    assert relative(flat(gradients), flat(expected_gradients)) < 1e-3
    for (name, a), b in zip(twin.state_dict().items(), net.state_dict().values(), strict=True):
        assert relative(a.cpu(), b) < 1e-4, name


@pytest.mark.parametrize("training", [True, False])
def test_bf16_autocast(training: bool) -> None:
    net, x = example().cuda().train(training), torch.randn(4, 3, 24, 24, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        y = net(x)
    rounded = torch.autograd.grad(y.float().square().mean(), [*net.parameters()])
    expected, gradients = step(net, x)
    assert relative(y.float(), expected) < 0.02
    assert relative(flat(list(rounded)), flat(gradients)) < 0.1


def test_second_derivatives() -> None:
    net = example().cuda()
    x = torch.randn(2, 3, 14, 14, device="cuda", requires_grad=True)

    def penalty(net: nn.Module, x: Tensor) -> list[Tensor]:
        (slope,) = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
        return list(torch.autograd.grad(slope.square().sum(), [*net.parameters()]))

    exact = penalty(copy.deepcopy(net).cpu().double(), x.detach().cpu().double().requires_grad_())
    assert relative(flat(penalty(net, x)), flat(exact)) < 1e-3


# The compiler recommends a mode in which results could not be compared this closely.
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")
def test_compiles_at_any_size() -> None:
    net = example().cuda()
    compiled = torch.compile(copy.deepcopy(net), fullgraph=True)
    for shape in [(4, 3, 24, 24), (3, 3, 24, 24), (3, 3, 32, 20)]:
        x = torch.randn(shape, device="cuda")
        y, gradients = step(compiled, x)
        expected, expected_gradients = step(net, x)
        assert relative(y, expected) < 1e-4
        assert relative(flat(gradients), flat(expected_gradients)) < 1e-3


def test_ensemble_by_vmap() -> None:
    nets = [example().cuda().eval() for _ in range(3)]
    x = torch.randn(2, 3, 16, 16, device="cuda")
    skeleton = copy.deepcopy(nets[0]).to("meta")
    ensemble = vmap(lambda p, b: functional_call(skeleton, (p, b), (x,)))(*stack_module_state(nets))
    assert relative(ensemble, torch.stack([net(x) for net in nets])) < 1e-4


def test_frozen_and_loaded_from_the_meta_device() -> None:
    net, x = example().cuda().eval(), torch.randn(2, 3, 16, 16, device="cuda")
    assert relative(hnets.freeze(net)(x), net(x)) < 1e-4
    with torch.device("meta"):
        empty = fresh_example()
    empty.load_state_dict(net.state_dict(), assign=True)
    assert torch.equal(empty.eval()(x), net(x))


@pytest.mark.parametrize("training", [True, False])
def test_empty_batch(training: bool) -> None:
    net = example().cuda().train(training)
    y, gradients = step(net, torch.empty(0, 3, 16, 16, device="cuda"))
    assert y.shape == (0, 32, 4, 4)
    assert len(gradients) == len([*net.parameters()])


def test_float64() -> None:
    net = lively(hnn.HBatchNorm2d("2x0 + 1x1"), torch.randn(2, 6, 5, 5)).double().cuda()
    x = torch.randn(2, 6, 5, 5, dtype=torch.float64, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(net, (x,), fast_mode=True, nondet_tol=1e-8)
