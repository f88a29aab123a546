"""Tables beside the comparison and the effects; every kind of table in every format."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from pathlib import Path

import evaluated
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from synthetic import realistic
from test_effect_tables import SETS, finals

import ablations
from ablations import stats
from ablations.comparison import compare
from ablations.errors import UserError
from ablations.runs import ALL_TASKS, Runs
from ablations.tables import FORMATS, TABLES, format_table, table_of
from ablations.tables.kinds import with_diverged

UNITS = {"reacher": 30.0, "hopper": 2000.0}
SEEDS = 20
BASE = evaluated.spread(3100.0, 100.0, SEEDS)  # on ant, of which 1100 is the untrained policy's


def rows_of(kind: str, plan, results: Path) -> dict:
    return {(r.task, r.variant): r for r in table_of(Runs.read(results, plan), kind).itertuples()}


def test_failed_runs_never_reach_the_threshold(study) -> None:
    failed = {("hopper", "brax", seed): "NaN" for seed in (1, 2, 3, 4, 5)}
    rows = rows_of("efficiency", *study(realistic(tasks=["hopper"]), units=UNITS, failed=failed))
    brax, standard = rows["hopper", "brax"], rows["hopper", "standard"]
    assert (brax.n, brax.failed, brax.reached, brax.steps) == (3, 5, 3, math.inf)
    assert brax.note == "5 more runs failed than of standard"
    assert (standard.reached, standard.note) == (8, "")
    assert 0 < standard.steps < 400_000
    assert standard.auc_low < standard.auc < standard.auc_high


def test_thresholds_are_those_of_comparable_settings(study, tmp_path: Path) -> None:
    scores = {("hopper", v): 10.0 + np.arange(4) for v in ("a", "b")}
    scores["hopper", "c"] = 10 * scores["hopper", "a"]
    rows = rows_of("efficiency", *study(scores, units={"hopper": 4.0}, versus={"c": "c"}))
    assert rows["hopper", "a"].threshold == rows["hopper", "b"].threshold == pytest.approx(10.5)
    assert rows["hopper", "c"].threshold == pytest.approx(115 - 1)
    evaluated.trivial(tmp_path, {"ant": (1100.0, 300.0)})
    plan = evaluated.study(tmp_path, {("ant", "base"): BASE, ("ant", "same"): BASE})
    assert rows_of("efficiency", plan, tmp_path)["ant", "base"].threshold == pytest.approx(2600)


def test_aggregates_and_improvement_are_those_of_the_scores(study) -> None:
    scores = realistic()
    plan, results = study(scores, units=UNITS)
    runs = Runs.read(results, plan)
    lows = {task: runs.ranges[task, "standard"][0] for task in UNITS}
    scaled = [(np.array(scores[t, "brax"]) - lows[t]) / runs.size(t, "brax") for t in UNITS]
    row = table_of(runs, "aggregates").set_index("variant").loc["brax"]
    assert (row["tasks"], row.n, row.failed) == (2, 8, 0)
    assert row["mean"] == pytest.approx(np.mean(scaled))
    assert row.task_IQM == pytest.approx(np.mean([scipy.stats.trim_mean(s, 0.25) for s in scaled]))
    assert row.task_IQM_low < row.task_IQM < row.task_IQM_high
    rows = rows_of("improvement", plan, results)
    above = {}
    for task in UNITS:
        ours, theirs = np.array(scores[task, "brax"]), np.array(scores[task, "standard"])
        above[task] = np.mean(ours[:, None] > theirs)
        assert rows[task, "brax"].improvement == pytest.approx(above[task])
    assert rows[ALL_TASKS, "brax"].improvement == pytest.approx(np.mean(list(above.values())))
    assert ("hopper", "standard") not in rows


def test_power_rests_on_the_standard_deviation_of_the_pairs(study) -> None:
    scores = realistic()
    rows = rows_of("power", *study(scores, units=UNITS))
    row = rows["hopper", "brax"]
    assert len(rows) == 9
    sd = np.std(np.array(scores["hopper", "brax"]) - scores["hopper", "standard"], ddof=1)
    assert row.sd == pytest.approx(sd)
    low, high = (sd * math.sqrt(7 / scipy.stats.chi2.isf(tail, 7)) for tail in (0.05, 0.95))
    for k in (0, 1, 4):
        ends = [stats.seeds_needed(100.0 * k, x, 100.0, 0.025 / 6) for x in (sd, low, high)]
        names = (f"seeds_at_{k}_margins{end}" for end in ("", "_low", "_high"))
        assert [getattr(row, name) for name in names] == ends
    assert row.seeds_at_1_margins > row.seeds_at_2_margins > row.seeds_at_4_margins


def test_collapsed_runs_are_counted_from_doing_nothing_and_tested_exactly(tmp_path: Path) -> None:
    evaluated.trivial(tmp_path, {"ant": (1100.0, 300.0)})
    collapsed = [1500.0] * 9 + BASE[9:]  # half of the way is at 2100
    scores = {("ant", "base"): BASE, ("ant", "worse"): collapsed}
    plan = evaluated.study(tmp_path, scores, diverged=[("ant", "worse", 12)])
    rows = rows_of("stability", plan, tmp_path)
    base, worse = rows["ant", "base"], rows["ant", "worse"]
    assert base.threshold == pytest.approx((1100 + np.median(BASE)) / 2)
    assert (base.collapsed, base.n, math.isnan(base.p)) == (0, SEEDS, True)
    assert (worse.collapsed, worse.n, worse.failed) == (10, SEEDS, 1)
    exact = scipy.stats.binomtest(10, 20).proportion_ci(method="exact")
    assert (worse.collapse_rate_low, worse.collapse_rate_high) == pytest.approx(tuple(exact))
    assert worse.p == pytest.approx(scipy.stats.fisher_exact([[10, 10], [0, 20]]).pvalue)
    assert worse.p_adjusted == worse.p
    counted = np.sort([*collapsed[:12], 1100.0, *collapsed[13:]])
    assert worse.worst_quarter == pytest.approx(counted[:5].mean())
    assert worse.iqr == pytest.approx(scipy.stats.iqr(counted))
    areas = compare(Runs.read(tmp_path, plan, score="auc")).set_index(["task", "variant"])
    area = areas.loc[("ant", "worse")]
    assert (worse.area, worse.area_share) == (area.difference, area.share)
    assert worse.area_verdict == area.verdict == "worse"


@pytest.mark.parametrize(("untrained", "counted"), [(5000.0, min(BASE)), (7.0, 7.0)])
def test_a_run_that_an_error_ended_is_no_result(untrained, counted, tmp_path: Path) -> None:
    evaluated.trivial(tmp_path, {"ant": (untrained, untrained)})
    scores = {("ant", "base"): BASE, ("ant", "same"): BASE}
    lost = {"diverged": [("ant", "same", 0)], "broken": [("ant", "same", 1)]}
    runs = with_diverged(Runs.read(tmp_path, evaluated.study(tmp_path, scores, **lost)))
    assert runs.scores["ant", "same"][0] == pytest.approx(counted)
    assert math.isnan(runs.scores["ant", "same"][1])


def test_diagnostics_are_means_over_training(study) -> None:
    points = ((1, 0.2), (2, 0.4), (4, 0.8))
    rows = [("v", seed, step, 1.0, seed / 10 + x) for seed in (0, 1) for step, x in points]
    columns = ["variant", "seed", "step", "return", "value/clip_fraction"]
    runs = Runs.from_frame(pd.DataFrame(rows, columns=columns), value="return", baseline="v")
    (row,) = table_of(runs, "diagnostics").to_dict("records")
    area = (0.2 * 1 + 0.3 * 1 + 0.6 * 2) / 4  # trapezoids, the first value from step 0 on
    assert (row["n"], row["value/clip_fraction"]) == (2, pytest.approx(area + 0.05))
    frame = table_of(Runs.read(*study(realistic(), units=UNITS)[::-1]), "diagnostics")
    assert [name for name in frame if "/" in name and "_" not in name] == [
        "training/length",
        "loss/value",
    ]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("power", "compares nothing yet"),
        ("improvement", "compares nothing yet"),
        ("aggregates", "no task with a learned range"),
        ("shares", "explains no gap: `ablations explain A B` does"),
        ("efficiency", "has no finished run"),
        ("diagnostics", "has no finished run that logged any"),
        ("powr", "did you mean 'power'"),
    ],
)
def test_a_study_without_such_a_table_says_so(kind: str, reason: str, study) -> None:
    plan, results = study({("walker", "a"): [1.0]}, missing=[("walker", "a", 0)])
    with pytest.raises(UserError, match=reason):
        table_of(Runs.read(results, plan), kind)


@pytest.mark.parametrize("kind", sorted({*TABLES} - {"shares"}))
def test_every_kind_in_every_format(study, kind: str) -> None:
    nasty = {v.replace("plain", "pl<b>a&i|n"): s for v, s in SETS.items()}
    scores = {(t, v.replace("plain", "pl<b>a&i|n")): x for (t, v), x in finals().items()}
    plan, results = study(scores, units=UNITS, sets=nasty)
    frame = table_of(Runs.read(results, plan), kind)
    assert len(textwrap.wrap(frame.attrs["caption"], 110)) <= 4
    assert frame.equals(ablations.table("gae", results=results, kind=kind))
    texts = {form: format_table(frame, form, width=300) for form in FORMATS}
    assert len(list(csv.DictReader(io.StringIO(texts["csv"])))) == len(frame)
    assert len(json.loads(texts["json"])["rows"]) == len(frame)
    assert texts["html"].count("<tr>") == len(frame) + 1
    assert "<b>" not in texts["html"]
    for form in ("markdown", "terminal"):
        assert "nan" not in texts[form]
