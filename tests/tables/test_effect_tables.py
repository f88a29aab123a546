"""Tables of factorials and fractions: contrasts, failures, tasks together, aliases in words."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import synthetic
from memory import PATTERNS, SEEDS, contradicts, runs_of

from ablations import stats
from ablations.core.plan import Looks
from ablations.errors import UserError
from ablations.runs import ALL_TASKS, Runs
from ablations.stats import interim
from ablations.studies import fraction
from ablations.tables import format_table, table_of
from ablations.tables.effects import default_kind, design_of

SETS: dict[str, dict[str, Any]] = {
    "plain_low": {"coefficient": 0.25},
    "plain_high": {"coefficient": 0.5},
    "shared_low": {"coefficient": 0.25, "torso": "shared"},
    "shared_high": {"coefficient": 0.5, "torso": "shared"},
}
BOTH = "coefficient \u00d7 torso"
RANDOM = np.random.default_rng(3)
SCORES = {(task, v): RANDOM.normal(size=8) for task in "ab" for v in SETS}
HIGH = {("a", v): np.arange(8) / 8 + 5 * ("high" in v) for v in SETS}


def by_effect(runs: Runs) -> dict[tuple[str, str], Any]:
    """Return (task, factor) -> row."""
    return {(row.task, row.factor): row for row in table_of(runs, "effects").itertuples()}


# Full factorials


def test_effects_are_contrasts_of_seeds() -> None:
    rows = by_effect(runs_of(SCORES, sets=SETS))
    y = {v: SCORES["a", v] for v in SETS}
    main = (y["plain_high"] - y["plain_low"] + y["shared_high"] - y["shared_low"]) / 2
    both = y["shared_high"] - y["shared_low"] - y["plain_high"] + y["plain_low"]
    for factor, level, contrast in (
        ("coefficient", "0.5", main),
        (BOTH, "0.5 \u00d7 shared", both),
    ):
        row, mean = rows["a", factor], contrast.mean()
        assert (row.n, row.level, row.effect) == (8, level, pytest.approx(mean))
        assert row.p == pytest.approx(scipy.stats.ttest_1samp(contrast, 0).pvalue)
        ends = scipy.stats.t.interval(1 - 0.05 / 12, 7, mean, scipy.stats.sem(contrast))
        assert (row.effect_low, row.effect_high) == pytest.approx(ends)
        assert row.p_adjusted == pytest.approx(min(1, 12 * row.p))
    assert {task for task, _ in rows} == {"a", "b", ALL_TASKS}
    assert rows["a", BOTH].verdict == ""
    mean = (rows["a", "torso"].effect + rows["b", "torso"].effect) / 2
    assert rows[ALL_TASKS, "torso"].effect == pytest.approx(mean)


def test_a_narrow_terminal_omits_columns_instead_of_breaking_names() -> None:
    names = {"coefficient": "value_loss_coefficient", "torso": "separate_networks"}
    sets = {v: {names[name]: x for name, x in of.items()} for v, of in SETS.items()}
    text = format_table(table_of(runs_of(SCORES, sets=sets), "effects"), "terminal", width=80)
    assert {*names.values(), "inconclusive", "shared"} <= {*text.split()}
    assert "omitted here: p_adjusted n seeds_needed; --columns shows them" in text


def test_shares_are_in_learned_ranges_and_metrics_of_no_direction_have_none(study_runs) -> None:
    scores = {place: 50 + values for place, values in SCORES.items()}
    runs = study_runs(scores, units={"a": 30.0, "b": 20.0}, sets=SETS, noise=0.1)
    row = by_effect(runs)["a", "torso"]
    assert row.share == row.effect / runs.size("a", "plain_low")
    runs = Runs.read(runs.folder, runs.plan, "loss/value")
    frame = table_of(runs, "effects")
    assert (set(frame.verdict), frame.share.isna().all()) == ({""}, True)


def test_an_effect_needs_seeds_that_every_variant_has() -> None:
    lost = {("a", "plain_low", 1): "missing", ("a", "shared_high", 4): "missing"}
    frame = table_of(runs_of(SCORES, sets=SETS, lost=lost), "effects")
    assert dict(zip(frame.task, frame.n, strict=True)) == {"a": 6, "b": 8, ALL_TASKS: 6}
    note = "a: only 6 of 8 seeds are used, as other seeds lack a run"
    assert frame.attrs["notes"] == [note]
    few = {place: values[:2] for place, values in SCORES.items()}
    lost = {("a", "plain_low", 0): "missing", ("a", "shared_high", 1): "missing"}
    rows = by_effect(runs_of(few, sets=SETS, lost=lost))
    for factor, verdict in (("torso", "inconclusive"), (BOTH, "")):
        row = rows["a", factor]
        assert (row.n, row.verdict, row.note) == (0, verdict, "no seed is complete")
        assert np.isnan(row.effect)


def test_a_setting_left_out_takes_its_default_from_the_configuration(study, study_runs) -> None:
    plan, _ = study(SCORES, sets=SETS)
    assert design_of(plan).factors["torso"] == ("default", "shared")
    for cell in plan.cells:
        cell.config["structure"] = {"torso": "separate"}
    assert design_of(plan).factors["torso"] == ("separate", "shared")
    assert default_kind(plan) == "comparison"
    with pytest.raises(UserError, match="'gae' is not a factorial"):
        table_of(study_runs(SCORES), "effects")


@pytest.mark.parametrize("failing", ["plain_high", "plain_low"])
def test_a_run_that_diverged_is_the_worst_of_its_task_in_a_full_factorial(failing: str) -> None:
    y = {place: np.array(values) for place, values in HIGH.items()}
    runs = runs_of(y, sets=SETS, lost={("a", failing, seed): "failed" for seed in (0, 1)})
    y["a", failing][:2] = 0.0
    row = by_effect(runs)["a", "coefficient"]
    changes = [y["a", f"{kind}_high"] - y["a", f"{kind}_low"] for kind in ("plain", "shared")]
    assert (row.n, row.effect) == (8, pytest.approx(np.mean(changes)))


def test_a_level_that_changes_no_bit_is_identical() -> None:
    rows = by_effect(runs_of(HIGH, sets=SETS, bits={v: v.partition("_")[2] for v in SETS}))
    for factor in ("torso", BOTH):
        assert (rows["a", factor].verdict, rows["a", factor].note) == ("equivalent", "identical")
    assert rows["a", "coefficient"].note != "identical"


@pytest.mark.parametrize("second", ["equal", "up", "noise"])
@pytest.mark.parametrize("both", ["equal", "down", "within"])
def test_verdicts_go_with_their_intervals_and_their_tasks(second: str, both: str) -> None:
    disagreed = False
    for first in list(itertools.combinations_with_replacement(PATTERNS, 2))[::4]:
        scores = {}
        for task, (name, sets) in itertools.product((0, 1), SETS.items()):
            p, q = sets["coefficient"] == 0.5, "torso" in sets
            moved = p * PATTERNS[first[task]] + q * PATTERNS[second] + p * q * PATTERNS[both]
            scores[str(task), name] = np.arange(SEEDS) / 8 + moved
        frame = table_of(runs_of(scores, sets=SETS), "effects")
        for _, of in frame[frame.kind == "main"].groupby(["factor", "level"]):
            *tasks, over = of.to_dict("records")
            assert not any(contradicts(row, "effect") for row in tasks), first
            if over["note"] == "tasks disagree":
                disagreed = True
                assert over["verdict"] == "inconclusive"
                continue
            sides = {row["verdict"] for row in (*tasks, over)} & {"better", "worse"}
            assert len(sides) < 2
            everywhere = all(row["verdict"] == "equivalent" for row in tasks)
            assert (over["verdict"] == "equivalent") <= everywhere
            assert not contradicts(over, "effect") or everywhere or "every task" in over["note"]
    assert disagreed or both != "equal"


# Fractions

NAMES = ("first", "second", "third", "fourth", "fifth")
SETTINGS = fraction({name: {name: "on"} for name in NAMES})
ON_OFF = {v: {name: one.sets.get(name, "off") for name in NAMES} for v, one in SETTINGS.items()}
FLOORS = {"hopper": (50.0, 200.0), "ant": (1100.0, 300.0)}
TOPS = {"hopper": (1000.0, 800.0), "ant": (3100.0, 2000.0)}  # and learned ranges
GAINS, TOGETHER = {"second": 0.2, "fourth": -0.1}, 0.3  # of the first and the second, in ranges


def scores_of(seeds: int = 6) -> dict[tuple[str, str], list[float]]:
    rng, scores = np.random.default_rng(2), {}
    for (task, (top, unit)), (variant, one) in itertools.product(TOPS.items(), SETTINGS.items()):
        gain = sum(GAINS.get(name, 0.0) for name in one.sets)
        gain += TOGETHER * ("first" in one.sets and "second" in one.sets)
        scores[task, variant] = list(top + unit * (gain + rng.normal(0, 0.01, seeds)))
    return scores


def fraction_of(results: Path, scores: Any = None, **options: Any) -> pd.DataFrame:
    plan = synthetic.study(results, scores or scores_of(), sets=ON_OFF, **options)
    return table_of(Runs.read(results, plan))


def mains(frame: pd.DataFrame, task: str) -> pd.DataFrame:
    return frame[(frame.task == task) & (frame.kind == "main")].set_index("factor")


def contrast(scores: Any, seeds: Any = slice(None)) -> float:
    """Return the main effect of the first setting on ant."""
    on, off = (
        [np.array(scores["ant", v])[seeds] for v in ON_OFF if ON_OFF[v]["first"] == level]
        for level in ("on", "off")
    )
    return float(np.mean(on) - np.mean(off))


def test_effects_of_a_fraction_in_the_metric_and_in_learned_ranges(tmp_path: Path) -> None:
    synthetic.trivial(tmp_path, FLOORS)
    frame = fraction_of(tmp_path)
    ranges = {"hopper": 800.0, "ant": 2000.0, ALL_TASKS: 1.0}
    for (task, unit), name in itertools.product(ranges.items(), NAMES):
        gain = GAINS.get(name, 0.0) + TOGETHER / 2 * (name in ("first", "second"))
        row = mains(frame, task).loc[name]
        assert row.share == pytest.approx(gain, abs=0.02)
        assert row.effect == pytest.approx(row.share * unit, rel=0.05, abs=0.01 * unit)
        side = "better" if gain > 0 else "worse"
        assert row.verdict == (side if abs(gain) >= 0.1 else "equivalent")
        assert (row.n, row.level, row.reference) == (6, "on", "off")
    assert "second = on is better on hopper (+35" in frame.attrs["summary"]
    assert "\u00d7" not in frame.attrs["summary"]
    assert "+35" in format_table(frame, "markdown")


def test_aliases_are_computed_and_written(tmp_path: Path) -> None:
    frame = fraction_of(tmp_path)
    assert "5 settings in 16 variants, a fraction of all combinations" in frame.attrs["caption"]
    rows, keys = frame[(frame.kind == "aliased") & (frame.task == "ant")], mains(frame, "ant").key
    assert "\u00d7".join(sorted((keys["first"], keys["second"]))) in rows.factor.iloc[0]
    assert rows.effect.iloc[0] == pytest.approx(TOGETHER * 2000, rel=0.1)
    assert rows.effect.abs().is_monotonic_decreasing
    (line,) = [note for note in frame.attrs["notes"] if note.startswith("aliased: ")]
    sums = line.removeprefix("aliased: ").replace("\u2212", "+").split("; ")
    terms = [term for one in sums for term in one.split(" + ")]
    assert sorted(terms) == sorted(map("\u00d7".join, itertools.combinations("ABCDE", 2)))


def test_the_largest_interactions_are_listed_and_all_whose_interval_excludes_0() -> None:
    signs = {v: [2 * (of[name] == "on") - 1 for name in NAMES] for v, of in ON_OFF.items()}
    for strength, listed in ((0.0, 3), (1.0, 4)):
        scores = {
            ("a", v): strength * s[0] * sum(s[1:]) + 0.1 * np.random.default_rng(k).normal(size=6)
            for k, (v, s) in enumerate(signs.items())
        }
        frame = table_of(runs_of(scores, sets=ON_OFF))
        assert (frame.kind == "aliased").sum() == listed


@pytest.mark.parametrize(
    ("missing", "broken", "kept"),
    [
        ((("ant", "mix_3", 5), ("ant", "mix_7", 0)), (("ant", "baseline", 2),), [1, 3, 4]),
        (tuple(("ant", "mix_3", seed) for seed in range(6)), (), []),
    ],
)
def test_only_seeds_that_every_variant_has_are_used(missing, broken, kept, tmp_path: Path) -> None:
    frame = fraction_of(tmp_path, missing=missing, broken=broken)
    row = mains(frame, "ant").loc["first"]
    assert (row.n, mains(frame, "hopper").n.max()) == (len(kept), 6)
    if kept:
        assert row.effect == pytest.approx(contrast(scores_of(), kept))
    else:
        assert (row.verdict, row.note) == ("inconclusive", "no seed is complete")


def test_a_run_that_diverged_is_the_worst_of_its_task(tmp_path: Path) -> None:
    synthetic.trivial(tmp_path, FLOORS)
    lost, scores = [("ant", "mix_3", 1), ("ant", "mix_3", 4)], scores_of()
    frame = fraction_of(tmp_path, diverged=lost)
    for task, variant, seed in lost:
        scores[task, variant][seed] = FLOORS["ant"][0]  # below all runs
    row = mains(frame, "ant").loc["first"]
    assert (row.n, row.effect) == (6, pytest.approx(contrast(scores)))
    assert "ant: 2 runs diverged, counted as the worst score of the task" in frame.attrs["notes"]


def test_one_seed_has_no_interval_and_a_baseline_that_learned_nothing_no_verdict(
    tmp_path: Path,
) -> None:
    frame = fraction_of(tmp_path, scores_of(seeds=1))
    assert set(frame.note[frame.kind == "main"]) == {"one seed"}
    assert frame.effect_low.isna().all()
    assert frame.effect.notna().all()
    synthetic.trivial(tmp_path, {**FLOORS, "ant": (3080.0, 300.0)})
    frame = fraction_of(tmp_path)
    rows = mains(frame, "ant")
    assert set(rows.verdict + rows.note) == {"inconclusivethe baseline learned too little"}
    assert mains(frame, ALL_TASKS).empty
    assert mains(frame, "hopper").verdict["second"] == "better"


@pytest.mark.parametrize("third", [0.0, 3.0])
def test_more_seeds_help_where_seeds_are_the_error(third: float) -> None:
    """Not where interactions of three settings are, which every seed shows alike."""
    settings = fraction({f"x{k}": {f"x{k}": 1} for k in range(8)}, size=32)
    sets = {v: {f"x{k}": one.sets.get(f"x{k}", 0) for k in range(8)} for v, one in settings.items()}
    noise, scores = np.random.default_rng(3).normal(size=(32, 6)), {}
    for own, (variant, of) in zip(noise, sets.items(), strict=True):
        scores["a", variant] = own + third * np.prod([2 * of[f"x{k}"] - 1 for k in (0, 1, 5)])
    frame = table_of(runs_of(scores, sets=sets), "effects")
    rows = frame[(frame.kind == "main") & (frame.verdict == "inconclusive")]
    assert len(rows) > 3
    assert rows.seeds_needed.isna().all() == bool(third)
    assert any("lack of fit" in note for note in frame.attrs["notes"]) == bool(third)


@pytest.mark.parametrize(("seeds", "used"), [(3, 0), (6, 4), (8, 8)])
def test_effects_are_those_of_the_last_interim_analysis(seeds: int, used: int) -> None:
    scores = {("a", v): SCORES["a", v][:seeds] for v in SETS}
    row = by_effect(runs_of(scores, sets=SETS, looks=Looks((4, 8), 1, 0)))["a", "torso"]
    assert row.n == used
    if used:
        level = dict(zip((4, 8), interim.design((4, 8), 0.05 / 3).levels, strict=True))[used]
        y = {v: scores["a", v][:used] for v in SETS}
        torso = (y["shared_high"] + y["shared_low"] - y["plain_high"] - y["plain_low"]) / 2
        expected = stats.of_differences(torso, level)
        assert (row.effect_low, row.effect_high) == pytest.approx((expected.low, expected.high))
        assert row.p_adjusted == pytest.approx(min(1.0, expected.p * 0.05 / level))
