"""HConv2d against a slow reference in complex numbers, its parameters, its kernels, its errors."""

import math
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import hnets
from hnets import Streams
from hnets import nn as hnn
from hnets.basis import Rings, harmonic_basis
from hnets.plan import Phase

EXACT = 1e-10


def randomised(layer: hnn.HConv2d) -> hnn.HConv2d:
    """In float64, with weights on every ring: the initial ones leave some rings at zero."""
    for values in layer.double().parameters():
        nn.init.normal_(values)
    return layer


# A slow reference --------------------------------------------------------------------------------


def to_complex(x: Tensor, streams: Streams) -> list[Tensor]:
    fields = []
    for stream, where in zip(streams, streams.slices, strict=True):
        part = x[:, where]
        re, im = (part, torch.zeros_like(part)) if stream.real else part.chunk(2, dim=1)
        fields.append(torch.complex(re, im))
    return fields


def from_complex(fields: list[Tensor], streams: Streams) -> Tensor:
    parts = []
    for field, stream in zip(fields, streams, strict=True):
        parts += [field.real] if stream.real else [field.real, field.imag]
    return torch.cat(parts, dim=1)


def correlate(field: Tensor, kernel: Tensor, layer: hnn.HConv2d) -> Tensor:
    """Σ over pixels of the kernel, one after the other, in complex numbers."""
    (down, across), mode = layer.padding, layer.padding_mode
    mode = "constant" if mode == "zeros" else mode
    parts = (
        functional.pad(p, (across, across, down, down), mode) for p in (field.real, field.imag)
    )
    field = torch.complex(*parts)
    height, width = (
        side - step * (layer.kernel_size - 1)
        for side, step in zip(field.shape[2:], layer.dilation, strict=True)
    )
    jump, leap = layer.stride
    total: Tensor | float = 0.0
    for i, j in product(range(layer.kernel_size), repeat=2):
        top, left = i * layer.dilation[0], j * layer.dilation[1]
        seen = field[:, :, top : top + height : jump, left : left + width : leap]
        total = total + torch.einsum("oi,bihw->bohw", kernel[:, :, i, j], seen)
    return total


def filters(layer: hnn.HConv2d) -> dict[tuple[int, int, bool], Tensor]:
    """The complex filter R(r)·exp(i(mφ+β)) of every path, by output, input and conjugate."""
    spec, plan, actual = layer.filters.spec, layer.filters.plan, {}
    number = row_start = 0
    for row in plan.rows:
        column_start = 0
        for block in row:
            radial, beta = (d.get(str(number)) for d in (layer.filters.radial, layer.filters.phase))
            for path in block.paths:
                used = block.filters[path.filter]
                weight = radial[..., used.columns].to(torch.complex128)
                if used.phased:
                    offsets = beta @ torch.tensor(block.spread)
                    weight = weight * torch.exp(1j * offsets[..., used.columns])
                harmonics = harmonic_basis(spec.kernel_size, used.order, spec.rings, spec.sigma)
                kernel = torch.einsum("oir,rxy->oixy", weight, torch.tensor(harmonics))
                kernel = kernel.conj() if path.order < 0 else kernel
                key = (row_start + path.target, column_start + path.source, path.conjugate)
                actual[key] = kernel
            number, column_start = number + 1, column_start + len(block.inputs)
        row_start += len(row[0].outputs)
    return actual


def reference(layer: hnn.HConv2d, x: Tensor) -> Tensor:
    """What the layer computes, path by path."""
    inputs, kernels = to_complex(x, layer.in_streams), filters(layer)
    out = layer.filters.out_streams
    responses = []  # by input stream, then output stream
    for source, field in enumerate(inputs):
        row = []
        for target, stream in enumerate(out):
            zero = field.new_zeros(stream.multiplicity, field.shape[1], *[layer.kernel_size] * 2)
            direct = correlate(field, kernels.get((target, source, False), zero), layer)
            mirror = correlate(field.conj(), kernels.get((target, source, True), zero), layer)
            response = direct + mirror
            row.append(response.real + 0j if stream.real else response)
        responses.append(row)
    if layer.combine == "stack":
        return from_complex([r for row in responses for r in row], layer.out_streams)
    stacked = [torch.stack(column) for column in zip(*responses, strict=True)]
    if layer.combine == "sum":
        return from_complex([s.sum(0) for s in stacked], out)
    winners = [s.abs().argmax(0, keepdim=True) for s in stacked]
    return from_complex([s.gather(0, w)[0] for s, w in zip(stacked, winners, strict=True)], out)


LAYOUTS = ["2x0r", "2x0", "1x0 + 1x1", "2x0r + 2x1 + 2x-2", "1x0 + 1x1 + 3x0 + 2x0r + 1x1"]


@settings(max_examples=60)
@given(
    into=st.sampled_from(LAYOUTS),
    out=st.sampled_from(LAYOUTS),
    size=st.integers(4, 7),
    rings=st.sampled_from(["exact", "gaussian"]),
    phase=st.sampled_from(["filter", "ring", "none"]),
    share=st.booleans(),
    conjugate=st.booleans(),
    combine=st.sampled_from(["sum", "stack", "max"]),
    stride=st.sampled_from([1, 2, (2, 1), (1, 3)]),
    dilation=st.sampled_from([1, 2, (1, 2)]),
    padding=st.sampled_from([0, 2, (1, 3)]),
    padding_mode=st.sampled_from(["zeros", "reflect"]),
)
def test_one_real_convolution_is_the_sum_over_paths(
    into: str, out: str, size: int, rings: Rings, **options: object
) -> None:
    layer = randomised(hnn.HConv2d(into, out, size, rings=rings, **options))
    x = torch.randn(2, layer.in_streams.channels, 13, 14, dtype=torch.float64)
    with torch.no_grad():
        actual, expected = layer(x), reference(layer, x)
    torch.testing.assert_close(actual, expected, rtol=EXACT, atol=EXACT)


