"""Runs: a frame with one row per run, and a frame with one row per logged point.

All analyses take a `Runs`. `Runs.read` reads stored runs, trained here or imported;
`Runs.from_frame` takes any data frame.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from msgspec import structs

from ablations import plugins
from ablations.core.record import Columns
from ablations.curve import Curve, diverged, diverged_from, logged
from ablations.errors import UserError, unknown
from ablations.io.archives import restore
from ablations.records import UNTRAINED, Plan, Record, digest, plans_folder, read_plan, read_runs
from ablations.scoring import NO_RANGE, SCORES, Floats, beyond_untrained, learned_range
from ablations.stats import are_successes

RUN = ["task", "variant", "seed"]
OUTCOME = ["status", "score", "reason", "diverged", "bits"]
STATUSES = ("done", "failed", "missing")
ALL_TASKS = "all tasks"
EVALUATION = "evaluation/"  # prefix of evaluation metrics
UNTRAINED_SEEDS = 5
_Outcome = tuple[str, float, str, bool, str]


class _Ended(NamedTuple):
    """A run that is done or failed. `bits` is the digest of its curve, or where it failed."""

    status: str
    bits: str
    hash: str


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of one study, scored by one metric.

    Attributes:
        runs: a row per planned run, with task, variant, seed, status (done, failed or missing),
            score (NaN unless done and the metric has a value in the scored window) and reason.
            Stored runs also have `diverged` (training failed, not the machine), `hash` (of the
            configuration), `settings` (digest of the task's settings) and `bits` (digest of the
            curve).
        curves: a row per logged point of a finished run, with task, variant, seed, step, and a
            column per metric (NaN: no value at this step).
        metric: the metric of the scores.
        baseline: of the study; "" if it is not among the runs.
        versus: variant -> the variant that it is compared with; baselines map to themselves.
        score: a name in `scoring.SCORES`.
        margin: the smallest relevant difference, as a share of the learned range, or with
            `margin_in_metric` in units of the metric.
        directed: whether higher is better. Otherwise differences have intervals but no verdicts.
        untrained: task -> policy -> scores of its seeds; {} unless evaluated on every task.
        same_as: variant -> the first variant with the same configuration.
        plan, folder: of stored runs.
        metrics: names of all logged metrics.
        versions: notes on other package versions or edited plugins among the runs.
    """

    runs: pd.DataFrame
    curves: pd.DataFrame
    metric: str
    baseline: str
    versus: Mapping[str, str]
    score: str = "final"
    margin: float = 0.05
    margin_in_metric: bool = False
    directed: bool = True
    untrained: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    same_as: Mapping[str, str] = field(default_factory=dict)
    plan: Plan | None = None
    folder: Path | None = None
    metrics: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()

    # Making

    @classmethod
    def from_frame(  # noqa: PLR0913 - each names a column
        cls,
        frame: pd.DataFrame,
        *,
        baseline: str,
        value: str = "value",
        task: str = "task",
        variant: str = "variant",
        seed: str = "seed",
        step: str = "step",
        score: str = "final",
        margin: float = 0.05,
        margin_in_metric: bool = False,
    ) -> Runs:
        """Return the runs of a long table with one row per logged point.

        Args:
            frame: columns of variants, seeds and values. A column of steps is optional if each run
                has one row, its score; a column of tasks is optional if there is one task. A column
                `status` may mark failed runs. Without it, a run failed if its values end in an
                infinity, or in more consecutive NaN than it has elsewhere.
            baseline: the variant that the others are compared with.
            value: the column of values; it is also the metric's name.
            task: the column of tasks.
            variant: the column of variants.
            seed: the column of seeds.
            step: the column of steps.
            score: "final" (mean over the last tenth of training), "auc", "last" or "mean".
            margin: the smallest relevant difference, as a share of the learned range.
            margin_in_metric: whether the margin is in units of the values.

        Raises:
            UserError: a column is missing or has invalid values, or a run has two rows for a step.
        """
        names = {task: "task", variant: "variant", seed: "seed", step: "step"}
        hidden = [name for given, name in names.items() if name != given and name in frame]
        frame = frame.drop(columns=hidden if value not in hidden else []).rename(columns=names)
        frame = frame if "task" in frame else frame.assign(task="all")
        has_steps = "step" in frame
        frame = frame if has_steps else frame.assign(step=0)
        _require(frame, ["variant", "seed", value])
        frame = frame.astype({"task": str, "variant": str})
        for column in ("seed", "step"):
            numbers = pd.to_numeric(frame[column], errors="coerce")
            if not (numbers % 1 == 0).all():
                raise UserError(f"the column of {column}s must have whole numbers")
            frame = frame.assign(**{column: numbers.astype(np.int64)})
        if score not in SCORES:
            raise unknown("score", score, SCORES)
        duplicates = frame[frame.duplicated([*RUN, "step"])]
        if len(duplicates):
            row = duplicates.iloc[0]
            name = f"task '{row.task}', variant '{row.variant}', seed {row.seed}"
            raise UserError(
                f"two values for step {row['step']} of {name}: name the column in which they "
                "differ, for example task="
                if has_steps
                else f"several rows for {name}: name the column of steps with step="
            )
        order = [pd.factorize(frame[name])[0] for name in ("variant", "task")]
        frame = frame.iloc[np.lexsort((frame["step"], frame.seed, *order))].reset_index(drop=True)
        runs = _rows(frame, value, score)
        unknown_status = set(runs.status) - set(STATUSES)
        if unknown_status:
            raise unknown("status", min(unknown_status), STATUSES)
        variants, baseline = list(runs.variant.unique()), str(baseline)
        if baseline not in variants:
            raise unknown("baseline", baseline, variants)
        done = runs.set_index(RUN).status.eq("done")
        curves = frame[done.reindex(pd.MultiIndex.from_frame(frame[RUN])).to_numpy()]
        metrics = frame.select_dtypes("number").columns.difference([*RUN, "step"])
        return cls(
            runs,
            curves if has_steps else curves.iloc[:0],
            value,
            baseline,
            dict.fromkeys(variants, baseline),
            score,
            margin,
            margin_in_metric,
            metrics=tuple(metrics) if has_steps else (value,),
        )

    @classmethod
    def read(
        cls,
        results: str | Path,
        study: str | Plan,
        metric: str | None = None,
        score: str | None = None,
        columns: Sequence[str] = (),
    ) -> Runs:
        """Read the runs of a study from a results folder and its archives.

        Args:
            results: the folder.
            study: a plan, or the name of a study for its last plan.
            metric: a column of the curves; default: the study's metric.
            score: default: the study's score for evaluations, "final" for other metrics.
            columns: further metrics for `curves`.

        Raises:
            UserError: the study has no runs here, or the metric or score is unknown.
        """
        folder = Path(results)
        if isinstance(study, str):
            restore(folder, [study])
            study = read_plan(folder, study)
        plan, stated = study, study.study
        metric = metric or stated.metric
        score = score or (stated.score if metric.startswith(EVALUATION) else None) or "final"
        if score not in SCORES:
            raise unknown("score", score, SCORES)
        rows, points, made_with = [], [], []
        metrics: tuple[str, ...] = ()
        for cell, record, logs in read_runs(folder, plan, {metric, *columns}):
            outcome: _Outcome = ("missing", math.nan, "", False, "")
            if record is not None:
                made_with.append(record.provenance)
                outcome = _outcome(record, logs, metric, score)
            if outcome[0] == "done":
                points.append((cell.place, logs))
                metrics = metrics or tuple(name for name in logs if name != "step")
            rows.append((*cell.place, *outcome, cell.hash, digest(cell.config.get("task"))))
        variants = list(plan.variants)
        versus = {name: plan.variants[name].versus or stated.baseline for name in variants}
        directed = metric == stated.metric or metric.rpartition("/")[2] == "return"
        untrained = read_untrained(plan, folder, metric)
        return cls(
            pd.DataFrame(rows, columns=[*RUN, *OUTCOME, "hash", "settings"]).astype(
                {"seed": np.int64, "score": np.float64, "diverged": bool}
            ),
            _points_of(points, [*dict.fromkeys((metric, *columns))]),
            metric,
            stated.baseline if stated.baseline in variants else "",
            versus,
            score,
            stated.margin,
            stated.margin_in_metric,
            directed,
            untrained if set(untrained) == set(plan.tasks) else {},
            {name: plan.variants[name].same_as or name for name in variants},
            plan,
            folder,
            metrics,
            (
                *_other_versions(made_with, len(plan.cells)),
                *plugins.edited([each.get("plugins", {}) for each in made_with]),
            ),
        )

    def where(self, kept: pd.Series) -> Runs:
        """Return the runs that a boolean per row of `runs` selects."""
        runs = self.runs[kept]
        names = pd.MultiIndex.from_frame(runs[RUN])
        curves = self.curves[pd.MultiIndex.from_frame(self.curves[RUN]).isin(names)]
        return replace(self, runs=runs, curves=curves)

    def below(self, seeds: int) -> Runs:
        """Return the runs of the seeds below a number."""
        if seeds not in self._below:
            self._below[seeds] = self.where(self.runs.seed < seeds)
        return self._below[seeds]

    @cached_property
    def _below(self) -> dict[int, Runs]:
        """A cache: every comparison needs the same stages."""
        return {}

    # Names

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks, in the order of the plan."""
        return list(self.plan.tasks) if self.plan else list(self.runs.task.unique())

    @cached_property
    def variants(self) -> list[str]:
        """The variants, in an order in which each follows the variant that it is compared with."""

        def from_head(head: str) -> Iterator[str]:
            yield head
            for name, versus in self.versus.items():
                if versus == head != name:
                    yield from from_head(name)

        heads = [name for name, versus in self.versus.items() if versus == name]
        ordered = itertools.chain(*map(from_head, heads), self.versus)
        return list(dict.fromkeys(ordered))

    def source(self, variant: str) -> str:
        """Return the variant whose learned range applies to a variant."""
        versus = self.versus[variant]
        return versus if versus in self.versus else variant

    def settings(self, task: str, variant: str) -> str:
        """Return the digest of the task's settings in a variant's runs."""
        return self._settings.get((task, variant), "")

    @cached_property
    def _settings(self) -> dict[tuple[str, str], str]:
        if "settings" not in self.runs:
            return {}
        settings: dict[Any, str] = self.runs.groupby(["task", "variant"]).settings.first().to_dict()
        return settings

    # Numbers

    @cached_property
    def scores(self) -> pd.DataFrame:
        """The scores: a row per seed, a column per (task, variant); NaN: no score."""
        return self.runs.pivot(index="seed", columns=["task", "variant"], values="score")

    def paired(self, tasks: Sequence[str], variants: Sequence[str]) -> Floats:
        """Return scores `[tasks, variants, n]` on the n seeds that are complete."""
        none = np.full(len(self.scores), math.nan)
        names = itertools.product(tasks, variants)
        scores = np.array([self._scores.get(name, none) for name in names])
        scores = scores[:, ~np.isnan(scores).any(axis=0)]
        return scores.reshape(len(tasks), len(variants), scores.shape[1])

    @cached_property
    def _scores(self) -> dict[Any, Floats]:
        return {name: column.to_numpy() for name, column in self.scores.items()}

    @cached_property
    def of_successes(self) -> frozenset[str]:
        """The tasks whose scores are all 0 or 1 (success), if higher is better."""
        if not self.directed:
            return frozenset()
        scores = self.runs[self.runs.score.notna()].groupby("task").score
        return frozenset(task for task, values in scores if are_successes(values.to_numpy()))

    @cached_property
    def counts(self) -> pd.DataFrame:
        """Numbers of runs by status, and of finished runs without a score (`empty`)."""
        keys = [self.runs.task, self.runs.variant]
        table = pd.crosstab(keys, self.runs.status).reindex(columns=STATUSES, fill_value=0)
        empty = (self.runs.status == "done") & self.runs.score.isna()
        return table.assign(empty=empty.groupby(keys).sum())

    def failures(self, tasks: Sequence[str], variant: str, other: str) -> int:
        """Return the failed runs of a variant minus those of another, on shared seeds."""
        pairs = self._both(tasks, variant, other)
        return sum((a.status == "failed") - (b.status == "failed") for a, b in pairs)

    def identical(self, tasks: Sequence[str], variant: str, other: str) -> bool:
        """Return whether the curves of two variants are equal bit by bit on every shared seed.

        Runs that failed at the same step count as equal, unless all failed.
        """
        pairs = self._both(tasks, variant, other)
        same = all(
            (a.bits, a.status) == (b.bits, b.status) or a.hash == b.hash != "" for a, b in pairs
        )
        return same and any(a.status == "done" or a.hash == b.hash != "" for a, b in pairs)

    def _both(self, tasks: Sequence[str], variant: str, other: str) -> list[tuple[_Ended, _Ended]]:
        sides = [
            (self._ended.get((t, variant), {}), self._ended.get((t, other), {})) for t in tasks
        ]
        return [(a[seed], b[seed]) for a, b in sides for seed in a.keys() & b.keys()]

    def complete(self, task: str, variant: str) -> int:
        """Return the n for which the seeds 0 to n - 1 have ended."""
        seeds = self._ended.get((task, variant), {})
        return next(seed for seed in itertools.count() if seed not in seeds)

    @cached_property
    def _ended(self) -> dict[tuple[str, str], dict[int, _Ended]]:
        """(task, variant) -> seed -> ended run."""
        rows = self.runs[self.runs.status != "missing"]
        # Without digests, all runs count as different.
        bits, hashes = rows.get("bits", rows.index), rows.get("hash", [""] * len(rows))
        ended: dict[tuple[str, str], dict[int, _Ended]] = {}
        columns = (rows.task, rows.variant, rows.seed, rows.status, bits, hashes)
        for task, variant, seed, *run in zip(*columns, strict=True):
            ended.setdefault((task, variant), {})[seed] = _Ended(*run)
        return ended

    # Curves

    def curves_of(self, task: str, variant: str, metric: str | None = None) -> dict[int, Curve]:
        """Return seed -> curve of finished runs."""
        metric = metric or self.metric
        if metric not in self.curves or (task, variant) not in self._points:
            return {}
        steps, values = self.curves["step"].to_numpy(), self.curves[metric].to_numpy(np.float64)
        return {
            seed: Curve(steps[at], values[at], steps[at[-1]])
            for seed, at in self._points[task, variant].items()
        }

    @cached_property
    def _points(self) -> dict[tuple[str, str], dict[int, Any]]:
        """(task, variant) -> seed -> rows of `curves`."""
        points: dict[tuple[str, str], dict[int, Any]] = {}
        runs = self.curves.groupby(RUN, sort=False).indices.items()
        for (task, variant, seed), at in sorted(runs, key=lambda run: run[0][2]):
            points.setdefault((task, variant), {})[int(seed)] = at
        return points

    # Learned ranges

    @cached_property
    def floors(self) -> dict[str, float]:
        """The mean score of the better untrained policy, by task."""
        return {
            task: max(float(scores.mean()) for scores in policies.values())
            for task, policies in self.untrained.items()
        }

    @cached_property
    def ranges(self) -> dict[tuple[str, str], tuple[float, float]]:
        """(task, variant) -> the ends of the learned range that applies to the variant.

        With untrained policies it goes from the better of them to the baseline's mean score; all
        variants with the baseline's settings of the task share it. Otherwise it goes from the
        lowest to the highest point of the smoothed mean curve of the variant's baseline. It is NaN
        if nothing was learned, and for a metric without a direction.

        With interim analyses the range comes from the first stage.
        """
        first = self.below(self.plan.looks.seeds[0]) if self.plan and self.plan.looks else self
        measured: dict[tuple[str, str], tuple[float, float]] = {}
        ranges = {}
        for task, variant in itertools.product(self.tasks, self.versus):
            head = task, self._head(task, self.source(variant))
            if head not in measured:
                measured[head] = first._range(*head)
            ranges[task, variant] = measured[head]
        return ranges

    def size(self, task: str, variant: str) -> float:
        """Return the size of a variant's learned range; 1 on all tasks, NaN without a range."""
        if task == ALL_TASKS:
            return 1.0
        low, high = self.ranges[task, variant]
        return high - low

    def ranged(self, variant: str) -> list[str]:
        """Return the tasks on which a variant has a learned range."""
        return [task for task in self.tasks if not math.isnan(self.size(task, variant))]

    def normalised(self, variant: str) -> dict[str, Floats]:
        """Return task -> scores `[n]`, with 0 and 1 at the ends of the learned range.

        It has tasks with a learned range, and seeds with a score on all of them.
        """
        tasks = self.ranged(variant)
        ends = [self.ranges[task, variant] for task in tasks]
        scores = self.paired(tasks, [variant])[:, 0] if tasks else ()
        each = zip(tasks, scores, ends, strict=True)
        return {task: (row - low) / (high - low) for task, row, (low, high) in each}

    def by_seed(self, task: str, variant: str) -> pd.Series[float]:
        """Return scores by seed; on all tasks these are means of normalised scores."""
        if task != ALL_TASKS:
            return self.scores.get((task, variant), pd.Series(dtype=float)).dropna()
        names = [(task, variant) for task in self.ranged(variant)]
        lows, highs = np.array([self.ranges[name] for name in names]).reshape(-1, 2).T
        scores = self.scores[names].dropna()
        return ((scores - lows) / (highs - lows)).mean(axis=1).dropna()

    def _head(self, task: str, source: str) -> str:
        """Return the variant whose runs define the learned range of a source.

        With untrained policies it is the baseline, if it has the same settings of the task.
        """
        same_task = self.settings(task, self.baseline) == self.settings(task, source)
        return self.baseline if self.untrained and self.baseline and same_task else source

    def _range(self, task: str, head: str) -> tuple[float, float]:
        if not self.directed or self.margin_in_metric:
            return (0.0, 1.0) if self.directed else NO_RANGE
        if not self.untrained:
            return learned_range(list(self.curves_of(task, head).values()))
        return beyond_untrained(self.floors[task], list(self.by_seed(task, head)))


