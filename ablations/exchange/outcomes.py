"""Outcomes of runs, as far as a file or a curve tells: finished, or failed and why."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ablations.core.record import Configuration, Failure
from ablations.curve import diverged, is_cut
from ablations.errors import UserError, shortened
from ablations.exchange.places import Place
from ablations.exchange.reading import Curve
from ablations.logs.numbers import number
from ablations.records import Plan, Record, read_results
from ablations.spreadsheets import plain

_EXPORTED = ["task", "variant", "seed", "status", "step", "metric", "value"]
_MOST_LINES = 12


@dataclass(frozen=True)
class Outcome:
    """status: of a record, or "missing". The others as in a record."""

    status: Literal["done", "failed", "missing"] = "done"
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None

    def record(self, name: str, config: Configuration, source: str) -> Record:
        """Return the record of a run that others made."""
        return Record(
            name,
            config,
            "failed" if self.status == "failed" else "done",
            self.failure,
            self.reason,
            self.failed_step,
            provenance={"imported": source, "versions": {}},
        )


def outcome(run: Curve, metric: str, place: int | None, length: int) -> Outcome:
    """Return how a run ended by its curve.

    Diverged from a point on, if any; else cut, if it ends before 90% of a run of `whole` steps.
    """
    if place is not None:
        at = int(run.steps[place])
        return Outcome("failed", "diverged", diverged(metric, at), at)
    last = int(run.steps[-1])
    if is_cut(last, length):
        reason = f"ended early: its log stops at step {last:,} of {length:,}"
        return Outcome("failed", "cut", reason, last)
    return Outcome()


def exported(path: Path, text: str) -> dict[Place, Outcome]:
    """Return how every run of a file that `export` wrote has ended, in the file's order.

    {} for another file. Raises UserError for a seed or a step that is no whole number.
    """
    import pandas

    head = pandas.read_csv(io.StringIO(text), nrows=0)
    if not set(_EXPORTED) <= set(head.columns):
        return {}
    known = {"task", "variant", "seed", "status", "step", "failure", "reason"}
    table = pandas.read_csv(
        io.StringIO(text), usecols=known.__contains__, dtype=str, keep_default_na=False
    )
    outcomes: dict[Place, Outcome] = {}
    # One row says how a run ended, the others are its points.
    for row in table.drop_duplicates(["task", "variant", "seed"]).to_dict("records"):
        seed, step = (number(row[name]) for name in ("seed", "step"))
        integral = [
            number_read is not None and number_read % 1 == 0 for number_read in (seed, step)
        ]
        if not integral[0] or not (integral[1] or row["step"] == ""):
            raise UserError(
                f"'{path}': seed and step must be whole numbers, not '{row['seed']}' and "
                f"'{row['step']}'"
            )
        if row["status"] not in ("done", "failed", "missing"):
            raise UserError(f"'{path}': a status is done, failed or missing, not '{row['status']}'")
        place = (plain(row["task"].strip()), plain(row["variant"].strip()), int(seed or 0))
        outcomes[place] = _outcome(row, None if step is None else int(step))
    return outcomes


def _outcome(row: Mapping[str, str], step: int | None) -> Outcome:
    if row["status"] == "missing":
        return Outcome("missing")
    if row["status"] != "failed":
        return Outcome()
    kinds: dict[str, Failure] = {kind: kind for kind in get_args(Failure)}
    failure = kinds.get(row.get("failure", ""), "error")
    return Outcome("failed", failure, plain(row.get("reason", "")) or "failed where it ran", step)


def unfinished(plan: Plan, results: Path) -> Iterator[str]:
    """Yield lines on the runs of a plan that count as failures, or are not there."""
    failed: list[str] = []
    missing: list[str] = []
    for cell, record in read_results(results, plan):
        where = f"{cell.variant} on {cell.task}, seed {cell.seed}"
        if record is None:
            missing.append(where)
        elif record.status == "failed":
            failed.append(f"{where}: {record.reason}")
    for what, lines in (("count as failures", failed), ("are not there", missing)):
        if lines:
            yield f"{len(lines)} of {len(plan.cells)} runs {what}"
            yield from (f"  {line}" for line in shortened(lines, _MOST_LINES, "and {} more"))
