"""Runs: scores of curves, learned ranges, and what is read from records and from data frames."""

from __future__ import annotations

import dataclasses
import math
import shlex
import shutil

import numpy as np
import pandas as pd
import pytest
import synthetic
from msgspec import structs
from synthetic import realistic

from ablations import Runs
from ablations.core.files import SetAside
from ablations.curve import Curve
from ablations.engine.plan import plan as plan_of
from ablations.engine.plan import select
from ablations.errors import UserError
from ablations.parameters import parse_settings
from ablations.records import Record, cell_folder, read_plan, read_record, write_record
from ablations.request import Request
from ablations.runs import read_untrained, untrained_command
from ablations.scoring import auc, beyond_untrained, final, last, learned_range, mean, smoothed
from ablations.studies import definition, studies

STEPS = np.arange(1, 21) * 50
NAN = math.nan
FLOORS = {"hopper": (50.0, 200.0), "ant": (1100.0, 300.0)}
LEARNED = {
    ("hopper", "base"): synthetic.spread(1000, 40, 8),
    ("hopper", "other"): synthetic.spread(700, 40, 8, 1),
    ("ant", "base"): synthetic.spread(3100, 80, 8, 2),
    ("ant", "other"): synthetic.spread(2100, 80, 8, 3),
}


# Scores of one curve


@pytest.mark.parametrize(
    ("score", "steps", "values", "expected"),
    [
        (final, STEPS, np.arange(20.0), 18.5),  # the last tenth: two points
        (final, [100], [3.0], 3),
        (final, [0], [3.0], 3),
        (final, [100, 200, 300], [1.0, 2.0, 3.0], 3),
        (final, STEPS, [*np.arange(19.0), NAN], 18),
        (final, STEPS, [*np.arange(18.0), NAN, NAN], NAN),
        (final, [], [], NAN),
        (final, np.arange(1, 11) * 3 * 2**33, np.arange(10.0), 9),  # 0.9 * steps is inexact
        (mean, [1, 2, 9], [1.0, NAN, 4.0], 2.5),
        (mean, [1], [NAN], NAN),
        (last, [0, 1, 2, 3], [1, 2, 3, 4], 3),
        (last, range(6), [NAN, 1, NAN, 2, NAN, 6], 3),
        (last, range(3), [5, NAN, 6], NAN),
        (last, [], [], NAN),
        (auc, STEPS, np.full(20, 7.0), 7),
        (auc, [0], [3.0], 3),
        (auc, [0, 500, 1000], [0.0, 5.0, 10.0], 5),
        (auc, [50, 100], [2.0, 4.0], (2 * 50 + 3 * 50) / 100),  # the first value holds before
        (auc, [25, 50, 75, 100], [1.0, 2.0, 3.0, NAN], (25 + 37.5 + 62.5 + 75) / 100),
        (auc, [50, 100], [NAN, NAN], NAN),
    ],
)
def test_scores(score, steps, values, expected) -> None:
    assert score(steps, values) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("hole", [NAN, np.inf])
def test_an_area_bridges_holes_and_is_that_of_any_sampling(hole) -> None:
    steps = [25, 50, 75, 100]
    assert auc(steps, [1.0, hole, 3.0, 4.0]) == pytest.approx(auc(steps, [1.0, 2.0, 3.0, 4.0]))
    coarse, fine = np.array([1, 50, 100]), np.arange(1, 101)
    assert auc(coarse, 2.0 * coarse) == pytest.approx(auc(fine, 2.0 * fine))


# Learned ranges


def learned(steps, values) -> tuple[float, float]:
    return learned_range([Curve(np.asarray(steps), np.asarray(row, float)) for row in values])


def rising(seeds: int = 5, noise: float = 0.0, points: int = 20) -> np.ndarray:
    random = np.random.default_rng(0)
    return 10 * np.linspace(0, 1, points) + noise * random.normal(size=(seeds, points))


def test_a_smoothed_curve_is_the_mean_of_each_tenth_and_ends_with_the_final_score() -> None:
    values = np.random.default_rng(1).normal(size=(3, 20))
    smooth = smoothed(STEPS, values)
    np.testing.assert_allclose(smooth[:, 0], values[:, 0])
    np.testing.assert_allclose(smooth[:, 1:], (values[:, 1:] + values[:, :-1]) / 2)
    np.testing.assert_allclose(smooth[:, -1], [final(STEPS, row) for row in values])
    values[:, 4:6] = np.nan
    smooth = smoothed(STEPS, values)
    np.testing.assert_allclose(smooth[:, 4], values[:, 3])
    assert np.isnan(smooth[:, 5]).all()


