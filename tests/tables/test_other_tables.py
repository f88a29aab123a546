"""Tables beside the comparison and the effects."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import synthetic
from memory import runs_of
from synthetic import realistic
from test_effect_tables import SCORES, SETS

import ablations
from ablations import stats
from ablations.errors import UserError
from ablations.runs import ALL_TASKS, Runs
from ablations.tables import TABLES, table_of
from ablations.tables.kinds import with_diverged

BASE = synthetic.spread(3100.0, 100.0, 20)  # on ant, where the best untrained policy has 1100


def rows_of(kind: str, runs: Runs) -> dict[tuple[str, str], Any]:
    return {(row.task, row.variant): row for row in table_of(runs, kind).itertuples()}


def test_failed_runs_never_reach_the_threshold(study_runs) -> None:
    failed = {("hopper", "brax", seed): "NaN" for seed in (1, 2, 3, 4, 5)}
    runs = study_runs(realistic(tasks=["hopper"]), units={"hopper": 2000.0}, failed=failed)
    rows = rows_of("efficiency", runs)
    brax, standard = rows["hopper", "brax"], rows["hopper", "standard"]
    assert (brax.n, brax.failed, brax.reached, brax.steps) == (3, 5, 3, math.inf)
    assert (standard.reached, 0 < standard.steps < 400_000) == (8, True)


def test_thresholds_are_those_of_comparable_settings(study_runs, tmp_path: Path) -> None:
    scores = {("hopper", v): 10.0 + np.arange(4) for v in ("a", "b")}
    scores["hopper", "c"] = 10 * scores["hopper", "a"]
    runs = study_runs(scores, units={"hopper": 4.0}, versus={"c": "c"})
    rows = rows_of("efficiency", runs)
    assert rows["hopper", "a"].threshold == rows["hopper", "b"].threshold == pytest.approx(10.5)
    assert rows["hopper", "c"].threshold == pytest.approx(115 - 1)
    synthetic.trivial(tmp_path, {"ant": (1100.0, 300.0)})
    plan = synthetic.study(tmp_path, {("ant", "base"): BASE, ("ant", "same"): BASE})
    rows = rows_of("efficiency", Runs.read(tmp_path, plan))
    assert rows["ant", "base"].threshold == pytest.approx(1100 + 0.75 * 2000)


def test_aggregates_and_improvement_are_those_of_the_scores() -> None:
    runs = runs_of(SCORES, lost={("b", "plain_low", 7): "failed"})
    tasks = [SCORES[task, "plain_high"] for task in "ab"]
    rows = table_of(runs, "aggregates").set_index("variant")
    row = rows.loc["plain_high"]
    assert (row["tasks"], row.n, list(rows.failed)) == (2, 8, [1, 0, 0, 0])
    assert row["mean"] == pytest.approx(np.mean(tasks))
    assert row.task_IQM == pytest.approx(np.mean([scipy.stats.trim_mean(s, 0.25) for s in tasks]))
    assert row.task_IQM_low < row.task_IQM < row.task_IQM_high
    rows, chances = rows_of("improvement", runs), []
    for task, n in (("a", 8), ("b", 7)):
        chances.append(
            np.mean(SCORES[task, "plain_high"][:n, None] > SCORES[task, "plain_low"][:n])
        )
        assert rows[task, "plain_high"].improvement == pytest.approx(chances[-1])
    assert rows[ALL_TASKS, "plain_high"].n == 7
    assert ("a", "plain_low") not in rows


def test_power_rests_on_the_standard_deviation_of_the_pairs() -> None:
    rows = rows_of("power", runs_of(SCORES))
    row = rows["a", "plain_high"]
    assert len(rows) == 9
    sd = np.std(SCORES["a", "plain_high"] - SCORES["a", "plain_low"], ddof=1)
    assert row.sd == pytest.approx(sd)
    low, high = (sd * math.sqrt(7 / scipy.stats.chi2.isf(tail, 7)) for tail in (0.05, 0.95))
    for k in (0, 1, 4):
        ends = [stats.seeds_needed(k * 0.05, x, 0.05, 0.025 / 6) for x in (sd, low, high)]
        names = (f"seeds_at_{k}_margins{end}" for end in ("", "_low", "_high"))
        assert [getattr(row, name) for name in names] == pytest.approx(ends, nan_ok=True)
    assert row.seeds_at_2_margins_low > row.seeds_at_4_margins_low


def test_collapsed_runs_are_counted_from_doing_nothing_and_tested_exactly(tmp_path: Path) -> None:
    synthetic.trivial(tmp_path, {"ant": (1100.0, 300.0)})
    collapsed = [1500.0] * 9 + BASE[9:]  # half of the way is at 2100
    scores = {("ant", "base"): BASE, ("ant", "worse"): collapsed}
    plan = synthetic.study(tmp_path, scores, diverged=[("ant", "worse", 12)])
    base, worse = rows_of("stability", Runs.read(tmp_path, plan)).values()
    assert base.threshold == pytest.approx((1100 + np.median(BASE)) / 2)
    assert (base.collapse_rate, base.n, math.isnan(base.p_adjusted)) == (0, 20, True)
    assert (worse.collapse_rate, worse.n, worse.failed) == (0.5, 20, 1)
    exact = scipy.stats.binomtest(10, 20).proportion_ci(method="exact")
    assert (worse.collapse_rate_low, worse.collapse_rate_high) == pytest.approx(tuple(exact))
    p = scipy.stats.fisher_exact([[10, 10], [0, 20]]).pvalue
    assert worse.p_adjusted == pytest.approx(p)
    counted = [*collapsed[:12], 1100.0, *collapsed[13:]]
    assert worse.sd == pytest.approx(np.std(counted, ddof=1))


@pytest.mark.parametrize(("untrained", "counted"), [(5000.0, min(BASE)), (7.0, 7.0)])
def test_a_run_that_an_error_ended_is_no_result(untrained, counted, tmp_path: Path) -> None:
    synthetic.trivial(tmp_path, {"ant": (untrained, untrained)})
    lost = {"diverged": [("ant", "base", 0)], "broken": [("ant", "base", 1)]}
    plan = synthetic.study(tmp_path, {("ant", "base"): BASE}, **lost)
    counted_runs = with_diverged(Runs.read(tmp_path, plan)).scores["ant", "base"]
    assert counted_runs[0] == pytest.approx(counted)
    assert math.isnan(counted_runs[1])


def test_diagnostics_are_means_over_training(study_runs) -> None:
    points = ((1, 0.2), (2, 0.4), (4, 0.8))
    rows = [("v", seed, step, 1.0, seed / 10 + x) for seed in (0, 1) for step, x in points]
    columns = ["variant", "seed", "step", "return", "value/clip_fraction"]
    runs = Runs.from_frame(pd.DataFrame(rows, columns=columns), value="return", baseline="v")
    (row,) = table_of(runs, "diagnostics").to_dict("records")
    area = (0.2 * 1 + 0.3 * 1 + 0.6 * 2) / 4  # trapezoids, the first value from step 0 on
    assert (row["n"], row["value/clip_fraction"]) == (2, pytest.approx(area + 0.05))
    others = table_of(study_runs(realistic()), "diagnostics")
    assert list(others)[3::3] == ["training/length", "loss/value"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("power", "has no comparison with finished runs"),
        ("improvement", "has no comparison with finished runs"),
        ("aggregates", "no task with a learned range"),
        ("shares", "does not explain a gap: `ablations explain A B`"),
        ("efficiency", "has no finished run"),
        ("diagnostics", "has no finished run that logged diagnostics"),
        ("powr", "did you mean 'power'"),
    ],
)
def test_a_study_without_such_a_table_says_so(kind: str, reason: str, study_runs) -> None:
    with pytest.raises(UserError, match=reason):
        table_of(study_runs({("walker", "a"): [1.0]}, missing=[("walker", "a", 0)]), kind)


def test_captions_take_four_lines_and_python_gives_the_same_tables(study) -> None:
    scores = {place: 50 + values for place, values in SCORES.items()}
    plan, results = study(scores, units={"a": 30.0, "b": 20.0}, sets=SETS)
    for kind in {*TABLES} - {"shares"}:
        frame = table_of(Runs.read(results, plan), kind)
        assert len(textwrap.wrap(frame.attrs["caption"], 110)) <= 4, kind
        assert frame.equals(ablations.table("gae", results=results, kind=kind)), kind
