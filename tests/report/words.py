"""Plans and scores in memory, made of differences that are hard to judge; what no word may do."""

from __future__ import annotations

import contextlib
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import replace

from ablations.core import plan as stored
from ablations.curve import Curve
from ablations.records import Plan
from ablations.report.results import Results
from ablations.report.scores import Cell, Scores, scores
from ablations.report.tables import ALL_TASKS, Entry, Table, table

SEEDS = 22  # enough for the sign test at the level that 200 comparisons leave
MARGIN = 0.05
Values = np.ndarray

_NORMAL = np.random.default_rng(7).normal(size=SEEDS)
_STANDARD = (_NORMAL - _NORMAL.mean()) / _NORMAL.std(ddof=1)

# Differences of a variant by seed, in what was learned, of which the margin is .05
PATTERNS: Mapping[str, Values] = {
    "equal": np.zeros(SEEDS),
    "up": np.full(SEEDS, 15.0),
    "down": np.full(SEEDS, -15.0),
    "a little up": np.full(SEEDS, 1 / 64),
    "ties": np.where(np.arange(SEEDS) % 3, 0.0, 0.25),
    "one seed": np.where(np.arange(SEEDS) == 3, 4.0, 0.0),
    "balanced": np.where(np.arange(SEEDS) % 2, 1.0, -1.0),
    "noise": 0.5 * _STANDARD,
    "within": 0.01 * _STANDARD,
    "within, above": 0.02 + 0.01 * _STANDARD,
    "beyond": 1.0 + 0.1 * _STANDARD[::-1],
    "below": -1.0 + 0.1 * _STANDARD[::-1],
    "above": 0.06 + 0.05 * _STANDARD,
}
PAIRS = list(itertools.combinations_with_replacement(PATTERNS, 2))


def cell(task: str, variant: str, seed: int, score: float, mark: float, unit: float) -> Cell:
    """A curve that rises by the unit to its score. mark: makes its bits its own."""
    steps = np.array([10, 20, 100])
    values = np.array([score - unit, score - unit * (0.5 + mark), score])
    return Cell(task, variant, seed, "done", score, curve=Curve(steps, values), hash=f"{mark}")


def scores_of(cells: Sequence[Cell], metric: str = "training/return") -> Scores:
    return Scores(metric, "final", tuple(cells), ())


def plan_of(
    cells: Sequence[Cell], baseline: str, looks: stored.Looks = stored.NO_LOOKS, **about: Any
) -> Plan:
    """about: more of the study; sets: variant -> what it sets."""
    tasks = list(dict.fromkeys(one.task for one in cells))
    variants = list(dict.fromkeys(one.variant for one in cells))
    sets = about.pop("sets", {})
    return Plan(
        request={"profile": "quick"},
        study=replace(
            stored.StoredStudy("s", "s", "s", "", baseline, MARGIN, False, "training/return"),
            **about,
        ),
        variants={
            name: stored.StoredVariant(None, "", sets.get(name, {}), same_as=name)
            for name in variants
        },
        tasks={task: stored.StoredTask(100, {}, "") for task in tasks},
        cells=tuple(
            stored.CellEntry(
                one.task,
                one.variant,
                one.seed,
                f"{one.task} {one.variant} {one.seed}",
                {"numbers": sets.get(one.variant, {})},
            )
            for one in cells
        ),
        looks=looks,
    )


def results_of(plan: Plan, *found: Scores) -> Results:
    """Return results of which these are the scores, the study's own first, without a record."""
    made = Results(plan, Path("nowhere"))
    for metric, of in [(None, found[0]), *((one.metric, one) for one in found)]:
        scores.kept.setdefault(made, {}).update({(metric, None): of, (metric, "final"): of})
    return made


@contextlib.contextmanager
def warnings_are(strict: bool = True) -> Iterator[None]:
    """Warn of nothing, if strict."""
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "ignore")
        yield


Change = Callable[[str, Values], Values]


