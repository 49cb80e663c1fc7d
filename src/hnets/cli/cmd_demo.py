"""``hnets demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from hnets.cli.command_line import app, whole
from hnets.errors import MissingExtra


@app.command()
def demo(
    port: Annotated[
        int, typer.Option(parser=whole(0, 65535), metavar="N", help="Port; 0 takes a free one.")
    ] = 8765,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="Whether to open the page in a browser.")] = True,
) -> None:
    """Open an interactive page: draw a digit, rotate it, and see what a network computes.

    Everything runs on this machine: the page loads nothing from elsewhere, and nothing that is
    drawn or dropped on it is written to disk. Ctrl-C stops it.
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
