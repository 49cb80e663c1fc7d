"""One exported file, and one compiled graph, for images of any size and either parity."""

from pathlib import Path
from typing import NamedTuple

import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.export import ExportedProgram

import hnets
from hnets.models import HDSN, HED, HEdge
from hnets.models._hedge import HEdgeSize
from networks import lively

DECODER = HEdgeSize((5, 1), (1,), (1,), False, decoder=1, tail=1)
NETWORKS = {
    "hdsn": lambda: HDSN((2, 2)),
    "hed": lambda: HED((2, 2)),
    "hedge": lambda: HEdge(DECODER, scale=0.5),
}
"""Fewer stages and maps than the paper's: what is exported of each stage is the same."""
SIZES = [(2, 64, 48), (1, 33, 47), (1, 97, 64), (3, 64, 97), (1, 5, 6), (1, 50, 70)]
"""A batch, and even, odd, mixed sizes, with and without a margin."""
SMALL = [(1, 2, 2), (2, 1, 1), (1, 5, 2)]
ROUNDING = 1e-6
"""What float32 rounding explains of probabilities."""


class Exported(NamedTuple):
    net: nn.Module
    path: Path
    program: ExportedProgram


@pytest.fixture(scope="module", params=NETWORKS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A network with values as training leaves them, exported with an even example."""
    torch.manual_seed(0)
    net = lively(NETWORKS[request.param](), torch.rand(2, 3, 40, 40)).eval().requires_grad_(False)
    program = hnets.export.program(net, (1, 3, 64, 96))
    with pytest.MonkeyPatch.context() as patch:  # tracing again would take half the time
        patch.setattr(hnets.export, "program", lambda *_: program)
        path = hnets.export.onnx(net, tmp_path_factory.mktemp("onnx") / "net.onnx", (1, 3, 64, 96))
    return Exported(net, path, program)


def test_onnxruntime_agrees_at_every_size(exported: Exported) -> None:
    session = onnxruntime.InferenceSession(exported.path, providers=["CPUExecutionProvider"])
    for batch, height, width in [*SIZES, *SMALL, (1, 321, 481)]:
        x = torch.rand(batch, 3, height, width)
        output = torch.from_numpy(session.run(None, {"input": x.numpy()})[0])
        torch.testing.assert_close(output, exported.net(x), rtol=0, atol=ROUNDING)


def test_onnx_files_do_not_branch_and_name_what_is_free(exported: Exported) -> None:
    model = onnx.load(exported.path)
    onnx.checker.check_model(model, full_check=True)
    operations = {node.op_type for node in model.graph.node}
    assert not operations & {"If", "Loop", "Scan"}
    dimensions = model.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dimensions] == ["batch", 3, "height", "width"]
    assert [output.name for output in model.graph.output] == ["output"]


# Until torch 2.13, torch.export.load warns of how it reads its own files.
@pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")
def test_files_of_programs_agree_at_every_size_but_the_smallest(
    exported: Exported, tmp_path: Path
) -> None:
    torch.export.save(exported.program, tmp_path / "net.pt2")
    module = torch.export.load(tmp_path / "net.pt2").module()
    step = 2 ** (len(exported.net.stages) - 1)
    for batch, height, width in SIZES:
        x = torch.rand(batch, 3, height, width)
        torch.testing.assert_close(module(x), exported.net(x), rtol=0, atol=ROUNDING)
    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.rand(1, 3, step, step))  # a map of one pixel


def test_one_compiled_graph_serves_every_size() -> None:
    net = lively(HDSN((2, 2)), torch.rand(2, 3, 40, 40)).eval()
    frozen, counter = hnets.freeze(net), CompileCounter()
    compiled = torch.compile(frozen, fullgraph=True, dynamic=True, backend=counter)
    for _, height, width in SIZES:
        x = torch.rand(2, 3, height, width)
        torch.testing.assert_close(compiled(x), frozen(x), rtol=0, atol=ROUNDING)
    assert counter.frame_count == 1
