"""One network while it learns: its weights, its optimiser, and the step that changes them.

All of a step happens on the device. The order of the images, their random changes and the
learning rates of a whole epoch are put there before it, and a counter on the device says which of
them are next; so a step needs nothing from the host, and on a GPU becomes one CUDA graph. Of a set
that is streamed, the images of each step are copied to the same place before it.
"""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from hnets.data import Streamed
from hnets.train.augment import draw
from hnets.train.distributed import ALONE, Team, synchronise
from hnets.train.recipe import Optimiser, Recipe
from hnets.train.task import Task, precision_on

WARM_UP = 3
"""Steps before a capture, for what allocates on its first calls."""
QUEUED = 2
"""Steps of a stream that a GPU has in front of it while the next batch is awaited."""


class Learner:
    """A model with its optimiser and, if the recipe has one, the running mean of its weights."""

    def __init__(self, model: nn.Module, task: Task, recipe: Recipe, seed: int, team: Team) -> None:
        self.task, self.recipe, self.seed, self.team = task, recipe, seed, team
        device, batch = team.device, recipe.training.batch
        self.model = synchronise(model, team).to(device).train()
        self.mean = copy.deepcopy(self.model).requires_grad_(False) if recipe.training.ema else None
        self.steps = math.ceil(len(task) / batch)
        self._share = torch.arange(batch, device=device)[team.share(batch)]
        self._index = torch.zeros(1, dtype=torch.long, device=device)
        self._order = torch.zeros(self.steps * batch, dtype=torch.long, device=device)
        self._rates = torch.zeros(self.steps, device=device)
        self._losses = torch.zeros(self.steps, device=device)
        self._images: Tensor | None = None
        if isinstance(task.images, Streamed):  # one batch, or this process's share of it
            form = (len(self._share), *task.images.shape[1:])
            self._images = torch.zeros(form, dtype=torch.uint8, device=device)
        self._stream: Iterator[Tensor] = iter(())
        self._next_epoch = -1
        self._running = deque[torch.cuda.Event]()
        self.waited = 0.0
        """Seconds that the steps of an epoch have waited for images."""
        self._changes = self._draw(torch.Generator())
        if self._changes is not None:
            self._changes = self._changes.to(device)
        self.optimiser = AdamW(self.model, recipe.optimiser)
        self._graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    @property
    def evaluated(self) -> nn.Module:
        """The network whose errors count: the running mean where there is one."""
        return self.mean if self.mean is not None else self.model

    def autocast(self) -> torch.autocast:
        """The precision of the recipe, for the network only."""
        device = self.team.device
        half = precision_on(device, self.recipe) == "bfloat16"
        return torch.autocast(device.type, torch.bfloat16, enabled=half)

    def begin_epoch(self, epoch: int, rates: list[float]) -> None:
        """Put the order, the random changes and the rates of an epoch on the device."""
        order, generator = self._shuffled(epoch)
        self._order.copy_(order)
        if isinstance(self.task.images, Streamed) and epoch != self._next_epoch:
            self._stream = self.task.images.batches(self._shares(epoch), len(self._share))
        self._next_epoch, self.waited = epoch + 1, 0.0
        changes = self._draw(generator)
        if self._changes is not None and changes is not None:
            self._changes.copy_(changes)
        self._rates.copy_(torch.tensor(rates) * self.recipe.optimiser.rate)
        self._index.zero_()
        drawn = int(torch.randint(2**31, (), generator=generator))
        torch.manual_seed(drawn + self.team.rank)  # for dropout: each process drops others
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())

    def _shuffled(self, epoch: int) -> tuple[Tensor, torch.Generator]:
        """The order of the images in an epoch, and where its other random numbers come from."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        count, needed = len(self.task), self.steps * self.recipe.training.batch
        order = torch.randperm(count, generator=generator)
        # The last batch is filled up from the front: every image is seen, all batches are full.
        return order.repeat(math.ceil(needed / count))[:needed], generator

    def _shares(self, epoch: int) -> Iterator[Tensor]:
        """What this process sees in each step from an epoch on, to be read in advance."""
        batch = self.recipe.training.batch
        for number in range(epoch, max(epoch + 1, self.recipe.training.epochs)):
            for rows in self._shuffled(number)[0].split(batch):
                yield rows[self.team.share(batch)]

    def _draw(self, generator: torch.Generator) -> Tensor | None:
        height, width = self.task.images.shape[-2:]
        return draw(self.task.augment, len(self.task), (height, width), generator)

    def step(self) -> None:
        """One batch: on a GPU a replay of the captured step, elsewhere the step itself."""
        with torch.cuda.stream(self.stream) if self._graph is not None else nullcontext():
            if self._images is not None:
                self._receive(self._images)
            if self._graph is not None:
                self._graph.replay()
            else:
                self._step()
            if self._images is not None and self.stream is not None:
                self._running.append(torch.cuda.current_stream().record_event())

    def _receive(self, images: Tensor) -> None:
        """Copy the next batch of a stream to the device, while it computes the steps before."""
        if len(self._running) == QUEUED:  # or batches would wait in memory, more and more of them
            self._running.popleft().synchronize()
        began = time.perf_counter()
        batch = next(self._stream)
        self.waited += time.perf_counter() - began
        images.copy_(batch, non_blocking=True)

    def close(self) -> None:
        """End the processes that read images."""
        self._stream = iter(())

    def end_epoch(self) -> list[float]:
        """Wait for the epoch's last step; the mean loss of each of its batches."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
        losses: list[float] = self._losses.tolist()
        return losses

    def capture(self) -> None:
        """Record the step as a CUDA graph; the weights are left as they were."""
        assert self.stream is not None
        before = {name: value.clone() for name, value in self.state().items()}
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                self._index.zero_()
                self._step()
            self.optimiser.zero_grad()
            graph = torch.cuda.CUDAGraph()
            self._index.zero_()
            with torch.cuda.graph(graph, stream=self.stream):
                self._step()
        torch.cuda.current_stream().wait_stream(self.stream)
        self._graph = graph
        self.load_state(before)

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, by name; the tensors themselves, not copies."""
        state = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        if self.mean is not None:
            state |= {f"mean.{name}": value for name, value in self.mean.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimiser.state[parameter].items():
                state[f"adam.{key}.{name}"] = value
        return state

    def load_state(self, saved: dict[str, Tensor]) -> None:
        """Copy what `state` gave in place: a captured graph goes on using these tensors."""
        with torch.no_grad():
            for name, value in self.state().items():
                value.copy_(saved[name])

    def recompute_statistics(self) -> None:
        """Replace the statistics of the evaluated network by those of all training images."""
        with self.autocast():
            recompute_statistics(self.evaluated, self.task.inputs(), self.team)

    def _step(self) -> None:
        self.optimiser.zero_grad()
        rows = self._order.index_select(0, self._index * self.recipe.training.batch + self._share)
        if isinstance(self.task.images, Tensor):
            images = self.task.images.index_select(0, rows)
        else:
            assert self._images is not None
            images = self._images
        with self.autocast():
            loss = self.task.loss(self.model, images, rows, self._changes)
        loss = loss / self.recipe.training.batch
        loss.backward()
        total = loss.detach()
        self.team.add([total, *(p.grad for p in self.model.parameters() if p.grad is not None)])
        self.optimiser.step(self._rates.index_select(0, self._index)[0])
        if self.mean is not None:
            self._follow(self.mean)
        self._losses.index_copy_(0, self._index, total[None])
        self._index += 1

    @torch.no_grad()
    def _follow(self, mean: nn.Module) -> None:
        """Move the running mean of weights and statistics towards the present ones.

        At first it follows faster, so that the random start is soon forgotten.
        """
        taken = next(iter(self.optimiser.state.values()))["step"]
        part = (9 / (9 + taken)).clamp(min=1 - self.recipe.training.ema)
        pairs = zip(mean.state_dict().values(), self.model.state_dict().values(), strict=True)
        real = [(slow, fast) for slow, fast in pairs if slow.is_floating_point()]
        means = [slow for slow, _ in real]
        differences = torch._foreach_sub([fast for _, fast in real], means)
        torch._foreach_mul_(differences, part)
        torch._foreach_add_(means, differences)


class AdamW:
    """AdamW with a learning rate on the device: a captured step would keep a number that it saw.

    It calls what `torch.optim.AdamW` calls. That class imports torch's compiler, which takes
    longer than many a training.
    """

    def __init__(self, model: nn.Module, recipe: Optimiser) -> None:
        self.recipe, self.parameters = recipe, list(model.parameters())
        phases, plain, decayed = (list[nn.Parameter]() for _ in range(3))
        for name, parameter in model.named_parameters():
            if ".phase." in f".{name}":
                phases.append(parameter)
            else:
                (decayed if parameter.ndim > 1 else plain).append(parameter)
        self._groups = (
            (decayed, 1.0, recipe.weight_decay),
            (plain, 1.0, 0.0),
            (phases, recipe.phase_rate, 0.0),
        )
        self.state = {
            parameter: {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
            for parameter in self.parameters
        }
        """Per parameter: its steps, and the running means of its gradient and the square of it."""

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """Change all parameters that have a gradient."""
        for group, times, weight_decay in self._groups:
            grads = {each: each.grad for each in group if each.grad is not None}
            if not grads:
                continue
            states = [self.state[parameter] for parameter in grads]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                list(grads),
                list(grads.values()),
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=rate * times,
                beta1=self.recipe.beta1,
                beta2=self.recipe.beta2,
                weight_decay=weight_decay,
                eps=self.recipe.eps,
                amsgrad=False,
                maximize=False,
            )


@torch.no_grad()
def recompute_statistics(model: nn.Module, inputs: Iterable[Tensor], team: Team = ALONE) -> None:
    """Replace the running means of all batch norms by those over the inputs, of a whole team.

    Running means lag behind weights that still move, were taken of augmented images, and for a mean
    of weights they belong to no network at all.
    """
    was_training = {part: part.training for part in model.modules()}
    norms: list[Any] = [part for part in model.modules() if "running_mean" in part._buffers]
    momenta, seen = [part.momentum for part in norms], 0.0
    model.eval()  # so that nothing is dropped
    try:
        for norm in norms:
            norm.train()
        for batch in inputs:
            count = torch.tensor([float(len(batch))], device=batch.device)
            team.add([count])
            seen += count.item()
            for norm in norms:
                norm.momentum = count.item() / seen
            model(batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for part, training in was_training.items():
            part.training = training
