"""Seeds that are added until comparisons are decided, on made-up records: no trainer runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from ablations import until
from ablations.core.plan import CellEntry, Looks, StoredStudy, StoredTask, StoredVariant
from ablations.errors import UserError
from ablations.looks import design, planned
from ablations.records import Plan, Record, cell_folder, digest, read_plan, write_plan, write_record
from ablations.report.results import Results
from ablations.report.tables import ALL_TASKS, Entry, sheet, table
from ablations.request import Request, budget_of
from ablations.sweep import local
from ablations.sweep.prepare import clear_the_way, needed

SEEDS = planned(8, 20)  # 8, 12, 18, 20
NOISE = np.random.default_rng(5).normal(size=100)
Score = Callable[[str, int], float | None]


def wide(task: str, seed: int) -> float:
    """Differs from the baseline by chance alone, and by much more than the margin."""
    return 2 * float(NOISE[seed])


def level(task: str, seed: int) -> float:
    return 0.01 * float(NOISE[seed + 50])


def low(task: str, seed: int) -> float:
    return -3 + level(task, seed + 10)


def failing(task: str, seed: int) -> None:
    return None


SCORES: dict[str, Score] = {"base": lambda task, seed: 0.0, "wide": wide, "level": level}
SCORES |= {"low": low, "failing": failing}


class World:
    """A study whose variants' scores are functions of the seed; None: the run fails. Every run
    learns 1, so the margin is 0.05."""

    def __init__(
        self,
        results: Path,
        variants: Sequence[str],
        tasks: Sequence[str] = ("line",),
        versus: dict[str, str] | None = None,
        seeds: Sequence[int] = SEEDS,
    ):
        self.results, self.scores = results, dict(SCORES)
        names = ["base", *variants]
        self.plan = Plan(
            request={"profile": "quick", "until": "decided"},
            study=StoredStudy(
                "made", "Made", "it matters", "here", "base", 0.05, False, "training/return"
            ),
            variants={name: StoredVariant((versus or {}).get(name), "", {}, {}) for name in names},
            tasks={task: StoredTask(200, {}, "") for task in tasks},
            cells=tuple(
                CellEntry(task, name, 0, digest(config), config)
                for task in tasks
                for name in names
                for config in [{"task": task, "variant": name, "seed": 0}]
            ),
            looks=Looks(
                tuple(seeds),
                comparisons=len(variants) * len(tasks),
                over_tasks=len(variants) if len(tasks) > 1 else 0,
            ),
        )

    def compute(self, cells: Iterable) -> None:
        """Writes the records of a plan's cells that have none."""
        for cell in cells:
            config = dict(cell.config)
            score = self.scores[config["variant"]](config["task"], config["seed"])
            steps = np.arange(1, 21) * 10
            rise = np.minimum(0.0, steps / 180 - 1)
            outcome = {"status": "done"}
            if score is None:
                outcome = {"status": "failed", "failure": "diverged", "reason": "NaN"}
            write_record(
                self.results,
                Record(digest(config), config, **outcome),
                {"step": steps, "training/return": (score or 0.0) + rise},
            )

    def stage(self) -> until.Stage:
        return until.stage(self.plan, self.results)

    def finished(self) -> until.Stage:
        """After look upon look, as a run would."""
        while not (now := self.stage()).ended:
            self.compute(now.plan.cells)
        return now

    def entry(self, plan: Plan, variant: str, task: str = "line") -> Entry:
        row = table(Results(plan, self.results)).entry(task, variant)
        assert row is not None
        return row


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    return lambda *variants, **about: World(tmp_path / "results", variants, **about)


def counts(plan: Plan) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for cell in plan.cells:
        place = (cell.task, cell.variant)
        assert cell.seed == found.get(place, 0), "seeds come from 0 on, each once"
        found[place] = cell.seed + 1
    return found


def test_only_what_is_open_and_what_it_is_compared_with_get_more_seeds(world) -> None:
    made = world("wide", "level", "low")
    first = made.stage()
    assert (first.look, first.ended, first.open) == (0, False, ())
    assert set(counts(first.plan).values()) == {8}
    made.compute(first.plan.cells)
    second = made.stage()
    assert (second.look, second.ended, second.open) == (1, False, (("line", "wide"),))
    assert counts(second.plan) == {
        ("line", "base"): 12,
        ("line", "wide"): 12,
        ("line", "level"): 8,
        ("line", "low"): 8,
    }
    last = made.finished()
    assert (last.look, last.ended, last.open) == (3, True, (("line", "wide"),))
    assert counts(last.plan)["line", "wide"] == 20
    said = {name: made.entry(last.plan, name).verdict for name in ("wide", "level", "low")}
    assert said == {"wide": "undecided", "level": "equivalent", "low": "worse"}


def test_rows_are_those_of_their_look_at_its_level(world) -> None:
    made = world("wide", "level", "low")
    plan = made.finished().plan
    looks = design(SEEDS, 0.05 / 3)
    for name, look in (("wide", 3), ("level", 0), ("low", 0)):
        row, n = made.entry(plan, name), SEEDS[look]
        pairs = [SCORES[name]("line", seed) for seed in range(n)]
        assert (row.n_pairs, row.level) == (n, pytest.approx(looks.levels[look]))
        bounds = scipy.stats.t.interval(
            1 - looks.levels[look], n - 1, np.mean(pairs), scipy.stats.sem(pairs)
        )
        assert (row.difference_low, row.difference_high) == pytest.approx(bounds)


