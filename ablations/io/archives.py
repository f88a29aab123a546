"""Runs that outlive a folder: one compact Parquet file per plan, which is small enough for git.

    results/archive/<study>-<plan>.parquet         one row per run of the plan
    results/archive/<study>-<plan>.parquet.sha256  its checksum, as `sha256sum` writes it
    results/cells/.restored.json                   which archives were unpacked here

A row holds what a record holds, without policies, and the judged columns of its curve. Whatever
reads or fills a results folder first unpacks what its archive has and it lacks, so that these runs
count as done. Same records, same bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypedDict

from msgspec.structs import asdict, replace

from ablations import parquet
from ablations.core.decode import Json, decode
from ablations.core.files import Foreign, find_json, parse, parse_object, read_bytes, set_aside
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

FORMAT = 1
MOST_POINTS = 50
MOST_BYTES = 1_000_000
# Kept beside the metric of the study.
JUDGED = (
    *("training/return", "evaluation/return"),
    *("training/usual_return", "evaluation/usual_return"),
    *("evaluation/accuracy", "evaluation/pass_at_4", "evaluation/entropy"),
)
CELL = ("task", "variant", "seed", "hash")  # columns that a plan's entry has too


class _Unpacked(TypedDict, total=False):
    """Archives by name: size and time of those unpacked, and the checksums of their plans."""

    files: Mapping[str, list[int]]
    plans: Mapping[str, str | None]


def archive(
    plans: Iterable[Plan], results: Path, folder: Path, metrics: Sequence[str] | None = None
) -> list[Path]:
    """Write a file for each plan, and return their paths.

    metrics: the columns of the curves that are kept, by default the study's own and JUDGED.
    A run that ended in an error is worth another try and left out, unless it was imported. Raises
    UserError for a column that no record has, curves of more than MOST_POINTS points that were not
    imported, and a file of more than MOST_BYTES.
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
    """Unpack runs and plans that the archives of a results folder have and the folder lacks.

    studies: those whose archives are enough; () for all, as where one of these has none. A file
    that is damaged or of another format is left out with a line.
    """
    files = sorted((results / "archive").glob("*.parquet"))
    of = {path: path.stem.rpartition("-")[0] for path in files}
    if set(studies) <= set(of.values()):
        files = [path for path in files if of[path] in studies or not studies]
    files = [path for path in files if path.exists()]  # links may lead nowhere
    stamps = {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in files}
    # Beside the runs: whoever deletes those has them restored.
    stamp = results / "cells" / ".restored.json"
    known: _Unpacked = find_json(stamp, _Unpacked) or {}
    plans, unpacked = dict(known.get("plans", {})), dict(known.get("files", {}))
    changed = False
    for path in files:
        if unpacked.get(path.name) == stamps[path.name]:
            continue
        try:
            plans[path.name] = _restore(path, results, plans.get(path.name))
            changed = True
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
    folder = private_folder(f"results-{digest(str(results.resolve()))}")
    if folder is None:
        raise UserError(
            f"'{results}' cannot be written, so its archives cannot be unpacked there, and there "
            f"is no home folder to unpack them in: copy it, and name the copy with --results"
        )
    (folder / "cells").mkdir(exist_ok=True)
    root = results.resolve()
    here = [path for path in root.iterdir() if path.name not in ("cells", "plans")]
    for path in (*here, *(root / "cells").glob("[!.]*")):
        with contextlib.suppress(FileExistsError):
            (folder / path.relative_to(root)).symlink_to(path)
    if (results / "plans").is_dir():
        shutil.copytree(results / "plans", folder / "plans", dirs_exist_ok=True)
    return folder


def _encoded(plan: Plan, results: Path, metrics: Sequence[str] | None) -> bytes:
    records: list[str | None] = []
    curves: list[Columns] = []
    for cell, record, curve in read_runs(results, plan):
        kept = record is not None and (plan.imported or record.failure != "error")
        records.append(_encoded_record(record) if record and kept else None)
        curves.append(curve if kept else {})
        points = len(curves[-1].get("step", ()))
        if points > MOST_POINTS and not plan.imported:
            raise UserError(
                f"{plan.study.name}/{cell.variant} has curves of {points} points; an "
                f"archive keeps at most {MOST_POINTS}: run with --set points={MOST_POINTS}"
            )
    known = {name for curve in curves for name in curve} - {"step"}
    for name in metrics or ():
        if known and name not in known:
            raise unknown("metric", name, known)
    columns: parquet.Columns = {name: [getattr(cell, name) for cell in plan.cells] for name in CELL}
    columns["config"] = [json.dumps(cell.config) for cell in plan.cells]
    columns["record"] = [*records]
    for name in ("step", *(metrics or dict.fromkeys([plan.study.metric, *JUDGED]))):
        if name in {"step", *known}:
            columns[name] = [curve.get(name) for curve in curves]
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
        plan, runs = _decoded(data)
    except OtherFormat as why:
        raise UserError(f"the archive '{path}' {why}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise UserError(
            f"the archive '{path}' is damaged: delete it, and export it again ({why})"
        ) from None
    except UserError as error:
        raise UserError(f"the archive '{path}': {error}") from None
    for record, curve in runs:
        if not os.path.lexists(cell_folder(results, record.hash)):
            write_record(results, record, curve, lasting=False)
    file = plan_path(results, plan.study.name, plan.name)
    if not os.path.lexists(file) or _sha256(file) == restored:
        write_plan(results, plan, last=False)
        return _sha256(file)
    return restored


def _decoded(data: bytes) -> tuple[Plan, list[tuple[Record, Columns]]]:
    """Return the plan of an archive, and its records with their curves.

    Raises ValueError, KeyError, TypeError, AttributeError or UserError for a damaged one.
    """
    columns, texts = parquet.decode(data)
    about = parse_object(texts.get("ablations", "null"))
    require_format(about.get("format"), FORMAT)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    cells = [
        {name: row[name] for name in CELL} | {"config": parse(str(row["config"]))} for row in rows
    ]
    plan = decode_plan({**decode(dict[str, Json], about.get("plan")), "cells": cells})
    runs = []
    for row, cell in zip(rows, plan.cells, strict=True):
        if row["record"] is None:
            continue
        if digest(cell.config) != cell.hash:
            raise ValueError(cell.hash)
        fields = {**parse_object(str(row["record"])), "hash": cell.hash, "config": {}}
        record = replace(decode(Record, fields, raw=("provenance",)), config=cell.config)
        curve = {name: [*values] for name, values in row.items() if isinstance(values, list)}
        runs.append((record, curve_of(curve)))
    return plan, runs


def _sha256(path: Path) -> str | None:
    """Return the checksum of a plan's file; None where it is not a regular file."""
    try:
        return sha256(read_bytes(path)).hexdigest()
    except Foreign:
        return None


def _checksum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
