"""Images per second of `hnets edges --ray` against the number of workers, on one machine.

    python benchmarks/cluster.py                         # 1, 2 and 4 workers
    python benchmarks/cluster.py --workers 1,2,4,8 --images 400

Images are crops of a photograph, 481×321, as JPEG files. Each worker has one CPU and one network,
and one more CPU reads and writes for all of them. The rate is that from the first tenth of the
images on, when all workers have started; beside it stands that of one process with one thread,
without Ray. What the work consists of is timed at the end, per image on one CPU.
"""

import argparse
import io
import logging
import tempfile
import time
from collections.abc import Callable
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


class Clock:
    """When images are done."""

    def __init__(self) -> None:
        self.times = list[float]()

    def begin(self, _: int) -> Callable[[str], None]:
        return lambda path: self.times.append(time.perf_counter())

    def rate(self) -> float:
        """Images per second after the first tenth; those of a task get done together."""
        start = self.times[len(self.times) // 10]
        return sum(moment > start for moment in self.times) / (self.times[-1] - start)


def main() -> None:
    """Print the rates, and what the work consists of."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--images", type=int, default=200, help="per worker")
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        numbers = [int(number) for number in args.workers.split(",")]
        paths = photographs(Path(folder, "in"), args.images * max(numbers))
        few = paths[: args.images]
        alone, worker = Clock(), EdgeWorker(device="cpu")
        show = alone.begin(0)
        names = [Path(folder, "alone", path.stem) for path in few]
        for _ in write_edges(worker, [EncodedImage(path.name, path) for path in few], names):
            show("")
        print(f"one process, one thread: {alone.rate():.3g} images/s", flush=True)
        for number in numbers:
            source, clock = Path(folder, f"in-{number}"), Clock()
            source.mkdir()
            for path in paths[: number * args.images]:
                (source / path.name).hardlink_to(path)
            ray.init(address="local", num_cpus=number + 1, include_dashboard=False,
                     log_to_driver=False, logging_level="error")  # fmt: skip
            edges_on_ray(str(source), f"{folder}/out-{number}", workers=number, begin=clock.begin)
            ray.shutdown()
            times = clock.rate() / alone.rate()
            print(f"{number} workers: {clock.rate():.3g} images/s, {times:.3g} times one process")
        _parts(worker, few[0])


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
