"""``hnets models``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hnets.cli.command_line import app, check_page
from hnets.files import replacing


@app.command()
def models(
    name: Annotated[
        str | None, typer.Argument(help="Pretrained weights; by default, a summary of all.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all cards to a page, such as docs/models.md."),
    ] = None,
) -> None:
    """What trained networks are for: data, licence, scores, cost and limits."""
    from rich.console import Console
    from rich.markdown import Markdown

    from hnets.studies.model_cards import card_page, cards_page, models_numbers

    if page is not None:
        check_page(page)
    console = Console(highlight=False)
    console.print(Markdown(card_page(name)) if name else models_numbers().rich(), crop=False)
    if page is not None:
        with replacing(page) as part:
            part.write_text(cards_page(), encoding="utf-8")
        typer.echo(f"wrote {page}")
