"""The time of a plain convolution in bfloat16 against its number of channels, on a GPU.

    python benchmarks/channels.py                                   # 5×5 at 48×48, batch 64
    python benchmarks/channels.py --kernel 7 --channels 216,256,288

Forward, and both gradients, in channels_last, with cuDNN's own choice of algorithms; with
``--search N`` the fastest of N. The last column is where the kernels come from: sm90 are those for
Hopper, sm80 those of the generation before. The layers of `hnets.nn` add channels of zeros where
that is faster; here nothing is added.
"""

import argparse

import torch
from timing import interleaved
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

SOURCES = ("sm90", "sm80", "cutlass", "sgemm")


def main() -> None:
    """Time every number of channels and print a line each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--channels", default="60,64,80,96,120,128,160,192,256")
    parser.add_argument("--kernel", type=int, default=5)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--search", type=int, default=0, metavar="N")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = args.search > 0
    torch.backends.cudnn.benchmark_limit = args.search
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}, ms (TFLOP/s, kernels)")
    print(f"{'channels':>8} {'forward':>22} {'by weight':>22} {'by input':>22} {'sum':>8}")
    for channels in map(int, args.channels.split(",")):
        times = measure(channels, args.kernel, args.size, args.batch)
        operations = 2 * args.batch * args.size**2 * (args.kernel * channels) ** 2
        cells = [
            f"{1e3 * seconds:.3f} ({operations / seconds / 1e12:.0f}, {source})"
            for seconds, source in times
        ]
        total = 1e3 * sum(seconds for seconds, _ in times)
        print(f"{channels:8} " + " ".join(f"{cell:>22}" for cell in cells) + f" {total:8.3f}")


def measure(channels: int, kernel: int, size: int, batch: int) -> list[tuple[float, str]]:
    """Seconds and the kernels' source: forward, gradient of the weight, gradient of the input."""
    x, grad = random(batch, channels, size), random(batch, channels, size)
    weight = random(channels, channels, kernel)
    pad = [kernel // 2] * 2

    def gradient(wanted: list[bool]) -> None:
        torch.ops.aten.convolution_backward(
            grad, x, weight, None, [1, 1], pad, [1, 1], False, [0, 0], 1, wanted
        )

    steps = {
        "forward": lambda: torch.nn.functional.conv2d(x, weight, padding=kernel // 2),
        "by weight": lambda: gradient([False, True, False]),
        "by input": lambda: gradient([True, False, False]),
    }
    times, results = interleaved(steps, 5, 0.02, "cuda"), []
    for name, step in steps.items():
        with profile(activities=[ProfilerActivity.CUDA]) as recorded:
            step()
            torch.cuda.synchronize()
        longest = max(recorded.key_averages(), key=lambda event: event.self_device_time_total)
        source = next((word for word in SOURCES if word in longest.key), "other")
        results.append((times.median(name), source))
    return results


def random(first: int, second: int, side: int) -> Tensor:
    """A random tensor in channels_last."""
    values = torch.randn(first, second, side, side, device="cuda", dtype=torch.bfloat16)
    return values.contiguous(memory_format=torch.channels_last)


if __name__ == "__main__":
    main()
