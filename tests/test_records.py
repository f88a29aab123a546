"""Records and plans on disk: complete or not at all, and not trusted when not as written."""

from __future__ import annotations

import json
import multiprocessing
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import asdict

from ablations import records
from ablations.core.plan import CellEntry, StoredStudy, StoredTask, StoredVariant
from ablations.errors import UserError
from ablations.records import DamagedPlan, DamagedRecord, Plan, Record

CONFIG = {"task": {"name": "t"}, "seed": 0}
INF = float("inf")
COLUMNS = {
    "step": [10, 20, 30],
    "training/return": [1.5, None, 0.1],
    "never": [None] * 3,
    "ends": [INF, -INF, 2.0],
}


@pytest.fixture
def written(tmp_path: Path) -> Record:
    record = Record(records.digest(CONFIG), CONFIG, "done", provenance={"host": "h"})
    assert records.write_record(tmp_path, record, COLUMNS)
    return record


def test_what_is_read_is_what_was_written(tmp_path: Path, written: Record) -> None:
    read = records.read_record(tmp_path, written.hash)
    assert (read.config, read.status, read.provenance) == (CONFIG, "done", {"host": "h"})
    assert records.read_curve(tmp_path, read) == COLUMNS
    assert repr(records.read_curve(tmp_path, read)) == repr(COLUMNS), "steps are whole numbers"


def _publish(folder: str) -> bool:
    return records.write_record(
        Path(folder), Record(records.digest(CONFIG), CONFIG, "done"), COLUMNS
    )


def test_the_first_of_many_writers_publishes(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert sum(pool.map(_publish, [str(tmp_path)] * 12)) == 1
    (folder,) = (tmp_path / "cells").iterdir()
    other = Record(folder.name, CONFIG, "done")
    assert not records.write_record(tmp_path, other, {"step": [1]})
    read = records.read_record(tmp_path, folder.name)
    assert records.read_curve(tmp_path, read) == COLUMNS


def test_any_change_is_noticed(tmp_path: Path, written: Record) -> None:
    folder = records.cell_folder(tmp_path, written.hash)
    for name in ("curve.parquet", "record.json"):
        path, data = folder / name, (folder / name).read_bytes()
        cuts = [data[:length] for length in range(0, len(data) - 2, 11)]
        flips = [
            data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
            for at in range(0, len(data), 5)
            for bit in (1, 128)  # the latter is not UTF-8
        ]
        for damaged in cuts + flips:
            path.write_bytes(damaged)
            with pytest.raises(UserError, match=f"record {written.hash}"):
                records.read_curve(tmp_path, records.read_record(tmp_path, written.hash))
        path.write_bytes(data)
    fields = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps(fields | {"curve": {}}))
    with pytest.raises(UserError, match=f"record {written.hash}"):
        records.read_curve(tmp_path, records.read_record(tmp_path, written.hash))
    fields["config"]["seed"] = 1
    del fields["checksum"]  # as earlier versions wrote records
    (folder / "record.json").write_text(json.dumps(fields))
    with pytest.raises(DamagedRecord, match="does not match its name"):
        records.read_record(tmp_path, written.hash)
    folder.rename(folder.with_name("0123456789abcdef"))
    with pytest.raises(DamagedRecord, match="does not match its name"):
        records.read_record(tmp_path, "0123456789abcdef")
    assert records.read_record(tmp_path, written.hash) is None


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "file"
    records.write_atomically(path, "old")

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_room)
    with pytest.raises(OSError, match="No space"):
        records.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


# Plans


def made(*, own: bool = False) -> Plan:
    """Return a plan of two tasks, two variants and two seeds; own: each run has a configuration."""
    cells = []
    for number, place in enumerate(product("tu", (3, 1), "ba")):  # not in alphabetical order
        task, seed, variant = place
        config = {"task": {"name": task}, "numbers": {"x": 1, "y": 1.0, "v": "ba".index(variant)}}
        config |= {"structure": {"n": number}} if own else {}
        config["seed"] = seed
        cells.append(CellEntry(task, variant, seed, records.digest(config), config))
    return Plan(
        request={"seeds": 2},
        study=StoredStudy("mine", "Mine", "?", "", "b", 0.05, False, "return"),
        variants={name: StoredVariant(None, "", {"x": 1}) for name in "ba"},
        tasks={name: StoredTask(10, {}, "") for name in "tu"},
        cells=tuple(cells),
    )


def of_format_1(plan: Plan) -> dict[str, object]:
    """Return a plan as the first format has it."""
    fields = {**records.encode_plan(plan), "format": 1, "cells": list(map(asdict, plan.cells))}
    del fields["configurations"]
    return fields


@pytest.mark.parametrize("own", [False, True])
def test_both_formats_hold_the_same_plan(tmp_path: Path, own: bool) -> None:
    plan = made(own=own)
    path = records.write_plan(tmp_path, plan)
    stored = json.loads(path.read_text())
    assert (stored["format"], len(stored["configurations"])) == (2, 8 if own else 4)
    assert "seed" not in stored["configurations"][0]
    new = records.read_plan(tmp_path, "mine")
    path.write_text(json.dumps(of_format_1(plan)))
    old = records.read_plan(tmp_path, "mine")
    texts = [[json.dumps(cell.config) for cell in each.cells] for each in (plan, new, old)]
    assert plan == new == old
    assert texts[0] == texts[1] == texts[2], "numbers and keys are as they were hashed"
    assert list(new.variants) == ["b", "a"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: f["cells"][0].__setitem__(4, 9), "configuration 9 of 4"),
        (lambda f: f["cells"][0].__setitem__(1, "c"), "unknown task or variant, 'c'"),
        (lambda f: f["cells"].append(f["cells"][0]), "two runs are of 'b' and seed 3"),
        (lambda f: f["cells"][0].append(0), r"\[0\]: expected a list of length 5, got 6"),
        (lambda f: f["configurations"][1].update(task=3), r"\[1\].task: expected"),
        (lambda f: f["request"].update(sedes=3), "request: unknown key 'sedes'"),
        (lambda f: f["request"].update(seeds=4), "its name does not match its study"),
        (lambda f: f.update(looks={"seeds": []}), "looks: missing key 'comparisons'"),
        (lambda f: f.update(format=3), "a newer version of rl-ablations wrote it"),
        (lambda f: f.update(format=0), "another version of rl-ablations wrote it"),
        (lambda f: f.update(checksum="0"), "fails its checksum"),
    ],
)
def test_a_damaged_plan_is_refused_in_a_line(tmp_path: Path, change, says: str) -> None:
    path = records.write_plan(tmp_path, made())
    fields = json.loads(path.read_text())
    del fields["checksum"]
    change(fields)
    path.write_text(json.dumps(fields))
    with pytest.raises(DamagedPlan, match=says) as error:
        records.read_plan(tmp_path, "mine")
    assert "\n" not in str(error.value)
    assert says.startswith(("a newer", "another")) or "`ablations run mine`" in str(error.value)