POINTWISE = [
    ("4x0r + 4x1 + 4x2", "3x0r + 3x1 + 3x2"),
    ("2x0 + 2x1", "3x0 + 3x1"),
    ("2x1 + 2x0", "3x0 + 3x1"),
    ("2x0", "3x0r"),
    ("2x0r", "3x0"),
    ("2x0r + 2x1 + 3x2", "1x0r + 4x1 + 4x1 + 2x2"),
    ("2x0r + 2x1 + 3x0", "1x0r + 4x1 + 4x0"),
    ("2x0r + 2x1 + 2x-1", "2x0r + 2x-1 + 2x1"),
]


@settings(max_examples=40)
@given(
    streams=st.sampled_from(POINTWISE),
    phase=st.sampled_from(["filter", "ring", "none"]),
    share=st.booleans(),
    conjugate=st.booleans(),
    combine=st.sampled_from(["sum", "sum", "stack", "max"]),
    stride=st.sampled_from([1, 1, 2]),
    padding=st.sampled_from([0, 0, 1]),
    last=st.booleans(),
)
def test_a_1x1_kernel_is_the_sum_over_paths(
    streams: tuple[str, str], last: bool, **options: object
) -> None:
    layer = randomised(hnn.HConv2d(*streams, 1, **options))
    x = torch.randn(2, layer.in_streams.channels, 5, 6, dtype=torch.float64)
    if last:
        x = x.to(memory_format=torch.channels_last)
    expected = reference(layer, x)
    torch.testing.assert_close(layer(x), expected, rtol=EXACT, atol=EXACT)
    torch.testing.assert_close(hnets.freeze(layer)(x), expected, rtol=EXACT, atol=EXACT)


def test_the_reference_tells_a_changed_layer_from_its_own() -> None:
    layer = randomised(hnn.HConv2d("1x0 + 1x1", "1x0 + 1x1", 5))
    x = torch.randn(1, 4, 9, 9, dtype=torch.float64)
    with torch.no_grad():
        expected = reference(layer, x)
        for values in layer.parameters():
            values[0, 0, -1] += 0.1
            assert not torch.allclose(layer(x), expected, rtol=0, atol=1e-3)


# Kernels -----------------------------------------------------------------------------------------


def filter_between(layer: hnn.HConv2d, target: int, source: int) -> Tensor:
    """One path's complex filter, read from the assembled kernel, whose other half is checked."""
    block = layer.filters()[layer.out_streams.slices[target], layer.in_streams.slices[source]]
    (rr, ri), (ir, ii) = (half.chunk(2, dim=1) for half in block.chunk(2, dim=0))
    assert torch.equal(rr, ii)
    assert torch.equal(ri, -ir)
    return torch.complex(rr, ir)


@pytest.mark.parametrize("rings", ["exact", "gaussian"])
@pytest.mark.parametrize("phase", ["filter", "ring", "none"])
def test_filters_are_shared_by_order_and_conjugate_by_sign(phase: str, rings: Rings) -> None:
    orders = [-1, 0, 1, 2]
    text = " + ".join(f"2x{m}" for m in orders)
    layer = randomised(hnn.HConv2d(text, text, 6, phase=phase, rings=rings))
    seen: dict[int, Tensor] = {}
    with torch.no_grad():
        for (j, p), (i, n) in product(enumerate(orders), repeat=2):
            kernel = filter_between(layer, j, i)
            expected = seen.setdefault(p - n, kernel)
            torch.testing.assert_close(kernel, expected, rtol=0, atol=1e-14)
    for m in (1, 2, 3):
        torch.testing.assert_close(seen[-m], seen[m].conj(), rtol=0, atol=1e-14)
        assert seen[m].imag.abs().max() > 0.1


def test_unshared_filters_differ_path_by_path() -> None:
    layer = randomised(hnn.HConv2d("1x0 + 1x1", "1x0 + 1x1", 5, share=False))
    with torch.no_grad():
        same, other = filter_between(layer, 0, 0), filter_between(layer, 1, 1)
        up, down = filter_between(layer, 1, 0), filter_between(layer, 0, 1)
    assert (same - other).abs().max() > 0.1
    assert (up - down.conj()).abs().max() > 0.1


def test_a_repeated_order_has_its_own_filters() -> None:
    layer = randomised(hnn.HConv2d("1x0", "1x1 + 1x1", 5))
    with torch.no_grad():
        first, second = filter_between(layer, 0, 0), filter_between(layer, 1, 0)
    assert (first - second).abs().max() > 0.1


def test_filters_of_order_other_than_zero_vanish_at_the_centre() -> None:
    layer = randomised(hnn.HConv2d("2x0", "2x1", 5))
    assert not layer.filters()[:, :, 2, 2].any()


def test_real_inputs_and_outputs_halve_the_kernel() -> None:
    def size(into: str, out: str) -> int:
        return hnn.HConv2d(into, out, 5).filters().numel()

    full = size("8x0", "8x0 + 8x1")
    assert full == 4 * 8 * 16 * 25
    assert size("8x0r", "8x0 + 8x1") == full // 2
    assert size("8x0r", "16x0r") == full // 4


