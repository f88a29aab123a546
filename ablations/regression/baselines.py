"""Baselines on disk: `<name>.json` describes, and `<name>.csv` has the curves; both can be diffed.

The JSON says what was measured, how it scores, where it comes from and why each version of it was
accepted. The CSV file has the columns curves, seed, step and value, every number with all its bits,
and is read without this package as well. A file appears whole or not at all.
"""

from __future__ import annotations

import csv
import datetime
import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np

from ablations.core.decode import Count, Json, Matches, Mismatch, decode
from ablations.core.files import Foreign, parse_object, read_bytes
from ablations.core.plan import Flags
from ablations.curve import Curve
from ablations.errors import UserError
from ablations.records import write_atomically
from ablations.regression.curves import SCORES, Curves, Score, scores, together

FORMAT = 2
HEAD = ["curves", "seed", "step", "value"]


class Version(TypedDict):
    """A version of a baseline, and why it was accepted."""

    date: str
    reason: str


class Origin(TypedDict, total=False):
    """The origin of curves: a process's machine, or a record's processor and device."""

    versions: Mapping[str, str]
    commit: str
    changed: bool
    processor: str
    device: str
    machine: str


class _OfStudy(TypedDict):
    study: str


class Stored(_OfStudy, Flags, total=False):
    """The request that trains curves again. file: of its study, where it came from one."""

    file: str


class Described(TypedDict):
    """A group in the description, as far as it is read."""

    metric: str
    higher_is_better: bool
    seeds: Count
    failed: Mapping[Annotated[str, Matches("[0-9]{1,18}", "a seed")], str]
    about: Mapping[str, Json]


class Description(TypedDict):
    """The JSON file, as far as it is read."""

    name: str
    history: list[Version]
    curves: Mapping[str, Described]
    requests: list[Stored]
    provenance: Origin


@dataclass(frozen=True)
class Group:
    """The curves of one trainer on one task.

    about: what decides them, as plain data (a task's name, a configuration), compared when they are
    checked. scores: what a diff of the description shows of them.
    """

    curves: Curves
    metric: str = "return"
    higher_is_better: bool = True
    about: Mapping[str, Json] = field(default_factory=dict)
    scores: Mapping[str, Score] = field(default_factory=lambda: SCORES)


@dataclass(frozen=True)
class Baseline:
    """Stored curves, to compare with.

    groups: name -> curves; the pytest plugin stores one, named "". requests: what trains them
    again, for `ablations check`. history: reason and date of every version, the last one last.
    """

    name: str
    groups: Mapping[str, Group]
    history: tuple[Version, ...]
    provenance: Origin = field(default_factory=Origin)
    requests: tuple[Stored, ...] = ()


def exists(stem: Path) -> bool:
    """Return whether there is a description."""
    return stem.with_name(stem.name + ".json").exists()


def updated(
    stem: Path,
    name: str,
    groups: Mapping[str, Group],
    *,
    reason: str | None,
    provenance: Origin | None = None,
    requests: Sequence[Stored] = (),
) -> Baseline:
    """Write a baseline, or a new version of one, which needs a reason. Raises UserError."""
    reason = " ".join((reason or "").split())
    history: tuple[Version, ...] = ()
    if exists(stem):
        if not reason:
            raise UserError(
                f"the baseline '{name}' exists: an update needs a reason, such as "
                f'--reason "GAE now bootstraps at truncations"'
            )
        history = read(stem, name).history
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    version = Version(date=today, reason=reason or "first version")
    baseline = Baseline(name, groups, (*history, version), provenance or Origin(), tuple(requests))
    write(stem, baseline)
    return baseline


