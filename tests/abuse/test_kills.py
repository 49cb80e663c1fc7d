"""A training that is killed at any moment goes on as if it had not been."""

from __future__ import annotations

import shutil
from pathlib import Path

from abuse.harness import NewPart
from abuse.training import Tiny, refusal

ROUNDS = 6
"""Kills of one training before it is left alone."""


def test_kill_9_at_random_moments_costs_no_bit(part: NewPart, tiny: Tiny, tmp_path: Path) -> None:
    attacked = part("`kill -9` of a training", "kills", share=0.22, target=1_000)
    usual = tiny.seconds
    for case in attacked.cases(3):
        work = tmp_path / f"case-{case.number}"
        work.mkdir()
        kills = 0
        for _ in range(ROUNDS):
            stream = ("--set", f"data.stream={case.rng.choice(('true', 'false'))}")
            moment = case.rng.uniform(0, usual)
            outcome = tiny.train(work, "--resume", *stream, kill_after=moment)
            kills += outcome.code == -9
            if outcome.code != -9:
                usual = max(outcome.seconds, 0.8 * usual)  # the machine may be busier now
                break
        else:
            outcome = tiny.resume(work)
        wrong = None if outcome.code == 0 else refusal(outcome, 0) or "refused"
        wrong = wrong or tiny.difference(work)
        if wrong:
            attacked.fail(case, f"after {kills} kills: {wrong}; left in {work}")
            continue
        attacked.count("resumed, and the same bits in the end", kills)
        shutil.rmtree(work)
    attacked.check()
