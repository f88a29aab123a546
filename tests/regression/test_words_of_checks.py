"""What a check says goes with its numbers, whatever the numbers, their order and their unit."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from ablations.regression.check import Check, Terms, check
from ablations.regression.curves import Curves
from ablations.regression.messages import line, text

SEEDS, STEPS = 8, np.arange(1.0, 21.0)
_NOISE = np.random.default_rng(3).normal(size=(2, SEEDS))

# Scores by seed of a baseline that learns 1, and of new curves less those of the baseline
BASELINES = {"equal": np.zeros(SEEDS), "noise": 0.05 * _NOISE[0], "wide": _NOISE[0]}
CHANGES = {
    "identical": None,
    "no score": np.zeros(SEEDS),
    "up": np.full(SEEDS, 0.5),
    "down": np.full(SEEDS, -0.5),
    "a little down": np.full(SEEDS, -1 / 64),
    "one seed": np.where(np.arange(SEEDS) == 3, -4.0, 0.0),
    "ties": np.where(np.arange(SEEDS) % 2, -0.5, 0.0),
    "noise": 0.05 * _NOISE[1],
    "collapse": np.where(np.arange(SEEDS) % 2, -3.0, 1.0),
}


def curves(scores: np.ndarray, mark: float, unit: float = 1.0, add: float = 0.0) -> Curves:
    """Curves that learn 1 and end at their scores; mark: bits of their own, which no score sees."""
    rise = np.minimum(STEPS / 10, 1.0) - 1.0
    bits = mark * np.where(STEPS == 2, 1.0, np.where(STEPS == 4, -1.0, 0.0))
    return Curves(tuple(range(len(scores))), STEPS, unit * (scores[:, None] + rise + bits) + add)


def checked(baseline: str, change: str, paired: bool = False, **how) -> Check:
    old, moved = BASELINES[baseline], CHANGES[change]
    unit, add, order = how.get("unit", 1.0), how.get("add", 0.0), how.get("order", range(SEEDS))
    now = curves(old if moved is None else old + moved, 0.0 if moved is None else 0.25, unit, add)
    terms = Terms(paired=paired, alpha=0.02, higher_is_better=unit > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return check(curves(old, 0.0, unit, add), now.of(list(order)), terms)


CASES = list(itertools.product(BASELINES, CHANGES, (False, True)))


@pytest.mark.parametrize(("baseline", "change", "paired"), CASES)
def test_a_check_goes_with_its_rows(baseline: str, change: str, paired: bool) -> None:
    found = checked(baseline, change, paired)
    assert (found.verdict == "identical") == (change == "identical")
    sign = {"better": 1, "worse": -1}.get(found.verdict, 0)
    assert not sign or any(sign * row.difference > 0 for row in found.rows)
    if found.verdict == "worse":
        assert found.worst.difference < 0
        assert found.worst.p_worse <= found.terms.alpha
    if found.verdict == "better":
        assert found.best.difference >= found.design.effect
    if found.verdict in ("no worse", "better"):
        assert all(row.difference > -found.design.effect for row in found.rows)
    for row in found.rows:
        assert row.low <= row.difference <= row.high
    for said in (line("x", found), text({"x": found})):
        assert "nan" not in said
        assert "inf" not in said


MOVES = {
    "order of seeds": {"order": np.random.default_rng(1).permutation(SEEDS).tolist()},
    "a constant": {"add": 1024.0},
    "a large unit": {"unit": 2.0**40},
    "a small unit": {"unit": 2.0**-40},
    "a unit whose square is no float": {"unit": 2.0**990},
    "a unit whose square is nothing": {"unit": 2.0**-990},
    "lower is better": {"unit": -1.0},
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("baseline", BASELINES)
def test_words_of_checks_stay(baseline: str, move: str) -> None:
    for place, change in enumerate(CHANGES):
        paired = place % 2 == 1
        before = checked(baseline, change, paired).verdict
        assert checked(baseline, change, paired, **MOVES[move]).verdict == before, change
