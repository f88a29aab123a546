"""Baselines: stored curves, where they come from, and how to train them again.

`<name>.json` has the metric, the origin and the settings; `<name>.csv` has the curves at full
precision. A study's baseline is in a results folder, with a group of curves
per task and variant named "study/task/variant". The pytest plugin stores one group, named "", in a
folder next to the test.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Required, TypedDict

import numpy as np
from msgspec.structs import replace

from ablations import plugins
from ablations.core.decode import Json, Matches, as_json, decode, leaves
from ablations.core.files import Foreign, parse_object, read_bytes
from ablations.core.plan import CellEntry, Flags
from ablations.errors import UserError, count
from ablations.names import require_name
from ablations.records import Plan, as_read, read_plan, read_record, write_atomically
from ablations.regression.curves import Curves, Run, require_scores
from ablations.regression.design import require_seeds

FORMAT = 2
HEAD = ["curves", "seed", "step", "value"]
ORIGIN = ("versions", "commit", "changed", "processor", "device", "machine")  # kept of a run's


class Stored(Flags, total=False):
    """The request that trains the curves again. `file` is the study's file, if it has one."""

    study: Required[str]
    file: str


class Described(TypedDict):
    """The JSON file; other keys are not read."""

    curves: Mapping[str, About]
    requests: list[Stored]


class About(TypedDict):
    """A group of curves in the JSON file; see `Group`."""

    metric: str
    higher_is_better: bool
    failed: Mapping[Annotated[str, Matches("[0-9]{1,18}", "a seed")], str]
    about: Mapping[str, Json]


@dataclass(frozen=True)
class Group:
    """The curves of one trainer on one task.

    Attributes:
        about: the configuration that decides the curves; a check requires the same.
    """

    curves: Curves
    metric: str = "return"
    higher_is_better: bool = True
    about: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Baseline:
    """Groups of stored curves by name; `requests` train them again, for `ablations check`."""

    name: str
    groups: Mapping[str, Group]
    requests: tuple[Stored, ...] = ()


# Files


def stem_of(results: Path, name: str) -> Path:
    """Return results/baselines/<name>/baseline, or NAME/baseline if the name is a path."""
    folder = Path(name) if os.sep in name else results / "baselines" / name
    return folder / "baseline"


def exists(stem: Path) -> bool:
    """Return whether a baseline exists."""
    return _files(stem)[0].exists()


def _files(stem: Path) -> tuple[Path, Path]:
    return stem.with_name(f"{stem.name}.json"), stem.with_name(f"{stem.name}.csv")


