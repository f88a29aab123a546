"""Questions: the words against their rules, the file against the studies, the pages against the
archives."""

from __future__ import annotations

import itertools
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from evaluated import study
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from scipy import stats

from ablations import cli
from ablations.core.verdict import Answer, answer
from ablations.errors import UserError
from ablations.exchange import restore
from ablations.records import Record, write_plan
from ablations.report.figures.questions import all_questions
from ablations.report.figures.style import COLORS
from ablations.report.questions.controls import outcome
from ablations.report.questions.entries import Control, Exam, Question, Task, read
from ablations.report.questions.evidence import Spent, gathered, spent
from ablations.report.questions.judge import Found, OnTask, judged
from ablations.report.questions.measures import Bound
from ablations.report.questions.page import index, one_page, replication
from ablations.report.questions.words import (
    again_text,
    answer_line,
    direction,
    expected,
    grade_text,
    paste,
    takes,
)
from ablations.report.results import Results
from ablations.studies import fraction

ROOT = Path(__file__).parents[2]
FILE = ROOT / "results" / "questions.toml"
PAGES = ROOT / "results" / "questions"
LIST = ROOT / "results" / "README.md"
PASSES = Exam(floor=0.0, score=100.0, lead=9.0, way=100.0, ceiling=0.0)
WALKER, ANT = Task("walker2d", "w", 40.0, PASSES), Task("ant", "a", 40.0, PASSES)
TASKS = {"walker2d": WALKER, "ant": ANT}
LANGUAGE = (
    "arithmetic",
    "arithmetic_scales",
    "arithmetic in small steps",
    "arithmetic in groups",
)
PLAYGROUND = ("cartpole_swingup", "reacher_easy")
FEW = (  # actions
    "cartpole",
    "acrobot",
    "cartpole for 46,080 steps",
    "acrobot for 102,400 steps",
    "space_invaders",
    "cartpole with PQN",
    "breakout with PQN",
)


def question(**changes: object) -> Question:
    values: dict[str, object] = {
        "id": "brax_gae",
        "group": "Estimators and timeouts",
        "title": "Brax's GAE",
        "question": "Does it matter?",
        "sentence": "Brax's estimator is better.",
        "direction": "higher",
        "source": "a paper",
        "published": "no number",
        "change": "Brax's estimator instead of the standard one",
        "study": "details",
        "statistic": "difference",
        "tasks": ("walker2d", "ant"),
        "terms": ("GAE",),
        "run": {"profile": "evidence"},
        "variant": "brax",
        "versus": "standard",
    }
    return Question(**(values | changes))  # type: ignore[arg-type]


def around(mean: float, spread: float = 1.0, seeds: int = 10, start: int = 0) -> list[float]:
    noise = np.random.default_rng(int(abs(mean)) + 7 + start).normal(size=seeds)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    return [float(x) for x in mean + spread * noise]


def found_of(
    folder: Path,
    effects: dict[str, float],
    *,
    spread: float = 1.0,
    seeds: int = 10,
    tasks: dict[str, Task] = TASKS,
    **changes: object,
) -> Found:
    scores = {
        (task, name): around(100 + effect * (name == "brax"), spread, seeds, name == "brax")
        for task, effect in effects.items()
        for name in ("standard", "brax")
    }
    plan = study(folder, scores)
    return judged(question(**changes), Results(plan, folder), tasks, 2 * seeds)


# Words


@given(st.floats(-1, 1), st.floats(1e-3, 1), st.sampled_from((-1, 0, 1)), st.integers(2, 200))
def test_the_words_say_what_the_interval_says(
    middle: float, reach: float, stated: int, seeds: int
) -> None:
    """The rule written once more, and each bound in the words holds the interval."""
    low, high = middle - reach, middle + reach
    told = answer(middle, low, high, stated=stated)
    direction = {1: "higher", -1: "lower", 0: "differs"}[stated]
    on = OnTask(WALKER, seeds, 0)
    found = Found(
        question(direction=direction),
        (on,),
        ("walker2d",),
        seeds,
        Bound(middle, low, high),
        told,
        useful=seeds,
    )
    line = answer_line(found)
    numbers = [float(x) / 100 for x in re.findall(r"[-+]?\d+(?:\.\d+)?(?=[% ,\]]|$)", line)]
    if low <= 0 <= high:
        word = "No" if max(-low, high) <= 0.05 else "Not seen" if max(-low, high) <= 0.1 else ""
        assert line.startswith(f"{word or 'Cannot tell'}: ")
        if word == "No":
            assert max(-low, high) <= numbers[0] + 1e-9, "the bound that is told holds"
            assert numbers[0] <= 0.0501
        if word == "Not seen":
            wide = r"; 5% needs about [\d,]+ seeds$"
            assert re.search(wide if reach > 0.05 else r"; about [\d,]+ seeds would tell$", line)
    else:
        side = 1 if low > 0 else -1
        if side == -stated:
            assert line.startswith("The reverse: ")
        else:
            assert line.startswith("Yes: " if abs(middle) >= 0.05 else "Yes, but small: ")
        assert (numbers[0] > 0) == (side > 0)
    once = answer_line(replace(found, seeds=1, answer=Answer.CANNOT_TELL))
    assert once == "Cannot tell: one seed on walker2d"
    assert not replace(found, seeds=1).grade, "one seed has no grade"


