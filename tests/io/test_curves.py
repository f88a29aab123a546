"""Curves from reading to verdict: what is logged elsewhere, cut, diverged, renamed or in another
order changes a verdict only as it must, in tables, in checks and after a round trip."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ablations.comparison import compare
from ablations.curve import Curve, diverged_from, logged, on_common_steps
from ablations.io.archives import archive, restore
from ablations.io.imports import import_runs
from ablations.records import read_plan
from ablations.regression import baselines
from ablations.regression.check import check, learned
from ablations.regression.curves import Curves, from_user
from ablations.runs import Runs
from ablations.scoring import learned_range

END = 20_000
SEEDS = 6
# The gain of each variant: a is what the others are compared with.
GAINS = {"a": 10.0, "same": 10.0, "worse": 7.0, "better": 13.0}
VERDICTS = {"same": "equivalent", "worse": "worse", "better": "better"}
Steps = np.ndarray
Run = tuple[Steps, np.ndarray]
Logs = dict[tuple[str, int], Run]
EVERY = np.arange(1, 21) * 1_000


def value(run: str, seed: int, steps: Steps) -> np.ndarray:
    """Odd seeds start 30 higher; the noise depends on the step alone, not on where others are."""
    noise = 0.05 * np.sin(1.7 * steps + 13 * seed + 5 * len(run))
    return 30 * (seed % 2) + GAINS[run] * np.sqrt(steps / END) + noise


def logs(steps: Callable[[int], Steps] = lambda seed: EVERY) -> Logs:
    return {
        (run, seed): (steps(seed), value(run, seed, steps(seed)))
        for run, seed in itertools.product(GAINS, range(SEEDS))
    }


def read(folder: Path, runs: Logs, *, blank: bool = False, baseline: str = "a") -> Runs:
    folder.mkdir(exist_ok=True)
    tables = [
        pd.DataFrame({"run": run, "seed": seed, "step": steps, "return": values})
        for (run, seed), (steps, values) in runs.items()
    ]
    pd.concat(tables).to_csv(folder / "runs.csv", index=False, na_rep="" if blank else "nan")
    import_runs(folder / "runs.csv", "s", folder, baseline=baseline)
    return Runs.read(folder, "s")


def compared(runs: Runs) -> pd.DataFrame:
    table = compare(runs)
    return table[table.task == "task"].set_index("variant")


def verdicts(runs: Runs) -> dict[str, str]:
    return dict(compared(runs).verdict[lambda words: words != ""])


def random_steps(seed: int) -> Steps:
    inner = np.random.default_rng(seed).choice(np.arange(200, END), 60, replace=False)
    return np.append(np.sort(inner), END)


ELSEWHERE: dict[str, Callable[[int], Steps]] = {
    "half a distance later": lambda seed: EVERY + 500 * (seed % 2),
    "each at its own": random_steps,
    "half as often": lambda seed: EVERY[1::2] if seed % 2 else EVERY,
    "ten times as often": lambda seed: np.arange(1, 201) * 100 if seed % 2 else EVERY,
    "from later on": lambda seed: EVERY[2 * (seed % 2) :],
    "with a line lost": lambda seed: np.delete(EVERY, 4 + seed) if seed % 2 else EVERY,
    "with an end a little earlier": lambda seed: EVERY[: 20 - seed % 2],
    "from step 0 on": lambda seed: np.append([0], EVERY) if seed % 2 else EVERY,
}


@pytest.mark.parametrize("steps", ELSEWHERE.values(), ids=ELSEWHERE)
def test_where_seeds_log_decides_no_verdict(tmp_path: Path, steps: Callable[[int], Steps]) -> None:
    runs = read(tmp_path, logs(steps))
    low, high = learned_range([Curve(EVERY, value("a", seed, EVERY)) for seed in range(SEEDS)])
    assert runs.size("task", "a") == pytest.approx(high - low, rel=0.25)
    assert verdicts(runs) == VERDICTS
    for run, seed in itertools.product(GAINS, range(SEEDS)):
        assert runs.curves_of("task", run)[seed].steps.tolist() == steps(seed).tolist()
    # No saw-teeth: the mean of curves that all rise does.
    _, values = on_common_steps([*runs.curves_of("task", "a").values()])
    assert np.diff(values.mean(axis=0)).min() > -0.2

    def curves(gain: float) -> Curves:
        marks = {seed: steps(seed) for seed in range(12)}
        shifts = {seed: (gain - GAINS["a"]) * np.sqrt(m / END) for seed, m in marks.items()}
        frames = [
            pd.DataFrame({"seed": seed, "step": m, "value": value("a", 2 * seed, m) + shifts[seed]})
            for seed, m in marks.items()
        ]
        return from_user(pd.concat(frames))

    baseline = curves(10.0)
    assert np.ptp(learned(baseline)) == pytest.approx(high - low, rel=0.25)
    assert check(baseline, curves(10.0)).identical
    baselines.write(tmp_path / "kept", "kept", {"": baselines.Group(baseline)})
    stored = baselines.read(tmp_path / "kept", "kept").groups[""].curves
    assert learned(stored) == learned(baseline)
    for old in (baseline, stored):
        for gain, outcome in ((9.9, "pass"), (7.0, "fail")):
            assert check(old, curves(gain)).outcome == outcome


def test_blanks_of_an_outer_join_are_no_points(tmp_path: Path) -> None:
    """Every seed has a line at the steps of all, and a value at its own."""
    own = logs(ELSEWHERE["half a distance later"])
    every = np.unique(np.concatenate([steps for steps, _ in own.values()]))
    joined = {}
    for place, (steps, values) in own.items():
        row = np.full(len(every), np.nan)
        row[np.searchsorted(every, steps)] = values
        joined[place] = (every, row)
    found = [read(tmp_path / "a", joined, blank=True), read(tmp_path / "b", own)]
    pd.testing.assert_frame_equal(compared(found[0]), compared(found[1]))


# Ends


# From which point on they are what
ENDINGS: dict[str, tuple[int, list[float]]] = {
    "cut": (9, []),
    "NaN from 45% on": (9, [math.nan]),
    "NaN in the last 5%": (19, [math.nan]),
    "infinite at the end": (19, [math.inf]),
    "minus infinity, then NaN": (17, [-math.inf, math.nan]),
    "never a number": (0, [math.nan]),
}


def ending(kind: str, steps: Steps, values: np.ndarray) -> Run:
    start, last = ENDINGS[kind]
    if not last:
        return steps[:start], values[:start]
    rest = [*last, *[last[-1]] * len(values)][: len(values) - start]
    return steps, np.append(values[:start], rest)


@pytest.mark.parametrize("kind", ENDINGS)
@pytest.mark.parametrize(
    ("steps", "blank"),
    [("half a distance later", False), ("each at its own", False), ("from step 0 on", True)],
)
def test_a_run_that_does_not_reach_its_end_has_failed(
    tmp_path: Path, kind: str, blank: bool, steps: str
) -> None:
    rows = logs(ELSEWHERE[steps])
    for seed in (1, 3):
        rows["better", seed] = ending(kind, *rows["better", seed])
    runs = read(tmp_path, rows, blank=blank)
    row = compared(runs).loc["better"]
    assert (row.n, row.failed, row.missing, row.verdict) == (4, 2, 0, "failed")
    assert verdicts(runs) == VERDICTS | {"better": "failed"}
    failed = runs.runs[runs.runs.status == "failed"]
    assert sorted(failed.seed) == [1, 3]
    assert all(failed.reason.str.contains("ended early" if kind == "cut" else "no finite number"))


@pytest.mark.parametrize("kind", ENDINGS)
def test_an_archive_keeps_every_comparison(tmp_path: Path, kind: str) -> None:
    rows = logs(ELSEWHERE["half a distance later"])
    for run, seed in (("better", 1), ("better", 3), ("a", 2)):
        rows[run, seed] = ending(kind, *rows[run, seed])
    for seed in range(SEEDS):
        rows["worse", seed] = ending(kind, *rows["worse", seed])
    del rows["same", 5]
    here = compared(read(tmp_path, rows))
    plan = read_plan(tmp_path, "s")
    archive([plan], tmp_path, tmp_path / "again" / "archive")
    restore(tmp_path / "again")
    there = Runs.read(tmp_path / "again", "s")
    pd.testing.assert_frame_equal(compared(there).loc[here.index], here)


def test_a_hole_is_no_divergence_and_a_longer_run_cuts_the_others(tmp_path: Path) -> None:
    rows = logs()
    rows["better", 0][1][7] = math.nan
    assert verdicts(read(tmp_path, rows)) == VERDICTS
    longer = np.arange(1, 41) * 1_000
    rows["a", 0] = (longer, value("a", 0, longer))
    row = compared(read(tmp_path, rows)).loc["a"]
    assert (row.n, row.failed) == (1, SEEDS - 1)


# The curve itself


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ([1, 2, 3], None),
        ([1, math.nan, 3], None),
        ([1, 2, math.nan], 2),
        ([1, math.nan, 3, math.nan, math.nan], 3),
        ([math.nan, math.nan, 3], None),
        # Logged less often than others: its last lines are like those between its values.
        ([1, math.nan, math.nan, 2, math.nan, math.nan, 3, math.nan], None),
        ([1, math.nan, math.nan, 2, math.nan, math.nan, 3, *[math.nan] * 3], 7),
        ([1, math.nan, math.nan, 2, math.inf], 4),
        ([math.nan, math.nan], 0),
        ([], None),
    ],
)
def test_where_a_log_stops_to_be_numbers(values: list[float], place: int | None) -> None:
    assert diverged_from(values) == place


@pytest.mark.parametrize(
    ("values", "status", "end"),
    [
        ([1.0, None, 3.0], "finished", 30),
        ([1.0, 2.0, None], "finished", 30),
        ([1.0, math.nan, None], "diverged", 20),
        ([None, math.inf, math.nan], "diverged", 20),
        ([None, None, None], "finished", 30),
    ],
)
def test_a_record_tells_no_value_from_no_number(values, status: str, end: float) -> None:
    found = logged([10, 20, 30], values)
    assert (found.status, found.end) == (status, end)
    assert logged([10, 20, 30], [1.0, 2.0, 3.0], complete=40).status == "cut"


def test_curves_are_read_off_where_all_have_begun_and_none_has_ended() -> None:
    found = Curve(np.array([10, 20, 30]), np.array([1.0, np.nan, 3.0])).at(np.array([9, 15, 31]))
    np.testing.assert_array_equal(found, [np.nan, 1.5, np.nan])
    curves = [Curve(np.arange(5, 50, 5), np.ones(9)), Curve(np.arange(8, 80, 9), np.zeros(8))]
    steps, values = on_common_steps(curves)
    assert (steps[0], steps[-1]) == (8, 45)
    assert np.isfinite(values).all()
    assert len(on_common_steps(curves, most=7)[0]) == 7
    apart = [curves[0], Curve(np.array([60, 70]), np.ones(2))]
    assert len(on_common_steps(apart)[0]) == 0
    rows = np.random.default_rng(0).normal(size=(4, 10))
    rows[1, 0] = np.nan
    steps, values = on_common_steps([Curve(np.arange(10), row) for row in rows])
    np.testing.assert_array_equal(values, rows)
    np.testing.assert_array_equal(steps, np.arange(10))
