"""Lets the API reference show doctests as code.

Docstrings here are Markdown with bare doctests, and Markdown reads ``>>>`` as a quotation. This
extension of griffe puts every doctest into a fence before the page is made.
"""

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^([ \t]*)>>> .*(?:\n[ \t]*\S.*)*", re.MULTILINE)


def fence(docstring: str) -> str:
    """Put each doctest (from its first ``>>>`` to the next blank line) into a pycon fence."""
    return _DOCTEST.sub(r"\1```pycon\n\g<0>\n\1```", docstring)


class DoctestFences(griffe.Extension):
    """Rewrites the docstring of every object that griffe reads."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called by griffe once for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = fence(obj.docstring.value)