@pytest.mark.parametrize(
    ("tasks", "seeds", "grade"),
    [(1, 2, "C"), (1, 39, "C"), (1, 40, "B"), (2, 2, "B"), (3, 99, "B"), (3, 100, "A"), (3, 1, "")],
)
def test_grades_count_tasks_and_seeds(tasks: int, seeds: int, grade: str) -> None:
    over = ("walker2d", "ant", "halfcheetah")[:tasks]
    assert Found(question(), (), over, seeds, None, Answer.YES).grade == grade


# From records to an answer


def test_a_run_that_two_designs_share_counts_once() -> None:
    def design(*records: Record | None) -> Any:
        return SimpleNamespace(runs=lambda: [SimpleNamespace(record=one) for one in records])

    first = Record(
        "a" * 16, {}, "done", provenance={"seconds": 3600.0, "lanes": 4, "processor": "X"}
    )
    second = Record("b" * 16, {}, "done", provenance={"seconds": 900.0, "processor": "W"})
    bare = Record("c" * 16, {}, "done")
    took = spent([design(first, second, None), design(second, bare)])
    assert took == (3, 0.5, ("W", "X"))


def test_the_answer_is_the_mean_over_tasks_in_units(tmp_path: Path) -> None:
    found = found_of(tmp_path, {"walker2d": 20.0, "ant": 10.0})
    both = [
        np.array(around(100 + effect, 1.0, 10, 1)) - np.array(around(100, 1.0, 10))
        for effect in (20.0, 10.0)
    ]
    mean = np.mean(both, axis=0) / 100
    reach = stats.t.ppf(0.975, 9) * stats.sem(mean)
    assert found.share == pytest.approx((mean.mean(), mean.mean() - reach, mean.mean() + reach))
    assert (found.answer, found.grade, found.over) == (Answer.YES, "B", ("walker2d", "ant"))
    assert answer_line(found).startswith("Yes: +15.0% [")
    assert "+15.0%" in paste(found)
    assert found_of(tmp_path / "b", {"walker2d": 20.0, "ant": 10.0}, direction="lower").answer is (
        Answer.REVERSE
    )


def test_nothing_rests_on_a_task_that_did_not_pass(tmp_path: Path) -> None:
    for lead, way, ceiling in ((4.9, 100.0, 0.0), (9.0, 49.0, 0.0), (9.0, 100.0, 21.0)):
        failing = {**TASKS, "ant": replace(ANT, exam=Exam(0.0, 100.0, lead, way, ceiling))}
        found = found_of(tmp_path / f"{lead}{way}", {"walker2d": 0.0, "ant": 60.0}, tasks=failing)
        assert found.over == ("walker2d",)
        assert found.answer is Answer.NO
        assert found.tasks[1].seeds == 10, "which the table of numbers shows"
    nothing = {"walker2d": replace(WALKER, exam=None), "ant": failing["ant"]}
    found = found_of(tmp_path / "none", {"walker2d": 60.0, "ant": 60.0}, tasks=nothing)
    assert (found.answer, found.share) == (None, None)
    assert answer_line(found) == "Cannot tell: no task with results has passed the exam"


def test_a_task_has_an_exam_with_each_algorithm(tmp_path: Path) -> None:
    other = Task("walker2d with PQN", "w", 40.0, replace(PASSES, score=200.0), runs="walker2d")
    tasks = {**TASKS, other.name: other}
    results = Results(
        study(tmp_path, {("walker2d", "standard"): around(100), ("walker2d", "brax"): around(120)}),
        tmp_path,
    )
    alone, doubled = (
        judged(question(tasks=(name,)), results, tasks, 20) for name in ("walker2d", other.name)
    )
    assert alone.over == doubled.over == ("walker2d",)
    assert alone.share is not None
    assert doubled.share == pytest.approx([end / 2 for end in alone.share])


