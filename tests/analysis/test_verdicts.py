"""No verdict contradicts its numbers, and verdicts follow the numbers alone."""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import memory
import numpy as np
import pandas as pd
import pytest
from memory import NOISE, SEEDS

from ablations.comparison import compare
from ablations.runs import ALL_TASKS, Runs
from ablations.tables import FORMATS, comparison, format_table

# Differences of a variant by seed, in learned ranges; the margin is 0.05.
PATTERNS = {**memory.PATTERNS, "a little up": np.full(SEEDS, 1 / 64)}
PAIRS = list(itertools.combinations_with_replacement(PATTERNS, 2))
OTHER = {"better": "worse", "worse": "better"}
Change = Callable[[str, np.ndarray], np.ndarray]


def points(task: str, variant: str, seed: int, score: float, mark: float, unit: float) -> list[Any]:
    """A curve that rises by the unit to its score. mark: makes its bits its own."""
    values = (score - unit, score - unit * (0.5 + mark), score)
    return [(task, variant, seed, step, x) for step, x in zip((10, 20, 100), values, strict=True)]


def frame_of(rows: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["task", "variant", "seed", "step", "value"])


def two_tasks(
    change: Change = lambda task, values: values,
    *,
    unit: float = 1.0,
    seeds: Sequence[int] = range(SEEDS),
    tasks: Sequence[str] = ("a", "b"),
    pairs: Sequence[tuple[str, str]] = tuple(PAIRS[::3]),
) -> pd.DataFrame:
    """The baseline, its twin to the bit, and a variant "x | y" per pair of patterns, one a task."""
    shared = {"a": np.arange(SEEDS) / 8, "b": NOISE[::-1]}
    rows = []
    for task in tasks:
        made = {name: (change(task, unit * shared[task]), 0.0) for name in ("base", "same")}
        for index, pair in enumerate(pairs):
            scores = unit * (shared[task] + PATTERNS[pair[task == "b"]])
            made[" | ".join(pair)] = (change(task, scores), (index + 1) / 4096)
        for name, (scores, mark) in made.items():
            for seed, old in enumerate(seeds):
                rows += points(task, name, seed, float(scores[old]), mark, unit)
    return frame_of(rows)


def compared(frame: pd.DataFrame, baseline: str = "base") -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = compare(Runs.from_frame(frame, baseline=baseline))
    return made[made.variant != baseline]


