"""Tables as data: which numbers, which families, and nothing hidden."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from html import unescape

import numpy as np
import pytest
import scipy.stats
from synthetic import realistic

import ablations
from ablations.records import read_plan, read_units
from ablations.report import page
from ablations.report.formats import render
from ablations.report.formats.numbers import verdict_text
from ablations.report.results import Results
from ablations.report.scores import grouped
from ablations.report.statistics import LEVEL, interval
from ablations.report.tables import ALL_TASKS, table
from ablations.report.units import keep_units

UNITS = {"reacher": 30.0, "hopper": 2000.0}


def bounds(differences, level: float) -> tuple[float, float]:
    """Student's interval of a mean, by scipy."""
    n = len(differences)
    return scipy.stats.t.interval(
        1 - level, n - 1, np.mean(differences), scipy.stats.sem(differences)
    )


def test_entries_are_those_of_scipy(study) -> None:
    finals = realistic()
    plan, results = study(finals, units=UNITS)
    made = table(Results(plan, results))
    level = 0.025 / 6  # half of 5% for the tasks, shared by three variants on two tasks
    for (task, variant), values in finals.items():
        row = made.entry(task, variant)
        assert row.n == row.n_planned == 8
        assert row.mean == pytest.approx(np.mean(values))
        assert (row.low, row.high) == pytest.approx(interval(values, "mean"))
        assert row.iqm == pytest.approx(scipy.stats.trim_mean(values, 0.25))
        assert (row.iqm_low, row.iqm_high) == pytest.approx(interval(values))
        assert row.unit == pytest.approx(UNITS[task])
        assert row.margin == pytest.approx(0.05 * UNITS[task])
        if variant == "standard":
            assert row.baseline is row.difference is row.verdict is None
            continue
        test = scipy.stats.ttest_rel(values, finals[task, "standard"])
        assert row.baseline == "standard"
        assert (row.n_pairs, row.level) == (8, pytest.approx(level))
        assert row.p == pytest.approx(test.pvalue)
        assert row.p_adjusted == pytest.approx(min(1, 12 * test.pvalue))
        pairs = np.array(values) - finals[task, "standard"]
        assert (row.difference_low, row.difference_high) == pytest.approx(bounds(pairs, level))


def test_word_interval_and_adjusted_p_agree(study) -> None:
    for seed in range(4):
        plan, results = study(realistic(random_seed=seed), name=f"s{seed}", units=UNITS)
        for row in table(Results(plan, results)).rows:
            if row.difference_low is None or row.task == ALL_TASKS:
                continue
            outside = row.difference_low > 0 or row.difference_high < 0
            assert outside == (row.p_adjusted < 0.05)
            assert outside or row.verdict in ("undecided", "equivalent")
            inside = max(-row.difference_low, row.difference_high) < row.margin
            assert inside == (row.verdict == "equivalent")


def test_all_tasks_is_the_mean_of_scaled_differences_per_seed(study) -> None:
    finals = realistic()
    plan, results = study(finals, units=UNITS)
    made = table(Results(plan, results))
    for variant in ("brax", "done_cut", "masked_truncation"):
        scaled = np.mean(
            [
                (np.array(finals[task, variant]) - finals[task, "standard"]) / unit
                for task, unit in UNITS.items()
            ],
            axis=0,
        )
        row = made.entry(ALL_TASKS, variant)
        assert row.difference == pytest.approx(scaled.mean())
        assert row.level == pytest.approx(0.025 / 3)
        assert (row.difference_low, row.difference_high) == pytest.approx(bounds(scaled, 0.025 / 3))
        assert row.margin == 0.05


def test_normalised_scores_count_from_where_the_baseline_began_in_what_it_learned(study) -> None:
    finals = realistic()
    plan, results = study(finals, units=UNITS, missing=[("reacher", "brax", 1)])
    made = table(Results(plan, results))
    for variant, kept in (("standard", range(8)), ("brax", [0, *range(2, 8)])):
        normalised = []
        for task, unit in UNITS.items():
            low = np.mean(finals[task, "standard"]) - unit
            normalised.append((np.array(finals[task, variant])[list(kept)] - low) / unit)
        row = made.entry(ALL_TASKS, variant)
        assert row.mean == pytest.approx(np.mean(normalised))
        assert row.iqm == pytest.approx(
            np.mean([scipy.stats.trim_mean(one, 0.25) for one in normalised])
        )
        assert row.low < row.mean < row.high
        assert (row.n, row.n_planned) == (len(kept), 8)
    assert made.entry(ALL_TASKS, "standard").mean == pytest.approx(1)
    assert sum(row.best for row in made.rows if row.task == ALL_TASKS) == 1