def two_tasks(
    change: Change = lambda task, values: values,
    *,
    unit: float = 1.0,
    seeds: Sequence[int] = range(SEEDS),
    tasks: Sequence[str] = ("a", "b"),
    pairs: Sequence[tuple[str, str]] = tuple(PAIRS),
) -> list[Cell]:
    """The baseline, its twin to the bit, and a variant "x | y" for each pair of patterns, one on
    either task.

    change: of scores by seed. tasks: in the order of the plan. unit: what is learned, times a power
    of two.
    """
    shared = {"a": np.arange(SEEDS) / 8, "b": _STANDARD[::-1]}
    made = []
    for task in tasks:
        base = change(task, unit * shared[task])
        scale = abs(unit)
        rows = {"base": (base, 0.0), "same": (base, 0.0)}
        for place, pair in enumerate(pairs):
            pattern = PATTERNS[pair[task == "b"]]
            scores = change(task, unit * (shared[task] + pattern))
            rows[" | ".join(pair)] = (scores, (place + 1) / 4096)
        for name, (row, mark) in rows.items():
            made += [
                cell(task, name, seed, float(row[old]), mark, math.copysign(scale, unit))
                for seed, old in enumerate(seeds)
            ]
    return made


def table_of(cells: Sequence[Cell], strict: bool = True, **about: Any) -> Table:
    with warnings_are(strict):
        return table(results_of(plan_of(cells, "base", **about), scores_of(cells)))


def side(word: str) -> int:
    """Of 0 on which a word says that a difference lies."""
    sides = {"better": 1, "higher": 1, "worse": -1, "lower": -1}
    return sides.get(word.partition(",")[0], 0)


def contradicts(
    word: str,
    difference: float | None,
    low: float | None,
    high: float | None,
    margin: float | None,
    n: int,
) -> str:
    """What of a row the word does not go with; "" where nothing does not."""
    for number in (difference, low, high):
        if number is not None and not math.isfinite(number):
            return "no number"
    if (low is None) != (high is None):
        return "half an interval"
    if low is not None and not (difference is not None and low <= difference <= high):
        return "the difference is outside of its interval"
    if side(word):
        if n < 2 or difference is None or side(word) * difference <= 0:
            return "its sign"
        if low is not None and side(word) * (low if side(word) > 0 else high) <= 0:
            return "its interval"
    decided = side(word) and "undecided" not in word
    if decided and margin is not None and (low is None or max(low, -high) <= margin):
        return "its margin"
    if word == "equivalent" and (
        margin is None or low is None or not -margin < low <= high < margin
    ):
        return "its margin"
    if word == "identical" and difference not in (0, None):
        return "its difference"
    return ""


def words(made: Table) -> dict[tuple[str, str], str | None]:
    return {(row.task, row.variant): row.verdict for row in made.rows}


def contradiction(made: Table, row: Entry) -> str:
    """Of a row of a table with its own numbers, and with its tasks."""
    word = row.verdict or ""
    if row.task == ALL_TASKS:
        mine = [made.entry(task, row.variant) for task in made.tasks]
        each = [one for one in mine if one is not None]
        signs = {side(one.verdict or "") for one in each}
        if word not in ("tasks disagree", "one seed", "no pairs") and {1, -1} <= signs:
            return "tasks disagree"
        if side(word) and -side(word) in signs:
            return "a task"
        if word == "equivalent":
            same = all(one.verdict in ("equivalent", "identical") for one in each)
            return "" if same else "a task"
        if word == "tasks disagree":
            certain = {one.comparison.sign for one in (*each, row)}
            return "" if {1, -1} <= certain else "no task"
    return contradicts(
        word,
        row.difference,
        row.difference_low,
        row.difference_high,
        row.margin,
        row.n_pairs or 0,
    )


# Scores for one comparison

ATOMS = [0.0, 1.0, -1.0, 0.1, 1 / 3, -15.0, 15.0, 1e-17, 5e-324, 1e-300, -1e-300, 1e300, -1.7e308]
NUMBERS = st.one_of(st.sampled_from(ATOMS), st.floats(-10, 10, allow_subnormal=True))
MARGINS = st.sampled_from([None, 0.05, 1.0, 1e-300, 1e300])
LEVELS = st.sampled_from([0.05, 0.05 / 7, 0.05 / 1000])


@st.composite
def pairs(draw) -> tuple[np.ndarray, np.ndarray]:
    """Scores of n seeds and of their baseline; often with differences that are all the same."""
    n = draw(st.integers(0, 9))
    base = np.array(draw(st.lists(NUMBERS, min_size=n, max_size=n)), np.float64)
    shift = draw(st.one_of(NUMBERS, st.lists(NUMBERS, min_size=n, max_size=n)))
    with np.errstate(over="ignore"):
        scores = base + np.asarray(shift, np.float64)
    return np.clip(scores, -1.7e308, 1.7e308), base
