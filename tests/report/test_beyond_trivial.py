"""The unit beyond policies that learn nothing, the score of evaluations, and what tables say."""

from __future__ import annotations

import dataclasses
import math
import shlex
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from evaluated import curve, spread, study, trivial

from ablations.core.verdict import Answer, Verdict
from ablations.records import Plan
from ablations.report import formats
from ablations.report.figures import study_figures
from ablations.report.page.scorecard import scorecard
from ablations.report.results import Results
from ablations.report.scores import last, scores
from ablations.report.statistics import regress
from ablations.report.tables import ALL_TASKS, Table, table
from ablations.report.tables.efficiency import efficiency_sheet
from ablations.report.tables.stability import stability_sheet
from ablations.report.trivial import command
from ablations.report.trivial import trivial as trivial_of
from ablations.report.units import beyond, keep_units, units
from ablations.request import Request, parse_settings
from ablations.studies import definition, studies
from ablations.sweep.plan import plan as plan_of
from ablations.sweep.selection import select

SEEDS = 20
LEARNED = {
    ("hopper", "base"): spread(1000, 40, SEEDS),
    ("hopper", "same"): spread(1001, 10, SEEDS, 1),
    ("hopper", "worse"): spread(700, 40, SEEDS, 2),
    ("ant", "base"): spread(3100, 80, SEEDS, 3),
    ("ant", "same"): spread(3098, 20, SEEDS, 4),
    ("ant", "worse"): spread(2100, 80, SEEDS, 5),
}
FLOORS = {"hopper": (50.0, 200.0), "ant": (1100.0, 300.0)}


def made(results: Path) -> Table:
    return table(Results(study(results, LEARNED), results))


@pytest.mark.parametrize(
    ("values", "score"),
    [
        ([1, 2, 3, 4], 3.0),
        ([math.nan, 1, math.nan, 2, math.nan, 6], 3.0),
        ([5, math.nan, 6], math.nan),
        ([], math.nan),
    ],
)
def test_the_score_is_the_mean_of_the_last_three_evaluations(values: list, score: float) -> None:
    assert last(np.arange(len(values)), values) == pytest.approx(score, nan_ok=True)


def test_a_profile_says_its_score_and_only_that_of_evaluations(tmp_path: Path) -> None:
    results = Results(study(tmp_path, LEARNED), tmp_path)
    assert scores(results).score == "last"
    assert [c.value for c in scores(results).of("ant", "base")] == pytest.approx(
        LEARNED["ant", "base"]
    )
    assert scores(results, score="auc").score == "auc"
    assert scores(results, metric="training/return").score == "final"
    old = dataclasses.replace(results.plan.study, score=None)
    assert scores(Results(dataclasses.replace(results.plan, study=old), tmp_path)).score == "final"


def test_evidence_is_scored_by_its_last_evaluations_and_other_profiles_as_ever() -> None:
    assert plan_of(Request("exam", "evidence", variants=("baseline",))).study.score == "last"
    assert plan_of(Request("gae", "smoke")).study.score is None


@pytest.mark.parametrize(
    ("floor", "of", "learned"),
    [
        (0.0, spread(100, 20, 8), True),
        (0.0, spread(100, 20.1, 8), False),
        (200.0, spread(100, 1, 8), False),
        (100.0, [100.0, 100.0], False),
        (99.0, [100.0, 100.0], True),
        (0.0, [100.0], False),
    ],
)
def test_a_baseline_stands_out_by_five_deviations(floor: float, of: list, learned: bool) -> None:
    unit = beyond(floor, of)
    assert (unit is not None) == learned
    if unit is not None:
        assert unit.size == pytest.approx(np.mean(of) - floor)


