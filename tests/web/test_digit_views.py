"""Views of the digit networks: how fast they are."""

import time

import pytest

from webserver import seven

pytest.importorskip("fastapi", reason='needs fastapi: pip install "hnets[web]"')

from hnets.web.digit_views import DigitViews


def test_an_update_while_the_dial_is_dragged_takes_less_than_100_ms() -> None:
    """CPU time on one core, the best of a few: other processes do not count."""
    digits, body, spent = DigitViews(), seven(), []
    for angle in range(0, 60, 10):
        before = time.process_time()
        digits.rotated(body, angle, 2)
        spent.append(time.process_time() - before)
    assert min(spent) < 0.1
