"""The learned filters of a harmonic convolution, and the plain kernel they make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets import functional as F
from hnets.initialisation import radial_std
from hnets.nn._base import ComputedBuffers
from hnets.plan import Combine, KernelSpec, Piece, Plan, Segment, make_plan, split
from hnets.streams import Streams


class HarmonicFilters(ComputedBuffers):
    """Radial profiles and phase offsets of the filters ``R(r)·exp(i(mφ+β))`` of one layer.

    Its output is the kernel ``(out channels, in channels / groups, k, k)`` of the one plain
    convolution that computes all paths, with the groups of fields of ``spec``. Where the kernel is
    block-diagonal, as a 1×1 kernel is, its blocks are `segments`: a row holds the weights on the
    inputs of its own segment, then zeros up to the width of the widest one. If converging responses
    are not summed, every input stream is a segment, with its own copy of the outputs.
    """

    radial: nn.ParameterDict
    """Of each block of the plan (most have one), by its number: ``(out, in, columns)``."""
    phase: nn.ParameterDict
    """Of each block, by its number: ``(out, in, phases)``; absent where no filter has a phase."""

    def __init__(
        self,
        in_streams: Streams,
        out_streams: Streams,
        spec: KernelSpec,
        combine: Combine = "sum",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_streams, self.out_streams = in_streams, out_streams
        self.spec, self.combine = spec, combine
        self.segments, rows = self._split()
        """Blocks of channels that depend on no others; for groups=1."""
        # The plan as plain values, for graphs: number and shape of every piece, row by row.
        self._rows = [[piece[:2] for piece in row] for row in rows]

        self.radial, self.phase = nn.ParameterDict(), nn.ParameterDict()
        for number, block in enumerate(self.plan.blocks):
            _, out, _, into = block.shape
            for values, each in ((self.radial, block.columns), (self.phase, len(block.spread))):
                if each:
                    empty = torch.empty(out, into, each, device=device, dtype=dtype)
                    values[str(number)] = nn.Parameter(empty)
        self._add_computed()
        self.reset_parameters()

    @property
    def plan(self) -> Plan:
        """Which filter joins which streams."""
        return make_plan(self.in_streams, self.out_streams, self.spec)

    def reset_parameters(self) -> None:
        """Draw radial weights that keep the power at every frequency, and phases in [0, 2π)."""
        std = radial_std(self.plan, self.combine)
        with torch.no_grad():
            for number, weight in self.radial.items():
                each = torch.tensor(std[int(number)], device=weight.device, dtype=weight.dtype)
                weight.normal_().mul_(each)
            for beta in self.phase.values():
                beta.uniform_(0, 2 * math.pi)

    def forward(self) -> Tensor:
        """Assemble the kernel."""
        like = next(iter(self.radial.values()))
        if not like.is_meta and torch.is_autocast_enabled(like.device.type):
            # Autocast rounds the kernel in the convolution; its assembly must not be rounded.
            with torch.autocast(like.device.type, enabled=False):
                kernel = self._kernel()
        else:
            kernel = self._kernel().to(like.dtype)
        if self.combine == "sum":
            return kernel
        return _stacked([kernel[:, where] for where in self.in_streams.slices])

    def _kernel(self) -> Tensor:
        if len(self._rows) == len(self._rows[0]) == 1:
            return self._block(*self._rows[0][0])
        return _stacked([torch.cat([self._block(*b) for b in row], 1) for row in self._rows])

    def _block(self, number: str, shape: tuple[int, int, int, int]) -> Tensor:
        size = self.spec.kernel_size
        assembly = getattr(self, f"assembly{number}")
        if number not in self.radial:  # no ring can carry an order between these streams
            return assembly.new_zeros(shape[0] * shape[1], shape[2] * shape[3], size, size)
        radial, phase = self.radial[number].to(assembly.dtype), self.phase.get(number)
        if phase is not None:
            phase = phase.to(assembly.dtype)
        spread = getattr(self, f"spread{number}")
        return F.harmonic_kernel(radial, phase, spread, assembly, shape, size)

    def _computed(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        spread = [block.spread for block in self.plan.blocks]
        for number, _, assembly in chain.from_iterable(self._split()[1]):
            yield f"spread{number}", spread[int(number)]
            yield f"assembly{number}", assembly

    def _split(self) -> tuple[tuple[Segment, ...], tuple[tuple[Piece, ...], ...]]:
        return split(self.plan, separate=self.combine != "sum")

    def extra_repr(self) -> str:
        """The paths, for `print`."""
        orders = sorted({each.order for block in self.plan.blocks for each in block.filters})
        return f"|orders| {', '.join(map(str, orders))}"


def _stacked(kernels: list[Tensor]) -> Tensor:
    """Kernels concatenated along the outputs, with zeros for the inputs that narrow ones lack."""
    widest = max(kernel.shape[1] for kernel in kernels)
    pad = nn.functional.pad
    return torch.cat([pad(k, (0, 0, 0, 0, 0, widest - k.shape[1])) for k in kernels])