def test_the_unit_is_the_baselines_score_less_the_better_trivial_policys(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    found = made(tmp_path)
    sizes = [row.unit for row in found.rows if row.baseline and row.task != ALL_TASKS]
    assert sizes == pytest.approx([800.0] * 2 + [2000.0] * 2)
    worse, same = found.entry("ant", "worse"), found.entry("ant", "same")
    assert worse is not None
    assert same is not None
    assert worse.margin == pytest.approx(100.0)
    assert worse.in_units is not None
    assert worse.in_units[0] == pytest.approx(-0.5)
    assert (worse.answer, same.answer) == (Answer.YES, Answer.NO)
    over = found.entry(ALL_TASKS, "worse")
    assert over is not None
    assert over.in_units is not None
    assert over.in_units[0] == pytest.approx((-0.5 - 0.375) / 2)
    baseline = found.entry(ALL_TASKS, "base")
    assert baseline is not None
    assert baseline.mean == pytest.approx(1.0)


def test_without_records_of_trivial_policies_the_table_is_as_it_was(tmp_path: Path) -> None:
    found = made(tmp_path)
    assert not found.answers
    assert {"answer", "policy"}.isdisjoint(found.columns)
    assert not any(row.policy for row in found.rows)
    trivial(tmp_path, {"hopper": FLOORS["hopper"]})  # on one of its tasks
    again = made(tmp_path)
    assert not again.answers
    assert [row for row in again.rows if not row.policy] == list(found.rows)


def test_policies_at_other_settings_of_the_task_are_none_of_its_trivial_ones(
    tmp_path: Path,
) -> None:
    plan = study(tmp_path, LEARNED)
    trivial(tmp_path, FLOORS)

    def at_length(n: int) -> Plan:
        task = {"name": "ant", "settings": {"episode_length": n, "backend": "spring"}}
        cells = [dataclasses.replace(c, config={**c.config, "task": task}) for c in plan.cells]
        return dataclasses.replace(plan, cells=tuple(c for c in cells if c.task == "ant"))

    assert set(trivial_of(Results(at_length(100), tmp_path), "evaluation/return")) == {"ant"}
    assert not trivial_of(Results(at_length(200), tmp_path), "evaluation/return")
    assert not trivial_of(Results(plan, tmp_path), "training/return")


def test_trivial_policies_are_rows_in_every_format(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    found = made(tmp_path)
    rows = {(row.task, row.variant): row for row in found.rows if row.policy}
    assert {place: row.mean for place, row in rows.items()} == {
        ("hopper", "(zero)"): 50.0,
        ("hopper", "(uniform)"): 200.0,
        ("ant", "(zero)"): 1100.0,
        ("ant", "(uniform)"): 300.0,
    }
    assert not any(row.best or row.tied for row in rows.values())
    for form in formats.FORMATS:
        text = formats.render(found, form)
        assert "(zero)" in text, form
        assert "Yes" in text, form
    assert list(found.dataframe()["policy"]).count(True) == 4


def test_a_baseline_that_learned_nothing_says_nothing_of_its_variants(tmp_path: Path) -> None:
    trivial(tmp_path, {**FLOORS, "hopper": (50.0, 900.0)})  # 2.5 deviations below the baseline
    found = made(tmp_path)
    worse, over = found.entry("hopper", "worse"), found.entry(ALL_TASKS, "worse")
    assert worse is not None
    assert (worse.verdict, worse.answer, worse.unit) == (Verdict.NOTHING_LEARNED, None, None)
    assert over is None
    assert any("nothing was learned" in note for note in found.notes)
    ant = found.entry("ant", "worse")
    assert ant is not None
    assert ant.answer is Answer.YES
    assert formats.words.answer(found).endswith("Nothing was learned by base on hopper.")
    assert "1 of 2 makes no difference that matters" in formats.words.answer(found)  # on ant
    lines, where = scorecard(found)
    assert [line.variant for line in lines] == ["same", "worse"]
    assert where == "evaluation/return on ant"


def test_tasks_that_cannot_be_averaged_have_lines_of_their_own(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    whole = made(tmp_path)
    parts = dataclasses.replace(
        whole, rows=tuple(row for row in whole.rows if row.task != ALL_TASKS)
    )
    lines, _ = scorecard(parts)
    assert [(line.task, line.variant) for line in lines] == [
        (task, variant) for task in ("hopper", "ant") for variant in ("same", "worse")
    ]
    assert len(scorecard(whole)[0]) == 2
    mixed = [row for row in whole.rows if (row.task, row.variant) != (ALL_TASKS, "same")]
    lines, where = scorecard(dataclasses.replace(whole, rows=tuple(mixed)))
    assert [(line.task, line.variant) for line in lines] == [
        ("hopper", "same"),
        ("ant", "same"),
        ("", "worse"),
    ]
    assert where == "what was learned, over all tasks; evaluation/return on hopper and ant"


def test_tasks_that_disagree_depend(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    turned = {**LEARNED, ("ant", "worse"): spread(4100, 80, SEEDS, 5)}
    row = table(Results(study(tmp_path, turned), tmp_path)).entry(ALL_TASKS, "worse")
    assert row is not None
    assert row.answer is Answer.DEPENDS
    assert row.verdict is Verdict.TASKS_DISAGREE


def test_the_unit_is_kept_with_the_plan_when_seeds_are_added(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    few = {place: of[:8] for place, of in LEARNED.items()}
    plan = study(tmp_path, few)
    before = units(Results(plan, tmp_path)).by_source
    keep_units(plan, tmp_path)
    more = study(tmp_path, LEARNED)
    assert units(Results(more, tmp_path)).by_source == before
    (kept,) = (tmp_path / "plans" / "details").glob("*.unit")
    kept.unlink()
    assert units(Results(more, tmp_path)).by_source != before


def test_a_note_has_the_command_that_evaluates_them(tmp_path: Path) -> None:
    (note,) = [line for line in made(tmp_path).notes if "ablations run" in line]
    line = note.rpartition("in seconds: ")[2]
    assert line == command(study(tmp_path, LEARNED))
    trivial(tmp_path, FLOORS)
    assert not any("ablations run" in line for line in made(tmp_path).notes)


def test_its_command_has_the_very_settings_of_the_tasks() -> None:
    plan = plan_of(Request("exam", "evidence", variants=("baseline",)))
    line = command(plan)
    assert line is not None
    lines = line.split("; ")
    assert len(lines) == len(plan.tasks)
    for given in lines:
        words = shlex.split(given)
        assert words[:3] == ["ablations", "run", "trivial_policies"]
        task, sets = words[words.index("--tasks") + 1], words[words.index("--set") + 1 :]
        made_of = plan_of(Request("trivial_policies", tasks=(task,), set=parse_settings(sets)))
        (own,) = {str(c.config["task"]) for c in plan.cells if c.task == task}
        assert {str(c.config["task"]) for c in made_of.cells} == {own}
        assert made_of.cells[0].config["run"]["evaluations"] == 10


def test_figures_draw_variants_and_policies_as_level_lines(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    results = Results(study(tmp_path, LEARNED), tmp_path)
    drawn = study_figures(results, scores(results))
    assert {"curves", "differences", "improvement", "intervals", "profiles"} <= set(drawn)
    panels = {axes.get_title(): axes for axes in drawn["curves"].axes}
    for task, floors in FLOORS.items():
        level = [one for one in panels[task].get_lines() if one.get_label().startswith("_")]
        assert [one.get_ydata()[0] for one in level] == list(floors)
        assert {tuple(one.get_xdata()) for one in level} == {(0, 1_000_000)}
    names = [text.get_text() for text in drawn["curves"].legends[0].get_texts()]
    assert names[-2:] == ["(zero)", "(uniform)"]


def test_sample_efficiency_begins_at_doing_nothing(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    plan = study(tmp_path, LEARNED)
    sheet = efficiency_sheet(Results(plan, tmp_path))
    assert sheet is not None
    rows = {(row["task"], row["variant"]): row["threshold"] for row in sheet.records()}
    assert rows["ant", "base"] == pytest.approx(1100 + 0.75 * 2000)


def test_the_made_up_curve_has_the_score_that_it_says() -> None:
    columns = curve(7.0)
    assert (
        last(columns["step"], [math.nan if v is None else v for v in columns["evaluation/return"]])
        == 7.0
    )


# Stability, and baselines with more seeds


def test_failures_are_counted_from_doing_nothing_and_tested_exactly(tmp_path: Path) -> None:
    trivial(tmp_path, {"ant": FLOORS["ant"]})
    one = ("ant", "worse")
    failing = [1500.0] * 9 + LEARNED["ant", "base"][9:]  # half-way is at 2100
    found = {("ant", "base"): LEARNED["ant", "base"], one: failing}
    plan = study(tmp_path, found, diverged=[("ant", "worse", 12)])
    sheet = stability_sheet(Results(plan, tmp_path))
    assert sheet is not None
    base, worse = sheet.records()
    assert base["threshold"] == pytest.approx((1100 + np.median(LEARNED["ant", "base"])) / 2)
    assert (base["failed"], base["n"], base["p"]) == (0, SEEDS, None)
    assert (worse["failed"], worse["n"]) == (10, SEEDS)
    assert worse["p"] == pytest.approx(scipy.stats.fisher_exact([[10, 10], [0, 20]]).pvalue)
    assert worse["p_adjusted"] == worse["p"]
    counted = np.sort([*failing[:12], 1100.0, *failing[13:]])
    assert worse["worst_quarter"] == pytest.approx(counted[:5].mean())
    assert worse["iqr"] == pytest.approx(scipy.stats.iqr(counted))
    assert worse["iqr_low"] < worse["iqr"] < worse["iqr_high"]
    by_area = table(Results(plan, tmp_path), score="auc").entry(*one)
    assert by_area is not None
    assert worse["area"] == by_area.difference
    assert worse["area_answer"] == by_area.answer is not None


def test_an_area_is_counted_in_the_unit_of_the_score(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    results = Results(study(tmp_path, LEARNED), tmp_path)
    for score in ("last", "auc", "final"):
        row = table(results, score=score).entry("ant", "worse")
        assert row is not None
        assert row.unit == pytest.approx(2000.0), score


def test_a_run_that_an_error_ended_is_no_result(tmp_path: Path) -> None:
    plan = study(tmp_path, LEARNED, diverged=[("ant", "same", 0)], broken=[("ant", "same", 1)])
    found = scores(Results(plan, tmp_path))
    counted = found.with_diverged({"ant": 5000.0}).by_seed("ant", "same")
    lowest = min(min(of) for (task, _), of in LEARNED.items() if task == "ant")
    assert counted[0] == pytest.approx(lowest)
    assert 1 not in counted
    assert found.with_diverged({"ant": 7.0}).by_seed("ant", "same")[0] == 7.0


def test_a_baseline_with_more_seeds_is_the_control_variate_of_its_variants(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    few = {p: of if p[1] == "base" else of[:10] for p, of in LEARNED.items()}
    found = table(Results(study(tmp_path, few), tmp_path))
    row, over = found.entry("ant", "worse"), found.entry(ALL_TASKS, "worse")
    whole = LEARNED["ant", "base"]
    expected = regress(LEARNED["ant", "worse"][:10], whole[:10], whole, 100.0, 0.025 / 4)
    assert row is not None
    assert row.n_pairs == 10
    assert (row.difference, row.difference_low, row.difference_high) == pytest.approx(
        (expected.difference, expected.low, expected.high)
    )
    assert over is not None
    assert over.n_pairs == 10
    assert "base has 20 seeds and its variants 10" in found.caption
    every = table(Results(study(tmp_path, LEARNED, name="all"), tmp_path))
    assert "Cochran" not in every.caption


def test_a_profile_gives_the_baseline_more_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
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
    made_of = plan_of(Request("gae", "smoke"))
    seeds = {v: [c.seed for c in made_of.cells if c.variant == v] for v in made_of.variants}
    assert seeds.pop(made_of.study.baseline) == [0, 1, 2, 3, 4]
    assert all(of == [0, 1] for of in seeds.values())
    assert len({cell.hash for cell in made_of.cells}) >= 5
