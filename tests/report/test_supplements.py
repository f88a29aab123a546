"""Effects, sample efficiency and seeds needed: from records to a table, in every format."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest
import scipy.stats
from synthetic import realistic

import ablations
from ablations.errors import UserError
from ablations.report.figures.effects import effects
from ablations.report.formats import FORMATS, render
from ablations.report.results import Results
from ablations.report.statistics import deviations, seeds_for
from ablations.report.tables import ALL_TASKS, sheet
from ablations.report.tables.factorial import factorial

UNITS = {"reacher": 30.0, "hopper": 2000.0}
SETS = {
    "plain_low": {"coefficient": 0.25},
    "plain_high": {"coefficient": 0.5},
    "shared_low": {"coefficient": 0.25, "torso": "shared"},
    "shared_high": {"coefficient": 0.5, "torso": "shared"},
}


def finals(tasks: tuple[str, ...] = ("reacher", "hopper")) -> dict[tuple[str, str], list[float]]:
    found = realistic(variants=4, tasks=tasks)
    names = dict(zip(("standard", "brax", "done_cut", "masked_truncation"), SETS, strict=True))
    return {(task, names[v]): values for (task, v), values in found.items()}


def rows(kind, plan, results) -> list[dict]:
    return sheet(kind, Results(plan, results)).records()


def test_effects_are_contrasts_of_seeds(study) -> None:
    scores = finals()
    plan, results = study(scores, units=UNITS, sets=SETS)
    found = {(r["task"], r["factor"], r["level"]): r for r in rows("effects", plan, results)}
    y = {v: np.array(scores["hopper", v]) for v in SETS}
    main = (y["plain_high"] - y["plain_low"] + y["shared_high"] - y["shared_low"]) / 2
    row = found["hopper", "coefficient", "0.5"]
    assert (row["n"], row["effect"]) == (8, pytest.approx(main.mean()))
    assert row["p"] == pytest.approx(scipy.stats.ttest_1samp(main, 0).pvalue)
    both = y["shared_high"] - y["shared_low"] - y["plain_high"] + y["plain_low"]
    row = found["hopper", "coefficient \u00d7 torso", "0.5 \u00d7 shared"]
    assert row["effect"] == pytest.approx(both.mean())
    assert row["verdict"] not in ("better", "worse")
    assert {task for task, *_ in found} == {"reacher", "hopper", ALL_TASKS}
    assert row["p_adjusted"] >= row["p"]


def test_an_effect_uses_only_seeds_that_every_variant_has(study) -> None:
    missing = [("hopper", "plain_low", 1), ("hopper", "shared_high", 4)]
    plan, results = study(finals(("hopper",)), sets=SETS, missing=missing)
    assert {row["n"] for row in rows("effects", plan, results)} == {6}


def test_a_factorial_without_a_complete_seed_says_so(study) -> None:
    scores = {place: values[:2] for place, values in finals().items()}
    missing = [("hopper", "plain_low", 0), ("hopper", "shared_high", 1)]
    plan, results = study(scores, units=UNITS, sets=SETS, missing=missing)
    found = {(r["task"], r["kind"]): r for r in rows("effects", plan, results)}
    for task, n in (("hopper", 0), ("reacher", 2)):
        for kind in ("main", "interaction"):
            row = found[task, kind]
            assert (row["n"], row["effect"] is None) == (n, n == 0)
            assert (row["verdict"] == "too few seeds") == (n == 0)
    assert effects(plan, sheet("effects", Results(plan, results)), "training/return") is not None
    assert "too few seeds" in render(sheet("effects", Results(plan, results)), "markdown")


def test_a_setting_left_out_takes_its_default_from_the_configuration(study) -> None:
    plan, _ = study(finals(), sets=SETS)
    assert factorial(plan).factors["torso"] == ("default", "shared")
    for cell in plan.cells:
        cell.config["structure"] = {"torso": "separate"}
    assert factorial(plan).factors["torso"] == ("separate", "shared")


def test_a_study_that_is_no_factorial_says_so(study) -> None:
    plan, results = study(realistic())
    with pytest.raises(UserError, match="no factorial"):
        sheet("effects", Results(plan, results))
    with pytest.raises(UserError, match="did you mean 'power'"):
        sheet("powr", Results(plan, results))


def test_failed_runs_never_reach_the_threshold(study) -> None:
    failed = {("hopper", "brax", seed): "NaN" for seed in (1, 2, 3, 4, 5)}
    plan, results = study(realistic(tasks=["hopper"]), units=UNITS, failed=failed)
    found = {row["variant"]: row for row in rows("efficiency", plan, results)}
    assert (found["brax"]["n"], found["brax"]["reached"], found["brax"]["steps"]) == (
        3,
        3,
        math.inf,
    )
    assert found["standard"]["reached"] == 8
    assert 0 < found["standard"]["steps"] < 400_000
    assert found["standard"]["auc"] < found["standard"]["auc_high"]


def test_power_rests_on_the_deviations_seen(study) -> None:
    scores = realistic()
    plan, results = study(scores, units=UNITS)
    found = {(row["task"], row["variant"]): row for row in rows("power", plan, results)}
    assert len(found) == 9
    row = found["hopper", "brax"]
    pairs = np.array(scores["hopper", "brax"]) - scores["hopper", "standard"]
    assert row["deviation"] == pytest.approx(pairs.std(ddof=1))
    spreads = deviations(8, row["deviation"], 0.1)
    for k, name in ((0, "equivalent"), (1, "1_margins"), (4, "4_margins")):
        low, high = (seeds_for(100.0 * k, spread, 100.0, 0.025 / 6) for spread in spreads)
        assert (row[f"seeds_{name}_low"], row[f"seeds_{name}_high"]) == (low, high)
    assert row["seeds_1_margins_low"] > row["seeds_2_margins_low"] > row["seeds_4_margins_low"]
    assert row["seeds_2_margins_low"] < row["seeds_2_margins_high"]


def test_failures_at_a_level_make_its_effect_unstable(study) -> None:
    scores = {place: np.array(values) for place, values in finals(("hopper",)).items()}
    for name in ("plain_high", "shared_high"):
        scores["hopper", name] = scores["hopper", name] + 5_000
    plan, results = study(
        scores, units={"hopper": 2000.0}, sets=SETS, failed={("hopper", "plain_high", 0): "NaN"}
    )
    found = {row["factor"]: row for row in rows("effects", plan, results)}
    assert found["coefficient"]["low"] > 0
    assert found["coefficient"]["verdict"] == "unstable"
    assert "unstable" in render(sheet("efficiency", Results(plan, results)), "markdown")


def test_a_level_that_changes_no_bit_is_identical(study) -> None:
    base = realistic(variants=1, tasks=["hopper"])["hopper", "standard"]
    scores = {("hopper", v): np.array(base) + (100 if "high" in v else 0) for v in SETS}
    plan, results = study(scores, units=UNITS, sets=SETS)
    found = {row["factor"]: row["verdict"] for row in rows("effects", plan, results)}
    assert found["torso"] == found["coefficient \u00d7 torso"] == "identical"
    assert found["coefficient"] != "identical"


def test_effects_hold_at_once(study) -> None:
    plan, results = study(finals(), units=UNITS, sets=SETS)
    made = sheet("effects", Results(plan, results))
    row = next(row for row in made.records() if row["task"] == "hopper")
    assert row["p_adjusted"] == pytest.approx(min(1, 12 * row["p"]))
    assert (row["low"] > 0 or row["high"] < 0) == (row["p_adjusted"] < 0.05)
    assert "at once with 95%" in made.caption


def test_thresholds_are_those_of_comparable_settings(study) -> None:
    scores = {("hopper", v): np.full(4, 10.0) + np.arange(4) for v in ("a", "b")}
    scores |= {("hopper", v): 10 * values for v, values in (("c", scores["hopper", "a"]),)}
    plan, results = study(scores, units={"hopper": 4.0}, versus={"c": "c"})
    found = {row["variant"]: row for row in rows("efficiency", plan, results)}
    assert found["a"]["threshold"] == found["b"]["threshold"] == pytest.approx(11.5 - 1)
    assert found["c"]["threshold"] == pytest.approx(115 - 1)


def test_python_gives_the_same_tables(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    frame = ablations.table("gae", results=results, kind="power")
    assert list(frame.itertuples(index=False, name=None)) == list(
        sheet("power", Results(plan, results)).rows
    )
    assert frame.attrs["caption"].startswith("Seeds needed")


def test_nothing_to_say_is_said(study) -> None:
    plan, results = study({("hopper", "a"): [1.0]})
    with pytest.raises(UserError, match="compares nothing"):
        sheet("power", Results(plan, results))
    plan, results = study({("walker", "a"): [1.0]}, name="other", missing=[("walker", "a", 0)])
    with pytest.raises(UserError, match="no finished run"):
        sheet("efficiency", Results(plan, results))


@pytest.mark.parametrize("kind", ["effects", "efficiency", "power"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_kind_in_every_format(study, kind: str, format: str) -> None:
    nasty = {v.replace("plain", "pl<b>a&i|n"): s for v, s in SETS.items()}
    scores = {(t, v.replace("plain", "pl<b>a&i|n")): x for (t, v), x in finals().items()}
    plan, results = study(scores, units=UNITS, sets=nasty)
    made = sheet(kind, Results(plan, results))
    text = render(made, format)
    assert text == render(sheet(kind, Results(plan, results)), format)
    if format == "csv":
        assert len(list(csv.DictReader(io.StringIO(text)))) == len(made.rows)
    elif format == "json":
        assert len(json.loads(text)["rows"]) == len(made.rows)
    elif format == "html":
        assert text.count("<tr>") == len(made.rows) + 1
        assert "<b>" not in text
    else:
        assert text.count("hopper") == 1
    assert list(made.dataframe().columns) == list(made.columns)
