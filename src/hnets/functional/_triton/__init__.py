"""The fused functions on CUDA, as Triton kernels: magnitudes, batch norm, pyramids and assembly.

Functions that `_cpu` has too have its names and results. Sums are taken block by block and then
added in a fixed order, so that the same inputs give the same bits.
"""

from __future__ import annotations

from hnets.functional._triton.assembly import assemble, assemble_backward
from hnets.functional._triton.magnitude import (
    backward,
    backward_batch,
    backward_sums,
    forward,
    magnitude,
    magnitude_backward,
    moments,
)
from hnets.functional._triton.pyramid import halve, spread
from hnets.functional._triton.statistics import fold, unfold
from hnets.functional._triton.tiles import memory_format

__all__ = [
    "assemble",
    "assemble_backward",
    "backward",
    "backward_batch",
    "backward_sums",
    "fold",
    "forward",
    "halve",
    "magnitude",
    "magnitude_backward",
    "memory_format",
    "moments",
    "spread",
    "unfold",
]
