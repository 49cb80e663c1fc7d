"""Many image files at once: finding them, naming their outputs, and writing their edges.

Nothing here knows of a terminal or of a cluster, and torch is only imported when there is work.
"""

from __future__ import annotations

import glob
import io
import math
import os
import warnings
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain, count
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hnets.errors import InputError, suggest
from hnets.files import FOR_ALL, replacing
from hnets.predict import EDGE_MODEL

if TYPE_CHECKING:
    from torch import nn

STDIN = "-"
KINDS = {
    "edges": ".edges.png",
    "thin": ".thin.png",
    "orientation": ".orientation.png",
    "overlay": ".overlay.png",
    "npz": ".edges.npz",
}
"""What can be made of an image's edges, and the ending of its file name."""
_HELD = 2**25
"""Pixels of images that are decoded and not yet written; a larger one is held alone."""


def find_images(
    inputs: Iterable[str], skip: Sequence[str] = ()
) -> tuple[dict[Path, Path], list[InputError]]:
    """The images that inputs name, each once, and what is wrong with inputs that name none.

    An input is a file, a folder, a pattern, or - for stdin. The files of a folder and of those in
    it come in the order of their names, without hidden ones and those whose names end in one of
    ``skip``. With each image comes its folder, relative to the input that it was found in.
    """
    images, errors = dict[str, tuple[Path, Path]](), list[InputError]()
    for text in inputs:
        if os.path.isdir(text):  # False for a name that is too long, where pathlib raises
            paths = _in_folder(text, skip, errors)
        elif text == STDIN or os.path.lexists(text):
            paths = {Path(text): Path()}
        elif glob.has_magic(text):
            matches = map(Path, sorted(glob.glob(text, recursive=True)))
            paths = {match: Path() for match in matches if match.is_file()}
            if not paths:
                message = f"there is no file like {text}; give the path of an image"
                errors.append(InputError(message))
        else:
            paths = {}
            errors.append(InputError(f"there is no file {text}; give the path of an image"))
        for path, folder in paths.items():
            images.setdefault(place_of(path), (path, folder))
    return dict(images.values()), errors


def place_of(path: Path) -> str:
    """What the paths of one image have in common, such as ``a.png``, ``./a.png`` and ``/x/a.png``.

    A link to an image has a name, and so an output, of its own.
    """
    return os.path.join(os.path.realpath(path.parent), path.name)


def is_image_name(name: str, skip: Sequence[str] = ()) -> bool:
    """Whether a file of that name in a folder is taken for an image.

    >>> names = ["a.JPG", "a.edges.png", ".a.png", "a.txt"]
    >>> [is_image_name(name, skip=[".edges.png"]) for name in names]
    [True, False, False, False]
    """
    from hnets.data.image_file import SUFFIXES

    ours = name.startswith(".") or name.endswith(tuple(skip))
    return name.lower().endswith(SUFFIXES) and not ours


def no_images(place: str) -> InputError:
    """What is wrong with a folder that holds no image."""
    from hnets.data.image_file import SUFFIXES

    ends = ", ".join(SUFFIXES)
    return InputError(f"there is no image in the folder {place}; expected files that end in {ends}")


