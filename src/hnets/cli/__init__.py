"""The ``hnets`` command: it parses, calls the library and prints.

Everything heavy is imported by the command that needs it.
"""

from hnets.cli import look  # noqa: F401 - a module's commands join the app when it is imported
from hnets.cli.app import app, main

__all__ = ["app", "main"]
