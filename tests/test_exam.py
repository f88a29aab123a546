"""The entrance exam of tasks: its rule on made-up scores, its reading of made-up curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ablations import exam
from ablations.errors import UserError
from ablations.records import Record, write_record
from ablations.report.exam import Candidate, Task, sheet
from ablations.report.figures.exam import exam as figure
from ablations.tasks import task as task_named

FLOOR = {"zero": 100.0, "uniform": 40.0}


def candidate(*scores: float, failed: int = 0, rise: float = 0.0) -> Candidate:
    return Candidate("line", "baseline", 1000, scores, failed, rise)


def sat(*candidates: Candidate) -> list[list[str]]:
    task = Task("line", FLOOR, candidates)
    return [task.complaints(one) for one in candidates]


LEARNED = (190.0, 200.0, 210.0, 195.0, 205.0)  # 100 above the floor, of a deviation of 7.9


@pytest.mark.parametrize(
    ("scores", "failed", "passes"),
    [
        (LEARNED, 0, True),
        (LEARNED, 1, False),
        ([100 + 2 * (s - 200) + 100 for s in LEARNED], 0, True),  # 6.3 deviations
        ([100 + 3 * (s - 200) + 100 for s in LEARNED], 0, False),  # 4.2
        ([s - 100 for s in LEARNED], 0, False),  # as good as doing nothing
        ([s - 120 for s in LEARNED], 0, False),  # better than random actions alone
        ((200.0,), 0, False),
        ((), 0, False),
    ],
)
def test_a_baseline_stands_out_of_policies_that_learn_nothing(
    scores: list[float], failed: int, passes: bool
) -> None:
    (complaints,) = sat(candidate(*scores, failed=failed))
    assert (not complaints) == passes


@pytest.mark.parametrize(("best", "passes"), [(290.0, True), (299.0, True), (301.0, False)])
def test_half_way_to_the_best_is_enough(best: float, passes: bool) -> None:
    own, other = sat(candidate(*LEARNED), candidate(best, best))
    assert (not own) == passes
    assert not any("way to the best" in line for line in other)


def test_a_ceiling_is_what_several_runs_share() -> None:
    alone = candidate(150.0, 151.0, 152.0, 153.0, 200.0)
    assert Task("line", FLOOR, (alone,)).at_ceiling(alone) == 0.0
    shared = candidate(198.0, 190.0, 199.6, 199.8, 200.0)
    task = Task("line", FLOOR, (shared,))
    assert task.at_ceiling(shared) == 0.6
    assert any("ceiling" in line for line in task.complaints(shared))
    one_of_five = candidate(190.0, 191.0, 192.0, 193.0, 200.0)
    reached_by_another = candidate(200.0, 200.0)
    task = Task("line", FLOOR, (one_of_five, reached_by_another))
    assert task.at_ceiling(one_of_five) == 0.2
    assert not task.complaints(one_of_five)


def test_the_most_that_rules_allow_is_best_and_ceiling() -> None:
    """Nobody reached 500 yet, but 292 is not half of the way there, and 499 is at the ceiling."""
    low, near = candidate(290.0, 292.0, 294.0), candidate(480.0, 499.0, 470.0)
    seen = Task("line", FLOOR, (low, near))
    assert not any("way" in line for line in seen.complaints(low))
    assert seen.at_ceiling(near) == 0.0
    task = Task("line", FLOOR, (low, near), most=500.0)
    assert task.place(low) == pytest.approx(192 / 400)
    assert any("48% of the way" in line for line in task.complaints(low))
    assert task.at_ceiling(near) == pytest.approx(1 / 3)
    assert (task.ceiling, task.at_ceiling(low)) == (500.0, 0.0)


def test_cartpole_is_at_its_most_where_every_episode_is_whole() -> None:
    of = task_named("cartpole")
    assert of.most({"episode_length": 500}) == 500.0
    assert of.most({"episode_length": 200}) == 200.0
    assert task_named("breakout").most({"episode_length": 1000}) is None
    assert task_named("cartpole_swingup").most({"episode_length": 1000}) == 1000.0


def test_the_baseline_of_another_study_is_examined() -> None:
    trivial, trained = exam.plans(
        exam.requests(["cartpole"], rates=(1e-4,), seeds=(1000,), steps=61_440, study="q_learning")
    )
    assert trivial.study.name == "trivial_policies"
    assert [cell.config["trainer"]["name"] for cell in trained.cells] == ["pqn"]
    with pytest.raises(UserError, match="its own baseline is examined alone"):
        exam.requests(["cartpole"], study="q_learning", presets=["rejax"])


def test_a_language_task_is_examined_beside_where_it_starts(tmp_path: Path) -> None:
    """By the study's own metric, and against the baseline at a rate of 0."""
    planned = exam.plans(
        exam.requests(["arithmetic"], rates=(3e-4,), seeds=(0, 1), study="policy_clipping")
    )
    start, trained = planned
    assert [cell.config["numbers"]["learning_rate"] for cell in start.cells] == [0.0, 0.0]
    assert start.variants.keys() == trained.variants.keys() == {"clip"}
    for made, rise in ((start, 0.0), (trained, 0.01)):
        for cell in made.cells:
            columns = {
                "step": np.arange(1, 31) * 64,
                "evaluation/greedy_accuracy": 0.5 + rise * np.arange(1, 31),
                "evaluation/return": np.full(30, 7.0),
            }
            write_record(tmp_path, Record(cell.hash, cell.config, "done"), columns)
    (task,) = exam.results_of(planned, tmp_path)
    assert task.trivial == {"start": pytest.approx(0.5)}
    assert task.candidates[-1].mean == pytest.approx(0.5 + 0.27)
    (axes,) = figure([task]).axes
    assert "accuracy" in axes.get_ylabel()
    with pytest.raises(
        UserError, match="arithmetic is a task of language, and exam a study of control"
    ):
        exam.requests(["arithmetic"])
    with pytest.raises(UserError, match="cartpole is a task of control, and policy_clipping"):
        exam.requests(["arithmetic", "cartpole"], study="policy_clipping")


