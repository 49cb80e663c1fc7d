"""What a child does with a batch of image files: read each, and say in a line what came of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback

LIMIT = 20
"""Seconds after which a file counts as one that hangs."""


def read_all(names: list[str]) -> None:
    """Print a line of JSON per file: its size, or why it was refused, or what went wrong."""
    from hnets.data.image_file import ImageError, read_image

    errors = tempfile.TemporaryFile()  # noqa: SIM115
    os.dup2(errors.fileno(), 2)
    written = 0
    for name in names:
        signal.alarm(LIMIT)  # ends the process, in whatever library it is
        result: dict[str, object] = {"name": name}
        try:
            result["size"] = read_image(name, smallest=1).size
        except ImageError as error:
            result["refused"] = str(error)
        except BaseException:
            result["traceback"] = traceback.format_exc()[-1500:]
        signal.alarm(0)
        sys.stderr.flush()
        size = os.fstat(2).st_size
        if size != written:
            result["stderr"] = os.pread(2, size - written, written).decode(errors="replace")
            written = size
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
