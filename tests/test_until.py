"""Seeds that are added until comparisons are decided, on made-up records: no trainer runs."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from msgspec.structs import replace

from ablations import until
from ablations.comparison import compare
from ablations.core.plan import CellEntry, Looks, StoredStudy, StoredTask, StoredVariant
from ablations.engine import local, prepare
from ablations.records import Plan, Record, cell_folder, digest, read_plan, write_record
from ablations.request import Request
from ablations.runs import ALL_TASKS, Runs
from ablations.stats.interim import design, planned

SEEDS = planned(8, 20)  # 8, 12, 18, 20
NOISE = np.random.default_rng(5).normal(size=100)


SCORES = {
    "base": lambda seed: 0.0,
    "wide": lambda seed: 2 * float(NOISE[seed]),  # by chance alone, beyond the margin
    "level": lambda seed: 0.01 * float(NOISE[seed + 50]),
    "low": lambda seed: -3 + 0.01 * float(NOISE[seed + 60]),
    "high": lambda seed: 3 + 0.01 * float(NOISE[seed + 60]),
    "failing": lambda seed: None,
    "shaky low": lambda seed: None if seed == 2 else SCORES["low"](seed),
    "shaky high": lambda seed: None if seed == 2 else SCORES["high"](seed),
    "turning": lambda seed: SCORES["high"](seed) - 60 * (seed > 7),
    "rival": lambda seed: SCORES["turning"](seed) + SCORES["wide"](seed),
}


class World:
    """A study whose variants' scores are functions of the seed; None: the run fails. Every run
    learns 1, so the margin is 0.05."""

    def __init__(self, results, variants, tasks=("line",), versus=None):
        self.results, self.scores = results, dict(SCORES)
        names = ["base", *variants]
        configs = [{"task": t, "variant": name, "seed": 0} for t in tasks for name in names]
        self.plan = Plan(
            request={"profile": "quick", "until": "decided"},
            study=StoredStudy("made", "Made", "", "", "base", 0.05, False, "training/return"),
            variants={name: StoredVariant((versus or {}).get(name), "", {}, {}) for name in names},
            tasks={task: StoredTask(200, {}, "") for task in tasks},
            cells=tuple(CellEntry(*c.values(), digest(c), c) for c in configs),
            looks=Looks(tuple(SEEDS), len(variants) * len(tasks), len(variants) * (len(tasks) > 1)),
        )

    def compute(self, cells) -> None:
        """Write the records of a plan's cells."""
        for cell in cells:
            config = dict(cell.config)
            task, variant, seed = config.values()
            score = self.scores.get((variant, task), self.scores.get(variant))(seed)
            failed = {"status": "failed", "failure": "diverged", "reason": "NaN"}
            outcome = {"status": "done"} if score is not None else failed
            steps = np.arange(1, 21) * 10
            curve = (score or 0.0) + np.minimum(0.0, steps / 180 - 1)
            record = Record(digest(config), config, **outcome)
            write_record(self.results, record, {"step": steps, "training/return": curve})

    def stage(self) -> SimpleNamespace:
        state = until.stage(self.plan, self.results)
        return SimpleNamespace(plan=state.needs, line=until.line(state), **vars(state))

    def finished(self) -> SimpleNamespace:
        """After stage upon stage, as a run would."""
        while not (now := self.stage()).ended:
            self.compute(now.plan.cells)
        return now

    def table(self, plan: Plan) -> pd.DataFrame:
        return compare(Runs.read(self.results, plan))

    def row(self, plan: Plan, variant: str, task: str = "line") -> pd.Series:
        return self.table(plan).set_index(["task", "variant"]).loc[(task, variant)]


@pytest.fixture
def world(tmp_path):
    return lambda *variants, **about: World(tmp_path / "results", variants, **about)


