"""The command to start with: edges in a photograph at once, then two networks that learn digits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hnets.cli.command_line import app, make_folder, whole

if TYPE_CHECKING:
    import torch

EPOCH, READING = 4.5, 18.0
"""Seconds for an epoch of both networks, and for their predictions, on two CPU cores."""


@app.command()
def quickstart(
    out: Annotated[
        Path, typer.Option(help="Folder for the figure and its numbers.")
    ] = Path("quickstart-out"),
    epochs: Annotated[
        int,
        typer.Option(
            parser=whole(1, 1000), metavar="1..1000", help="How often each digit is learned from."
        ),
    ] = 24,
    seed: Annotated[
        int, typer.Option(parser=whole(0, 10**9 - 1), metavar="N", help="Which random weights.")
    ] = 1,
) -> None:  # fmt: skip
    """Train an H-Net and a plain CNN on upright digits, and test both on rotated ones."""
    import numpy as np
    from rich.console import Console

    from hnets import data, plot
    from hnets.predict import EdgeDetector
    from hnets.studies import find_image
    from hnets.studies import quickstart as study
    from hnets.train import joined
    from hnets.train.result import versions, write_json

    make_folder(out)
    plot.check_matplotlib()
    test = data.load("digits", "test")
    console = Console()

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)

    photo = np.asarray(find_image(None, "coffee"))
    figure = plot.edges_figure(photo, *EdgeDetector().oriented(photo))
    path = plot.save(figure, out / "edges.png", compact=True)
    say("The H-DSN that ships with hnets finds the edges in a photograph, and in the phases")
    say("of its feature maps which way they run.")
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    with joined() as team:
        say(
            "An H-Net (hnet_mnist) and a plain CNN (z2cnn) learn to read 1,000 handwritten digits, "
            f"all upright. This takes {_time(epochs, team.device)}."
        )
        networks = study.train_readers(epochs, seed, team, console)
        say(f"Now {len(test)} digits that they have not seen, rotated by all angles:")
        with console.status("reading digits with both networks"):
            readers = study.read_rotated(networks, test)
        facts = {"epochs": epochs, "seed": seed, "versions": versions(team.device)}
    console.print(study.accuracy_numbers(readers).rich())
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
    say(
        f"Neither has learned from a rotated digit. When digits rotate, the {hnet.name} goes from "
        f"{hnet.upright:.1f} to {hnet.rotated:.1f} %, the {plain.name} from {plain.upright:.1f} to "
        f"{plain.rotated:.1f} %. A 6 rotated by 180° looks like a 9: of the {hnet.name}'s "
        f"mistakes, {hnet.mixed_up(6, 9):.0f} % mix them up."
    )
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    say("Try next: hnets edges photo.jpg, hnets digits photo.png, hnets demo")


def _time(epochs: int, device: torch.device) -> str:
    if device.type == "cuda":
        return "less than a minute on a GPU"
    seconds = epochs * EPOCH + READING
    about = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{round(seconds, -1):.0f} seconds"
    return f"about {about} on two CPU cores"
