"""`ablations list runs`, `ablations clean STUDY`, and what a study's name means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ablations import cli
from ablations.engine.plan import plan
from ablations.engine.stored import remove, stored_plans
from ablations.records import Plan, Record, cell_folder, write_plan, write_record
from ablations.request import Request


def stored(results: Path, *, done: int, at: int = 0, study: str = "gae", **selection) -> Plan:
    """A plan whose first cells have records, written at a time."""
    made = plan(Request(study, "smoke", tasks=("fast",), **selection))
    for cell in made.cells[:done]:
        write_record(results, Record(cell.hash, cell.config, "done"), {"step": []})
    path = write_plan(results, made)
    os.utime(path, (at, at))
    return made


def test_runs_are_listed_with_the_command_that_ran_them(tmp_path, capsys) -> None:
    stored(tmp_path, done=2, at=100, seeds=(0,), variants=("standard", "brax"))
    stored(tmp_path, done=1, at=200, study="value_clipping", seeds=(3, 4), set={"epochs": 2})
    assert cli.main(["list", "runs", "--results", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line, done, words in zip(lines, (1, 2), ("--seeds 3-4 --set epochs=2", ""), strict=True):
        assert f"  {done} of " in line
        assert line.endswith(words)
        again = [*line.partition("ablations ")[2].split(), "--dry-run", "--results", str(tmp_path)]
        assert cli.main(again) == 0  # the command asks for the same plan
        assert f"{done} done" in capsys.readouterr().out


@pytest.mark.parametrize("listed_only", [True, False])
def test_a_study_goes_and_cells_that_another_has_stay(tmp_path, listed_only) -> None:
    mine = stored(tmp_path, done=9, seeds=(0, 1, 2), variants=("standard", "brax"))
    other = stored(tmp_path, done=9, study="single_choices", vary={"gae_lambda": (0.95, 0.9)})
    shared = {one.hash for one in mine.cells} & {one.hash for one in other.cells}
    assert shared, "both have the task's own settings"
    remove(tmp_path, "gae", dry_run=listed_only)
    there = {one.hash for one in mine.cells if cell_folder(tmp_path, one.hash).exists()}
    assert there == ({one.hash for one in mine.cells} if listed_only else shared)
    assert all(cell_folder(tmp_path, one.hash).exists() for one in other.cells)
    assert ("gae" in {plan.study.name for _, plan in stored_plans(tmp_path)}) == listed_only


def test_nothing_goes_while_nobody_knows_what_another_study_has(tmp_path, capsys) -> None:
    mine = stored(tmp_path, done=1)
    stored(tmp_path, done=1, study="value_clipping")
    damaged = next((tmp_path / "plans" / "value_clipping").glob("*.json"))
    damaged.write_text("{")
    for name in ("gae", "nosuch"):
        assert cli.main(["clean", name, "--yes", "--results", str(tmp_path)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert cell_folder(tmp_path, mine.cells[0].hash).exists()