def test_the_learned_range_goes_from_the_lowest_to_the_highest_point() -> None:
    curves = np.tile([3.0, 1, 1, 4, 8, 9, 9, 9, 5, 5], (4, 1)) + 0.01 * np.arange(4)[:, None]
    assert learned(range(1, 11), curves) == pytest.approx((1.015, 9.015))
    low, high = learned(STEPS, rising(noise=0.5))
    for factor in (2.0, 0.001):  # it scales and moves with the metric
        moved = learned(STEPS, factor * rising(noise=0.5) - 7)
        assert moved == pytest.approx((factor * low - 7, factor * high - 7))
    holes = rising(2)
    holes[:, 4:6] = np.nan
    assert learned(STEPS, holes) == learned(STEPS, rising(2))
    fine = learned(range(1, 201), rising(points=200))
    assert fine == pytest.approx(learned(range(1, 21), rising()), rel=0.05, abs=0.5)


@pytest.mark.parametrize(
    "curves", [np.full((5, 20), 3.0), rising(1), np.full((5, 20), np.nan), np.zeros((0, 20))]
)
def test_nothing_is_learned_by_level_single_and_empty_curves(curves) -> None:
    assert np.isnan(learned(STEPS, curves)).all()


@pytest.mark.parametrize("seeds", [3, 5, 8, 20])
@pytest.mark.parametrize("kind", ["white", "walk", "shared level"])
def test_noise_is_rarely_taken_for_learning(seeds: int, kind: str) -> None:
    random = np.random.default_rng([2, seeds])
    trials, wrong = 400, 0
    for _ in range(trials):
        curves = random.normal(size=(seeds, 20))
        if kind == "walk":
            curves = np.cumsum(curves, axis=1)
        elif kind == "shared level":
            curves += 10 * random.normal(size=(seeds, 1))
        wrong += not np.isnan(learned(STEPS, curves)).any()
    assert wrong / trials <= 0.065 + 0.012


@pytest.mark.parametrize("seeds", [4, 5, 8])
def test_learning_of_a_few_deviations_is_seen(seeds: int) -> None:
    random = np.random.default_rng([3, seeds])
    sizes = [
        np.diff(learned(STEPS, rising(seeds) + random.normal(size=(seeds, 20))))[0]
        for _ in range(200)
    ]
    assert np.isfinite(sizes).mean() > 0.95
    assert np.nanmedian(sizes) == pytest.approx(10, rel=0.15)


@pytest.mark.parametrize(
    ("floor", "scores", "learns"),
    [
        (0.0, synthetic.spread(100, 20, 8), True),
        (0.0, synthetic.spread(100, 20.1, 8), False),
        (200.0, synthetic.spread(100, 1, 8), False),
        (100.0, [100.0, 100.0], False),
        (99.0, [100.0, 100.0], True),
        (0.0, [100.0], False),
    ],
)
def test_a_baseline_stands_out_of_untrained_policies_by_five_deviations(floor, scores, learns):
    low, high = beyond_untrained(floor, scores)
    assert (low, high) == pytest.approx(
        (floor, np.mean(scores)) if learns else (NAN, NAN), nan_ok=True
    )


# Records


def status_of(runs: Runs, task: str, variant: str) -> list[str]:
    rows = runs.runs
    return list(rows[(rows.task == task) & (rows.variant == variant)].status)


