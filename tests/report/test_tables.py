"""Tables as data: which numbers, which families, and nothing hidden."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from synthetic import realistic

from ablations import report
from ablations.records import read_plan
from ablations.report.scores import grouped
from ablations.report.statistics import holm, interval
from ablations.report.tables import ALL_TASKS, table

UNITS = {"reacher": 30.0, "hopper": 2000.0}


def test_entries_are_those_of_scipy(study) -> None:
    finals = realistic()
    plan, results = study(finals, units=UNITS)
    made = table(plan, results)
    p_values = {}
    for (task, variant), values in finals.items():
        row = made.entry(task, variant)
        assert row.n == row.n_planned == 8
        assert row.iqm == pytest.approx(scipy.stats.trim_mean(values, 0.25))
        assert (row.low, row.high) == pytest.approx(interval(values))
        if variant == "standard":
            assert row.baseline is row.difference is row.verdict is None
            continue
        test = scipy.stats.ttest_rel(values, finals[task, "standard"])
        assert row.baseline == "standard"
        assert row.n_pairs == 8
        assert row.p == pytest.approx(test.pvalue)
        assert (row.difference_low, row.difference_high) == pytest.approx(
            test.confidence_interval()
        )
        assert row.margin == pytest.approx(0.05 * UNITS[task])
        p_values[task, variant] = test.pvalue
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    for place, p in adjusted.items():
        assert made.entry(*place).p_holm == pytest.approx(p)


def test_all_tasks_is_the_mean_of_scaled_differences_per_seed(study) -> None:
    finals = realistic()
    plan, results = study(finals, units=UNITS)
    made = table(plan, results)
    tests = {}
    for variant in ("brax", "done_cut", "masked_truncation"):
        scaled = [
            (np.array(finals[task, variant]) - finals[task, "standard"]) / unit
            for task, unit in UNITS.items()
        ]
        tests[variant] = scipy.stats.ttest_1samp(np.mean(scaled, axis=0), 0)
        row = made.entry(ALL_TASKS, variant)
        assert row.difference == pytest.approx(np.mean(scaled))
        assert row.p == pytest.approx(tests[variant].pvalue)
        assert (row.margin, row.iqm) == (0.05, None)
    adjusted = holm([test.pvalue for test in tests.values()])
    assert [made.entry(ALL_TASKS, v).p_holm for v in tests] == pytest.approx(adjusted)


def test_one_task_has_no_aggregate(study) -> None:
    plan, results = study(realistic(tasks=["reacher"]))
    assert table(plan, results).entry(ALL_TASKS, "brax") is None


def test_verdicts_of_clear_cases(study) -> None:
    base = np.random.default_rng(0).normal(0, 1, 8)
    finals = {
        ("hopper", "base"): base,
        ("hopper", "same"): base,
        ("hopper", "close"): base + 0.01 * np.arange(8),
        ("hopper", "up"): base + 3 + 0.1 * np.arange(8),
        ("hopper", "down"): base - 3 + 0.1 * np.arange(8),
        ("hopper", "noisy"): base[::-1],
    }
    plan, results = study(finals, units={"hopper": 10.0})
    made = table(plan, results)
    verdicts = {row.variant: row.verdict for row in made.rows}
    assert verdicts == {
        "base": None,
        "same": "equivalent",
        "close": "equivalent",
        "up": "better",
        "down": "worse",
        "noisy": "undecided",
    }
    assert made.entry("hopper", "noisy").seeds_to_decide > 8
    assert made.entry("hopper", "up").seeds_to_decide is None
    assert [row.variant for row in made.rows if row.best] == ["up"]
    assert not any(row.tied for row in made.rows)


def test_ties_with_the_best_are_marked(study) -> None:
    plan, results = study(realistic())
    rows = [row for row in table(plan, results).rows if row.task == "hopper"]
    assert [row.variant for row in rows if row.best] == ["standard"]
    assert [row.variant for row in rows if row.tied] == ["brax", "masked_truncation"]


def test_a_stored_plan_keeps_the_study_s_order(study) -> None:
    finals = {(task, v): [1.0, 2.0] for task in ("reacher", "hopper") for v in ("z", "b", "a")}
    plan, results = study(finals, baseline="z")
    stored = read_plan(results, "gae")
    assert stored == plan
    assert (table(stored, results).tasks, table(stored, results).variants) == (
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
    made = table(plan, results)
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
    row = table(plan, results).entry(ALL_TASKS, "brax")
    assert (row.n_pairs, row.n, row.n_planned) == (6, 7, 8)


def test_nothing_has_run(study) -> None:
    finals = {("hopper", "a"): [1.0], ("hopper", "b"): [2.0]}
    plan, results = study(finals, missing=[("hopper", "a", 0), ("hopper", "b", 0)])
    made = table(plan, results)
    assert [(row.n, row.iqm, row.verdict) for row in made.rows] == [
        (0, None, None),
        (0, None, "no pairs"),
    ]


def test_one_seed_has_no_interval_and_says_so(study) -> None:
    plan, results = study({("hopper", "a"): [1.0], ("hopper", "b"): [2.0]})
    made = table(plan, results)
    row = made.entry("hopper", "b")
    assert (row.iqm, row.low, row.high, row.difference) == (2.0, None, None, 1.0)
    assert (row.difference_low, row.p, row.verdict) == (None, None, "one seed")
    assert any("one seed: no interval" in note for note in made.notes)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (0, "(bootstrap, Student levels)"),
        (4, "(bootstrap, Student levels; of fewer than 5 runs Student's t)"),
    ],
)
def test_the_caption_says_how_the_intervals_were_made(study, missing: int, said: str) -> None:
    lacking = [("reacher", "brax", seed) for seed in range(missing)]
    plan, results = study(realistic(tasks=["reacher"]), missing=lacking)
    assert said in table(plan, results).caption


def test_few_seeds_have_t_intervals_and_a_mean_and_say_so(study) -> None:
    plan, results = study(realistic(seeds=3, tasks=["reacher"]))
    made = table(plan, results)
    assert "(Student's t)" in made.caption
    assert any("an IQM of fewer than 4 seeds is their mean" in note for note in made.notes)


def test_variants_stand_under_what_they_are_compared_with(study) -> None:
    finals = {("hopper", v): [1.0, 2.0, 4.0] for v in ("x2", "base", "x", "y", "y2")}
    plan, results = study(finals, baseline="base", versus={"x2": "x", "y": "y", "y2": "y"})
    made = table(plan, results)
    assert made.variants == ("base", "x", "x2", "y", "y2")
    assert [row.baseline for row in made.rows] == [None, "base", "x", None, "y"]


def test_grouping_keeps_every_variant_even_of_a_circle() -> None:
    assert [v for v, _ in grouped({"a": "b", "b": "a", "c": "gone"})] == ["a", "b", "c"]


def test_a_baseline_that_was_left_out_is_noted(study) -> None:
    plan, results = study({("hopper", "b"): [1.0, 2.0]}, baseline="base")
    made = table(plan, results)
    assert made.entry("hopper", "b").verdict == "no pairs"
    assert any("baseline base is not part of this run" in note for note in made.notes)


def test_another_metric_has_no_margin_and_no_better(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    made = table(plan, results, metric="loss/value")
    assert not any(row.best or row.tied or row.margin for row in made.rows)
    assert {row.verdict for row in made.rows} <= {None, "higher", "lower", "undecided"}
    assert made.entry(ALL_TASKS, "brax") is None
    assert "no margin" in made.caption


def test_auc_lies_below_the_final_score_of_a_rising_curve(study) -> None:
    plan, results = study({("hopper", "a"): [5.0, 6.0, 7.0]})
    ends = table(plan, results).rows[0].iqm
    assert table(plan, results, score="auc").rows[0].iqm < ends


def test_records_of_other_versions_are_named(study) -> None:
    plan, results = study(realistic(), other_versions=[("hopper", "brax", 0)])
    notes = table(plan, results).notes
    assert "1 of 64 cells were made with other versions: jax 0.9.0 (the most: 0.10.2)" in notes


def test_caption_says_what_the_numbers_are(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    caption = table(plan, results).caption
    for part in ("8 paired seeds (0-7)", "400,000", "reacher 1.5; hopper 100", "last 10%", "TOST"):
        assert part in caption


def test_dataframe_is_tidy_and_numeric(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    frame = report.table("gae", results)
    assert len(frame) == 8 + 4
    assert not frame.duplicated(["task", "variant"]).any()
    texts = {"task", "variant", "baseline", "verdict"}
    for name in set(frame.columns) - texts:
        assert frame[name].dtype.kind in "iufb", name
    assert frame.attrs["caption"] == table(plan, results).caption
    assert table(plan, results).columns == tuple(frame.columns)


def test_a_table_needs_neither_jax_nor_pandas(study) -> None:
    _, results = study(realistic(), units=UNITS)
    program = f"""