def test_the_verdict_knows_neither_zero_nor_unit_of_the_return() -> None:
    """Adding a constant to all returns and multiplying them change no number but the scores."""
    for slope, shift in ((1.0, -500.0), (0.01, 0.0), (30.0, 7.0)):

        def moved(values: tuple[float, ...], slope: float = slope, shift: float = shift):
            return tuple(slope * value + shift for value in values)

        before = Task("line", FLOOR, (candidate(*LEARNED, rise=3.0), candidate(280.0, 281.0)))
        after = Task(
            "line",
            dict(zip(FLOOR, moved(tuple(FLOOR.values())), strict=True)),
            tuple(
                candidate(*moved(one.scores), rise=slope * one.rise) for one in before.candidates
            ),
        )
        for one, other in zip(before.candidates, after.candidates, strict=True):
            for number in (Task.lead, Task.place, Task.at_ceiling, Task.slope):
                assert number(after, other) == pytest.approx(number(before, one))
            assert after.complaints(other) == before.complaints(one)


def written(results: Path, name: str) -> list[Task]:
    """An exam whose records rise by 1 at each of thirty evaluations, seed by seed 100 higher."""
    planned = exam.plans(exam.requests([name], rates=(1e-3,), seeds=(0, 1), steps=61_440))
    for made in planned:
        for cell in made.cells:
            rises = 0.0 if cell.variant in ("zero", "uniform") else 1.0
            columns = {
                "step": np.arange(1, 31) * 2048,
                "evaluation/return": 100.0 * cell.seed + rises * np.arange(1, 31),
            }
            write_record(results, Record(cell.hash, cell.config, "done"), columns)
    return exam.results_of(planned, results)


