"""The harmonic convolution: every path between streams in one real convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.basis import Rings
from hnets.nn._base import flag, floating, pair, square, whole, width
from hnets.nn.kernel import HarmonicFilters
from hnets.plan import Combine, KernelSpec, Phase
from hnets.streams import Streams, StreamsLike


def all_kernels(mirror: bool) -> dict[str, Any]:
    """The options of `HConv2d` for all equivariant kernels, with no more multiplications."""
    return {"mirror": True} if mirror else {"phase": "free", "share": False, "conjugate": True}


class HConv2d(nn.Module):
    """Cross-correlation with circular harmonics: ``Y_p = Σ_n W_{p−n} ⋆ F_n``.

    When the input is rotated by θ, an output stream of order p is multiplied by exp(ipθ). The
    learned values are the radial profiles R and phase offsets β of filters ``R(r)·exp(i(mφ+β))``; a
    phase acts on order m = 0 too, as a full rotation of a complex input.

    >>> conv = HConv2d("3x0r", "8x0 + 8x1", kernel_size=5)
    >>> conv(torch.randn(2, 3, 32, 32)).shape          # 8 + 8 complex channels: 32 real ones
    torch.Size([2, 32, 28, 28])

    Args:
        in_streams: layout of the input, such as ``"8x0 + 8x1"``.
        out_streams: layout of the output.
        kernel_size: pixels along a side, odd or even. An even kernel has its centre of equivariance
            between pixels.
        stride: keeps every ``stride``-th centre of equivariance; a number, or a pair for height and
            width. Rotations by 90 degrees stay exact only if
            ``size + 2·padding − dilation·(kernel_size − 1) − 1`` is a multiple of it. With two
            unequal numbers the layer is equivariant to rotations by 180 degrees only.
        padding: pixels added on each side: a number, a pair, ``"same"`` or ``"valid"`` (none).
        dilation: distance between the pixels of the kernel: a number, or a pair. Unequal ones
            stretch the filters, which are then equivariant to rotations by 180 degrees only.
        groups: number of groups, as in a grouped convolution: the fields of every stream are
            divided into so many equal groups, and group j of the output depends on group j of the
            input alone. With one field per group and stream the convolution is depthwise, but
            still mixes orders. Only with ``combine="sum"``.
        bias: False; a constant would not rotate with the image in orders other than 0. The bias of
            a layer is in the `HBatchNorm2d` or `ModReLU` after it.
        padding_mode: ``"zeros"`` or ``"reflect"``.
        rings: ``"exact"`` (one weight per distinct pixel distance: the paper's count) or
            ``"gaussian"`` (rings at whole pixels, resampled). See `hnets.basis`.
        sigma: width of the Gaussian of ``"gaussian"`` rings, in pixels.
        mirror: also commute with reflections, as `hnets.Streams.reflect` says: for images whose
            mirror image means the same. Then weights are real (``phase="none"``), and ``share``
            and ``conjugate`` default to all such kernels.
        phase: an offset per ``"filter"`` (the paper; the default), per ``"ring"`` (spirals) or
            ``"none"``. ``"free"`` has the filters of ``"ring"`` with complex weights in place of R
            and β. With ``mirror`` it is ``"none"``: a phase says which way round a filter runs.
        share: whether paths of equal |p − n| use the same filter, with W_{−m} = conj(W_m), as in
            the paper (the default without ``mirror``); else one filter per path. Sharing is among
            neighbouring streams of equal multiplicity.
        conjugate: also add paths of order p + n that act on the conjugate of the input (the default
            with ``mirror``). With ``share=False`` they complete the space of equivariant kernels:
            that of rotations if phases are per ring (or free), that of rotations and reflections
            with ``mirror``.
        combine: how responses that converge on an output stream are combined: their ``"sum"`` (the
            paper), a ``"stack"`` (the attribute ``out_streams`` then has one copy of the outputs
            per input stream), or the one of largest magnitude (``"max"``).
    """

    def __init__(
        self,
        in_streams: StreamsLike,
        out_streams: StreamsLike,
        kernel_size: int | tuple[int, int],
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | Literal["same", "valid"] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = False,
        padding_mode: Literal["zeros", "reflect"] = "zeros",
        rings: Rings = "exact",
        sigma: float = 0.6,
        mirror: bool = False,
        phase: Phase | None = None,
        share: bool | None = None,
        conjugate: bool | None = None,
        combine: Combine = "sum",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if flag(bias, "bias"):
            raise ValueError(
                "HConv2d has no bias, because a constant in an order other than 0 would not rotate "
                "with the image; the HBatchNorm2d or ModReLU after it has one per field"
            )
        floating(dtype)
        self.kernel_size = square(kernel_size, "kernel_size")
        self.stride, self.dilation = pair(stride, "stride"), pair(dilation, "dilation")
        if combine not in ("sum", "stack", "max"):
            raise ValueError(f'combine is "sum", "stack" or "max", got {combine!r}')
        if whole(groups, "groups") > 1 and combine != "sum":
            raise ValueError(f'groups={groups} needs combine="sum", got {combine!r}')
        if padding_mode not in ("zeros", "reflect"):
            raise ValueError(f'padding_mode is "zeros" or "reflect", got {padding_mode!r}')
        self.in_streams, out = Streams(in_streams), Streams(out_streams)
        self.out_streams = out * (len(self.in_streams) if combine == "stack" else 1)
        self.padding = _pixels(padding, self.kernel_size, self.dilation)
        self.padding_mode, self.combine = padding_mode, combine
        if flag(mirror, "mirror") and phase not in (None, "none"):
            raise ValueError(
                'with mirror=True phase is "none", because a phase changes its sign in a mirror; '
                f"leave it out or set mirror=False, got phase={phase!r}"
            )
        if phase is None:
            phase = "none" if mirror else "filter"
        share = not mirror if share is None else flag(share, "share")
        conjugate = mirror if conjugate is None else flag(conjugate, "conjugate")
        sigma = width(sigma, "sigma", most=10)  # with more, rounding errors are all that is left
        spec = KernelSpec(self.kernel_size, rings, sigma, phase, share, conjugate, groups)
        self.filters = HarmonicFilters(self.in_streams, out, spec, combine, device, dtype)

    @property
    def mirror(self) -> bool:
        """Whether the layer commutes with reflections: without phases, or between real streams."""
        real = all(stream.real for stream in (*self.in_streams, *self.out_streams))
        return real or self.filters.spec.mirror

    def forward(self, x: Tensor) -> Tensor:
        """Convolve ``(batch, in channels, height, width)``."""
        return _respond(self, x, self.filters())

    def reset_parameters(self) -> None:
        """Draw new filters."""
        self.filters.reset_parameters()

    def extra_repr(self) -> str:
        """The arguments, for `print`; as in torch, those with a default only where they differ."""
        spec = self.filters.spec
        text = (
            f"{self.in_streams} -> {self.out_streams}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, rings={spec.rings!r}"
        )
        mirror = spec.mirror and spec.conjugate and not spec.share  # what mirror=True alone gives
        for name, value, default in (
            ("sigma", spec.sigma, 0.6),
            ("dilation", self.dilation, (1, 1)),
            ("padding_mode", self.padding_mode, "zeros"),
            ("mirror", mirror, False),
            ("phase", spec.phase, "none" if mirror else "filter"),
            ("share", spec.share, not mirror),
            ("conjugate", spec.conjugate, mirror),
            ("combine", self.combine, "sum"),
            ("groups", spec.groups, 1),
        ):
            if value != default:
                text += f", {name}={value!r}"
        return text


def _pixels(padding: Any, kernel_size: int, dilation: tuple[int, int]) -> tuple[int, int]:
    """The pixels above and below, and at the left and right, of an argument ``padding``."""
    if padding != "same":
        pixels = 0 if padding == "valid" else padding
        return pair(pixels, "padding", least=0, other='"same", "valid", ')
    reach = [step * (kernel_size - 1) for step in dilation]
    if any(each % 2 for each in reach):
        raise ValueError(
            f'padding="same" needs an odd kernel_size, got {kernel_size}: an even one would shift '
            "the centres of equivariance by half a pixel; give the padding as a number"
        )
    return reach[0] // 2, reach[1] // 2


class FrozenHConv2d(nn.Conv2d):
    """An `HConv2d` whose kernel is assembled once: a plain convolution, for inference.

    It keeps the harmonic filters beside the kernel, so that its state dict is that of the layer it
    was made from, and assembles the kernel again when another one is loaded.
    """

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def __init__(self, layer: HConv2d) -> None:
        with torch.no_grad():
            kernel = layer.filters()
        segments = layer.filters.segments
        groups = max(layer.filters.spec.groups, segments[0].groups if len(segments) == 1 else 1)
        super().__init__(
            layer.in_streams.channels,
            len(kernel),
            layer.kernel_size,
            layer.stride,
            layer.padding,
            layer.dilation,
            groups,
            bias=False,
            padding_mode=layer.padding_mode,
            device="meta",
        )
        del self.weight
        self.register_buffer("weight", kernel.contiguous(), persistent=False)
        self.filters = layer.filters
        self.in_streams, self.out_streams = layer.in_streams, layer.out_streams
        self.combine = layer.combine
        # A small image takes mostly Python's time, so this is decided once.
        self._plain = len(segments) == groups == 1 and self.padding_mode == "zeros"
        self._plain &= self.combine != "max"
        self.requires_grad_(False).train(layer.training)
        self.register_load_state_dict_post_hook(_assemble)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve ``(batch, in channels, height, width)``."""
        weight = self.weight
        if not self._plain:
            return _respond(self, x, weight)
        self.in_streams.check(x, "HConv2d", image=True, dtype=weight.dtype)
        return F.hconv2d(x, weight, self.stride, self.padding, self.dilation)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.weight.dtype
        super()._apply(fn, recurse)
        if self.weight.dtype.itemsize > before.itemsize:
            _assemble(self)  # with all digits of the new type
        return self


def _assemble(layer: FrozenHConv2d, _: object = None) -> None:
    with torch.no_grad():
        kernel = layer.filters()
        if (kernel.device, kernel.dtype) == (layer.weight.device, layer.weight.dtype):
            layer.weight.copy_(kernel)
        else:  # loaded with assign=True
            layer.weight = kernel


def _respond(layer: HConv2d | FrozenHConv2d, x: Tensor, kernel: Tensor) -> Tensor:
    """What a layer computes with an assembled kernel."""
    layer.in_streams.check(x, "HConv2d", image=True, dtype=kernel.dtype)
    padding, groups = layer.padding, layer.filters.spec.groups
    if layer.padding_mode == "reflect":
        x = nn.functional.pad(x, (padding[1], padding[1], padding[0], padding[0]), mode="reflect")
        padding = (0, 0)
    geometry = (layer.stride, padding, layer.dilation)
    if groups > 1:
        return F.stream_conv2d(x, kernel, groups, (layer.in_streams, layer.out_streams), *geometry)
    response = F.hconv2d(x, kernel, *geometry, layer.filters.segments)
    if layer.combine != "max":
        return response
    return F.largest(response.chunk(len(layer.in_streams), dim=1), layer.out_streams)
