"""The edges of 481×321 images: the H-DSN against a plain network, HED and our detectors.

    python benchmarks/edges.py                                     # an image, on all cores
    python benchmarks/edges.py --threads 1                         # steadier beside other work
    python benchmarks/edges.py --device cuda --batch 32 --bf16     # and images per second
    python benchmarks/edges.py --precisions                        # our detectors, bf16 to float32

The plain network has the H-DSN's five stages, with as many real channels and so the same
multiplications, ReLU, and batch norm folded into the convolutions. It is timed in two forms: as one
would write it with torch's own mean pooling, resizing and 1×1 convolutions, and on hnets' pyramid
and side outputs, where only the stages differ. Beside our detectors stand the same networks of
plain layers, with their norms. All are timed alternately in one run; ratios are to the first form.
Above 1 is slower.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from peers import plainly
from timing import Precision, Step, interleaved, placed
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, conv2d, interpolate
from torch.nn.utils.fusion import fuse_conv_bn_eval

import hnets
from hnets.models._hdsn import HED, WIDTHS, EdgeNetwork

HEIGHT, WIDTH = 321, 481
HEDGES = ("hedge_tiny", "hedge_small", "hedge_base")
TARGET = 1.1


class OnOurPyramid(HED):
    """The plain network, with what stands around the stages of an H-DSN."""

    def __init__(self) -> None:
        super().__init__([4 * width for width in WIDTHS])  # two orders, of two real numbers each

    def halve(self, maps: Tensor) -> Tensor:
        return hnets.functional.halve2d(maps)


class Plain(OnOurPyramid):
    """The same of torch's own parts."""

    def halve(self, maps: Tensor) -> Tensor:
        return avg_pool2d(maps, 2, ceil_mode=True)

    def forward_head(self, features: Sequence[Tensor], height: int, width: int) -> Tensor:
        sides = [conv2d(x, s.weight, s.bias) for s, x in zip(self.sides, features, strict=True)]
        full = [interpolate(side, (height, width), mode="bilinear") for side in sides[1:]]
        maps = torch.cat([sides[0], *full], dim=1)
        return torch.cat([maps, conv2d(maps, self.fusion.weight, self.fusion.bias)], dim=1)


def main() -> None:
    """Time the networks, and print their ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, help="CPU threads; torch's own choice by default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=1, help="images at once")
    parser.add_argument("--bf16", action="store_true", help="under bf16 autocast")
    parser.add_argument("--precisions", action="store_true", help="our detectors in both only")
    parser.add_argument("--rounds", type=int, default=25, help="interleaved rounds")
    parser.add_argument("--min-time", type=float, default=0.3, help="seconds a sample lasts")
    parser.add_argument("--json", type=Path, help="also write medians and ratios to this file")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    if args.precisions:
        _compare_precisions(args)
        return
    _check_multiplications()
    networks: dict[str, nn.Module] = {
        "plain": _folded(Plain()),
        "plain, on our pyramid": _folded(OnOurPyramid()),
        "H-DSN, frozen": hnets.freeze(hnets.models.hdsn()),
        "HED, half width": _folded(hnets.models.hed()),
        "HED, low": _folded(hnets.models.hed_low()),
    }
    for name in HEDGES:
        networks[name] = hnets.freeze(hnets.create_model(name))
        networks[f"{name}, plain layers"] = plainly(hnets.create_model(name)).eval()
    print(f"torch {torch.__version__}, {args.device}, {torch.get_num_threads()} CPU threads")
    shape = (args.batch, 3, HEIGHT, WIDTH)
    images = placed(torch.rand(shape, generator=torch.Generator().manual_seed(0)), args.device)
    steps = {
        name: _inference(placed(Precision(net, args.bf16), args.device), images)
        for name, net in networks.items()
    }
    times = interleaved(steps, args.rounds, args.min_time, args.device)
    print(f"\n{args.batch} of {WIDTH}x{HEIGHT} pixels\n{times.table(to='plain')}")
    if args.device != "cpu":
        for name in steps:
            print(f"{name}: {args.batch / times.median(name):,.0f} images/s")
    for other in ("plain", "plain, on our pyramid", "HED, half width", "HED, low"):
        ratio = times.ratios(to=other)["H-DSN, frozen"]
        print(f"H-DSN against {other}: {ratio.median:.3f} ({ratio.lower:.2f}-{ratio.upper:.2f})")
    for name in HEDGES:
        for other in ("H-DSN, frozen", f"{name}, plain layers"):
            ratio = times.ratios(to=other)[name]
            spread = f"{ratio.median:.2f} ({ratio.lower:.2f}-{ratio.upper:.2f})"
            print(f"{name} against {other}: {spread}")
    reached = times.ratios(to="plain")["H-DSN, frozen"].median
    print(f"target {TARGET}: {'met' if reached <= TARGET else 'missed'}")
    if args.json:
        ratios = times.ratios(to="plain")
        times_and_ratios = {
            name: {"seconds": times.median(name), "ratio": ratios[name].median} for name in steps
        }
        args.json.write_text(json.dumps(times_and_ratios, indent=1) + "\n")


def _compare_precisions(args: argparse.Namespace) -> None:
    """Time each of our detectors in bfloat16, relative to itself in float32."""
    images = placed(torch.rand(args.batch, 3, HEIGHT, WIDTH), args.device)
    for name in ("hdsn", *HEDGES):
        net = hnets.freeze(hnets.create_model(name))
        steps = {
            kind: _inference(placed(Precision(net, kind == "bf16"), args.device), images)
            for kind in ("float32", "bf16")
        }
        times = interleaved(steps, args.rounds, args.min_time, args.device)
        ratio = times.ratios(to="float32")["bf16"]
        print(f"{name} in bf16: {ratio.median:.2f} ({ratio.lower:.2f}-{ratio.upper:.2f})")


def _check_multiplications() -> None:
    """See that the 3×3 convolutions of both networks multiply equally often, one by one."""
    ours, theirs = (
        [layer.multiplications for layer in report.layers if layer.kind in ("HConv2d", "Conv2d")]
        for report in (
            hnets.cost(net, (3, HEIGHT, WIDTH)) for net in (hnets.models.hdsn(), Plain())
        )
    )
    if ours != theirs:
        raise RuntimeError(f"the multiplications differ: {ours} and {theirs}")
    print(f"{sum(ours):,} multiplications in the convolutions of the H-DSN and the plain network")


def _folded(net: EdgeNetwork) -> EdgeNetwork:
    """A network for inference: batch norms in the convolutions before them, ReLU in place."""
    net.eval().requires_grad_(False)
    for number, stage in enumerate(net.stages):
        parts: list[nn.Module] = []
        for part, after in pairwise([*stage, None]):
            if isinstance(after, nn.BatchNorm2d):
                parts.append(fuse_conv_bn_eval(part, after))
            elif isinstance(part, nn.ReLU):
                parts.append(nn.ReLU(inplace=True))
            elif not isinstance(part, nn.BatchNorm2d):
                parts.append(part)
        net.stages[number] = nn.Sequential(*parts)
    return net


def _inference(net: nn.Module, images: Tensor) -> Step:
    def infer() -> Tensor:
        with torch.inference_mode():
            edges: Tensor = net(images)
            return edges

    return infer


if __name__ == "__main__":
    main()
