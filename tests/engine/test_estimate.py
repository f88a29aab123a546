"""How long a run takes, before it runs and while it does: speed is of training alone."""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ablations import tasks
from ablations.core.decode import encode
from ablations.engine import progress
from ablations.engine.backends.compiled import BACKEND
from ablations.engine.claims import Heartbeat, hold, work_folder
from ablations.engine.estimate import speeds
from ablations.engine.job import Cell, cells_of
from ablations.engine.plan import plan
from ablations.records import Record, digest, write_record
from ablations.request import Request

STEPS = 100_000


RUN = {"points": 10, "updates_per_chunk": 1, "iteration_steps": STEPS // 10, "evaluation_envs": 0}


def config_of(
    task: str, seed: int = 0, run: Mapping[str, int] = RUN, **structure: Any
) -> dict[str, Any]:
    return {
        "trainer": {"name": "ppo", "revision": 1},
        "task": {"name": task, "revision": 1, "settings": {}},
        "structure": structure,
        "choices": {},
        "numbers": {},
        "seed": seed,
        "run": {**RUN, **run},
    }


def cell_of(config: dict[str, Any]) -> Cell:
    return Cell("mine", config["task"]["name"], "up", config["seed"], digest(config), config)


def rate(task: str) -> float:
    return BACKEND.assumed_speed(cell_of(config_of(task)), accelerator=False).rate


def test_an_assumed_speed_is_its_tasks() -> None:
    slower = ("fast", "hopper", "walker2d", "halfcheetah", "humanoid")
    assert all(rate(a) > rate(b) for a, b in pairwise(slower))
    assert rate("a task of a plugin") == tasks.Task.speed


def test_other_networks_are_no_measurement() -> None:
    small, wide = (config_of("hopper", policy_layers=[n, n]) for n in (64, 256))
    assert BACKEND.kind(small) != BACKEND.kind(wide)
    assert BACKEND.kind(small) == BACKEND.kind({**small, "seed": 3})


class Watch:
    """A bar over a folder where runs are at work, on a clock of its own."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, programs: str = "a", **given: Any
    ):
        self.now = 0.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(progress, "LINE_SECONDS", 0)
        self.output = io.StringIO()
        self.cells, self.folder = (
            [cell_of(config_of("hopper", n)) for n in range(len(programs))],
            folder,
        )
        given["programs"] = {cell.hash: programs[cell.seed] for cell in self.cells}
        console = Console(file=self.output, highlight=False)
        self.bar = progress.Bar(self.cells, folder, console=console, **given)

    def line(self, seconds: float, phase: str, step: int, seed: int = 0) -> str:
        """What is printed after so many more seconds."""
        self.now += seconds
        held = hold(self.folder, self.cells[seed].hash)
        assert held is not None
        held.beat(phase, step, STEPS, 0.0, None, force=True)
        self.bar.update()
        line = self.output.getvalue().splitlines()[-1]
        held.release()
        return line

    def finish(self, seed: int) -> None:
        cell = self.cells[seed]
        write_record(self.folder, Record(cell.hash, cell.config, "done"), {"step": []})


def test_the_first_study_is_told_what_it_waits_for(tmp_path: Path, monkeypatch) -> None:
    watch = Watch(tmp_path, monkeypatch, compile_seconds=75.0)
    with watch.bar:
        assert "compiling for 40 s of about 75 s" in watch.line(40, "compiling", 0)
        assert "5,000 steps/s, 10 s left" in watch.line(10, "training", STEPS // 2)
        watch.finish(0)
        watch.now += 10
    assert (
        "1/1 runs, 100,000/100,000 steps, 5,000 steps/s" in watch.output.getvalue().splitlines()[-1]
    )


def test_steps_never_go_back_and_compiling_changes_no_speed(tmp_path: Path, monkeypatch) -> None:
    """A run that is taken over begins at its last checkpoint."""
    watch = Watch(tmp_path, monkeypatch, "aa")
    with watch.bar:
        assert watch.line(600, "compiling", 0).endswith("0/200,000 steps, compiling for 10 min")
        assert "0/2 runs, 50,000/200,000 steps, 5,000 steps/s" in watch.line(
            10, "training", STEPS // 2
        )
        assert "50,000/200,000 steps" in watch.line(1, "compiling", STEPS // 4)
        watch.finish(0)
        assert "1/2 runs, 150,000/200,000" in watch.line(10, "training", STEPS // 2, seed=1)


def test_steps_of_an_earlier_call_are_no_speed(tmp_path: Path, monkeypatch) -> None:
    watch = Watch(tmp_path, monkeypatch)
    work = work_folder(tmp_path, watch.cells[0].hash)
    work.mkdir(parents=True)
    earlier = Heartbeat("host", 1, "training", STEPS // 2, STEPS, 0.0, None, 0.0)
    (work / "heartbeat.json").write_text(encode(earlier))
    with watch.bar:
        watch.now += 1
        watch.bar.update()
        first = watch.output.getvalue().splitlines()[-1]
        assert first.endswith("50,000/100,000 steps, compiling for 1 s")
        held = hold(tmp_path, watch.cells[0].hash)
        held.start = STEPS // 2
        watch.now += 10
        held.beat("training", STEPS // 2 + STEPS // 4, STEPS, 0.0, None, force=True)
        watch.bar.update()
        assert "75,000/100,000 steps, 2,500 steps/s" in watch.output.getvalue().splitlines()[-1]
        held.release()


def test_programs_that_are_still_to_be_compiled_are_in_the_time_left(
    tmp_path: Path, monkeypatch
) -> None:
    watch = Watch(tmp_path, monkeypatch, "ab", compile_seconds=100.0)
    with watch.bar:
        assert "5,000 steps/s, 2 min left" in watch.line(10, "training", STEPS // 2)


def test_a_record_of_a_plugin_that_is_not_loaded_stops_no_run(tmp_path: Path) -> None:
    cell = cells_of(plan(Request("gae", "smoke", seeds=1, variants=("brax",))))[0]
    choices = {**cell.config["choices"], "advantage": {"name": "of_a_plugin", "revision": 1}}
    config = {**cell.config, "choices": choices}
    provenance = {"device": "cpu", "seconds": 1.0, "steps_per_second": 77.0}
    record = Record(digest(config), config, "done", provenance=provenance)
    write_record(tmp_path, record, {"step": [1]})
    (speed,) = speeds(tmp_path, [cell], accelerator=False).values()
    assert speed.measured
    assert speed.rate == 77
