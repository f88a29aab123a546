"""Import other programs' runs as records and a plan, which every command reads."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from cyclopts import Parameter

from ablations.core.plan import CellEntry, StoredStudy, StoredTask, StoredVariant
from ablations.core.record import Columns, Configuration, Failure
from ablations.curve import diverged, logged
from ablations.errors import UserError, count, shortened, unknown
from ablations.io.formats import Row
from ablations.io.logs import columns_of, floats, points, with_values
from ablations.io.printed import number
from ablations.io.sources import RETURNS, RUN, Names, Place, Source, naming, sources
from ablations.names import require_name
from ablations.parameters import SEVERAL
from ablations.records import Plan, Record, digest, read_plan, write_plan, write_record
from ablations.studies import studies

SHOWN = 12  # lines of progress on runs, and on skipped content


@dataclass(frozen=True)
class Outcome:
    """How a run ended: fields of its record, or "missing"."""

    status: str = "done"
    failure: Failure | None = None
    reason: str | None = None
    failed_step: int | None = None


class Run(NamedTuple):
    """A run of another program: its file, its curve, and the outcome that the file states."""

    file: Path
    log: Columns | None
    stated: Outcome | None


def import_runs(  # noqa: PLR0913 - each names a column or a property of the study
    paths: Annotated[
        Sequence[Path | str] | Path | str, SEVERAL, Parameter(metavar="FILE|FOLDER|PATTERN")
    ],
    study: str,
    results: Path | str = "results",
    *,
    task: str | None = None,
    variant: str | None = None,
    seed: str | None = None,
    step: str | None = None,
    metric: str | None = None,
    pattern: str | None = None,
    baseline: str | None = None,
    better: Literal["higher", "lower"] = "higher",
    margin: float = 0.05,
    margin_in_metric: bool = False,
    say: Annotated[Callable[[str], None], Parameter(parse=False)] = print,
) -> pd.DataFrame:
    """Store other programs' runs as a study, and return one row per run.

    Args:
        paths: files, folders, or patterns such as "logs/*/progress.csv". A file is a long table
            (CSV, JSON lines or Parquet) with several runs, the log of one run (CSV, JSON lines,
            evaluations.npz), or the CSV of a W&B panel. A folder may have TensorBoard event files.
        study: the name of the study.
        results: the results folder.
        task: the column of tasks; default: a usual name, else all runs are of one task.
        variant: the column of variants; default: a usual name.
        seed: the column of seeds; default: a usual name.
        step: the column of steps; default: a usual name, environment steps first.
        metric: the column or tag to compare; default: the only one, else the return.
        pattern: the position of task, variant and seed in file names, such as
            "{variant}/{task}_{seed}"; {} matches anything.
        baseline: the variant that the others are compared with; default: the first.
        better: "higher" or "lower"; for "lower", tables show minus the metric.
        margin: the smallest relevant difference, as a share of the baseline's learned range.
        margin_in_metric: whether the margin is in units of the metric.
        say: receives lines of progress before anything is written.

    Returns:
        Columns task, variant, seed, status (done, failed, missing), reason, points, last, source.

    Raises:
        UserError: a file cannot be read, or it does not state a variant or seed.
    """
    results = Path(results)
    if study in studies():
        raise UserError(f"'{study}' is a study of this suite: choose another --study name")
    if better not in ("higher", "lower"):
        raise unknown("direction of better", better, ("higher", "lower"))
    if not margin > 0:
        raise UserError(f"--margin must be above 0, not {margin:g}")
    require_name("the name of a study", study)
    _refuse_other(results, study)
    notes: list[str] = []
    # W&B and TensorBoard say run for variant.
    names = Names(task, variant, seed, step, metric, (pattern or "").replace("{run}", "{variant}"))
    paths = [paths] if isinstance(paths, Path | str) else paths
    logs = list(sources(paths, names, notes))
    judged = _judged(logs, metric)
    runs = _runs(logs, judged, notes)
    for line in (*_short(list(_summaries(runs, judged)), "run"), *_short(notes, "note")):
        say(line)
    if better == "lower":
        for log in filter(None, (run.log for run in runs.values())):
            log[f"-{judged}"] = [None if value is None else -value for value in log[judged]]
        judged = f"-{judged}"
    variants = list(dict.fromkeys(variant for _, variant, _ in runs))
    if baseline is not None and baseline not in variants:
        raise unknown("baseline", baseline, variants)
    described = StoredStudy(
        name=study,
        title=study,
        claim=f"does it matter which of {', '.join(variants)} is used?",
        claim_source="",
        baseline=baseline or variants[0],
        margin=margin,
        margin_in_metric=margin_in_metric,
        metric=judged,
    )
    return _write(results, described, runs)


def _refuse_other(results: Path, study: str) -> None:
    try:
        plan = read_plan(results, study)
    except UserError:  # no plan, or a damaged plan, which is replaced
        return
    if not plan.imported:
        raise UserError(f"study '{study}' was trained here: import under another name")


def _short(lines: Sequence[str], noun: str) -> list[str]:
    return shortened(lines, SHOWN, f"and {count(len(lines) - SHOWN, f'more {noun}')}")


def _summaries(runs: Mapping[Place, Run], metric: str) -> Iterator[str]:
    root = os.path.commonpath([run.file.absolute().parent for run in runs.values()])
    for (task, variant, seed), (file, log, _) in runs.items():
        if log is not None:
            steps, empty = log["step"], sum(value is None for value in log[metric])
            gaps = f", {empty:,} without a value of {metric}" if empty else ""
            yield (
                f"'{file.absolute().relative_to(root)}': task {task}, variant {variant}, seed "
                f"{seed}: "
                f"{count(len(steps), 'point')}{gaps}, step {steps[0]:,} to {steps[-1]:,}"
            )


def _judged(logs: Sequence[Source], metric: str | None) -> str:
    """Return the metric to compare: the requested one, the only one, or the first known return."""
    metrics = dict.fromkeys(name for source in logs for name in source.metrics)
    if not metrics:
        raise UserError(f"'{logs[0].path}' has no values")
    only = next(iter(metrics)) if len(metrics) == 1 else None
    judged = metric or only or next((name for name in RETURNS if name in metrics), None)
    if judged is None:
        names = ", ".join(metrics)
        raise UserError(f"'{logs[0].path}' has several metrics: name one with --metric: {names}")
    if judged not in metrics:
        raise unknown("column", judged, metrics, of=f"'{logs[0].path}'")
    return judged


def _runs(logs: Sequence[Source], metric: str, notes: list[str]) -> dict[Place, Run]:
    runs: dict[Place, Run] = {}
    for source in logs:
        if metric not in source.metrics:
            notes.append(f"skipped '{source.name}': it has no {metric}")
            continue
        with naming(source.path):
            own = dict(_read(source, metric, notes))
        for task, variant, seed in own.keys() & runs.keys():
            raise UserError(
                f"'{runs[task, variant, seed].file}' and '{source.path}' are both run '{variant}' "
                f"on '{task}', seed {seed}: name their difference with --pattern, or leave one out"
            )
        runs |= own
    copies: dict[tuple[str, str, str], int] = {}
    for (task, variant, seed), run in runs.items():
        if run.log is not None and len(run.log["step"]) > 1:
            curve = repr([run.log["step"], run.log[metric]])
            if (same := copies.setdefault((task, variant, curve), seed)) != seed:
                seeds = f"seeds {same} and {seed} of '{variant}' on '{task}'"
                notes.append(f"{seeds} have the same curve: is one a copy?")
    return runs


def _read(source: Source, metric: str, notes: list[str]) -> Iterator[tuple[Place, Run]]:
    """Yield the runs of a source.

    In a table of runs each row is a point. In the log of one run the points are the rows with the
    metric, and values of other metrics at the same steps are kept.
    """
    rows_by_fields: dict[str, list[Row]] = {}
    keys = [column for key, column in source.keys.items() if key in RUN]
    for row in source.rows:
        rows_by_fields.setdefault(repr([row[1].get(column) for column in keys]), []).append(row)
    groups: dict[Place, list[Row]] = {}
    for rows in rows_by_fields.values():
        groups.setdefault(source.place(rows[0]), []).extend(rows)
    if "step" not in source.keys:
        known = ", ".join(columns_of(source.rows))
        raise UserError(f"no known column of steps: name it with --step; columns: {known}")
    step = source.keys["step"]
    others = [column for column in source.metrics if column != metric]
    if texts := [column for column in others if floats(source.rows, column)[1]]:
        task = "" if "task" in source.keys else f"; if one names the tasks: --task {texts[0]}"
        notes.append(f"'{source.name}': skipped columns of text: {', '.join(texts)}{task}")
        others = [column for column in others if column not in texts]
    for place, rows in groups.items():
        stated = _stated(source, rows[-1]) if "status" in rows[0][1] else None
        log, table = None, source.is_table
        if table:
            rows = [row for row in rows if metric in row[1]]
            rows = [rows[k] for k in np.argsort(floats(rows, step)[0], kind="stable")]
        if rows:
            own: list[str] = []
            log = points(str(source.path), rows, metric, step, others, own, table=table)
            log = log if table else _joined(log, metric)
            notes += (f"'{source.name}': {note}" for note in own)
        if log or stated:
            yield place, Run(source.path, log, stated)


def _joined(log: Columns, metric: str) -> Columns:
    """Return the log of one run at the steps of its metric, averaging values at the same step."""
    frame = pd.DataFrame(log, dtype=object)
    given = frame.map(lambda value: value is not None).groupby(frame["step"]).any()
    given = given[given[metric]]
    means = frame.astype(float).groupby(frame["step"]).mean().loc[given.index].astype(object)
    kept = given.columns[given.any()].drop("step")
    return {"step": means.index.tolist()} | {
        name: means[name].where(given[name], None).tolist() for name in kept
    }


def _stated(source: Source, row: Row) -> Outcome:
    fields = row[1]
    status, step = fields["status"], number(fields.get(source.keys.get("step", "")))
    if status not in ("done", "failed", "missing"):
        why = f"status '{status}': expected done, failed or missing"
        raise UserError(f"'{source.path}', line {row[0]}: {why}")
    if status != "failed":
        return Outcome(str(status))
    failure: Failure = "error"
    for kind in get_args(Failure):
        failure = kind if fields.get("failure") == kind else failure
    reason = str(fields.get("reason") or "failed where it ran")
    return Outcome("failed", failure, reason, None if step is None or step % 1 else int(step))


# Records and plan


def _write(results: Path, study: StoredStudy, runs: Mapping[Place, Run]) -> pd.DataFrame:
    tasks, variants, seeds = (list(dict.fromkeys(names)) for names in zip(*runs, strict=True))
    longest = dict.fromkeys(tasks, 0)
    for (task, _, _), run in runs.items():
        longest[task] = max(longest[task], int(run.log["step"][-1] or 0) if run.log else 0)
    cells, rows = [], []
    for task, seed, variant in itertools.product(tasks, sorted(seeds), variants):
        file, log, stated = runs.get((task, variant, seed), (None, None, None))
        outcome = stated or _outcome(log, study.metric, longest[task])
        config: Configuration = {
            "imported": None,
            "study": study.name,
            "task": {"name": task, "settings": {}},
            "variant": variant,
            "seed": seed,
        }
        if file is not None and outcome.status != "missing":
            columns = _columns(log, study.metric, outcome, ended=stated is not None)
            config["imported"] = {"data": _checksum(columns, outcome), "file": file.name}
            record = Record(
                digest(config),
                config,
                "failed" if outcome.status == "failed" else "done",
                outcome.failure,
                outcome.reason,
                outcome.failed_step,
                provenance={"imported": file.name, "versions": {}},
            )
            write_record(results, record, columns)
        cells.append(CellEntry(task, variant, seed, digest(config), config))
        length = (len(log["step"]), log["step"][-1]) if log else (0, None)
        rows.append((task, variant, seed, outcome.status, outcome.reason, *length, file))
    plan = Plan(
        request={"imported": study.name},
        study=study,
        variants={name: StoredVariant(versus=None, summary="", sets={}) for name in variants},
        tasks={task: StoredTask(longest[task], settings={}, summary="") for task in tasks},
        cells=tuple(cells),
    )
    write_plan(results, plan)
    return pd.DataFrame(rows, columns=[*RUN, "status", "reason", "points", "last", "source"])


def _outcome(log: Columns | None, metric: str, longest: int) -> Outcome:
    """Return the outcome of a run, from its curve.

    The run diverged if its metric is not finite up to its end. It was cut if it ends before 90% of
    the steps of its task's longest run.
    """
    if log is None:
        return Outcome("missing")
    curve = logged(log["step"], log[metric], longest)
    at = int(curve.end)
    if curve.status == "diverged":
        return Outcome("failed", "diverged", diverged(metric, at), at)
    if curve.status == "cut":
        reason = f"ended early: its log stops at step {at:,} of {longest:,}"
        return Outcome("failed", "cut", reason, at)
    return Outcome()


def _columns(log: Columns | None, metric: str, outcome: Outcome, *, ended: bool) -> Columns:
    """Return the columns of a record, without points that have no value, the metric first.

    NaN of a diverged metric is kept unless the file states the outcome (`ended`).
    """
    if log is None:
        steps: list[float | None] = [] if outcome.failed_step is None else [outcome.failed_step]
        return {"step": steps, metric: [None] * len(steps)}
    columns = {name: log[name] for name in ("step", metric, *sorted(log.keys() - {"step", metric}))}
    if ended:
        columns = {n: [None if v != v else v for v in values] for n, values in columns.items()}
    return with_values(columns)


def _checksum(columns: Columns, outcome: Outcome) -> str:
    """Return the checksum of the data and of the outcome, which may depend on other runs."""
    sums = hashlib.sha256(repr(outcome).encode())
    for name, values in columns.items():
        sums.update(name.encode() + b"\0" + np.array(values, np.float64).tobytes())
    return sums.hexdigest()
