"""Comparisons: their numbers by scipy, families of intervals, and every verdict with its note."""

from __future__ import annotations

import dataclasses
import math

import memory
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import synthetic
from synthetic import realistic

from ablations import Runs, compare, stats
from ablations.comparison import COLUMNS
from ablations.core.plan import Looks
from ablations.errors import UserError
from ablations.runs import ALL_TASKS
from ablations.tables import table_of

UNITS = {"reacher": 30.0, "hopper": 2000.0}
BASE = np.random.default_rng(0).normal(0, 1, 8)
WIGGLE = 0.1 * (np.arange(8) - 3.5)


def runs_of(scores, failed=(), **options) -> Runs:
    """Runs of a table of scores by (task, variant); failed: (variant, seed). Margin: 0.5."""
    rows = [
        (task, variant, seed, value, "failed" if (variant, seed) in failed else "done")
        for (task, variant), values in scores.items()
        for seed, value in (values.items() if isinstance(values, dict) else enumerate(values))
    ]
    frame = pd.DataFrame(rows, columns=["task", "variant", "seed", "value", "status"])
    options = {"baseline": "base", "margin": 0.5, "margin_in_metric": True, **options}
    return Runs.from_frame(frame, **options)


def rows_of(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_index(["task", "variant"])


def interval(values, level: float = 0.05) -> tuple[float, float]:
    """Student's interval of a mean, by scipy."""
    n, error = len(values), scipy.stats.sem(values)
    return scipy.stats.t.interval(1 - level, n - 1, np.mean(values), error)


# Numbers


@pytest.mark.parametrize(
    ("options", "level", "factor"),
    [
        ({}, 0.025 / 6, 12),  # half of 5% for the tasks, shared by three variants on two tasks
        ({"level": 0.1}, 0.05 / 6, 12),
        ({"simultaneous": False}, 0.05, 1),
        ({"simultaneous": False, "level": 0.1}, 0.1, 1),
        ({"baseline": "brax"}, 0.025 / 6, 12),
    ],
)
def test_rows_are_those_of_scipy(study_runs, options, level, factor) -> None:
    finals = realistic()
    frame = compare(study_runs(finals, units=UNITS), **options)
    assert tuple(frame) == COLUMNS
    rows, baseline = rows_of(frame), options.get("baseline", "standard")
    sizes = {task: rows.loc[(task, baseline)].learned_range for task in UNITS}
    assert baseline != "standard" or sizes == pytest.approx(UNITS)
    for (task, variant), values in finals.items():
        row = rows.loc[(task, variant)]
        assert (row.n, row["mean"]) == (8, pytest.approx(np.mean(values)))
        assert (row.mean_low, row.mean_high) == pytest.approx(interval(values))
        assert row.margin == pytest.approx(0.05 * sizes[task])
        if variant == baseline:
            assert (row.verdict, row.pairs) == ("", 0)
            continue
        pairs = np.array(values) - finals[task, baseline]
        p = scipy.stats.ttest_1samp(pairs, 0).pvalue
        assert (row.pairs, row.baseline) == (8, baseline)
        assert row.level == pytest.approx(level)
        assert (row.p, row.p_adjusted) == pytest.approx((p, min(1, factor * p)))
        assert (row.difference_low, row.difference_high) == pytest.approx(interval(pairs, level))
        assert row.share_low == pytest.approx(row.difference_low / sizes[task])
        assert row.sd == pytest.approx(pairs.std(ddof=1))
        outside = row.difference_low > 0 or row.difference_high < 0
        assert outside == (row.p_adjusted < options.get("level", 0.05))


def test_all_tasks_averages_scaled_differences_and_normalised_scores(study_runs) -> None:
    finals = realistic()
    rows = rows_of(compare(study_runs(finals, units=UNITS, missing=[("reacher", "brax", 1)])))
    for variant in ("standard", "brax", "done_cut"):
        kept = [s for s in range(8) if (variant, s) != ("brax", 1)]
        normalised, scaled = [], []
        for task, unit in UNITS.items():
            scores, base = (np.array(finals[task, v])[kept] for v in (variant, "standard"))
            low = np.mean(finals[task, "standard"]) - unit
            normalised.append((scores - low) / unit)
            scaled.append((scores - base) / unit)
        row, differences = rows.loc[(ALL_TASKS, variant)], np.mean(scaled, axis=0)
        assert (row.n, row.missing) == (len(kept), variant == "brax")
        assert row["mean"] == pytest.approx(np.mean(normalised))
        if variant != "standard":
            assert (row.pairs, row.margin) == (len(kept), 0.05)
            assert row.level == pytest.approx(0.025 / 3)
            ends = interval(differences, 0.025 / 3)
            assert (row.difference_low, row.difference_high) == pytest.approx(ends)
    assert ALL_TASKS not in set(compare(study_runs(realistic(tasks=["reacher"]), name="one")).task)


def test_a_baseline_with_more_seeds_is_the_control_variate_of_its_variants(tmp_path) -> None:
    scores = {
        (task, variant): synthetic.spread(mean, 40, 20 if variant == "base" else 10, k)
        for k, (task, variant, mean) in enumerate(
            [("a", "base", 900), ("a", "b", 700), ("c", "base", 900), ("c", "b", 650)]
        )
    }
    synthetic.trivial(tmp_path, {"a": (0.0, 1.0), "c": (0.0, 1.0)})
    runs = Runs.read(tmp_path, synthetic.study(tmp_path, scores))
    rows = rows_of(compare(runs))
    row = rows.loc[("a", "b")]
    every, ours = np.array(scores["a", "base"]), np.array(scores["a", "b"])
    expected = stats.control_variate(ours[None], every[None, :10], every[None], row.level)
    raw = interval(ours - every[:10], row.level)
    assert (row.pairs, row.baseline_n, row.level) == (10, 20, pytest.approx(0.025 / 2))
    assert (row.difference, row.difference_low, row.difference_high) == pytest.approx(
        (expected.difference, expected.low, expected.high)
    )
    assert (row.raw_difference_low, row.raw_difference_high) == pytest.approx(raw)
    assert row.difference != pytest.approx(row.raw_difference)
    assert rows.loc[(ALL_TASKS, "b")].pairs == 10
    assert "base has 20 seeds and its variants 10" in "\n".join(table_of(runs).attrs["notes"])


def test_successes_have_exact_intervals() -> None:
    ours, theirs = [1.0] * 7 + [0.0], [1.0] * 2 + [0.0] * 6
    row = rows_of(compare(runs_of({("t", "base"): theirs, ("t", "b"): ours}))).loc[("t", "b")]
    expected = stats.outcomes(np.array([ours]), np.array([theirs]), 0.05)
    assert (row.difference_low, row.p) == pytest.approx((expected.low, expected.p))
    exact = scipy.stats.binomtest(7, 8).proportion_ci(method="exact")
    assert (row.mean_low, row.mean_high) == pytest.approx((exact.low, exact.high))
    frame = compare(runs_of({("t", "base"): [0.0] * 8, ("t", "b"): [1.0] * 5 + [0.0] * 3}))
    assert (frame.tied[0], frame.best[1]) == (True, True), "p is .06 by McNemar's test, .01 by t"


def test_successes_are_compared_on_shared_seeds_also_where_the_baseline_has_more(tmp_path) -> None:
    scores = {("a", "base"): [1.0] * 6 + [0.0] * 14, ("a", "b"): [1.0] * 9 + [0.0]}
    synthetic.trivial(tmp_path, {"a": (0.0, 0.0)})
    row = rows_of(compare(Runs.read(tmp_path, synthetic.study(tmp_path, scores)))).loc[("a", "b")]
    assert (row.pairs, row.p, math.isnan(row.baseline_n)) == (10, 0.25, True)


# Verdicts

NOISY = BASE[::-1]
VARIANTS = {
    "same": BASE,
    "close": BASE + 0.1 * WIGGLE,
    "close above": BASE + 0.1 + 0.1 * WIGGLE,
    "up": BASE + 3 + WIGGLE,
    "down": BASE - 3 + WIGGLE,
    "somewhat up": BASE + 0.5 + 0.5 * WIGGLE,
    "somewhat down": BASE - 0.5 + 0.5 * WIGGLE,
    "noisy": NOISY,
    "shifted": np.round(BASE) + 3,
}
PLAIN = {
    "close": "equivalent",
    "close above": "equivalent",
    "up": "better",
    "down": "worse",
    "somewhat up": "better",
    "somewhat down": "worse",
    "noisy": "inconclusive",
}


@pytest.mark.parametrize(
    ("variant", "failed", "verdict", "note"),
    [
        *[(name, (), verdict, "") for name, verdict in PLAIN.items()],
        ("same", (), "equivalent", "identical"),
        ("same", [("v", 0)], "failed", "1 more run failed than of base"),
        ("up", [("v", 0)], "failed", "1 more run failed than of base"),
        ("down", [("v", 0)], "worse", "1 more run failed than of base"),
        ("up", [("base", 0), ("base", 1), ("v", 0)], "better", "1 more run of base failed"),
        ("close", [("base", 0), ("base", 1), ("v", 0)], "inconclusive", "1 more run of base"),
        ("close", [("base", 0), ("v", 0)], "equivalent", ""),
        ("up", [("base", 9), ("v", 8)], "better", ""),
    ],
)
def test_the_interval_and_the_failures_decide(variant, failed, verdict, note) -> None:
    """Failures count on common seeds: the baseline has no seed 8, the variant no seed 9."""
    scores = {
        ("t", "base"): {**dict(enumerate(BASE)), 9: 0.0},
        ("t", "v"): {**dict(enumerate(VARIANTS[variant])), 8: 0.0},
    }
    row = rows_of(compare(runs_of(scores, failed))).loc[("t", "v")]
    assert row.verdict == verdict
    assert note in row.note
    assert bool(note) == bool(row.note)
    assert row.beyond_margin == (variant in ("up", "down"))
    assert math.isnan(row.seeds_needed) == (row.verdict != "inconclusive")


def test_two_similar_pairs_need_a_third() -> None:
    scores = {("t", "base"): [0.0, 1.0], ("t", "v"): [0.4, 1.5]}
    assert rows_of(compare(runs_of(scores))).seeds_needed["t", "v"] == 3


@pytest.mark.parametrize(
    ("ours", "note"),
    [
        ({0: 1.0}, "one seed"),
        ({0: 1.0, 1: 2.0}, "no spread"),
        ({20: 1.0, 21: 2.0}, "no common seed"),
        ({}, "no common seed"),
    ],
)
def test_comparisons_without_an_interval_say_why(ours, note) -> None:
    scores = {("t", "base"): {0: 0.0, 1: 1.0, 2: 5.0}, ("t", "v"): ours or {0: 1.0}}
    failed = [] if ours else [("v", 0)]
    row = rows_of(compare(runs_of(scores, failed))).loc[("t", "v")]
    assert (row.verdict, math.isnan(row.difference_low)) == ("inconclusive", True)
    assert row.note == note
    assert math.isnan(row.seeds_needed)


def test_equal_ends_of_unequal_curves_prove_nothing(study_runs) -> None:
    runs = study_runs({("t", v): [10.0] * 8 for v in "ab"}, units={"t": 5.0}, noise=0.1)
    row = rows_of(compare(runs)).loc[("t", "b")]
    assert (row.difference, row.verdict, row.note) == (0, "inconclusive", "no spread")


def test_without_a_range_only_the_sign_is_decided(study_runs) -> None:
    finals = {("t", name): values for name, values in {"base": BASE, **VARIANTS}.items()}
    runs = study_runs(finals, units={"t": 0.0})
    frame = compare(runs)
    assert frame[["margin", "share", "seeds_needed"]].isna().all(axis=None)
    verdicts = dict(zip(frame.variant, frame.verdict, strict=True))
    signs = {"close": "inconclusive", "close above": "better", "same": "equivalent"}
    assert {**PLAIN, **signs} == {name: verdicts[name] for name in (*PLAIN, "same")}
    assert "did not learn more than its noise" in "\n".join(table_of(runs).attrs["notes"])


def test_a_metric_without_a_good_direction_has_intervals_and_no_verdicts(study_runs) -> None:
    runs = study_runs(realistic(), units=UNITS, noise=0.1)
    frame = compare(Runs.read(runs.folder, runs.plan, "loss/value", "mean"))
    assert not frame[["best", "tied"]].any(axis=None)
    assert set(frame.verdict) == {""}
    assert frame[frame.pairs > 0].difference_low.notna().all()
    assert ALL_TASKS not in set(frame.task)


def test_a_baseline_no_better_than_untrained_policies_decides_nothing(tmp_path) -> None:
    scores = {
        (task, variant): synthetic.spread(mean, 40, 8, k)
        for k, (task, variant, mean) in enumerate(
            [("a", "base", 1000), ("a", "v", 700), ("c", "base", 1000), ("c", "v", 700)]
        )
    }
    synthetic.trivial(tmp_path, {"a": (0.0, 900.0), "c": (0.0, 1.0)})
    runs = Runs.read(tmp_path, synthetic.study(tmp_path, scores))
    rows = rows_of(compare(runs))
    assert tuple(rows.loc[("a", "v"), ["verdict", "note"]]) == (
        *("inconclusive", "the baseline learned too little"),
    )
    assert rows.loc[("c", "v")].verdict == "worse"
    assert (ALL_TASKS, "v") not in rows.index, "one task is no average"
    policies = rows[rows.untrained]
    assert policies.loc[("a", "(uniform)"), "mean"] == 900
    assert list(policies.index) == [(t, p) for t in "ac" for p in ("(zero)", "(uniform)")]
    assert not policies[["best", "tied"]].any(axis=None)
    assert "a: base is less than 5 standard deviations" in "\n".join(table_of(runs).attrs["notes"])


def test_a_task_without_a_range_disagrees_with_none(tmp_path) -> None:
    means = {"a": (1000, 1300), "c": (1000, 700), "d": (1000, 700)}
    scores = {
        (task, name): synthetic.spread(mean, 40, 8, mean + k)
        for k, (task, both) in enumerate(means.items())
        for name, mean in zip(("base", "v"), both, strict=True)
    }
    synthetic.trivial(tmp_path, {"a": (0.0, 900.0), "c": (0.0, 1.0), "d": (0.0, 1.0)})
    rows = rows_of(compare(Runs.read(tmp_path, synthetic.study(tmp_path, scores))))
    assert rows.loc[("a", "v")].difference_low > 0
    assert rows.loc[(ALL_TASKS, "v")].verdict == "worse"


def two_tasks(effect: float, noise: float = 0.05, other: float | None = None) -> dict:
    random = np.random.default_rng(1)
    base, wiggle = random.normal(size=(2, 8)), noise * random.normal(size=(2, 8))
    effects = (effect, -effect if other is None else other)
    return {
        ("x", "base"): base[0],
        ("y", "base"): base[1],
        ("x", "v"): base[0] + effects[0] + wiggle[0],
        ("y", "v"): base[1] + effects[1] + wiggle[1],
    }


CANCELLED = {
    **{("x", "base"): BASE, ("x", "v"): BASE + 3 + WIGGLE},
    **{("y", "base"): NOISY, ("y", "v"): NOISY - 3 - WIGGLE},
}


@pytest.mark.parametrize(
    ("scores", "failed", "verdict", "note"),
    [
        (two_tasks(3.0), (), "inconclusive", "tasks disagree"),
        (two_tasks(3.0, other=3.0), (), "better", ""),
        (two_tasks(3.0, other=-1.0), (), "inconclusive", "tasks disagree"),
        (two_tasks(0.9, 1.0), (), "inconclusive", ""),
        (two_tasks(0.05), (), "equivalent", ""),
        (two_tasks(0.2, 0.3), (), "inconclusive", "not equivalent on every task"),
        (two_tasks(3.0, other=3.0), [("v", 1)], "failed", "2 more runs failed than of base"),
        (two_tasks(-3.0, other=-3.0), [("v", 1)], "worse", "2 more runs failed than of base"),
        (two_tasks(0.05), [("base", 1)], "inconclusive", "2 more runs of base failed"),
        (two_tasks(0.0, 0.0), (), "equivalent", "identical"),
        (CANCELLED, (), "inconclusive", "no spread"),
        ({**two_tasks(3.0), ("y", "v"): two_tasks(3.0)["y", "base"]}, (), "better", ""),
        ({**two_tasks(-3.0), ("y", "v"): two_tasks(3.0)["y", "base"]}, (), "worse", ""),
    ],
)
def test_all_tasks_hides_no_task(scores, failed, verdict, note) -> None:
    row = rows_of(compare(runs_of(scores, failed))).loc[(ALL_TASKS, "v")]
    assert (row.verdict, row.note) == (verdict, note)


# Families, the best, what is named


def test_equal_configurations_share_a_comparison_and_identical_ones_need_none(study_runs) -> None:
    scores = {("t", v): BASE + 3 + 0.5 * WIGGLE for v in "cde"}
    scores = {("t", "a"): BASE, **scores, ("t", "f"): BASE}
    options = {"units": {"t": 10.0}, "versus": {"f": "f"}}
    plain = rows_of(compare(study_runs(scores, name="plain", **options)))
    runs = study_runs(scores, same_as={"d": "c", "e": "c", "f": "a"}, **options)
    rows = rows_of(compare(runs)).loc["t"]
    assert dict(rows.same_as) == {"a": "", "c": "", "d": "c", "e": "c", "f": "a"}
    assert set(rows.verdict) == {"", "better"}
    assert rows.loc["c"].level == pytest.approx(0.05)
    assert plain.loc[("t", "c")].level == pytest.approx(0.05 / 3)
    runs = study_runs(
        {("t", v): BASE for v in "ab"},
        name="not_run",
        same_as={"b": "a"},
        missing=[("t", v, s) for v in "ab" for s in range(8)],
    )
    row = rows_of(compare(runs)).loc[("t", "b")]
    assert (row.verdict, row.note, row.difference, row.pairs) == ("equivalent", "identical", 0, 0)


def test_the_best_mean_and_those_not_significantly_below_are_marked(study_runs) -> None:
    finals = realistic()
    frame = compare(study_runs(finals, units=UNITS))
    rows = frame[frame.task == "hopper"].set_index("variant")
    assert list(rows.index[rows.best]) == [rows["mean"].idxmax()]
    assert set(rows.index[rows.best | rows.tied]) == {"standard", "brax", "masked_truncation"}
    assert frame[frame.task == ALL_TASKS].best.sum() == 1
    versus = {"done_cut": "done_cut", "masked_truncation": "done_cut"}
    frame = compare(study_runs(finals, units=UNITS, versus=versus, name="two_ranges"))
    assert dict(frame.groupby("task").best.sum()) == {"reacher": 1, "hopper": 1, ALL_TASKS: 2}


@pytest.mark.parametrize(
    ("failed", "lengths", "best"),
    [
        ((), {}, ["d"]),
        ([("d", 0)], {}, ["c"]),  # the mean of survivors is not ranked
        ((), {"a": 100, "b": 100, "c": 1000, "d": 1000}, ["b", "d"]),  # of one task setting each
    ],
)
def test_only_comparable_variants_are_ranked(study_runs, failed, lengths, best) -> None:
    finals = {("t", v): BASE + 5 * k for k, v in enumerate("abcd")}
    settings = {v: {"episode_length": lengths.get(v, 1)} for v in "abcd"}
    runs = study_runs(finals, failed={("t", *run): "NaN" for run in failed}, task_settings=settings)
    frame = compare(runs)
    assert list(frame.variant[frame.best]) == best
    said = [note for note in table_of(runs).attrs["notes"] if "settings of the task" in note]
    assert len(said) == (2 if lengths else 0), "c and d are compared with a"


def test_failed_and_missing_runs_are_counted_and_named(study_runs) -> None:
    finals = realistic(tasks=["reacher"])
    runs = study_runs(
        finals,
        failed={("reacher", "brax", 2): "loss is not finite"},
        missing=[("reacher", "brax", 7), ("reacher", "standard", 0)],
    )
    row = rows_of(compare(runs)).loc[("reacher", "brax")]
    assert (row.n, row.failed, row.missing, row.pairs) == (6, 1, 1, 5)
    kept = [1, 3, 4, 5, 6]
    pairs = np.array(finals["reacher", "brax"]) - finals["reacher", "standard"]
    assert row.difference == pytest.approx(pairs[kept].mean())
    notes = "\n".join(table_of(runs).attrs["notes"])
    for line in (
        "2 of 32 runs are missing",
        "missing: reacher, brax, seed 7",
        "failed: reacher, brax, seed 2: step 200,000: loss is not finite",
    ):
        assert line in notes, line


def test_before_anything_has_run_rows_are_empty(study_runs) -> None:
    finals = {("t", "a"): [1.0], ("t", "b"): [2.0]}
    frame = compare(study_runs(finals, missing=[("t", "a", 0), ("t", "b", 0)]))
    assert list(frame.n) == [0, 0]
    assert frame["mean"].isna().all()
    assert list(frame.note) == ["", "no runs"]


def test_before_the_first_stage_none_is_the_best() -> None:
    scores = {("t", name): 3 * k + BASE[:3] for k, name in enumerate("ab")}
    assert not compare(memory.runs_of(scores, looks=Looks((4, 8), 1, 0))).best.any()
    scores = {place: [*values, *values] for place, values in scores.items()}
    assert compare(memory.runs_of(scores, looks=Looks((4, 8), 1, 0))).best.any()


def test_a_stage_decides_equivalence_in_learned_ranges() -> None:
    scores = {("t", "a"): 100 + BASE, ("t", "b"): 100 + BASE + WIGGLE}
    runs = memory.runs_of(scores, looks=Looks((4, 8), 1, 0))
    untrained = {"t": {"zero": np.zeros(5)}}
    frame = compare(dataclasses.replace(runs, margin_in_metric=False, untrained=untrained))
    row = frame[frame.variant == "b"].iloc[0]
    assert (row.verdict, row.pairs) == ("equivalent", 4)


def test_no_difference_is_beyond_no_margin() -> None:
    frame = compare(runs_of({("t", "base"): BASE, ("t", "v"): BASE}, margin=0.0))
    assert (frame.verdict[1], frame.beyond_margin[1]) == ("equivalent", False)


def test_an_absent_or_unknown_baseline_is_named(study_runs) -> None:
    runs = study_runs({("t", "b"): [1.0, 2.0]}, baseline="base")
    row = rows_of(compare(runs)).loc[("t", "b")]
    assert (row.verdict, row.note) == ("inconclusive", "base is not among the runs")
    assert any("the baseline base is not among" in note for note in table_of(runs).attrs["notes"])
    with pytest.raises(UserError, match="unknown baseline 'c'"):
        compare(runs, baseline="c")