# Untrained policies


def read_untrained(plan: Plan, folder: Path, metric: str) -> dict[str, dict[str, Floats]]:
    """Return task -> policy -> scores: the mean over all evaluations of each seed.

    It reads all plans of the study `trivial_policies` with the baseline's settings of the task, for
    tasks with at least two evaluated policies. The result is {} for metrics of training.
    """
    stated = plan.study
    if not metric.startswith(EVALUATION) or stated.name == UNTRAINED or stated.margin_in_metric:
        return {}
    tasks = {digest(_baseline_config(plan, task).get("task")): task for task in plan.tasks}
    scores: dict[str, dict[str, dict[int, float]]] = {task: {} for task in plan.tasks}
    for path in sorted(plans_folder(folder, UNTRAINED).glob("*.json")):
        with contextlib.suppress(UserError):
            stored = read_plan(folder, UNTRAINED, path.stem)
            cells = tuple(c for c in stored.cells if digest(c.config.get("task")) in tasks)
            for cell, record, columns in read_runs(folder, structs.replace(stored, cells=cells)):
                values = [v for v in columns.get(metric, ()) if v is not None and math.isfinite(v)]
                if record is not None and values:
                    task = tasks[digest(cell.config.get("task"))]
                    average = math.fsum(values) / len(values)
                    scores[task].setdefault(cell.variant, {})[cell.seed] = average
    return {
        task: {name: np.array([*seeds.values()]) for name, seeds in sorted(policies.items())[::-1]}
        for task, policies in scores.items()
        if len(policies) > 1
    }


