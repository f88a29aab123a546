"""Records and plans on disk: whole or not at all, and not trusted when not as written."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

import pandas
import pyarrow.parquet
import pytest

from ablations import records
from ablations.errors import UserError
from ablations.records import DamagedRecord, Record

CONFIG = {"task": {"name": "t"}, "seed": 0}
COLUMNS = {"step": [10, 20], "training/return": [1.5, None]}


@pytest.fixture
def written(tmp_path: Path) -> Record:
    record = Record(records.digest(CONFIG), CONFIG, "done", provenance={"host": "h"})
    assert records.write_record(tmp_path, record, COLUMNS)
    return record


def test_what_is_read_is_what_was_written(tmp_path: Path, written: Record) -> None:
    read = records.read_record(tmp_path, written.hash)
    assert read is not None
    assert (read.config, read.status, read.provenance) == (CONFIG, "done", {"host": "h"})
    assert records.read_curve(tmp_path, read) == COLUMNS


def test_pandas_reads_a_curve_without_this_package(tmp_path: Path, written: Record) -> None:
    frame = pandas.read_parquet(records.cell_folder(tmp_path, written.hash) / "curve.parquet")
    assert list(frame.columns) == list(COLUMNS)
    assert frame["step"].tolist() == [10, 20]


def test_columns_keep_their_values_and_what_is_missing(tmp_path: Path) -> None:
    inf = float("inf")
    columns = {
        "step": list(range(1, 12)),
        "sparse": [None, 1.0] * 5 + [None],
        "never": [None] * 11,
        "ends": [inf, -inf, 0.1] + [2.0] * 8,
    }
    record = Record(records.digest(CONFIG), CONFIG, "done")
    records.write_record(tmp_path, record, columns)
    read = records.read_record(tmp_path, record.hash)
    assert read is not None
    assert records.read_curve(tmp_path, read) == columns
    table = pyarrow.parquet.read_table(records.cell_folder(tmp_path, record.hash) / "curve.parquet")
    assert table.to_pydict() == columns
    assert [str(column.type) for column in table.schema] == ["int64", "double", "double", "double"]
    records.write_record(
        tmp_path, Record("other", CONFIG, "done"), {"step": [1], "x": [float("nan")]}
    )
    curve = records.cell_folder(tmp_path, "other") / "curve.parquet"
    (value,) = pandas.read_parquet(curve, dtype_backend="pyarrow")["x"].array.__arrow_array__()
    assert value.is_valid  # NaN is a value


def test_neither_jax_nor_pandas_is_loaded_to_read(tmp_path: Path, written: Record) -> None:
    """Each takes longer to import than a table takes."""
    script = (
        "import sys; from pathlib import Path\n"
        "from ablations.records import read_curve, read_record\n"
        f"folder = Path({str(tmp_path)!r})\n"
        f"read_curve(folder, read_record(folder, {written.hash!r}))\n"
        "print(sorted({'jax', 'pandas', 'scipy'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_first_to_publish_wins(tmp_path: Path, written: Record) -> None:
    other = {**COLUMNS, "training/return": [9.0, 9.0]}
    assert not records.write_record(tmp_path, written, other)
    assert records.read_curve(tmp_path, records.read_record(tmp_path, written.hash)) == COLUMNS
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [written.hash]


def _publish(folder: str) -> bool:
    record = Record(records.digest(CONFIG), CONFIG, "done")
    return records.write_record(Path(folder), record, COLUMNS)


def test_many_writers_publish_one_record(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        published = pool.map(_publish, [str(tmp_path)] * 12)
    assert sum(published) == 1
    assert len(list((tmp_path / "cells").iterdir())) == 1


def test_any_change_of_the_curve_is_noticed(tmp_path: Path, written: Record) -> None:
    path = records.cell_folder(tmp_path, written.hash) / "curve.parquet"
    whole = path.read_bytes()
    record = records.read_record(tmp_path, written.hash)
    for at in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(DamagedRecord, match="fails its checksum"):
            records.read_curve(tmp_path, record)
    path.write_bytes(whole[:-1])
    with pytest.raises(DamagedRecord, match="fails its checksum"):
        records.read_curve(tmp_path, record)


def test_a_record_cut_anywhere_is_noticed(tmp_path: Path, written: Record) -> None:
    path = records.cell_folder(tmp_path, written.hash) / "record.json"
    whole = path.read_text().rstrip()
    for length in range(0, len(whole), 11):
        path.write_text(whole[:length])
        with pytest.raises(DamagedRecord, match="not a whole record"):
            records.read_record(tmp_path, written.hash)


def test_a_changed_byte_anywhere_in_a_record_is_noticed(tmp_path: Path, written: Record) -> None:
    path = records.cell_folder(tmp_path, written.hash) / "record.json"
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in (1, 128):  # the latter is no UTF-8
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            with pytest.raises(UserError):
                records.read_record(tmp_path, written.hash)


def test_a_record_under_another_name_is_noticed(tmp_path: Path, written: Record) -> None:
    folder = records.cell_folder(tmp_path, written.hash)
    folder.rename(folder.with_name("0123456789abcdef"))
    with pytest.raises(DamagedRecord, match="does not match its name"):
        records.read_record(tmp_path, "0123456789abcdef")


def test_a_changed_configuration_is_noticed(tmp_path: Path, written: Record) -> None:
    path = records.cell_folder(tmp_path, written.hash) / "record.json"
    fields = json.loads(path.read_text())
    fields["config"]["seed"] = 1
    path.write_text(json.dumps(fields))
    with pytest.raises(DamagedRecord, match="does not match its name"):
        records.read_record(tmp_path, written.hash)


def test_nothing_is_not_damage(tmp_path: Path) -> None:
    assert records.read_record(tmp_path, "0123456789abcdef") is None
    with pytest.raises(UserError, match="has not run"):
        records.read_plan(tmp_path, "gae")


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
