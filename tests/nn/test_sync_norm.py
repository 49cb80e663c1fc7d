"""Two processes with half of a batch each train as one process with the whole of it."""

import datetime
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from hnets import nn as hnn
from networks import relative

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

PROCESSES = 2
STEPS = 3
ROUNDING = 1e-5
"""Relative distance that float32 rounding explains."""


def network(norm: str) -> nn.Module:
    """The same values in every process."""
    torch.manual_seed(0)
    streams = "4x0r + 4x1" if norm == "angular" else "4x0 + 4x1"
    middle: nn.Module
    match norm:
        case "none":
            middle = hnn.ModReLU(streams)
        case "angular":
            middle = hnn.FourierAct(streams, norm=True, sync=True)
        case _:
            middle = hnn.HBatchNorm2d(streams, sync=norm == "sync")
    net = nn.Sequential(
        hnn.HConv2d("3x0r", streams, 5, padding="same"),
        middle,
        hnn.HConv2d(streams, "2x0 + 2x1", 5),
        hnn.ModReLU("2x0 + 2x1"),
        hnn.Magnitude("2x0 + 2x1"),
        hnn.GlobalMean(),
    )
    with torch.no_grad():
        for name, value in net.named_parameters():
            if name.endswith("bias"):
                value.uniform_(-0.3, 0.3)
    return net


