"""Tables of fractions: whole seeds, runs that diverged, aliases in words, units and answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from evaluated import Place, study, trivial

from ablations.core.verdict import Answer, Verdict
from ablations.records import Plan
from ablations.report import formats
from ablations.report.results import Results
from ablations.report.tables import ALL_TASKS, effects_in_words, table_of
from ablations.report.tables.entries import Sheet
from ablations.studies import fraction

NAMES = ("first", "second", "third", "fourth", "fifth")
SETTINGS = fraction({name: {name: "on"} for name in NAMES})
SETS = {v: {name: one.sets.get(name, "off") for name in NAMES} for v, one in SETTINGS.items()}
FLOORS = {"hopper": (50.0, 200.0), "ant": (1100.0, 300.0)}
TOPS = {"hopper": (1000.0, 800.0), "ant": (3100.0, 2000.0)}  # and units
# In units: two effects, and what the first and the second do together.
GAINS = {"second": 0.2, "fourth": -0.1}
TOGETHER = 0.3


def scores(seeds: int = 6, tasks: tuple[str, ...] = ("hopper", "ant")) -> dict:
    rng = np.random.default_rng(2)
    made = {}
    for task in tasks:
        top, unit = TOPS[task]
        for variant, one in SETTINGS.items():
            gain = sum(GAINS.get(name, 0.0) for name in one.sets)
            gain += TOGETHER * ("first" in one.sets and "second" in one.sets)
            made[task, variant] = list(top + unit * (gain + rng.normal(0, 0.01, seeds)))
    return made


def sheet_of(results: Path, plan: Plan) -> Sheet:
    made = table_of(Results(plan, results), None, None, None)
    assert isinstance(made, Sheet)
    assert made.kind == "effects"
    return made


def by_factor(made: Sheet, task: str) -> dict:
    return {row["factor"]: row for row in made.records() if row["task"] == task}


def test_effects_are_in_the_metric_and_answers_in_units(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    made = sheet_of(tmp_path, study(tmp_path, scores(), sets=SETS))
    for task, unit in (("hopper", 800.0), ("ant", 2000.0), (ALL_TASKS, 1.0)):
        rows = by_factor(made, task)
        for name in NAMES:
            gain = GAINS.get(name, 0.0) + TOGETHER / 2 * (name in ("first", "second"))
            row = rows[name]
            assert row["share"] == pytest.approx(gain, abs=0.02)
            assert row["effect"] == pytest.approx(row["share"] * unit, rel=0.05, abs=0.01 * unit)
            assert row["answer"] is (Answer.YES if abs(gain) >= 0.1 else Answer.NO)
            assert row["n"] == 6
    assert "Yes: +35" in formats.render(made, "markdown")


def test_aliases_and_resolution_are_computed_and_written(tmp_path: Path) -> None:
    made = sheet_of(tmp_path, study(tmp_path, scores(), sets=SETS))
    assert "5 factors in 16 settings, of resolution IV" in made.caption
    rows = [row for row in made.records() if row["kind"] == "aliased" and row["task"] == "ant"]
    # The keys are in the order of the names: A fifth, B first, C fourth, D second, E third.
    largest = rows[0]
    assert "B\u00d7D" in largest["factor"]
    assert largest["effect"] == pytest.approx(TOGETHER * 2000, rel=0.1)
    assert abs(rows[0]["effect"]) >= abs(rows[1]["effect"]) >= abs(rows[2]["effect"])
    sums = made.caption.partition("Aliased: ")[2].partition(". All")[0].rstrip(".").split("; ")
    terms = [term for one in sums for term in one.replace("\u2212", "+").split(" + ")]
    assert sorted(terms) == sorted(
        f"{a}\u00d7{b}" for k, a in enumerate("ABCDE") for b in "ABCDE"[k + 1 :]
    )
    assert "first = on, second = on are better" in effects_in_words(made)
    assert "\u00d7" not in effects_in_words(made)


@pytest.mark.parametrize(
    ("missing", "broken", "seeds"),
    [
        ((), (), 6),
        ((("ant", "mix_3", 5),), (), 5),
        ((("ant", "mix_3", 5), ("ant", "mix_7", 0)), (("ant", "baseline", 2),), 3),
        (tuple(("ant", "mix_3", seed) for seed in range(6)), (), 0),
    ],
)
def test_only_seeds_that_every_setting_has_are_used(
    missing: tuple[Place, ...], broken: tuple[Place, ...], seeds: int, tmp_path: Path
) -> None:
    found = scores()
    made = sheet_of(tmp_path, study(tmp_path, found, sets=SETS, missing=missing, broken=broken))
    rows = by_factor(made, "ant")
    assert {row["n"] for row in rows.values()} == {seeds}
    assert by_factor(made, "hopper")["first"]["n"] == 6
    if not seeds:
        assert rows["first"]["verdict"] is Verdict.NO_SEED_IS_COMPLETE
        assert "no seed is complete" in formats.render(made, "markdown")
        return
    lost = {seed for task, _, seed in (*missing, *broken) if task == "ant"}
    kept = [seed for seed in range(6) if seed not in lost]
    on = [np.array(found["ant", v])[kept] for v in SETS if SETS[v]["first"] == "on"]
    off = [np.array(found["ant", v])[kept] for v in SETS if SETS[v]["first"] == "off"]
    assert rows["first"]["effect"] == pytest.approx(np.mean(on) - np.mean(off))
    assert seeds == 6 or f"ant: {seeds} of 6" in made.caption


def test_a_run_that_diverged_is_the_worst_of_its_task(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    lost = [("ant", "mix_3", 1), ("ant", "mix_3", 4)]
    found = scores()
    made = sheet_of(tmp_path, study(tmp_path, found, sets=SETS, diverged=lost))
    for _, variant, seed in lost:
        found["ant", variant][seed] = FLOORS["ant"][0]  # below all runs
    on = [found["ant", v] for v in SETS if SETS[v]["first"] == "on"]
    off = [found["ant", v] for v in SETS if SETS[v]["first"] == "off"]
    row = by_factor(made, "ant")["first"]
    assert row["n"] == 6
    assert row["effect"] == pytest.approx(np.mean(on) - np.mean(off))
    assert "hopper: 0 diverged; ant: 2 diverged" in made.caption


def test_one_seed_has_effects_and_no_interval(tmp_path: Path) -> None:
    made = sheet_of(tmp_path, study(tmp_path, scores(seeds=1), sets=SETS))
    rows = by_factor(made, "ant")
    assert {rows[name]["low"] for name in NAMES} == {None}
    assert rows["second"]["effect"] == pytest.approx((0.2 + 0.15) * 2000, rel=0.1)
    assert rows["second"]["verdict"] is Verdict.ONE_SEED
    assert "there is no interval" in made.caption


def test_a_task_where_nothing_was_learned_says_nothing(tmp_path: Path) -> None:
    trivial(tmp_path, {**FLOORS, "ant": (3080.0, 300.0)})
    made = sheet_of(tmp_path, study(tmp_path, scores(), sets=SETS))
    rows = by_factor(made, "ant")
    assert {row["verdict"] for row in rows.values()} == {Verdict.NOTHING_LEARNED}
    assert {row["answer"] for row in rows.values()} == {None}
    assert not by_factor(made, ALL_TASKS)
    assert by_factor(made, "hopper")["second"]["answer"] is Answer.YES


def test_effects_on_both_sides_of_0_depend_on_the_task(tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    found = scores()
    for variant, one in SETTINGS.items():
        if "fourth" in one.sets:
            found["ant", variant] = [value + 600 for value in found["ant", variant]]
    made = sheet_of(tmp_path, study(tmp_path, found, sets=SETS))
    row = by_factor(made, ALL_TASKS)["fourth"]
    assert row["answer"] is Answer.DEPENDS
    assert row["verdict"] is Verdict.TASKS_DISAGREE


@pytest.mark.parametrize("form", formats.FORMATS)
def test_every_format_has_the_sheet(form: str, tmp_path: Path) -> None:
    trivial(tmp_path, FLOORS)
    made = sheet_of(tmp_path, study(tmp_path, scores(), sets=SETS))
    assert "Yes" in formats.render(made, form)
