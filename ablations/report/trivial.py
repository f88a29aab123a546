"""Policies that learn nothing: what a score of a task has to beat."""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from msgspec.structs import replace

from ablations.core.record import Configuration
from ablations.errors import UserError
from ablations.records import Plan, canonical, plans_folder, read_plan, read_runs
from ablations.report.results import Once, Results
from ablations.report.scores import EVALUATION

STUDY = "trivial_policies"  # which evaluates them
SEEDS = 5


@dataclass(frozen=True)
class Trivial:
    """Policies that learn nothing on a task.

    scores: policy -> the score of each seed, a mean over all of its evaluations.
    """

    scores: Mapping[str, tuple[float, ...]]

    @property
    def floor(self) -> float:
        """The mean score of the better one."""
        return max(map(fmean, self.scores.values()))


@Once
def trivial(results: Results, metric: str) -> Mapping[str, Trivial]:
    """Return the policies that learn nothing, by task, where both were evaluated.

    They are those of any selection of the study `trivial_policies`, with the very settings of the
    task that the baseline has. {} for a metric that is no evaluation.
    """
    plan = results.plan
    if not metric.startswith(EVALUATION) or plan.study.name == STUDY or plan.study.margin_in_metric:
        return {}
    tasks = {_settings(plan, task): task for task in plan.tasks}
    scores: dict[str, dict[str, dict[int, float]]] = {task: {} for task in plan.tasks}
    for path in sorted(plans_folder(results.folder, STUDY).glob("*.json")):
        with contextlib.suppress(UserError):
            stored = read_plan(results.folder, STUDY, path.stem)
            cells = tuple(c for c in stored.cells if canonical(c.config.get("task")) in tasks)
            for cell, record, columns in read_runs(results.folder, replace(stored, cells=cells)):
                values = [v for v in columns.get(metric, ()) if v is not None and math.isfinite(v)]
                if record is not None and values:
                    task = tasks[canonical(cell.config.get("task"))]
                    scores[task].setdefault(cell.variant, {})[cell.seed] = fmean(values)
    return {
        task: Trivial({policy: tuple(of[policy].values()) for policy in sorted(of, reverse=True)})
        for task, of in scores.items()
        if len(of) > 1
    }


def command(plan: Plan) -> str | None:
    """Return the commands that evaluate them on the tasks of a plan, in one line.

    None where its tasks have no episodes of a stated length, as those of a command or of language.
    """
    commands = []
    for task in plan.tasks:
        config = _of_baseline(plan, task)
        settings = config.get("task")
        if not isinstance(settings, Mapping) or "episode_length" not in settings["settings"]:
            return None
        run = {name: config["run"][name] for name in ("evaluations", "evaluation_envs")}
        options = " ".join(
            shlex.quote(f"{name}={value if isinstance(value, str) else json.dumps(value)}")
            for name, value in {**dict(sorted(settings["settings"].items())), **run}.items()
        )
        commands.append(f"ablations run {STUDY} --tasks {task} --seeds {SEEDS} --set {options}")
    return "; ".join(commands)


def _of_baseline(plan: Plan, task: str) -> Configuration:
    """Return the baseline's configuration on a task, the first variant's without one."""
    cells = [cell for cell in plan.cells if cell.task == task]
    own = [cell for cell in cells if cell.variant == plan.study.baseline]
    return next((cell.config for cell in own or cells), Configuration())


def _settings(plan: Plan, task: str) -> str:
    return canonical(_of_baseline(plan, task).get("task"))
