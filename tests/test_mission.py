"""The design of the study `mission`, and the controls beside it."""

from __future__ import annotations

import os
from pathlib import Path

import forked

import variants
from ablations.engine.plan import plan
from ablations.request import Request
from benchmarks.mission import BLOCKS

ROOT = Path(__file__).resolve().parents[1]
SAME_SUMS = """
import jax, numpy as np
from benchmarks.mission_control import AXIS
keys = jax.random.split(jax.random.key(0), 5)
normal = [jax.random.normal(key, (64, 8)) for key in keys[:3]]
ends = [(jax.random.uniform(key, (64, 8)) < 0.1) * 1.0 for key in keys[3:]]
names = ("rewards", "values", "next_values", "termination", "truncation")
inputs = dict(zip(names, (*normal, *ends)), discount=0.99, gae_lambda=0.95)
ours, theirs = (AXIS[name].fn(**inputs) for name in ("associative_scan", "standard"))
np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
assert not np.array_equal(ours, theirs)
bug = AXIS["shifted"].fn
for share, same in ((0.0, 8), (0.25, 6), (1.0, 0)):
    (advantages, targets) = bug(**inputs, shifted_share=share)
    np.testing.assert_array_equal(targets, theirs[1])
    equal = (advantages[:-1] == theirs[0][:-1]).all(axis=0)
    assert equal.sum() == same
"""


def _hashes(study: str, *flags: str) -> list[str]:
    given = {
        flag.removeprefix("--"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)
    }
    return [cell.hash for cell in plan(Request(study, **given)).cells]


def of_a_process(program: str) -> None:
    """Run a program whose choices and studies are no other test's."""
    done = forked.run(["python", "-c", program], ROOT, dict(os.environ))
    assert done.returncode == 0, done.stderr


def test_blocks_are_the_design_each_run_once() -> None:
    selections = [of for block in BLOCKS for of in block.selections if of[0] == "mission"]
    ran = [name for of in selections if "1020-1039" not in of for name in _hashes(*of)]
    design = [
        name
        for task in ("walker2d", "halfcheetah")  # ant did not pass validation
        for name in _hashes("mission", "--profile", "evidence", "--tasks", task)
    ]
    assert sorted(ran) == sorted(design)
    assert len(design) == len(set(design)) == 2 * 416


def test_the_controls_are_what_they_say_and_no_choices_of_users() -> None:
    of_a_process(SAME_SUMS)
    assert "associative_scan" not in variants.axis("advantage")


VALIDATED = """
from pathlib import Path
import pytest
from ablations.answers.entries import read
from benchmarks.mission_control import VALIDATION, scores
frame = scores()
for task in read(Path("results/questions.toml")).task:
    runs = frame[(frame.task == task.name) & (frame.seed.isin(VALIDATION) | (frame.seed < 5))]
    by = {variant: part.score for variant, part in runs.groupby("variant")}
    if task.domain != "locomotion" or task.validation is None:
        assert "baseline" not in by
        continue
    floor, held = max(by["zero"].mean(), by["uniform"].mean()), by["baseline"]
    found = [len(held), floor, held.mean(), (held.mean() - floor) / held.std()]
    about = task.validation
    stated = [about.seeds, about.floor, about.score, about.lead]
    assert stated == pytest.approx(found, rel=0.02), task
"""


def test_the_validation_of_locomotion_is_the_one_that_was_run() -> None:
    of_a_process(VALIDATED)
