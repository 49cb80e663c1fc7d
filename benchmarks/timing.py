"""Fair timing on a machine that is not quiet, and the memory of a training step.

Two functions timed one after the other are timed on two different machines: clocks, caches and
neighbours have moved in between. `interleaved` therefore runs them in turn, round after round, and
compares them inside each round; what slows a round slows both sides of its ratio.

    times = interleaved({"plain": step_a, "hnet": step_b}, rounds=15, min_time=0.2)
    times.median("hnet")                 # seconds a call
    times.ratios(to="plain")["hnet"]     # Spread(median=1.08, lower=1.06, upper=1.11)
    print(times.table(to="plain"))

    peak_memory(lambda: training_step(plain_cnn(), batch=46))      # Memory(peak=..., held=...)
"""

import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile, record_function

import hnets

Step = Callable[[], object]


class Spread(NamedTuple):
    """A median with the quartiles below and above it."""

    median: float
    lower: float
    upper: float

    @classmethod
    def of(cls, values: list[float]) -> "Spread":
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, lower, upper)


@dataclass(frozen=True)
class Timings:
    """Seconds a call, one value a round, for every function timed."""

    seconds: dict[str, list[float]]

    def spread(self, name: str) -> Spread:
        return Spread.of(self.seconds[name])

    def median(self, name: str) -> float:
        return self.spread(name).median

    def ratios(self, to: str) -> dict[str, Spread]:
        """How many times slower each function is than `to`: the spread of the per-round ratios."""
        reference = self.seconds[to]
        return {
            name: Spread.of([a / b for a, b in zip(values, reference, strict=True)])
            for name, values in self.seconds.items()
        }

    def table(self, to: str) -> str:
        """Aligned text, a line a function: median and quartiles in milliseconds, ratio to `to`."""
        width = max(map(len, self.seconds))
        ratios = self.ratios(to)
        lines = [f"{'':{width}}  {'ms (quartiles)':>27}  {'ratio (quartiles)':>20}"]
        for name in self.seconds:
            median, lower, upper = (1e3 * value for value in self.spread(name))
            ratio = ratios[name]
            lines.append(
                f"{name:{width}}  {median:9.3f} ({lower:7.3f}-{upper:7.3f})"
                f"  {ratio.median:6.3f} ({ratio.lower:.2f}-{ratio.upper:.2f})"
            )
        return "\n".join(lines)


def interleaved(
    functions: dict[str, Step],
    rounds: int = 15,
    min_time: float = 0.2,
    device: str | torch.device = "cpu",
    clock: Callable[[], float] = time.perf_counter,
) -> Timings:
    """Time the functions in turn, `rounds` times; a sample repeats its function for `min_time` s.

    Every function is warmed up first (compilation, autotuning, allocator). Odd rounds run in
    reverse, so that no function always follows the same neighbour. On CUDA a sample is the time
    between two events on the stream, launch gaps included; elsewhere it is that of ``clock``.
    """
    if not functions or rounds < 1:
        raise ValueError(f"nothing to time: {len(functions)} functions, {rounds} rounds")
    sample = partial(_clock_sample, clock)
    if torch.device(device).type == "cuda":
        sample = _cuda_sample
    calls = {name: _calls_filling(min_time, fn, sample) for name, fn in functions.items()}
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    order = list(functions)
    for _ in range(rounds):
        gc.collect()
        gc.disable()  # a collection would land in one sample and not in its neighbour
        try:
            for name in order:
                seconds[name].append(sample(functions[name], calls[name]))
        finally:
            gc.enable()
        order.reverse()
    return Timings(seconds)


def _calls_filling(min_time: float, fn: Step, sample: Callable[[Step, int], float]) -> int:
    """Warm `fn` up for about `min_time` (at least three calls); calls a sample needs to last it."""
    started, fastest, calls = time.perf_counter(), math.inf, 0
    while calls < 3 or time.perf_counter() - started < min_time:
        fastest = min(fastest, sample(fn, 1))
        calls += 1
        if calls >= 1000:
            break
    return max(1, math.ceil(min_time / fastest))


def _clock_sample(clock: Callable[[], float], fn: Step, calls: int) -> float:
    started = clock()
    for _ in range(calls):
        fn()
    return (clock() - started) / calls


