"""Runs that outlive a folder: one compact Parquet file per plan, which is small enough for git.

    results/archive/<study>-<plan>.parquet         one row per cell of the plan
    results/archive/<study>-<plan>.parquet.sha256  its checksum, as `sha256sum` writes it
    results/cells/.restored.json                   which of them were unpacked here

A row holds what a record holds, without policies, and of its curve the judged columns. Whatever
reads or fills a results folder first unpacks what its archive has and it lacks, so that a cell
found there counts as done. Same records, same bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias, TypedDict

from msgspec.structs import asdict, replace

from ablations import parquet
from ablations.core.decode import Json, decode
from ablations.core.files import Foreign, find_json, parse, parse_object, read_bytes, set_aside
from ablations.core.plan import CellEntry
from ablations.core.record import Columns
from ablations.errors import UserError, unknown
from ablations.private import private_folder
from ablations.records import (
    OtherFormat,
    Plan,
    Record,
    cell_folder,
    curve_of,
    decode_plan,
    digest,
    encode_plan,
    plan_path,
    read_runs,
    require_format,
    write_atomically,
    write_plan,
    write_record,
)

Row: TypeAlias = Mapping[str, parquet.Value]

FORMAT = 1
MOST_POINTS = 50
MOST_BYTES = 1_000_000
# Kept beside the metric of the study.
JUDGED = (
    *("training/return", "evaluation/return"),
    *("training/usual_return", "evaluation/usual_return"),
    *("evaluation/accuracy", "evaluation/pass_at_4", "evaluation/entropy"),
)


class _Unpacked(TypedDict, total=False):
    """Archives by their names: size and time of those unpacked, the checksum of each one's plan."""

    files: Mapping[str, list[int]]
    plans: Mapping[str, str | None]


def archive(
    plans: Iterable[Plan], results: Path, folder: Path, metrics: Sequence[str] | None = None
) -> list[Path]:
    """Write a file for each plan, and return their paths.

    metrics: the columns of the curves that are kept, by default the study's own and JUDGED.
    A cell that failed for an error is worth another try and left out, unless others ran it. Raises
    UserError for a column that no record has, curves of ours of more than MOST_POINTS points, and a
    file of more than MOST_BYTES.
    """
    written = []
    for plan in plans:
        data = _encoded(plan, results, metrics)
        if len(data) > MOST_BYTES:
            raise UserError(
                f"the archive of {plan.study.name} would have {len(data):,} bytes, more than "
                f"{MOST_BYTES:,}: choose fewer columns with --metric, or a part with --tasks"
            )
        path = folder / f"{plan.study.name}-{plan.name}.parquet"
        write_atomically(path, data)
        write_atomically(_checksum_of(path), f"{sha256(data).hexdigest()}  {path.name}\n")
        written.append(path)
    return written


def restore(results: Path, studies: Collection[str] = ()) -> None:
    """Unpack cells and plans that the archive of a results folder has and the folder lacks.

    studies: whose archives are enough; () for all, as where one of these has none. A file that is
    damaged or of another format is left out with a line.
    """
    files = sorted((results / "archive").glob("*.parquet"))
    of = {path: path.stem.rpartition("-")[0] for path in files}
    if set(studies) <= set(of.values()):
        files = [path for path in files if of[path] in studies or not studies]
    files = [path for path in files if path.exists()]  # links may lead nowhere
    stamps = {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in files}
    # Beside the cells: whoever deletes those has them restored.
    stamp = results / "cells" / ".restored.json"
    known: _Unpacked = find_json(stamp, _Unpacked) or {}
    plans, unpacked = dict(known.get("plans", {})), dict(known.get("files", {}))
    changed = []
    for path in files:
        if unpacked.get(path.name) == stamps[path.name]:
            continue
        try:
            plans[path.name] = _restore(path, results, plans.get(path.name))
            changed.append(path)
        except UserError as why:
            set_aside(why)
            del stamps[path.name]
    if changed:
        os.sync()  # once for all records, before the stamp says that they are there
        about = {"files": unpacked | stamps, "plans": plans}
        write_atomically(stamp, json.dumps(about, indent=1, sort_keys=True))


def restorable(results: Path) -> Path:
    """Return a folder of this user's for a results folder that cannot be written.

    It has all that is there, and room for what archives hold. Raises UserError where this user has
    no such folder.
    """
    name = digest(str(results.resolve()))
    folder = private_folder(f"results-{name}")
    if folder is None:
        raise UserError(
            f"'{results}' cannot be written, so its archives cannot be unpacked there, and there "
            f"is no home folder to unpack them in: copy it, and name the copy with --results"
        )
    for path in results.resolve().iterdir():
        if path.name not in ("cells", "plans"):
            _link(folder / path.name, path)
    (folder / "cells").mkdir(exist_ok=True)
    for path in (results.resolve() / "cells").glob("[!.]*"):
        _link(folder / "cells" / path.name, path)
    if (results / "plans").is_dir():
        shutil.copytree(results / "plans", folder / "plans", dirs_exist_ok=True)
    return folder


