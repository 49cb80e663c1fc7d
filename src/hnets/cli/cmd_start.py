"""Commands to start with: ``hnets quickstart``, ``hnets turn`` and ``hnets demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

import hnets
from hnets.cli.command_line import Seed, app, keep_images, make_folder, whole
from hnets.errors import MissingExtra

if TYPE_CHECKING:
    import torch

FIGURE = "turn.png"
"""What `hnets turn` writes."""
EPOCH, READING = 4.5, 18.0
"""Seconds for an epoch of both networks, and for their predictions, on two CPU cores."""


@app.command()
def quickstart(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the figure and its numbers.")
    ] = Path("quickstart-out"),
    epochs: Annotated[int, whole(1, 1000, "Training epochs.")] = 24,
    seed: Seed = 1,
) -> None:
    """Train an H-Net and a plain CNN on upright digits, and test both on rotated ones."""
    import numpy as np

    from hnets import data, plot
    from hnets.predict import EdgeDetector
    from hnets.studies import find_image
    from hnets.studies import quickstart as study
    from hnets.train import joined
    from hnets.train.result import versions, write_json

    make_folder(out)
    plot.check_matplotlib()
    test = data.load("digits", "test")
    console = Console(markup=False, highlight=False)
    photo = np.asarray(find_image(None, "coffee"))
    figure = plot.edges_figure(photo, *EdgeDetector().oriented(photo))
    path = plot.save(figure, out / "edges.png", compact=True)
    console.print(
        "A network that ships with hnets finds the edges in a photograph, and in the phases "
        "of its feature maps which way they run."
    )
    typer.echo(f"wrote {path}")
    with joined() as team:
        console.print(
            "An H-Net (hnet_mnist) and a plain CNN (z2cnn) learn to read 1,000 handwritten digits, "
            f"all upright. This takes {_time(epochs, team.device)}."
        )
        networks = study.train_readers(epochs, seed, team, console)
        console.print(f"Now {len(test)} digits that they have not seen, rotated by all angles:")
        with console.status("reading digits with both networks"):
            readers = study.read_rotated(networks, test)
        facts = {"epochs": epochs, "seed": seed, "versions": versions(team.device)}
    console.print(study.accuracy_numbers(readers).rich(), crop=False)
    figure = plot.accuracy_figure(
        "Two networks that learned from upright digits read rotated ones",
        study.ANGLES,
        {each.name: each.accuracies for each in readers},
        study.shown_digits(readers, test),
        guessing=100 / len(test.classes),
    )
    facts |= {"angles": study.ANGLES, "networks": [each.facts() for each in readers]}
    write_json(facts, out / "quickstart.json")
    path = plot.save(figure, out / "quickstart.png", compact=True)
    hnet, plain = readers
    console.print(
        f"Neither has learned from a rotated digit. When digits rotate, the {hnet.name} goes from "
        f"{hnet.upright:.1f} to {hnet.rotated:.1f} %, the {plain.name} from {plain.upright:.1f} to "
        f"{plain.rotated:.1f} %. A 6 rotated by 180° looks like a 9: of the {hnet.name}'s "
        f"mistakes, {hnet.mixed_up(6, 9):.0f} % mix them up."
    )
    typer.echo(f"wrote {path}")
    console.print("Try next: hnets edges photo.jpg, hnets digits photo.png, hnets demo")


def _time(epochs: int, device: torch.device) -> str:
    if device.type == "cuda":
        return "less than a minute on a GPU"
    seconds = epochs * EPOCH + READING
    about = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{round(seconds, -1):.0f} seconds"
    return f"about {about} on two CPU cores"


@app.command()
def turn(
    image: Annotated[
        Path | None,
        typer.Argument(help="An image; by default one that comes with scikit-image."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the figure.")] = Path(
        "turn-out"
    ),
    size: Annotated[int, whole(64, 1024, "Side of the input in pixels.")] = 320,
    seed: Seed = 1,
) -> None:
    """Rotate an image, and see an untrained network's feature maps rotate with it."""
    from hnets import plot
    from hnets.studies import find_image, rotated_image

    plot.check_matplotlib()
    photo = find_image(image)
    keep_images(out / FIGURE, [image])
    make_folder(out)
    net, plain = rotated_image.example_network(seed), rotated_image.plain_network(seed)
    console = Console(markup=False, highlight=False)
    console.print(f"The network: two harmonic layers, for an image of {size}×{size} pixels")
    report, plain_report = (hnets.cost(each, (3, size, size)) for each in (net, plain))
    console.print(report, crop=False)
    console.print(
        f"A plain network of the same widths does as many multiplications and learns "
        f"{plain_report.parameters:,} values instead of {report.parameters:,}.\n"
    )
    console.print("Is it equivariant? A random smooth image and its feature maps, rotated")
    console.print(rotated_image.compared_numbers(net, plain).rich(), crop=False)
    console.print(
        "Each number is ‖f(rotated x) − rotated f(x)‖ / ‖f(x)‖. The weights are random: the "
        "network has learned nothing about rotation, and need not. Multiples of 90° are exact; "
        "between them is the error of working with pixels.\n"
    )
    console.print(f"Drawing the image and its feature maps, rotated by {rotated_image.ANGLE:g}°")
    figure = plot.rotation_figure(rotated_image.measure_rotation(photo, net, plain, size))
    path = plot.save(figure, out / FIGURE, compact=True)
    typer.echo(f"wrote {path}")


@app.command()
def demo(
    port: Annotated[int, whole(0, 65535, "Port; 0 takes a free one.", "N")] = 8765,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address to listen on; 0.0.0.0 lets other machines in."
        ),
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="Whether to open the page in a browser.")] = True,
) -> None:
    """Open an interactive page: draw a digit, rotate it, and see what a network computes.

    Everything runs on this machine: the page loads nothing from elsewhere, and
    nothing that is drawn or dropped on it is written to disk. Ctrl-C stops it.
    """
    try:
        from hnets.web.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "uvicorn"):
            raise
        raise MissingExtra("the page and its server", error.name, "web") from None

    def ready(address: str) -> None:
        typer.echo(f"The page is at {address} (Ctrl-C stops it)")
        if browser:
            import threading
            import webbrowser

            # A browser in a terminal returns when it is closed, and the server must not wait.
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()

    serve(host, port, ready)