def _cuda_sample(fn: Step, calls: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        fn()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / calls  # elapsed_time is in milliseconds


class Memory(NamedTuple):
    """Bytes at the peak of a step, and those held already when it began."""

    peak: int
    held: int

    @property
    def step(self) -> int:
        """What the step itself needs: activations, gradients and workspaces."""
        return self.peak - self.held


def peak_memory(
    factory: Callable[[], Step], device: str | torch.device = "cpu", warmup: int = 2
) -> Memory:
    """Most bytes that torch held at once during one call of the step that `factory` builds.

    `peak` counts everything since before the factory: parameters, optimiser state, batch,
    activations, gradients and workspaces. Networks of different parameter counts are better
    compared by `.step`. The step runs `warmup` times before it is measured, so that the optimiser
    state exists. Build everything inside the factory: what existed before it is not counted.

    On CUDA this is `max_memory_allocated`. On CPU it is as exact, and not the resident set size:
    the profiler reports every allocation and release of torch's CPU allocator with the running
    total. What a library takes from malloc behind torch's back is counted on neither.
    """
    gc.collect()
    if torch.device(device).type == "cuda":
        before = torch.cuda.memory_allocated()
        step = factory()
        for _ in range(warmup):
            step()
        gc.collect()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        step()
        return Memory(torch.cuda.max_memory_allocated() - before, held - before)

    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler writes lines to stderr
    window = "measured step"
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        step = factory()
        for _ in range(warmup):
            step()
        gc.collect()
        with record_function(window):
            step()
    events = list(_walk(prof.profiler.kineto_results.experimental_event_tree()))
    measured = next(event for event in events if event.name == window)
    changes: list[tuple[int, int, int]] = sorted(
        (event.start_time_ns, event.extra_fields.total_allocated, event.extra_fields.alloc_size)
        for event in events
        if event.tag == _EventType.Allocation
    )
    earlier = [total for at, total, _ in changes if at < measured.start_time_ns]
    during = [total for at, total, _ in changes if at >= measured.start_time_ns]
    if not earlier or not during:
        raise RuntimeError("no CPU tensor was allocated: is the step on another device?")
    _, total, size = changes[0]
    before = total - size  # not zero if an earlier profile in this process left tensors alive
    return Memory(max(earlier[-1], *during) - before, earlier[-1] - before)


def _walk(events: list[Any]) -> Iterator[Any]:
    for event in events:
        yield event
        yield from _walk(event.children)


def training_step(
    net: nn.Module, batch: int, device: str | torch.device = "cpu", capturable: bool = False
) -> Step:
    """One step of Adam on random digits (batch, 1, 28, 28): forward, loss, backward, update.

    `capturable` keeps all of Adam on the device, as a CUDA graph needs it.
    """
    net = placed(net, device).train()
    images, labels = random_digits(batch, device)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-4, capturable=capturable)

    def step() -> None:
        nn.functional.cross_entropy(net(images), labels).backward()
        optimiser.step()
        optimiser.zero_grad()  # last, so that no gradient is held between steps

    return step


def inference(net: nn.Module, batch: int, device: str | torch.device = "cpu") -> Step:
    """Logits of random digits (batch, 1, 28, 28) in evaluation mode, without autograd."""
    net = placed(net, device).eval()
    images, _ = random_digits(batch, device)

    def infer() -> Tensor:
        with torch.inference_mode():
            logits: Tensor = net(images)
            return logits

    return infer


def served(net: nn.Module, batch: int) -> Step:
    """The same by onnxruntime from the network's ONNX file, on as many threads as torch has."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    with TemporaryDirectory() as folder:
        path = hnets.export.onnx(net.eval(), Path(folder) / "net.onnx", (1, 1, 28, 28))
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    images = random_digits(batch)[0].numpy()
    return lambda: session.run(None, {"input": images})


def random_digits(batch: int, device: str | torch.device = "cpu") -> tuple[Tensor, Tensor]:
    """Images and labels of the right shape, the same at every call: no data set is needed."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(batch, 1, 28, 28, generator=generator)
    labels = torch.randint(10, (batch,), generator=generator)
    return images.to(device), labels.to(device)


def graphed(step: Step) -> Step:
    """A step as one CUDA graph: what the card needs when launches cost nothing."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(keep: Step = step) -> None:  # the graph reads the memory of what the step holds
        graph.replay()

    return replay


class Precision(nn.Module):
    """A network under bf16 autocast, or as it is."""

    def __init__(self, net: nn.Module, bf16: bool) -> None:
        super().__init__()
        self.net, self.bf16 = net, bf16

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            logits: Tensor = self.net(x)
        return logits.float()


def placed(values: Any, device: str | torch.device) -> Any:
    """A network or maps on a device; on a GPU in channels_last, for which cuDNN is fastest.

    Layers of hnets bring themselves into it there, so plain ones would be slow for their layout.
    """
    last = torch.device(device).type == "cuda"
    layout = torch.channels_last if last else torch.contiguous_format
    return values.to(device, memory_format=layout)


def allow_tf32(allowed: bool) -> None:
    """Whether float32 products may round their factors to 10 bits."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