def test_one_seed_tells_nothing_and_waits_for_others(tmp_path: Path) -> None:
    places = itertools.product(("walker2d", "ant"), ("standard", "brax"))
    alone = {(task, name): [160.0 if name == "brax" else 100.0] for task, name in places}
    found = judged(question(), Results(study(tmp_path, alone), tmp_path), TASKS, 2)
    assert (found.answer, found.grade) == (Answer.CANNOT_TELL, "")
    assert answer_line(found) == "Cannot tell: one seed on walker2d and ant"
    assert found.share == (pytest.approx(0.6), None, None)
    scores = {("walker2d", "standard"): around(100), ("walker2d", "brax"): around(160, start=1)}
    scores |= {("ant", "standard"): [100.0], ("ant", "brax"): [100.0]}
    plan = study(tmp_path / "b", scores)
    found = judged(question(), Results(plan, tmp_path / "b"), TASKS, 20)
    assert found.over == ("walker2d",), "a task with a single seed takes none from the others"


def test_tasks_that_disagree_are_named(tmp_path: Path) -> None:
    found = found_of(tmp_path, {"walker2d": 30.0, "ant": -30.0})
    assert answer_line(found) == "It depends: + on walker2d, \u2212 on ant"


@pytest.mark.parametrize(("p", "depends"), [(0.02, True), (0.03, False)])
def test_tasks_disagree_where_all_of_their_intervals_hold_at_once(
    tmp_path: Path, p: float, depends: bool
) -> None:
    """An effect on each of two tasks is told at half of 5%."""
    n, noise = 10, np.array([1.0, -1.0] * 5)
    effect = stats.t.isf(p / 2, n - 1) * noise.std(ddof=1) / math.sqrt(n)
    scores = {
        (task, name): list(100 + (name == "brax") * (sign * effect + noise))
        for task, sign in (("walker2d", 1), ("ant", -1))
        for name in ("standard", "brax")
    }
    found = judged(question(), Results(study(tmp_path, scores), tmp_path), TASKS, 20)
    assert (found.answer is Answer.DEPENDS) is depends


def test_an_answer_that_one_seed_changes_is_marked(tmp_path: Path) -> None:
    values = [6.0] * 9 + [-30.0]
    scores = {
        ("walker2d", "standard"): around(100, 0.5),
        ("walker2d", "brax"): [100 + x for x in values],
    }
    plan = study(tmp_path, scores)
    asked = question(tasks=("walker2d",))
    assert judged(asked, Results(plan, tmp_path), TASKS, 20).turned
    scores["walker2d", "brax"] = around(130, start=1)
    plan = study(tmp_path / "b", scores)
    assert not judged(asked, Results(plan, tmp_path / "b"), TASKS, 20).turned


def test_runs_of_other_variants_are_none_of_a_question(tmp_path: Path) -> None:
    """A study has several questions, and each costs what its own two variants lack."""
    scores = {("walker2d", name): around(100, start=k) for k, name in enumerate(("standard", "x"))}
    plan = study(tmp_path, scores)
    found = judged(question(tasks=("walker2d",)), Results(plan, tmp_path), TASKS, 20)
    assert found.missing == {"walker2d": 10}, "the baseline has run"
    assert answer_line(found) == "Not run yet: costs about 0.1 core-hours"


def test_curves_that_are_equal_are_no_answer(tmp_path: Path) -> None:
    scores = {("walker2d", name): around(100) for name in ("standard", "brax")}
    plan = study(tmp_path, scores)
    found = judged(question(tasks=("walker2d",)), Results(plan, tmp_path), TASKS, 20)
    assert found.answer is None
    assert answer_line(found).startswith("No answer")


def fraction_study(folder: Path, gain: float, seeds: int = 3, spread: float = 2.0):
    changes = {name: {name: "on"} for name in ("first", "second", "third", "fourth", "fifth")}
    random = np.random.default_rng(1)
    scores, sets = {}, {}
    for name, one in fraction(changes).items():
        own = 100 + gain * ("first" in one.sets) - 40 * ("second" in one.sets)
        scores["walker2d", name] = [float(own + spread * x) for x in random.normal(size=seeds)]
        sets[name] = {change: one.sets.get(change, "off") for change in changes}
    return study(folder, scores, sets=sets), scores, sets