def test_a_table_in_the_middle_of_a_look_is_that_of_the_last_complete_one(world) -> None:
    made = world("wide", "low")
    made.compute(made.stage().plan.cells)
    second = made.stage()
    before = [made.entry(second.plan, name) for name in ("wide", "low")]
    made.compute([cell for cell in second.plan.cells if cell.seed != 9])
    during = [made.entry(second.plan, name) for name in ("wide", "low")]
    for one, other in zip(before, during, strict=True):
        for name in ("n_pairs", "level", "difference", "difference_low", "verdict", "margin"):
            assert getattr(one, name) == getattr(other, name)
    assert before[0].n_pairs == 8
    assert "pairs use the looks that are complete" in str(
        table(Results(second.plan, made.results)).notes
    )
    assert (
        "planned looks (8, 12, 18, 20 seeds)" in table(Results(second.plan, made.results)).caption
    )


def test_before_the_first_look_is_complete_nothing_is_said(world) -> None:
    made = world("low")
    first = made.stage().plan
    made.compute(first.cells[:-1])
    row = made.entry(first, "low")
    assert (row.verdict, row.n_pairs, row.difference) == ("no pairs", 0, None)


def test_a_verdict_stays_though_its_variant_gets_more_seeds(world) -> None:
    """The variant `turning` is what `rival` is compared with, and turns when its look is over."""
    made = world("turning", "rival", versus={"rival": "turning"})
    made.scores["turning"] = lambda task, seed: level(task, seed) + (3 if seed < 8 else -50)
    made.scores["rival"] = lambda task, seed: made.scores["turning"](task, seed) + wide(task, seed)
    made.compute(made.stage().plan.cells)
    early = made.entry(made.stage().plan, "turning")
    last = made.finished().plan
    assert counts(last)["line", "turning"] == 20
    assert counts(last)["line", "base"] == 8
    late = made.entry(last, "turning")
    assert early.verdict == late.verdict == "better"
    assert (late.n, late.n_pairs, late.difference) == (20, 8, early.difference)


def test_the_margin_is_that_of_the_first_look(world) -> None:
    made = world("wide")
    first = made.stage().plan
    made.compute(first.cells)
    margin = made.entry(first, "wide").margin
    made.scores["base"] = lambda task, seed: 1000.0 * seed
    last = made.finished().plan
    assert made.entry(last, "wide").margin == margin == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize("gone", ["first", "last"])
def test_what_was_lost_is_run_again_and_leads_to_the_same_looks(world, gone: str) -> None:
    made = world("wide", "low")
    last = made.finished()
    rows = table(Results(last.plan, made.results)).rows
    for cell in last.plan.cells:
        if (cell.seed < 3) if gone == "first" else (cell.seed >= 18):
            shutil.rmtree(cell_folder(made.results, cell.hash))
    assert made.stage().look == (0 if gone == "first" else 3)
    again = made.finished()
    assert again.plan == last.plan
    assert table(Results(again.plan, made.results)).rows == rows


def test_a_damaged_record_belongs_to_a_look_that_has_not_ended(world) -> None:
    made = world("wide")
    last = made.finished().plan
    (cell_folder(made.results, last.cells[0].hash) / "record.json").write_text("{")
    assert made.stage().look == 0


def test_failed_runs_end_their_look(world) -> None:
    made = world("failing", "shaky")
    made.scores["shaky"] = lambda task, seed: None if seed == 2 else low(task, seed)
    last = made.finished()
    assert (last.look, last.open, last.lost) == (0, (), (("line", "failing"),))
    assert "not to be compared, as runs failed: failing on line" in last.line
    shaky = made.entry(last.plan, "shaky")
    assert (shaky.n_pairs, shaky.verdict) == (7, "worse")
    made.scores["shaky"] = lambda task, seed: None if seed == 2 else 3 + level(task, seed)
    shutil.rmtree(made.results)
    assert made.entry(made.finished().plan, "shaky").verdict == "unstable"


def test_failures_are_counted_on_the_seeds_that_both_have(world) -> None:
    """The baseline gets more seeds for another comparison, and one of them fails."""
    made = world("wide", "level")
    made.scores["base"] = lambda task, seed: None if seed == 10 else 0.0
    plan = made.finished().plan
    assert counts(plan)["line", "base"] == 20
    row = made.entry(plan, "level")
    assert row.verdict == "equivalent"
    assert row.tied or row.best
    efficiency = sheet("efficiency", Results(plan, made.results)).dataframe().set_index("variant")
    assert efficiency.loc["level", "n_failed"] == 0
    assert str(efficiency.loc["level", "stability"]) in ("None", "nan")