def test_making_a_layer_double_makes_it_exact() -> None:
    layer = hnn.HConv2d("1x0r", "2x1", 5)
    kernel = layer.double().filters()
    rotated = torch.rot90(kernel, 1, (2, 3))
    re, im = kernel.chunk(2)
    assert torch.cat([im, -re]).sub(rotated).abs().max() < 1e-15  # exp(−i·90°) times the filter


# Parameters --------------------------------------------------------------------------------------

BOTH = "8x0 + 8x1"
COUNTS = [
    (BOTH, BOTH, {}, 6 * 64 + 5 * 64, 64 + 64),
    (BOTH, BOTH, {"phase": "ring"}, 6 * 64 + 5 * 64, 6 * 64 + 5 * 64),
    (BOTH, BOTH, {"phase": "none"}, 6 * 64 + 5 * 64, 0),
    (BOTH, BOTH, {"share": False}, 2 * (6 * 64 + 5 * 64), 4 * 64),
    (BOTH, BOTH, {"combine": "stack"}, 6 * 64 + 5 * 64, 64 + 64),
    # 1 → 1 on the conjugate needs order 2, which one ring of 5×5 carries; 0 → 0, 0 → 1, 1 → 0.
    (BOTH, BOTH, {"conjugate": True}, (11 + 6 + 5 + 1) * 64, (2 + 3) * 64),
    (BOTH, BOTH, {"rings": "gaussian"}, (3 + 2) * 64, 2 * 64),
    ("3x0r", BOTH, {}, (6 + 5) * 24, 2 * 24),
    ("8x0r", "8x0r", {}, 6 * 64, 0),
    ("8x0r + 8x1", "8x0r + 8x1", {}, (6 + 6 + 5) * 64, 2 * 64),
    ("8x0 + 4x1", BOTH, {}, (6 + 5) * (64 + 32), 2 * (64 + 32)),
    ("8x0", "8x1 + 8x1", {}, 2 * 5 * 64, 2 * 64),
]


@pytest.mark.parametrize(("into", "out", "options", "radial", "phases"), COUNTS)
def test_counts_of_radial_weights_and_phases(
    into: str, out: str, options: dict[str, object], radial: int, phases: int
) -> None:
    layer = hnn.HConv2d(into, out, 5, **options)
    assert sum(p.numel() for p in layer.filters.radial.values()) == radial
    assert sum(p.numel() for p in layer.filters.phase.values()) == phases
    assert sum(p.numel() for p in layer.parameters()) == radial + phases


def test_only_learned_values_are_in_the_state_dict() -> None:
    layer = hnn.HConv2d(BOTH, BOTH, 5)
    assert set(layer.state_dict()) == {name for name, _ in layer.named_parameters()}


def test_phases_start_all_around_the_circle() -> None:
    phases = torch.cat([p.flatten() for p in hnn.HConv2d(BOTH, BOTH, 5).filters.phase.values()])
    assert 0 <= phases.min() < 0.5
    assert 2 * math.pi - 0.5 < phases.max() <= 2 * math.pi


def test_reset_parameters_draws_anew() -> None:
    layer = hnn.HConv2d(BOTH, BOTH, 5)
    before = layer.filters().detach()
    layer.reset_parameters()
    assert not torch.equal(layer.filters(), before)


def test_gradients_reach_every_parameter() -> None:
    layer = randomised(hnn.HConv2d("2x0r + 1x1", "1x0 + 1x1 + 2x2", 5, phase="ring"))
    layer(torch.randn(2, 4, 9, 9, dtype=torch.float64)).square().sum().backward()
    for name, values in layer.named_parameters():
        assert values.grad is not None, name
        assert values.grad.abs().min() > 0, name