def test_an_effect_is_the_mean_over_settings(tmp_path: Path) -> None:
    plan, scores, sets = fraction_study(tmp_path, 30.0)
    asked = question(statistic="effect", factor="first", variant="", versus="", tasks=("walker2d",))
    found = judged(asked, Results(plan, tmp_path), TASKS, 3 * len(sets))
    on = {name for name, of in sets.items() if of["first"] == "on"}
    with_it = np.mean([scores["walker2d", name] for name in on])
    without = np.mean([scores["walker2d", name] for name in sets if name not in on])
    assert found.share is not None
    assert found.share.value == pytest.approx((with_it - without) / 100)
    assert found.tasks[0].estimate.sides == pytest.approx((without, with_it))
    assert (found.answer, found.details) == (Answer.YES, 5)
    assert found.changed == ("on", "off")
    assert f"{len(sets)} settings of 5 details" in paste(found)
    with pytest.raises(UserError, match="factor of question"):
        judged(replace(asked, factor="sixth"), Results(plan, tmp_path), TASKS, 1)


def test_what_is_open_says_what_it_would_take(tmp_path: Path) -> None:
    found = found_of(tmp_path, {"walker2d": 0.0}, spread=20.0)
    assert found.answer is Answer.CANNOT_TELL
    assert found.share is not None
    assert found.share.low is not None
    told = [int(x.replace(",", "")) for x in re.findall(r"([\d,]+) seeds (?:on|for)", takes(found))]
    width = (found.share.high - found.share.low) / 2  # type: ignore[operator]
    value = abs(found.share.value)
    apart = max(value, 0.05 - value)
    assert told == [math.ceil(10 * (width / reach) ** 2) for reach in (apart, 0.05)]


def control(kind: str, **about: str) -> Control:
    return Control(
        id="c",
        title="A",
        kind=kind,  # type: ignore[arg-type]
        wanted="as it must",
        study="details",
        tasks=("walker2d",),
        run={"profile": "quick"},
        **about,
    )


def test_a_planted_loss_is_found_where_intervals_are_narrow(tmp_path: Path) -> None:
    for spread, kept in ((2.0, True), (200.0, False)):
        folder = tmp_path / str(spread)
        plan, *_ = fraction_study(folder, 0.0, seeds=6, spread=spread)
        result = outcome(control("planted"), Results(plan, folder), TASKS, 0)
        assert result.kept is kept
        (part,) = result.parts.values()
        assert part.text.startswith("found in 6 of 6, and in 100.0% of") is kept
        assert part.text.endswith("6 seeds")
        early = outcome(control("planted"), Results(plan, folder), TASKS, 7)
        assert early.kept is (True if kept else None), "a seed of the design has not run"
    assert "not run yet" in outcome(control("planted"), None, TASKS, 0).waiting


def test_details_that_change_nothing_are_no_yes(tmp_path: Path) -> None:
    plan, scores, sets = fraction_study(tmp_path, 30.0, seeds=6)
    assert outcome(control("dummies"), Results(plan, tmp_path), TASKS, 0).kept is True
    late = {place: [v + 60 * (k > 2) for k, v in enumerate(of)] for place, of in scores.items()}
    plan = study(tmp_path / "b", late, sets=sets)
    result = outcome(control("dummies"), Results(plan, tmp_path / "b"), TASKS, 0)
    assert result.kept is False, "the last seeds are not those of the same algorithm"
    assert result.parts["walker2d"].text.startswith("1 of 6 excludes 0")
    one = outcome(
        control("dummies"),
        Results(fraction_study(tmp_path / "c", 0.0, 1)[0], tmp_path / "c"),
        TASKS,
        0,
    )
    assert one.kept is None, "one seed has no halves"


def test_columns_of_no_detail_are_no_yes_and_tasks_count_together(tmp_path: Path) -> None:
    changes = {f"c{k}": {f"c{k}": "on"} for k in range(17)}
    random, scores, sets = np.random.default_rng(1), {}, {}
    for name, one in fraction(changes).items():
        sets[name] = {change: one.sets.get(change, "off") for change in changes}
        three = math.prod(1 if sets[name][f"c{k}"] == "on" else -1 for k in (0, 1, 2))
        scores["walker2d", name] = [float(100 + 30 * three + random.normal())]
        scores["ant", name] = [float(100 + random.normal())]
    both = replace(control("unused"), tasks=("walker2d", "ant"))
    for amount, kept in ((1.0, False), (0.0, True)):
        folder = tmp_path / str(amount)
        own = {
            place: of if amount or place[0] == "ant" else [100 + of[0] % 1]
            for place, of in scores.items()
        }
        result = outcome(both, Results(study(folder, own, sets=sets), folder), TASKS, 0)
        assert list(result.parts) == ["walker2d", "ant", "mean over tasks"]
        assert result.kept is kept
        assert result.parts["ant"].text.startswith("none of ")