def untrained_command(plan: Plan) -> str | None:
    """Return the commands that evaluate untrained policies on a plan's tasks, in one line.

    None if tasks have no episode_length, like the tasks of commands and of language.
    """
    commands = []
    for task in plan.tasks:
        config = _baseline_config(plan, task)
        settings = config.get("task")
        if not isinstance(settings, Mapping) or "episode_length" not in settings["settings"]:
            return None
        run = {name: config["run"][name] for name in ("evaluations", "evaluation_envs")}
        options = " ".join(
            shlex.quote(f"{name}={value if isinstance(value, str) else json.dumps(value)}")
            for name, value in {**dict(sorted(settings["settings"].items())), **run}.items()
        )
        commands.append(
            f"ablations run {UNTRAINED} --tasks {task} --seeds {UNTRAINED_SEEDS} --set {options}"
        )
    return "; ".join(commands)


def _baseline_config(plan: Plan, task: str) -> Mapping[str, Any]:
    """Return the configuration of the baseline on a task, or of the first variant without one."""
    cells = [cell for cell in plan.cells if cell.task == task]
    own = [cell for cell in cells if cell.variant == plan.study.baseline]
    return next((cell.config for cell in own or cells), {})


# Reading


def _outcome(record: Record, columns: Columns, metric: str, score: str) -> _Outcome:
    """Return the outcome of a record. Raises UserError if it is finished and lacks the metric."""
    if record.status == "failed":
        at = "" if record.failed_step is None else f"step {record.failed_step:,}"
        reason = ": ".join(filter(None, (at, (record.reason or "").strip().partition("\n")[0])))
        training_failed = record.failure in (None, "diverged")
        return "failed", math.nan, reason, training_failed, at or f"run {record.hash}"
    if metric not in columns:
        raise unknown("metric", metric, [name for name in columns if name != "step"])
    return _scored(logged(columns["step"], columns[metric]), metric, score)


