"""Other people's runs as records and a plan: every command that reads records serves them."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from ablations.core.plan import CellEntry, StoredStudy, StoredTask, StoredVariant
from ablations.core.record import Configuration
from ablations.curve import diverged_from
from ablations.errors import UserError, count, unknown
from ablations.exchange.outcomes import Outcome, outcome
from ablations.exchange.places import Place
from ablations.exchange.reading import Curve
from ablations.exchange.sources import Rule, read_all
from ablations.names import require_name
from ablations.records import Plan, digest, read_plan, write_plan, write_record
from ablations.report.units import keep_units

SHOWN = 12  # lines of runs, and of what was left out


@dataclass(frozen=True, kw_only=True)
class Options(Rule):
    """Options of an import: how runs are read, and what they are called.

    baseline: the run that the others are compared with; by default the first one read.
    margin: share of what the baseline learned within which a difference does not matter; of the
        metric's own units with margin_in_metric.
    better: "higher" or "lower"; where lower is, tables judge minus the metric.
    """

    baseline: str | None = None
    margin: float = 0.05
    margin_in_metric: bool = False
    better: str = "higher"
    title: str = ""
    claim: str = ""
    claim_source: str = ""


def import_runs(
    paths: Sequence[Path | str],
    study: str,
    results: Path,
    options: Options | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Plan:
    """Write the runs in `paths` as records of a study, and the plan that every command reads.

    A path is a file, a folder of them or a pattern of names, such as "logs/*/progress.csv". A file
    is a table of runs (columns run, seed, step, return, and task where there are several; further
    numeric columns are further metrics; or long format with columns metric and value, as `export`
    writes it), a panel that W&B exported, or the log of one run, as `ablations.logs` reads them.
    Every run keeps its own steps. One whose metric is no finite number up to its end has diverged,
    and one whose log ends before 90% of its task's longest one was cut: both count as failures.
    What `export` wrote keeps the status that it had. say: is told, before anything is written, what
    was taken for what, and what was left out. Raises UserError for anything that cannot be read.
    """
    options = options or Options()
    if options.better not in ("higher", "lower"):
        raise unknown("direction of better", options.better, ("higher", "lower"))
    require_name("the name of a study", study)
    _refuse_other(results, study)
    runs: dict[Place, Curve] = {}
    outcomes: dict[Place, Outcome] = {}
    places: dict[Place, None] = {}
    metrics: dict[str, None] = {}
    notes: list[str] = []
    for read in read_all(paths, options, notes):
        for task, run, seed in places.keys() & (read.curves.keys() | read.outcomes.keys()):
            raise UserError(
                f"run '{run}' on '{task}', seed {seed} is there twice: in '{read.where}'"
            )
        runs |= read.curves
        outcomes |= read.outcomes
        places |= dict.fromkeys([*read.outcomes, *read.curves])
        metrics[read.metric] = None
    if not runs:
        raise UserError("no runs found: give files or folders of logs")
    metric, *more = metrics
    if more:
        names = ", ".join(metrics)
        raise UserError(f"the files judge different metrics ({names}): name one with --metric")
    for line in (*_shown(list(_taken(runs, metric)), "run"), *_shown(notes, "note")):
        say(line)
    if options.better == "lower":
        runs = {place: _negated(curve, metric) for place, curve in runs.items()}
        metric = f"-{metric}"
    plan = _plan(study, _Runs(runs, outcomes, tuple(places), metric), results, options)
    write_plan(results, plan)
    keep_units(plan, results)
    return plan


def _taken(runs: Mapping[Place, Curve], metric: str) -> Iterator[str]:
    """Say what each run was taken for, a line each."""
    sources = [curve.source.absolute() for curve in runs.values()]
    root = os.path.commonpath([source.parent for source in sources])
    for ((task, run, seed), curve), source in zip(runs.items(), sources, strict=True):
        empty = int(np.isnan(curve.values[metric]).sum())
        gaps = f", {empty:,} without a value of {metric}" if empty else ""
        yield (
            f"'{source.relative_to(root)}': task {task}, run {run}, seed {seed}: "
            f"{count(len(curve.steps), 'point')}{gaps}, step {curve.steps[0]:,} to "
            f"{curve.steps[-1]:,}"
        )


def _shown(lines: Sequence[str], noun: str) -> list[str]:
    more = len(lines) - SHOWN
    return [*lines[:SHOWN], *([f"and {count(more, f'more {noun}')}"] if more > 0 else [])]


def _negated(curve: Curve, metric: str) -> Curve:
    return replace(curve, values={**curve.values, f"-{metric}": -curve.values[metric]})


def _refuse_other(results: Path, study: str) -> None:
    """Raise UserError for a study that was run here: it keeps its name."""
    try:
        plan = read_plan(results, study)
    except UserError:  # none, or a damaged one, which this writes anew
        return
    if not plan.imported:
        raise UserError(f"study '{study}' was run here: import under another name")


# Records and plan


@dataclass(frozen=True)
class _Runs:
    """Runs as they were read.

    outcomes: of the runs whose file says how they ended. places: all, in the files' order.
    """

    runs: Mapping[Place, Curve]
    outcomes: Mapping[Place, Outcome]
    places: tuple[Place, ...]
    metric: str

    @cached_property
    def longest(self) -> dict[str, int]:
        """The last step of the longest run of each task."""
        ends = dict.fromkeys((task for task, _, _ in self.places), 0)
        for (task, _, _), curve in self.runs.items():
            ends[task] = max(ends[task], int(curve.steps[-1]))
        return ends

    def outcome(self, place: Place) -> Outcome:
        if place in self.outcomes:
            return self.outcomes[place]
        if place not in self.runs:
            return Outcome("missing")
        at = self._diverged(place, self.metric)
        return outcome(self.runs[place], self.metric, at, self.longest[place[0]])

    def columns(self, place: Place) -> dict[str, list[Any]]:
        """Return the curve of a record; of a run without one, its end."""
        if place in self.runs:
            return _columns(self.runs[place], self.metric, partial(self._diverged, place))
        step = self.outcomes[place].failed_step
        return {"step": [] if step is None else [step], self.metric: [] if step is None else [None]}

    def _diverged(self, place: Place, metric: str) -> int | None:
        """Return the point from which a run diverged, unless its file says how it ended."""
        if place in self.outcomes:
            return None
        curve = self.runs[place]
        logged = metric == self.metric and not curve.table
        return diverged_from(curve.values[metric], logged=logged)


def _plan(study: str, read: _Runs, results: Path, options: Options) -> Plan:
    names = list(dict.fromkeys(run for _, run, _ in read.places))
    tasks = list(dict.fromkeys(task for task, _, _ in read.places))
    seeds = sorted({seed for _, _, seed in read.places})
    if not options.margin > 0:
        raise UserError(f"--margin must be above 0, not {options.margin:g}")
    baseline = options.baseline or names[0]
    if baseline not in names:
        raise unknown("baseline", baseline, names)
    # A cell for every task, run and seed: those that were not given count as missing.
    places = [(task, name, seed) for task in tasks for seed in seeds for name in names]
    return Plan(
        request={"imported": study},
        study=StoredStudy(
            name=study,
            title=options.title or study,
            claim=options.claim or f"does it matter which of {', '.join(names)} is used?",
            claim_source=options.claim_source,
            baseline=baseline,
            margin=options.margin,
            margin_in_metric=options.margin_in_metric,
            metric=read.metric,
        ),
        variants={name: StoredVariant(versus=None, summary="", sets={}) for name in names},
        tasks={task: StoredTask(read.longest[task], settings={}, summary="") for task in tasks},
        cells=tuple(_cell(study, read, place, results) for place in places),
    )


def _cell(study: str, read: _Runs, place: Place, results: Path) -> CellEntry:
    """Return a plan's entry of a run; write its record where it ran."""
    task, variant, seed = place
    config: Configuration = {
        "imported": None,
        "study": study,
        "task": {"name": task, "settings": {}},
        "variant": variant,
        "seed": seed,
    }
    ended = read.outcome(place)
    if ended.status == "missing":
        return CellEntry(*place, digest(config), config)
    columns = read.columns(place)
    source = read.runs[place].source.name if place in read.runs else ""
    config["imported"] = {"data": _checksum(columns, ended), "file": source}
    cell = CellEntry(*place, digest(config), config)
    write_record(results, ended.record(cell.hash, config, source), columns)
    return cell


def _columns(
    run: Curve, metric: str, diverged: Callable[[str], int | None]
) -> dict[str, list[Any]]:
    """Return columns as the sweep writes them, the judged one first.

    None where a metric has no value; where it has diverged its values stay no numbers. Points
    without any value are left out.
    """
    columns: dict[str, list[Any]] = {}
    for name in dict.fromkeys([metric, *sorted(run.values)]):
        values = run.values[name].tolist()
        end = diverged(name)
        tail = len(values) if end is None else end
        columns[name] = [None if math.isnan(value) else value for value in values[:tail]] + values[
            tail:
        ]
    rows = zip(run.steps.tolist(), *columns.values(), strict=True)
    kept = [row for row in rows if any(value is not None for value in row[1:])]
    return dict(zip(("step", *columns), map(list, zip(*kept, strict=True)), strict=True))


def _checksum(columns: Mapping[str, Sequence[Any]], ended: Outcome) -> str:
    """Return the checksum of the data and of how the run ended, which others may decide."""
    sums = hashlib.sha256(repr(ended).encode())
    for name, values in columns.items():
        numbers = np.array(values, np.float64)
        sums.update(name.encode() + b"\0" + numbers.tobytes())
    return sums.hexdigest()
