"""What became of every cell of a plan: done, running, failed (and why), missing, damaged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablations.records import DamagedRecord, Plan, read_record
from ablations.sweep.claims import checkpoint_points, read_heartbeat


def status(plan: Plan, results: Path) -> list[dict[str, Any]]:
    """One entry per cell, in the plan's order: study, task, variant, seed, hash, state, reason,
    progress.

    state is "done", "running" (with step, steps, rate, host), "failed" or "damaged" (with reason),
    or "missing" (with checkpoint, the step to go on from, where there is one).
    """
    return [
        {
            "study": plan.study["name"],
            "task": cell["task"],
            "variant": cell["variant"],
            "seed": cell["seed"],
            "hash": cell["hash"],
            **_state(results, cell),
        }
        for cell in plan.cells
    ]


def _state(results: Path, cell: Mapping[str, Any]) -> dict[str, Any]:
    try:
        record = read_record(results, cell["hash"])
    except DamagedRecord as damaged:
        return {"state": "damaged", "reason": str(damaged)}
    if record is not None:
        if record.status == "done":
            return {"state": "done"}
        return {"state": "failed", "reason": record.reason, "failed_step": record.failed_step}
    beat = read_heartbeat(results, cell["hash"])
    if beat is not None and beat.alive:
        return {
            "state": "running",
            "phase": beat.phase,
            "step": beat.step,
            "steps": beat.steps,
            "rate": round(beat.rate),
            "host": beat.host,
        }
    if points := checkpoint_points(results, cell["hash"]):
        run = cell["config"]["run"]
        step = points[-1] * run["updates_per_chunk"] * run["iteration_steps"]
        return {"state": "missing", "checkpoint": step}
    return {"state": "missing"}