def _scored(curve: Curve, metric: str, score: str) -> _Outcome:
    if curve.status == "diverged":
        return "failed", math.nan, diverged(metric, curve.end), True, f"step {curve.end:,}"
    number = SCORES[score](curve.steps, curve.values)
    points = np.asarray(curve.steps, np.float64).tobytes() + curve.values.tobytes()
    bits = hashlib.md5(points, usedforsecurity=False).hexdigest()
    if math.isinf(number):
        return "failed", math.nan, f"{metric} is infinite", True, bits
    return "done", number, "", False, bits


def read_curves(plan: Plan, folder: Path) -> pd.DataFrame:
    """Return the curves of a plan's runs: a row per point, with all metrics."""
    runs = [(cell.place, curve) for cell, record, curve in read_runs(folder, plan) if record]
    names = dict.fromkeys(name for _, curve in runs for name in curve if name != "step")
    return _points_of(runs, [*names])


def _points_of(
    runs: Sequence[tuple[tuple[str, str, int], Columns]], metrics: Sequence[str]
) -> pd.DataFrame:
    """Return a row per point. It concatenates arrays, as a frame per run is slow."""
    sizes = np.array([len(columns["step"]) for _, columns in runs], int)
    points: dict[str, Any] = {
        name: np.repeat(np.array([place[i] for place, _ in runs], object), sizes)
        for i, name in enumerate(RUN)
    }
    steps = [np.asarray(columns["step"]) for _, columns in runs]
    points["step"] = np.concatenate([np.zeros(0, np.int64), *steps])
    for name in metrics:
        values = (
            np.asarray(columns.get(name) or [None] * n, np.float64)
            for (_, columns), n in zip(runs, sizes, strict=True)
        )
        points[name] = np.concatenate([np.zeros(0), *values])
    return pd.DataFrame(points).astype({"seed": np.int64})


