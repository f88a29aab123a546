"""What is done for a cell does not grow with how many there are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ablations.engine import worker
from ablations.engine.backends import Prepared
from ablations.engine.backends.command import BACKEND
from ablations.engine.job import Cell, JobSpec, Result
from ablations.records import Record, cell_folder, digest, write_record

COLUMNS = {"step": [10], "training/return": [1.0]}
RUN = {"points": 1, "updates_per_chunk": 1, "iteration_steps": 10, "evaluations": 0}


def cells(count: int) -> tuple[Cell, ...]:
    """Of commands of two lines, so that no program is compiled."""
    made = []
    for seed in range(count):
        config = {
            "trainer": {"name": "command"},
            "task": {"name": "t"},
            "command": {"run": ["true", str(seed % 2)]},
            "run": RUN,
            "seed": seed,
        }
        made.append(Cell("mine", "t", "up", seed, digest(config), config))
    return tuple(made)


def synthetic(*_: Any) -> Any:
    """A training that is over at once."""
    return SimpleNamespace(run=lambda *_: [(Result(COLUMNS), {})], abandon=lambda: None)


def run(results: Path, of: Sequence[Cell], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BACKEND, "prepare", lambda *_: Prepared(synthetic))
    worker.Worker(JobSpec("r", str(results), tuple(of)), 0).run()
    assert all((cell_folder(results, cell.hash) / "record.json").exists() for cell in of)


def test_a_worker_looks_as_often_for_a_cell_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    for module, name in ((worker, "published"), (worker, "checkpoint_points"), (worker, "claim")):
        look = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *of, look=look: looks.append("") or look(*of))
    each = []
    for count in (20, 160):
        looks.clear()
        run(tmp_path / str(count), cells(count), monkeypatch)
        each.append(len(looks) / count)
    assert each[1] <= 1.05 * each[0]


def test_what_a_kill_leaves_of_a_record_goes_with_its_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever name the half of it has: it lies in the cell's own folder."""
    (cell,) = cells(1)
    halves = []

    def killed(descriptor: int) -> None:
        halves.extend(path for path in tmp_path.rglob("record.json"))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, [cell], monkeypatch)
    monkeypatch.undo()
    assert halves
    assert not list((tmp_path / "cells").iterdir())
    run(tmp_path, [cell], monkeypatch)
    assert not any(half.exists() for half in halves)
    assert not list((tmp_path / "work").glob(f"*{cell.hash}*"))


def test_who_comes_second_finds_its_folder_gone_and_changes_nothing(tmp_path: Path) -> None:
    (cell,) = cells(1)
    record = Record(cell.hash, cell.config, "done")
    assert write_record(tmp_path, record, COLUMNS)
    assert not write_record(tmp_path, record, COLUMNS, within=tmp_path / "gone")
    (other,) = cells(2)[1:]
    with pytest.raises(FileNotFoundError):
        write_record(
            tmp_path, Record(other.hash, other.config, "done"), COLUMNS, within=tmp_path / "gone"
        )