def test_one_task_has_no_aggregate(study) -> None:
    plan, results = study(realistic(tasks=["reacher"]))
    assert table(Results(plan, results)).entry(ALL_TASKS, "brax") is None


BASE = np.random.default_rng(0).normal(0, 1, 8)
WIGGLE = 0.1 * (np.arange(8) - 3.5)
CLEAR = {
    ("hopper", "base"): BASE,
    ("hopper", "same"): BASE,
    ("hopper", "close"): BASE + 0.1 * WIGGLE,
    ("hopper", "close above"): BASE + 0.1 + 0.1 * WIGGLE,
    ("hopper", "up"): BASE + 3 + WIGGLE,
    ("hopper", "down"): BASE - 3 + WIGGLE,
    ("hopper", "somewhat up"): BASE + 0.5 + 0.5 * WIGGLE,
    ("hopper", "somewhat down"): BASE - 0.5 + 0.5 * WIGGLE,
    ("hopper", "noisy"): BASE[::-1],
}


def test_where_the_interval_lies_decides_the_word(study) -> None:
    plan, results = study(CLEAR, units={"hopper": 10.0})
    made = table(Results(plan, results))
    assert {row.variant: row.verdict for row in made.rows} == {
        "base": None,
        "same": "identical",
        "close": "equivalent",
        "close above": "equivalent",
        "up": "better",
        "down": "worse",
        "somewhat up": "better, by an undecided amount",
        "somewhat down": "worse, by an undecided amount",
        "noisy": "undecided",
    }
    assert verdict_text(made.entry("hopper", "close above")) == "equivalent (+)"
    noisy = made.entry("hopper", "noisy")
    assert 8 < noisy.seeds_low <= noisy.seeds_to_decide <= noisy.seeds_high
    assert made.entry("hopper", "up").seeds_to_decide is None
    assert [row.variant for row in made.rows if row.best] == ["up"]
    assert not any(row.tied for row in made.rows)


def test_without_a_unit_only_the_sign_is_judged(study) -> None:
    plan, results = study(CLEAR, units={"hopper": 0.0})
    made = table(Results(plan, results))
    assert {row.variant: row.verdict for row in made.rows} == {
        "base": None,
        "same": "identical",
        "close": "undecided",
        "close above": "better, by an undecided amount",
        "up": "better, by an undecided amount",
        "down": "worse, by an undecided amount",
        "somewhat up": "better, by an undecided amount",
        "somewhat down": "worse, by an undecided amount",
        "noisy": "undecided",
    }
    assert all(row.margin is None and row.unit is None for row in made.rows)
    assert any("does not stand out of the noise" in note for note in made.notes)
    assert made.entry("hopper", "noisy").seeds_high is None


def test_a_margin_may_be_in_units_of_the_metric(study) -> None:
    plan, results = study(CLEAR, units={"hopper": 0.0}, margin=0.5, margin_in_metric=True)
    made = table(Results(plan, results))
    assert {row.margin for row in made.rows} == {0.5}
    assert made.entry("hopper", "close above").verdict == "equivalent"
    assert "in units of the metric" in made.caption


def test_a_margin_stays_what_it_was_when_seeds_are_added(study) -> None:
    """Stored with the cells it was measured on, and forgotten with them."""
    finals = {("hopper", v): [1.0, 2.0, 3.0, 4.0] for v in "ab"}
    plan, results = study(finals, units={"hopper": 10.0})
    first = dataclasses.replace(plan, cells=tuple(c for c in plan.cells if c.seed < 2))
    keep_units(first, results)
    assert table(Results(first, results)).entry("hopper", "b").margin == pytest.approx(0.5)
    steeper, _ = study(finals, units={"hopper": 30.0}, name="steeper")
    later = [c for c in steeper.cells if c.seed > 1]
    grown = dataclasses.replace(first, cells=(*first.cells, *later))
    assert table(Results(grown, results)).entry("hopper", "b").margin == pytest.approx(0.5)
    gone = dataclasses.replace(first, cells=tuple(later))
    assert table(Results(gone, results)).entry("hopper", "b").margin == pytest.approx(1.5)


