"""A training step of `hnet_fourier_base` against a plain CNN of equal multiplications.

    python benchmarks/fourier.py --device cuda          # as CUDA graphs, tf32 and bf16
    python benchmarks/fourier.py --size small           # CPU

The plain CNN has the same kernels, as many real channels, batch norm and ReLU where the other has
its angular norm and nonlinearity, and the same pooling and head. Both are timed in turn in one run.
"""

import argparse

import torch
from timing import Precision, allow_tf32, graphed, interleaved, training_step
from torch import Tensor, nn

import hnets
from hnets.models._hnet_fourier import SIZES


class PlainPeer(nn.Module):
    """The same multiplications with nothing harmonic about them."""

    def __init__(self, size: str) -> None:
        super().__init__()
        chosen, before, layers = SIZES[size], 1, list[nn.Module]()
        for number, (kernel, fields) in enumerate(
            zip(chosen.kernels, chosen.fields, strict=True), start=1
        ):
            channels = fields * (1 + 2 * chosen.orders)
            conv = nn.Conv2d(before, channels, kernel, padding="same", bias=False)
            layers += [conv, nn.BatchNorm2d(channels), nn.ReLU()]
            if number in (2, 4):
                layers.append(nn.AvgPool2d(2))
            before = channels
        self.layers = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.Linear(before, chosen.head), nn.BatchNorm1d(chosen.head), nn.ReLU(),
            nn.Linear(chosen.head, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            if x.device.type == "cuda":
                x = x.contiguous(memory_format=torch.channels_last)
            x = layer(x)
        logits: Tensor = self.head(x.amax((2, 3)))
        return logits


def main() -> None:
    """Time both and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--size", default="base", choices=list(SIZES))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    make = {
        "plain": lambda: PlainPeer(args.size).to(memory_format=torch.channels_last),
        "hnets": lambda: hnets.create_model(f"hnet_fourier_{args.size}"),
    }
    plain, ours = (hnets.cost(build(), (1, 28, 28)).multiplications for build in make.values())
    print(f"multiplications: plain {plain:,}, hnets {ours:,}")
    for precision in ("float32",) if args.device == "cpu" else ("bf16", "tf32"):
        allow_tf32(precision != "float32")
        step = training_step if args.device == "cpu" else graphed
        steps = {
            name: step(Precision(build(), precision == "bf16"), args.batch, args.device)
            for name, build in make.items()
        }
        times = interleaved(steps, args.rounds, 0.3, args.device)
        print(f"\nTraining step of {args.size}, batch {args.batch}, {precision}")
        print(times.table(to="plain"), flush=True)


if __name__ == "__main__":
    main()
