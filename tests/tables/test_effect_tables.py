"""Tables of factorials and fractions: contrasts, failures, tasks together, aliases in words."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import evaluated
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from memory import PATTERNS, SEEDS, contradicts, runs_of
from synthetic import realistic

from ablations import stats
from ablations.core.plan import Looks
from ablations.errors import UserError
from ablations.runs import ALL_TASKS, Runs
from ablations.stats import interim
from ablations.studies import fraction
from ablations.tables import format_table, table_of
from ablations.tables.effects import default_kind, design_of, effects, effects_in_words

UNITS = {"reacher": 30.0, "hopper": 2000.0}
SETS: dict[str, dict[str, Any]] = {
    "plain_low": {"coefficient": 0.25},
    "plain_high": {"coefficient": 0.5},
    "shared_low": {"coefficient": 0.25, "torso": "shared"},
    "shared_high": {"coefficient": 0.5, "torso": "shared"},
}
BOTH = ("coefficient \u00d7 torso", "0.5 \u00d7 shared")


def finals(tasks: tuple[str, ...] = ("reacher", "hopper")) -> dict[tuple[str, str], np.ndarray]:
    names = dict(zip(("standard", "brax", "done_cut", "masked_truncation"), SETS, strict=True))
    scores = realistic(variants=4, tasks=tasks)
    return {(task, names[v]): np.array(values) for (task, v), values in scores.items()}


def by_effect(frame: pd.DataFrame) -> dict[tuple[str, str], Any]:
    """Return (task, factor) -> row."""
    return {(row.task, row.factor): row for row in frame.itertuples()}


# Full factorials


def test_effects_are_contrasts_of_seeds(study) -> None:
    scores = finals()
    plan, results = study(scores, units=UNITS, sets=SETS)
    frame = effects(Runs.read(results, plan))
    rows = by_effect(frame)
    y = {v: scores["hopper", v] for v in SETS}
    main = (y["plain_high"] - y["plain_low"] + y["shared_high"] - y["shared_low"]) / 2
    both = y["shared_high"] - y["shared_low"] - y["plain_high"] + y["plain_low"]
    for (factor, level), contrast in {("coefficient", "0.5"): main, BOTH: both}.items():
        row = rows["hopper", factor]
        assert (row.n, row.level) == (8, level)
        assert row.effect == pytest.approx(contrast.mean())
        assert row.p == pytest.approx(scipy.stats.ttest_1samp(contrast, 0).pvalue)
        ends = scipy.stats.t.interval(1 - 0.05 / 12, 7, contrast.mean(), scipy.stats.sem(contrast))
        assert (row.effect_low, row.effect_high) == pytest.approx(ends)
        assert row.p_adjusted == pytest.approx(min(1, 12 * row.p))
        assert row.share == pytest.approx(row.effect / 2000, rel=0.01)
    assert set(frame.task) == {"reacher", "hopper", ALL_TASKS}
    assert set(frame[frame.kind == "interaction"].verdict) <= {"", "equivalent"}
    share = (rows["hopper", "coefficient"].share + rows["reacher", "coefficient"].share) / 2
    assert rows[ALL_TASKS, "coefficient"].effect == pytest.approx(share)


def test_an_effect_needs_seeds_that_every_variant_has(study) -> None:
    lost = [("hopper", "plain_low", 1), ("hopper", "shared_high", 4)]
    frame = effects(Runs.read(*study(finals(("hopper",)), sets=SETS, missing=lost)[::-1]))
    assert set(frame.n) == {6}
    assert frame.attrs["notes"] == ["hopper: 6 of 8 seeds are used, those that every variant has"]
    few = {place: values[:2] for place, values in finals().items()}
    lost = [("hopper", "plain_low", 0), ("hopper", "shared_high", 1)]
    plan, results = study(few, units=UNITS, sets=SETS, missing=lost, name="few")
    for row in effects(Runs.read(results, plan)).itertuples():
        if row.task == "hopper":
            assert (row.n, np.isnan(row.effect), row.note) == (0, True, "no seed is complete")
            assert row.verdict == ("inconclusive" if row.kind == "main" else "")
        else:
            assert row.n == 2


def test_a_setting_left_out_takes_its_default_from_the_configuration(study) -> None:
    plan, _ = study(finals(), sets=SETS)
    assert design_of(plan).factors["torso"] == ("default", "shared")
    for cell in plan.cells:
        cell.config["structure"] = {"torso": "separate"}
    assert design_of(plan).factors["torso"] == ("separate", "shared")
    assert default_kind(plan) == "comparison"


def test_a_study_that_is_no_factorial_says_so(study) -> None:
    plan, results = study(realistic())
    with pytest.raises(UserError, match="'gae' is no factorial"):
        table_of(Runs.read(results, plan), "effects")


UP = {v: np.arange(8) / 8 + 5 * ("high" in v) for v in SETS}


@pytest.mark.parametrize(
    ("failing", "sign", "verdict", "note"),
    [
        ("plain_high", 1, "failed", "2 more runs failed at the level"),
        ("plain_high", -1, "worse", "2 more runs failed at the level"),
        ("plain_low", 1, "better", "2 more runs failed at the reference"),
        ("plain_low", -1, "inconclusive", "2 more runs failed at the reference"),
        ("plain_high", 0, "failed", "2 more runs failed at the level"),
    ],
)
def test_failures_at_a_level(failing: str, sign: int, verdict: str, note: str) -> None:
    noise = np.random.default_rng(0).normal(0, 0.001, (4, 8))
    scores = {("a", v): sign * UP[v] + noise[k] * (sign != 0) for k, v in enumerate(SETS)}
    lost = {("a", failing, seed): "failed" for seed in (0, 1)}
    rows = by_effect(effects(runs_of(scores, sets=SETS, failed=lost)))
    row = rows["a", "coefficient"]
    assert (row.verdict, row.note.removeprefix("no spread; ")) == (verdict, note)
    assert rows["a", BOTH[0]].note.endswith("runs failed unevenly")
    assert rows["a", BOTH[0]].verdict == ""


def test_a_level_that_changes_no_bit_is_identical() -> None:
    scores = {("a", v): UP[v] + np.arange(8) ** 2 for v in SETS}
    bits = {v: v.partition("_")[2] for v in SETS}
    rows = by_effect(effects(runs_of(scores, sets=SETS, bits=bits)))
    for factor in ("torso", BOTH[0]):
        assert (rows["a", factor].verdict, rows["a", factor].note) == ("equivalent", "identical")
    assert rows["a", "coefficient"].note != "identical"


@pytest.mark.parametrize("second", ["equal", "up", "noise"])
@pytest.mark.parametrize("both", ["equal", "down", "within"])
def test_verdicts_go_with_their_intervals_and_their_tasks(second: str, both: str) -> None:
    for first in list(itertools.combinations_with_replacement(PATTERNS, 2))[::4]:
        scores = {}
        for task, pattern in zip("ab", first, strict=True):
            for name, sets in SETS.items():
                p, q = sets["coefficient"] == 0.5, "torso" in sets
                moved = p * PATTERNS[pattern] + q * PATTERNS[second] + p * q * PATTERNS[both]
                scores[task, name] = np.arange(SEEDS) / 8 + moved
        frame = effects(runs_of(scores, sets=SETS))
        for _, of in frame[frame.kind == "main"].groupby(["factor", "level"]):
            *tasks, over = of.to_dict("records")
            sides = {row["verdict"] for row in tasks} & {"better", "worse"}
            if over["note"] == "tasks disagree":
                assert over["verdict"] == "inconclusive"
                continue
            assert len(sides) < 2
            assert over["verdict"] not in {"better", "worse"} - sides or not sides
            if over["verdict"] == "equivalent":
                assert all(row["verdict"] == "equivalent" for row in tasks)
            elif over["note"] != "not equivalent on every task":
                tasks.append(over)
            assert not any(contradicts(row, "effect") for row in tasks), first


def test_a_metric_without_a_good_direction_has_no_verdict(study) -> None:
    plan, results = study(finals(), units=UNITS, sets=SETS, noise=0.1)
    frame = effects(Runs.read(results, plan, "loss/value"))
    assert set(frame.verdict) == {""}
    assert frame.share.isna().all()


# Fractions

NAMES = ("first", "second", "third", "fourth", "fifth")
SETTINGS = fraction({name: {name: "on"} for name in NAMES})
ON_OFF = {v: {name: one.sets.get(name, "off") for name in NAMES} for v, one in SETTINGS.items()}
FLOORS = {"hopper": (50.0, 200.0), "ant": (1100.0, 300.0)}
TOPS = {"hopper": (1000.0, 800.0), "ant": (3100.0, 2000.0)}  # and learned ranges
# In learned ranges: two effects, and what the first and the second do together.
GAINS, TOGETHER = {"second": 0.2, "fourth": -0.1}, 0.3


def scores_of(seeds: int = 6) -> dict[tuple[str, str], list[float]]:
    rng = np.random.default_rng(2)
    scores = {}
    for task, (top, unit) in TOPS.items():
        for variant, one in SETTINGS.items():
            gain = sum(GAINS.get(name, 0.0) for name in one.sets)
            gain += TOGETHER * ("first" in one.sets and "second" in one.sets)
            scores[task, variant] = list(top + unit * (gain + rng.normal(0, 0.01, seeds)))
    return scores


def fraction_of(results: Path, scores: dict | None = None, **options: Any) -> pd.DataFrame:
    plan = evaluated.study(results, scores or scores_of(), sets=ON_OFF, **options)
    frame = table_of(Runs.read(results, plan))
    assert frame.attrs["kind"] == default_kind(plan) == "effects"
    return frame


def mains(frame: pd.DataFrame, task: str) -> pd.DataFrame:
    return frame[(frame.task == task) & (frame.kind == "main")].set_index("factor")


def contrast(scores: dict, task: str, seeds: Any = slice(None)) -> float:
    """Return the main effect of the first setting, from the scores of some seeds."""
    sides = [
        [np.array(scores[task, v])[seeds] for v in ON_OFF if ON_OFF[v]["first"] == level]
        for level in ("on", "off")
    ]
    return float(np.mean(sides[0]) - np.mean(sides[1]))


def test_effects_of_a_fraction_in_the_metric_and_in_learned_ranges(tmp_path: Path) -> None:
    evaluated.trivial(tmp_path, FLOORS)
    frame = fraction_of(tmp_path)
    for task, unit in (("hopper", 800.0), ("ant", 2000.0), (ALL_TASKS, 1.0)):
        for name in NAMES:
            gain = GAINS.get(name, 0.0) + TOGETHER / 2 * (name in ("first", "second"))
            row = mains(frame, task).loc[name]
            assert row.share == pytest.approx(gain, abs=0.02)
            assert row.effect == pytest.approx(row.share * unit, rel=0.05, abs=0.01 * unit)
            side = "better" if gain > 0 else "worse"
            assert row.verdict == (side if abs(gain) >= 0.1 else "equivalent")
            assert (row.n, row.level, row.reference) == (6, "on", "off")
    assert "first = on, second = on are better" in frame.attrs["summary"]
    assert "\u00d7" not in effects_in_words(frame)
    assert "+35" in format_table(frame, "markdown")


def test_aliases_and_resolution_are_computed_and_written(tmp_path: Path) -> None:
    frame = fraction_of(tmp_path)
    assert "5 settings in 16 variants, a fraction of resolution IV" in frame.attrs["caption"]
    rows = frame[(frame.kind == "aliased") & (frame.task == "ant")]
    keys = mains(frame, "ant").key  # in the order of the names of settings
    first, *_ = rows.itertuples()
    assert "\u00d7".join(sorted((keys["first"], keys["second"]))) in first.factor
    assert first.effect == pytest.approx(TOGETHER * 2000, rel=0.1)
    assert (rows.effect.abs().diff().dropna() <= 0).all()
    (line,) = [note for note in frame.attrs["notes"] if note.startswith("aliased: ")]
    sums = line.removeprefix("aliased: ").replace("\u2212", "+").split("; ")
    terms = [term for one in sums for term in one.split(" + ")]
    assert sorted(terms) == sorted(map("\u00d7".join, itertools.combinations("ABCDE", 2)))


@pytest.mark.parametrize(
    ("missing", "broken", "kept"),
    [
        ((), (), range(6)),
        ((("ant", "mix_3", 5),), (), range(5)),
        ((("ant", "mix_3", 5), ("ant", "mix_7", 0)), (("ant", "baseline", 2),), (1, 3, 4)),
        (tuple(("ant", "mix_3", seed) for seed in range(6)), (), ()),
    ],
)
def test_only_seeds_that_every_variant_has_are_used(missing, broken, kept, tmp_path: Path) -> None:
    frame = fraction_of(tmp_path, missing=missing, broken=broken)
    row = mains(frame, "ant").loc["first"]
    assert (row.n, mains(frame, "hopper").n.max()) == (len(kept), 6)
    if kept:
        assert row.effect == pytest.approx(contrast(scores_of(), "ant", list(kept)))
    else:
        assert (row.verdict, row.note) == ("inconclusive", "no seed is complete")
    note = f"ant: {len(kept)} of 6 seeds are used, those that every variant has"
    assert (note in frame.attrs["notes"]) == (len(kept) < 6)


def test_a_run_that_diverged_is_the_worst_of_its_task(tmp_path: Path) -> None:
    evaluated.trivial(tmp_path, FLOORS)
    lost, scores = [("ant", "mix_3", 1), ("ant", "mix_3", 4)], scores_of()
    frame = fraction_of(tmp_path, diverged=lost)
    for task, variant, seed in lost:
        scores[task, variant][seed] = FLOORS["ant"][0]  # below all runs
    row = mains(frame, "ant").loc["first"]
    assert (row.n, row.effect) == (6, pytest.approx(contrast(scores, "ant")))
    assert "ant: 2 runs diverged, counted as the worst score of the task" in frame.attrs["notes"]


def test_one_seed_has_effects_and_no_interval(tmp_path: Path) -> None:
    frame = fraction_of(tmp_path, scores_of(seeds=1))
    rows = mains(frame, "ant")
    assert rows.effect_low.isna().all()
    assert rows.effect["second"] == pytest.approx((0.2 + 0.15) * 2000, rel=0.1)
    assert set(rows.verdict + rows.note) == {"inconclusiveone seed"}
    assert any("nothing (one seed" in note for note in frame.attrs["notes"])


def test_nothing_is_said_of_a_task_where_nothing_was_learned(tmp_path: Path) -> None:
    evaluated.trivial(tmp_path, {**FLOORS, "ant": (3080.0, 300.0)})
    frame = fraction_of(tmp_path)
    rows = mains(frame, "ant")
    assert set(rows.verdict + rows.note) == {"inconclusivethe baseline learned nothing"}
    assert rows.share.isna().all()
    assert mains(frame, ALL_TASKS).empty
    assert mains(frame, "hopper").verdict["second"] == "better"


def test_effects_on_both_sides_of_0_disagree(tmp_path: Path) -> None:
    evaluated.trivial(tmp_path, FLOORS)
    scores = scores_of()
    for variant, one in SETTINGS.items():
        if "fourth" in one.sets:
            scores["ant", variant] = [value + 600 for value in scores["ant", variant]]
    row = mains(fraction_of(tmp_path, scores), ALL_TASKS).loc["fourth"]
    assert (row.verdict, row.note) == ("inconclusive", "tasks disagree")


@pytest.mark.parametrize("third", [0.0, 3.0])
def test_more_seeds_help_where_seeds_are_the_error(third: float) -> None:
    """Not where interactions of three settings are, which every seed shows alike."""
    settings = fraction({f"x{k}": {f"x{k}": 1} for k in range(8)}, size=32)
    sets = {v: {f"x{k}": one.sets.get(f"x{k}", 0) for k in range(8)} for v, one in settings.items()}
    noise = np.random.default_rng(3).normal(size=(32, 6))
    scores = {}
    for k, (variant, of) in enumerate(sets.items()):
        together = np.prod([2 * of[name] - 1 for name in ("x0", "x1", "x5")])
        scores["a", variant] = noise[k] + third * together
    frame = effects(runs_of(scores, sets=sets))
    rows = frame[(frame.kind == "main") & (frame.verdict == "inconclusive")]
    assert len(rows) > 3
    assert rows.seeds_needed.isna().all() == bool(third)
    assert any("lack of fit" in note for note in frame.attrs["notes"]) == bool(third)


# Interim analyses


@pytest.mark.parametrize(("seeds", "used"), [(3, 0), (6, 4), (8, 8)])
def test_effects_are_those_of_the_last_stage_that_all_variants_reached(
    seeds: int, used: int
) -> None:
    random = np.random.default_rng(1)
    scores = {("a", v): random.normal(size=seeds) for v in SETS}
    frame = effects(runs_of(scores, sets=SETS, looks=Looks((4, 8), 1, 0)))
    assert set(frame.n) == {used}
    if used:
        level = dict(zip((4, 8), interim.design((4, 8), 0.05 / 3).levels, strict=True))[used]
        y = {v: scores["a", v][:used] for v in SETS}
        contrast = (y["shared_high"] + y["shared_low"] - y["plain_high"] - y["plain_low"]) / 2
        expected = stats.of_differences(contrast, level)
        row = by_effect(frame)["a", "torso"]
        assert (row.effect_low, row.effect_high) == pytest.approx((expected.low, expected.high))
        assert row.p_adjusted == pytest.approx(min(1.0, expected.p * 0.05 / level))
    assert frame.verdict.isin(["inconclusive", "better", "worse", ""]).all()
