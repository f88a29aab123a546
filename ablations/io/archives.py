"""Archives: one Parquet file per plan, small enough for git.

    results/archive/<study>-<plan>.parquet         one row per run of the plan
    results/archive/<study>-<plan>.parquet.sha256  its checksum, as `sha256sum` writes it
    results/cells/.restored.json                   which archives were unpacked

A row has a run's record without policies, and the main columns of its curve. Commands that read or
fill a results folder first unpack the archived runs that it lacks, so these runs count as done. The
same records give the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from ablations import parquet
from ablations.core.decode import Json, decode
from ablations.core.files import Foreign, find_json, parse, parse_object, read_bytes, set_aside
from ablations.core.record import Columns
from ablations.errors import UserError, unknown
from ablations.records import (
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
MOST_BYTES = 1_000_000
# Columns of a curve that an archive keeps, besides the study's metric.
JUDGED = (
    *("training/return", "evaluation/return"),
    *("training/usual_return", "evaluation/usual_return"),
    *("evaluation/accuracy", "evaluation/pass_at_4", "evaluation/entropy"),
)
NOT_KEPT = ("hash", "config", "curve", "policies")  # fields of a record
CELL = ("task", "variant", "seed", "hash")  # columns that a plan's entry has too


def archive(
    plans: Iterable[Plan], results: Path, folder: Path, metrics: Sequence[str] | None = None
) -> list[Path]:
    """Write an archive for each plan and return the paths.

    Runs that ended in an error are left out, so that they are trained again; imported runs are
    kept. `metrics` names the columns of the curves; default: the study's metric and JUDGED. Raises
    UserError for a column that no record has, and an archive of more than MOST_BYTES.
    """
    written = []
    for plan in plans:
        data = _encoded(plan, results, metrics)
        if len(data) > MOST_BYTES:
            raise UserError(
                f"the archive of {plan.study.name} would have {len(data):,} bytes, more than "
                f"{MOST_BYTES:,}: select fewer columns with --metric, or fewer tasks with --tasks"
            )
        path = folder / f"{plan.study.name}-{plan.name}.parquet"
        write_atomically(path, data)
        write_atomically(_checksum_of(path), f"{sha256(data).hexdigest()}  {path.name}\n")
        written.append(path)
    return written


def restore(
    results: Path, studies: Collection[str] = (), runs: frozenset[str] | None = None
) -> None:
    """Unpack archived runs and plans that a results folder lacks: of these studies, or of all.

    With the hashes of `runs`, archives without any of them stay packed. An archive that is damaged
    or of another format is skipped with a warning.
    """
    files = [
        path
        for path in sorted((results / "archive").glob("*.parquet"))
        # A broken link does not exist.
        if path.exists() and (not studies or path.stem.rpartition("-")[0] in studies)
    ]
    stamps = {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in files}
    # This file is in the folder of the runs, so deleting the folder restores them. It has the sizes
    # and times of unpacked archives, and the checksums of their plans.
    stamp = results / "cells" / ".restored.json"
    known = find_json(stamp, dict[str, dict[str, Any]]) or {}
    plans, unpacked = known.get("plans", {}), known.get("files", {})
    changed = False
    for path in files:
        if unpacked.get(path.name) == stamps[path.name]:
            continue
        if runs is not None and not _may_have(path, runs):
            del stamps[path.name]
            continue
        try:
            plans[path.name] = _restore(path, results, plans.get(path.name))
            changed = True
        except UserError as why:
            set_aside(why)
            del stamps[path.name]
    if changed:
        os.sync()  # the records must be on disk before the stamp
        about = {"files": unpacked | stamps, "plans": plans}
        write_atomically(stamp, json.dumps(about, indent=1, sort_keys=True))


def _may_have(path: Path, runs: frozenset[str]) -> bool:
    """Return whether an archive has one of these runs, or is damaged."""
    try:
        return not runs.isdisjoint(parquet.decode(read_bytes(path), {"hash"})[0]["hash"])
    except (ValueError, KeyError, UserError):
        return True


def _encoded(plan: Plan, results: Path, metrics: Sequence[str] | None) -> bytes:
    records: list[str | None] = []
    curves: list[Columns] = []
    for _, record, curve in read_runs(results, plan):
        kept = record is not None and (plan.imported or record.failure != "error")
        fields = asdict(record) if record and kept else {}
        described = {name: part for name, part in fields.items() if name not in NOT_KEPT}
        records.append(json.dumps(described, sort_keys=True) if described else None)
        curves.append(curve if kept else {})
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


def _restore(path: Path, results: Path, restored: str | None) -> str | None:
    """Unpack an archive and return the checksum of its plan.

    `restored` is the checksum of the plan that an earlier archive of this name had. A plan that ran
    here is kept.
    """
    data, checksum = read_bytes(path), _checksum_of(path)
    stored = read_bytes(checksum).split()[:1] if checksum.exists() else []
    if stored != [sha256(data).hexdigest().encode()]:
        raise UserError(
            f"the archive '{path}' does not have the checksum in '{checksum.name}': export it "
            f"again, or run `sha256sum {path.name} > {checksum.name}` in its folder if it is yours"
        )
    try:
        plan, runs = _decoded(data)
    except (ValueError, KeyError, TypeError, AttributeError) as why:
        raise UserError(
            f"the archive '{path}' is damaged: delete it, and export it again ({why})"
        ) from None
    except UserError as why:
        raise UserError(f"the archive '{path}': {why}") from None
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

    Raises ValueError, KeyError, TypeError, AttributeError or UserError if it is damaged.
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
    try:
        return sha256(read_bytes(path)).hexdigest()
    except Foreign:
        return None


def _checksum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
