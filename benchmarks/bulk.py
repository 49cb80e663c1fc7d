"""Edges of many files: `hnets edges` against its network alone, and against one file at a time.

    python benchmarks/bulk.py                              # on all cores
    python benchmarks/bulk.py --device cuda --images 512   # on a GPU

Images are crops of a photograph, 481×321, as JPEG files. "network" computes from arrays and leaves
its output where it computes, and so does "replayed", as the command starts it; "one by one" reads,
computes and writes a file before the next. Threads read and write while the network of
"hnets edges" works; on a GPU equal sizes are batched, and each batch is started as a whole. All are
timed alternately in one run.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timing import interleaved
from torch import Tensor

from hnets.data.image_file import read_image
from hnets.devices import Replayed
from hnets.files import replacing
from hnets.predict.batch import EdgeWorker, EncodedImage, write_edges
from hnets.predict.rendering import edges_image

HEIGHT, WIDTH = 321, 481


def main() -> None:
    """Time them, and print their ratios and rates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds")
    parser.add_argument(
        "--threads", type=int, help="that read and write; by default as the command"
    )
    parser.add_argument("--model", help="name or weights of the network; as the command's default")
    parser.add_argument("--photo", type=Path, help="crops of this one; else scikit-image's coffee")
    parser.add_argument("--kinds", default="edges", help="what is written, as edges,thin,npz")
    args = parser.parse_args()
    network_option = {"weights": args.model} if args.model else {}
    worker = EdgeWorker(
        args.kinds.split(","), device=args.device, threads=args.threads, **network_option
    )
    with tempfile.TemporaryDirectory() as folder:
        paths = photographs(Path(folder, "in"), args.images, args.photo)
        names = [Path(folder, "out", path.stem) for path in paths]
        arrays = [np.asarray(read_image(path)) for path in paths]
        step = worker.detector.at_once((HEIGHT, WIDTH))
        tensors = [
            torch.from_numpy(np.stack(arrays[start : start + step])).permute(0, 3, 1, 2).float()
            / 255
            for start in range(0, len(arrays), step)
        ]
        batches = [tensor.to(args.device) for tensor in tensors]

        def compute(model: Callable[[Tensor], Tensor]) -> None:
            with torch.inference_mode():
                for batch in batches:
                    model(batch)
            if args.device != "cpu":
                torch.cuda.synchronize()

        def one_by_one() -> None:
            for path, name in zip(paths, names, strict=True):
                image = torch.from_numpy(np.array(read_image(path))).to(args.device)
                with torch.inference_mode():
                    edges = worker.detector.model(image.permute(2, 0, 1)[None].float() / 255)
                edges = edges[0, 0].cpu().numpy()
                with replacing(f"{name}.edges.png") as part:
                    edges_image(edges).save(part, format="PNG")

        def command() -> None:
            images = [EncodedImage(path.name, path) for path in paths]
            if len(list(write_edges(worker, images, names))) != len(images):
                raise RuntimeError("some images are lost")

        functions = {
            "network": partial(compute, worker.detector.model),
            "replayed": partial(compute, Replayed(worker.detector.model)),
            "one by one": one_by_one,
            "hnets edges": command,
        }
        times = interleaved(functions, args.rounds, min_time=0)
    print(
        f"torch {torch.__version__}, {args.device}, {torch.get_num_threads()} threads of the "
        f"network, {worker.threads} for files; {args.images} images of {WIDTH}x{HEIGHT}, {step} "
        f"at once\n{times.table(to='network')}"
    )
    for name in functions:
        print(f"{name}: {args.images / times.median(name):.4g} images/s")
    faster = times.ratios(to="hnets edges")["one by one"]
    print(f"one by one takes {faster.median:.3g} times as long as hnets edges")


def photographs(folder: Path, number: int, original: Path | None = None) -> list[Path]:
    """Crops of a photograph, each another one."""
    if original is None:
        from skimage.data import coffee

        photo = coffee()
    else:
        photo = np.asarray(read_image(original))
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    paths = [folder / f"{k:05}.jpg" for k in range(number)]
    for path in paths:
        top, left = (
            random.integers(0, a - b + 1)
            for a, b in zip(photo.shape, (HEIGHT, WIDTH), strict=False)
        )
        Image.fromarray(photo[top : top + HEIGHT, left : left + WIDTH]).save(path, quality=90)
    return paths


if __name__ == "__main__":
    main()