def test_each_third_of_a_run_is_a_run_of_ten_evaluations(tmp_path: Path) -> None:
    (task,) = written(tmp_path, "fast")
    assert task.trivial == {"zero": 50.0, "uniform": 50.0}
    assert [one.steps for one in task.candidates] == [20_480, 40_960, 61_440]
    # the mean of evaluations 8, 9, 10 of ten, which are 1, 2 or 3 of the thirty apart
    assert [one.scores for one in task.candidates] == [
        (9.0, 109.0),
        (18.0, 118.0),
        (27.0, 127.0),
    ]
    assert [one.rise for one in task.candidates] == [2.0, 4.0, 6.0]
    rows = sheet([task]).records()
    assert [row["verdict"] for row in rows[:2]] == ["learns nothing"] * 2
    assert [row["seeds"] for row in rows[2:]] == [2, 2, 2]


def test_runs_that_failed_stay_in_the_table(tmp_path: Path) -> None:
    planned = exam.plans(exam.requests(["fast"], rates=(1e-3, 3e-3), seeds=(0, 1), steps=30_720))
    for cell in (cell for made in planned for cell in made.cells):
        lost = cell.variant.endswith("0.003") or (cell.variant.endswith("0.001") and cell.seed)
        returns = [*np.arange(29.0), None if lost else 29.0]
        columns = {"step": np.arange(1, 31) * 1024, "evaluation/return": returns}
        write_record(tmp_path, Record(cell.hash, cell.config, "done"), columns)
    (task,) = exam.results_of(planned, tmp_path)
    *thirds, gone = task.candidates
    assert [(len(one.scores), one.failed) for one in thirds] == [(1, 1)] * 3
    assert (gone.scores, gone.failed) == ((), 2)
    assert [row["verdict"] for row in sheet([task]).records()][-1] == "2 runs failed"


def test_what_is_set_reaches_whom_it_concerns() -> None:
    trivial, trained, presets = exam.requests(
        ["hopper"],
        rates=(1e-3, 3e-3),
        presets=("sb3",),
        settings={"healthy_reward": 0.0, "epochs": 8},
    )
    assert "healthy_reward" in task_named("hopper").settings
    assert trivial.set["healthy_reward"] == presets.set["healthy_reward"] == 0.0
    assert trained.set["epochs"] == 8
    assert "epochs" not in {*trivial.set, *presets.set}
    assert trained.vary == {"learning_rate": (1e-3, 3e-3)}


def test_the_command_plans_and_refuses(shell) -> None:
    said = shell("exam", "fast", "--rates", "1e-3,3e-3", "--seeds", "2", "--dry-run").stdout
    assert "8 cells" in said
    for flags, reason in (
        (("nosuch",), "unknown task 'nosuch'"),
        (("fast", "--rates", "quick"), "--rates takes numbers"),
        (("fast", "--set", "evaluations=3"), "evaluations and points are the exam's own"),
        (("fast", "--rates", "1e-3,0"), "--rates takes numbers above 0"),
        (("fast", "--steps", "4096"), "give --steps 15360"),
        (("fast", "--steps", "40000"), "give --steps 46080"),
        (("fast", "--presets", "nosuch"), "unknown variant of 'exam' 'nosuch'"),
    ):
        line = shell("exam", *flags, "--dry-run", code=2).stderr
        assert reason in line
        assert len(line.splitlines()) == 1


def test_the_figure_draws_evaluations_and_what_they_have_to_pass(tmp_path: Path) -> None:
    (task,) = written(tmp_path, "fast")
    drawn = figure([task])
    *levels, curve = drawn.axes[0].get_lines()
    assert list(curve.get_xdata()) == list(np.arange(1, 31) * 2048)
    assert list(curve.get_ydata()) == list(50.0 + np.arange(1, 31))
    # Both policies, five deviations (of the longest run) above them, and half way to its mean.
    expected = [50.0, 50.0, 50 + 5 * 100 / 2**0.5, 50 + (77.0 - 50) / 2]
    assert [one.get_ydata()[0] for one in levels] == pytest.approx(expected)
    assert {tuple(one.get_xdata()) for one in levels} == {(0, 61_440)}
    shared = candidate(198.0, 190.0, 199.6, 199.8, 200.0)
    assert Task("line", FLOOR, (shared,)).ceiling == 200.0
    assert Task("line", FLOOR, (candidate(*LEARNED),)).ceiling is None
    labels = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert labels[0] == "baseline"
    assert labels[1:3] == ["(zero)", "(uniform)"]