def test_gradcheck() -> None:
    layer = randomised(hnn.HConv2d("1x0 + 1x1", "1x1 + 1x0r", 4, conjugate=True))
    x = torch.randn(1, 4, 5, 5, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def apply(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(apply, (x, *layer.parameters()))


# The whole space of equivariant kernels ----------------------------------------------------------


def dimension(layer: hnn.HConv2d) -> tuple[int, Tensor]:
    """How many directions the parameters can move the kernel in, and these directions."""
    layer = randomised(layer)
    values = dict(layer.filters.named_parameters())
    jacobian = torch.func.jacrev(
        lambda v: torch.func.functional_call(layer.filters, v, ()).flatten()
    )(values)
    directions = torch.cat([j.flatten(1) for j in jacobian.values()], dim=1).T
    return int(torch.linalg.matrix_rank(directions, rtol=1e-9)), directions


def rotation(order: int | None, theta: float) -> np.ndarray:
    """The real matrix by which a field rotates; None is a real field."""
    if order is None:
        return np.ones((1, 1))
    c, s = math.cos(order * theta), math.sin(order * theta)
    return np.array([[c, -s], [s, c]])


def conjugation(order: int | None) -> np.ndarray:
    """The real matrix of a reflection across the x axis; None is a real field."""
    return np.ones((1, 1)) if order is None else np.diag([1.0, -1.0])


def equivariant_kernels(
    n: int | None, p: int | None, size: int, rings: Rings, mirror: bool = False
) -> Tensor:
    """All equivariant kernels, by averaging any kernel over all rotations, and over reflections.

    Fourier series on a circle of 48 angles: a matrix of functions exp(ikφ), averaged as
    ∫ρ_p(θ)·K(φ−θ)·ρ_n(θ)⁻¹dθ, then put on the grid by the basis of each order that is left.
    """
    angles = 2 * math.pi * np.arange(48) / 48
    kernels = []
    shape = rotation(p, 0).shape[0], rotation(n, 0).shape[0]
    for k, unit in product(range(-8, 9), np.eye(math.prod(shape)).reshape(-1, *shape)):
        for start in (0, math.pi / 2):
            circle = np.mean(
                [
                    np.cos(k * (angles - t) + start)[:, None, None]
                    * (rotation(p, t) @ unit @ rotation(n, -t))
                    for t in angles
                ],
                axis=0,
            )
            if mirror:  # the value at −φ, seen in a mirror
                opposite = circle[-np.arange(len(angles))]
                circle = (circle + conjugation(p) @ opposite @ conjugation(n)) / 2
            series = np.fft.fft(circle, axis=0) / len(angles)
            for m in range(9):
                for harmonic in harmonic_basis(size, m, rings):
                    values = series[m][..., None, None] * harmonic
                    values = 2 * values.real if m else values.real
                    kernels.append(values.ravel())
    return torch.tensor(np.array(kernels))


@pytest.mark.parametrize(("size", "rings"), [(5, "exact"), (6, "gaussian")])
@pytest.mark.parametrize(
    ("n", "p"), [(None, None), (None, 1), (1, None), (0, 0), (1, 1), (1, 2), (2, -1), (-1, 1)]
)
def test_conjugate_unshared_spirals_are_all_equivariant_kernels(
    n: int | None, p: int | None, size: int, rings: Rings
) -> None:
    into, out = ("1x0r" if order is None else f"1x{order}" for order in (n, p))
    rank, ours = dimension(
        hnn.HConv2d(into, out, size, rings=rings, share=False, conjugate=True, phase="ring")
    )
    every = equivariant_kernels(n, p, size, rings)
    assert torch.linalg.matrix_rank(every, rtol=1e-9) == rank
    assert torch.linalg.matrix_rank(torch.cat([ours, every]), rtol=1e-9) == rank
    # Per ring that carries the order: 2 real values a filter, 1 between real fields.
    difference, total = abs((p or 0) - (n or 0)), abs((p or 0) + (n or 0))
    known = len(harmonic_basis(size, difference, rings)) * (1 if n is p is None else 2)
    if n is not None and p is not None:
        known += 2 * len(harmonic_basis(size, total, rings))
    assert rank == known


# Kernels from a field to another per ring that carries their order: the solution for O(2) in the
# appendix of Weiler and Cesa, "General E(2)-equivariant steerable CNNs" (2019). A complex order 0
# is the trivial representation and the sign; between these two there is no kernel.
PER_RING = {
    (None, None): {0: 1},
    (None, 0): {0: 1},
    (0, None): {0: 1},
    (0, 0): {0: 2},
    (None, 2): {2: 1},
    (1, None): {1: 1},
    (0, 1): {1: 2},
    (2, 0): {2: 2},
    (1, 1): {0: 1, 2: 1},
    (1, 2): {1: 1, 3: 1},
    (2, -1): {1: 1, 3: 1},
    (-1, 1): {0: 1, 2: 1},
    (1, 3): {2: 1, 4: 1},
}


@pytest.mark.parametrize(("size", "rings"), [(5, "exact"), (7, "gaussian"), (6, "gaussian")])
@pytest.mark.parametrize(("n", "p"), PER_RING)
def test_a_mirror_layer_has_all_kernels_that_commute_with_rotations_and_reflections(
    n: int | None, p: int | None, size: int, rings: Rings
) -> None:
    into, out = ("1x0r" if order is None else f"1x{order}" for order in (n, p))
    layer = hnn.HConv2d(into, out, size, rings=rings, mirror=True)
    rank, ours = dimension(layer)
    every = equivariant_kernels(n, p, size, rings, mirror=True)
    assert torch.linalg.matrix_rank(every, rtol=1e-9) == rank
    assert torch.linalg.matrix_rank(torch.cat([ours, every]), rtol=1e-9) == rank
    each = PER_RING[n, p].items()
    assert rank == sum(count * len(harmonic_basis(size, m, rings)) for m, count in each)
    assert rank == sum(values.numel() for values in layer.parameters())  # and no weight is idle


def test_a_mirror_layer_is_all_that_reflections_leave_of_the_layer_for_rotations() -> None:
    """Averaging the kernels for SO(2) on the grid itself, with neither Fourier series nor plan."""
    streams = Streams("1x0r + 1x0 + 1x1 + 1x2")
    _, rotating = dimension(
        hnn.HConv2d(streams, streams, 5, phase="free", share=False, conjugate=True)
    )
    rank, mirrored = dimension(hnn.HConv2d(streams, streams, 5, mirror=True))
    sign = streams.reflect(torch.ones(1, streams.channels, dtype=torch.float64))[0]
    kernels = rotating.unflatten(1, (streams.channels, streams.channels, 5, 5))
    reflected = sign[:, None, None, None] * kernels.flip(3) * sign[None, :, None, None]
    left = (rotating + reflected.flatten(1)) / 2
    assert torch.linalg.matrix_rank(left, rtol=1e-9) == rank
    assert torch.linalg.matrix_rank(torch.cat([left, mirrored]), rtol=1e-9) == rank


def test_mirror_resolves_the_options_and_leaves_explicit_ones() -> None:
    plain, mirror = hnn.HConv2d(BOTH, BOTH, 5), hnn.HConv2d(BOTH, BOTH, 5, mirror=True)
    specs = [layer.filters.spec for layer in (plain, mirror)]
    options = [(spec.phase, spec.share, spec.conjugate) for spec in specs]
    assert options == [("filter", True, False), ("none", False, True)]
    assert (plain.mirror, mirror.mirror) == (False, True)
    assert hnn.HConv2d("1x0r", "2x0r", 5).mirror  # a phase would have no effect
    assert not mirror.filters.phase
    paper = hnn.HConv2d(BOTH, BOTH, 5, mirror=True, phase="none", share=True, conjugate=False)
    assert paper.filters.spec == hnn.HConv2d(BOTH, BOTH, 5, phase="none").filters.spec
    assert paper.mirror


@pytest.mark.parametrize("phase", ["filter", "ring", "free"])
def test_a_phase_in_a_mirror_is_refused_with_the_reason(phase: Phase) -> None:
    with pytest.raises(ValueError, match=r'phase is "none", because .* got phase=') as error:
        hnn.HConv2d(BOTH, BOTH, 5, mirror=True, phase=phase)
    assert "set mirror=False" in str(error.value)


def test_every_option_of_the_complete_layer_is_needed() -> None:
    streams, full = "1x0r + 1x1", {"share": False, "conjugate": True, "phase": "ring"}
    whole, _ = dimension(hnn.HConv2d(streams, streams, 5, **full))
    for name, less in (("share", True), ("conjugate", False), ("phase", "filter")):
        part, _ = dimension(hnn.HConv2d(streams, streams, 5, **(full | {name: less})))
        assert part < whole, name


def test_the_complete_layer_has_every_harmonic_of_its_rings() -> None:
    """Every kernel that commutes with rotations by 90 degrees is reached.

    For SO(2) the kernels from order n to order p are, on each ring, of order p − n and p + n with
    any complex factor: 4 real numbers per ring, 2 if one side is real, 1 if both are.
    """
    orders = 3
    streams = Streams("1x0r + 1x1 + 1x2 + 1x3")
    conv = hnn.HConv2d(
        streams, streams, 7, rings="gaussian", phase="free", share=False, conjugate=True
    )
    rings = [len(harmonic_basis(7, m, "gaussian")) for m in range(2 * orders + 1)]
    expected = rings[0]
    expected += 2 * sum(2 * rings[k] for k in range(1, orders + 1))
    for p in range(1, orders + 1):
        for n in range(1, orders + 1):
            expected += 2 * rings[abs(p - n)] + 2 * rings[p + n]
    weights = conv.filters.radial["0"]
    assert weights.numel() == expected
    (assembly,) = (block.assembly for block in conv.filters.plan.blocks)
    assert np.linalg.matrix_rank(assembly) == expected  # and all of them are independent


def test_free_weights_are_the_filters_of_phases_per_ring() -> None:
    streams = "2x0r + 2x1"
    polar = hnn.HConv2d(streams, streams, 5, phase="ring", share=False).double()
    free = hnn.HConv2d(streams, streams, 5, phase="free", share=False).double()
    block = next(iter(free.filters.plan.blocks))
    start = 0
    with torch.no_grad():
        radial, beta = polar.filters.radial["0"], polar.filters.phase["0"]
        filters = next(iter(polar.filters.plan.blocks)).filters
        for mine, other in zip(filters, block.filters, strict=True):
            weights = radial[..., mine.columns]
            if mine.phased:
                width = weights.shape[-1]
                angle = beta[..., start : start + width]
                weights = torch.cat([weights * angle.cos(), weights * angle.sin()], dim=-1)
                start += width
            free.filters.radial["0"][..., other.columns] = weights
    x = torch.randn(1, 6, 9, 9).double()
    assert torch.allclose(free(x), polar(x))


# Combining ---------------------------------------------------------------------------------------


def test_stacking_keeps_one_copy_of_the_outputs_for_each_input() -> None:
    layer = hnn.HConv2d("2x0r + 2x1", "3x0 + 1x1", 5, combine="stack")
    assert layer.out_streams == Streams("3x0 + 1x1 + 3x0 + 1x1")
    summed = hnn.HConv2d("2x0r + 2x1", "3x0 + 1x1", 5)
    summed.load_state_dict(layer.state_dict())
    x = torch.randn(1, 6, 9, 9)
    first, second = layer(x).chunk(2, dim=1)
    torch.testing.assert_close(first + second, summed(x))
    torch.testing.assert_close(
        layer(x * torch.tensor([1, 1, 0, 0, 0, 0.0])[:, None, None])[:, 8:], 0 * second
    )


def test_max_keeps_whole_complex_numbers_of_largest_magnitude() -> None:
    layer = hnn.HConv2d("2x0 + 2x1", "2x1", 5, combine="max")
    stacked = hnn.HConv2d("2x0 + 2x1", "2x1", 5, combine="stack")
    stacked.load_state_dict(layer.state_dict())
    x = torch.randn(1, 8, 9, 9)
    paths = [torch.complex(*part.chunk(2, dim=1)) for part in stacked(x).chunk(2, dim=1)]
    expected = torch.where(paths[0].abs() >= paths[1].abs(), *paths)
    actual = torch.complex(*layer(x).chunk(2, dim=1))
    torch.testing.assert_close(actual, expected)
    assert {bool(b) for b in (paths[0].abs() > paths[1].abs()).flatten()} == {True, False}


# Groups ------------------------------------------------------------------------------------------


def without_groups(layer: hnn.HConv2d, options: dict[str, object]) -> hnn.HConv2d:
    """The layer with groups=1, and zeros between fields of different groups."""
    dense = hnn.HConv2d(layer.in_streams, layer.out_streams, layer.kernel_size, **options).double()
    groups = layer.filters.spec.groups
    state = layer.state_dict()
    for name, values in dense.named_parameters():
        own = state[name].unflatten(0, (groups, -1))  # (groups, out, in, columns)
        spread = torch.diag_embed(own.movedim(0, -1)).permute(3, 0, 4, 1, 2)
        values.data = spread.reshape(values.shape)
    return dense


GROUPED = ["4x0r", "4x0 + 4x1", "4x0r + 4x1 + 4x-2", "4x0r + 8x1", "8x0 + 4x1 + 4x2 + 8x0r"]


@settings(max_examples=30)
@given(
    into=st.sampled_from(GROUPED),
    out=st.sampled_from(GROUPED),
    groups=st.sampled_from([2, 4]),
    size=st.integers(4, 6),
    rings=st.sampled_from(["exact", "gaussian"]),
    phase=st.sampled_from(["filter", "ring", "free", "none"]),
    share=st.booleans(),
    conjugate=st.booleans(),
    stride=st.sampled_from([1, 2, (2, 1), (1, 3)]),
    dilation=st.sampled_from([1, 2, (1, 2)]),
    padding=st.sampled_from([0, 2, (1, 3)]),
    padding_mode=st.sampled_from(["zeros", "reflect"]),
)
def test_groups_are_zeros_between_fields(
    into: str, out: str, groups: int, size: int, **options: object
) -> None:
    layer = randomised(hnn.HConv2d(into, out, size, groups=groups, **options))
    dense = without_groups(layer, options)
    x = torch.randn(2, layer.in_streams.channels, 13, 14, dtype=torch.float64)
    with torch.no_grad():
        actual, expected, frozen = layer(x), dense(x), hnets.freeze(layer)(x)
    torch.testing.assert_close(actual, expected, rtol=EXACT, atol=EXACT)
    assert torch.equal(frozen, actual)
    grouped, full = (sum(p.numel() for p in net.parameters()) for net in (layer, dense))
    assert groups * grouped == full


def test_fields_of_different_groups_do_not_meet_and_orders_do() -> None:
    layer = randomised(hnn.HConv2d("4x0r + 4x1", "4x0r + 4x1", 5, groups=4))
    response = (
        hnets.functional.magnitude(
            layer(
                torch.eye(12).double().view(12, 12, 1, 1).expand(12, 12, 9, 9)
                * torch.rand(9, 9).double()
            ),
            layer.out_streams,
        ).amax((2, 3))
        > 0
    )
    field = torch.arange(12) % 4
    assert torch.equal(response, (field[:, None] == field[:8]).expand(12, 8))


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_radial_weights_are_those_of_one_group(groups: int) -> None:
    layer = hnn.HConv2d("8x0r + 8x1", "16x0r + 16x1", 5, groups=groups)
    assert layer.filters.radial["0"].shape[:2] == (16, 8 // groups)
    assert layer.filters().shape == (48, 24 // groups, 5, 5)
    assert f"groups={groups}" in repr(layer)


# Shapes and errors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (8, 12)),
        ({"padding": 2}, (12, 16)),
        ({"padding": "same"}, (12, 16)),
        ({"padding": (2, 0)}, (12, 12)),
        ({"padding": "same", "dilation": 2}, (12, 16)),
        ({"padding": "same", "stride": 2}, (6, 8)),
        ({"padding": "same", "padding_mode": "reflect"}, (12, 16)),
    ],
)
def test_output_shapes(options: dict[str, object], shape: tuple[int, int]) -> None:
    layer = hnn.HConv2d("3x0r", BOTH, 5, **options)
    assert layer(torch.zeros(2, 3, 12, 16)).shape == (2, 32, *shape)


def test_reflection_differs_from_zeros_at_the_border_alone() -> None:
    zeros = hnn.HConv2d("1x0r", "2x1", 5, padding="same")
    reflect = hnn.HConv2d("1x0r", "2x1", 5, padding="same", padding_mode="reflect")
    reflect.load_state_dict(zeros.state_dict())
    off = (zeros(torch.ones(1, 1, 9, 9)) - reflect(torch.ones(1, 1, 9, 9))).abs().amax((0, 1))
    assert off[2:-2, 2:-2].max() == 0
    assert off[0].max() > 0.01


@pytest.mark.parametrize(
    ("into", "out", "size", "rings"),
    [("1x0r", "1x2", 3, "exact"), ("1x0r", "1x4", 5, "gaussian"), ("1x-1", "1x2", 2, "exact")],
)
def test_an_empty_basis_names_the_kernel_size_that_would_do(
    into: str, out: str, size: int, rings: Rings
) -> None:
    with pytest.raises(ValueError, match="no filter joins stream") as error:
        hnn.HConv2d(into, out, size, rings=rings)
    message = str(error.value)
    assert f"{size}x{size} kernel" in message
    suggested = int(message.split("kernel_size=")[1].split()[0])
    assert size < suggested
    hnn.HConv2d(into, out, suggested, rings=rings)
    with pytest.raises(ValueError, match="no filter joins stream"):
        hnn.HConv2d(into, out, suggested - 2, rings=rings)


@pytest.mark.parametrize(
    ("into", "out", "options"),
    [
        ("1x0r", "1x3", {"rings": "gaussian", "sigma": 3.0}),
        ("1x4", "1x-2", {"conjugate": True}),
        ("1x3", "1x-3 + 1x0", {"conjugate": True, "rings": "gaussian"}),
    ],
)
def test_the_suggested_kernel_is_the_smallest_for_the_options_in_use(
    into: str, out: str, options: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="no filter joins stream") as error:
        hnn.HConv2d(into, out, 3, **options)
    suggested = int(str(error.value).split("kernel_size=")[1].split()[0])
    hnn.HConv2d(into, out, suggested, **options)
    for size in range(3, suggested, 2):
        with pytest.raises(ValueError, match="no filter joins stream"):
            hnn.HConv2d(into, out, size, **options)


@pytest.mark.parametrize("rings", ["exact", "gaussian"])
@pytest.mark.parametrize("order", ["90", "-1000"])
def test_an_order_beyond_every_kernel_says_to_use_lower_ones(order: str, rings: Rings) -> None:
    with pytest.raises(ValueError, match="use streams of lower orders"):
        hnn.HConv2d("1x0r", f"1x{order}", 5, rings=rings)


def test_a_path_that_no_ring_carries_is_left_out_and_the_others_stay() -> None:
    layer = randomised(hnn.HConv2d("1x0 + 1x1", "1x1 + 1x2", 3))
    x = torch.randn(1, 4, 9, 9, dtype=torch.float64)
    x[:, 2:] = 0
    y = layer(x)
    assert y[:, :2].abs().max() > 0
    assert not y[:, 2:].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": 0}, "kernel_size is a whole number from 1, got 0"),
        ({"kernel_size": 2.5}, "kernel_size is a whole number from 1, got 2.5"),
        ({"kernel_size": (5, 3)}, r"kernel_size is one number for both sides.* got \(5, 3\)"),
        ({"kernel_size": (5, 5, 5)}, r"kernel_size is a whole number from 1, got \(5, 5, 5\)"),
        ({"kernel_size": "five"}, "kernel_size is a whole number from 1, got 'five'"),
        ({"kernel_size": None}, "kernel_size is a whole number from 1, got None"),
        ({"stride": 0}, "stride is a whole number from 1 or a pair of them, got 0"),
        ({"stride": 2.0}, "stride is .* got 2.0"),
        ({"stride": (2, 0)}, r"stride is .* got \(2, 0\)"),
        ({"dilation": -1}, "dilation is .* got -1"),
        ({"padding": "full"}, 'padding is "same", "valid", a whole .* got \'full\''),
        ({"padding": -1}, "padding is .* got"),
        ({"padding": (1, 2, 3)}, r"padding is .* got \(1, 2, 3\)"),
        ({"padding": 1.5}, "padding is .* got 1.5"),
        ({"padding": (1, 1.5)}, r"padding is .* got \(1, 1.5\)"),
        ({"padding": None}, "padding is .* got None"),
        ({"kernel_size": 4, "padding": "same"}, 'padding="same" needs an odd kernel_size, got 4'),
        ({"bias": True}, "no bias, because a constant .* would not rotate with the image"),
        ({"bias": 1}, "bias is True or False"),
        ({"groups": 2}, "groups=2 has to divide the multiplicity of every stream.* of 1x0r in"),
        ({"groups": 0}, "groups is a whole number from 1, got 0"),
        ({"in_streams": "2x0r", "groups": 2, "combine": "max"}, 'groups=2 needs combine="sum"'),
        ({"padding_mode": "circular"}, "padding_mode is .* got 'circular'"),
        ({"rings": "square"}, "rings are .* got 'square'"),
        ({"phase": "spiral"}, "phase is .* got 'spiral'"),
        ({"mirror": "yes"}, "mirror is True or False"),
        ({"share": 1}, "share is True or False"),
        ({"combine": "mean"}, "combine is .* got 'mean'"),
        ({"sigma": 0.0, "rings": "gaussian"}, "sigma is a width in pixels above 0, got 0.0"),
        ({"in_streams": "8y0"}, 'cannot read streams from "8y0"'),
        ({"out_streams": None}, "got None"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, object], message: str) -> None:
    arguments = {"in_streams": "1x0r", "out_streams": "2x0 + 2x1", "kernel_size": 5} | options
    with pytest.raises(ValueError, match=message):
        hnn.HConv2d(**arguments)


def test_arguments_are_numbers_or_pairs_as_in_torch() -> None:
    torch.manual_seed(1)
    pairs = hnn.HConv2d(
        "1x0r", "2x1", (5, 5), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=1, bias=False
    )
    numbers = hnn.HConv2d("1x0r", "2x1", 5, stride=2, padding=1, dilation=2)
    numbers.load_state_dict(pairs.state_dict())
    x = torch.randn(1, 1, 14, 15)
    assert torch.equal(pairs(x), numbers(x))
    uneven = hnn.HConv2d("1x0r", "2x1", 5, stride=(2, 1), padding="same", dilation=(1, 2)).eval()
    assert uneven.padding == (2, 4)
    assert uneven(x).shape == (1, 4, 7, 15)
    torch.testing.assert_close(hnets.freeze(uneven)(x), uneven(x))
    assert hnets.export.program(uneven, (1, 1, 14, 15)).module()(x).shape == (1, 4, 7, 15)
    assert hnets.cost(uneven, (1, 14, 15)).multiplications == 25 * 4 * 7 * 15


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(1, 4, 9, 9), ValueError, r"expects 3x0r = 3 channels.*\(1, 4, 9, 9\)"),
        (torch.zeros(1, 3, 9), ValueError, r"\(batch, channels, height, width\), got \(1, 3, 9\)"),
        (torch.zeros(3, 9, 9), ValueError, r"\(batch, channels, height, width\), got \(3, 9, 9\)"),
        (torch.zeros(1, 3, 9, 9, dtype=torch.uint8), TypeError, "got torch.uint8"),
        (torch.zeros(1, 3, 9, 9, dtype=torch.cfloat), TypeError, "got torch.complex64"),
        (
            torch.zeros(1, 3, 9, 9).double(),
            TypeError,
            r"HConv2d has parameters of torch.float32 and got an input of torch.float64; convert "
            r"the input with x.to\(torch.float32\), or the layer with .to\(torch.float64\)",
        ),
        (torch.zeros(1, 3, 9, 9).half(), TypeError, "float32 and got an input of torch.float16"),
    ],
)
def test_bad_input_is_named(x: Tensor, error: type[Exception], message: str) -> None:
    layer = hnn.HConv2d("3x0r", "2x0 + 2x1", 5).eval()
    for module in (layer, hnets.freeze(layer)):
        with pytest.raises(error, match=message):
            module(x)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_autocast_takes_inputs_of_its_own_type(low: torch.dtype) -> None:
    layer = hnn.HConv2d("1x0r", "2x0 + 2x1", 5).eval()
    x = torch.randn(1, 1, 9, 9)
    with torch.autocast("cpu", low):
        for module in (layer, hnets.freeze(layer)):
            assert module(x).dtype == module(x.to(low)).dtype == low
            with pytest.raises(TypeError, match=r"got an input of torch.float64"):
                module(x.double())


