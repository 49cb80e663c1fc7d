"""Frozen networks and what is made of them give the numbers of the network that was trained."""

import copy
import logging
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

import hnets
from hnets import nn as hnn
from hnets.nn.conv import FrozenHConv2d
from hnets.nn.norm import FrozenHBatchNorm2d
from networks import digits, every_layer, example, lively, relative

ROUNDING = 1e-5
"""Relative distance that float32 rounding explains."""

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "example": (example, (2, 3, 16, 20)),
    "digits": (digits, (2, 1, 28, 28)),
    "every layer": (every_layer, (2, 2, 16, 20)),
}
networks = pytest.mark.parametrize(("build", "shape"), NETWORKS.values(), ids=NETWORKS)


def outputs(net: Callable[[Tensor], Tensor | Sequence[Tensor]], x: Tensor) -> list[Tensor]:
    y = net(x)
    return [y] if isinstance(y, Tensor) else list(y)


def assert_same(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert a.shape == b.shape
        assert relative(a, b) < ROUNDING


# Freezing -----------------------------------------------------------------------------------------


@networks
def test_frozen_networks_give_the_same_outputs(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    net, x = build(), torch.randn(shape)
    frozen = hnets.freeze(net)
    assert_same(outputs(frozen, x), outputs(net.eval(), x))


def test_running_statistics_matter_here() -> None:
    """What the test above stands on: its networks are not at the start, where norms do nothing."""
    net, x = example().eval(), torch.randn(2, 3, 16, 20)
    before = net(x)
    net[3].reset_running_stats()
    assert relative(net(x), before) > 0.05


@networks
def test_frozen_networks_hold_plain_convolutions(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    net = build()
    frozen = hnets.freeze(net)
    kinds = {type(m) for m in frozen.modules()}
    assert not kinds & {hnn.HConv2d, hnn.HBatchNorm2d}
    convolutions = [m for m in frozen.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == sum(isinstance(m, hnn.HConv2d) for m in net.modules())
    for convolution in convolutions:
        if len(convolution.filters.segments) > 1 or convolution.filters.spec.groups > 1:
            continue  # one convolution per segment, or between two permutations of channels
        x = torch.randn(1, convolution.in_channels, 9, 11)
        plain = nn.Conv2d.forward(convolution, x)
        assert plain.shape[1] == convolution.out_channels
        if convolution.combine != "max":
            torch.testing.assert_close(plain, convolution(x))


def test_freezing_leaves_the_original_alone() -> None:
    net, x = example(), torch.randn(2, 3, 16, 16)
    state, generator = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    frozen = hnets.freeze(net)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(m.training for m in net.modules())
    assert not any(m.training for m in frozen.modules())
    assert all(p.requires_grad for p in net.parameters())
    assert not any(p.requires_grad for p in frozen.parameters())
    before = frozen(x)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x).square().mean().backward()
    optimiser.step()
    assert any(not torch.equal(net.state_dict()[name], state[name]) for name in state)
    assert torch.equal(frozen(x), before)


def test_freezing_twice_is_freezing_once() -> None:
    frozen, x = hnets.freeze(example()), torch.randn(2, 3, 16, 16)
    assert torch.equal(hnets.freeze(frozen)(x), frozen(x))


def test_single_layers_freeze() -> None:
    assert isinstance(hnets.freeze(hnn.HConv2d("1x0r", "1x1", 3)), FrozenHConv2d)
    assert isinstance(hnets.freeze(hnn.HBatchNorm2d("1x1")), FrozenHBatchNorm2d)


def test_a_layer_used_twice_stays_shared() -> None:
    conv = hnn.HConv2d("2x0 + 2x1", "2x0 + 2x1", 3)
    net = nn.ModuleDict({"a": nn.Sequential(conv), "b": conv, "c": conv, "none": None})
    frozen = hnets.freeze(net)
    assert isinstance(frozen["b"], FrozenHConv2d)
    assert frozen["a"][0] is frozen["b"] is frozen["c"]


class Doubled(hnn.HConv2d):
    """A user's own layer, which computes something else."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def test_subclasses_keep_their_own_forward() -> None:
    layer, x = Doubled("1x0r", "1x1", 3), torch.randn(1, 1, 8, 8)
    assert torch.equal(hnets.freeze(nn.Sequential(layer))(x), layer(x))


def test_frozen_networks_follow_the_state_dict_they_load() -> None:
    first, second = example().eval(), example().eval()
    x = torch.randn(2, 3, 16, 16)
    assert relative(first(x), second(x)) > 0.1
    frozen = hnets.freeze(first)
    assert list(frozen.state_dict()) == list(first.state_dict())
    frozen.load_state_dict(second.state_dict())
    assert_same([frozen(x)], [second(x)])


def test_frozen_networks_are_as_exact_in_float64() -> None:
    net, x = example().eval(), torch.randn(2, 3, 16, 16, dtype=torch.float64)
    frozen = hnets.freeze(net).double()
    assert relative(frozen(x), net.double()(x)) < 1e-14
    hnets.testing.assert_equivariant(hnets.freeze(every_layer().body[0]))


def test_frozen_networks_in_half_precision_round_the_kernel_once() -> None:
    conv = hnn.HConv2d("4x0 + 4x1", "4x0 + 4x1", 5)
    kernel = hnets.freeze(conv).bfloat16().weight
    assert torch.equal(kernel, conv.filters().bfloat16())


# torch.export -------------------------------------------------------------------------------------


class Exported(NamedTuple):
    net: nn.Module
    path: Path
    program: ExportedProgram


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A network with every layer as a program and as an ONNX file."""
    torch.manual_seed(0)
    net, shape = every_layer(), (1, 2, 16, 20)
    program = hnets.export.program(net, shape)
    assert all(m.training for m in net.modules())
    with pytest.MonkeyPatch.context() as patch:  # tracing again would take half the time
        patch.setattr(hnets.export, "program", lambda *_: program)
        path = hnets.export.onnx(net, tmp_path_factory.mktemp("onnx") / "net.onnx", shape)
    return Exported(net.eval(), path, program)


# Until torch 2.13, torch.export.load warns of how it reads its own files.
reads_pt2 = pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")


@reads_pt2
def test_programs_run_at_other_sizes(exported: Exported, tmp_path: Path) -> None:
    torch.export.save(exported.program, tmp_path / "net.pt2")
    module = torch.export.load(tmp_path / "net.pt2").module()
    for batch, height, width in [(1, 16, 16), (3, 24, 18), (5, 20, 36)]:
        x = torch.randn(batch, 2, height, width)
        assert_same(outputs(module, x), outputs(exported.net, x))


@reads_pt2
def test_files_are_compared_with_the_network(tmp_path: Path) -> None:
    net = nn.Sequential(hnn.ModReLU("1x1"), hnn.HAvgPool2d(2), hnn.HAvgPool2d(2)).eval()
    path = hnets.export.pt2(net, tmp_path / "net.pt2", (1, 2, 20, 20))
    assert hnets.export.compare(net, path, (1, 2, 20, 20)) < ROUNDING
    with torch.no_grad():
        net[0].bias += 1
    assert hnets.export.compare(net, path, (1, 2, 20, 20)) > 0.1
    with torch.no_grad():
        net[0].bias += torch.nan
    assert math.isnan(hnets.export.compare(net, path, (1, 2, 20, 20)))
    # torch.export takes maps of one pixel for constants.
    path = hnets.export.pt2(net, tmp_path / "net.pt2", (1, 2, 4, 4))
    with pytest.raises(hnets.export.SizeError, match="of 4x4, the file takes none of 69x4; make"):
        hnets.export.compare(net, path, (1, 2, 4, 4))


@reads_pt2
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_files_are_compared_with_a_network_in_training_and_of_any_type(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    net = nn.Sequential(
        hnn.HConv2d("2x0r", "2x0 + 2x1", 3), hnn.HBatchNorm2d("2x0 + 2x1"), nn.Dropout(0.5)
    ).to(dtype)
    path = hnets.export.pt2(net, tmp_path / "net.pt2", (1, 2, 20, 20))
    assert hnets.export.compare(net, path, (1, 2, 20, 20)) < 1e-2
    assert net.training
    assert torch.equal(net[1].running_var, torch.ones(4, dtype=dtype))


@reads_pt2
def test_the_smallest_side_that_a_program_takes(tmp_path: Path) -> None:
    """Two halvings, and no map of one pixel."""
    net = nn.Sequential(hnn.ModReLU("1x1"), hnn.HAvgPool2d(2), hnn.HAvgPool2d(2)).eval()
    path = hnets.export.pt2(net, tmp_path / "net.pt2", (1, 2, 20, 20))
    assert hnets.export.smallest_side(path, 2, 20) == 8
    assert torch.export.load(path).module()(torch.zeros(1, 2, 8, 8)).shape == (1, 2, 2, 2)


@pytest.mark.parametrize("refused", [range(0), range(1, 33), range(2, 33, 2), range(1, 96)])
def test_sides_are_taken_from_the_smallest_on(
    refused: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if only even ones are refused, as by the program of an hresnet."""

    def run(x: torch.Tensor) -> torch.Tensor:
        assert x.shape == (1, 3, x.shape[2], x.shape[2])
        assert x.shape[2] not in refused
        return x

    monkeypatch.setattr(hnets.export, "_runner", lambda path: run)
    assert hnets.export.smallest_side("net.pt2", 3, 96) == max(refused, default=0) + 1


@reads_pt2
def test_files_are_compared_at_sizes_that_the_network_takes(tmp_path: Path) -> None:
    net = hnn.HConv2d("2x0r", "2x0r + 2x1", 33).eval()
    path = hnets.export.pt2(net, tmp_path / "net.pt2", (1, 2, 40, 40))
    assert hnets.export.compare(net, path, (1, 2, 40, 40)) < ROUNDING
    with pytest.raises(RuntimeError, match="greater than actual input size"):
        hnets.export.compare(net, path, (1, 2, 28, 28))


@reads_pt2
def test_a_file_whose_outputs_have_another_shape_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hnets.export, "_runner", lambda path: lambda x: torch.zeros(8, 2))
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(hnets.export.SizeError, match=r"input of 28x28, .* larger size"):
        hnets.export.compare(net, tmp_path / "net.onnx", (1, 2, 28, 28))


def test_every_output_is_compared(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (1, 2, 16, 20)
    monkeypatch.setattr(hnets.export, "program", lambda *_: exported.program)  # traced already
    path = hnets.export.pt2(exported.net, tmp_path / "net.pt2", shape)
    assert hnets.export.compare(exported.net, path, shape) < ROUNDING
    with torch.no_grad():  # a network whose second output alone is another
        other = copy.deepcopy(exported.net)
        other.head[-1].bias += 1
    assert hnets.export.compare(other, path, shape) > 100 * ROUNDING


def test_programs_for_maps_of_one_pixel() -> None:
    """Of an example with larger maps; `hnets export` makes its own of maps of one pixel."""
    net = hnets.models.z2cnn().eval()
    module = hnets.export.program(net, (1, 1, 40, 40), one_pixel=True).module()
    for batch, height, width in [(1, 28, 28), (3, 28, 41), (2, 60, 29)]:
        x = torch.randn(batch, 1, height, width)
        assert_same(outputs(module, x), outputs(net, x))


@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 3, 64), (1, 3, 0, 64), ()])
def test_example_shapes_have_four_dimensions(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(batch, channels, height, width\), got \("):
        hnets.export.program(example(), shape)


# ONNX ---------------------------------------------------------------------------------------------


def test_onnxruntime_gives_the_same_numbers_at_other_sizes(exported: Exported) -> None:
    session = onnxruntime.InferenceSession(exported.path, providers=["CPUExecutionProvider"])
    for batch, height, width in [(1, 16, 16), (3, 24, 18), (2, 19, 36)]:
        x = torch.randn(batch, 2, height, width)
        y = [torch.from_numpy(np.asarray(a)) for a in session.run(None, {"input": x.numpy()})]
        assert_same(y, outputs(exported.net, x))


def test_onnx_files_are_clean(exported: Exported) -> None:
    content = exported.path.read_bytes()
    model = onnx.load(exported.path)
    onnx.checker.check_model(model, full_check=True)
    operations = {node.op_type for node in model.graph.node}
    assert not {op for op in operations if "Sequence" in op or op in ("If", "Loop", "Scan")}
    dimensions = model.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dimensions] == ["batch", 2, "height", "width"]
    assert [output.name for output in model.graph.output] == ["output0", "output1"]
    # Kernels and folded norms are in the file; the filters that they are made of are not.
    stored = sum(np.prod(value.dims, dtype=int) for value in model.graph.initializer)
    frozen = hnets.freeze(exported.net)
    needed = sum(m.weight.numel() for m in frozen.modules() if isinstance(m, nn.Conv2d))
    assert needed < stored < needed + 1000
    # No stack traces, which would carry the folders of the machine that exported it.
    assert b"site-packages" not in content
    assert str(Path(__file__).parent).encode() not in content


def test_exporting_is_quiet(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    levels = {name: logging.getLogger(name).level for name in ("torch.onnx", "onnxscript")}
    layer = hnn.ModReLU("1x1")
    hnets.export.onnx(layer, tmp_path / "layer.onnx", (1, 2, 8, 8))  # warnings are errors here
    assert capfd.readouterr() == ("", "")
    loud = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert not loud
    assert {name: logging.getLogger(name).level for name in levels} == levels


class Unexportable(nn.Module):
    """Its graph would depend on values."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_a_failed_export_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_text("what was there before")
    with pytest.raises(Exception, match="data-dependent"):
        hnets.export.onnx(Unexportable(), path, (1, 2, 8, 8))
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]
    assert path.read_text() == "what was there before"


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"is a folder; name a file in it"):
        hnets.export.onnx(example(), tmp_path, (1, 3, 64, 64))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):  # as root, who may write nearly everywhere
        folder = Path("/proc")
        if not folder.is_dir():
            pytest.skip("this user may write in every folder")
    before = len(list(tmp_path.rglob("*")))
    with pytest.raises(OSError, match=f"{folder}/net.onnx"):
        hnets.export.onnx(example(), folder / "net.onnx", (1, 3, 64, 64))
    assert len(list(tmp_path.rglob("*"))) == before


_WITHOUT = """
import sys
import hnets
for package in ("onnx", "onnxscript"):
    sys.modules[package] = None
    try:
        hnets.export.onnx(hnets.nn.ModReLU("1x1"), sys.argv[1], (1, 2, 8, 8))
    except ImportError as error:
        print(error)
    del sys.modules[package]
"""


def test_missing_packages_are_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITHOUT, str(tmp_path / "net.onnx")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    line = 'ONNX files need onnx and onnxscript: pip install "hnets[export]"\n'
    assert result.stdout == 2 * line
    assert not list(tmp_path.iterdir())


def overwritten(part: nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """To which each call adds whether the output lies where the input was."""
    places, forward = list[bool](), part.forward

    def noted(x: Tensor, inplace: bool = False) -> Tensor:
        y: Tensor = forward(x, inplace)
        places.append(x.data_ptr() == y.data_ptr())
        return y

    monkeypatch.setattr(part, "forward", noted)
    return places


def test_frozen_nonlinearities_overwrite_what_they_alone_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, x = example().eval(), torch.randn(2, 3, 24, 24)
    frozen, before = hnets.freeze(net), x.clone()
    places = [overwritten(act, monkeypatch) for act in (frozen[1], frozen[3])]
    with torch.inference_mode():
        assert relative(frozen(x), net(x)) < 1e-6
    assert places == [[True], [True]]
    assert torch.equal(x, before)


def test_frozen_functions_of_the_angle_overwrite_what_they_alone_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams, x = "2x0r + 2x1 + 2x2", torch.randn(2, 3, 24, 24)
    net = nn.Sequential(hnn.HConv2d("3x0r", streams, 5), hnn.FourierAct(streams, norm=True))
    net = lively(net, x).eval()
    frozen = hnets.freeze(net)
    places = overwritten(frozen[1], monkeypatch)
    for format in (torch.contiguous_format, torch.channels_last):
        with torch.inference_mode():
            assert relative(frozen(x.to(memory_format=format)), net(x)) < 1e-6
    assert relative(frozen(x.requires_grad_()), net(x)) < 1e-6  # for whose gradient it is needed
    assert places == [True, False, False]


def test_frozen_nonlinearities_overwrite_nothing_that_others_read() -> None:
    net, x, seen = example().eval(), torch.randn(2, 3, 24, 24), list[Tensor]()
    frozen = hnets.freeze(net)
    frozen[2].register_forward_hook(lambda _, x, y: seen.append(y))
    with torch.inference_mode():
        response = frozen[0](x)  # as by a network that takes the output of every part
        assert relative(frozen[1](response), net[:2](x)) < 1e-6
        assert relative(response, net[0](x)) < 1e-6
        frozen(x)
        assert relative(seen[0], net[:3](x)) < 1e-6


def keep(kept: list[tuple[Tensor, Tensor]], maps: tuple[Tensor, ...]) -> None:
    """Keep maps that a hook was given, beside copies of what they held then."""
    kept += [(x, x.clone()) for x in maps]


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize(
    "act",
    [
        lambda: hnn.FourierAct("2x0r + 2x1"),
        lambda: hnn.ModReLU("2x0r + 2x1"),
        lambda: hnn.HBatchNorm2d("2x0r + 2x1"),
    ],
)
def test_what_a_hook_keeps_is_not_overwritten(
    act: Callable[[], nn.Module], before: bool, everywhere: bool
) -> None:
    x, kept = torch.randn(2, 3, 24, 24), list[tuple[Tensor, Tensor]]()
    net = lively(nn.Sequential(hnn.HConv2d("3x0r", "2x0r + 2x1", 5), act()), x)
    frozen = hnets.freeze(net.eval())
    if everywhere and before:
        hook = register_module_forward_pre_hook(lambda _, maps: keep(kept, maps))
    elif everywhere:  # of the convolution, its output
        hook = register_module_forward_hook(lambda _, maps, y: keep(kept, (*maps, y)))
    elif before:
        hook = frozen[1].register_forward_pre_hook(lambda _, maps: keep(kept, maps))
    else:  # which comes after the call
        expected = frozen[0](x)
        hook = frozen[1].register_forward_hook(lambda _, maps, y: kept.append((maps[0], expected)))
    with hook, torch.inference_mode():
        frozen(x)
    assert kept
    assert all(torch.equal(held, as_given) for held, as_given in kept)


@pytest.mark.parametrize("place", [0, 3])
def test_hooks_of_a_layer_are_kept(place: int) -> None:
    net, x = example().eval(), torch.randn(2, 3, 24, 24)
    net[place].register_forward_hook(lambda _, x, y: 2 * y)
    frozen = hnets.freeze(net)
    with torch.inference_mode():
        assert relative(frozen(x), net(x)) < 1e-6
    net[place]._forward_hooks.clear()
    with torch.inference_mode():
        assert relative(frozen(x), net(x)) > 0.1