def batch() -> Tensor:
    """Its halves have different statistics, so that it matters from which of them they are."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 3, 12, 12, generator=generator)
    x[2:] *= 3
    return x


def record(net: nn.Module, outputs: Tensor) -> dict[str, Any]:
    """What a test compares: outputs, gradients, and the state after the step."""
    return {
        "outputs": outputs.detach(),
        "gradients": {name: p.grad.clone() for name, p in net.named_parameters()},
        "state": {name: value.clone() for name, value in net.state_dict().items()},
    }


def train(net: nn.Module, x: Tensor) -> list[dict[str, Any]]:
    """Some steps of gradient descent; under DDP the gradients are means over processes."""
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    steps = []
    for _ in range(STEPS):
        optimiser.zero_grad()
        y = net(x)
        y.square().mean().backward()
        optimiser.step()
        steps.append(record(getattr(net, "module", net), y))
    return steps


def one_pass(net: nn.Module, x: Tensor, compiled: bool = False) -> dict[str, Any]:
    call = torch.compile(net, fullgraph=True, backend="aot_eager") if compiled else net
    y = call(x)
    y.square().sum().backward()
    return record(net, y)


def work(rank: int, folder: str) -> None:
    """One process: run every scenario on its share and write down what came out."""
    warnings.simplefilter("default")  # those of torch are no errors here
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=PROCESSES,
        timeout=datetime.timedelta(seconds=60),
    )
    x = batch()
    half = x[2 * rank : 2 * rank + 2]
    results: dict[str, Any] = {
        norm: train(DistributedDataParallel(network(norm)), half)
        for norm in ("none", "sync", "angular", "local")
    }
    # Unequal shares, and none at all: whoever has no images still takes part.
    results["three and one"] = one_pass(network("sync"), x[:3] if rank == 0 else x[3:])
    results["all and none"] = one_pass(network("sync"), x if rank == 0 else x[:0])
    results["angular, all and none"] = one_pass(network("angular"), x if rank == 0 else x[:0])
    results["compiled"] = one_pass(network("sync"), half, compiled=True)
    results["eager"] = one_pass(network("sync"), half)
    # Two passes before one backward, as losses on pairs of images have it. Until torch 2.13 that
    # asks networks with buffers, as those with nn.BatchNorm2d, not to send them before each pass.
    twice = DistributedDataParallel(network("sync"), broadcast_buffers=False)
    (twice(half).mean() + twice(half + 1).mean()).backward()
    results["twice"] = record(twice.module, torch.zeros(0))
    torch.save(results, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@dataclass(frozen=True)
class Runs:
    """What each process wrote down, by scenario."""

    ranks: list[dict[str, Any]]

    def of(self, scenario: str) -> list[Any]:
        return [rank[scenario] for rank in self.ranks]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("distributed")
    # Forked, the processes import neither torch nor what its compiler needs, here imported by use.
    one_pass(network("sync"), batch(), compiled=True)
    torch.compiler.reset()  # they compile anew, with a process group
    context = torch.multiprocessing.start_processes(
        work, (str(folder),), nprocs=PROCESSES, join=False, start_method="fork"
    )
    try:
        deadline = 12
        while not context.join(timeout=10):
            deadline -= 1
            assert deadline, "the processes wait for each other"
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
    return Runs([torch.load(Path(folder) / f"{rank}.pt") for rank in range(PROCESSES)])


def distance(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """The largest relative distance of any entry."""
    assert actual.keys() == expected.keys()
    return max(relative(actual[name], expected[name]) for name in actual)


@pytest.mark.parametrize("norm", ["none", "sync", "angular"])
def test_two_processes_train_as_one(runs: Runs, norm: str) -> None:
    whole = train(network(norm), batch())
    for step, expected in enumerate(whole):
        shares = [rank[step] for rank in runs.of(norm)]
        together = torch.cat([share["outputs"] for share in shares])
        assert relative(together, expected["outputs"]) < ROUNDING
        for share in shares:
            assert distance(share["gradients"], expected["gradients"]) < 10 * ROUNDING
            assert distance(share["state"], expected["state"]) < ROUNDING


def test_without_sync_each_process_has_its_own_statistics(runs: Runs) -> None:
    expected = train(network("local"), batch())[0]
    first, second = (rank[0] for rank in runs.of("local"))
    together = torch.cat([first["outputs"], second["outputs"]])
    assert relative(together, expected["outputs"]) > 0.01
    assert distance(first["gradients"], expected["gradients"]) > 0.01
    means = [share["state"]["1.running_mean"] for share in (first, second, expected)]
    assert relative(means[0], means[1]) > 0.1
    assert relative(means[0], means[2]) > 0.05


@pytest.mark.parametrize("shares", ["three and one", "all and none", "angular, all and none"])
def test_unequal_shares_have_common_statistics(runs: Runs, shares: str) -> None:
    expected = one_pass(network("angular" if "angular" in shares else "sync"), batch())
    first, second = runs.of(shares)
    together = torch.cat([first["outputs"], second["outputs"]])
    assert relative(together, expected["outputs"]) < ROUNDING
    for share in (first, second):
        assert distance(share["state"], expected["state"]) < ROUNDING
    # The loss is a sum over images, so the gradient of the whole is the sum of the shares.
    summed = {name: g + second["gradients"][name] for name, g in first["gradients"].items()}
    assert distance(summed, expected["gradients"]) < 10 * ROUNDING


def test_compiled_networks_stay_in_step(runs: Runs) -> None:
    for compiled, eager in zip(runs.of("compiled"), runs.of("eager"), strict=True):
        assert relative(compiled["outputs"], eager["outputs"]) < ROUNDING
        assert distance(compiled["state"], eager["state"]) < ROUNDING
        assert distance(compiled["gradients"], eager["gradients"]) < 10 * ROUNDING


def test_two_passes_before_one_backward(runs: Runs) -> None:
    first, second = runs.of("twice")
    assert distance(first["gradients"], second["gradients"]) == 0
    assert all(g.isfinite().all() and g.any() for g in first["gradients"].values())


def test_sync_without_processes_is_plain_batch_norm() -> None:
    sync, local = (train(network(norm), batch())[-1] for norm in ("sync", "local"))
    assert distance(sync["state"], local["state"]) == 0


@pytest.mark.parametrize("norm", ["sync", "angular"])
def test_a_single_process_needs_no_other(norm: str) -> None:
    """It normalises as without a group: a batch without values leaves the statistics alone."""
    layer = network(norm)[1]
    channels = layer.in_streams.channels
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        layer(torch.zeros(0, channels, 4, 4))
        with pytest.raises(ValueError, match="more than one value"):
            layer(torch.zeros(1, channels, 1, 1))
    finally:
        distributed.destroy_process_group()
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