def counts(plan: Plan) -> dict[tuple[str, str], int]:
    """(task, variant) -> the number of its seeds, which begin at 0."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for cell in plan.cells:
        seeds.setdefault((cell.task, cell.variant), []).append(cell.seed)
    assert all(of == list(range(len(of))) for of in seeds.values())
    return {key: len(of) for key, of in seeds.items()}


def test_only_open_comparisons_and_their_baselines_get_more_seeds(world) -> None:
    made = world("wide", "level", "low")
    first = made.stage()
    assert (first.stage, first.ended, first.open) == (0, False, ())
    assert set(counts(first.plan).values()) == {8}
    made.compute(first.plan.cells)
    second = made.stage()
    assert (second.stage, second.ended, second.open) == (1, False, (("line", "wide"),))
    assert [*counts(second.plan).values()] == [12, 12, 8, 8]
    last = made.finished()
    assert (last.stage, last.ended, last.open) == (3, True, (("line", "wide"),))
    assert counts(last.plan)["line", "wide"] == 20
    # Each row is that of its own stage, at the level of that stage.
    levels = design(SEEDS, 0.05 / 3).levels
    for name, stage, verdict in (
        ("wide", 3, "inconclusive"),
        ("level", 0, "equivalent"),
        ("low", 0, "worse"),
    ):
        row, n = made.row(last.plan, name), SEEDS[stage]
        pairs = [SCORES[name](seed) for seed in range(n)]
        ends = scipy.stats.t.interval(
            1 - levels[stage], n - 1, np.mean(pairs), scipy.stats.sem(pairs)
        )
        assert (row.pairs, row.verdict) == (n, verdict)
        assert row.level == pytest.approx(levels[stage])
        assert (row.difference_low, row.difference_high) == pytest.approx(ends)


def test_a_table_during_a_stage_is_that_of_the_last_complete_one(world) -> None:
    made = world("wide", "low")
    first = made.stage().plan
    made.compute(first.cells[:-1])
    early = made.row(first, "low")
    assert (early.verdict, early.note, early.pairs) == ("inconclusive", "no common seed", 0)
    made.compute(first.cells)
    second = made.stage()
    names = ["pairs", "level", "difference", "difference_low", "verdict", "margin"]
    before = made.table(second.plan)
    made.compute([cell for cell in second.plan.cells if cell.seed != 9])
    during = made.table(second.plan)
    pd.testing.assert_frame_equal(before[names], during[names])
    assert before.pairs.max() == 8


def test_a_verdict_stays_though_its_variant_gets_more_seeds(world) -> None:
    """The variant `turning` is the baseline of `rival`, and turns after its own stage."""
    made = world("turning", "rival", versus={"rival": "turning"})
    made.compute(made.stage().plan.cells)
    early = made.row(made.stage().plan, "turning")
    last = made.finished().plan
    assert (counts(last)["line", "turning"], counts(last)["line", "base"]) == (20, 8)
    late = made.row(last, "turning")
    assert early.verdict == late.verdict == "better"
    assert (late.n, late.pairs, late.difference) == (20, 8, early.difference)
    assert late.margin == early.margin == pytest.approx(0.05, rel=0.1), "that of the first stage"


@pytest.mark.parametrize("lost", ["first", "last"])
def test_lost_runs_are_run_again_and_lead_to_the_same_stages(world, lost: str) -> None:
    made = world("wide", "low")
    last = made.finished()
    table = made.table(last.plan)
    for cell in last.plan.cells:
        if (cell.seed < 3) if lost == "first" else (cell.seed >= 18):
            shutil.rmtree(cell_folder(made.results, cell.hash))
    assert made.stage().stage == (0 if lost == "first" else 3)
    again = made.finished()
    assert again.plan == last.plan
    pd.testing.assert_frame_equal(made.table(again.plan), table)
    record = cell_folder(made.results, last.plan.cells[0].hash) / "record.json"
    record.write_text("{")
    assert made.stage().stage == 0, "a damaged record has not ended"


def test_failed_runs_end_their_stage(world) -> None:
    made = world("failing", "shaky low", "shaky high")
    last = made.finished()
    assert (last.stage, last.open, last.lost) == (0, (), (("line", "failing"),))
    assert "not compared, as runs failed: failing on line" in last.line
    low, high = (made.row(last.plan, f"shaky {name}") for name in ("low", "high"))
    assert (low.pairs, low.verdict, high.verdict) == (7, "worse", "failed")


def test_failures_count_on_common_seeds_and_keep_a_comparison_open(world) -> None:
    """The baseline gets more seeds for another comparison, and one of them fails."""
    made = world("wide", "level")
    made.scores["base"] = lambda seed: None if seed == 10 else 0.0
    plan = made.finished().plan
    assert counts(plan)["line", "base"] == 20
    row = made.row(plan, "level")
    assert (row.verdict, row.tied or row.best) == ("equivalent", True)


def test_all_tasks_asks_for_no_seeds(world) -> None:
    made = world("mixed", tasks=("line", "plane"))
    made.scores |= {("mixed", "line"): SCORES["low"], ("mixed", "plane"): SCORES["wide"]}
    last = made.finished()
    assert [*counts(last.plan).values()] == [8, 8, 20, 20]
    over, line = made.row(last.plan, "mixed", ALL_TASKS), made.row(last.plan, "mixed")
    assert over.pairs == 8
    assert over.level == pytest.approx(design(SEEDS, 0.025).levels[0])
    assert line.level == pytest.approx(design(SEEDS, 0.025 / 2).levels[0])


def test_a_dry_run_prints_the_stages_and_the_most_runs(world) -> None:
    made = world("wide", "level")
    plan = made.stage().plan
    assert until.layout(plan) == "made: stages of 8, 12, 18, 20 seeds; 60 runs at most"
    assert not made.results.exists()


# Running


@pytest.fixture
def engine(world, monkeypatch) -> list[list[int]]:
    """Instead of workers: computes missing runs at once. Returns the seeds of each call."""
    calls: list[list[int]] = []

    def run(_, plans, results, *, deadline=None):
        work = prepare.prepare(plans, results)
        calls.append(sorted({cell.seed for cell in work.todo}))
        in_time = until.time.monotonic() < (deadline or np.inf)
        World(results, ()).compute(work.todo if in_time else ())
        return local.outcome_of(work, results)

    monkeypatch.setattr(local.Processes, "run", run)
    return calls


def test_a_run_goes_from_stage_to_stage(world, engine, capsys) -> None:
    made = world("wide", "low")
    ((plan,), outcome) = until.run([made.plan], made.results)
    assert engine == [list(range(8)), list(range(8, 12)), list(range(12, 18)), [18, 19]]
    assert (outcome.cells, outcome.done, outcome.found) == (48, 48, 0)
    assert read_plan(made.results, "made") == plan
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "made: stage 1 of 4, 8 seeds for 2 comparisons"
    assert last == (
        "made: 1 of 2 comparisons decided; inconclusive with 20 seeds, the most: wide on line"
    )
    _, outcome = until.run([made.plan], made.results, local.Processes(quiet=True))
    assert engine[4:] == [[]]
    assert (outcome.found, outcome.computed) == (48, 0)
    assert not capsys.readouterr().out


def test_a_finished_study_is_announced_once(world, engine, monkeypatch, capsys) -> None:
    monkeypatch.setattr(prepare, "sharing_programs", lambda cells: cells)  # there is no trainer
    ended, other = world("low").finished().plan, world("level")
    plans = [ended, replace(other.plan, study=replace(other.plan.study, name="other"))]
    until.run(plans, other.results)
    assert capsys.readouterr().out.count("made: 1 of 1 comparison decided, at stage 1 of 4") == 1


def test_a_used_budget_ends_the_run_and_the_next_continues(world, engine, monkeypatch, capsys):
    made = world("wide")
    clock = iter([0.0] * 4 + [100.0] * 100)
    with monkeypatch.context() as patched:
        patched.setattr(until.time, "monotonic", lambda: next(clock))
        ((plan,), outcome) = until.run([made.plan], made.results, seconds=50.0)
    assert "the time is up; the same command continues" in capsys.readouterr().out
    assert 0 < len(engine) < len(SEEDS)
    assert outcome.stopped == (outcome.done < outcome.cells)
    assert made.row(plan, "wide").pairs in SEEDS
    until.run([made.plan], made.results)
    assert {seed for call in engine for seed in call} == set(range(20))
    assert made.stage().ended


def test_a_request_with_stages_is_stored_as_it_is_read() -> None:
    request = Request("gae", until="decided")
    assert request.most_seeds == 64
    assert Request("gae", **request.flags()) == request
    assert request.flags() == Request("gae", until="decided", most_seeds=64).flags()
    assert request.flags() != Request("gae", until="decided", most_seeds=32).flags()
    assert request.flags() != Request("gae").flags()
