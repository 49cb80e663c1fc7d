"""Random layer arguments: a clear error of ours, or an exactly equivariant layer."""

from __future__ import annotations

import json
from pathlib import Path

from abuse.harness import NewPart
from abuse.launcher import Launcher

BATCH = 100


def test_a_layer_is_refused_clearly_or_exactly_equivariant(
    part: NewPart, launcher: Launcher, tmp_path: Path
) -> None:
    attacked = part("Random layer arguments", "layers", share=0.04)
    for case in attacked.cases(4):
        first = case.number * BATCH
        seed = f"{attacked.seed}/layers"
        while first < (case.number + 1) * BATCH:
            arguments = {"seed": seed, "first": first, "last": (case.number + 1) * BATCH}
            outcome = launcher.call("abuse.building:build_all", tmp_path, 600, arguments=arguments)
            for result in map(json.loads, outcome.out.splitlines()):
                first = result["number"] + 1
                if "wrong" in result:
                    attacked.fail(case, f"{result['layer']}: {result['wrong']}")
                else:
                    attacked.count(result.get("built", "refused in one line"))
            if outcome.code or outcome.err:
                attacked.fail(case, f"layer {first}: code {outcome.code}, {outcome.err}")
                first += 1
    attacked.check()
