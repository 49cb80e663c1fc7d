"""The plan of a convolution: which filter joins which streams, and which paths share one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hnets import Stream, Streams
from hnets.basis import harmonic_basis
from hnets.plan import Block, KernelSpec, make_plan

stream = st.builds(Stream, st.integers(-2, 2), st.integers(1, 2)) | st.builds(
    Stream, st.just(0), st.integers(1, 2), st.just(True)
)
layout = st.lists(stream, min_size=1, max_size=4).map(Streams)
# Every order up to 4 has a ring in this kernel.
specs = st.builds(
    KernelSpec,
    st.just(8),
    rings=st.sampled_from(["exact", "gaussian"]),
    phase=st.sampled_from(["filter", "ring", "none"]),
    share=st.booleans(),
    conjugate=st.booleans(),
)


def only_block(inputs: str, outputs: str, spec: KernelSpec) -> Block:
    (block,) = make_plan(Streams(inputs), Streams(outputs), spec).blocks
    return block


@settings(max_examples=40)
@given(layout, layout, specs)
def test_every_pair_of_streams_is_a_path_of_their_difference(
    inputs: Streams, outputs: Streams, spec: KernelSpec
) -> None:
    made = make_plan(inputs, outputs, spec)
    pairs = set()
    for i, row in enumerate(made.rows):
        for j, block in enumerate(row):
            for path in block.paths:
                out, into = block.outputs[path.target], block.inputs[path.source]
                sign = -1 if path.conjugate else 1
                assert path.order == out.order - sign * into.order
                assert block.filters[path.filter].order == abs(path.order)
                assert not (path.conjugate and (out.real or into.real))
                pairs.add((i, path.target, j, path.source, path.conjugate))
    complex_pairs = sum(not (o.real or i.real) for o in outputs for i in inputs)
    assert len(pairs) == len(inputs) * len(outputs) + complex_pairs * spec.conjugate


@settings(max_examples=40)
@given(layout, layout, specs)
def test_columns_of_filters_tile_the_weights_phased_ones_first(
    inputs: Streams, outputs: Streams, spec: KernelSpec
) -> None:
    for block in make_plan(inputs, outputs, spec).blocks:
        columns = [c for f in block.filters for c in range(f.columns.start, f.columns.stop)]
        assert columns == list(range(block.columns))
        phased = [f.phased for f in block.filters]
        assert phased == sorted(phased, reverse=True)
        for f in block.filters:
            rings = harmonic_basis(spec.kernel_size, f.order, spec.rings, spec.sigma)
            assert f.columns.stop - f.columns.start == len(rings)
        for path in block.paths:
            real = block.outputs[path.target].real and block.inputs[path.source].real
            used = block.filters[path.filter]
            assert used.phased == (spec.phase != "none" and not real)


def test_shared_filters_differ_by_order_alone() -> None:
    block = only_block("4x0 + 4x1 + 4x2", "4x0 + 4x1", KernelSpec(5))
    used = {(path.target, path.source): path.filter for path in block.paths}
    assert used[0, 0] == used[1, 1]
    assert used[1, 0] == used[0, 1] == used[1, 2]
    assert used[0, 2] not in (used[0, 0], used[1, 0])
    assert [f.order for f in block.filters] == [0, 1, 2]


def test_unshared_filters_are_one_a_path() -> None:
    block = only_block("4x0 + 4x1", "4x0 + 4x1", KernelSpec(5, share=False, conjugate=True))
    assert len({path.filter for path in block.paths}) == len(block.paths) == 8


def test_conjugate_paths_have_filters_of_their_own() -> None:
    block = only_block("4x1", "4x1", KernelSpec(5, conjugate=True))
    (direct,) = (path for path in block.paths if not path.conjugate)
    (mirror,) = (path for path in block.paths if path.conjugate)
    assert (direct.order, mirror.order) == (0, 2)
    assert direct.filter != mirror.filter


def test_a_repeated_order_is_a_second_set_of_streams() -> None:
    block = only_block("4x0 + 4x0", "4x0", KernelSpec(5))
    assert len(block.filters) == 2


def test_streams_of_one_width_form_one_block() -> None:
    assert (
        len(list(make_plan(Streams("8x0 + 8x1"), Streams("4x0 + 4x1"), KernelSpec(5)).blocks)) == 1
    )
    rows = make_plan(Streams("8x0 + 4x1 + 4x2"), Streams("4x0 + 2x1"), KernelSpec(5)).rows
    assert [[str(b.inputs) for b in row] for row in rows] == [["8x0", "4x1 + 4x2"]] * 2
    assert [str(row[0].outputs) for row in rows] == ["4x0", "2x1"]


def test_a_path_without_a_ring_is_left_out() -> None:
    block = only_block("4x0 + 4x1", "4x1 + 4x2", KernelSpec(3))
    assert {(path.target, path.source) for path in block.paths} == {(0, 0), (0, 1), (1, 1)}


@pytest.mark.parametrize(("inputs", "outputs"), [("1x0", "1x0 + 1x2"), ("1x0 + 1x2", "1x0")])
def test_a_stream_without_any_path_is_an_error(inputs: str, outputs: str) -> None:
    with pytest.raises(ValueError, match=r"no filter joins stream 1x2 to 1x0.*kernel_size=5"):
        make_plan(Streams(inputs), Streams(outputs), KernelSpec(3))


def test_plans_are_cached() -> None:
    first = make_plan(Streams("8x0"), Streams("8x1"), KernelSpec(5))
    assert make_plan(Streams("8x0"), Streams("8x1"), KernelSpec(5)) is first


def test_a_phase_per_filter_spreads_over_its_rings() -> None:
    block = only_block("4x0 + 4x1", "4x0 + 4x1", KernelSpec(5))
    assert np.array_equal(block.spread, [[1] * 6 + [0] * 5, [0] * 6 + [1] * 5])
    ring = only_block("4x0 + 4x1", "4x0 + 4x1", KernelSpec(5, phase="ring"))
    assert np.array_equal(ring.spread, np.eye(11))


def test_an_unknown_phase_is_named() -> None:
    with pytest.raises(
        ValueError, match='phase is "filter", "ring", "free" or "none", got \'spiral\''
    ):
        KernelSpec(5, phase="spiral")
