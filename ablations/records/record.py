"""Read and write the records of cells, with their curves and policies."""

from __future__ import annotations

import hashlib
import operator
import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard, TypeVar

from ablations import parquet
from ablations.core.decode import Mismatch, decode, shown
from ablations.core.files import Foreign, parse_object, read_bytes, set_aside
from ablations.core.record import (
    Columns,
    Configuration,
    CurveFile,
    Failure,
    Policies,
    Provenance,
    Status,
)
from ablations.errors import UserError
from ablations.names import require_name
from ablations.records.files import (
    FORMAT,
    OtherFormat,
    as_read,
    beside,
    canonical,
    checksum_of,
    checksum_of_lines,
    digest,
    flush_to_disc,
    require_format,
    with_checksum,
)

T = TypeVar("T")
_NUMBERS = {int, float, type(None)}
MOST_RECORD = 4_000_000  # bytes of a record.json
MOST_CURVE = 256_000_000  # and of its curve


class DamagedRecord(UserError):
    """A record that exists and cannot be trusted."""


@dataclass(frozen=True)
class Record:
    """One finished cell.

    status: "done", or "failed" with the reason and the environment step at which it happened.
    failure: "diverged" (training gave NaN: deterministic, so it is a result), "cut" (others ran it,
    and its log ends long before the end) or "error" (it raised, or its worker died: worth another
    try). policies: {} where none was saved.
    """

    hash: str
    config: Configuration
    status: Status
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None
    provenance: Provenance = field(default_factory=Provenance)
    curve: CurveFile = field(default_factory=CurveFile)
    policies: Policies = field(default_factory=Policies)


def cell_folder(results: Path, cell: str) -> Path:
    """Return the folder of a cell's record."""
    return results / "cells" / require_name("the name of a cell", cell)


