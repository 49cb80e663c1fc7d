"""One network while it learns: its weights, its optimiser, and the step that changes them.

All of a step happens on the device. The order of the images, their random changes and the
learning rates of a whole epoch are put there before it, and a counter on the device says which of
them are next; so a step needs nothing from the host, and on a GPU becomes one CUDA graph.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from hnets.train.augment import draw
from hnets.train.distributed import Team, synchronise
from hnets.train.recipe import Recipe
from hnets.train.task import Task

WARM_UP = 3
"""Steps before a capture, for what allocates on its first calls."""


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
        self._changes = self._draw(torch.Generator())
        if self._changes is not None:
            self._changes = self._changes.to(device)
        self.optimiser = self._optimiser()
        self._graph: torch.cuda.CUDAGraph | None = None
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    @property
    def evaluated(self) -> nn.Module:
        """The network whose errors count: the running mean where there is one."""
        return self.mean if self.mean is not None else self.model

    def autocast(self) -> torch.autocast:
        """The precision of the recipe, for the network only."""
        half = self.recipe.training.precision == "bfloat16" and self.stream is not None
        return torch.autocast(self.team.device.type, torch.bfloat16, enabled=half)

    def begin_epoch(self, epoch: int, rates: list[float]) -> None:
        """Put the order, the random changes and the rates of an epoch on the device."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        count, needed = len(self.task), len(self._order)
        order = torch.randperm(count, generator=generator)
        # The last batch is filled up from the front: every image is seen, all batches are full.
        self._order.copy_(order.repeat(math.ceil(needed / count))[:needed])
        changes = self._draw(generator)
        if self._changes is not None and changes is not None:
            self._changes.copy_(changes)
        self._rates.copy_(torch.tensor(rates) * self.recipe.optimiser.rate)
        self._index.zero_()
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))  # for dropout
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream())

    def _draw(self, generator: torch.Generator) -> Tensor | None:
        height, width = self.task.images.shape[-2:]
        return draw(self.task.augment, len(self.task), (height, width), generator)

    def step(self) -> None:
        """One batch: on a GPU a replay of the captured step, elsewhere the step itself."""
        if self._graph is not None:
            with torch.cuda.stream(self.stream):
                self._graph.replay()
        else:
            self._step()

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
            recompute_statistics(self.evaluated, self.task.inputs())

    def _step(self) -> None:
        self.optimiser.zero_grad()
        rows = self._order.index_select(0, self._index * self.recipe.training.batch + self._share)
        with self.autocast():
            loss = self.task.loss(self.model, rows, self._changes)
        loss = loss / self.recipe.training.batch
        loss.backward()
        total = loss.detach()
        self.team.add([total, *(p.grad for p in self.model.parameters() if p.grad is not None)])
        rate = self._rates.index_select(0, self._index)[0]
        for group in self.optimiser.param_groups:
            group["lr"].copy_(rate * group["times"])
        self.optimiser.step()
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

    def _optimiser(self) -> torch.optim.Optimizer:
        recipe, device = self.recipe.optimiser, self.team.device
        phases, plain, decayed = list[Tensor](), list[Tensor](), list[Tensor]()
        for name, parameter in self.model.named_parameters():
            if ".phase." in f".{name}":
                phases.append(parameter)
            else:
                (decayed if parameter.ndim > 1 else plain).append(parameter)
        groups: list[dict[str, Any]] = [
            {"params": decayed, "times": 1.0, "weight_decay": recipe.weight_decay},
            {"params": plain, "times": 1.0, "weight_decay": 0.0},
            {"params": phases, "times": recipe.phase_rate, "weight_decay": 0.0},
        ]
        # Tensors on the device: a captured step would keep the number that it saw.
        for group in groups:
            group["lr"] = torch.tensor(recipe.rate, device=device)
        optimiser = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            betas=(recipe.beta1, recipe.beta2),
            eps=recipe.eps,
            fused=True,
            capturable=device.type == "cuda",
        )
        for parameter in self.model.parameters():  # so that there is a state to save and to load
            optimiser.state[parameter] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return optimiser


@torch.no_grad()
def recompute_statistics(model: nn.Module, inputs: Iterable[Tensor]) -> None:
    """Replace the running means of all batch norms by those over the inputs.

    Running means lag behind weights that still move, were taken of augmented images, and for a mean
    of weights they belong to no network at all.
    """
    was_training = {part: part.training for part in model.modules()}
    norms: list[Any] = [part for part in model.modules() if "running_mean" in part._buffers]
    momenta, seen = [part.momentum for part in norms], 0
    model.eval()  # so that nothing is dropped
    try:
        for norm in norms:
            norm.train()
        for batch in inputs:
            seen += len(batch)
            for norm in norms:
                norm.momentum = len(batch) / seen
            model(batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for part, training in was_training.items():
            part.training = training
