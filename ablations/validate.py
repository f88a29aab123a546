"""Validate a task: does a baseline learn enough on it to judge details there?

A task passes at a number of steps and a learning rate where the baseline's score

    exceeds the better untrained policy by `LEAD` standard deviations between seeds or more,
    is at least `PROGRESS` of the way from there to the best score, and
    lies at a ceiling on at most `AT_CEILING` of the seeds.

The score is the mean of the last three of ten evaluations. The best score is the most that the
task's rules allow, else the highest mean among the candidates. The rule looks at baselines and at
untrained policies, never at a difference between variants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ablations import studies
from ablations.core.plan import Settings
from ablations.errors import UserError, count
from ablations.records import Plan
from ablations.request import Request
from ablations.runs import EVALUATION, UNTRAINED, Runs
from ablations.scoring import AT_CEILING, LAST, LEAD, PROGRESS
from ablations.studies.profiles import BATCH
from ablations.sweep.plan import plan
from ablations.tasks import task

if TYPE_CHECKING:
    from ablations.figures import Drawing

EVALUATIONS = 10  # of a run, of which the last `LAST` are its score
LENGTHS = 3  # thirds of the longest run
SPACED = LENGTHS * EVALUATIONS  # evaluations of the longest run
NEAR_CEILING = 0.005  # of the way from the untrained policies to the ceiling
SLOPE = 0.05  # of what was learned: a smaller gain over the last fifth is levelling off
RATES = (3e-4, 1e-3, 3e-3)
SEEDS = tuple(range(1000, 1005))  # of tuning, which no table reports
COLUMNS = "task variant steps mean sd lead progress ceiling slope n failed verdict note untrained"
CAPTION = (
    f"Mean of the last {LAST} of {EVALUATIONS} evaluations. A task passes where the baseline is "
    f"{LEAD:g} standard deviations between seeds or more above the better untrained policy, at "
    f"least {100 * PROGRESS:.0f}% of the way from there to the best score of this table, or to the "
    f"most that the task's rules allow, and at a ceiling on at most {100 * AT_CEILING:.0f}% of its "
    "seeds. Slope: what the mean gained over the last fifth of training, in % of what was learned; "
    f"above {100 * SLOPE:.0f}% a result depends on the number of steps."
)


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
    """Return the requests of a validation: untrained policies, the baseline at each rate, presets.

    Language tasks have no untrained policies: theirs is the baseline at a learning rate of 0.
    steps: of the longest run; None: each task's own. settings: of the baseline; those of a task are
    also the untrained policies' and the presets'. study: its baseline is validated, by its metric.

    Raises:
        UserError: presets of another study than PPO's; a task and a study of different kinds; a
            metric that is no evaluation.
    """
    validated = studies.study(study)
    if presets and study != "exam":
        raise UserError(f"--presets are PPO's: of {study} only its own baseline can be validated")
    if not validated.metric.startswith(EVALUATION):
        raise UserError(
            f"validation needs evaluations, and {study} is judged by {validated.metric}"
        )
    of_language = validated.trainer == "language"
    for name in tasks:
        if ("kinds" in task(name).settings) != of_language:
            kind, other = ("control", "language") if of_language else ("language", "control")
            raise UserError(
                f"{name} is a task of {kind}, and {study} a study of {other}: give another --study"
            )
    given = dict(settings or {})
    of_tasks = {name for each in tasks for name in task(each).settings}
    of_task = {name: value for name, value in given.items() if name in of_tasks}
    run = {"evaluations": SPACED, "points": SPACED}
    if given.keys() & run:
        raise UserError(f"{' and '.join(run)} are fixed: {EVALUATIONS} in a third of a run")
    plain = Request(
        study, profile, tuple(tasks), seeds=tuple(seeds), steps=steps, set={**of_task, **run}
    )
    rate = {"learning_rate": rates[0]} if len(rates) == 1 else {}
    trained = replace(
        plain,
        variants=(validated.baseline,),
        set={**given, **run, **rate},
        vary={"learning_rate": tuple(rates)} if len(rates) > 1 else {},
    )
    untrained = replace(plain, study=UNTRAINED)
    if of_language:
        at_rest = {**trained.set, "learning_rate": 0.0}
        untrained = replace(trained, steps=SPACED * BATCH, set=at_rest, vary={})
    return [untrained, trained, *([replace(plain, variants=tuple(presets))] if presets else [])]


def plans(asked: Sequence[Request]) -> list[Plan]:
    """Return the plans of a validation.

    Raises:
        UserError: settings make no sense, or runs are too short for the evaluations.
    """
    planned = [plan(request) for request in asked]
    for cell in (cell for made in planned for cell in made.cells):
        run = cell.config["run"]
        if run["evaluations"] < SPACED:
            steps = SPACED * run["iteration_steps"] * run["updates_per_chunk"]
            raise UserError(
                f"a validation evaluates {SPACED} times, and a run of this length on {cell.task} "
                f"has room for {run['evaluations']}: give --steps {steps}"
            )
    return planned


@dataclass(frozen=True)
class Candidate:
    """A baseline, trained for `steps`. failed: runs without scores.

    rise: mean over seeds of the last evaluation minus the one at four fifths of the run.
    """

    variant: str
    steps: int
    scores: tuple[float, ...]
    failed: int = 0
    rise: float = math.nan


def candidates(runs: Runs, task: str, variant: str) -> Iterator[Candidate]:
    """Yield a variant at each third of its runs; one without scores where all of them failed.

    A run without a number at every evaluation counts as failed.
    """
    rows = runs.runs[(runs.runs.task == task) & (runs.runs.variant == variant)]
    curves = [
        (curve.steps[known], curve.values[known])
        for curve in runs.curves_of(task, variant).values()
        if (known := np.isfinite(curve.values)).sum() == SPACED
    ]
    failed = int((rows.status != "missing").sum()) - len(curves)
    if failed and not curves:
        yield Candidate(variant, 0, (), failed)
    for third in range(1, LENGTHS + 1) if curves else ():
        # Ten evaluations of a run of this length are as many apart as it has thirds.
        kept = [values[: third * EVALUATIONS][third - 1 :: third] for _, values in curves]
        yield Candidate(
            variant,
            int(curves[0][0][third * EVALUATIONS - 1]),
            tuple(float(values[-LAST:].mean()) for values in kept),
            failed,
            fmean(float(values[-1] - values[-1 - EVALUATIONS // 5]) for values in kept),
        )


def judge(
    task: str, untrained: Mapping[str, float], of: Sequence[Candidate], most: float | None = None
) -> pd.DataFrame:
    """Return a row per untrained policy (policy -> mean score) and per candidate of a task.

    lead: of the mean over the better untrained policy, in standard deviations between seeds.
    progress: share of the way from there to the best score. ceiling: share of the seeds within
    `NEAR_CEILING` of the ceiling, which is the most that the rules allow, else the highest score
    where several runs share it. slope: gain over the last fifth of training, as a share of what was
    learned. verdict: "passes" or "fails"; note: why. `attrs` has the scores that the rule needs.
    """
    scores = [score for each in of for score in each.scores]
    means = [fmean(each.scores) for each in of if each.scores]
    floor = max(untrained.values())
    highest, best = (max(x, default=math.nan) if most is None else most for x in (scores, means))
    near = [s for s in scores if highest - s <= NEAR_CEILING * abs(highest - floor)]
    has_ceiling = most is not None or len(near) > 1
    levels = {f"untrained ({policy})": score for policy, score in untrained.items()}
    rows: list[dict[str, Any]] = [
        {"variant": f"({policy})", "mean": score, "untrained": True, "verdict": "", "note": ""}
        for policy, score in untrained.items()
    ]
    for each in of:
        n = len(each.scores)
        mean, sd = fmean(each.scores or [math.nan]), stdev(each.scores) if n > 1 else math.nan
        learned = mean - floor
        lead = learned / sd if sd else math.copysign(math.inf, learned)
        progress = learned / (best - floor) if best != floor else math.nan
        ceiling = sum(s in near for s in each.scores) / n if has_ceiling and n else 0.0
        slope = each.rise / learned if learned else math.nan
        if each.failed:
            faults = [count(each.failed, "run") + " failed"]
        elif n < 2:
            faults = ["fewer than two seeds"]
        elif learned <= 0:
            faults = ["no better than an untrained policy"]
        else:
            faults = [f"{lead:.1f} of {LEAD:g} SD above untrained policies"] * (lead < LEAD)
            faults += [f"{100 * progress:.0f}% of the way to the best"] * (progress < PROGRESS)
            faults += [f"{100 * ceiling:.0f}% of seeds at a ceiling"] * (ceiling > AT_CEILING)
        numbers = (each.variant, each.steps, mean, sd, lead, progress, ceiling, slope, n)
        row = dict(zip(COLUMNS.split()[1:], (*numbers, each.failed), strict=False))
        rows.append({**row, "verdict": "fails" if faults else "passes", "note": "; ".join(faults)})
    if ended := [row for row in rows if row.get("n", 0) > 1]:
        top = max(ended, key=lambda row: row["mean"])
        levels[f"{LEAD:g} SD above untrained policies"] = floor + LEAD * top["sd"]
        levels[f"{100 * PROGRESS:.0f}% of the way to the best"] = floor + PROGRESS * (best - floor)
    if has_ceiling:
        levels["ceiling"] = highest
    frame = pd.DataFrame(rows, columns=COLUMNS.split()).fillna({"untrained": False})
    frame = frame.assign(task=task, untrained=frame.untrained.astype(bool))
    frame.attrs["levels"] = {task: levels}
    return frame


def read(planned: Sequence[Plan], results: Path) -> list[Runs]:
    """Return the runs of the plans of a validation."""
    return [Runs.read(results, each, planned[1].study.metric) for each in planned]


def table(read: Sequence[Runs]) -> pd.DataFrame:
    """Return `judge` of every task. Raises UserError: no untrained policy was evaluated."""
    untrained, *trained = read
    assert untrained.plan is not None
    frames = []
    for name, about in untrained.plan.tasks.items():
        policies = {
            policy if untrained.plan.study.name == UNTRAINED else "start": fmean(
                float(np.nanmean(curve.values)) for curve in curves.values()
            )
            for policy in untrained.variants
            if (curves := untrained.curves_of(name, policy))
        }
        if not policies:
            raise UserError(f"no untrained policy was evaluated on {name}")
        of = [c for runs in trained for v in runs.variants for c in candidates(runs, name, v)]
        frames.append(judge(name, policies, of, task(name).most(about.settings)))
    frame = pd.concat(frames, ignore_index=True)
    levels = {name: of for each in frames for name, of in each.attrs["levels"].items()}
    frame.attrs = {"study": "exam", "kind": "exam", "caption": CAPTION, "levels": levels}
    return frame


def figure(read: Sequence[Runs], levels: Mapping[str, Mapping[str, float]]) -> Drawing:
    """Draw the evaluations of the candidates of each task, with the scores that the rule needs."""
    from ablations.figures import curves

    first, *others = read[1:]
    runs = replace(
        first,
        runs=pd.concat([of.runs for of in (first, *others)], ignore_index=True),
        curves=pd.concat([of.curves for of in (first, *others)], ignore_index=True),
        versus={name: first.variants[0] for of in (first, *others) for name in of.variants},
        untrained={},
    )
    return curves(runs, levels=levels)