import sys
from pathlib import Path
from ablations.records import read_plan
from ablations.report import formats, tables
folder = Path({str(results)!r})
made = tables.table(read_plan(folder, "gae"), folder)
for format in ("markdown", "latex", "csv", "html", "json"):
    formats.render(made, format)
slow = {{"jax", "pandas", "scipy.stats", "matplotlib", "seaborn", "brax", "variants"}}
print(sorted(slow & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


REFERENCES = {"reacher": (-40.0, -10.0), "hopper": (0.0, 2000.0)}


def test_all_tasks_shows_the_mean_of_normalised_iqms_of_complete_seeds(study) -> None:
    finals = realistic()
    plan, results = study(
        finals, units=UNITS, references=REFERENCES, missing=[("reacher", "brax", 1)]
    )
    made = table(plan, results)
    for variant, kept in (("standard", range(8)), ("brax", [0, *range(2, 8)])):
        normalised = [
            (np.array(finals[task, variant])[list(kept)] - low) / (high - low)
            for task, (low, high) in REFERENCES.items()
        ]
        row = made.entry(ALL_TASKS, variant)
        expected = np.mean([scipy.stats.trim_mean(one, 0.25) for one in normalised])
        assert row.iqm == pytest.approx(expected)
        assert row.low < row.iqm < row.high
        assert (row.n, row.n_planned) == (len(kept), 8)
    assert sum(row.best for row in made.rows if row.task == ALL_TASKS) == 1
    assert made.entry(ALL_TASKS, "done_cut").tied is False


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
    verdicts = {row.variant: row.verdict for row in table(plan, results).rows}
    assert verdicts == {"base": None, "same": "unstable", "up": "unstable", "down": "worse"}
    failed |= {("hopper", "base", 1): "NaN"}
    plan, results = study(finals, name="even", units={"hopper": 10.0}, failed=failed)
    verdicts = {row.variant: row.verdict for row in table(plan, results).rows}
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
    made = table(plan, results)
    verdicts = {row.variant: row.verdict for row in made.rows}
    shaky = "unstable baseline"
    assert verdicts == {"base": None, "same": shaky, "up": "better", "down": shaky}
    assert "never called worse or equivalent" in "\n".join(made.notes)


def test_who_is_not_significantly_below_the_best_is_tied(study) -> None:
    """Also where the mean of its differences to the best IQM lies significantly above zero."""
    best = np.array([1.0, 2, 3, 4, 5, 6, 7, 8])
    other = best + np.array([0.9, 0.9, -0.01, -0.01, -0.01, -0.01, 1, 1])
    below = best - 1 - 0.1 * np.arange(8)
    finals = {("hopper", "best"): best, ("hopper", "other"): other, ("hopper", "below"): below}
    plan, results = study(finals)
    made = table(plan, results)
    rows = {row.variant: row for row in made.rows}
    assert rows["other"].p_holm < 0.05
    assert rows["other"].difference > 0
    assert rows["best"].best
    assert rows["other"].tied
    assert not rows["below"].tied


def test_the_probability_of_improvement_has_an_interval(study) -> None:
    plan, results = study(realistic(), units=UNITS, references=REFERENCES)
    for row in table(plan, results).rows:
        if row.baseline:
            low, high = row.improvement_low, row.improvement_high
            assert 0 <= low <= row.probability_of_improvement <= high <= 1
