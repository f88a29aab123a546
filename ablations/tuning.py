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
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ablations.engine.job import CheckpointPolicy
from ablations.engine.local import Processes
from ablations.engine.plan import plan
from ablations.errors import UserError
from ablations.records import Plan, read_record, write_atomically
from ablations.request import Request
from ablations.runs import Runs
from ablations.studies import study
from ablations.studies.definition import OfTask, Tuned

RULE = (
    "the highest mean over seeds of the mean metric over the last tenth of training; of equal "
    "means the smallest value; never a value with a failed seed"
)
MOST_EXTENSIONS = 6  # of the values of a task


def tune(name: str, results: Path, *, workers: int | None = None, quiet: bool = False) -> Tuned:
    """Train the missing runs of a tuning, write its file, and return the content.

    Raises:
        UserError: the study has no tuning, a best value stays the first or the last one, or all
            values of a variant fail.
    """
    tuned = study(name)
    tuning = tuned.tuning
    if tuning is None:
        raise UserError(f"study '{name}' has no tuning: add tuning=Tuning(...) to its definition")
    tasks, folder = tuned.profiles[tuning.profile].tasks, results / "tuning"
    checkpoints = CheckpointPolicy(snapshots=0)
    executor = Processes(workers, checkpoints=checkpoints, quiet=quiet, output=sys.stderr)
    processors = set[str]()

    def train(tasks: Sequence[str], values: Sequence[float]) -> list[Plan]:
        request = Request(name, tuning.profile, tuple(tasks), seeds=tuning.seeds)
        plans = [plan(replace(request, set={tuning.setting: value})) for value in values]
        executor.run(plans, folder)
        return plans

    def measure(task: str, values: Sequence[float]) -> OfTask:
        measured: OfTask = {}
        for value, made in zip(values, train([task], values), strict=True):
            for run in Runs.read(folder, made, tuned.metric, "final").runs.itertuples():
                score = round(run.score, 4) if run.status == "done" else None
                of_values = measured.setdefault(run.variant, {})
                of_values.setdefault(f"{value:g}", []).append(score)
                if record := read_record(folder, run.hash):
                    processors.add(str(record.provenance.get("processor", "unknown")))
        return measured

    train(tasks, tuning.grid)  # of all tasks together: their programs compile in parallel
    scores = {task: extended(tuning.grid, partial(measure, task)) for task in tasks}
    content: Tuned = {
        "study": name,
        "setting": tuning.setting,
        "metric": tuned.metric,
        "rule": RULE,
        "seeds": list(tuning.seeds),
        "command": f"ablations tune {name}",
        "machine": sorted(processors),
        "chosen": {
            task: {variant: best(of_values) for variant, of_values in measured.items()}
            for task, measured in scores.items()
        },
        "scores": scores,
    }
    write_atomically(tuning.file, _json(content))
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
    """Extend the values until no variant's best is the first or the last; return the scores."""
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


def _json(content: Tuned) -> str:
    text = json.dumps(content, indent=1)
    return re.sub(r"\[\n[^][{}]*\]", lambda match: json.dumps(json.loads(match[0])), text) + "\n"


def table(content: Tuned) -> pd.DataFrame:
    """Return a row per task and variant: the mean score at each value, * at the chosen one.

    A failed run counts as 0.
    """
    rows: list[dict[str, str]] = []
    for task, variants in content["scores"].items():
        for variant, scores in variants.items():
            chosen = f"{content['chosen'][task][variant]:g}"
            rows.append({"task": task, "variant": variant})
            for value, of_seeds in scores.items():
                mean = np.mean([score or 0.0 for score in of_seeds])
                rows[-1][value] = f"{mean:.3f}{'*' * (value == chosen)}"
    frame = pd.DataFrame(rows)
    frame = frame[["task", "variant", *sorted(frame.columns[2:], key=float)]]
    frame.attrs["caption"] = (
        f"{content['study']}: {content['metric']} by {content['setting']}, mean over seeds "
        f"{content['seeds'][0]} to {content['seeds'][-1]}, which no other table uses. *: "
        f"{content['rule']}. Made by `{content['command']}` on {', '.join(content['machine'])}."
    )
    return frame