def test_the_same_algorithm_on_other_seeds_is_no_yes(tmp_path: Path) -> None:
    same = control("disjoint", variant="standard")
    for values, kept in ((around(100, 5.0, 20), True), ([*around(100), *around(160)], False)):
        folder = tmp_path / str(kept)
        plan = study(folder, {("walker2d", "standard"): values})
        result = outcome(same, Results(plan, folder), TASKS, 0)
        assert result.kept is kept
        share = re.search(
            r"of 1,000 random splits ([\d.]+)% are false", result.parts["walker2d"].text
        )
        assert share is not None
        assert float(share[1]) < 6.2, "whatever the first split is"


def test_seeds_answer_replicate_or_tune(tmp_path: Path) -> None:
    """Those of a replication are no part of the answer, and those of tuning of neither."""
    scores = {
        (t, n): around(100 + 20 * (n == "brax"), 1.0, 6, n == "brax")
        for t in TASKS
        for n in ("standard", "brax")
    }
    plan = study(tmp_path, scores)
    asked = judged(question(), Results(plan, tmp_path), TASKS, 12)
    assert again_text(asked, asked.again) == "not yet run"
    assert replication(asked).endswith("--seeds 500-505")
    for gain, word in ((20.0, "the same word"), (-20.0, "another word")):
        more = dict(scores)
        for (task, name), of in scores.items():
            others = around(100 + gain * (name == "brax"), 1.0, 6, 5 + (name == "brax"))
            more[task, name] = [*of, *others, 1000.0 * (name == "brax"), 0.0]
        seeds = [*range(6), *range(500, 506), 1000, 1004]
        plan = study(tmp_path / word, more)
        renumbered = tuple(structs.replace(cell, seed=seeds[cell.seed]) for cell in plan.cells)
        found = judged(
            question(), Results(structs.replace(plan, cells=renumbered), tmp_path / word), TASKS, 12
        )
        assert (found.share, found.answer, found.seeds) == (asked.share, asked.answer, 6)
        said = again_text(found, found.again)
        assert said.startswith(word)
        assert "(6 seeds)" in said
        assert ("\u2021" in grade_text(found)) is (word == "another word")
        assert found.together is not None
        assert (found.together.seeds, "All seeds together" in said) == (12, True)


def test_failures_and_area_stand_beside_the_score(tmp_path: Path) -> None:
    low, high = [20.0, 30.0, 49.0, 80.0, 90.0], [10.0, 60.0, 70.0, 80.0, 90.0]
    plan = study(tmp_path, {("walker2d", "standard"): high * 2, ("walker2d", "brax"): low * 2})
    (on,) = judged(question(tasks=("walker2d",)), Results(plan, tmp_path), TASKS, 20).tasks
    assert on.failures is not None
    assert on.failures[:2] == ((2, 10), (6, 10))
    assert on.failures.p == pytest.approx(stats.fisher_exact([[2, 8], [6, 4]]).pvalue)
    assert on.area is not None
    # Evaluations that rise in a line from 0 to the score have less area than score, of any sign.
    assert 0 > on.area.value > np.mean(low) / 100 - np.mean(high) / 100
    plan, scores, sets = fraction_study(tmp_path / "b", 0.0)
    asked = question(
        statistic="effect", factor="second", variant="", versus="", tasks=("walker2d",)
    )
    found = judged(
        asked,
        Results(plan, tmp_path / "b"),
        {"walker2d": replace(WALKER, exam=replace(PASSES, score=160.0))},
        1,
    )
    below = {
        side: sum(
            v < 80 for n, of in sets.items() if of["second"] == side for v in scores["walker2d", n]
        )
        for side in ("off", "on")
    }
    failed = found.tasks[0].failures
    assert failed is not None
    assert [side[0] for side in failed[:2]] == [below["off"], below["on"]]
    assert below["on"] > below["off"]
    table = stats.fisher_exact([[below["off"], 24 - below["off"]], [below["on"], 24 - below["on"]]])
    assert failed.p == pytest.approx(min(1.0, 5 * table.pvalue))
    page = one_page(found)
    assert f"{below['on']} of 24" in page
    assert "times 5 details" in page


def test_what_has_not_run_says_which_interval_to_expect() -> None:
    """That of independent seeds with the exam's deviations, by simulation."""
    twice = {"walker2d": WALKER, "ant": replace(ANT, exam=replace(PASSES, lead=5.0))}
    found = judged(question(), None, twice, 80)
    reach = expected(found)
    assert reach is not None
    deviations = np.array([[1 / 9], [1 / 5]])
    random = np.random.default_rng(0).normal(size=(4000, 2, 2, 40))
    means = (random[:, 0] - random[:, 1]).mean(axis=2) @ deviations[:, 0] / 2
    assert reach == pytest.approx(means.std() * stats.t.ppf(0.975, 39), rel=0.04)
    assert f"±{100 * reach:.0f}% expected" in one_page(found)
    assert expected(judged(question(), None, {**twice, "ant": replace(ANT, exam=None)}, 80)) is None


