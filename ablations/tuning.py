"""`ablations tune`: chooses the best value of a setting per task and variant, on separate seeds.

All variants of a task get the same values. If the best value of a variant is the first or the last,
the values are extended for all variants. The runs are those of `ablations run STUDY --set
SETTING=VALUE`, in a separate folder, results/tuning, so that no table includes them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ablations.engine.job import Cell, CheckpointPolicy, cells_of, distinct
from ablations.engine.local import Processes
from ablations.engine.plan import plan
from ablations.engine.prepare import clear_the_way, require_writable
from ablations.errors import UserError
from ablations.records import read_curve, read_record, write_atomically
from ablations.request import Request
from ablations.scoring import final
from ablations.studies import Study, study
from ablations.studies.definition import OfTask, Tuned, Tuning

RULE = (
    "the highest mean over seeds of the mean metric over the last tenth of training; of equal "
    "means the smallest value; never a value with a failed seed"
)
MOST_EXTENSIONS = 6  # of the values of a task


def tune(
    name: str,
    results: Path,
    *,
    tasks: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
    output: Path | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> Tuned:
    """Train the missing runs of a tuning, write its file, and return the content.

    Args:
        name: of the study.
        results: the results folder.
        tasks: to tune again; other tasks keep their values in the file.
        variants: to tune again; other variants keep their values in the file.
        output: the file; default: the study's.
        workers: number of processes; None: one per core.
        quiet: print nothing.

    Raises:
        UserError: the study has no tuning, a best value stays the first or the last one, or all
            values of a variant fail.
    """
    tuned = study(name)
    tuning = tuned.tuning
    if tuning is None:
        raise UserError(f"study '{name}' has no tuning: add tuning=Tuning(...) to its definition")
    file = output or tuning.file
    profile = tuned.profiles[tuning.profile]
    tasks = tuple(tasks or profile.tasks)
    variants = tuple(variants or profile.variants or tuned.variants)
    before = tuning.read() if file == tuning.file else {}
    scores, chosen = dict(before.get("scores", {})), dict(before.get("chosen", {}))
    processors = set(before.get("machine", ()))

    def train(runs: Sequence[tuple[float, Cell]]) -> None:
        folder = results / "tuning"
        require_writable(folder)
        cells = distinct([cell for _, cell in runs])
        work = clear_the_way(cells, folder, say=lambda line: print(line, file=sys.stderr))
        checkpoints = CheckpointPolicy(snapshots=0)
        executor = Processes(workers, checkpoints=checkpoints, quiet=quiet, output=sys.stderr)
        executor.carry_out(work, folder, f"tuning of {name}")

    # First all tasks together, so that their programs compile in parallel; then extensions.
    train([run for task in tasks for run in _runs(tuned, tuning, task, variants, tuning.grid)])
    for task in tasks:

        def measure(values: Sequence[float], task: str = task) -> OfTask:
            runs = _runs(tuned, tuning, task, variants, values)
            train(runs)
            return _scores(runs, tuned.metric, results / "tuning", processors)

        measured = extended(tuning.grid, measure)
        scores[task] = {**scores.get(task, {}), **measured}
        best_values = {variant: best(of_values) for variant, of_values in measured.items()}
        chosen[task] = {**chosen.get(task, {}), **best_values}
    content: Tuned = {
        "study": name,
        "setting": tuning.setting,
        "metric": tuned.metric,
        "rule": RULE,
        "seeds": list(tuning.seeds),
        "command": f"ablations tune {name}",
        "machine": sorted(processors),
        "chosen": chosen,
        "scores": scores,
    }
    write_atomically(file, _json(content))
    return content


def best(of_values: Mapping[str, Sequence[float | None]]) -> float:
    """Return the best value by `RULE`. Raises UserError if all values failed."""
    means = {
        float(value): float(np.mean(np.array(scores, np.float64)))
        for value, scores in of_values.items()
        if None not in scores
    }
    if not means:
        raise UserError("all values of a variant failed: tune over smaller values")
    return min(means, key=lambda value: (-means[value], value))


def extended(grid: Sequence[float], measure: Callable[[Sequence[float]], OfTask]) -> OfTask:
    """Extend the values until no variant's best is the first or the last; return the scores.

    Raises:
        UserError: one still is after `MOST_EXTENSIONS`.
    """
    values = list(grid)
    for _ in range(MOST_EXTENSIONS + 1):
        measured = measure(values)
        bests = {best(of_values) for of_values in measured.values()}
        lower, higher = values[0] in bests, values[-1] in bests
        if not (lower or higher):
            return measured
        ends = f"{values[0]:g} to {values[-1]:g}"
        values = [next_value(*values[:3])] * lower + values
        values += [next_value(*values[:-4:-1])] * higher
    raise UserError(
        f"the best value of a variant is still at the edge of {ends}: the setting may have no "
        f"effect"
    )


def next_value(edge: float, inner: float, third: float) -> float:
    """Return the next value of a geometric grid: 3e-3 after 1e-3, 3e-4 and 1e-4."""
    return float(f"{inner * edge / third:.3g}")


def _runs(
    tuned: Study, tuning: Tuning, task: str, variants: Sequence[str], values: Sequence[float]
) -> list[tuple[float, Cell]]:
    request = Request(
        tuned.name, tuning.profile, tasks=(task,), variants=tuple(variants), seeds=tuning.seeds
    )
    return [
        (value, cell)
        for value in values
        for cell in cells_of(plan(replace(request, set={tuning.setting: value})))
    ]


def _scores(
    runs: Sequence[tuple[float, Cell]], metric: str, folder: Path, processors: set[str]
) -> OfTask:
    scores: OfTask = {}
    for value, cell in runs:
        record = read_record(folder, cell.hash)
        assert record is not None
        processors.add(str(record.provenance.get("processor", "unknown")))
        score = None
        if record.status == "done":
            curve = read_curve(folder, record)
            score = round(final(*(np.array(curve[x], np.float64) for x in ("step", metric))), 4)
        scores.setdefault(cell.variant, {}).setdefault(f"{value:g}", []).append(score)
    return scores


def _json(content: Tuned) -> str:
    text = json.dumps(content, indent=1)
    return re.sub(r"\[\n[^][{}]*\]", lambda match: json.dumps(json.loads(match[0])), text) + "\n"


def table(content: Tuned) -> pd.DataFrame:
    """Return a row per task and variant: the mean score at each value, * at the chosen one.

    common: mean score at the value that is best on average over variants. step: mean loss at the
    two neighbours of the chosen value. A failed run counts as 0.
    """
    rows, values = [], set()
    for task, variants in content["scores"].items():
        means = pd.DataFrame(
            {
                variant: {float(value): np.mean([x or 0.0 for x in s]) for value, s in own.items()}
                for variant, own in variants.items()
            }
        ).sort_index()
        common = means.mean(axis=1).idxmax()
        values |= set(means.index)
        for variant in map(str, means):
            scores, chosen = means[variant].dropna(), content["chosen"][task][variant]
            index = scores.index.get_loc(chosen)
            beside = [scores.iloc[i] for i in (index - 1, index + 1) if 0 <= i < len(scores)]
            row = {value: f"{x:.3f}{'*' * (value == chosen)}" for value, x in scores.items()}
            row |= {"task": task, "variant": variant}
            row |= {"common": f"{scores[common]:.3f} ({common:g})"}
            rows.append(row | {"step": f"{scores[chosen] - np.mean(beside):.3f}"})
    frame = pd.DataFrame(rows, columns=["task", "variant", *sorted(values), "common", "step"])
    frame.attrs["caption"] = (
        f"{content['study']}: {content['metric']} by {content['setting']}, mean over seeds "
        f"{content['seeds'][0]} to {content['seeds'][-1]}, which no other table uses. *: "
        f"{content['rule']}. common: at the value that is best on average over variants. step: "
        f"mean loss at the two neighbours of the best value. Made by `{content['command']}` on "
        f"{', '.join(content['machine'])}."
    )
    return frame.rename(columns=lambda name: name if isinstance(name, str) else f"{name:g}")
