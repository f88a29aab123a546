"""Baselines in a results folder: their files, saving a study's records, records to compare."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ablations.core.decode import decode
from ablations.errors import UserError
from ablations.names import require_name
from ablations.records import Plan, Record, as_read, read_plan, read_record, usable_record
from ablations.regression import baselines, from_records
from ablations.regression.baselines import Baseline, Group, Origin, Stored
from ablations.regression.curves import Curves
from ablations.regression.design import FEWEST_OLD


def stem_of(results: Path, name: str) -> Path:
    """Return results/baselines/<name>/baseline, without its suffix; or in a folder, as a path."""
    folder = Path(name) if os.sep in name else results / "baselines" / name
    return folder / "baseline"


def read(results: Path, name: str) -> Baseline:
    """Return a baseline. Raises UserError for one that is missing or damaged."""
    return baselines.read(stem_of(results, name), name)


def save(plans: Sequence[Plan], results: Path, name: str, reason: str | None) -> Baseline:
    """Store the curves of some plans as a baseline. Raises UserError for too few seeds."""
    require_name("the name of a baseline", name)
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
    return baselines.updated(
        stem_of(results, name),
        name,
        groups,
        reason=reason,
        provenance=_kept(first),
        requests=[_stored(plan) for plan in plans],
    )


def _kept(record: Record | None) -> Origin:
    if record is None:
        return {}
    origin = as_read({k: v for k, v in record.provenance.items() if k in Origin.__annotations__})
    return decode(Origin, origin)


def _stored(plan: Plan) -> Stored:
    file = {"file": plan.study.file} if plan.study.file else {}
    return decode(Stored, as_read({"study": plan.study.name, **file, **plan.request}))


def fewest_seeds(groups: Mapping[str, Group]) -> int:
    """Return the seeds of the group with the fewest."""
    return min(len(group.curves) for group in groups.values())


def given(baseline: Baseline, records: Path) -> dict[str, Curves]:
    """Return the curves in a results folder, of the last plan of each study there."""
    curves = {}
    for where in baseline.groups:
        study = where.partition("/")[0]
        plan = read_plan(records, study)
        # A task's name may have a slash of its own
        name = {str(name): name for name in from_records.names(plan)}.get(where)
        if name is None:
            raise UserError(
                f"the last run of '{study}' in '{records}' has no {where}: the baseline "
                f"'{baseline.name}' does"
            )
        now = from_records.configuration(plan, name.task, name.variant)
        from_records.require_same_settings(baseline, name, now)
        curves[where] = from_records.read(plan, records, name)
    return curves


def made_alike(baseline: Baseline, records: Path) -> str:
    """Return whether what made the records is what made the baseline, in words."""
    names = (path.parent.name for path in (records / "cells").glob("[0-9a-f]*/record.json"))
    first = next(filter(None, (usable_record(records, name) for name in names)), None)
    if first is None:
        return "made by an unknown version"
    now, then = first.provenance, baseline.provenance
    versions = now.get("versions", {})
    changed = [
        f"{name} {before} → {versions.get(name, 'none')}"
        for name, before in then.get("versions", {}).items()
        if versions.get(name) != before
    ]
    if now.get("device") != then.get("device"):
        changed.append(f"device {then.get('device')} → {now.get('device')}")
    if changed:
        return f"not made alike: {', '.join(changed)}"
    return "versions and arithmetic are alike"
