"""No word contradicts its row: not the sign, the interval, the margin, nor the tasks; and words
follow the numbers alone, not the names, the order or the units.

The dense cases are in `words.py`: every pair of twelve kinds of differences, one on either task.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from words import (
    LEVELS,
    MARGINS,
    NUMBERS,
    PAIRS,
    SEEDS,
    cell,
    contradiction,
    contradicts,
    pairs,
    plan_of,
    results_of,
    scores_of,
    side,
    table_of,
    two_tasks,
    warnings_are,
    words,
)

from ablations.core.plan import Looks
from ablations.report.formats import FORMATS, render
from ablations.report.statistics import (
    compare,
    not_the_best,
    seeds_to_decide,
    verdict,
)
from ablations.report.tables import ALL_TASKS, table

TURNED = {"better": "worse", "worse": "better", "higher": "lower", "lower": "higher"}


def turned(word: str | None) -> str | None:
    """The word for the negative difference."""
    if word is None:
        return None
    first, comma, rest = word.partition(",")
    return TURNED.get(first, first) + comma + rest


# One comparison


@given(pairs(), MARGINS, LEVELS)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_word_goes_with_its_comparison(both, margin, level) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare(*both, margin, level)
    word = verdict(found, margin)
    where = (found.difference, found.low, found.high, margin, found.n)
    assert contradicts(word, *where) == "", (word, found)
    assert side(word) in (0, found.sign)
    for p in (found.p, found.wilcoxon_p, found.p_equivalent, found.probability_of_improvement):
        assert p is None or 0 <= p <= 1
    if found.n < 2 or found.low is None:
        assert word in ("undecided", *(f"{one}, by an undecided amount" for one in TURNED))
    back = compare(*both[::-1], margin, level)
    assert verdict(back, margin) == turned(word)
    if word == "undecided" and found.low is not None:
        needed = seeds_to_decide(found, margin)
        known = [one for one in needed if one is not None]
        assert known == sorted(known)
        assert all(one > found.n for one in known)


@given(pairs(), MARGINS, st.randoms(use_true_random=False), st.integers(-40, 40))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_word_follows_no_order_of_seeds_and_no_unit(both, margin, random, power) -> None:
    both = tuple(np.where(np.abs(one) < 1e200, one, 1.0) for one in both)
    order = list(range(len(both[0])))
    random.shuffle(order)
    margin = margin and min(margin, 1e200)
    found = compare(*both, margin)
    assert verdict(compare(*(one[order] for one in both), margin), margin) == verdict(found, margin)
    if any(0 < abs(x) < 1e-200 for x in (*both[0], *both[1], margin or 0.0)):
        return
    in_another = [np.ldexp(one, power) for one in both]
    scaled = None if margin is None else margin * 2.0**power
    assert verdict(compare(*in_another, scaled), scaled) == verdict(found, margin)


@pytest.mark.parametrize("shift", [0.0, 1e-17, 1e-12, 15.0, -15.0, 1e300, 1e-300])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
def test_differences_that_are_all_the_same(n: int, shift: float) -> None:
    """By their sign, once so many are no chance; never by an amount, and never equivalent."""
    base = np.zeros(n)
    word = verdict(compare(base + shift, base, 1.0), 1.0)
    expected = "undecided"
    if n > 5 and shift:
        expected = f"{'better' if shift > 0 else 'worse'}, by an undecided amount"
    assert word == expected


def test_differences_within_rounding_are_none() -> None:
    """0.1 + 0.2 - 0.3 is not 0, on any seed."""
    found = compare(np.full(20, 0.1 + 0.2), np.full(20, 0.3), 0.05)
    assert (found.difference, found.p, found.sign) == (0.0, 1.0, 0)
    over = compare(np.full((2, 20), [[0.1 + 0.2], [1e6]]), np.full((2, 20), [[0.3], [1e6]]), 0.05)
    assert (over.difference, over.sign) == (0.0, 0)
    assert not not_the_best(np.array([np.full(20, 0.1 + 0.2), np.full(20, 0.3)])).any()


@given(st.lists(st.lists(NUMBERS, min_size=6, max_size=6), min_size=2, max_size=5))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_nobody_is_below_who_is_not(rows) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        below = not_the_best(rows)
    highest = max(range(len(rows)), key=lambda k: np.mean(np.asarray(rows[k]) / 1e10))
    assert not below.all()
    same = [k for k, row in enumerate(rows) if row == rows[highest]]
    assert len({bool(below[k]) for k in same}) == 1


# Tables


@functools.cache
def whole():
    return table_of(two_tasks())


def test_no_row_contradicts_its_word() -> None:
    made = whole()
    assert {made.entry(place, "same").verdict for place in made.places} == {"identical"}
    said = {(r.task, r.variant, r.verdict): contradiction(made, r) for r in made.rows if r.baseline}
    assert not {place: what for place, what in said.items() if what}
    assert {word.partition(" (")[0] for _, _, word in said} >= {
        "better",
        "worse",
        "equivalent",
        "undecided",
        "tasks disagree",
        "better, by an undecided amount",
        "worse, by an undecided amount",
    }


def test_tasks_that_are_surely_on_two_sides_disagree() -> None:
    """The issue's own: +15 and -15 on every seed were "better", by +0.00."""
    made = whole()
    above, below = {"up", "a little up", "beyond", "above", "within, above"}, {"down", "below"}
    for one, other in PAIRS:
        if len({one, other} & above) == len({one, other} & below) == 1:
            variant = f"{one} | {other}"
            assert made.entry(ALL_TASKS, variant).verdict == "tasks disagree", variant
    note = next(note for note in made.notes if "on up | down" in note)
    assert note.startswith("tasks disagree on up | down: better on a, worse on b")


