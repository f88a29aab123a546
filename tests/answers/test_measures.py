"""The numbers of answers, against scipy and against each other."""

from __future__ import annotations

import itertools
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from asked import (
    ANT,
    PASSES,
    TASKS,
    WALKER,
    answers,
    around,
    comparison,
    control,
    detail,
    factor,
    fractional,
    row,
    two_variants,
)
from msgspec import structs
from scipy import stats as scipy_stats
from synthetic import study

from ablations import stats
from ablations.answers.entries import Entries, Task
from ablations.answers.measures import answer_all, stored
from ablations.errors import UserError
from ablations.records import Plan, write_plan
from ablations.stats import decide


def renumbered(plan: Plan, seeds: list[int]) -> Plan:
    return structs.replace(
        plan, cells=tuple(structs.replace(c, seed=seeds[c.seed]) for c in plan.cells)
    )


# One answer


def test_an_answer_is_the_mean_over_tasks_in_learned_ranges(tmp_path: Path) -> None:
    scores = two_variants({"walker2d": 20.0, "ant": 10.0})
    answer = row(tmp_path, scores)
    each = [np.subtract(scores[task, "new"], scores[task, "old"]) / 100 for task in TASKS]
    mean = np.mean(each, axis=0)
    reach = scipy_stats.t.ppf(0.975, 9) * scipy_stats.sem(mean)
    ends = [answer[f"share{end}"] for end in ("", "_low", "_high")]
    assert ends == pytest.approx([mean.mean(), mean.mean() - reach, mean.mean() + reach])
    assert answer["p"] == pytest.approx(scipy_stats.ttest_1samp(mean, 0).pvalue)
    assert answer["sd"] == pytest.approx(mean.std(ddof=1))
    assert (answer["verdict"], answer["tasks"], answer["seeds"]) == ("better", "walker2d, ant", 10)