def test_a_page_says_how_far_the_seeds_that_answer_learned(tmp_path: Path) -> None:
    """The exam's measure, of the unchanged runs of these seeds, which an exam of others passed."""
    found = found_of(tmp_path, {"walker2d": 0.0, "ant": 0.0}, spread=40.0)
    scores = np.array(around(100, 40.0, 10))
    lead = scores.mean() / scores.std(ddof=1)
    assert lead < 5
    assert [on.lead for on in found.tasks] == pytest.approx([lead, lead])
    page = " ".join(one_page(found).split())
    assert f"{lead:.1f}" in page
    assert "On ant these runs fall short of that" in page
    assert "fall short" not in one_page(found_of(tmp_path / "b", {"walker2d": 0.0, "ant": 0.0}))
    listed = " ".join(index([found], [*TASKS.values()], [], Spent(0, 0.0, ())).split())
    assert f"walker2d in 1 of 1 questions about single changes (down to {lead:.1f})" in listed


def test_a_score_that_is_not_above_doing_nothing_passes_no_exam() -> None:
    assert PASSES.passes
    assert not replace(PASSES, floor=100.0).passes
    assert not replace(PASSES, floor=454.0, score=22.0).passes


def test_runs_of_one_task_and_seed_each_are_gathered(tmp_path: Path) -> None:
    """However a design was divided, the answer is that of the whole."""
    scores = {
        (task, name): around(100 + 20 * (name == "brax"), 1.0, 6, name == "brax")
        for task, name in itertools.product(("walker2d", "ant"), ("standard", "brax"))
    }
    whole = study(tmp_path, scores)
    expected = judged(question(), Results(whole, tmp_path), TASKS, 12)
    for path in (tmp_path / "plans" / "details").iterdir():
        path.unlink()
    for task, seed in itertools.product(("walker2d", "ant"), range(6)):
        cells = tuple(c for c in whole.cells if (c.task, c.seed) == (task, seed))
        request = {**whole.request, "tasks": [task], "seeds": f"{seed}-{seed}"}
        tasks = {task: whole.tasks[task]}
        write_plan(tmp_path, structs.replace(whole, request=request, cells=cells, tasks=tasks))  # type: ignore[arg-type]
    other = structs.replace(whole, request={**whole.request, "steps": 5}, cells=whole.cells[:1])
    write_plan(tmp_path, other)
    together = gathered(tmp_path, "details", {"profile": "evidence"})
    assert together is not None
    found = judged(question(), together, TASKS, 12)
    assert (found.share, found.seeds) == (expected.share, 6)
    assert gathered(tmp_path, "details", {"profile": "paper"}) is None


# The file