def test_an_unfinished_baseline_fixes_no_unit(study) -> None:
    finals = {("hopper", v): [1.0, 2.0, 3.0] for v in "ab"}
    plan, results = study(finals, units={"hopper": 10.0}, missing=[("hopper", "a", 2)])
    assert table(Results(plan, results)).entry("hopper", "b").margin == pytest.approx(0.5)
    keep_units(plan, results)
    assert read_units(results, plan) == {}


# Over tasks


def opposite(effect: float, spread: float = 0.05) -> dict[tuple[str, str], np.ndarray]:
    """Two tasks on which the variant differs by as much to both sides."""
    random = np.random.default_rng(1)
    base = random.normal(size=(2, 8))
    noise = spread * random.normal(size=(2, 8))
    return {
        ("hopper", "base"): base[0],
        ("ant", "base"): base[1],
        ("hopper", "v"): base[0] + effect + noise[0],
        ("ant", "v"): base[1] - effect + noise[1],
    }


def test_tasks_that_disagree_are_not_averaged_away(study) -> None:
    plan, results = study(opposite(3.0), units={"hopper": 20.0, "ant": 20.0})
    made = table(Results(plan, results))
    assert made.entry(ALL_TASKS, "v").verdict == "tasks disagree"
    assert any("better on hopper, worse on ant" in note for note in made.notes)


def test_all_tasks_is_equivalent_only_where_every_task_is(study) -> None:
    units = {"hopper": 20.0, "ant": 20.0}
    plan, results = study(opposite(0.9, spread=1.0), units=units)
    row = table(Results(plan, results)).entry(ALL_TASKS, "v")
    assert max(-row.difference_low, row.difference_high) > 0
    assert row.verdict == "undecided"
    plan, results = study(opposite(0.05), name="both", units=units)
    made = table(Results(plan, results))
    assert {made.entry(task, "v").verdict for task in units} == {"equivalent"}
    assert made.entry(ALL_TASKS, "v").verdict == "equivalent"


def test_a_task_on_which_nothing_is_learned_is_left_out_of_the_average(study) -> None:
    finals = {(t, v): BASE + (0.01 * WIGGLE if v == "v" else 0) for t in "xyz" for v in ("a", "v")}
    plan, results = study(finals, units={"x": 9.0, "y": 9.0, "z": 0.0})
    made = table(Results(plan, results))
    row = made.entry(ALL_TASKS, "v")
    assert row.difference == pytest.approx(np.mean(0.01 * WIGGLE) / 9)
    assert row.verdict == "undecided", "z may differ by anything"
    assert any("z: what a learned" in note and "leave it out" in note for note in made.notes)


# Ties


def test_equal_scores_of_unequal_curves_prove_nothing(study) -> None:
    """A ceiling: all pairs are equal, and the curves on the way there were not."""
    finals = {("hopper", "base"): [10.0] * 8, ("hopper", "other"): [10.0] * 8}
    plan, results = study(finals, units={"hopper": 5.0}, noise=0.1)
    made = table(Results(plan, results))
    row = made.entry("hopper", "other")
    assert (row.difference, row.difference_low, row.p_equivalent) == (0, None, None)
    assert row.verdict == "undecided"
    assert any("at most 37% of seeds differ" in note for note in made.notes)


def test_variants_that_share_their_cells_are_identical(study) -> None:
    plan, results = study({("hopper", v): BASE for v in "ab"}, noise=0.1, same_as={"b": "a"})
    row = table(Results(plan, results)).entry("hopper", "b")
    assert (row.verdict, row.difference, row.n_pairs) == ("identical", 0.0, 8)
    assert verdict_text(row) == "identical to a"
    plan, results = study(
        {("hopper", v): BASE for v in "ab"},
        name="not_run",
        same_as={"b": "a"},
        missing=[("hopper", v, seed) for v in "ab" for seed in range(8)],
    )
    row = table(Results(plan, results)).entry("hopper", "b")
    assert (row.verdict, row.difference, row.n_pairs) == ("identical", 0.0, 0)


