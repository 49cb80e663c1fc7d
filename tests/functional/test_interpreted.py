"""The Triton kernels where there is no GPU: Triton's interpreter runs them with NumPy."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[1] / "gpu" / "kernels"


@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton: pip install triton")
def test_kernels_agree_with_the_cpu_forms_in_the_interpreter() -> None:
    # In a process of its own: Triton decides at its import whether kernels are interpreted.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not gpu", "-p", "no:cacheprovider", KERNELS],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