def _link(link: Path, target: Path) -> None:
    with contextlib.suppress(FileExistsError):
        link.symlink_to(target)


def _encoded(plan: Plan, results: Path, metrics: Sequence[str] | None) -> bytes:
    others = "imported" in plan.request
    records: list[Record | None] = []
    curves: list[Columns | None] = []
    for cell, record, curve in read_runs(results, plan):
        kept_record = record if record and (others or record.failure != "error") else None
        records.append(kept_record)
        curves.append(curve if kept_record else None)
        points = len(curves[-1]["step"]) if curves[-1] else 0
        if points > MOST_POINTS and not others:
            raise UserError(
                f"{plan.study.name}/{cell.variant} has curves of {points} points; an "
                f"archive keeps at most {MOST_POINTS}: run with --set points={MOST_POINTS}"
            )
    known = {name for curve in curves for name in curve or ()} - {"step"}
    for name in metrics or ():
        if known and name not in known:
            raise unknown("metric", name, known)
    kept = [n for n in metrics or dict.fromkeys([plan.study.metric, *JUDGED]) if n in known]
    columns: parquet.Columns = {
        name: [getattr(cell, name) for cell in plan.cells]
        for name in ("task", "variant", "seed", "hash")
    }
    columns["config"] = [json.dumps(cell.config) for cell in plan.cells]
    columns["record"] = [_encoded_record(record) if record else None for record in records]
    for name in ("step", *kept):
        columns[name] = [curve.get(name) if curve else None for curve in curves]
    described = encode_plan(replace(plan, cells=()))
    del described["cells"]
    about = json.dumps({"format": FORMAT, "plan": described})
    return parquet.encode(columns, ("ablations", about), small=True)


def _encoded_record(record: Record) -> str:
    left_out = ("hash", "config", "curve", "policies")
    fields = {name: value for name, value in asdict(record).items() if name not in left_out}
    return json.dumps(fields, sort_keys=True)


def _restore(path: Path, results: Path, restored: str | None) -> str | None:
    """Unpack an archive; return the checksum of the plan that it brings.

    restored: that of the plan that an earlier one of its name brought. A plan that ran here stays.
    """
    data, beside = read_bytes(path, MOST_BYTES), _checksum_of(path)
    if not beside.exists():
        raise UserError(
            f"the archive '{path}' has no checksum beside it: if it is yours, "
            f"`sha256sum {path.name} > {beside.name}` in its folder makes one; or delete it"
        )
    if read_bytes(beside, 1000).split()[:1] != [sha256(data).hexdigest().encode()]:
        raise UserError(
            f"the archive '{path}' is not the one whose checksum stands in '{beside.name}' beside "
            f"it: delete both, and export it again"
        )
    try:
        columns, texts = parquet.decode(data)
        about = parse_object(texts.get("ablations", "null"))
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        require_format(about.get("format"), FORMAT)
        described = decode(dict[str, Json], about.get("plan"))
        plan = decode_plan({**described, "cells": [_cell(row) for row in rows]})
        file = plan_path(results, plan.study.name, plan.name)
        records = [_record(row, cell) for row, cell in zip(rows, plan.cells, strict=True)]
        curves = [
            curve_of(_curve(row)) if record else {}
            for row, record in zip(rows, records, strict=True)
        ]
    except OtherFormat as why:
        raise UserError(f"the archive '{path}' {why}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise UserError(
            f"the archive '{path}' is damaged: delete it, and export it again ({why})"
        ) from None
    except UserError as error:
        raise UserError(f"the archive '{path}': {error}") from None
    for record, curve in zip(records, curves, strict=True):
        if record is not None and not os.path.lexists(cell_folder(results, record.hash)):
            write_record(results, record, curve, lasting=False)
    if not os.path.lexists(file) or _sha256(file) == restored:
        write_plan(results, plan, last=False)
        return _sha256(file)
    return restored


def _sha256(path: Path) -> str | None:
    """Return the checksum of a plan's file; None for what is none."""
    try:
        return sha256(read_bytes(path)).hexdigest()
    except Foreign:
        return None


def _checksum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _cell(row: Row) -> dict[str, Json]:
    config = parse(str(row["config"]))
    return {name: row[name] for name in ("task", "variant", "seed", "hash")} | {"config": config}


def _record(row: Row, cell: CellEntry) -> Record | None:
    """Return a row's record. Raise ValueError where its hash is of another configuration."""
    if row["record"] is None:
        return None
    if digest(cell.config) != cell.hash:
        raise ValueError(cell.hash)
    fields = {**parse_object(str(row["record"])), "hash": cell.hash, "config": {}}
    return replace(decode(Record, fields, raw=("provenance",)), config=cell.config)


def _curve(row: Row) -> parquet.Columns:
    """Return the curve of a row, whose lists are columns."""
    return {name: [*values] for name, values in row.items() if isinstance(values, list)}