def write(stem: Path, baseline: Baseline) -> None:
    """Write curves first: a reader that comes in between finds a checksum that says so."""
    data = _csv(baseline)
    described = {
        "format": FORMAT,
        "name": baseline.name,
        "history": baseline.history,
        "curves": {name: _described(group) for name, group in baseline.groups.items()},
        "requests": baseline.requests,
        "provenance": baseline.provenance,
        "sha256": hashlib.sha256(data.encode()).hexdigest(),
    }
    try:
        write_atomically(stem.with_name(stem.name + ".csv"), data)
        text = json.dumps(described, indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(stem.with_name(stem.name + ".json"), text + "\n")
    except OSError as error:
        raise UserError(f"cannot write the baseline '{stem}': {error.strerror}") from None


def read(stem: Path, name: str) -> Baseline:
    """Return a baseline. Raises UserError for one that is missing, damaged, or too new."""
    path, data = stem.with_name(stem.name + ".json"), stem.with_name(stem.name + ".csv")
    try:
        fields = parse_object(read_bytes(path))
        format = decode(int, fields.get("format"))
    except FileNotFoundError:
        raise missing(stem, name) from None
    except (Mismatch, Foreign) as why:
        raise _damaged(name, f"'{path}' is not a baseline's description ({why})") from None
    if format != FORMAT:
        raise UserError(
            f"the baseline '{name}' has format {format}, and this rl-ablations reads {FORMAT}: "
            f"{'a newer version wrote it: upgrade' if format > FORMAT else 'save it again'}"
        )
    try:
        # Text, so that a checkout with other ends of lines is the same file.
        text = read_bytes(data).decode().replace("\r\n", "\n").replace("\r", "\n")
    except Foreign as why:
        raise _damaged(name, str(why)) from None
    except FileNotFoundError:
        raise _damaged(name, f"'{data.name}' is missing beside '{path.name}'") from None
    except UnicodeDecodeError:
        raise _damaged(name, f"'{data.name}' is no text") from None
    if hashlib.sha256(text.encode()).hexdigest() != fields.get("sha256"):
        raise _damaged(name, f"'{data.name}' fails the checksum in '{path.name}'")
    try:
        described = decode(Description, fields)
        return Baseline(
            name=described["name"],
            groups=_groups(described["curves"], text),
            history=tuple(described["history"]),
            provenance=described["provenance"],
            requests=tuple(described["requests"]),
        )
    except (ValueError, KeyError) as why:
        raise _damaged(name, f"'{path.name}' does not fit '{data.name}' ({why})") from None


def missing(stem: Path, name: str) -> UserError:
    """Return the error for a baseline that is not there."""
    folder = stem.parent
    known = sorted(path.stem for path in folder.glob("*.json"))
    if stem.name == "baseline":  # of a results folder
        known = sorted(path.parent.name for path in folder.parent.glob("*/baseline.json"))
    return UserError(
        f"no baseline '{name}' in '{folder}'" + (f"; there: {', '.join(known)}" if known else "")
    )


def _damaged(name: str, what: str) -> UserError:
    return UserError(f"the baseline '{name}' is damaged: {what}: restore both files, or save anew")


def _described(group: Group) -> dict[str, Json]:
    curves = group.curves
    return {
        "metric": group.metric,
        "higher_is_better": group.higher_is_better,
        "seeds": len(curves.seeds),
        "failed": {str(seed): reason for seed, reason in curves.failed.items()},
        "points": len(curves.steps),
        "steps": float(curves.steps[-1]),
        # For whoever reads a diff: what the curves come to.
        "scores": {
            name: {
                "mean": float(f"{values.mean():.5g}"),
                "deviation": float(f"{values.std(ddof=min(1, len(values) - 1)):.3g}"),
            }
            for name, values in scores(curves, group.scores).items()
        },
        "about": dict(group.about),
    }


def _csv(baseline: Baseline) -> str:
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(HEAD)
    for name, group in baseline.groups.items():
        # A seed has a row at each of its own steps, with or without a value.
        for seed, run in zip(group.curves.seeds, group.curves.runs, strict=True):
            for step, value in zip(run.steps, run.values, strict=True):
                rows.writerow(
                    [name, seed, _digits(step), "" if math.isnan(value) else repr(float(value))]
                )
    return file.getvalue()


def _digits(step: float) -> str:
    """Write all of a step's digits, as an integer where it is one."""
    return str(int(step)) if float(step).is_integer() else repr(float(step))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _groups(described: Mapping[str, Described], text: str) -> dict[str, Group]:
    rows = csv.reader(io.StringIO(text))
    if next(rows, None) != HEAD:
        raise ValueError("other columns")
    read: dict[str, dict[int, dict[float, float]]] = {name: {} for name in described}
    for name, seed, step, value in rows:
        curve = read[name].setdefault(int(seed), {})
        curve[_finite(step)] = _finite(value) if value else math.nan
    groups = {}
    for name, about in described.items():
        runs = [
            Curve(np.array(list(curve)), np.array(list(curve.values())))
            for curve in read[name].values()
        ]
        if len(runs) != about["seeds"]:
            raise ValueError("another number of seeds")
        failed = {int(seed): reason for seed, reason in about["failed"].items()}
        groups[name] = Group(
            curves=together(tuple(read[name]), runs, failed),
            metric=about["metric"],
            higher_is_better=about["higher_is_better"],
            about=about["about"],
        )
    return groups
