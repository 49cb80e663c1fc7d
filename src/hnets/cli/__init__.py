"""The ``hnets`` command: it parses, calls the library and prints."""

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    try:
        # Imported here, so that an interrupt during imports is handled too.
        from hnets.cli.command_line import run

        run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("hnets: stopped\n")
        sys.exit(130)