def test_the_questions_are_whole_and_each_comparison_exists(tmp_path: Path, capsys) -> None:
    """Without an archive nothing has run; its study, factor and variants are there."""
    asked = read(FILE)
    assert len(asked.questions) >= 40
    assert len({one.question for one in asked.questions}) == len(asked.questions)
    shutil.copy(FILE, tmp_path)
    assert cli.main(["report", "--answers", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'README.md'}\n"
    pages = [tmp_path / "questions" / f"{one.id}.md" for one in asked.questions]
    assert all("**Not run yet: costs about " in page.read_text() for page in pages)
    assert sorted(pages) == sorted((tmp_path / "questions").iterdir())
    controls = (tmp_path / "README.md").read_text().split("## Questions")[0]
    assert all(f"| {one.title} " in controls for one in asked.controls)
    assert controls.count("not run yet") == len(asked.controls)
    assert {"dummies", "unused", "planted", "same", "tenth"} <= {one.id for one in asked.controls}
    assert cli.main(["report", "gae", "--answers", "--results", str(tmp_path)]) == 2
    assert "name no study" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "count", "said"),
    [
        ("clip_vloss", 6, ""),  # a library's word
        ("brax gae", 4, ""),  # in any case
        ("cleanrl distribution", 2, ""),  # parts of it anywhere
        ("discount", 3, "a number of ppo"),  # a setting too
        ("huber", 2, ""),  # a variant of several studies
        ("discrete_huber", 1, ""),
    ],
)
def test_show_finds_answers(name: str, count: int, said: str, tmp_path: Path, capsys) -> None:
    shutil.copy(FILE, tmp_path)
    assert cli.main(["show", name, "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count(str(tmp_path / "questions")) == out.count("Not run yet: costs ") == count, out
    assert said in out


def test_the_exam_is_the_one_that_was_run() -> None:
    printed = (ROOT / "results" / "reference" / "exam" / "README.md").read_text()
    rows = [
        [x.strip() for x in line.split("|")[1:-1]] for line in printed.splitlines() if "|" in line
    ]
    for task in read(FILE).tasks.values():
        if task.exam is None:
            continue
        of_task = [row for row in rows if row[0] in (task.as_run.name, "")]
        after = [rows[k : k + 2] for k, row in enumerate(rows) if row[0] == task.as_run.name]
        floors = {  # (zero), (uniform); (start)
            max(float(row[3]) for row in two if row[-1] == "learns nothing") for two in after
        }
        assert task.exam.floor in floors
        lead, score = f"{task.exam.lead:.1f}", f"{task.exam.score:g}"
        assert any(row[3] == score and row[5] == lead for row in of_task if len(row) > 5), task
    passing = {task.name for task in read(FILE).tasks.values() if task.unit}
    assert passing == {"walker2d", "ant", "halfcheetah", *LANGUAGE, *FEW, *PLAYGROUND}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('direction = "differs"', 'direction = "up"', "question 'brax_gae': direction"),
        ('factor = "advantage"', 'variant = "brax"', "the statistic effect needs factor"),
        ('id = "gae_lambda"', 'id = "brax_gae"', "has two questions 'brax_gae'"),
        ('study = "what_matters"', 'study = "mine.py"', "'mine.py' is no name of a study"),
        ('tasks = ["walker2d", ', 'tasks = ["walker", ', "did you mean 'walker2d'"),
        ('terms = ["Brax GAE"', 'words = ["Brax GAE"', "question 'brax_gae'"),
        ('study = "what_matters"', 'study = "what_mattered"', "did you mean 'what_matters'"),
        ('factor = "advantage"', 'factor = "advantages"', "did you mean 'advantage'"),
        ('other_design = "what_matters_', 'other_design = "what_mattered_', "study of 'discrete_"),
        (
            'other_design = "what_matters_discrete"',
            'other_design = "q_learning"',
            "factor of question",
        ),
        (
            'other_design = "what_matters_discrete"',
            'other_design = "many_details_discrete"',
            "is another",
        ),
        ('variant = "timeout_bonus"', 'variant = "timeout"', "variant of 'timeout_own_value'"),
        ('{ profile = "evidence" }', '{ profile = "evident" }', "did you mean 'evidence'"),
        ('variant = "timeout_bonus"', 'variant = "standard"', "variant and versus are both"),
        (
            'run = { profile = "evidence" }\nterms',
            'run = { profile = "evidence", seeds = 3 }\nterms',
            "neither tasks nor",
        ),
        ('link = "https', 'link = "javascript', "begins with https://"),
        ("core_seconds = 40", "core_seconds = 0", "task 'walker2d': core_seconds"),
        ("[[control]]", "[[controls]]", "did you mean 'control'"),
    ],
)
def test_a_slip_in_the_file_is_one_line(tmp_path: Path, capsys, old, new, said) -> None:
    text = FILE.read_text()
    assert old in text
    (tmp_path / "questions.toml").write_text(
        text.replace(old, new) if old == "[[control]]" else text.replace(old, new, 1)
    )
    assert cli.main(["report", "--answers", "--results", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


# The pages


def studies_that_ran() -> set[str]:
    """The others' archives need no unpacking."""
    asked, listed = read(FILE), LIST.read_text()
    ran = {one.study for one in asked.questions if (PAGES / f"{one.id}.svg").exists()}
    ran |= {one.other_design for one in asked.questions} - {""}
    row = r"^\| {} .*not run yet"
    controls = {c.study for c in asked.controls if not re.search(row.format(c.title), listed, re.M)}
    return ran | controls


def written(folder: Path) -> dict[str, bytes]:
    """Write all pages from the archives in a process that cannot import JAX."""
    (folder / "archive").mkdir()
    for study_name in studies_that_ran():
        for path in (ROOT / "results" / "archive").glob(f"{study_name}-*"):
            shutil.copy(path, folder / "archive")
    shutil.copy(FILE, folder)
    script = (
        "import sys; sys.modules['jax'] = sys.modules['brax'] = None\n"
        "from ablations.cli import main\n"
        f"sys.exit(main(['report', '--answers', '--results', {str(folder)!r}]))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    return kept_in(folder)


def kept_in(results: Path) -> dict[str, bytes]:
    """What `report --answers` writes, by its path."""
    paths = [results / "README.md", *sorted((results / "questions").iterdir())]
    return {str(path.relative_to(results)): path.read_bytes() for path in paths}


@pytest.mark.inputs(
    *("results/questions.toml", "results/archive", "results/questions", "results/README.md"),
    *("ablations/*.py", "ablations/core", "ablations/exchange"),
    *("ablations/report", "ablations/studies", "ablations/cli"),
)
def test_the_pages_are_regenerated_from_the_archives_without_jax(tmp_path: Path) -> None:
    made = written(tmp_path)
    kept = kept_in(PAGES.parent)
    assert list(made) == list(kept), "`ablations report --answers`, and remove pages of no question"
    for name, text in made.items():
        assert text == kept[name], f"results/{name}: `ablations report --answers`"


def test_a_unit_of_twice_the_size_halves_each_effect(tmp_path: Path) -> None:
    """So an answer that did not come from its numbers would be found."""
    (tmp_path / "archive").mkdir()
    for path in (ROOT / "results" / "archive").glob("what_matters-*"):
        shutil.copy(path, tmp_path / "archive")
    restore(tmp_path)
    larger = tmp_path / "larger.toml"
    larger.write_text(FILE.read_text().replace("floor = 30", "floor = -140", 1))
    shares = []
    for file in map(read, (larger, FILE)):
        asked = next(one for one in file.questions if one.id == "discount")
        there = gathered(tmp_path, asked.study, asked.run)
        shares.append(np.array(judged(asked, there, file.tasks, 0).share))
    assert 2 * shares[0] == pytest.approx(shares[1])


@pytest.mark.parametrize("page", [LIST, *sorted(PAGES.glob("*.md"))], ids=lambda page: page.stem)
def test_links_of_pages_lead_somewhere(page: Path) -> None:
    links = [t for t in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()) if "://" not in t]
    assert links
    for target in links:
        assert (page.parent / target).exists(), target
    assert page == LIST or f"(questions/{page.name})" in LIST.read_text()


def test_the_figure_of_all_has_each_that_ran_by_its_effect(tmp_path: Path) -> None:
    ran = [
        found_of(tmp_path / str(k), {"walker2d": gain, "ant": gain}, spread=spread, change=change)
        for k, (gain, spread, change) in enumerate(
            [
                (0.0, 1.0, "A instead of B"),
                (20.0, 1.0, "C"),
                (-20.0, 1.0, "D instead of E"),
                (3.0, 40.0, "F"),
            ]
        )
    ]
    (axes,) = all_questions([*ran, judged(question(), None, TASKS, 8)]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["C", "F", "A", "D"]
    colors = [line.get_color() for line in axes.get_lines()[1:]]  # the first is at 0
    assert colors == [COLORS[name] for name in ("better", "undecided", "equivalent", "worse")]


def test_a_page_of_what_ran_has_all_its_parts(tmp_path: Path) -> None:
    text = one_page(found_of(tmp_path, {"walker2d": 20.0, "ant": 10.0}))
    parts = ("Who says what", "Numbers", "Beside the score", "How it is measured", "To paste")
    for part in (*parts, "On other seeds", "Search words"):
        assert part in text
    assert "mean over tasks" in text
    assert "ablations show brax_gae" in text


def test_the_answer_of_another_design_stands_beside(tmp_path: Path) -> None:
    plan, _, sets = fraction_study(tmp_path, 30.0)
    asked = question(statistic="effect", factor="first", variant="", versus="", tasks=("walker2d",))
    found = judged(asked, Results(plan, tmp_path), TASKS, 3 * len(sets))
    again = judged(asked, None, TASKS, 3 * len(sets))
    assert "At other settings" not in one_page(found)
    for other, said in ((found, "the same word, on walker2d (3"), (again, "not yet run")):
        text = " ".join(one_page(replace(found, elsewhere=other)).split())
        assert re.search(rf"At other settings\*\*, \d+ of `\w*`: {re.escape(said)}", text), text


@pytest.mark.parametrize(("effect", "moves"), [(20.0, "raises"), (-20.0, "lowers"), (0.0, None)])
def test_a_page_says_which_way_the_change_moves_the_score(
    tmp_path: Path, effect: float, moves: str | None
) -> None:
    found = found_of(tmp_path, {"walker2d": effect, "ant": effect})
    told = f"{found.question.change} {moves} the score." if moves else ""
    assert direction(found) == told


def test_the_readme_says_what_the_pages_say() -> None:
    root = FILE.parents[1]
    rows = re.findall(
        r"^\| \[(.*)\]\((results/questions/\w+\.md)\) \| (.*) \| .* \|$",
        (root / "README.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) > 3
    for asked, page, told in rows:
        text = (root / page).read_text()
        assert text.splitlines()[0] == f"# {asked}"
        assert f"**{told}.**" in text
