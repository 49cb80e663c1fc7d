"""The ``hnets`` command: it parses, calls the library and prints."""

# A module's commands join the app when it is imported.
from hnets.cli import (  # noqa: F401
    cmd_bench_edges,
    cmd_demo,
    cmd_digits,
    cmd_edges,
    cmd_export,
    cmd_inspect,
    cmd_look,
    cmd_quickstart,
    cmd_reproduce,
    cmd_search,
    cmd_train,
)
from hnets.cli.command_line import app, main

__all__ = ["app", "main"]