def test_a_mean_on_the_other_side_of_a_task_is_no_word_for_both() -> None:
    """The mean lies above 0 for sure; of its tasks one is open, and the other below 0 for sure."""
    noise = np.array([1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 0.25, -0.25])
    above = noise + 3.2 * noise.std(ddof=1) / math.sqrt(8)  # t = 3.2, between 2.84 and 3.34
    cells = []
    for task, difference in (("a", above), ("b", np.full(8, -0.03))):
        base = np.arange(8) / 8
        for name, row, mark in (("base", base, 0.0), ("new", base + difference, 0.25)):
            cells += [cell(task, name, k, x, mark, 1.0) for k, x in enumerate(row)]
    made = table_of(cells)
    whole_ = made.entry(ALL_TASKS, "new")
    assert made.entry("a", "new").verdict == "undecided"
    assert made.entry("b", "new").verdict == "worse, by an undecided amount"
    assert whole_.difference_low > 0
    assert whole_.verdict == "tasks disagree"
    (note,) = (note for note in made.notes if "disagree" in note)
    assert "better on average, worse on b" in note


def few_pairs(*arguments, **how):
    return two_tasks(*arguments, **{"pairs": PAIRS[::3], **how})


@functools.cache
def some():
    return table_of(few_pairs())


CHANGES = {
    "seeds": lambda: few_pairs(seeds=np.random.default_rng(0).permutation(SEEDS).tolist()),
    "tasks": lambda: few_pairs(tasks=("b", "a")),
    "order of variants": lambda: sorted(few_pairs(), key=lambda one: (one.task, one.variant)),
    "a constant": lambda: few_pairs(lambda task, x: x + {"a": 1024.0, "b": -4096.0}[task]),
    "a large unit": lambda: few_pairs(unit=2.0**30),
    "a small unit": lambda: few_pairs(unit=2.0**-60),
    "a unit whose square is no float": lambda: few_pairs(unit=2.0**990),
    "a unit whose square is nothing": lambda: few_pairs(unit=2.0**-990),
}


@pytest.mark.parametrize("change", CHANGES)
def test_words_stay_where_nothing_is_said_of(change: str) -> None:
    assert words(table_of(CHANGES[change]())) == words(some())


