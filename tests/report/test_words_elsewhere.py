"""No word contradicts its numbers in effects, shares and gates; of tables see
`test_words.py`."""

from __future__ import annotations

import functools
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from words import (
    MARGIN,
    PAIRS,
    PATTERNS,
    SEEDS,
    cell,
    contradicts,
    pairs,
    plan_of,
    results_of,
    scores_of,
    side,
    warnings_are,
)

from ablations import gate, looks
from ablations.core.plan import Detail, Explanation
from ablations.gate import run
from ablations.report.formats import FORMATS, render
from ablations.report.statistics import compare
from ablations.report.tables import ALL_TASKS
from ablations.report.tables.explained import GAP, INERT, shares_sheet
from ablations.report.tables.fractions import effects_sheet

# Effects of a factorial

SETS = {f"{i}{j}": {"p": i, "q": j} for i, j in itertools.product((0, 1), repeat=2)}


def factorial_of(first: tuple[str, str], second: str, both: str) -> list:
    """Cells of two tasks: what p does on either, what q does on both, and the two together."""
    cells = []
    for task, pattern in zip(("a", "b"), first, strict=True):
        for place, (name, of) in enumerate(SETS.items()):
            p, q = of["p"], of["q"]
            moved = p * PATTERNS[pattern] + q * PATTERNS[second] + p * q * PATTERNS[both]
            scores = np.arange(SEEDS) / 8 + moved
            cells += [cell(task, name, k, x, place / 64, 1.0) for k, x in enumerate(scores)]
    return cells


@functools.cache
def effect_rows(*patterns) -> list[dict]:
    cells = factorial_of(*patterns)
    with warnings_are():
        made = effects_sheet(results_of(plan_of(cells, "00", sets=SETS), scores_of(cells)))
    for format_ in FORMATS:
        assert "nan" not in render(made, format_)
    return made.records()


@pytest.mark.parametrize("second", ["equal", "up", "noise"])
@pytest.mark.parametrize("both", ["equal", "down", "within"])
def test_effects_go_with_their_words_and_their_tasks(second: str, both: str) -> None:
    for first in PAIRS[::4]:
        rows = effect_rows(first, second, both)
        for row in rows:
            word, tasks = (
                row["verdict"],
                [
                    one
                    for one in rows
                    if (one["factor"], one["level"]) == (row["factor"], row["level"])
                    and one["task"] != ALL_TASKS
                ],
            )
            where = (row["effect"], row["low"], row["high"], MARGIN, row["n"])
            if row["task"] == ALL_TASKS:
                signs = {side(one["verdict"]) for one in tasks}
                assert (word == "tasks disagree") >= ({1, -1} <= signs), (first, row)
                assert -side(word) not in signs - {0}, (first, row)
                if word == "equivalent":
                    assert all(one["verdict"] in ("equivalent", "identical") for one in tasks)
                    continue
            if word != "tasks disagree":
                assert contradicts(word, *where) == "", (first, row)


def test_opposite_effects_on_two_tasks_disagree() -> None:
    """They were "equivalent", as their mean is."""
    for pair, word in ((("up", "down"), "tasks disagree"), (("noise", "noise"), "undecided")):
        (whole_,) = (
            row
            for row in effect_rows(pair, "equal", "equal")
            if row["task"] == ALL_TASKS and row["factor"] == "p"
        )
        assert whole_["verdict"] == word


# Shares of a gap


def shares_of(one: str, two: str, bits: float = 0.25) -> list[dict]:
    """The rows of an explanation with two details. bits: of all other curves than the start's."""
    details = ("x", "y")
    at = {"s": (0, 0), "e": (1, 1), "s + x": (1, 0), "s + y": (0, 1)}
    at |= {"e - x": (0, 1), "e - y": (1, 0), "order 1": (1, 0), "reverse 1": (0, 1)}
    cells = []
    for name, (x, y) in at.items():
        scores = np.arange(SEEDS) / 8 + x * PATTERNS[one] + y * PATTERNS[two]
        mark = bits * (x + 2 * y)
        cells += [cell("a", name, k, score, mark, 1.0) for k, score in enumerate(scores)]
    about = Explanation(
        start="s",
        end="e",
        details={name: Detail({name: (0, 1)}, {}) for name in details},
        orders={str(seed): tuple(details) for seed in range(SEEDS)},
        held={},
    )
    with warnings_are():
        plan = plan_of(cells, "s", explanation=about)
        return shares_sheet(results_of(plan, scores_of(cells))).records()


@pytest.mark.parametrize("pair", PAIRS[::3], ids=" | ".join)
def test_shares_go_with_their_words(pair: tuple[str, str]) -> None:
    for row in shares_of(*pair):
        where = (row["share"], row["share_low"], row["share_high"], MARGIN, row["n"])
        assert contradicts(row["verdict"], *where) == "", row
        assert row["verdict"] != INERT


def test_what_cancels_does_act() -> None:
    """Seeds whose gaps sum to 0, and curves that end alike, are no case of "does not act"."""
    rows = {row["detail"]: row["verdict"] for row in shares_of("balanced", "equal")}
    assert rows[GAP] == "undecided"
    assert rows["y"] == "undecided", "its curves are other bits"
    same = {row["detail"]: row["verdict"] for row in shares_of("equal", "equal", bits=0.0)}
    assert set(same.values()) == {INERT}


# The gate


@given(pairs(), st.sampled_from([0.05, 1.0, 1e300]), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_gate_goes_with_its_interval(both, margin, last, better) -> None:
    found = compare(*both, level=0.02)
    word = gate.judged(found, margin, last=last, better=better)
    assert word not in ("identical", "fails", "unstable")
    if found.n < 2 or found.difference is None:
        assert word == "undecided"
        return
    low = found.difference if found.low is None else found.low
    high = found.difference if found.high is None else found.high
    assert (word != "better") or low > 0
    assert (word != "no worse") or (low > -margin and not better)
    assert (word != "worse") or (high < 0 and found.difference < 0)
    assert (word != "not better") or (better and high < margin)
    if found.low is None and 2.0 ** (1 - found.n) >= found.level:
        assert word == "undecided", "so few equal pairs may be chance"


@pytest.mark.parametrize(
    ("shift", "bits", "seeds", "word"),
    [
        (0.0, 0.0, 3, "identical"),
        (0.0, 0.25, 3, "undecided"),
        (0.0, 0.25, 9, "no worse"),
        (1.0, 0.25, 3, "undecided"),
        (1.0, 0.25, 9, "better"),
        (-1.0, 0.25, 9, "worse"),
        (-(2.0**-20), 0.25, 9, "no worse"),
    ],
)
def test_a_gate_says_identical_of_bits_alone(shift, bits, seeds: int, word: str) -> None:
    cells = []
    for name, moved, mark in ((run.BASELINE, 0.0, 0.0), (run.CHANGE, shift, bits)):
        rows = np.arange(seeds) / 8 + moved
        cells += [cell(run.TASK, name, k, x, mark, 1.0) for k, x in enumerate(rows)]
    design = looks.design((seeds, 32), 0.1)
    margin = SimpleNamespace(size=0.5, share=False)
    asked = object.__new__(gate.Gate)  # decides without a command, a plan and a folder
    asked.paired, asked.looks, asked.above = True, design, design
    asked.question = SimpleNamespace(better=False, name="gate", futility=0, margin=margin)
    found = asked.decide(design[0], scores_of(cells), ())
    assert found.word == word
    assert "nan" not in found.text
