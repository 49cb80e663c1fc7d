"""Images per second of `hnets edges --ray` with 1, 2 and 4 workers, against one process.

    python benchmarks/cluster.py                         # 1, 2 and 4 workers, if there are cores
    python benchmarks/cluster.py --workers 1,2,4,8 --images 80

Images are crops of a photograph, 481×321, as JPEG files. Each worker has one CPU, one network and
one thread of torch; one more CPU is Ray's to read and write for all of them. N workers are compared
with one process of N threads of torch, in turns. Rates are those after the first quarter of the
images, which is the first task of each worker. What the work consists of is timed at the end, per
image on one thread.
"""

import argparse
import io
import logging
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import ray
import torch
from bulk import photographs
from PIL import Image
from timing import interleaved

from hnets.data.image_file import read_image
from hnets.predict.batch import EdgeWorker, EncodedImage, write_edges
from hnets.predict.cluster import edges_on_ray
from hnets.predict.rendering import edges_image


def main() -> None:
    """Print the rates and their ratios, and what the work consists of."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cores = os.cpu_count() or 1
    default = ",".join(str(number) for number in (1, 2, 4) if number <= cores)
    parser.add_argument("--workers", default=default)
    parser.add_argument("--images", type=int, default=40, help="per worker")
    parser.add_argument("--rounds", type=int, default=3, help="of both, in turns")
    parser.add_argument("--photo", type=Path, help="crops of this one; else scikit-image's coffee")
    args = parser.parse_args()
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    numbers = [int(number) for number in args.workers.split(",")]
    print(f"torch {torch.__version__}, Ray {ray.__version__}, {cores} cores; medians of "
          f"{args.rounds} rounds (range)")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        paths = photographs(Path(folder, "all"), args.images * max(numbers), args.photo)
        worker = EdgeWorker(device="cpu")
        for number in numbers:
            source = Path(folder, f"in-{number}")
            source.mkdir()
            for path in paths[: number * args.images]:
                (source / path.name).hardlink_to(path)
            rates = dict[str, list[float]]()
            ray.init(address="local", num_cpus=number + 1, include_dashboard=False,
                     log_to_driver=False, logging_level="error")  # fmt: skip
            for _ in range(args.rounds):
                for name, run in (("process", _process), ("workers", _workers)):
                    with tempfile.TemporaryDirectory(dir=folder) as target:
                        rate = _rate(run(worker, source, Path(target), number))
                    rates.setdefault(name, []).append(rate)
            ray.shutdown()
            ratios = [b / a for a, b in zip(*rates.values(), strict=True)]
            print(f"one process, {number} threads: {_spread(rates['process'])} images/s; "
                  f"{number} workers of one thread: {_spread(rates['workers'])} images/s; "
                  f"ratio {_spread(ratios)}", flush=True)  # fmt: skip
        torch.set_num_threads(1)
        _parts(worker, paths[0])


def _process(worker: EdgeWorker, source: Path, target: Path, threads: int) -> list[float]:
    """When each image was done by this process."""
    torch.set_num_threads(threads)
    paths = sorted(source.iterdir())
    images = [EncodedImage(path.name, path) for path in paths]
    done = write_edges(worker, images, [target / path.stem for path in paths])
    return [time.perf_counter() for _ in done]


def _workers(_: EdgeWorker, source: Path, target: Path, number: int) -> list[float]:
    """When each image was done by workers of a cluster."""
    times = list[float]()
    edges_on_ray(
        str(source), str(target), workers=number,
        begin=lambda total: lambda path: times.append(time.perf_counter()),
    )  # fmt: skip
    return times


def _rate(times: list[float]) -> float:
    """Images per second after the first quarter; those of a task get done together."""
    start = times[-(-len(times) // 4) - 1]
    return sum(moment > start for moment in times) / (times[-1] - start)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


def _parts(worker: EdgeWorker, path: Path) -> None:
    """Time the steps of one image, on one CPU."""
    pixels = np.asarray(read_image(path))
    image = edges_image(worker.detector(pixels))
    steps = {
        "network": lambda: worker.detector(pixels),
        "decode": lambda: read_image(path),
        "encode": lambda: image.save(io.BytesIO(), "PNG", compress_level=4),
        "write": lambda: Image.new("L", (1, 1)).save(path.with_suffix(".png")),
    }
    times = interleaved(steps, rounds=5, min_time=0.1)
    print(f"\nper image, one thread\n{times.table(to='network')}")


if __name__ == "__main__":
    main()