def write_record(
    results: Path,
    record: Record,
    columns: Columns,
    policies: Path | None = None,
    files: Path | None = None,
    *,
    within: Path | None = None,
    lasting: bool = True,
) -> bool:
    """Publish a cell: its record, its curve and its policies, by one rename.

    Args:
        results: the results folder.
        record: of the cell; its field `curve` is filled in.
        columns: of its curve.
        policies: the folder with the files that `record.policies` names.
        files: a folder on the same disc that becomes run/ of the cell's.
        within: another one, in which the record is written before it is published, for whoever
            clears up there after a kill.
        lasting: the record outlasts a failure of the power.

    Returns:
        False, with nothing changed, where somebody else published the same cell first.
    """
    folder = cell_folder(results, record.hash)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = beside(folder if within is None else within / folder.name)
    try:
        temporary.mkdir()
        curve = parquet.encode(columns, ("config", canonical(record.config)))
        (temporary / "curve.parquet").write_bytes(curve)
        if policies and record.policies:
            (temporary / "policies").mkdir()
            for step in record.policies["files"]:
                _share(policies / f"{step}.npz", temporary / "policies" / f"{step}.npz")
        described = as_read(
            vars(record)
            | {
                "format": FORMAT,
                "curve": {
                    "rows": len(columns["step"]),
                    "sha256": hashlib.sha256(curve).hexdigest(),
                },
            }
        )
        with (temporary / "record.json").open("w") as file:
            file.write(with_checksum(described))
            if lasting:
                flush_to_disc(file)
        if files is not None:
            os.rename(files, temporary / "run")
        os.rename(temporary, folder)
        return True
    except OSError:  # whoever was first may have cleared up meanwhile
        if not (folder / "record.json").exists():
            raise
        return False
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _share(file: Path, other: Path) -> None:
    """Link a file to another name, or copy it where the disc has no links."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copyfile(file, other)


def read_record(results: Path, cell: str) -> Record | None:
    """Return the record of a cell, None where there is none.

    Raises:
        DamagedRecord: what is there is no whole record of this cell.
        OtherFormat: another version of the suite wrote it.
        OSError: it cannot be read.
    """
    try:
        data = _read_file(results, cell, "record.json", MOST_RECORD)
        fields = parse_object(data)
        checksum = fields.pop("checksum", None)  # earlier records have none
        # As it was written; else as it says the same, in another spelling.
        whole = checksum in (None, checksum_of_lines(data)) or checksum == checksum_of(fields)
        require_format(fields.pop("format", None))
        record = decode(Record, fields)
    except FileNotFoundError:
        if cell_folder(results, cell).is_dir():
            raise _damaged(cell, "record.json is missing") from None
        return None
    except OtherFormat as why:
        raise OtherFormat(f"record {cell} {why}") from None
    except (Mismatch, Foreign) as why:
        raise _damaged(cell, f"record.json is not a whole record: {why}") from None
    if record.hash != cell or digest(record.config) != cell:
        raise _damaged(cell, "its configuration does not match its name")
    if not whole:
        raise _damaged(cell, "record.json fails its checksum")
    return record


def _read_file(results: Path, cell: str, name: str, most: int) -> bytes:
    """Return the bytes of a file of a record, without paths, whose joins take longer."""
    named = require_name("the name of a cell", cell)
    return read_bytes(f"{results}/cells/{named}/{name}", most)


def usable_record(results: Path, cell: str) -> Record | None:
    """Return the record of a cell for a command that reads, None where there is none.

    One that is damaged or closed to this user counts as none, with a line.
    """
    return _usable(cell, lambda: read_record(results, cell))


def read_curve(results: Path, record: Record, metrics: Collection[str] | None = None) -> Columns:
    """Return the curve of a record: `step`, then a column per metric, None where it has no value.

    Args:
        results: the folder of the record.
        record: whose curve is read.
        metrics: those whose values are read; None: all. Of others only the name is there, with [].

    Raises:
        DamagedRecord: it is not the curve that was written.
    """
    data = verify_curve(results, record)
    try:
        wanted = None if metrics is None else {"step", *metrics}
        return curve_of(parquet.decode(data, wanted)[0])
    except ValueError as why:
        raise _damaged(record.hash, f"curve.parquet {why}") from None


def usable_curve(
    results: Path, record: Record, metrics: Collection[str] | None = None
) -> Columns | None:
    """Return the curve of a record for a command that reads, as `read_curve` does.

    None for one that is damaged or closed to this user, with a line.
    """
    return _usable(record.hash, lambda: read_curve(results, record, metrics))


def _usable(cell: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (DamagedRecord, OtherFormat) as why:
        set_aside(why)
    except PermissionError as error:
        set_aside(f"record {cell} cannot be read: {error.strerror}")
    return None


def curve_of(columns: parquet.Columns) -> Columns:
    """Return columns as those of a curve.

    Raises:
        ValueError: they are none: without steps that increase from 0 on, or not of numbers.
    """
    steps = columns.get("step")
    if steps is None or not _are_steps(steps) or min(steps, default=0) < 0:
        raise ValueError("has no column of steps")
    if any(map(operator.gt, steps, steps[1:])):
        raise ValueError("has steps that go back")
    curve: Columns = {}
    for name, values in columns.items():
        if not _are_numbers(values):
            raise ValueError(f"has a column of no numbers, {shown(name)}")
        curve[name] = values
    return curve


def _are_steps(values: list[parquet.Value]) -> TypeGuard[list[int]]:
    return {int}.issuperset(map(type, values))


def _are_numbers(values: list[parquet.Value]) -> TypeGuard[list[float | None]]:
    return _NUMBERS.issuperset(map(type, values))


def verify_curve(results: Path, record: Record) -> bytes:
    """Return the bytes of a record's curve file.

    Raises:
        DamagedRecord: they are not those that were written.
    """
    try:
        data = _read_file(results, record.hash, "curve.parquet", MOST_CURVE)
    except FileNotFoundError:
        raise _damaged(record.hash, "curve.parquet is missing") from None
    except Foreign as why:
        raise _damaged(record.hash, f"curve.parquet: {why}") from None
    if hashlib.sha256(data).hexdigest() != record.curve.get("sha256"):
        raise _damaged(record.hash, f"curve.parquet ({len(data)} bytes) fails its checksum")
    return data


def _damaged(cell: str, what: str) -> DamagedRecord:
    return DamagedRecord(
        f"record {cell} is damaged: {what}; `ablations run` sets it aside and computes it again"
    )