def test_a_variant_that_composes_to_another_one_is_named_and_compared_once(study) -> None:
    scores = {("hopper", v): BASE + d + 0.5 * WIGGLE for v, d in (("c", 3), ("d", 3), ("e", 3))}
    scores = {("hopper", "a"): BASE, **scores, ("hopper", "f"): BASE}
    options = {"units": {"hopper": 10.0}, "versus": {"f": "f"}}
    plain = table(Results(*study(scores, name="plain", **options)))
    plan, results = study(scores, same_as={"d": "c", "e": "c", "f": "a"}, **options)
    made = table(Results(plan, results))
    said = {row.variant: (row.same_as, verdict_text(row)) for row in made.rows}
    assert said == {
        "a": (None, ""),
        "c": (None, "better"),
        "d": ("c", "better, identical to c"),
        "e": ("c", "better, identical to c"),
        "f": ("a", "identical to a"),
    }
    # One comparison, not three, shares the 5%.
    assert made.entry("hopper", "c").level == pytest.approx(LEVEL)
    assert plain.entry("hopper", "c").level == pytest.approx(LEVEL / 3)
    for format in ("markdown", "html"):
        assert render(made, format).count("identical to c") == 2, format
        assert render(made, format).count("identical to a") == 1, format
    assert render(made, "latex").count("$=$ c") == 2
    assert "$=$ a" in render(made, "latex")


def test_one_other_bit_is_not_identical(study) -> None:
    other = BASE.copy()
    other[3] = np.nextafter(other[3], 9)
    plan, results = study({("hopper", "a"): BASE, ("hopper", "b"): other})
    assert table(Results(plan, results)).entry("hopper", "b").verdict != "identical"


# The best


def test_the_mark_and_the_best_use_the_same_estimate(study) -> None:
    plan, results = study(realistic())
    rows = [row for row in table(Results(plan, results)).rows if row.task == "hopper"]
    assert [row.variant for row in rows if row.best] == [max(rows, key=lambda r: r.mean).variant]
    assert {row.variant for row in rows if row.tied or row.best} == {
        "standard",
        "brax",
        "masked_truncation",
    }


def test_only_rows_of_one_task_setting_are_ranked(study) -> None:
    finals = {("hopper", v): BASE + k for k, v in enumerate(("a", "b", "c", "d"))}
    plan, results = study(finals, versus={"c": "c", "d": "c"})
    for cell in plan.cells:
        length = 100 if cell.variant in "ab" else 1000
        cell.config["task"] = {"settings": {"episode_length": length}}
    made = table(Results(plan, results))
    assert [row.variant for row in made.rows if row.best] == ["b", "d"]
    assert not [note for note in made.notes if "settings" in note]


def test_a_comparison_across_settings_of_a_task_is_named(study) -> None:
    finals = {("hopper", v): BASE + k for k, v in enumerate(("a", "b", "c"))}
    plan, results = study(finals)
    for cell in plan.cells:
        length = 1000 if cell.variant == "c" else 100
        cell.config["task"] = {"settings": {"episode_length": length}}
    (said,) = [note for note in table(Results(plan, results)).notes if "settings" in note]
    assert said.startswith("hopper: c and a have different settings of the task")


def test_a_variant_that_fails_more_is_not_the_best(study) -> None:
    finals = {("hopper", "a"): BASE, ("hopper", "b"): BASE + 5, ("hopper", "c"): BASE - 9}
    plan, results = study(finals, failed={("hopper", "b", 0): "NaN"})
    made = table(Results(plan, results))
    assert [row.variant for row in made.rows if row.best] == ["a"]
    assert not made.entry("hopper", "b").tied


def test_a_stored_plan_keeps_the_study_s_order(study) -> None:
    finals = {(task, v): [1.0, 2.0] for task in ("reacher", "hopper") for v in ("z", "b", "a")}
    plan, results = study(finals, baseline="z")
    stored = read_plan(results, "gae")
    assert stored == plan
    assert (table(Results(stored, results)).tasks, table(Results(stored, results)).variants) == (
        ("reacher", "hopper"),
        ("z", "b", "a"),
    )


def test_failed_and_missing_cells_are_counted_and_pairs_use_common_seeds(study) -> None:
    finals = realistic(tasks=["reacher"])
    plan, results = study(
        finals,
        failed={("reacher", "brax", 2): "loss is not finite\nat some line"},
        missing=[("reacher", "brax", 7), ("reacher", "standard", 0)],
    )
    made = table(Results(plan, results))
    row = made.entry("reacher", "brax")
    assert (row.n, row.n_failed, row.n_missing, row.n_planned, row.n_pairs) == (6, 1, 1, 8, 5)
    kept = [1, 3, 4, 5, 6]
    pairs = (
        np.array(finals["reacher", "brax"])[kept] - np.array(finals["reacher", "standard"])[kept]
    )
    assert row.difference == pytest.approx(pairs.mean())
    text = "\n".join(made.notes)
    assert "not run: reacher, brax, seed 7" in text
    assert "failed: reacher, brax, seed 2 at step 200,000: loss is not finite" in text
    assert "at some line" not in text
    assert "2 of 32 cells have not run" in text


