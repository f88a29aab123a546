"""Find the state of every run of a plan: done, running, queued, failed, missing, damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict

from ablations import plugins
from ablations.engine.claims import checkpoint_points, read_heartbeat
from ablations.engine.job import Cell, cells_of
from ablations.engine.slurm import commands
from ablations.engine.slurm.submissions import Held, cores_of_jobs, holders
from ablations.records import DamagedRecord, OtherFormat, Plan, Record, read_record

STATES = ("done", "running", "queued", "failed", "damaged", "missing")


class Row(TypedDict, total=False):
    """A run and its state.

    "done"; "running" (with phase, step, steps, 0 where they are not known, rate, score, host, and
    on a cluster job, cores that it may use and cores_given); "queued" (job: one that may take it,
    queue: what Slurm calls its state, reason); "failed" (reason, failed_step, log: the end of its
    traceback); "damaged" (reason); or "missing" (checkpoint: the step to go on from, reason and
    log: what became of the jobs that should have taken it; where there are such).
    """

    study: str
    task: str
    variant: str
    seed: int
    hash: str
    state: Literal["done", "running", "queued", "failed", "damaged", "missing"]
    phase: str
    step: int
    steps: int
    rate: float
    score: float | None
    host: str
    job: str | None
    cores: int | None
    cores_given: int | None
    queue: str
    reason: str | None
    failed_step: int | None
    log: list[str] | str
    checkpoint: int


@dataclass(frozen=True)
class Status:
    """The states of runs.

    rows: one per run. edited: a line for each plugin that was edited between the runs of a plan.
    silent: why the queue of the cluster could not be asked, or None; what it has is then among the
    missing.
    """

    rows: tuple[Row, ...]
    edited: tuple[str, ...] = ()
    silent: str | None = None

    @property
    def moving(self) -> bool:
        """Return whether a run is running or queued."""
        return any(row["state"] in ("running", "queued") for row in self.rows)


def status(plans: Sequence[Plan], results: Path, queue: commands.Queue | None = None) -> Status:
    """Return the state of every run, in the plans' order.

    queue: how Slurm's is asked; None: anew.
    """
    rows: list[Row] = []
    lost: list[Row] = []
    edited: list[str] = []
    for plan in plans:
        used: list[Mapping[str, str]] = []
        for cell in cells_of(plan):
            record = _read(results, cell)
            if isinstance(record, Record):
                used.append(record.provenance.get("plugins", {}))
            row: Row = {
                "study": cell.study,
                "task": cell.task,
                "variant": cell.variant,
                "seed": cell.seed,
                "hash": cell.hash,
                **_state(results, cell, record),
            }
            rows.append(row)
            if row["state"] == "missing":
                lost.append(row)
        edited += [f"{plan.study.name}: {line}" for line in plugins.edited(used)]
    silent = _ask_the_queue(lost, results, queue)
    if running := [row for row in rows if row.get("job") and row["state"] == "running"]:
        cores = cores_of_jobs(results)
        for row in running:
            row["cores"], row["cores_given"] = cores.get(row["job"] or "") or (None, None)
    return Status(tuple(rows), tuple(edited), silent)


def _ask_the_queue(lost: Sequence[Row], results: Path, queue: commands.Queue | None) -> str | None:
    """Tell of runs without a record which job may take them; return why that is not known."""
    try:
        held = holders(results, (row["hash"] for row in lost), queue) if lost else {}
    except commands.Silent as why:
        return str(why)
    for row in lost:
        if row["hash"] in held:
            row.update(_in_queue(held[row["hash"]]))
    return None


def _in_queue(held: Held) -> Row:
    if held.state.alive:
        return {
            "state": "queued",
            "job": held.id,
            "queue": held.state.name,
            "reason": held.state.reason,
        }
    return {"reason": held.why_ended, "log": held.last_line()}


def _read(results: Path, cell: Cell) -> Record | Exception | None:
    """Return a run's record, None without one, or the error of reading it."""
    try:
        return read_record(results, cell.hash)
    except (DamagedRecord, OtherFormat, PermissionError) as why:
        return why


def _state(results: Path, cell: Cell, record: Record | Exception | None) -> Row:
    if isinstance(record, Exception):
        return {"state": "damaged", "reason": str(record)}
    if record is not None:
        if record.status == "done":
            return {"state": "done"}
        return {
            "state": "failed",
            "reason": record.reason,
            "failed_step": record.failed_step,
            "log": record.provenance.get("log", []),
        }
    beat = read_heartbeat(results, cell.hash)
    if beat is not None and beat.alive:
        return {
            "state": "running",
            "phase": beat.phase,
            "step": beat.step,
            "steps": beat.steps,
            "rate": round(beat.rate, 1) if beat.rate < 10 else round(beat.rate),
            "score": beat.score,
            "host": beat.host,
            "job": beat.job,
        }
    if points := checkpoint_points(results, cell.hash):
        return {"state": "missing", "checkpoint": cell.step_at(points[-1])}
    return {"state": "missing"}
