"""Validation of tasks: its rule on made-up scores, its reading of made-up curves."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from ablations import validation
from ablations.cli import main
from ablations.errors import UserError
from ablations.records import Record, write_record
from ablations.tables import format_table
from ablations.tasks import task as task_named
from ablations.validation import judge

FLOOR = {"zero": 100.0, "uniform": 40.0}
LEARNED = (190.0, 200.0, 210.0, 195.0, 205.0)  # 100 above the floor, of a deviation of 7.9
HIGH = (150.0, 151.0, 152.0, 153.0, 200.0)


def candidates(*scores, rise=0.0, failed=0) -> pd.DataFrame:
    """Candidates of one variant at several numbers of steps."""
    values = [(k, x) for k, each in enumerate(scores) for x in each or [math.nan]]
    frame = pd.DataFrame(values, columns=["steps", "score"])
    return frame.assign(variant="baseline", rise=rise, failed=failed)


def rows(*scores, most=None, failed=0, rise=0.0, floor=FLOOR) -> list[dict]:
    frame = judge("line", floor, candidates(*scores, rise=rise, failed=failed), most)
    assert list(frame.untrained[:2]) == [True, True]
    return frame[~frame.untrained].to_dict("records")


@pytest.mark.parametrize(
    ("scores", "options", "note"),
    [
        ([LEARNED], {}, ""),
        ([LEARNED], {"failed": 1}, "1 run failed"),
        ([[2 * s - 200 for s in LEARNED]], {}, ""),  # 6.3 deviations
        ([[3 * s - 400 for s in LEARNED]], {}, "4.2 of 5 SD above untrained policies"),
        ([[s - 100 for s in LEARNED]], {}, "no better than an untrained policy"),
        ([[s - 120 for s in LEARNED]], {}, "no better than an untrained policy"),
        ([[90.0, 90.0]], {}, "no better than an untrained policy"),
        ([[200.0]], {}, "fewer than two seeds"),
        ([[]], {}, "fewer than two seeds"),
        ([[], LEARNED], {"most": 500.0, "failed": 2}, "2 runs failed"),
        ([LEARNED, [299.0, 299.0]], {}, ""),  # half of the way to the best
        ([LEARNED, [301.0, 301.0]], {}, "50% of the way to the best"),
        ([[290.0, 292.0, 294.0]], {"most": 500.0}, "48% of the way to the best"),
        ([HIGH], {}, "2.8 of 5 SD above untrained policies"),  # a single highest is no ceiling
        ([(198.0, 190.0, 199.6, 199.8, 200.0)], {}, "60% of seeds at a ceiling"),
        ([(190.0, 191.0, 192.0, 193.0, 200.0), [200.0, 200.0]], {}, ""),  # one of five
    ],
)
def test_the_rule(scores, options, note) -> None:
    row = rows(*scores, **options)[0]
    assert (row["verdict"], row["note"]) == ("fails" if note else "passes", note)


def test_the_numbers_of_the_rule() -> None:
    (row,) = rows(LEARNED, rise=3.0, most=500.0)
    sd = float(np.std(LEARNED, ddof=1))
    assert (row["mean"], row["sd"], row["n"]) == (200, pytest.approx(sd), 5)
    assert row["lead"] == pytest.approx(100 / sd)
    assert (row["progress"], row["slope"], row["ceiling"]) == (100 / 400, 3 / 100, 0)
    assert rows([480.0, 499.0, 470.0], most=500.0)[0]["ceiling"] == pytest.approx(1 / 3)
    assert rows([200.0, 200.0])[0]["lead"] == math.inf
    frame = judge("line", FLOOR, candidates(HIGH, LEARNED), 500.0)
    assert frame.attrs["levels"]["line"] == {
        "untrained (zero)": 100.0,
        "untrained (uniform)": 40.0,
        "5 SD above untrained policies": pytest.approx(100 + 5 * sd),
        "50% of the way to the best": 300.0,
        "ceiling": 500.0,
    }
    levels = judge("line", FLOOR, candidates(LEARNED)).attrs["levels"]["line"]
    assert "ceiling" not in levels


@pytest.mark.parametrize(("slope", "shift"), [(1.0, -500.0), (0.01, 0.0), (30.0, 7.0)])
def test_no_verdict_depends_on_the_zero_or_the_unit_of_the_return(slope, shift) -> None:
    def moved(values):
        return [slope * value + shift for value in values]

    before = rows(LEARNED, [280.0, 281.0], rise=3.0)
    floor = dict(zip(FLOOR, moved(FLOOR.values()), strict=True))
    after = rows(moved(LEARNED), moved([280.0, 281.0]), rise=slope * 3.0, floor=floor)
    for one, other in zip(before, after, strict=True):
        for name in ("lead", "progress", "ceiling", "slope"):
            assert other[name] == pytest.approx(one[name])
        assert other["note"] == one["note"]


def test_tasks_know_the_most_that_their_rules_allow() -> None:
    for name, length, most in (
        *(("cartpole", 500, 500.0), ("cartpole", 200, 200.0)),
        *(("breakout", 1000, None), ("cartpole_swingup", 1000, 1000.0)),
    ):
        assert task_named(name).most({"episode_length": length}) == most


# Runs


def written(results, curve, **options):
    """Plans of a validation with the records of `curve(cell)`, 30 evaluations each."""
    planned = validation.plans(**options)
    metric = planned[1].study.metric
    for cell in (cell for plan in planned for cell in plan.cells):
        columns = {"step": np.arange(1, 31) * 2048, metric: curve(cell)}
        write_record(results, Record(cell.hash, cell.config, "done"), columns)
    return validation.read(planned, results)


def test_each_third_of_a_run_is_a_run_of_ten_evaluations(tmp_path) -> None:
    def curve(cell):
        rise = 0.0 if cell.variant in ("zero", "uniform") else 1.0
        return 100.0 * cell.seed + rise * np.arange(1, 31)

    runs = written(tmp_path, curve, tasks=["fast"], rates=(1e-3,), seeds=(0, 1), steps=61_440)
    thirds = validation.candidates(runs[1], "fast").groupby("steps")
    assert list(thirds.groups) == [20_480, 40_960, 61_440]
    # The mean of evaluations 8, 9, 10 of ten, which are 1, 2 or 3 of the thirty apart.
    assert list(thirds.score.agg(tuple)) == [(9.0, 109.0), (18.0, 118.0), (27.0, 127.0)]
    assert list(thirds.rise.agg(set)) == [{2.0}, {4.0}, {6.0}]
    frame = validation.table(runs)
    assert list(frame["mean"]) == [50.0, 50.0, 59.0, 68.0, 77.0]
    assert list(frame.n[2:]) == [2, 2, 2]
    text = format_table(frame, "markdown")
    assert "| (zero)" in text.replace("fast |", "|")
    assert "% of the way to the best" not in text.partition("fails")[0].partition("|")[2]
    figure = validation.figure(runs, frame.attrs["levels"])
    (axes,) = figure.axes
    lines = {tuple(line.get_ydata()) for line in axes.get_lines()}
    assert tuple(50.0 + np.arange(1, 31)) in lines
    thresholds = (50.0, 50 + 5 * 100 / 2**0.5, 50 + (77.0 - 50) / 2)
    drawn = [line.get_ydata()[0] for line in axes.get_lines() if len(line.get_ydata()) == 2]
    assert sorted({round(y, 6) for y in drawn}) == pytest.approx(sorted(thresholds))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"baseline", "untrained (zero)", "untrained (uniform)"} <= set(labels)


def test_failed_runs_stay_in_the_table(tmp_path) -> None:
    def curve(cell):
        lost = cell.variant.endswith("0.003") or (cell.variant.endswith("0.001") and cell.seed)
        return [*np.arange(29.0), None if lost else 29.0]

    runs = written(tmp_path, curve, tasks=["fast"], rates=(1e-3, 3e-3), seeds=(0, 1), steps=30_720)
    *thirds, gone = validation.table(runs).query("~untrained").itertuples()
    assert [(row.n, row.failed) for row in thirds] == [(1, 1)] * 3
    assert (gone.n, gone.failed, gone.note) == (0, 2, "2 runs failed")


def test_a_language_task_starts_at_a_learning_rate_of_0(tmp_path) -> None:
    def curve(cell):
        return 0.5 + 0.01 * np.arange(1, 31) * (cell.config["numbers"]["learning_rate"] > 0)

    options = {"rates": (3e-4,), "seeds": (0, 1), "study": "policy_clipping"}
    runs = written(tmp_path, curve, tasks=["arithmetic"], **options)
    assert [of.variants for of in runs] == [["clip"], ["clip"]]
    assert list(validation.table(runs).variant) == ["(start)", *["clip"] * 3]
    assert validation.table(runs)["mean"].iloc[-1] == pytest.approx(0.5 + 0.27)
    assert "accuracy" in validation.figure(runs, {}).axes[0].get_ylabel()


def test_settings_reach_the_runs_that_they_concern() -> None:
    planned = validation.plans(
        ["hopper"],
        rates=(1e-3, 3e-3),
        presets=("sb3",),
        settings={"healthy_reward": 0.0, "epochs": 8},
        profile="evidence",
    )
    untrained, trained, presets = (plan.request for plan in planned)
    assert untrained["set"]["healthy_reward"] == presets["set"]["healthy_reward"] == 0.0
    assert trained["set"]["epochs"] == 8
    assert "epochs" not in {*untrained["set"], *presets["set"]}
    assert list(trained["vary"]["learning_rate"]) == [1e-3, 3e-3]
    _, trained = validation.plans(
        ["cartpole"], rates=(1e-4,), seeds=(0,), steps=61_440, study="q_learning"
    )
    assert [cell.config["trainer"]["name"] for cell in trained.cells] == ["pqn"]


@pytest.mark.parametrize(
    ("tasks", "options", "message"),
    [
        (["cartpole"], {"study": "q_learning", "presets": ["rejax"]}, "--presets are for PPO"),
        (["arithmetic"], {}, "arithmetic is a language task, but exam is a control study"),
        (["arithmetic", "cartpole"], {"study": "policy_clipping"}, "cartpole is a control task"),
        (["fast"], {"settings": {"evaluations": 3}}, "a validation decides evaluations and points"),
    ],
)
def test_what_makes_no_sense_is_refused(tasks, options, message) -> None:
    with pytest.raises(UserError, match=message):
        validation.plans(tasks, **options)


def test_the_command_plans(tmp_path, capsys) -> None:
    flags = ("--rates", "1e-3,3e-3", "--seeds", "2", "--dry-run", "--results", str(tmp_path))
    assert main(["validate", "fast", *flags]) == 0
    assert "8 runs" in capsys.readouterr().out