def test_an_aggregate_uses_only_seeds_complete_on_every_task(study) -> None:
    plan, results = study(
        realistic(), units=UNITS, missing=[("reacher", "brax", 1), ("hopper", "standard", 2)]
    )
    row = table(Results(plan, results)).entry(ALL_TASKS, "brax")
    assert (row.n_pairs, row.n, row.n_planned) == (6, 7, 8)


def test_nothing_has_run(study) -> None:
    finals = {("hopper", "a"): [1.0], ("hopper", "b"): [2.0]}
    plan, results = study(finals, missing=[("hopper", "a", 0), ("hopper", "b", 0)])
    made = table(Results(plan, results))
    assert [(row.n, row.mean, row.verdict) for row in made.rows] == [
        (0, None, None),
        (0, None, "no pairs"),
    ]


def test_one_seed_has_no_interval_and_says_so(study) -> None:
    plan, results = study({("hopper", "a"): [1.0], ("hopper", "b"): [2.0]})
    made = table(Results(plan, results))
    row = made.entry("hopper", "b")
    assert (row.mean, row.low, row.high, row.difference) == (2.0, None, None, 1.0)
    assert (row.difference_low, row.p, row.verdict) == (None, None, "one seed")
    assert any("one seed: no interval" in note for note in made.notes)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (0, "(bootstrap, Student levels)"),
        (4, "(bootstrap, Student levels; of fewer than 7 runs Student's t)"),
    ],
)
def test_the_caption_says_how_the_intervals_were_made(study, missing: int, said: str) -> None:
    lacking = [("reacher", "brax", seed) for seed in range(missing)]
    plan, results = study(realistic(tasks=["reacher"]), missing=lacking)
    assert said in table(Results(plan, results)).caption


def test_variants_stand_under_what_they_are_compared_with(study) -> None:
    finals = {("hopper", v): [1.0, 2.0, 4.0] for v in ("x2", "base", "x", "y", "y2")}
    plan, results = study(finals, baseline="base", versus={"x2": "x", "y": "y", "y2": "y"})
    made = table(Results(plan, results))
    assert made.variants == ("base", "x", "x2", "y", "y2")
    assert [row.baseline for row in made.rows] == [None, "base", "x", None, "y"]


def test_grouping_keeps_every_variant_even_of_a_circle() -> None:
    assert [v for v, _ in grouped({"a": "b", "b": "a", "c": "gone"})] == ["a", "b", "c"]


def test_a_baseline_that_was_left_out_is_noted(study) -> None:
    plan, results = study({("hopper", "b"): [1.0, 2.0]}, baseline="base")
    made = table(Results(plan, results))
    assert made.entry("hopper", "b").verdict == "no pairs"
    assert any("baseline base is not part of this run" in note for note in made.notes)


