"""Examine whether a baseline learns enough on a task to judge a detail: `ablations exam`.

Its rule, which looks at baselines and at policies that learn nothing, is in
`ablations.report.exam`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from ablations import studies
from ablations.core.plan import Settings
from ablations.errors import UserError
from ablations.records import Plan, read_runs
from ablations.report.exam import EVALUATIONS, Candidate, Curve, Task
from ablations.report.scores import EVALUATION, LAST
from ablations.report.trivial import STUDY as TRIVIAL
from ablations.request import Request
from ablations.studies.profiles import BATCH
from ablations.sweep.plan import plan
from ablations.tasks import task

LENGTHS = 3  # thirds of the longest run
SPACED = LENGTHS * EVALUATIONS  # evaluations of the longest run
RATES = (3e-4, 1e-3, 3e-3)
SEEDS = tuple(range(1000, 1005))  # of tuning, which no table reports


def requests(
    tasks: Sequence[str],
    *,
    rates: Sequence[float] = RATES,
    presets: Sequence[str] = (),
    seeds: Sequence[int] = SEEDS,
    steps: int | None = None,
    profile: str = "paper",
    settings: Settings | None = None,
    study: str = "exam",
) -> list[Request]:
    """Return the requests of an exam: what learns nothing, the baseline at each rate, and presets.

    Trivial policies of control learn nothing; of language, the baseline at a rate of 0, which is as
    it was taught before.

    steps: of the longest run; None: each task's own. settings: of the baseline; those of a task are
    the trivial policies' and the presets' too. study: whose baseline is examined, by the metric
    that judges it.

    Raises:
        UserError: presets, of a study of its own; a task of language and a study of control, or the
            reverse; a metric that is no evaluation.
    """
    examined = studies.study(study)
    if presets and study != "exam":
        raise UserError(f"--presets are PPO's: of {study} its own baseline is examined alone")
    if not examined.metric.startswith(EVALUATION):
        raise UserError(f"an exam is of evaluations, and {study} is judged by {examined.metric}")
    of_language = examined.trainer == "language"
    for name in tasks:
        if ("kinds" in task(name).settings) != of_language:
            kind, other = ("control", "language") if of_language else ("language", "control")
            raise UserError(
                f"{name} is a task of {kind}, and {study} a study of {other}: give another --study"
            )

    given = dict(settings or {})
    own = {name for one in tasks for name in task(one).settings}
    of_task = {name: value for name, value in given.items() if name in own}
    run = {"evaluations": SPACED, "points": SPACED}
    if given.keys() & run:
        raise UserError(
            f"{' and '.join(run)} are the exam's own: {EVALUATIONS} in a third of a run"
        )
    plain = Request(
        study, profile, tuple(tasks), seeds=tuple(seeds), steps=steps, set={**of_task, **run}
    )
    rate = {"learning_rate": rates[0]} if len(rates) == 1 else {}
    trained = replace(
        plain,
        variants=(examined.baseline,),
        set={**given, **run, **rate},
        vary={"learning_rate": tuple(rates)} if len(rates) > 1 else {},
    )
    nothing = replace(plain, study=TRIVIAL)
    if of_language:
        untrained = {**trained.set, "learning_rate": 0.0}
        nothing = replace(trained, steps=SPACED * BATCH, set=untrained, vary={})
    return [nothing, trained, *([replace(plain, variants=tuple(presets))] if presets else [])]


def plans(asked: Sequence[Request]) -> list[Plan]:
    """Return the plans of an exam.

    Raises:
        UserError: settings make no sense, or runs are too short for its evaluations.
    """
    planned = [plan(request) for request in asked]
    for cell in (cell for made in planned for cell in made.cells):
        run = cell.config["run"]
        if run["evaluations"] < SPACED:
            steps = SPACED * run["iteration_steps"] * run["updates_per_chunk"]
            raise UserError(
                f"an exam evaluates {SPACED} times, and a run of this length on {cell.task} has "
                f"room for {run['evaluations']}: give --steps {steps}"
            )
    return planned


def results_of(planned: Sequence[Plan], results: Path) -> list[Task]:
    """Return the results on each task, of the cells that have run."""
    metric = planned[1].study.metric
    trivial, *trained = [(made, _curves(made, results, metric)) for made in planned]
    return [
        Task(
            name,
            {
                policy if trivial[0].study.name == TRIVIAL else "start": fmean(
                    values.mean() for _, values in curves
                )
                for policy in trivial[0].variants
                if (curves := [one for one in trivial[1].get((name, policy), []) if one])
            },
            tuple(
                one
                for made, curves in trained
                for variant in made.variants
                for one in _candidates(name, variant, curves.get((name, variant), []))
            ),
            {
                variant: tuple(one for one in of if one is not None)
                for _, curves in trained
                for (place, variant), of in curves.items()
                if place == name
            },
            task(name).most(trivial[0].tasks[name].settings),
            metric,
        )
        for name in trivial[0].tasks
    ]


def _candidates(name: str, variant: str, curves: Sequence[Curve | None]) -> Iterator[Candidate]:
    """Yield a variant at each third of its runs; one without scores where all of them failed."""
    ended = [one for one in curves if one is not None]
    failed = len(curves) - len(ended)
    if failed and not ended:
        yield Candidate(name, variant, 0, (), failed, math.nan)
    for third in range(1, LENGTHS + 1) if ended else ():
        # Ten evaluations of a run of this length are as many apart as it has thirds.
        kept = [values[: third * EVALUATIONS][third - 1 :: third] for _, values in ended]
        yield Candidate(
            name,
            variant,
            int(ended[0][0][third * EVALUATIONS - 1]),
            tuple(float(values[-LAST:].mean()) for values in kept),
            failed,
            fmean(float(values[-1] - values[-1 - EVALUATIONS // 5]) for values in kept),
        )


def _curves(made: Plan, results: Path, metric: str) -> dict[tuple[str, str], list[Curve | None]]:
    """Return steps and scores `[n]` of the evaluations of cells that ran, by task and variant.

    None for one that failed, or has an evaluation that is no number.
    """
    found: dict[tuple[str, str], list[Curve | None]] = {}
    for cell, record, columns in read_runs(results, made):
        if record is None:
            continue
        values = np.array([np.nan if v is None else v for v in columns.get(metric, ())], float)
        seen = np.isfinite(values)
        whole = record.status == "done" and seen.sum() == SPACED
        curve = (np.asarray(columns["step"])[seen], values[seen]) if whole else None
        found.setdefault((cell.task, cell.variant), []).append(curve)
    return found