@pytest.mark.parametrize("gain", [-30.0, -4.0, 0.0, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("spread", [0.5, 5.0, 20.0])
def test_the_interval_decides_and_seeds_are_those_of_the_power_function(
    tmp_path: Path, gain: float, spread: float
) -> None:
    answer = row(tmp_path, two_variants({"walker2d": gain, "ant": gain}, spread))
    assert answer["verdict"] == decide(answer["share_low"], answer["share_high"], 0.05)
    needed = [
        stats.seeds_needed(0.05, answer["sd"], fewest=11),
        stats.seeds_needed(0.0, answer["sd"], 0.05, chance=0.85, fewest=11),
    ]
    found = [answer["seeds_to_detect"], answer["seeds_to_equivalence"]]
    if answer["verdict"] == "inconclusive":
        assert found == needed
        assert min(needed) > 10
    else:
        assert np.isnan(found).all()


def test_more_seeds_of_the_baseline_correct_the_effect(tmp_path: Path) -> None:
    old, new = around(100, 5.0, 40), [*around(104, 5.0, 10, 1)]
    scores = {("walker2d", "old"): old, ("walker2d", "new"): new}
    answer = row(tmp_path, scores, comparison(tasks=("walker2d",)))
    corrected = stats.control_variate(new, old[:10], old)
    plain = scipy_stats.ttest_rel(new, old[:10]).confidence_interval()
    assert answer["share"] == pytest.approx(corrected.difference / 100)
    assert answer["share_low"] == pytest.approx(corrected.low / 100)
    assert [answer["plain_share_low"], answer["plain_share_high"]] == pytest.approx(
        np.array(plain) / 100
    )
    assert (answer["seeds"], answer["baseline_seeds"]) == (10, 40)


@pytest.mark.parametrize("shared", [0, 1, 2, 6])
def test_tasks_with_different_seeds_combine_their_errors(tmp_path: Path, shared: int) -> None:
    """The mean of two independent differences is half of Welch's difference to the negative."""
    scores = two_variants({"walker2d": 20.0, "ant": 14.0}, 3.0)
    kept = {"walker2d": [*range(6)], "ant": [*range(6 - shared, 10)]}
    plan = study(tmp_path, scores)
    shutil.rmtree(tmp_path / "plans")
    cells = tuple(cell for cell in plan.cells if cell.seed in kept[cell.task])
    write_plan(tmp_path, structs.replace(plan, cells=cells))
    entries = Entries((detail(comparison()),), (WALKER, ANT))
    answer = answer_all(tmp_path, entries).frame.to_dict("records")[0]
    old, new = (
        [np.array(scores[task, name])[seeds] for task, seeds in kept.items()]
        for name in ("old", "new")
    )
    first, second = ((b - a) / a.mean() for a, b in zip(old, new, strict=True))
    welch = scipy_stats.ttest_ind(first, -second, equal_var=False)
    ends = [answer[f"share{end}"] for end in ("_low", "_high")]
    assert ends == pytest.approx([end / 2 for end in welch.confidence_interval()])
    assert answer["share"] == pytest.approx((first.mean() + second.mean()) / 2)
    assert answer["p"] == pytest.approx(welch.pvalue)
    assert answer["sd"] == pytest.approx(math.hypot(first.std(ddof=1), second.std(ddof=1)) / 2)
    assert (answer["seeds"], answer["seeds_by_task"]) == (
        min(6, 4 + shared),
        "6" if shared == 2 else f"6, {4 + shared}",
    )


@pytest.mark.parametrize("failing", [{"lead": 4.9}, {"ceiling": 21.0}, {"score": -1.0}])
def test_nothing_rests_on_a_task_that_fails_validation(tmp_path: Path, failing) -> None:
    failing = structs.replace(ANT, validation=structs.replace(PASSES, **failing))
    scores = two_variants({"walker2d": 0.0, "ant": 60.0}, 0.5)
    made = answers(tmp_path, scores, comparison(), tasks={**TASKS, "ant": failing})
    (answer,), effects = made.frame.to_dict("records"), made.effects.set_index("task")
    assert (answer["tasks"], answer["verdict"]) == ("walker2d", "equivalent")
    assert (effects.seeds["ant"], effects.used["ant"]) == (10, False)
    assert effects.difference["ant"] == pytest.approx(60)
    assert math.isnan(effects.share["ant"])
    alone = row(tmp_path / "b", scores, comparison(tasks=("ant",)), tasks={"ant": failing})
    assert (alone["verdict"], alone["note"]) == ("", "no task passed validation")


@pytest.mark.parametrize(("range_of", "size"), [("", 120.0), ("new", 150.0)])
def test_the_learned_range_ends_at_the_mean_of_a_variant(tmp_path: Path, range_of, size) -> None:
    """From the floor of the validation, over all seeds of the answer."""
    held = structs.replace(PASSES, floor=-20.0, score=999.0)
    task = Task("with PQN", "land", "w", held, runs="walker2d")
    scores = two_variants({"walker2d": 30.0})
    asked = comparison(tasks=("with PQN",), range_of=range_of)
    answer = row(tmp_path, scores, asked, tasks={"with PQN": task})
    assert answer["tasks"] == "walker2d"
    assert answer["share"] == pytest.approx(30 / size)


def test_a_reversed_comparison_has_the_opposite_effect(tmp_path: Path) -> None:
    old, new = around(100, 5.0, 40), [*around(104, 5.0, 10, 1)]
    scores = {("walker2d", "old"): old, ("walker2d", "new"): new}
    diverged = [("walker2d", "new", 3)]
    on, off = (
        answers(tmp_path / str(k), scores, comparison(tasks=("walker2d",), reverse=k), **about)
        for k, about in ((False, {"diverged": diverged}), (True, {"diverged": diverged}))
    )
    (first,), (second,) = (made.frame.to_dict("records") for made in (on, off))
    for name in ("share", "plain_share", "other_share", "first_share"):
        ends = [-second[f"{name}{end}"] for end in ("", "_high", "_low")]
        assert [first[f"{name}{end}"] for end in ("", "_low", "_high")] == pytest.approx(ends)
    assert (first["verdict"], second["verdict"]) == ("failed", "inconclusive")
    (first,), (second,) = (made.effects.to_dict("records") for made in (on, off))
    for name in ("unchanged", "collapsed_unchanged"):
        assert first[name] == second[name.replace("un", "")]


@pytest.mark.parametrize(("score", "other"), [("last", "mean"), ("mean", "last")])
def test_a_task_may_have_another_score_than_its_study(tmp_path: Path, score, other) -> None:
    """Evaluations rise in a line from 0 to the score, so their mean is about half of it."""
    task = structs.replace(WALKER, score=score)
    scores = two_variants({"walker2d": 20.0})
    asked = comparison(tasks=("walker2d",))
    made = answers(tmp_path, scores, asked, tasks={"walker2d": task})
    (answer,), (effect,) = made.frame.to_dict("records"), made.effects.to_dict("records")
    assert (answer["score"], answer["other_score"]) == (score, other)
    assert effect["unchanged"] == pytest.approx(100 if score == "last" else 51)
    assert answer["share"] == pytest.approx(0.2)
    assert answer["other_share"] == pytest.approx(0.2)  # of its own range


def test_one_seed_decides_nothing_and_does_not_shorten_other_tasks(tmp_path: Path) -> None:
    alone = {(t, n): [160.0 if n == "new" else 100.0] for t in TASKS for n in ("old", "new")}
    answer = row(tmp_path, alone)
    assert (answer["verdict"], answer["note"]) == ("inconclusive", "one seed")
    assert answer["share"] == pytest.approx(0.6)
    scores = two_variants({"walker2d": 60.0}) | {("ant", n): [100.0] for n in ("old", "new")}
    answer = row(tmp_path / "b", scores)
    assert (answer["tasks"], answer["seeds"], answer["verdict"]) == ("walker2d", 10, "better")


@pytest.mark.parametrize(("p", "disagree"), [(0.02, True), (0.03, False)])
def test_tasks_disagree_where_intervals_at_half_of_the_level_do(
    tmp_path: Path, p: float, disagree: bool
) -> None:
    noise = np.array([1.0, -1.0] * 5)
    effect = scipy_stats.t.isf(p / 2, 9) * scipy_stats.sem(noise)
    scores = {
        (task, name): list(100 + (name == "new") * (sign * effect + noise))
        for task, sign in (("walker2d", 1), ("ant", -1))
        for name in ("old", "new")
    }
    answer = row(tmp_path, scores)
    assert answer["note"].startswith("tasks disagree: + on walker2d, - on ant") is disagree
    assert not disagree or answer["verdict"] == "inconclusive"


@pytest.mark.parametrize(
    ("shift", "failing", "verdict", "note"),
    [
        (0.0, "", "equivalent", "identical"),
        (1.0, "", "inconclusive", "no spread between seeds"),
        ("noise", "new", "failed", "1 more failed run with the change"),
        ("noise", "old", "inconclusive", "1 more failed run without the change"),
    ],
)
def test_equal_and_failed_runs(tmp_path: Path, shift, failing, verdict: str, note: str) -> None:
    old = around(100)
    new = around(100, 1.0, 10, 1) if shift == "noise" else [x + shift for x in old]
    scores = {("walker2d", "old"): old, ("walker2d", "new"): new}
    diverged = [("walker2d", failing, 3)] if failing else []
    answer = row(tmp_path, scores, comparison(tasks=("walker2d",)), diverged=diverged)
    assert (answer["verdict"], answer["note"]) == (verdict, note)


def test_runs_of_other_variants_answer_nothing(tmp_path: Path) -> None:
    scores = {("walker2d", name): around(100, stream=k) for k, name in enumerate(("old", "x"))}
    answer = row(tmp_path, scores, comparison(tasks=("walker2d",)))
    assert (answer["seeds"], answer["verdict"], answer["note"]) == (0, "", "no runs")


def test_area_lead_and_collapsed_runs_stand_beside_the_score(tmp_path: Path) -> None:
    low, high = [20.0, 30.0, 49.0, 80.0, 90.0], [10.0, 60.0, 70.0, 80.0, 90.0]
    scores = {("walker2d", "old"): high * 2, ("walker2d", "new"): low * 2}
    made = answers(tmp_path, scores, comparison(tasks=("walker2d",)))
    (effect,) = made.effects.to_dict("records")
    assert (effect["collapsed_unchanged"], effect["collapsed_changed"]) == ("2 of 10", "4 of 10")
    fisher = scipy_stats.fisher_exact([[2, 8], [4, 6]]).pvalue
    assert effect["p_collapsed"] == pytest.approx(fisher)
    assert effect["lead"] == pytest.approx(np.mean(high * 2) / np.std(high * 2, ddof=1))
    # Evaluations that rise in a line from 0 to the score have a smaller mean than the score.
    assert 0 > effect["other_share"] > np.mean(low) / 62 - np.mean(high) / 62


def test_all_seeds_answer_and_each_half_stands_beside_them(tmp_path: Path) -> None:
    """Seeds from 1000 on are for tuning and validation."""
    first = two_variants({"walker2d": 20.0, "ant": 20.0}, seeds=6)
    alone = row(tmp_path, first)
    assert (alone["first_share"], alone["second_seeds"]) == (alone["share"], 0)
    assert math.isnan(alone["p_halves"])
    for gain in (20.0, -20.0):
        second = two_variants({"walker2d": gain, "ant": gain}, 2.0, seeds=6)
        scores = {at: [*first[at], *second[at], 1000.0 * (at[1] == "new"), 0.0] for at in first}
        folder = tmp_path / str(gain)
        plan = study(folder, scores)
        shutil.rmtree(folder / "plans")
        write_plan(folder, renumbered(plan, [*range(6), *range(500, 506), 1000, 1004]))
        entries = Entries((detail(comparison()),), (WALKER, ANT))
        answer = answer_all(folder, entries).frame.to_dict("records")[0]
        assert [answer[f"{n}seeds"] for n in ("", "first_", "second_")] == [12, 6, 6]
        differences = [
            np.mean([np.subtract(of[t, "new"], of[t, "old"]) / 100 for t in TASKS], axis=0)
            for of in (first, second)
        ]
        means = [each.mean() for each in differences]
        assert [answer[f"{n}_share"] for n in ("first", "second")] == pytest.approx(means)
        assert answer["share"] == pytest.approx(np.mean(means))
        welch = scipy_stats.ttest_ind(*differences, equal_var=False).pvalue
        assert answer["p_halves"] == pytest.approx(welch)
        assert answer["second_verdict"] == ("better" if gain > 0 else "worse")


# Fractions


def test_an_effect_of_a_fraction_is_the_difference_of_the_settings_means(tmp_path: Path) -> None:
    scores, sets = fractional(30.0)
    answer = row(tmp_path, scores, factor("first"), sets=sets)
    means = {
        level: np.mean([scores["walker2d", n] for n, of in sets.items() if of["first"] == level])
        for level in ("on", "off")
    }
    assert answer["share"] == pytest.approx((means["on"] - means["off"]) / 100)
    assert (answer["verdict"], answer["details"], answer["settings"]) == ("better", 5, len(sets))
    assert (answer["levels"], answer["level"]) == ("on against off", 0.01)
    with pytest.raises(UserError, match="unknown factor of 'a_comparison' 'sixth'"):
        row(tmp_path, scores, factor("sixth"), sets=sets)


# Many answers


def test_q_is_adjusted_over_all_answers(tmp_path: Path) -> None:
    gains = (0.0, 0.3, 0.8, 2.0)
    scores = {("walker2d", "old"): around(100)}
    for k, gain in enumerate(gains):
        scores["walker2d", f"v{k}"] = around(100 + gain, 1.0, 10, k + 1)
    asked = [
        comparison(id=f"q{k}", variant=f"v{k}", tasks=("walker2d",)) for k in range(len(gains))
    ]
    absent = comparison(id="absent", variant="none", tasks=("walker2d",))
    frame = answers(tmp_path, scores, *asked, absent).frame
    expected = scipy_stats.false_discovery_control(frame.p.dropna())
    assert frame.q.dropna().to_numpy() == pytest.approx(expected)
    assert math.isnan(frame.q.iloc[-1])


def test_runs_of_one_task_and_seed_each_are_gathered(tmp_path: Path) -> None:
    scores = two_variants({"walker2d": 20.0, "ant": 20.0}, seeds=6)
    whole = row(tmp_path, scores)
    (path,) = (tmp_path / "plans" / "details").glob("*.json")
    plan = stored(tmp_path, comparison().request()).plan
    assert plan is not None
    path.unlink()
    for task, seed in itertools.product(TASKS, range(6)):
        cells = tuple(c for c in plan.cells if (c.task, c.seed) == (task, seed))
        request = {**plan.request, "tasks": [task], "seeds": f"{seed}-{seed}"}
        part = structs.replace(plan, request=request, cells=cells, tasks={task: plan.tasks[task]})  # type: ignore[arg-type]
        write_plan(tmp_path, part)
    write_plan(
        tmp_path, structs.replace(plan, request={**plan.request, "steps": 5}, cells=plan.cells[:1])
    )
    together = answer_all(tmp_path, Entries((detail(comparison()),), (WALKER, ANT))).frame.to_dict(
        "records"
    )[0]
    assert [together[n] for n in ("share", "seeds")] == [whole[n] for n in ("share", "seeds")]
    with pytest.raises(UserError, match="no runs of `ablations run details --profile paper`"):
        stored(tmp_path, comparison(run={"profile": "paper"}).request())


# Controls


def checks(
    folder: Path, kind: str, scores, sets=None, **about
) -> dict[str, tuple[str, bool | None]]:
    made = answers(folder, scores, control(kind, **about), sets=sets)
    return {check.task: (check.outcome, check.kept) for check in made.checks.itertuples()}


@pytest.mark.parametrize(("spread", "found"), [(2.0, True), (200.0, False)])
def test_a_planted_loss_is_found_where_intervals_are_narrow(tmp_path, spread, found) -> None:
    scores, sets = fractional(0.0, seeds=6, spread=spread)
    ((text, kept),) = checks(tmp_path, "planted", scores, sets).values()
    assert kept is found
    assert text.startswith("detected in 6 of 6; 1,000 random splits: in 100.0%") is found


def test_placebos_exclude_0_only_where_seeds_are_of_two_algorithms(tmp_path: Path) -> None:
    scores, sets = fractional(30.0, seeds=6)
    ((text, kept),) = checks(tmp_path, "placebos", scores, sets).values()
    assert kept is True
    assert text.startswith("none of 6 excludes 0")
    late = {at: [x + 60 * (k > 2) for k, x in enumerate(of)] for at, of in scores.items()}
    ((text, kept),) = checks(tmp_path / "b", "placebos", late, sets).values()
    assert kept is False
    assert text.startswith("1 of 6 excludes 0")
    one_seed = {at: of[:1] for at, of in scores.items()}
    assert checks(tmp_path / "c", "placebos", one_seed, sets) == {"": ("no runs", None)}


@pytest.mark.parametrize("same", [True, False])
def test_halves_of_one_variant_differ_only_if_it_changed(tmp_path: Path, same: bool) -> None:
    values = around(100, 5.0, 20) if same else [*around(100), *around(160)]
    found = checks(tmp_path, "halves", {("walker2d", "old"): values}, variant="old")
    ((text, kept),) = found.values()
    assert kept is same
    half = np.array(values[:10]), np.array(values[10:])
    interval = scipy_stats.ttest_ind(*half, equal_var=False).confidence_interval()
    low, high = (100 * end / np.mean(values) for end in interval)
    assert (
        f"[{low:.0f}, {high:.0f}]".replace("-0,", "0,") in text
        or f"[{low:.1f}, {high:.1f}]" in text
    )


@pytest.mark.parametrize(
    ("kind", "gain", "kept"),
    [
        *(("bug", -30.0, True), ("bug", 30.0, False), ("bug", 0.0, False)),
        *(("same", 0.0, True), ("same", 30.0, False)),
    ],
)
def test_a_bug_must_be_worse_and_the_same_must_not_differ(tmp_path, kind, gain, kept) -> None:
    scores = two_variants({"walker2d": gain}, 0.5)
    made = answers(tmp_path, scores, control(kind, variant="new", versus="old"), comparison())
    assert list(made.checks.kept) == [kept]
    assert made.sensitive == ({"land"} if (kind, kept) == ("bug", True) else frozenset())