def test_prints_its_arguments() -> None:
    text = repr(hnn.HConv2d("3x0r", BOTH, 5, stride=2))
    assert "3x0r -> 8x0 + 8x1, kernel_size=5, stride=(2, 2)" in text
    assert "dilation" not in text
    other = hnn.HConv2d("3x0r", BOTH, 5, padding="valid", dilation=2, phase="ring", share=False)
    assert "padding=(0, 0), rings='exact', dilation=(2, 2), phase='ring', share=False" in repr(
        other
    )
    assert "rings='gaussian', sigma=0.8" in repr(
        hnn.HConv2d("3x0r", BOTH, 5, rings="gaussian", sigma=0.8)
    )
    mirrored = repr(hnn.HConv2d("3x0r", BOTH, 5, mirror=True))
    assert "rings='exact', mirror=True\n" in mirrored


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 7), (2, 3), (3, 2)])
@pytest.mark.parametrize("kernel_size", [5, 7])
def test_a_kernel_may_be_larger_than_the_map(kernel_size: int, height: int, width: int) -> None:
    layer = hnn.HConv2d("8x0 + 8x1", "8x0 + 8x1", kernel_size, padding="same").double()
    x = torch.randn(2, 32, height, width, dtype=torch.float64, requires_grad=True)
    kernel = layer.filters()
    plain = torch.nn.functional.conv2d(x, kernel, padding=kernel_size // 2)
    leaves, grad = [x, *layer.parameters()], torch.randn_like(plain)
    torch.testing.assert_close(layer(x), plain)
    torch.testing.assert_close(
        torch.autograd.grad(layer(x), leaves, grad), torch.autograd.grad(plain, leaves, grad)
    )


@pytest.mark.parametrize("autocast", [True, False])
@pytest.mark.parametrize("options", [{"kernel_size": 5}, {"kernel_size": 3, "stride": 2}])
def test_gradients_of_a_kernel_on_a_small_map_in_bfloat16(
    options: dict[str, int], autocast: bool
) -> None:
    """OneDNN leaves that of what meets no pixel uninitialised: often it is NaN, as here."""
    padding = options["kernel_size"] // 2
    layer = hnn.HConv2d("60x0 + 60x1", "60x0 + 60x1", padding=padding, **options)
    x, grads = torch.randn(4, 240, 1, 1), []
    for half in (False, True):
        dirty = [torch.full((size,), torch.nan) for size in (10**4, 10**5, 10**6) for _ in range(5)]
        del dirty
        if half and not autocast:
            layer, x = layer.bfloat16(), x.bfloat16()
        with torch.autocast("cpu", torch.bfloat16, enabled=half and autocast):
            y = layer(x)
        assert y.dtype == (torch.bfloat16 if half else torch.float32)
        grads.append(torch.autograd.grad(y.float().square().sum(), layer.parameters()))
    for rounded, exact in zip(*reversed(grads), strict=True):
        assert (rounded - exact).norm() < 0.02 * exact.norm()


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("side", [2, 8])
def test_autocast_leaves_float64_alone(side: int, groups: int) -> None:
    layer = hnn.HConv2d("16x0 + 16x1", "16x0 + 16x1", 5, padding=2, groups=groups).double()
    x = torch.randn(1, 64, side, side, dtype=torch.float64)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(layer(x), layer(x).double())
        assert layer(x).dtype == torch.float64
