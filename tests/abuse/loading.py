"""What a child does with a batch of weight files: load each, and say in a line what came of it."""

from __future__ import annotations

import json
import signal
import sys
import traceback

import torch

import hnets

LIMIT = 20
"""Seconds after which a file counts as one that hangs."""


def load_all(whole: str, names: list[str]) -> None:
    """Print a line of JSON per file: the same values as the whole one, refused, or wrong."""
    expected = hnets.load(whole).state_dict()
    for name in names:
        signal.alarm(LIMIT)
        result = {"name": name}
        try:
            state = hnets.load(name).state_dict()
            same = state.keys() == expected.keys()
            # Bits, not values: a NaN is not even equal to itself.
            same = same and all(_bits(state[key]) == _bits(expected[key]) for key in expected)
            result |= {"loaded": "the same values"} if same else {"wrong": "other values"}
        except ValueError as error:
            clear = "\n" not in str(error) and name in str(error)
            result["refused" if clear else "wrong"] = str(error)
        except Exception:
            result["wrong"] = traceback.format_exc()[-1500:]
        signal.alarm(0)
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


def _bits(value: torch.Tensor) -> tuple[torch.dtype, bytes]:
    return value.dtype, value.numpy().tobytes()