def test_names_say_nothing() -> None:
    def named(one):
        return replace(one, task=named_row(one.task), variant=f"v {one.variant}")

    cells = [named(one) for one in few_pairs()]
    with warnings_are():
        made = table(results_of(plan_of(cells, "v base"), scores_of(cells)))
    expected = {(named_row(t), f"v {v}"): word for (t, v), word in words(some()).items()}
    assert words(made) == expected


def named_row(task: str) -> str:
    return {"a": "x", "b": "w"}.get(task, task)


def test_a_metric_that_is_better_lower_turns_the_words_alone() -> None:
    """As commands and imports have it: the metric is negated."""
    away = {"tasks disagree", "equivalent", "undecided", "identical", None}
    mirrored = words(table_of(few_pairs(unit=-1.0)))
    for place, word in words(some()).items():
        assert mirrored[place] == (word if word in away else turned(word)), place


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_few_seeds_decide_nothing_by_equal_differences(seeds: int) -> None:
    cells = [one for one in few_pairs() if one.seed < seeds]
    made = table_of(cells)
    for row in made.rows:
        assert not row.baseline or contradiction(made, row) == "", row
        if row.variant in ("up | up", "equal | equal") and row.baseline:
            assert row.verdict == ("one seed" if seeds == 1 else "undecided")


@pytest.mark.parametrize("size", [1e300, 1.7e308, 1e-300, 5e-324])
@pytest.mark.parametrize("kind", ["one", "all", "unpaired"])
def test_numbers_that_are_hardly_any_break_nothing(size: float, kind: str) -> None:
    """In one variant's scores, in all, and where only one side varies; in every format."""
    cells = []
    for task, name in itertools.product(("a", "b"), ("base", "new", "worse")):
        for k in range(6):
            score = {"base": 1.0 + k / 8, "new": k % 3 - 1.0, "worse": -2.0}[name]
            if name == "new" or kind == "all":
                score = size * (0.5 + score / 4 if kind != "unpaired" else 0.5)
            cells.append(cell(task, name, k, score, len(name) / 64, size if kind == "all" else 1.0))
    made = table_of(cells, strict=1e-300 <= size <= 1e300)
    for row in made.rows:
        assert not row.baseline or contradiction(made, row) == "", row
    for format_ in FORMATS:
        text = render(made, format_)
        assert "nan" not in text.lower().replace("dominan", "")
        assert "inf]" not in text
        assert max(map(len, text.splitlines())) < 4000


@pytest.mark.parametrize("failed", ["base", "up | up"])
def test_failures_take_words_away_and_turn_none(failed: str) -> None:
    cells = [
        replace(one, status="failed", value=math.nan)
        if (one.variant, one.seed, one.task) == (failed, 0, "a")
        else one
        for one in few_pairs()
    ]
    before, made = words(some()), table_of(cells)
    for row in made.rows:
        assert not row.baseline or contradiction(made, row) == "", row
        if row.baseline and row.verdict not in (before[row.task, row.variant], "undecided"):
            assert row.verdict in ("unstable", "unstable baseline") or row.task == ALL_TASKS


def test_at_looks_no_row_contradicts_its_word() -> None:
    """What `run --until decided` reads, and freezes."""
    seeds = [8, 12, SEEDS]
    few = [("up", "down"), ("noise", "within"), ("equal", "equal"), ("beyond", "one seed")]
    made = table_of(two_tasks(pairs=few), looks=Looks(tuple(seeds), 2, 1))
    for row in made.rows:
        assert not row.baseline or contradiction(made, row) == "", row
        assert row.n_pairs in (None, *seeds)
    assert made.entry(ALL_TASKS, "up | down").verdict == "tasks disagree"
    assert made.entry("a", "up | down").n_pairs < SEEDS, "so many equal ones are no chance"
    assert made.entry("a", "equal | equal").verdict == "undecided"
