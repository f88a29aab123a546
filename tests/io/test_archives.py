"""Runs that are committed: what is found in an archive is done, and reads as it did."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest
from msgspec.structs import replace

from ablations.cli import main
from ablations.comparison import compare
from ablations.errors import UserError
from ablations.io import archives
from ablations.io.archives import archive, restore
from ablations.records import read_plan, read_record, write_plan, write_record
from ablations.runs import Runs


def moved(shells, shell):
    """A shell that has the archive of another one, and nothing else."""
    other = shells()
    shutil.copytree(shell.results / "archive", other.results / "archive")
    return other


def test_a_half_finished_study_goes_on_from_its_archive_alone(shells) -> None:
    first = shells()
    first("run", "toy", "--seeds", "2")
    first("export", "toy", "--format", "archive")
    (path,) = first.results.glob("archive/*.parquet")
    tables = [first("table", "toy", "--format", form).stdout for form in ("markdown", "csv")]

    second = moved(shells, first)
    told = [second("table", "toy", "--format", form).stdout for form in ("markdown", "csv")]
    assert told == tables, "the table is another one"
    assert "4 done" in second("status", "toy").stdout
    assert "4 runs are done" in second("run", "toy", "--seeds", "2").stdout
    assert "4 done, 4 to run" in second("run", "toy").stdout

    whole = shells()
    whole("run", "toy")
    assert second("table", "toy").stdout == whole("table", "toy").stdout
    for shell in (first, second):
        shell("export", "toy", "--seeds", "2", "--format", "archive", "--output", "again")
        assert (shell.folder / "again" / path.name).read_bytes() == path.read_bytes()


@pytest.fixture(scope="module")
def ran(shells):
    shell = shells()
    shell("run", "toy", "toy_nan", "--seeds", "1", code=1)
    return shell


def test_a_run_that_diverged_is_kept_and_one_that_raised_is_not(ran, tmp_path: Path) -> None:
    plan = read_plan(ran.results, "toy_nan")
    archive([plan], ran.results, tmp_path / "archive")
    restore(tmp_path)
    for cell in plan.cells:
        kept, record = read_record(tmp_path, cell.hash), read_record(ran.results, cell.hash)
        assert kept == replace(record, curve=kept.curve, policies={})
    here, there = (compare(Runs.read(results, plan)) for results in (ran.results, tmp_path))
    pd.testing.assert_frame_equal(here, there)

    raised = tmp_path / "raised"
    first = read_record(ran.results, plan.cells[0].hash)
    write_record(raised, replace(first, status="failed", failure="error"), {"step": []})
    archive([plan], raised, raised / "archive")
    shutil.rmtree(raised / "cells")
    restore(raised)
    assert read_record(raised, plan.cells[0].hash) is None


def test_a_newer_archive_brings_its_plan_and_leaves_one_that_ran_here(ran, tmp_path: Path) -> None:
    """A plan's name is that of the flags: a study that gets another variant keeps it."""
    whole = read_plan(ran.results, "toy")
    (tmp_path / "plans" / "toy").mkdir(parents=True)
    (tmp_path / "plans" / "toy" / "last").write_text("another")
    few = replace(whole, cells=whole.cells[:1])
    for one in (few, whole):
        archive([one], ran.results, tmp_path / "archive")
        restore(tmp_path)
        assert read_plan(tmp_path, "toy", whole.name) == one
    assert (tmp_path / "plans" / "toy" / "last").read_text() == "another", "what a table shows"
    write_plan(tmp_path, few)
    archive([replace(whole, cells=whole.cells[1:])], ran.results, tmp_path / "archive")
    restore(tmp_path)
    assert read_plan(tmp_path, "toy") == few


def test_what_is_there_stays_and_what_is_deleted_comes_back(ran, tmp_path: Path) -> None:
    plan = read_plan(ran.results, "toy")
    archive([plan], ran.results, tmp_path / "archive")
    restore(tmp_path, ["mine"])
    assert not (tmp_path / "cells").exists(), "there is no archive of this study"
    restore(tmp_path, runs=frozenset({"another"}))
    assert not (tmp_path / "cells").exists(), "no archive has this run"
    restore(tmp_path, runs=frozenset({plan.cells[0].hash}))
    first, second = (tmp_path / "cells" / cell.hash for cell in plan.cells)
    shutil.rmtree(first)
    (second / "mine").touch()
    restore(tmp_path)
    assert not first.exists(), "unpacked again, though nothing changed"
    (tmp_path / "cells" / ".restored.json").unlink()
    restore(tmp_path)
    assert first.exists()
    assert (second / "mine").exists()


def test_a_command_unpacks_what_it_reads(ran, tmp_path: Path, capsys) -> None:
    plans = {name: read_plan(ran.results, name) for name in ("toy", "toy_nan")}
    archive(plans.values(), ran.results, tmp_path / "archive")
    mine, other = ({cell.hash for cell in plan.cells} for plan in plans.values())
    for command, unpacked in (
        ("list components", set()),
        ("show gae --profile smoke", set()),
        ("clean", set()),
        ("table toy", mine),
        ("status toy", mine),
        ("status", mine | other),
    ):
        assert main([*command.split(), "--results", str(tmp_path)]) == 0
        there = {path.name for path in (tmp_path / "cells").glob("[!.]*")}
        assert there == unpacked, command
    assert "toy_nan" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "cells")
    cell = next(iter(other))
    assert main(["show", cell, "--results", str(tmp_path)]) == 0
    assert cell in capsys.readouterr().out


def test_what_an_archive_cannot_hold_is_said(ran, tmp_path: Path, monkeypatch) -> None:
    plan = read_plan(ran.results, "toy")
    with pytest.raises(UserError, match=r"unknown metric 'nothing'"):
        archive([plan], ran.results, tmp_path, ["nothing"])
    monkeypatch.setattr(archives, "MOST_BYTES", 100)
    with pytest.raises(UserError, match=r"bytes, more than 100: select fewer columns"):
        archive([plan], ran.results, tmp_path)
    assert not list(tmp_path.iterdir())


DAMAGE = ["half", "checksum", "no checksum", "no Parquet", "format", "config", "record"]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_archive_is_one_line(ran, tmp_path: Path, damage: str, capsys) -> None:
    plan = read_plan(ran.results, "toy")
    (path,) = archive([plan], ran.results, tmp_path / "archive")
    beside = path.with_name(f"{path.name}.sha256")
    read = pyarrow.parquet.ParquetFile(path).read()
    if damage == "half":
        path.write_bytes(path.read_bytes()[:500])
    elif damage == "checksum":
        beside.write_bytes(b"\xff\xfe no text")
    elif damage == "no checksum":
        beside.unlink()
    elif damage == "no Parquet":
        path.write_bytes(b"something else" * 99)
    elif damage == "format":
        about = json.loads(read.schema.metadata[b"ablations"]) | {"format": 99}
        read = read.replace_schema_metadata({"ablations": json.dumps(about)})
    elif damage == "record":
        read = read.set_column(5, "record", [['{"what": 1}'] * len(plan.cells)])
    else:
        other = [json.dumps(cell.config | {"seed": 99}) for cell in plan.cells]
        read = read.set_column(4, "config", [other])
    if damage in DAMAGE[3:]:
        if damage != "no Parquet":
            pyarrow.parquet.write_table(read, path)
        beside.write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    assert main(["table", "toy", "--results", str(tmp_path)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"ablations: left out: the archive '{path}'")
    assert second.startswith("ablations: 'toy' has not run in")
