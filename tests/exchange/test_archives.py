"""Runs that are committed: what is found in an archive is done, and reads as it did."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from ablations.cli import main
from ablations.errors import UserError
from ablations.exchange import archive, archives, restore
from ablations.records import read_plan, read_record, write_plan, write_record
from ablations.report.results import Results
from ablations.report.tables import table


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
    assert "4 cells are done" in second("run", "toy", "--seeds", "2").stdout
    assert "4 done, 4 to run" in second("run", "toy").stdout

    whole = shells()
    whole("run", "toy")
    assert second("table", "toy").stdout == whole("table", "toy").stdout
    first("export", "toy", "--seeds", "2", "--format", "archive", "--output", "again")
    assert (first.folder / "again" / path.name).read_bytes() == path.read_bytes()
    second("export", "toy", "--seeds", "2", "--format", "archive", "--output", "again")
    assert (second.folder / "again" / path.name).read_bytes() == path.read_bytes()


def test_looks_figures_and_the_report_know_what_an_archive_has(shells) -> None:
    flags = ("toy", "--until", "decided", "--most-seeds", "8")
    first = shells()
    first("run", *flags)
    first("export", *flags, "--format", "archive")
    second = moved(shells, first)
    told = second("run", *flags).stdout
    assert "16 of them were there before" in told
    assert second("table", *flags).stdout == first("table", *flags).stdout
    for shell in (first, second):
        shell("figure", *flags)
        shell("report", *flags)
    drawn = [sorted((one.results / "figures").glob("*.svg")) for one in (first, second)]
    assert drawn[0]
    for mine, theirs in zip(*drawn, strict=True):
        assert mine.read_bytes() == theirs.read_bytes(), mine.name


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
    assert table(Results(plan, tmp_path)) == table(Results(plan, ran.results))

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
    few = replace(whole, cells=whole.cells[:1])
    for one in (few, whole):
        archive([one], ran.results, tmp_path / "archive")
        restore(tmp_path)
        assert read_plan(tmp_path, "toy") == one
    write_plan(tmp_path, few)
    archive([replace(whole, cells=whole.cells[1:])], ran.results, tmp_path / "archive")
    restore(tmp_path)
    assert read_plan(tmp_path, "toy") == few


def test_what_runs_last_stays_the_last_plan(ran, tmp_path: Path) -> None:
    """Unpacking brings plans, and leaves what a bare `table` shows."""
    plan = read_plan(ran.results, "toy")
    archive([plan], ran.results, tmp_path / "archive")
    (tmp_path / "plans" / "toy").mkdir(parents=True)
    (tmp_path / "plans" / "toy" / "last").write_text("another")
    restore(tmp_path)
    assert (tmp_path / "plans" / "toy" / "last").read_text() == "another"
    assert read_plan(tmp_path, "toy", plan.name) == plan


def test_what_is_there_stays_and_what_is_deleted_comes_back(ran, tmp_path: Path) -> None:
    plan = read_plan(ran.results, "toy")
    archive([plan], ran.results, tmp_path / "archive")
    restore(tmp_path)
    first, second = (tmp_path / "cells" / cell.hash for cell in plan.cells)
    shutil.rmtree(first)
    (second / "mine").touch()
    restore(tmp_path)
    assert not first.exists(), "unpacked again, though nothing changed"
    (tmp_path / "cells" / ".restored.json").unlink()
    restore(tmp_path)
    assert first.exists()
    assert (second / "mine").exists()


def test_what_needs_no_record_unpacks_none(ran, tmp_path: Path, capsys) -> None:
    plan = read_plan(ran.results, "toy_nan")
    archive([plan], ran.results, tmp_path / "archive")
    for command in ("list axes", "show gae --profile smoke", "clean"):
        assert main([*command.split(), "--results", str(tmp_path)]) == 0
        assert not (tmp_path / "cells").exists(), command
    cell = plan.cells[0].hash
    capsys.readouterr()
    assert main(["show", cell, "--results", str(tmp_path)]) == 0
    assert cell in capsys.readouterr().out


def test_a_table_unpacks_the_archive_of_its_study_alone(ran, tmp_path: Path, capsys) -> None:
    plans = {name: read_plan(ran.results, name) for name in ("toy", "toy_nan")}
    archive(plans.values(), ran.results, tmp_path / "archive")

    def there() -> set[str]:
        cells = (tmp_path / "cells").glob("[!.]*")
        return {path.name for path in cells} & {cell.hash for cell in plans["toy_nan"].cells}

    other = {cell.hash for cell in plans["toy_nan"].cells}
    other -= {cell.hash for cell in plans["toy"].cells}
    assert other
    for command, unpacked in (("table toy", False), ("status toy", False), ("status", True)):
        assert main([*command.split(), "--results", str(tmp_path)]) == 0
        assert bool(there() & other) is unpacked, command
    assert "toy_nan" in capsys.readouterr().out


def test_a_study_without_an_archive_may_share_cells_with_any(ran, tmp_path: Path) -> None:
    plan = read_plan(ran.results, "toy")
    archive([plan], ran.results, tmp_path / "archive")
    restore(tmp_path, ["mine"])
    assert read_record(tmp_path, plan.cells[0].hash) is not None


def test_what_an_archive_cannot_hold_is_said(ran, tmp_path: Path, monkeypatch) -> None:
    plan = read_plan(ran.results, "toy")
    with pytest.raises(UserError, match=r"unknown metric 'nothing'"):
        archive([plan], ran.results, tmp_path, ["nothing"])
    monkeypatch.setattr(archives, "MOST_BYTES", 100)
    with pytest.raises(UserError, match=r"bytes, more than 100: choose fewer columns"):
        archive([plan], ran.results, tmp_path)
    monkeypatch.setattr(archives, "MOST_POINTS", 9)
    with pytest.raises(UserError, match=r"curves of 10 points; .* at most 9"):
        archive([plan], ran.results, tmp_path)
    assert not list(tmp_path.iterdir())


def write_checksum(path: Path) -> None:
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{checksum}  {path.name}\n")


@pytest.mark.parametrize(
    "damage", ["half", "bit", "checksum", "no checksum", "no Parquet", "format", "config", "record"]
)
def test_a_damaged_archive_is_one_line(ran, tmp_path: Path, damage: str, capsys) -> None:
    import pyarrow.parquet

    from ablations.cli import main

    plan = read_plan(ran.results, "toy")
    (path,) = archive([plan], ran.results, tmp_path / "archive")
    if damage == "half":
        path.write_bytes(path.read_bytes()[:500])
    elif damage == "bit":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "checksum":
        path.with_name(f"{path.name}.sha256").write_bytes(b"\xff\xfe no text")
    elif damage == "no checksum":
        path.with_name(f"{path.name}.sha256").unlink()
    elif damage == "no Parquet":
        path.write_bytes(b"something else" * 99)
        write_checksum(path)
    else:
        read = pyarrow.parquet.ParquetFile(path).read()
        if damage == "format":
            about = json.loads(read.schema.metadata[b"ablations"]) | {"format": 99}
            read = read.replace_schema_metadata({"ablations": json.dumps(about)})
        elif damage == "record":
            read = read.set_column(5, "record", [['{"what": 1}'] * len(plan.cells)])
        else:
            other = [json.dumps(cell.config | {"seed": 99}) for cell in plan.cells]
            read = read.set_column(4, "config", [other])
        pyarrow.parquet.write_table(read, path)
        write_checksum(path)
    assert main(["table", "toy", "--results", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    first, second = said.splitlines()
    assert first.startswith("ablations: left out: the archive '")
    assert second.startswith("ablations: 'toy' has not run in")
    assert f"the archive '{path}'" in said
