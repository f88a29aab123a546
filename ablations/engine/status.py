"""Find the state of every run of a plan: done, running, queued, failed, missing, damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ablations import plugins
from ablations.engine.claims import checkpoint_points, read_heartbeat
from ablations.engine.job import Cell, cells_of
from ablations.engine.slurm.queue import Silent, holders
from ablations.records import DamagedRecord, OtherFormat, Plan, Record, read_record

STATES = ("done", "running", "queued", "failed", "damaged", "missing")
# A run and its state: study, task, variant, seed, hash, state. Further keys depend on the state:
#     running   phase, step, steps (0: unknown), rate, score, host, job (of a cluster)
#     queued    job, queue (Slurm's name of the state), reason
#     failed    reason, failed_step, log (last lines)
#     damaged   reason
#     missing   checkpoint (its step); reason and log of an ended job
Row: TypeAlias = dict[str, Any]


def status(plans: Sequence[Plan], results: Path) -> tuple[list[Row], list[str]]:
    """Return the state of every run in the order of the plans, and notes.

    If Slurm does not answer, queued runs count as missing.
    """
    rows: list[Row] = []
    notes: list[str] = []
    for plan in plans:
        used: list[Mapping[str, str]] = []
        for cell in cells_of(plan):
            record: Record | Exception | None
            try:
                record = read_record(results, cell.hash)
            except (DamagedRecord, OtherFormat, PermissionError) as why:
                record = why
            if isinstance(record, Record):
                used.append(record.provenance.get("plugins", {}))
            named = {n: getattr(cell, n) for n in ("study", "task", "variant", "seed", "hash")}
            rows.append(named | _state(results, cell, record))
        notes += [f"{plan.study.name}: {line}" for line in plugins.edited(used)]
    try:
        _add_jobs([row for row in rows if row["state"] == "missing"], results)
    except Silent as why:
        notes.append(f"the queue is not known: {why}")
    return rows, notes


def _add_jobs(missing: Sequence[Row], results: Path) -> None:
    """Add the jobs of runs without a record. Raises Silent."""
    held = holders(results, (row["hash"] for row in missing)) if missing else {}
    for row in missing:
        if row["hash"] not in held:
            continue
        submission, job = held[row["hash"]]
        if job and job.alive:
            row.update(state="queued", job=job.id, queue=job.state, reason=job.reason)
        else:
            ended = f"its job {job.id} ended as {job.state}" if job else ""
            why = ended or "its job is gone from the queue"
            row.update(reason=why, log=submission.last_line)


def _state(results: Path, cell: Cell, record: Record | Exception | None) -> Row:
    if isinstance(record, Exception):
        return {"state": "damaged", "reason": str(record)}
    if record is not None and record.status == "done":
        return {"state": "done"}
    if record is not None:
        return {
            "state": "failed",
            "reason": record.reason,
            "failed_step": record.failed_step,
            "log": record.provenance.get("log", []),
        }
    beat = read_heartbeat(results, cell.hash)
    if beat is not None and beat.alive:
        names = ("phase", "step", "steps", "score", "host", "job")
        rate = round(beat.rate, 1) if beat.rate < 10 else round(beat.rate)
        return {"state": "running", "rate": rate} | {name: getattr(beat, name) for name in names}
    points = checkpoint_points(results, cell.hash)
    return {"state": "missing"} | ({"checkpoint": cell.step_at(points[-1])} if points else {})
