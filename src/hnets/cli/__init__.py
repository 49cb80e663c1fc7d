"""The ``hnets`` command: it parses, calls the library and prints.

Everything heavy is imported by the command that needs it.
"""

# A module's commands join the app when it is imported.
from hnets.cli import (  # noqa: F401
    boundaries,
    demo,
    digits,
    edges,
    export,
    inspect,
    look,
    quickstart,
    reproduce,
    search,
    train,
)
from hnets.cli.app import app, main

__all__ = ["app", "main"]