def test_another_metric_has_no_margin_and_no_better(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    made = table(Results(plan, results), metric="loss/value")
    assert not any(row.best or row.tied or row.margin for row in made.rows)
    assert {row.verdict for row in made.rows} <= {None, "higher", "lower", "undecided", "identical"}
    assert made.entry(ALL_TASKS, "brax") is None
    assert "no margin" in made.caption


def test_auc_lies_below_the_final_score_of_a_rising_curve(study) -> None:
    plan, results = study({("hopper", "a"): [5.0, 6.0, 7.0]})
    ends = table(Results(plan, results)).rows[0].mean
    assert table(Results(plan, results), score="auc").rows[0].mean < ends


def test_a_score_of_too_few_evaluations_says_so(study) -> None:
    plan, results = study({("ant", "base"): [1.0], ("ant", "other"): [2.0]}, points=2)
    (said, *_) = [n for n in table(Results(plan, results), score="last").notes if "cells have" in n]
    few = f"fewer than 3 values of {plan.study.metric}"
    assert said.startswith(f"2 of 2 cells have {few}, where the score is the mean of the last 3:")


def test_records_of_other_versions_are_named(study) -> None:
    plan, results = study(realistic(), other_versions=[("hopper", "brax", 0)])
    notes = table(Results(plan, results)).notes
    assert "1 of 64 cells were made with other versions: jax 0.9.0 (the most: 0.10.2)" in notes


@pytest.mark.parametrize(
    ("edited", "lines"),
    [
        ([], []),
        (
            [("hopper", "brax", 0), ("hopper", "brax", 1)],
            [
                "plugin 'mine' was edited in between: 2 of 64 cells ran with new (the most: old); "
                "`run --fresh` computes all of them again"
            ],
        ),
    ],
)
def test_records_of_an_edited_plugin_are_named(edited, lines, study) -> None:
    plan, results = study(realistic(), edited=edited)
    assert [n for n in table(Results(plan, results)).notes if "plugin" in n] == lines
    for line in lines:
        assert line in unescape(page.write([plan], results).read_text())


def test_caption_promises_what_is_controlled(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    caption = table(Results(plan, results)).caption
    for part in (
        *("8 paired seeds (0-7)", "400,000 environment steps", "reacher 1.5; hopper 100"),
        *("last 10%", "at once with 95%", "at most 5%", "equivalent included"),
        *("99.58% each on the tasks", "99.17% each on all tasks", "intersection-union"),
    ):
        assert part in caption, part


def test_a_step_is_what_the_trainer_calls_it(study) -> None:
    plan, results = study(realistic(tasks=["hopper"]))
    plan = dataclasses.replace(plan, study=dataclasses.replace(plan.study, step_unit="completion"))
    assert "400,000 completions" in table(Results(plan, results)).caption


def test_dataframe_is_tidy_and_numeric(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    frame = ablations.table("gae", results=results)
    assert len(frame) == 8 + 4
    assert not frame.duplicated(["task", "variant"]).any()
    texts = {"task", "variant", "baseline", "verdict", "same_as"}
    for name in set(frame.columns) - texts:
        assert frame[name].dtype.kind in "iufb", name
    assert frame.attrs["caption"] == table(Results(plan, results)).caption
    assert table(Results(plan, results)).columns == tuple(frame.columns)


def test_a_table_needs_neither_jax_nor_pandas(study) -> None:
    _, results = study(realistic(), units=UNITS)
    program = f"""
import sys
from pathlib import Path
from ablations.records import read_plan
from ablations.report import formats, tables
from ablations.report.results import Results
folder = Path({str(results)!r})
made = tables.table(Results(read_plan(folder, "gae"), folder))
for format in ("markdown", "latex", "csv", "html", "json"):
    formats.render(made, format)
slow = {{"jax", "pandas", "scipy.stats", "matplotlib", "seaborn", "brax", "variants"}}
print(sorted(slow & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_variant_that_fails_more_is_neither_better_nor_equivalent(study) -> None:
    base = np.random.default_rng(0).normal(0, 1, 8)
    finals = {
        ("hopper", "base"): base,
        ("hopper", "same"): base + 0.01 * np.arange(8),
        ("hopper", "up"): base + 3 + 0.1 * np.arange(8),
        ("hopper", "down"): base - 3 + 0.1 * np.arange(8),
    }
    failed = {("hopper", v, 0): "NaN" for v in ("same", "up", "down")}
    plan, results = study(finals, units={"hopper": 10.0}, failed=failed)
    verdicts = {row.variant: row.verdict for row in table(Results(plan, results)).rows}
    assert verdicts == {"base": None, "same": "unstable", "up": "unstable", "down": "worse"}
    failed |= {("hopper", "base", 1): "NaN"}
    plan, results = study(finals, name="even", units={"hopper": 10.0}, failed=failed)
    verdicts = {row.variant: row.verdict for row in table(Results(plan, results)).rows}
    assert verdicts["same"] == "equivalent"


def test_a_baseline_that_fails_more_makes_nothing_worse_or_equivalent(study) -> None:
    base = np.random.default_rng(0).normal(0, 1, 8)
    finals = {
        ("hopper", "base"): base,
        ("hopper", "same"): base + 0.01 * np.arange(8),
        ("hopper", "up"): base + 3 + 0.1 * np.arange(8),
        ("hopper", "down"): base - 3 + 0.1 * np.arange(8),
    }
    plan, results = study(finals, units={"hopper": 10.0}, failed={("hopper", "base", 0): "NaN"})
    made = table(Results(plan, results))
    verdicts = {row.variant: row.verdict for row in made.rows}
    shaky = "unstable baseline"
    assert verdicts == {"base": None, "same": shaky, "up": "better", "down": shaky}
    assert "never called worse or equivalent" in "\n".join(made.notes)


def test_the_probability_of_improvement_has_an_interval(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    for row in table(Results(plan, results)).rows:
        if row.baseline:
            low, high = row.improvement_low, row.improvement_high
            assert 0 <= low <= row.probability_of_improvement <= high <= 1