def verdicts(made: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Verdicts; tasks that disagree have a word of their own."""
    disagree = made.note == "tasks disagree"
    words = made.verdict.where(~disagree, "disagree")
    return dict(zip(zip(made.task, made.variant, strict=True), words, strict=True))


@functools.cache
def some() -> dict[tuple[str, str], str]:
    return verdicts(compared(two_tasks()))


def contradiction(row: Any, tasks: pd.DataFrame) -> str:
    """Return what of a row does not go with its verdict. tasks: rows of its single tasks."""
    low, high, word = row.difference_low, row.difference_high, row.verdict
    if not math.isnan(low) and not low <= row.difference <= high:
        return "the difference lies outside of its interval"
    if word in OTHER and not (row.pairs > 1 and (low > 0 if word == "better" else high < 0)):
        return "0 lies in the interval"
    if word == "equivalent" and not -row.margin < low <= high < row.margin:
        return "the interval leaves the margin"
    if word in OTHER and row.task == ALL_TASKS and OTHER[word] in set(tasks.verdict):
        return "a task is on the other side"
    if word == "equivalent" and row.task == ALL_TASKS and set(tasks.verdict) != {"equivalent"}:
        return "a task is not equivalent"
    decided = low > 0 or high < 0 or (-row.margin < low and high < row.margin)
    if word == "inconclusive" and decided and not row.note:
        return "the interval decides"
    return ""


def test_no_verdict_contradicts_its_row() -> None:
    made = compared(two_tasks(pairs=PAIRS))
    assert set(made.verdict) == {"better", "worse", "equivalent", "inconclusive"}
    assert set(made.note[made.variant == "same"]) == {"identical"}
    tasks = dict(list(made[made.task != ALL_TASKS].groupby("variant")))
    wrong = {
        (row.task, row.variant): why
        for row in made.itertuples()
        if (why := contradiction(row, tasks[row.variant]))
    }
    assert not wrong
    words = verdicts(made)
    above, below = {"within, above", "beyond", "above"}, {"below"}
    for one, other in PAIRS:
        if len({one, other} & above) == len({one, other} & below) == 1:
            assert words[ALL_TASKS, f"{one} | {other}"] == "disagree"


CHANGES: dict[str, Callable[[], pd.DataFrame]] = {
    "seeds": lambda: two_tasks(seeds=np.random.default_rng(0).permutation(SEEDS).tolist()),
    "tasks": lambda: two_tasks(tasks=("b", "a")),
    "order of rows": lambda: two_tasks().sort_values(["variant", "value"]),
    "a constant": lambda: two_tasks(lambda task, x: x + {"a": 1024.0, "b": -4096.0}[task]),
    "a large unit": lambda: two_tasks(unit=2.0**30),
    "a small unit": lambda: two_tasks(unit=2.0**-60),
}


@pytest.mark.parametrize("change", CHANGES)
def test_verdicts_stay_where_nothing_is_said_of(change: str) -> None:
    assert verdicts(compared(CHANGES[change]())) == some()


def test_names_say_nothing_and_lower_is_better_turns_verdicts() -> None:
    frame = two_tasks()
    renamed = frame.assign(task=frame.task.map({"a": "x", "b": "w"}), variant="v " + frame.variant)
    names = {"x": "a", "w": "b", ALL_TASKS: ALL_TASKS}
    made = verdicts(compared(renamed, "v base"))
    assert {(names[t], v.removeprefix("v ")): word for (t, v), word in made.items()} == some()
    mirrored = verdicts(compared(two_tasks(unit=-1.0)))
    assert mirrored == {place: OTHER.get(word, word) for place, word in some().items()}


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_few_seeds_decide_nothing_by_equal_differences(seeds: int) -> None:
    frame = two_tasks(pairs=[("up", "up")])
    made = verdicts(compared(frame[frame.seed < seeds]))
    assert {made[place] for place in made if place[1] == "up | up"} == {"inconclusive"}


@pytest.mark.parametrize("failed", ["base", "up | up", "beyond | beyond", "within | within"])
def test_a_failed_run_takes_verdicts_away_and_turns_none(failed: str) -> None:
    frame = two_tasks(pairs=[(name, name) for name in PATTERNS])
    before = verdicts(compared(frame))
    lost = (frame.task == "a") & (frame.variant == failed) & (frame.seed == 0) & (frame.step > 10)
    for place, word in verdicts(compared(frame.assign(value=frame.value.where(~lost)))).items():
        assert word in (before[place], "failed", "inconclusive", "disagree"), place
        assert word != "better" or place != ("a", failed)


@pytest.mark.parametrize("size", [1e300, 1e-300])
@pytest.mark.parametrize("everywhere", [False, True])
def test_extreme_numbers_break_no_format(size: float, everywhere: bool) -> None:
    rows = []
    for task, name in itertools.product(("a", "b"), ("base", "new", "worse")):
        for k in range(6):
            score = {"base": 1.0 + k / 8, "new": k % 3 - 1.0, "worse": -2.0}[name]
            if name == "new" or everywhere:
                score = size * (0.5 + score / 4)
            rows += points(task, name, k, score, len(name) / 64, size if everywhere else 1.0)
    frame = comparison(Runs.from_frame(frame_of(rows), baseline="base"))
    tasks = dict(list(frame[frame.task != ALL_TASKS].groupby("variant")))
    for row in frame[frame.variant != "base"].itertuples():
        assert contradiction(row, tasks[row.variant]) == ""
    for form in set(FORMATS) - {"csv"}:
        text = format_table(frame, form)
        assert "nan" not in text.lower()
        assert "inf]" not in text