def test_records_become_rows_and_curves(study) -> None:
    finals = {("hopper", "a"): [1.0, 2.0, 3.0], ("hopper", "b"): [4.0, 5.0, 6.0]}
    failed = {("hopper", "b", 1): "loss is not finite\nat some line"}
    plan, results = study(finals, failed=failed, missing=[("hopper", "a", 2)])
    runs = Runs.read(results, plan)
    assert status_of(runs, "hopper", "a") == ["done", "done", "missing"]
    assert status_of(runs, "hopper", "b") == ["done", "failed", "done"]
    assert list(runs.runs.score.dropna()) == [1, 2, 4, 6]
    assert list(runs.runs.reason) == ["", "", "", "", "step 200,000: loss is not finite", ""]
    assert runs.counts.loc["hopper", "b"].to_dict() == {
        **{"done": 2, "failed": 1, "missing": 0, "empty": 0}
    }
    assert set(runs.curves_of("hopper", "b")) == {0, 2}
    assert runs.curves_of("hopper", "b", "training/return")[2].steps[-1] == 400_000
    assert runs.failures(["hopper"], "b", "a") == 1
    assert runs.where(runs.runs.variant == "b").curves.variant.unique() == ["b"]
    assert Runs.read(results, "gae").runs.equals(runs.runs)


@pytest.mark.parametrize(
    ("values", "status"),
    [([1.0, None], "empty"), ([1.0, math.inf], "failed"), ([None, 2.0], "done")],
)
def test_nulls_and_infinities_are_told_apart(study, values, status) -> None:
    plan, results = study({("hopper", "a"): [1.0]})
    record = read_record(results, plan.cells[0].hash)
    shutil.rmtree(cell_folder(results, record.hash))
    columns = {"step": [1, 100], "training/return": values}
    write_record(results, Record(record.hash, record.config, "done"), columns)
    counts = Runs.read(results, plan).counts.loc["hopper", "a"]
    assert counts["failed"] == (status == "failed")
    assert counts["empty"] == (status == "empty")


@pytest.mark.parametrize("name", ["record.json", "curve.parquet"])
def test_a_damaged_record_is_missing_with_a_line(study, name) -> None:
    plan, results = study({("hopper", "a"): [1.0, 2.0]})
    (cell_folder(results, plan.cells[1].hash) / name).unlink()
    with pytest.warns(SetAside, match=plan.cells[1].hash):
        assert status_of(Runs.read(results, plan), "hopper", "a") == ["done", "missing"]


def test_a_profile_states_the_score_of_evaluations_alone(tmp_path) -> None:
    plan = synthetic.study(tmp_path, LEARNED)
    runs = Runs.read(tmp_path, plan)
    assert runs.score == "last"
    assert list(runs.scores["ant", "base"]) == pytest.approx(LEARNED["ant", "base"])
    assert Runs.read(tmp_path, plan, "training/return").score == "final"
    old = structs.replace(plan, study=structs.replace(plan.study, score=None))
    assert Runs.read(tmp_path, old).score == "final"
    assert plan_of(Request("exam", "evidence", variants=("baseline",))).study.score == "last"
    assert plan_of(Request("gae", "smoke")).study.score is None


def test_variants_come_after_their_baselines_in_the_order_of_the_study(study) -> None:
    finals = {(t, v): [1.0] for t in ("reacher", "ant") for v in ("x2", "base", "x", "y", "y2")}
    plan, results = study(finals, baseline="base", versus={"x2": "x", "y": "y", "y2": "y"})
    assert read_plan(results, "gae") == plan
    runs = Runs.read(results, plan)
    assert (runs.tasks, runs.variants) == (["reacher", "ant"], ["base", "x", "x2", "y", "y2"])
    circle = dataclasses.replace(runs, versus={"a": "b", "b": "a", "c": "absent"})
    assert circle.variants == ["a", "b", "c"]


def test_identical_runs_share_every_bit(study, study_runs) -> None:
    base = np.random.default_rng(0).normal(size=8)
    other = base.copy()
    other[3] = np.nextafter(other[3], 9)
    runs = study_runs({("hopper", "a"): base, ("hopper", "b"): base, ("hopper", "c"): other})
    assert runs.identical(["hopper"], "a", "b")
    assert not runs.identical(["hopper"], "a", "c")
    plan, results = study(
        {("hopper", v): base for v in "ab"},
        name="failed",
        failed={("hopper", v, 0): "NaN" for v in "ab"},
    )
    assert Runs.read(results, plan).identical(["hopper"], "a", "b"), "both failed at one step"


# Untrained policies and stored ranges


