"""Baselines on disk: `<name>.json`, which a diff can show, and `<name>.parquet`, the curves.

The JSON says what was measured, how it scores, where it comes from and why each version of it was
accepted. The Parquet file has the columns curves, seed, step and value, and is read without this
package as well. A file appears whole or not at all.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ablations.errors import UserError
from ablations.records import write_atomically
from ablations.regression.curves import Curves, scores

FORMAT = 1


@dataclass(frozen=True)
class Group:
    """Curves of one trainer on one task.

    about: what decides them, as plain data (a task's name, a configuration), compared when they are
    checked. unit, lowest: see `check.Terms`; None where nobody stated them.
    """

    curves: Curves
    metric: str = "return"
    higher_is_better: bool = True
    unit: float | None = None
    lowest: float | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """groups: name -> curves; the pytest plugin stores one, named "". requests: what trains them
    again, for `ablations check`. history: reason and date of every version, the last one last.
    """

    name: str
    groups: Mapping[str, Group]
    history: tuple[Mapping[str, Any], ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    requests: tuple[Mapping[str, Any], ...] = ()


def exists(stem: Path) -> bool:
    return stem.with_name(stem.name + ".json").exists()


def updated(
    stem: Path,
    name: str,
    groups: Mapping[str, Group],
    *,
    reason: str | None,
    provenance: Mapping[str, Any] | None = None,
    requests: Sequence[Mapping[str, Any]] = (),
) -> Baseline:
    """Writes a baseline, or a new version of one, which needs a reason. Raises UserError."""
    reason = " ".join((reason or "").split())
    history: tuple[Mapping[str, Any], ...] = ()
    if exists(stem):
        if not reason:
            raise UserError(
                f"the baseline '{name}' exists: an update needs a reason, such as "
                f'--reason "GAE now bootstraps at truncations"'
            )
        history = read(stem, name).history
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    version = {"date": today, "reason": reason or "first version"}
    made = Baseline(name, groups, (*history, version), provenance or {}, tuple(requests))
    write(stem, made)
    return made


def write(stem: Path, baseline: Baseline) -> None:
    """Curves first: a reader that comes in between finds a checksum that says so."""
    data = _parquet(baseline)
    described = {
        "format": FORMAT,
        "name": baseline.name,
        "history": [dict(one) for one in baseline.history],
        "curves": {name: _described(group) for name, group in baseline.groups.items()},
        "requests": [dict(one) for one in baseline.requests],
        "provenance": dict(baseline.provenance),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        _write_bytes(stem.with_name(stem.name + ".parquet"), data)
        text = json.dumps(described, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(stem.with_name(stem.name + ".json"), text + "\n")
    except OSError as error:
        raise UserError(f"cannot write the baseline '{stem}': {error.strerror}") from None


def read(stem: Path, name: str) -> Baseline:
    """Raises UserError for one that is missing, damaged, or of a newer format."""
    path, data = stem.with_name(stem.name + ".json"), stem.with_name(stem.name + ".parquet")
    try:
        described = json.loads(path.read_text())
        format = described["format"]
    except FileNotFoundError:
        raise missing(stem, name) from None
    except (ValueError, TypeError, KeyError):
        raise _damaged(name, f"'{path}' is not a baseline's description") from None
    if format != FORMAT:
        raise UserError(
            f"the baseline '{name}' has format {format}, and this rl-ablations reads {FORMAT}: "
            f"{'a newer version wrote it: upgrade' if format > FORMAT else 'save it again'}"
        )
    try:
        raw = data.read_bytes()
    except FileNotFoundError:
        raise _damaged(name, f"'{data.name}' is missing beside '{path.name}'") from None
    if hashlib.sha256(raw).hexdigest() != described.get("sha256"):
        raise _damaged(name, f"'{data.name}' fails the checksum in '{path.name}'")
    try:
        return Baseline(
            name=described["name"],
            groups=_groups(described["curves"], raw),
            history=tuple(described["history"]),
            provenance=described["provenance"],
            requests=tuple(described["requests"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _damaged(name, f"'{path.name}' does not fit '{data.name}'") from None


def missing(stem: Path, name: str) -> UserError:
    folder = stem.parent
    known = sorted(path.stem for path in folder.glob("*.json")) if stem.name != "baseline" else []
    return UserError(
        f"no baseline '{name}' in '{folder}'" + (f"; there: {', '.join(known)}" if known else "")
    )


def _damaged(name: str, what: str) -> UserError:
    return UserError(f"the baseline '{name}' is damaged: {what}: restore both files, or save anew")


def _described(group: Group) -> dict[str, Any]:
    curves = group.curves
    return {
        "metric": group.metric,
        "higher_is_better": group.higher_is_better,
        "seeds": len(curves.seeds),
        "failed": {str(seed): reason for seed, reason in curves.failed.items()},
        "points": len(curves.steps),
        "steps": float(curves.steps[-1]),
        "unit": group.unit,
        "lowest": group.lowest,
        # For whoever reads a diff: what the curves come to.
        "scores": {
            name: {
                "mean": float(f"{values.mean():.5g}"),
                "deviation": float(f"{values.std(ddof=min(1, len(values) - 1)):.3g}"),
            }
            for name, values in scores(curves).items()
        },
        "about": dict(group.about),
    }


def _parquet(baseline: Baseline) -> bytes:
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, list[Any]] = {"curves": [], "seed": [], "step": [], "value": []}
    for name, group in baseline.groups.items():
        curves = group.curves
        points = len(curves.steps)
        for seed, row in zip(curves.seeds, curves.values, strict=True):
            columns["curves"] += [name] * points
            columns["seed"] += [seed] * points
            columns["step"] += curves.steps.tolist()
            columns["value"] += [None if np.isnan(value) else value for value in row.tolist()]
    schema = pyarrow.schema(
        [
            ("curves", pyarrow.string()),
            ("seed", pyarrow.int64()),
            ("step", pyarrow.float64()),
            ("value", pyarrow.float64()),
        ]
    )
    file = io.BytesIO()
    table = pyarrow.table(columns, schema=schema)
    pyarrow.parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def _groups(described: Mapping[str, Any], raw: bytes) -> dict[str, Group]:
    import pyarrow
    import pyarrow.parquet

    # Without threads: beside JAX, those of pyarrow now and then abort a process as it ends.
    table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(raw)).read(use_threads=False)
    names = np.array(table.column("curves").to_pylist(), object)
    steps = np.array(table.column("step").to_pylist(), np.float64)
    values = np.array(table.column("value").to_pylist(), np.float64)
    seeds = np.array(table.column("seed").to_pylist(), np.int64)
    found = {}
    for name, about in described.items():
        mine = names == name
        shape = about["seeds"], about["points"]
        marks, whose = steps[mine].reshape(shape), seeds[mine].reshape(shape)
        if np.any(marks != marks[:1]) or np.any(whose != whose[:, :1]):
            raise ValueError("steps differ between seeds")
        found[name] = Group(
            curves=Curves(
                seeds=tuple(whose[:, 0].tolist()),
                steps=marks[0],
                values=values[mine].reshape(shape),
                failed={int(seed): reason for seed, reason in about["failed"].items()},
            ),
            metric=about["metric"],
            higher_is_better=about["higher_is_better"],
            unit=about["unit"],
            lowest=about["lowest"],
            about=about["about"],
        )
    return found


def _write_bytes(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