def write(
    stem: Path,
    name: str,
    groups: Mapping[str, Group],
    requests: Sequence[Stored] = (),
    provenance: Mapping[str, Json] | None = None,
) -> None:
    """Write a baseline, or replace it."""
    data = _csv(groups)
    described = {
        "format": FORMAT,
        "name": name,
        "curves": {
            name: {
                "metric": group.metric,
                "higher_is_better": group.higher_is_better,
                "seeds": len(group.curves.seeds),
                "failed": {str(seed): why for seed, why in group.curves.failed.items()},
                "about": group.about,
            }
            for name, group in groups.items()
        },
        "requests": requests,
        "provenance": provenance or {},
        "sha256": hashlib.sha256(data.encode()).hexdigest(),
    }
    text = json.dumps(described, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        # The CSV comes first: whoever reads in between finds that the checksum does not match.
        for path, content in zip(_files(stem)[::-1], (data, text), strict=True):
            write_atomically(path, content)
    except OSError as error:
        raise UserError(f"cannot write the baseline '{stem}': {error.strerror}") from None


def read(stem: Path, name: str) -> Baseline:
    """Return a baseline. Raises UserError if it is missing, damaged, or of another format."""
    path, data = _files(stem)
    if not path.exists():
        raise missing(stem, name)
    try:
        fields = parse_object(read_bytes(path))
        number = decode(int, fields.get("format"))
        if number != FORMAT:
            raise UserError(
                f"the baseline '{name}' has format {number}, but this version reads format "
                f"{FORMAT}: upgrade rl-ablations, or save the baseline again"
            )
        # Git may have converted the line endings.
        text = read_bytes(data).decode().replace("\r\n", "\n").replace("\r", "\n")
        if hashlib.sha256(text.encode()).hexdigest() != fields.get("sha256"):
            raise ValueError(f"'{data.name}' does not match the checksum in '{path.name}'")
        about = decode(Described, fields)
        groups = _groups(about["curves"], text)
    except (ValueError, KeyError, OSError, Foreign) as why:
        raise UserError(
            f"the baseline '{name}' is damaged: {why}: restore '{path}' and '{data.name}', or save "
            f"it again"
        ) from None
    return Baseline(name, groups, tuple(about["requests"]))


def missing(stem: Path, name: str) -> UserError:
    """Return the error for a baseline that does not exist."""
    folder = stem.parent
    known = sorted(path.stem for path in folder.glob("*.json"))
    if stem.name == "baseline":  # of a results folder
        known = sorted(path.parent.name for path in folder.parent.glob("*/baseline.json"))
    existing = f"; existing baselines: {', '.join(known)}" if known else ""
    return UserError(f"no baseline '{name}' in '{folder}'{existing}")


def _csv(groups: Mapping[str, Group]) -> str:
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(HEAD)
    for name, group in groups.items():
        for seed, run in group.curves.runs.items():
            for step, value in zip(run.steps.tolist(), run.values.tolist(), strict=True):
                mark = int(step) if step.is_integer() else repr(step)
                rows.writerow([name, seed, mark, "" if math.isnan(value) else repr(value)])
    return file.getvalue()


def _groups(described: Mapping[str, About], text: str) -> dict[str, Group]:
    """Return the groups of a CSV file, whose checksum was right."""
    points: dict[str, dict[int, list[tuple[float, float]]]] = {name: {} for name in described}
    for name, seed, step, value in [*csv.reader(io.StringIO(text))][1:]:
        point = float(step), float(value or "nan")
        points[name].setdefault(int(seed), []).append(point)
    return {
        name: Group(
            Curves(
                {seed: Run(*np.array(rows).T) for seed, rows in points[name].items()},
                {int(seed): reason for seed, reason in about["failed"].items()},
            ),
            *(about["metric"], about["higher_is_better"], about["about"]),
        )
        for name, about in described.items()
    }


# Runs of a study


def save(plans: Sequence[Plan], results: Path, name: str) -> Mapping[str, Group]:
    """Store the curves of plans as a baseline. Raises UserError if runs are missing."""
    require_name("the name of a baseline", name)
    groups: dict[str, Group] = {}
    for plan in plans:
        for group, cells in _groups_of(plan).items():
            curves = _curves(results, plan, group, cells)
            if missing_seeds := {cell.seed for cell in cells} - {*curves.seeds, *curves.failed}:
                raise UserError(
                    f"{group}: {count(len(missing_seeds), 'run')} missing (seed "
                    f"{min(missing_seeds)}, ...): `ablations run {plan.study.name}` trains them"
                )
            if not curves.seeds:
                raise UserError(f"every seed of {group} diverged: there is no curve to store")
            groups[group] = Group(curves, plan.study.metric, about=_configuration(cells))
    require_seeds(min((len(group.curves) for group in groups.values()), default=0))
    first = read_record(results, plans[0].cells[0].hash)
    requests = [
        decode(Stored, as_read({"study": of.name, "file": of.file or "", **plan.request}))
        for plan in plans
        if (of := plan.study)
    ]
    made_with = as_json(first.provenance) if first else {}
    provenance = {key: value for key, value in made_with.items() if key in ORIGIN}
    write(stem_of(results, name), name, groups, requests, provenance)
    return groups


def recorded(baseline: Baseline, records: Path) -> dict[str, Curves]:
    """Return the curves of a results folder, from each study's last plan."""
    curves = {}
    for group in baseline.groups:
        study = group.partition("/")[0]
        plan = read_plan(records, study)
        if (cells := _groups_of(plan).get(group)) is None:
            raise UserError(
                f"the baseline '{baseline.name}' has {group}, but the last plan of '{study}' in "
                f"'{records}' does not"
            )
        _require_same_settings(baseline, group, cells)
        curves[group] = _curves(records, plan, group, cells)
    return curves


def training(
    baseline: Baseline,
    records: Path,
    resolve: Callable[[Stored, list[int]], Plan],
    run: Callable[[list[Plan], Path], object],
) -> Callable[[Mapping[str, tuple[int, ...]]], dict[str, Curves]]:
    """Return a function that trains seeds of a baseline's groups with this code, for `play_checks`.

    Args:
        baseline: has the groups.
        records: the folder for the runs. It is emptied first, as old code made its records.
        resolve: returns the plan of a stored request on other seeds.
        run: trains plans in a results folder.

    Raises:
        UserError: the baseline's runs were imported.
    """
    if any("imported" in stored for stored in baseline.requests):
        raise UserError(
            f"the runs of the baseline '{baseline.name}' were imported, so they cannot be trained "
            f"again: import new runs into another folder and add --records FOLDER"
        )
    plugins.load()
    shutil.rmtree(records, ignore_errors=True)

    def train(wanted: Mapping[str, tuple[int, ...]]) -> dict[str, Curves]:
        plans, cells = [], {}
        for stored in baseline.requests:
            own = {n: seeds for n, seeds in wanted.items() if n.startswith(f"{stored['study']}/")}
            if own:
                plan = resolve(stored, sorted(set().union(*own.values())))
                groups = _groups_of(plan)
                for name, seeds in own.items():
                    _require_same_settings(baseline, name, groups[name])
                    cells[name] = plan, [cell for cell in groups[name] if cell.seed in seeds]
                kept = tuple(cell for name in own for cell in cells[name][1])
                plans.append(replace(plan, cells=kept))
        run(plans, records)
        return {n: _curves(records, plan, n, of) for n, (plan, of) in cells.items()}

    return train


def _groups_of(plan: Plan) -> dict[str, list[CellEntry]]:
    groups: dict[str, list[CellEntry]] = {}
    for cell in plan.cells:
        groups.setdefault(f"{plan.study.name}/{cell.task}/{cell.variant}", []).append(cell)
    return groups


def _curves(results: Path, plan: Plan, name: str, cells: Sequence[CellEntry]) -> Curves:
    """Return the stored curves of a group, without missing runs.

    Raises UserError if a run failed for another reason than divergence.
    """
    from ablations.runs import Runs  # delayed: a test that passes needs no pandas

    runs = Runs.read(results, replace(plan, cells=tuple(cells)))
    failed = runs.runs[runs.runs.status == "failed"]
    for row in failed[~failed.diverged].itertuples():
        raise UserError(f"{name}, seed {row.seed}, failed: {row.reason}")
    found = runs.curves_of(cells[0].task, cells[0].variant)
    curves = Curves(
        {seed: Run(of.steps.astype(np.float64), of.values) for seed, of in found.items()},
        dict(zip(failed.seed.tolist(), failed.reason, strict=True)),
    )
    if not len(curves):
        raise UserError(f"no runs of {name} in '{results}': train them, or leave out --records")
    require_scores(curves)
    return curves


def _configuration(cells: Sequence[CellEntry]) -> dict[str, Json]:
    return {name: value for name, value in as_json(cells[0].config).items() if name != "seed"}


def _require_same_settings(baseline: Baseline, name: str, cells: Sequence[CellEntry]) -> None:
    """Raise UserError if a group's settings differ from its baseline's.

    Revisions of code and data of imported runs may differ: the check is about them.
    """
    then, now = (
        {key: x for key, x in leaves(about) if {"revision", "imported"}.isdisjoint(key.split("."))}
        for about in (baseline.groups[name].about, _configuration(cells))
    )
    for setting in {**now, **then}:
        if then.get(setting) != now.get(setting):
            raise UserError(
                f"{name}: {setting} is {now.get(setting)!r}, but {then.get(setting)!r} in the "
                f"baseline '{baseline.name}': change it back, or save the baseline again"
            )
