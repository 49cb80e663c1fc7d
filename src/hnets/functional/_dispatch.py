"""Which form of an operation a tensor takes: the one place that chooses.

Each operation is a folder with a ``reference`` in plain torch, which serves everywhere, and with
faster forms of the same functions for eager mode: ``cpu``, and ``triton`` for CUDA.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVarTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.jit import is_tracing  # type: ignore[attr-defined]

from hnets.functional import _batch_norm

_TRITON = find_spec("triton") is not None
INTERPRETED = False
"""Whether CPU tensors take the Triton forms too: tests set it where Triton's interpreter runs."""
_PLAIN = (Tensor, nn.Parameter)
Layout = TypeVarTuple("Layout")


class Backend(Protocol[*Layout]):
    """A ReLU with a scale and a shift per field, and its batch norm, on one kind of device.

    ``layout`` is what else a function needs to know of its input, ``(batch, channels, h, w)``.
    Sums come as ``(pieces, 2, fields)`` in float64, which are still to be added up.
    """

    def forward(
        self, x: Tensor, scale: Tensor | None, shift: Tensor, /, *layout: *Layout
    ) -> Tensor:
        """The rectified map; a scale of None is 1."""

    def backward(
        self, grad: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor, /, *layout: *Layout
    ) -> tuple[Tensor, Tensor]:
        """∂x, and the sums ∂scale and ∂shift."""

    def moments(self, x: Tensor, /, *layout: *Layout) -> Tensor:
        """Sums Σv and Σv² of the values v that batch norm normalises."""

    def backward_sums(
        self, grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, /, *layout: *Layout
    ) -> tuple[Tensor, Any]:
        """The sums ∂scale and ∂shift, and intermediate results for `backward_batch`."""

    def backward_batch(
        self,
        grad: Tensor,
        x: Tensor,
        scale: Tensor,
        shift: Tensor,
        extra: Sequence[Tensor],
        intermediate: Any,
        /,
        *layout: *Layout,
    ) -> Tensor:
        """∂x of batch norm; ``extra`` is its c₁ and c₂ per field."""


def tracing() -> bool:
    """Whether operations are recorded for a compiled or exported graph."""
    return torch.compiler.is_compiling() or is_tracing()


def exporting() -> bool:
    """Whether operations are recorded for an exported graph, which has none of our own.

    By ``torch.export`` or by ``torch.jit.trace``, as TensorBoard's ``add_graph`` does.
    """
    # The function is_exporting is always true where torch 2.11 compiles.
    return torch.compiler._is_exporting_flag or is_tracing()


def transformed() -> bool:
    """Whether a graph, a function transform or forward-mode AD asks for plain operations."""
    return tracing() or differentiated()


def differentiated() -> bool:
    """Whether a function transform or forward-mode AD is at work."""
    # No autograd function here has a formula for tangents, hence the second.
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def needs_reference(x: Tensor) -> bool:
    """Whether a map has no other form here than the reference."""
    if transformed() or x.numel() == 0 or x.dim() != 4 or not is_plain(x):
        return True
    return x.device.type != "cpu" and not has_triton(x)


def is_plain(x: Tensor) -> bool:
    """Whether a tensor is its memory: a FakeTensor has none, a DTensor only a part."""
    return type(x) in _PLAIN


def has_triton(x: Tensor) -> bool:
    """Whether a tensor takes Triton forms: it is on CUDA, and Triton is installed."""
    return (x.is_cuda or INTERPRETED) and _TRITON


def autocast_device(x: Tensor) -> str:
    """The type of device whose autocast applies to a tensor, for ``torch.autocast``."""
    # None applies on the meta device, for which torch.autocast raises an error.
    return "cpu" if x.is_meta else x.device.type


def autocast_rounds(x: Tensor) -> bool:
    """Whether autocast rounds a map; one of float64 it leaves alone."""
    return torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64


def backend(operation: str, x: Tensor) -> Any:
    """The module of an operation for the device of a tensor."""
    return _module(operation, has_triton(x))


def batch_norm_backend(x: Tensor, group: ProcessGroup | None) -> Any:
    """The module with ``fold`` and its gradient; in Triton only for the sums of one process."""
    if group is not None or not has_triton(x):
        return _batch_norm
    from hnets.functional import _launch

    return _launch


@cache
def _module(operation: str, triton: bool) -> Any:
    # Triton comes with torch for CUDA only, so its modules are imported when they are needed.
    return import_module(f"hnets.functional.{operation}.{'triton' if triton else 'cpu'}")


if TYPE_CHECKING:  # mypy holds these modules to the protocol
    from torch.distributed import ProcessGroup

    from hnets.functional.fourier import cpu as fourier_cpu
    from hnets.functional.fourier import triton as fourier_triton
    from hnets.functional.magnitudes import cpu as magnitudes_cpu
    from hnets.functional.magnitudes import triton as magnitudes_triton
    from hnets.streams import Streams

    _of_magnitudes: tuple[Backend[Streams, float], ...] = (magnitudes_cpu, magnitudes_triton)
    _of_angles: tuple[Backend[Tensor], ...] = (fourier_cpu, fourier_triton)