def _in_folder(text: str, skip: Sequence[str], errors: list[InputError]) -> dict[Path, Path]:
    """The images in a folder and in those below it, each with the folder relative to the first."""
    before = len(errors)

    def unreadable(error: OSError) -> None:
        errors.append(InputError(f"{error.filename} cannot be read ({error.strerror})"))

    images = dict[Path, Path]()
    for place, folders, names in os.walk(text, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        folder = Path(place)
        below = folder.relative_to(text)
        images |= {folder / name: below for name in sorted(names) if is_image_name(name, skip)}
    if not images and len(errors) == before:
        errors.append(no_images(text))
    return images


def output_names(images: Mapping[Path, Path], target: Path, endings: Sequence[str]) -> list[Path]:
    """For each image, the path of its outputs without their endings: NAME of FOLDER/NAME.jpg.

    Images that would share it get NAME.jpg, and those that still do a number. No two are the same,
    also on file systems that ignore case, and none with one of the endings is that of an input.
    But for numbers, the order of the images does not matter: one that is added later is not taken
    for another one that is written already.
    """
    inputs = {os.path.realpath(path).casefold() for path in images}
    places = {folder: os.path.realpath(target / folder) for folder in set(images.values())}

    def spot(folder: Path, name: str) -> str:
        return os.path.join(places[folder], name).casefold()

    stems = ["stdin" if str(path) == STDIN else path.stem for path in images]
    folders = list(images.values())
    shared = Counter(
        spot(folder, name)
        for path, folder, stem in zip(images, folders, stems, strict=True)
        for name in {stem, path.name}
    )
    taken, names = set[str](), list[Path]()
    for path, folder, stem in zip(images, folders, stems, strict=True):
        first = [stem] if shared[spot(folder, stem)] == 1 else []
        for name in chain(first, [path.name], (f"{stem}-{number}" for number in count(2))):
            outputs = {f"{spot(folder, name)}{ending}" for ending in endings}
            if spot(folder, name) not in taken and inputs.isdisjoint(outputs):
                break
        taken.add(spot(folder, name))
        names.append(target / folder / name)
    return names


def outputs_of(name: Path, kinds: Iterable[str]) -> list[Path]:
    """The files that are written for an image.

    >>> [str(path) for path in outputs_of(Path("maps/photo"), ["edges", "npz"])]
    ['maps/photo.edges.png', 'maps/photo.edges.npz']
    """
    return [name.with_name(f"{name.name}{KINDS[kind]}") for kind in kinds]


class EncodedImage(NamedTuple):
    """The bytes of an image file, or its path, and what errors call it."""

    name: str
    content: bytes | Path


Renderings: TypeAlias = Iterator[tuple[str, Callable[[IO[bytes]], None]]]
"""Kinds of `KINDS`, each with what writes it to a file."""
Result = TypeVar("Result")


class EdgeWorker:
    """Takes image files to files of their edges, in batches of rows: bytes in, bytes out.

    One network is loaded, for all of them. Files are decoded and encoded by threads while it
    computes; on a GPU images of equal size go through it together. What is wrong with a file is a
    text in its row and ends nothing. Any engine that maps batches of columns can use it, as in
    ``ray.data.read_binary_files(..., include_paths=True).map_batches(EdgeWorker, concurrency=4)``.

    >>> content = io.BytesIO()
    >>> Image.new("RGB", (40, 30)).save(content, "png")
    >>> work = EdgeWorker(["edges", "npz"], device="cpu")
    >>> rows = work({"path": ["a.png", "b.png"], "bytes": [content.getvalue(), b"other"]})
    >>> Image.open(io.BytesIO(rows["edges"][0])).size
    (40, 30)
    >>> rows["edges"][1], rows["error"]
    (None, [None, 'b.png is not an image that can be read; give a PNG, JPEG, ... or PPM file'])

    Args:
        kinds: names in `KINDS`.
        scales: that images are resized to; the outputs are averaged.
        device: where the network runs; by default a GPU if there is one.
        weights: as `EdgeDetector` takes them.
        threads: for decoding and encoding; by default as many as there are cores beside a GPU, and
            two beside a network on the CPU, which has the cores itself.
        fast: as `EdgeDetector` takes it.
    """

    def __init__(
        self,
        kinds: Sequence[str] = ("edges",),
        scales: Sequence[float] = (1.0,),
        device: str | None = None,
        weights: nn.Module | str | os.PathLike[str] = EDGE_MODEL,
        threads: int | None = None,
        fast: bool = False,
    ) -> None:
        from hnets.devices import cores, preferred
        from hnets.predict.edge_detector import EdgeDetector

        for kind in kinds:
            if kind not in KINDS:
                raise InputError(f"there is no kind {kind!r} of edges{suggest(kind, KINDS)}")
        self.kinds, self.scales = tuple(kinds), tuple(scales)
        device = device or preferred()
        self.detector = EdgeDetector(weights, device, fast)
        self.threads = threads or (2 if device == "cpu" else cores())

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """The columns of a batch, ``bytes`` replaced by one per kind and by ``error``.

        ``path`` names the images. A row has either all kinds, as the bytes of a file, or an error;
        one that comes with an error keeps it.
        """
        number = len(batch["path"])
        table = {name: list(values) for name, values in batch.items() if name != "bytes"}
        table |= {kind: [None] * number for kind in self.kinds}
        errors = table.setdefault("error", [None] * number)
        rows = [row for row in range(number) if not errors[row]]

        def encode(_: int, renderings: Renderings) -> dict[str, bytes]:
            files = dict[str, bytes]()
            for kind, save in renderings:
                file = io.BytesIO()
                save(file)
                files[kind] = file.getvalue()
            return files

        images = (EncodedImage(str(batch["path"][row]), batch["bytes"][row]) for row in rows)
        for position, result in self.stream(images, encode):
            cells = {"error": str(result)} if isinstance(result, InputError) else result
            for name, value in cells.items():
                table[name][rows[position]] = value
        return table

    def stream(
        self, images: Iterable[EncodedImage], finish: Callable[[int, Renderings], Result]
    ) -> Iterator[tuple[int, Result | InputError]]:
        """The position of each image, and what ``finish`` makes of its edges, as they get ready.

        ``finish`` is called by threads, with the position and what writes each kind to a file, one
        at a time, since images may be large. An `InputError` of its own, or of an image that cannot
        be read, takes the place of its result; other errors end the work.
        """
        # Decoders warn of odd metadata. Ignored here for all threads: each of them would restore
        # what another one had changed.
        with (
            warnings.catch_warnings(action="ignore"),
            ThreadPoolExecutor(self.threads, "hnets-edges") as pool,
        ):
            try:
                yield from self._scheduled(enumerate(images), pool, finish)
            finally:
                pool.shutdown(cancel_futures=True)

    def _scheduled(
        self,
        todo: Iterator[tuple[int, EncodedImage]],
        pool: ThreadPoolExecutor,
        finish: Callable[[int, Renderings], Result],
    ) -> Iterator[tuple[int, Result | InputError]]:
        """Threads open, decode and finish images; the network computes in the calling thread."""
        done = SimpleQueue[tuple[_Step, Future[Any]]]()
        active = Counter[str]()  # steps that are waiting for a thread or on one
        opened = deque[_Step]()  # images whose size is known
        decoded = defaultdict[tuple[int, ...], list[tuple[_Step, NDArray[np.uint8]]]](list)
        held = 0  # pixels that are decoded, or about to be

        def start(step: _Step, function: Callable[..., Any], *arguments: Any) -> None:
            active[step.stage] += 1
            future = pool.submit(function, *arguments)
            future.add_done_callback(lambda future: done.put((step, future)))

        while True:
            while active["open"] + len(opened) < 2 * self.threads:
                if (following := next(todo, None)) is None:
                    break
                start(_Step("open", *following), _pixels, following[1].content)
            while opened and (not held or held + opened[0].pixels <= _HELD):
                step = opened.popleft()
                held += step.pixels
                start(step._replace(stage="decode"), _decoded, step.image)
            # A batch that is not full waits for images that are on their way.
            waiting = active["decode"] or (active["open"] and not opened)
            largest = max(
                decoded, key=lambda shape: len(decoded[shape]) * math.prod(shape), default=()
            )
            batch = decoded.get(largest, [])
            if batch and not (waiting and len(batch) < self.detector.at_once(largest, self.scales)):
                del decoded[largest]
                edges = self.detect([image for _, image in batch])
                for (step, image), each in zip(batch, edges, strict=True):
                    renderings = self.render(image, each)
                    start(step._replace(stage="finish"), finish, step.position, renderings)
                del batch, image, edges, each, renderings  # else they are held until the next ones
                continue
            if not active.total():
                return
            step, future = done.get()
            active[step.stage] -= 1
            error = future.exception()
            if error is not None and not isinstance(error, InputError):
                raise error
            if step.stage == "open":
                opened.append(step._replace(pixels=future.result()))
            elif step.stage == "decode" and error is None:
                image = future.result()
                decoded[image.shape].append((step, image))
            else:
                held -= step.pixels
                yield step.position, error or future.result()

    def detect(self, images: list[NDArray[np.uint8]]) -> list[Any]:
        """What `render` needs of images of one size: strengths, or strengths and angles."""
        if {"orientation", "npz"}.isdisjoint(self.kinds):
            return [(strength, strength) for strength in self.detector(images, self.scales)]
        return self.detector.oriented(images, self.scales)

    def render(self, image: NDArray[np.uint8], edges: Any) -> Renderings:
        """The kinds of one image, each with what writes it to a file."""
        from hnets.predict.edge_detector import draw_edges

        strength, angle = edges
        for kind in self.kinds:
            if kind == "npz":
                yield kind, partial(np.savez, magnitude=strength, angle=angle)
            else:
                # Half the time of the usual level 6, and files that are 2 % larger.
                drawn = draw_edges(kind, image, strength, angle)
                yield kind, partial(drawn.save, format="PNG", compress_level=4)


class _Step(NamedTuple):
    """What threads do with an image: open, decode or finish it."""

    stage: str
    position: int
    image: EncodedImage
    pixels: int = 0


def _pixels(content: bytes | Path) -> int:
    """How many pixels an image has, by its header; 0 if that cannot be read."""
    if isinstance(content, Path) and not content.is_file():  # to open a pipe may wait for ever
        return 0
    try:
        with Image.open(_seekable(content)) as opened:
            return opened.width * opened.height
    except Exception:  # decoding it will say what is wrong
        return 0


def _decoded(image: EncodedImage) -> NDArray[np.uint8]:
    from hnets.data.image_file import LARGEST, read_image

    content = _seekable(image.content)
    return np.asarray(read_image(content, smallest=1, largest=2 * LARGEST, name=image.name))


def _seekable(content: bytes | Path) -> Path | io.BytesIO:
    return content if isinstance(content, Path) else io.BytesIO(content)


def write_edges(
    worker: EdgeWorker, images: Sequence[EncodedImage], names: Sequence[Path]
) -> Iterator[tuple[int, list[Path] | InputError]]:
    """Write the edges of images to files, which appear when they are complete.

    ``names`` are paths without endings, as `output_names` gives them; folders are made when they
    are needed. With the position of each image come its files, or what is wrong with it. What
    others would suffer from too, such as a full disk, is an `OSError` that ends the work.
    """

    def write(index: int, renderings: Renderings) -> list[Path]:
        paths = outputs_of(names[index], worker.kinds)
        for path, (_, save) in zip(paths, renderings, strict=True):
            try:
                with replacing(path) as part, part.open("wb") as file:
                    save(file)
            except OSError as error:
                if error.errno in FOR_ALL:
                    raise
                raise InputError(f"{path} cannot be written ({error.strerror})") from None
        return paths

    return worker.stream(images, write)
