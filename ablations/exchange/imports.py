"""Other people's runs as records and a plan: every command that reads records serves them."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablations.errors import UserError, unknown
from ablations.exchange import others
from ablations.exchange.reading import Curve, Place, read_csv, read_tensorboard
from ablations.records import Plan, Record, digest, read_plan, write_plan, write_record

BINS = 50


@dataclass(frozen=True)
class Options:
    """How to read runs, and what is asked of them.

    metric: the column or tag that is judged; by default "return", or the first known return tag.
    baseline: the run that the others are compared with; by default the first one read.
    margin: share of what the baseline learned within which a difference does not matter; of the
        metric's own units with margin_in_metric.
    pattern: where a TensorBoard folder's name has its parts, such as "{task}/{run}/seed{seed}".
    """

    metric: str | None = None
    baseline: str | None = None
    margin: float = 0.05
    margin_in_metric: bool = False
    pattern: str | None = None
    title: str = ""
    claim: str = ""
    claim_source: str = ""


def import_runs(
    paths: Sequence[Path | str], study: str, results: Path, options: Options | None = None
) -> Plan:
    """Writes the runs in `paths` as records of a study, and the plan that every command reads.

    A path is a CSV file (columns run, seed, step, return, and task where there are several; further
    numeric columns are further metrics; or long format with columns metric and value, as `export`
    writes it), a folder of TensorBoard event files, one folder per run, or of the evaluations.npz
    of Stable-Baselines3, or Trackio's database of a project. Runs of a task that were logged at
    other steps than each other are averaged over 50 bins of equal length. A run whose log ends
    before the last tenth of its task's longest one has failed, and counts as such. Raises UserError
    for anything that cannot be read.
    """
    options = options or Options()
    if not re.fullmatch(r"[\w.-]+", study):
        raise UserError(f"a study's name is letters, digits, '_', '-' and '.': not '{study}'")
    _refuse_other(results, study)
    runs: dict[Place, Curve] = {}
    metrics: list[str] = []
    for path in map(Path, paths):
        if others.is_database(path):
            found, metric = others.read_trackio(path, options.metric, options.pattern)
        elif path.suffix == ".npz" or (path.is_dir() and others.evaluations(path)):
            found, metric = others.read_evaluations(path, options.metric, options.pattern)
        elif path.is_dir():
            found, metric = read_tensorboard(path, options.metric, options.pattern)
        else:
            found, metric = read_csv(path, options.metric)
        for place, curve in found.items():
            if place in runs:
                task, run, seed = place
                raise UserError(f"run '{run}' on '{task}', seed {seed} is there twice: in '{path}'")
            runs[place] = curve
        metrics.append(metric)
    if not runs:
        raise UserError("no runs found: give CSV files or folders of TensorBoard event files")
    if len(set(metrics)) > 1:
        names = ", ".join(dict.fromkeys(metrics))
        raise UserError(f"the files judge different metrics ({names}): name one with --metric")
    metric = metrics[0]
    aligned = _aligned(runs)
    cells = []
    for (task, run, seed), curve in aligned.items():
        columns = {"step": curve.steps, **_ordered(curve.values, metric)}
        config = {
            "imported": {"data": _checksum(columns), "file": curve.source.name},
            "study": study,
            "task": {"name": task},
            "variant": run,
            "seed": seed,
        }
        name = digest(config)
        cell = {"task": task, "variant": run, "seed": seed, "hash": name, "config": config}
        cells.append(cell)
        last, whole = int(runs[task, run, seed].steps[-1]), int(curve.steps[-1])
        ended: dict[str, Any] = {"status": "done"}
        if 10 * last <= 9 * whole:
            reason = f"ended early: its log stops at step {last:,} of {whole:,}"
            ended = {"status": "failed", "failure": "error", "reason": reason, "failed_step": last}
        record = Record(
            name, config, provenance={"imported": curve.source.name, "versions": {}}, **ended
        )
        write_record(results, record, _with_nulls(columns))
    plan = _plan(study, cells, aligned, metric, options)
    write_plan(results, plan)
    return plan


def _refuse_other(results: Path, study: str) -> None:
    """A study that was run here keeps its name."""
    try:
        plan = read_plan(results, study)
    except UserError:  # none, or a damaged one, which this writes anew
        return
    if not plan.imported:
        raise UserError(f"study '{study}' was run here: import under another name")


# Common steps


def _aligned(runs: Mapping[Place, Curve]) -> dict[Place, Curve]:
    """The runs of each task on common steps."""
    aligned: dict[Place, Curve] = {}
    for task in dict.fromkeys(task for task, _, _ in runs):
        mine = {place: curve for place, curve in runs.items() if place[0] == task}
        union = np.unique(np.concatenate([curve.steps for curve in mine.values()]))
        longest = max(len(curve.steps) for curve in mine.values())
        for place, curve in mine.items():
            if len(union) <= 2 * longest and longest > 1:
                aligned[place] = _spread(curve, union)
            else:
                aligned[place] = _binned(curve, int(union[-1]))
    return {place: aligned[place] for place in runs}


def _spread(curve: Curve, steps: NDArray[np.int64]) -> Curve:
    where = np.searchsorted(steps, curve.steps)
    values = {}
    for name, old in curve.values.items():
        values[name] = np.full(len(steps), np.nan)
        values[name][where] = old
    return Curve(steps, values, curve.source)


def _binned(curve: Curve, last: int) -> Curve:
    """Means over bins that end at the steps returned; step 0 belongs to the first."""
    ends = np.unique(np.linspace(0, max(last, 1), BINS + 1)[1:].round().astype(np.int64))
    where = np.searchsorted(ends, curve.steps)
    values = {}
    for name, old in curve.values.items():
        seen = np.isfinite(old)
        counts = np.bincount(where[seen], minlength=len(ends))
        sums = np.bincount(where[seen], old[seen], minlength=len(ends))
        values[name] = np.where(counts, sums / np.maximum(counts, 1), np.nan)
    return Curve(ends, values, curve.source)


# Records and plan


def _ordered(
    values: Mapping[str, NDArray[np.float64]], metric: str
) -> dict[str, NDArray[np.float64]]:
    return {metric: values[metric]} | {name: values[name] for name in sorted(values)}


def _with_nulls(columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """As the sweep writes them: null, not NaN, where a metric has no value."""
    return {
        name: [None if math.isnan(one) else one for one in values.tolist()]
        for name, values in columns.items()
    }


def _checksum(columns: Mapping[str, NDArray[Any]]) -> str:
    sums = hashlib.sha256()
    for name, values in columns.items():
        sums.update(name.encode() + b"\0" + np.ascontiguousarray(values).tobytes())
    return sums.hexdigest()


def _plan(
    study: str,
    cells: Sequence[Mapping[str, Any]],
    runs: Mapping[Place, Curve],
    metric: str,
    options: Options,
) -> Plan:
    names = list(dict.fromkeys(run for _, run, _ in runs))
    tasks = list(dict.fromkeys(task for task, _, _ in runs))
    if not options.margin > 0:
        raise UserError(f"--margin must be above 0, not {options.margin:g}")
    baseline = options.baseline or names[0]
    if baseline not in names:
        raise unknown("baseline", baseline, names)
    described: dict[str, dict[str, Any]] = {}
    for task in tasks:
        described[task] = {
            "steps": max(int(c.steps[-1]) for place, c in runs.items() if place[0] == task),
            "settings": {},
            "summary": "",
        }
    return Plan(
        request={"imported": study},
        study={
            "name": study,
            "title": options.title or study,
            "claim": options.claim or f"does it matter which of {', '.join(names)} is used?",
            "claim_source": options.claim_source,
            "baseline": baseline,
            "margin": options.margin,
            "margin_in_metric": options.margin_in_metric,
            "metric": metric,
        },
        variants={name: {"versus": None, "summary": "", "sets": {}} for name in names},
        tasks=described,
        cells=_complete(study, cells, names, tasks),
    )


def _complete(
    study: str, cells: Sequence[Mapping[str, Any]], names: Sequence[str], tasks: Sequence[str]
) -> tuple[Mapping[str, Any], ...]:
    """With a cell for every task, run and seed: those that were not given count as missing."""
    seeds = sorted({cell["seed"] for cell in cells})
    given = {(cell["task"], cell["variant"], cell["seed"]): cell for cell in cells}
    whole = []
    for task in tasks:
        for seed in seeds:
            for name in names:
                cell = given.get((task, name, seed))
                if cell is None:
                    config = {
                        "imported": None,
                        "study": study,
                        "task": {"name": task},
                        "variant": name,
                        "seed": seed,
                    }
                    cell = {"task": task, "variant": name, "seed": seed, "config": config}
                    cell |= {"hash": digest(config)}
                whole.append(cell)
    return tuple(whole)