def _other_versions(made_with: Sequence[Mapping[str, Any]], total: int) -> Iterator[str]:
    """Yield a note for each set of package versions but the most frequent one."""
    sets = Counter(tuple(sorted(each.get("versions", {}).items())) for each in made_with)
    (usual, _), *others = sets.most_common() or [((), 0)]
    for versions, count in others:
        expected, used = dict(usual), dict(versions)
        differing = ", ".join(
            f"{name} {used.get(name, 'unknown')} (most: {expected.get(name, 'unknown')})"
            for name in sorted(expected.keys() | used.keys())
            if expected.get(name) != used.get(name)
        )
        yield f"{count} of {total} runs have other versions: {differing}"


def _rows(frame: pd.DataFrame, metric: str, score: str) -> pd.DataFrame:
    rows = []
    steps, values = frame["step"].to_numpy(), frame[metric].to_numpy(np.float64)
    groups = frame.groupby(RUN, sort=False).indices
    for key, at in sorted(groups.items(), key=lambda group: group[1][0]):
        tail = diverged_from(values[at])
        status = str(frame.status.iloc[at[-1]]) if "status" in frame else ""
        curve = Curve(steps[at], values[at])
        if tail is not None and status != "done":
            curve = Curve(steps[at], values[at], steps[at[tail]], "diverged")
        outcome = _scored(curve, metric, score)
        if status and outcome[0] == "done":
            outcome = (status, outcome[1] if status == "done" else math.nan, *outcome[2:])
        rows.append((*key, *outcome))
    return pd.DataFrame(rows, columns=[*RUN, *OUTCOME])


def _require(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raise UserError if a column is missing or has gaps, or if the last one has no numbers."""
    for column in columns:
        if column not in frame:
            names = list(map(str, frame.columns))
            if column not in RUN:
                raise unknown("column", column, names)
            columns = ", ".join(names)
            raise UserError(f"no column '{column}': name yours with {column}=...; known: {columns}")
        if column in RUN and frame[column].isna().any():
            raise UserError(f"row {int(frame[column].isna().argmax())} has no {column}")
    if frame.empty:
        raise UserError("the table has no rows")
    if not pd.api.types.is_numeric_dtype(frame[column]):
        raise UserError(f"the column '{column}' has text: expected numbers")


def by_task_and_variant(runs: Runs) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield task, variant and the rows of its runs."""
    groups = dict(list(runs.runs.groupby(["task", "variant"], sort=False)))
    for task, variant in itertools.product(runs.tasks, runs.variants):
        if (task, variant) in groups:
            yield task, variant, groups[task, variant]