def test_the_range_goes_from_the_better_untrained_policy_to_the_baseline(tmp_path) -> None:
    plan = synthetic.study(tmp_path, LEARNED)
    curves = Runs.read(tmp_path, plan)
    synthetic.trivial(tmp_path, {"hopper": FLOORS["hopper"]})
    assert not Runs.read(tmp_path, plan).untrained, "of one of two tasks"
    synthetic.trivial(tmp_path, FLOORS)
    runs = Runs.read(tmp_path, plan)
    assert runs.floors == {"hopper": 200.0, "ant": 1100.0}
    for task, size in (("hopper", 800.0), ("ant", 2000.0)):
        for variant in ("base", "other"):
            assert runs.size(task, variant) == pytest.approx(size)
            assert curves.size(task, variant) != pytest.approx(size)
    areas = Runs.read(tmp_path, plan, score="auc")
    reach = areas.scores["ant", "base"].mean() - 1100
    assert areas.size("ant", "base") == pytest.approx(reach) != pytest.approx(2000)
    assert np.mean(runs.normalised("base")["ant"]) == pytest.approx(1)
    assert not Runs.read(tmp_path, plan, "training/return").untrained


def test_untrained_policies_need_the_settings_of_the_task(tmp_path) -> None:
    plan = synthetic.study(tmp_path, LEARNED)
    synthetic.trivial(tmp_path, FLOORS)

    def at_length(steps: int):
        task = {"name": "ant", "settings": {"episode_length": steps, "backend": "spring"}}
        cells = [structs.replace(c, config={**c.config, "task": task}) for c in plan.cells]
        return structs.replace(plan, cells=tuple(c for c in cells if c.task == "ant"))

    assert set(read_untrained(at_length(100), tmp_path, "evaluation/return")) == {"ant"}
    assert not read_untrained(at_length(200), tmp_path, "evaluation/return")


def test_the_command_that_evaluates_untrained_policies_has_the_settings_of_the_tasks() -> None:
    plan = plan_of(Request("exam", "evidence", variants=("baseline",)))
    lines = untrained_command(plan).split("; ")
    assert len(lines) == len(plan.tasks)
    for line in lines:
        words = shlex.split(line)
        assert words[:3] == ["ablations", "run", "trivial_policies"]
        task, sets = words[words.index("--tasks") + 1], words[words.index("--set") + 1 :]
        made = plan_of(Request("trivial_policies", tasks=(task,), set=parse_settings(sets)))
        (settings,) = {str(c.config["task"]) for c in plan.cells if c.task == task}
        assert {str(c.config["task"]) for c in made.cells} == {settings}
        assert made.cells[0].config["run"]["evaluations"] == 10


def test_a_profile_gives_the_baseline_more_seeds(monkeypatch) -> None:
    profile = dataclasses.replace(
        studies()["gae"].profiles["smoke"], seeds=2, baseline_seeds=5, tasks=("fast",)
    )
    study_of = dataclasses.replace(studies()["gae"], profiles={"smoke": profile})
    chosen = select(study_of, Request("gae", "smoke"))
    assert (chosen.seeds, chosen.of_baseline) == ((0, 1), (2, 3, 4))
    for flags in ({"seeds": (3, 4)}, {"until": "decided", "most_seeds": 32}):
        assert not select(study_of, Request("gae", "smoke", **flags)).of_baseline
    named = dataclasses.replace(profile, seeds=(7, 9), baseline_seeds=(7, 8, 9))
    assert (named.every_seed(), named.further_seeds()) == ((7, 9), (8,))
    monkeypatch.setitem(definition._STUDIES, "gae", study_of)
    made = plan_of(Request("gae", "smoke"))
    seeds = {v: [c.seed for c in made.cells if c.variant == v] for v in made.variants}
    assert seeds.pop(made.study.baseline) == [0, 1, 2, 3, 4]
    assert all(of == [0, 1] for of in seeds.values())


# Data frames


def long_table(**columns) -> pd.DataFrame:
    """Two variants, two seeds, ten steps; the values of `b`, seed 1 may be given."""
    rows = [
        {"variant": v, "seed": s, "step": 10 * k, "value": float(k + s)}
        for v in "ba"
        for s in (1, 0)
        for k in range(1, 11)
    ]
    frame = pd.DataFrame(rows)
    for name, values in columns.items():
        frame.loc[(frame.variant == "b") & (frame.seed == 1), name] = values
    return frame


