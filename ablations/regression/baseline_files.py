"""Baselines in a results folder: where they lie, how a study's records become one, and which
records are compared with it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablations.errors import UserError
from ablations.records import Plan, read_plan, read_record
from ablations.regression import baselines, from_records
from ablations.regression.baselines import Baseline, Group
from ablations.regression.curves import Curves
from ablations.regression.looks import FEWEST_OLD

_KEPT = ("versions", "commit", "changed", "processor", "device")


def stem_of(results: Path, name: str) -> Path:
    """results/baselines/<name>/baseline, without its suffix; or in a folder given as a path."""
    folder = Path(name) if os.sep in name else results / "baselines" / name
    return folder / "baseline"


def stored(results: Path) -> Iterator[tuple[str, Baseline]]:
    """Every baseline of a results folder by its name."""
    for path in sorted((results / "baselines").glob("*/baseline.json")):
        yield path.parent.name, baselines.read(path.with_suffix(""), path.parent.name)


def read(results: Path, name: str) -> Baseline:
    return baselines.read(stem_of(results, name), name)


def save(plans: Sequence[Plan], results: Path, name: str, reason: str | None) -> Baseline:
    """Stores the curves of some plans as a baseline. Raises UserError for too few seeds."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise UserError(
            f"a baseline's name has letters, digits, '.', '_' and '-' alone, not '{name}'"
        )
    groups: dict[str, Group] = {}
    for plan in plans:
        groups |= from_records.groups(plan, results)
    if not groups:
        raise UserError("a baseline of no cells says nothing: the plan is empty")
    for where, group in groups.items():
        if not group.curves.seeds:
            raise UserError(f"every seed of {where} diverged: it has no curve to compare with")
    if (few := fewest_seeds(groups)) < FEWEST_OLD:
        raise UserError(
            f"a baseline of {few} seeds says too little: `ablations run` with --seeds 24 first "
            f"(at least {FEWEST_OLD})"
        )
    first = read_record(results, plans[0].cells[0].hash)
    provenance = {} if first is None else first.provenance
    return baselines.updated(
        stem_of(results, name),
        name,
        groups,
        reason=reason,
        provenance={key: provenance[key] for key in _KEPT if key in provenance},
        requests=[
            {"study": plan.study.name}
            | ({"file": plan.study.file} if plan.study.file else {})
            | dict(plan.request)
            for plan in plans
        ],
    )


def fewest_seeds(groups: Mapping[str, Group]) -> int:
    return min(len(group.curves) for group in groups.values())


def given(baseline: Baseline, records: Path) -> dict[str, Curves]:
    """The curves in a results folder, of the last plan of each study there."""
    found = {}
    for where in baseline.groups:
        study = where.partition("/")[0]
        plan = read_plan(records, study)
        pairs = {from_records.key(study, *pair): pair for pair in from_records.pairs(plan)}
        if where not in pairs:
            raise UserError(
                f"the last run of '{study}' in '{records}' has no {where}: the baseline "
                f"'{baseline.name}' does"
            )
        task, variant = pairs[where]
        now = from_records.configuration(plan, task, variant)
        from_records.require_same_settings(baseline, where, now)
        found[where] = from_records.read(plan, records, task, variant)
    return found


def first_seeds(baseline: Baseline) -> dict[tuple[str, str, str], Sequence[int]]:
    """The first seed of every group: enough to see whether the bits are the same."""
    wanted: dict[tuple[str, str, str], Sequence[int]] = {}
    for where, group in baseline.groups.items():
        study, task, variant = where.split("/", 2)
        wanted[study, task, variant] = group.curves.seeds[:1]
    return wanted


def made_alike(baseline: Baseline, records: Path) -> str:
    """Whether what made the records is what made the baseline, in words."""
    path = next((records / "cells").glob("*/record.json"), None)
    if path is None:
        return "made by an unknown version"
    now: Mapping[str, Any] = json.loads(path.read_text())["provenance"]
    then = baseline.provenance
    changed = [
        f"{name} {before} → {now.get('versions', {}).get(name, 'none')}"
        for name, before in then.get("versions", {}).items()
        if now.get("versions", {}).get(name) != before
    ]
    if now.get("device") != then.get("device"):
        changed.append(f"device {then.get('device')} → {now.get('device')}")
    if changed:
        return f"not made alike: {', '.join(changed)}"
    return "versions and arithmetic are alike"
