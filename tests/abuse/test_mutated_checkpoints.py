"""Damaged checkpoints and weights: refused in one line that names the file, or the same values."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from abuse.harness import NewPart
from abuse.launcher import Launcher
from abuse.training import CHECKPOINT, WEIGHTS, Tiny, refusal

BATCH = 50


def flip(content: bytearray, rng: random.Random, start: int, end: int) -> None:
    for _ in range(rng.choice((1, 1, 1, 3))):
        content[rng.randrange(start, end)] ^= 1 << rng.randrange(8)


def mutated(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """A damaged safetensors file, and which part of it was damaged."""
    header = 8 + int.from_bytes(content[:8], "little")
    changed = bytearray(content)
    what = rng.choice(
        ("length", "header", "metadata", "values", "values", "cut short", "longer", "rewritten")
    )
    if what == "length":
        flip(changed, rng, 0, 8)
    elif what == "header":
        flip(changed, rng, 8, header)
    elif what == "metadata":
        start = content.index(b"__metadata__")
        flip(changed, rng, start, min(header, start + 4000))
    elif what == "values":
        flip(changed, rng, header, len(changed))
    elif what == "cut short":
        del changed[rng.randrange(len(changed)) :]
    elif what == "longer":
        changed += rng.randbytes(rng.choice((1, 8, 1000)))
    else:
        what, changed = rewritten(content, header, rng)
    return what, bytes(changed)


def rewritten(content: bytes, header: int, rng: random.Random) -> tuple[str, bytearray]:
    """A file whose header is whole, and says something else."""
    told: dict[str, Any] = json.loads(content[8:header])
    names = [name for name in told if name != "__metadata__"]
    name, other = rng.choice(names), rng.choice(names)
    metadata = told.get("__metadata__", {})
    key = rng.choice(sorted(metadata)) if metadata else ""
    how = rng.choice(("metadata", "metadata", "dtype", "shape", "swap", "drop", "no metadata"))
    if how == "metadata" and metadata:
        value = rng.choice(
            (
                "", "[]", "{}", "null", "-1", "nan", "1e999", "[[]]", '"text"', "x" * 5000,
                '[{"epoch": 1}]', json.dumps([{"epoch": 1}] * 9), metadata[key][:-1],
                metadata[key].replace("1", "2"),
            )
        )  # fmt: skip
        metadata[key] = value
        how = f"metadata {key} = {value[:40]!r}"
    elif how == "dtype":
        told[name]["dtype"] = rng.choice(("F16", "BF16", "I32", "F64", "nothing"))
    elif how == "shape":
        told[name]["shape"] = rng.choice(([], [1], [*told[name]["shape"], 1], [2**40, 2**40], [-1]))
    elif how == "swap":
        told[name], told[other] = told[other], told[name]
    elif how == "drop":
        told[f"{name}x"] = told.pop(name)
    else:
        told.pop("__metadata__", None)
    text = json.dumps(told).encode()
    text += b" " * (-len(text) % 8)
    return how, bytearray(len(text).to_bytes(8, "little") + text + content[header:])


def test_a_damaged_checkpoint_is_refused_or_does_not_matter(
    part: NewPart, tiny: Tiny, tmp_path: Path
) -> None:
    attacked = part("Damaged checkpoints, `--resume`", "files", share=0.06)
    begun = tmp_path / "begun"
    begun.mkdir()
    stopped = tiny.stop_after(begun, checkpoints=2)
    assert stopped.code in (1, 2), stopped
    whole = (begun / "run" / "seed-1" / CHECKPOINT).read_bytes()
    for case in attacked.cases(25):
        work = tmp_path / "work"
        shutil.copytree(begun, work)
        path = work / "run" / "seed-1" / CHECKPOINT
        what, content = mutated(whole, case.rng)
        path.write_bytes(content)
        outcome = tiny.resume(work)
        if outcome.code == 0:
            wrong = f"on stderr: {outcome.err}" if outcome.err else tiny.difference(work)
            happened = "resumed, and the same bits in the end"
        else:
            wrong, happened = refusal(outcome, 2), "refused in one line that names the file"
            if not wrong and CHECKPOINT not in outcome.err:
                wrong = f"the file is not named: {outcome.err}"
        if wrong:
            kept = tmp_path / f"case-{case.number}"
            shutil.copy(path, kept)
            attacked.fail(case, f"{what}: {wrong}; see {kept}")
        else:
            attacked.count(happened)
        shutil.rmtree(work)
    attacked.check()


def test_damaged_weights_are_refused_or_the_same(
    part: NewPart, launcher: Launcher, tiny: Tiny, tmp_path: Path
) -> None:
    attacked = part("Damaged weights, `hnets.load`", "files", share=0.02)
    whole = tiny.folder / "seed-1" / WEIGHTS
    for case in attacked.cases(2):
        done = dict[str, str]()
        for number in range(BATCH):
            name = f"{number}.safetensors"
            done[name], content = mutated(whole.read_bytes(), case.rng)
            (tmp_path / name).write_bytes(content)
        arguments = {"whole": str(whole), "names": list(done)}
        outcome = launcher.call("abuse.loading:load_all", tmp_path, 600, arguments=arguments)
        results = [json.loads(line) for line in outcome.out.splitlines()]
        for result in results:
            if "wrong" in result:
                attacked.fail(case, f"{done[result['name']]}: {result}")
            else:
                same = "refused" not in result
                attacked.count("loaded, the same bits" if same else "refused in one line")
        if outcome.code or outcome.err or len(results) < BATCH:
            attacked.fail(case, f"{len(results)} files: {outcome.code}, {outcome.err[-1000:]}")
    attacked.check()