def test_all_tasks_is_read_at_the_looks_of_all_and_asks_for_none(world) -> None:
    made = world("mixed", tasks=("line", "plane"))
    made.scores["mixed"] = lambda task, seed: (wide if task == "plane" else low)(task, seed)
    last = made.finished()
    assert counts(last.plan) == {
        ("line", "base"): 8,
        ("line", "mixed"): 8,
        ("plane", "base"): 20,
        ("plane", "mixed"): 20,
    }
    row = made.entry(last.plan, "mixed", ALL_TASKS)
    assert row.n_pairs == 8
    assert row.level == pytest.approx(design(SEEDS, 0.025).levels[0])
    line = made.entry(last.plan, "mixed")
    assert line.level == pytest.approx(design(SEEDS, 0.025 / 2).levels[0])


def test_dry_runs_say_the_looks_their_levels_and_the_most_cells(world) -> None:
    made = world("wide", "level")
    first, *each = until.layout(made.stage().plan)
    assert first.startswith("made: 4 looks for 2 comparisons")
    levels = design(SEEDS, 0.025).levels
    for look, line in enumerate(each):
        assert f"look {look + 1}: {SEEDS[look]} seeds, {100 * (1 - levels[look]):.3f}% each" in line
        assert f"; {3 * SEEDS[look]} cells at most" in line
    assert not made.results.exists()


# Running


@pytest.fixture
def engine(world, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """In the place of workers: computes what is missing at once. Which seeds each call was for."""
    calls: list[list[str]] = []

    def run(_, plans, results, *, deadline=None):
        for plan in plans:
            write_plan(results, plan)
        work = clear_the_way(needed(plans), results)
        calls.append(sorted({cell.seed for cell in work.todo}))
        made = World(results, ())
        made.compute(work.todo if until.time.monotonic() < (deadline or np.inf) else ())
        return local.outcome_of(work, results, stopped=deadline is not None)

    monkeypatch.setattr(local.Processes, "run", run)
    return calls


def test_a_run_goes_on_look_after_look(world, engine, capsys: pytest.CaptureFixture[str]) -> None:
    made = world("wide", "low")
    ((plan,), outcome) = until.run([made.plan], made.results)
    assert engine == [list(range(8)), list(range(8, 12)), list(range(12, 18)), [18, 19]]
    assert (outcome.cells, outcome.done, outcome.found) == (48, 48, 0)
    assert read_plan(made.results, "made") == plan
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "made: look 1 of 4, 8 seeds for 2 comparisons",
        "made: 1 of 2 comparisons decided; look 2 of 4, 12 seeds for wide on line",
        "made: 1 of 2 comparisons decided; look 3 of 4, 18 seeds for wide on line",
        "made: 1 of 2 comparisons decided; look 4 of 4, 20 seeds for wide on line",
        "made: 1 of 2 comparisons decided; undecided with 20 seeds, the most: wide on line",
    ]
    _, outcome = until.run([made.plan], made.results, local.Processes(quiet=True))
    assert engine[4:] == [[]]
    assert (outcome.found, outcome.computed) == (48, 0)
    assert not capsys.readouterr().out


def test_a_study_that_had_ended_is_told_once(world, engine, capsys) -> None:
    ended, other = world("low").finished().plan, world("level")
    plans = [ended, replace(other.plan, study=replace(other.plan.study, name="other"))]
    until.run(plans, other.results)
    assert capsys.readouterr().out.count("made: 1 of 1 comparison decided, at look 1 of 4") == 1


def test_a_budget_that_is_spent_ends_it_and_it_goes_on(
    world, engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = world("wide")
    clock = iter([0.0] * 4 + [100.0] * 100)
    with monkeypatch.context() as patched:
        patched.setattr(until.time, "monotonic", lambda: next(clock))
        ((plan,), outcome) = until.run([made.plan], made.results, seconds=50.0)
    assert "the budget is spent; the same command goes on from here" in capsys.readouterr().out
    reached = len(engine)
    assert 0 < reached < len(SEEDS)
    assert outcome.stopped == (outcome.done < outcome.cells)
    assert made.entry(plan, "wide").n_pairs in SEEDS
    until.run([made.plan], made.results)
    assert sorted(seed for call in engine for seed in call) >= list(range(20))
    assert made.stage().ended


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90min", 5400),
        ("1h30min", 5400),
        ("1h30m", 5400),
        ("45s", 45),
        ("0.5h", 1800),
    ],
)
def test_a_budget_is_a_duration(text: str, seconds: float) -> None:
    assert budget_of("decided", text, fresh=False, here=True) == seconds


@pytest.mark.parametrize(
    "text", ["", "2", "h", "-2h", "2 hours", "0h", "1.2.3h", "30min2h", "nanh"]
)
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="a budget is such as 2h, 90min or 1h30min, not"):
        budget_of("decided", text, fresh=False, here=True)


def test_a_request_with_looks_is_stored_as_it_is_read() -> None:
    request = Request("gae", until="decided")
    assert request.most_seeds == 64
    assert Request("gae", **request.flags()) == request
    assert request.flags() == Request("gae", until="decided", most_seeds=64).flags()
    assert request.flags() != Request("gae", until="decided", most_seeds=32).flags()
    assert request.flags() != Request("gae").flags()
