"""Whole networks on CUDA give what they give on CPU, under what torch users put around them."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

import hnets
from hnets import nn as hnn
from hnets.devices import RECORDED_AT, Replayed
from networks import digits, every_layer, example, fresh_example, lively, relative
from triton_forms import FORMATS

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
@pytest.mark.parametrize("memory_format", FORMATS)
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


@pytest.mark.parametrize("name", ["hdsn", "hed_low"])
def test_edge_networks_are_as_on_the_cpu(name: str) -> None:
    net = hnets.create_model(name)
    twin = hnets.create_model(name).cuda()
    twin.load_state_dict(net.state_dict())
    x = torch.rand(2, 3, 49, 64)
    loss, gpu_loss = net.logits(x).square().mean(), twin.logits(x.cuda()).square().mean()
    loss.backward()
    gpu_loss.backward()
    torch.testing.assert_close(gpu_loss.cpu(), loss, rtol=1e-4, atol=1e-5)
    for (key, a), b in zip(net.named_parameters(), twin.parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert (b.grad.cpu() - a.grad).norm() <= 5e-3 * a.grad.norm() + 1e-6, key


@pytest.mark.parametrize("options", [{}, {"phase": "none"}])
def test_assembly_is_an_operator_of_compiled_graphs(options: dict[str, object]) -> None:
    filters = hnn.HConv2d("8x0 + 8x1", "8x0 + 8x1", 5, **options).cuda().filters
    radial, phase = filters.radial["0"], filters.phase.get("0")
    if phase is None:
        phase = radial.new_empty(*radial.shape[:2], 0)
    (block,) = filters.plan.blocks
    arguments = (radial, phase, filters.spread0, filters.assembly0, list(block.shape), 5)
    torch.library.opcheck(torch.ops.hnets.assemble, arguments)
    expected = filters()
    got = torch.compile(lambda: filters(), fullgraph=True, backend="aot_eager")()
    torch.testing.assert_close(got, expected)
    grad = torch.randn_like(expected)
    parameters = list(filters.parameters())
    for a, b in zip(
        torch.autograd.grad(got, parameters, grad),
        torch.autograd.grad(expected, parameters, grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_training_step_agrees_with_the_cpu(memory_format: torch.memory_format) -> None:
    net = hnets.models.hnet_mnist()
    twin = hnets.models.hnet_mnist().cuda().to(memory_format=memory_format)
    twin.load_state_dict(net.state_dict())
    x, labels = torch.randn(6, 1, 28, 28), torch.randint(10, (6,))
    loss = torch.nn.functional.cross_entropy(net(x), labels)
    x = x.cuda().contiguous(memory_format=memory_format)
    gpu_loss = torch.nn.functional.cross_entropy(twin(x), labels.cuda())
    loss.backward()
    gpu_loss.backward()
    torch.testing.assert_close(gpu_loss.cpu(), loss, rtol=1e-4, atol=1e-5)
    for (name, a), b in zip(net.named_parameters(), twin.parameters(), strict=True):
        assert (b.grad.cpu() - a.grad).norm() <= 2e-3 * a.grad.norm() + 1e-6, name
    for a, b in zip(net.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-5)


def test_the_same_inputs_give_the_same_bits() -> None:
    net = hnets.models.hnet_mnist().cuda()
    x = torch.randn(64, 1, 28, 28, device="cuda")
    torch.backends.cudnn.deterministic = True
    grads = [torch.autograd.grad(net(x).square().sum(), list(net.parameters())) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


# The compiler recommends a mode in which results could not be compared this closely.
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")
def test_autocast_and_compile_run() -> None:
    net = hnets.models.hnet_mnist().cuda()
    x = torch.randn(8, 1, 28, 28, device="cuda")
    full = net.eval()(x)
    with torch.autocast("cuda", torch.bfloat16):
        half = net(x)
    assert (half.float() - full).norm() <= 0.05 * full.norm()
    compiled = torch.compile(net, fullgraph=True)(x)
    assert (compiled - full).norm() <= 1e-3 * full.norm()


@pytest.mark.parametrize("centre_of_mass", [False, True])
def test_a_network_learns_in_half_precision(centre_of_mass: bool) -> None:
    net = hnets.create_model("hnet_fourier_tiny", centre_of_mass=centre_of_mass).cuda().train()
    optimiser = torch.optim.AdamW(net.parameters(), lr=5e-3)
    images = torch.rand(64, 1, 28, 28, device="cuda")
    labels = torch.arange(64, device="cuda") % 10
    images[torch.arange(64), 0, 4 + labels, 14] += 3  # something to tell them apart by
    losses = []
    for _ in range(30):
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(net(images).float(), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())  # float() of a tensor with a gradient warns
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_networks_on_a_device_that_is_not_the_current_one() -> None:
    net, x = example(), torch.randn(4, 3, 24, 20)
    y, gradients = step(copy.deepcopy(net).to("cuda:1"), x.to("cuda:1"))
    expected, expected_gradients = step(net, x)
    assert relative(y.cpu(), expected) < 1e-4
    assert relative(flat(gradients), flat(expected_gradients)) < 1e-3
    frozen = Replayed(hnets.freeze(net).to("cuda:1"))
    for _ in range(RECORDED_AT + 2):
        x = torch.randn(4, 3, 24, 20)
        with torch.no_grad():
            assert relative(frozen(x.to("cuda:1")).cpu(), hnets.freeze(net)(x)) < 1e-4
    assert torch.cuda.current_device() == 0