def test_a_data_frame_has_the_scores_of_the_records_that_it_was_made_of(study) -> None:
    plan, results = study(realistic(), failed={("hopper", "brax", 2): "NaN"})
    stored = Runs.read(results, plan, columns=("loss/value",))
    frame = stored.curves.rename(columns={"task": "env", "variant": "algo", "training/return": "r"})
    frame = frame.sample(frac=1, random_state=0)
    columns = {"task": "env", "variant": "algo", "value": "r", "baseline": "standard"}
    runs = Runs.from_frame(frame.assign(task="hidden by env"), **columns)
    by_name = stored.scores.sort_index(axis=1)
    pd.testing.assert_frame_equal(runs.scores.sort_index(axis=1), by_name, check_names=False)
    assert runs.size("reacher", "brax") == pytest.approx(stored.size("reacher", "brax"))
    loss = Runs.read(results, plan, "loss/value", "mean")
    assert not loss.directed
    assert loss.scores["reacher", "brax"][3] == pytest.approx(
        stored.curves.query("task == 'reacher' and variant == 'brax' and seed == 3")[
            "loss/value"
        ].mean()
    )
    with pytest.raises(UserError, match="unknown metric 'loss/valeu': did you mean 'loss/value'"):
        Runs.read(results, plan, "loss/valeu")


@pytest.mark.parametrize(
    ("values", "score", "status", "reason"),
    [
        (range(10), 9.0, "done", ""),
        ([*range(8), NAN, NAN], NAN, "failed", "value is no finite number from step 90 on"),
        ([*range(9), math.inf], NAN, "failed", "value is no finite number from step 100 on"),
        ([0, NAN, NAN, 3, NAN, NAN, 6, 7, NAN, NAN], NAN, "done", ""),  # gaps as elsewhere
        ([NAN] * 10, NAN, "failed", "value is no finite number from step 10 on"),
    ],
)
def test_values_that_end_in_no_number_are_a_failure(values, score, status, reason) -> None:
    runs = Runs.from_frame(long_table(value=list(values)), baseline="a")
    row = runs.runs.set_index(["variant", "seed"]).loc[("b", 1)]
    assert (row.status, row.reason) == (status, reason)
    assert row.score == pytest.approx(score, nan_ok=True)
    assert (1 in runs.curves_of("all", "b")) == (status == "done")
    assert runs.variants == ["a", "b"]
    assert list(runs.versus) == ["b", "a"], "as in the table"


def test_a_column_of_status_has_the_last_word() -> None:
    frame = long_table(status="failed").fillna({"status": "done"})
    runs = Runs.from_frame(frame, baseline="a")
    assert list(runs.runs.status) == ["done", "failed", "done", "done"]
    frame = long_table(value=[NAN] * 10).assign(status="done")
    assert set(Runs.from_frame(frame, baseline="a").runs.status) == {"done"}
    with pytest.raises(UserError, match="unknown status 'ok'"):
        Runs.from_frame(frame.assign(status="ok"), baseline="a")


def test_a_table_of_scores_needs_neither_steps_nor_tasks() -> None:
    frame = pd.DataFrame({"variant": [0.5, 0.5, 0.9], "seed": [0, 1, 0], "score": [1.0, 2.0, 3.0]})
    runs = Runs.from_frame(frame, value="score", baseline=0.5)
    assert list(runs.runs.score) == [1, 2, 3]
    assert (runs.tasks, runs.variants, runs.metric) == (["all"], ["0.5", "0.9"], "score")
    assert math.isnan(runs.size("all", "0.9"))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda f: f, {"baseline": "c"}, "unknown baseline 'c': known: a, b"),
        (lambda f: f, {"value": "valeu"}, "unknown column 'valeu': did you mean 'value'"),
        (lambda f: f.drop(columns="seed"), {}, "no column 'seed': name yours with seed="),
        (lambda f: f.iloc[:0], {}, "the table has no rows"),
        (lambda f: f.assign(value="1 h"), {}, "the column 'value' has text: expected numbers"),
        (lambda f: f.assign(seed=0.5), {}, "the column of seeds must have whole numbers"),
        (lambda f: pd.concat([f, f]), {}, "two values for step 10 of task 'all', variant 'b'"),
    ],
)
def test_bad_tables_are_refused_in_one_line(change, options, message) -> None:
    with pytest.raises(UserError, match=message) as error:
        Runs.from_frame(change(long_table()), **{"baseline": "a", **options})
    assert "\n" not in str(error.value)
