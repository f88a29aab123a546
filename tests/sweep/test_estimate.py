"""How long a run takes, before it runs and while it does: speed is of training alone."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ablations import tasks
from ablations.records import Record, digest, write_record
from ablations.request import Request
from ablations.sweep import progress as progress_module
from ablations.sweep.backends.compiled import BACKEND
from ablations.sweep.claims import Claim, hold
from ablations.sweep.estimate import speeds
from ablations.sweep.job import Cell, cells_of
from ablations.sweep.plan import plan
from ablations.sweep.progress import Clocks, Progress

STEPS = 100_000


def config_of(task: str, seed: int = 0, **structure: Any) -> dict[str, Any]:
    return {
        "trainer": {"name": "ppo", "revision": 1},
        "task": {"name": task, "revision": 1, "settings": {}},
        "structure": structure,
        "choices": {},
        "numbers": {},
        "seed": seed,
        "run": {"points": 10, "updates_per_chunk": 1, "iteration_steps": STEPS // 10},
    }


def cell_of(config: dict[str, Any]) -> Cell:
    return Cell("mine", config["task"]["name"], "up", config["seed"], digest(config), config)


def rate(task: str, **structure: Any) -> float:
    config = config_of(task, **structure)
    return BACKEND.speed(cell_of(config), [], accelerator=False).rate


def test_an_assumed_speed_is_its_tasks_and_its_networks() -> None:
    slower = ("fast", "hopper", "walker2d", "halfcheetah", "humanoid")
    assert all(rate(a) > rate(b) for a, b in pairwise(slower))
    assert rate("hopper") == rate("hopper", policy_layers=[64, 64], value_layers=[64, 64])
    wide = rate("hopper", policy_layers=[256, 256], value_layers=[256, 256])
    assert 3 < rate("hopper") / wide < 8, "measured: 3.8 in results, 6.2 alone on a core"
    assert rate("a task of a plugin") == pytest.approx(tasks.Task.speed)


def test_other_networks_are_no_measurement() -> None:
    small, wide = (config_of("hopper", policy_layers=[n, n]) for n in (64, 256))
    assert BACKEND.kind(small) != BACKEND.kind(wide)
    assert BACKEND.kind(small) == BACKEND.kind({**small, "seed": 3})


@pytest.mark.parametrize("compiling", [0.0, 30.0, 600.0])
def test_compiling_changes_no_speed(compiling: float) -> None:
    clocks = Clocks()
    clocks.pass_on(compiling, 0, trains=False)
    for second in range(1, 11):
        clocks.pass_on(1.0, 1000 * second, trains=True)
    clocks.pass_on(compiling, 10_000, trains=False)
    assert (clocks.rate, clocks.compiling) == (1000, 2 * compiling)


class Watch:
    """A progress in a folder where one cell is at work, on a clock of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **given: Any):
        self.now = 0.0
        monkeypatch.setattr(progress_module.time, "monotonic", lambda: self.now)
        self.output = io.StringIO()
        config = config_of("hopper")
        self.cell, self.folder = cell_of(config), folder
        console = Console(file=self.output, highlight=False)
        self.progress = Progress([self.cell], folder, console=console, line_seconds=0, **given)
        held = hold(folder, self.cell.hash)
        assert held is not None
        self.claim: Claim = held

    def line(self, seconds: float, phase: str, step: int) -> str:
        """What is printed after so many more seconds."""
        self.now += seconds
        self.claim.beat(phase, step, STEPS, 0.0, None, force=True)
        self.progress.update()
        return self.output.getvalue().splitlines()[-1]


def test_the_first_study_is_told_what_it_waits_for(tmp_path: Path, monkeypatch) -> None:
    watch = Watch(tmp_path, monkeypatch, compile_seconds=75.0)
    with watch.progress:
        assert "compiling 00:40 of about 01:15" in watch.line(40, "compiling", 0)
        assert "compiling 01:10 of about 01:15" in watch.line(30, "compiling", 0)
        half = watch.line(10, "training", STEPS // 2)
        assert "5k steps/s, compiling took 01:10, 00:10 left" in half
        write_record(tmp_path, Record(watch.cell.hash, watch.cell.config, "done"), {"step": []})
        watch.now += 10
    assert "1/1 cells, 100k/100k steps, 5k steps/s" in watch.output.getvalue().splitlines()[-1]


def test_nothing_is_claimed_of_what_was_never_measured(tmp_path: Path, monkeypatch) -> None:
    watch = Watch(tmp_path, monkeypatch)
    with watch.progress:
        line = watch.line(40, "compiling", 0)
    assert line.endswith("compiling 00:40")
    assert "steps/s" not in line


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
