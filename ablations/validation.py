"""`ablations validate`: does a baseline learn enough on a task for comparisons of details?

A task passes at a number of steps and a learning rate if the baseline's score

    exceeds the better untrained policy by at least `LEAD` standard deviations between seeds,
    reaches at least `PROGRESS` of the way from there to the best score, and
    is at a ceiling on at most `AT_CEILING` of the seeds.

The score is the mean of the last three of ten evaluations. The best score is the highest that the
task's rules allow, or the highest mean among the candidates. The rule uses baselines and untrained
policies only, never a difference between variants.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ablations import studies
from ablations.core.plan import Settings
from ablations.engine.plan import plan
from ablations.errors import UserError, count
from ablations.records import UNTRAINED, Plan
from ablations.request import Request
from ablations.runs import EVALUATION, Runs
from ablations.scoring import AT_CEILING, LAST, LEAD, PROGRESS
from ablations.studies.profiles import BATCH
from ablations.tasks import task

if TYPE_CHECKING:
    from ablations.figures import Drawing

EVALUATIONS = 10  # of a run; the last `LAST` are its score
LENGTHS = 3  # thirds of the longest run
SPACED = LENGTHS * EVALUATIONS  # evaluations of the longest run
NEAR_CEILING = 0.005  # of the way from the untrained policies to the ceiling
SLOPE = 0.05  # of the learned range; with a smaller gain over the last fifth, the curve is flat
RATES = (3e-4, 1e-3, 3e-3)
SEEDS = tuple(range(1000, 1005))  # for tuning; no table reports them
COLUMNS = "task variant steps mean sd lead progress ceiling slope n failed verdict note untrained"
CAPTION = (
    f"Mean of the last {LAST} of {EVALUATIONS} evaluations. A task passes if the baseline is at "
    f"least {LEAD:g} standard deviations between seeds above the better untrained policy, at least "
    f"{100 * PROGRESS:.0f}% of the way from there to the best score (of this table, or allowed by "
    f"the task's rules), and at a ceiling on at most {100 * AT_CEILING:.0f}% of its seeds. Slope: "
    f"gain of the mean over the last fifth of training, in % of the learned range; above "
    f"{100 * SLOPE:.0f}%, a result depends on the number of steps."
)


def plans(
    tasks: Sequence[str],
    *,
    rates: Sequence[float] = RATES,
    presets: Sequence[str] = (),
    seeds: Sequence[int] = SEEDS,
    steps: int | None = None,
    profile: str = "paper",
    settings: Settings | None = None,
    study: str = "exam",
) -> list[Plan]:
    """Plan a validation: untrained policies, the baseline at each rate, presets.

    The arguments are those of `ablations validate`. Settings of a task also apply to untrained
    policies and presets. For language tasks, the baseline with a learning rate of 0 is the
    untrained policy.

    Raises:
        UserError: presets with another study than PPO's, a task of another kind than the study, a
            metric that is not an evaluation, or runs that are too short.
    """
    validated = studies.study(study)
    if presets and study != "exam":
        raise UserError(f"--presets are for PPO: leave it out with --study {study}")
    if not validated.metric.startswith(EVALUATION):
        raise UserError(f"validation needs an evaluation metric: {study} has {validated.metric}")
    is_language = validated.trainer == "language"
    for name in tasks:
        if ("kinds" in task(name).settings) != is_language:
            kind, other = ("control", "language") if is_language else ("language", "control")
            raise UserError(
                f"{name} is a {kind} task, but {study} is a {other} study: choose another --study"
            )
    given = dict(settings or {})
    of_tasks = {name for each in tasks for name in task(each).settings}
    of_task = {name: value for name, value in given.items() if name in of_tasks}
    run = {"evaluations": SPACED, "points": SPACED}
    if given.keys() & run:
        raise UserError(f"a validation decides {' and '.join(run)}: leave them out of --set")
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
    if is_language:
        at_rest = {**trained.set, "learning_rate": 0.0}
        untrained = replace(trained, steps=SPACED * BATCH, set=at_rest, vary={})
    others = [replace(plain, variants=tuple(presets))] if presets else []
    planned = [plan(request) for request in (untrained, trained, *others)]
    for cell in (cell for made in planned for cell in made.cells):
        sizes = cell.config["run"]
        if (most := sizes["evaluations"]) < SPACED:
            least = SPACED * sizes["iteration_steps"] * sizes["updates_per_chunk"]
            raise UserError(
                f"a validation needs {SPACED} evaluations, but a run of this length on {cell.task} "
                f"has at most {most}: add --steps {least}"
            )
    return planned


def candidates(runs: Runs, task: str) -> pd.DataFrame:
    """Return a row per run and third of its length, which is a candidate of its variant.

    Columns:
        steps: at the end of the third.
        score: NaN in the only row of a variant whose runs all failed.
        rise: last evaluation minus the one at four fifths.
        failed: number of runs of the variant that lack a number at any evaluation.
    """
    rows: list[tuple[str, int, float, float, int]] = []
    for variant in runs.variants:
        status = runs.runs.status[(runs.runs.task == task) & (runs.runs.variant == variant)]
        curves = [
            (curve.steps[known], curve.values[known])
            for curve in runs.curves_of(task, variant).values()
            if (known := np.isfinite(curve.values)).sum() == SPACED
        ]
        failed = int((status != "missing").sum()) - len(curves)
        if failed and not curves:
            rows.append((variant, 0, math.nan, math.nan, failed))
        for third, (steps, values) in itertools.product(range(1, LENGTHS + 1), curves):
            # Ten evenly spaced evaluations of a run that ends at this third.
            kept = values[: third * EVALUATIONS][third - 1 :: third]
            rise = kept[-1] - kept[-1 - EVALUATIONS // 5]
            end = int(steps[third * EVALUATIONS - 1])
            rows.append((variant, end, kept[-LAST:].mean(), rise, failed))
    return pd.DataFrame(rows, columns=["variant", "steps", "score", "rise", "failed"])


def judge(
    task: str, untrained: Mapping[str, float], runs: pd.DataFrame, most: float | None = None
) -> pd.DataFrame:
    """Return a row per untrained policy (policy -> mean score) and per candidate of a task.

    `most` is the highest score that the task's rules allow, or None. `attrs["levels"]` has the
    scores that the rule requires. Columns:
        lead: mean minus the better untrained policy, in standard deviations between seeds.
        progress: share of the way from there to the best score.
        ceiling: share of seeds within `NEAR_CEILING` of the ceiling: `most`, or the highest score
            if several runs have it.
        slope: gain over the last fifth of training, as a share of the learned range.
        verdict, note: "passes" or "fails", and why.
    """
    floor, highest = max(untrained.values()), runs.score.max() if most is None else most
    near = highest - runs.score <= NEAR_CEILING * abs(highest - floor)
    has_ceiling = most is not None or near.sum() > 1
    groups = runs.assign(near=near & has_ceiling).groupby(
        ["variant", "steps", "failed"], sort=False
    )
    columns = {"mean": ("score", "mean"), "sd": ("score", "std"), "n": ("score", "count")}
    columns |= {"ceiling": ("near", "mean"), "slope": ("rise", "mean")}
    frame = groups.agg(**columns).reset_index()
    best, learned = frame["mean"].max() if most is None else most, frame["mean"] - floor
    frame["lead"] = learned / frame.sd
    frame["progress"] = learned / (best - floor if best > floor else math.nan)
    frame["slope"] /= learned
    frame["note"] = [_faults(row) for row in frame.to_dict("records")]
    frame["verdict"] = np.where(frame.note == "", "passes", "fails")
    levels = {f"untrained ({policy})": score for policy, score in untrained.items()}
    if (ended := frame[frame.n > 1]).size:
        top = ended.loc[ended["mean"].idxmax()]
        levels[f"{LEAD:g} SD above untrained policies"] = floor + LEAD * top.sd
        levels[f"{100 * PROGRESS:.0f}% of the way to the best"] = floor + PROGRESS * (best - floor)
    if has_ceiling:
        levels["ceiling"] = highest
    policies = pd.DataFrame(untrained.items(), columns=["variant", "mean"])
    policies = policies.assign(variant="(" + policies.variant + ")", verdict="", note="")
    frame = pd.concat([policies.assign(untrained=True), frame.assign(untrained=False)])
    frame = frame.reindex(columns=COLUMNS.split()).assign(task=task)
    frame.attrs["levels"] = {task: levels}
    return frame


def _faults(row: Mapping[str, Any]) -> str:
    """Return why a candidate fails; "" if it passes."""
    if row["failed"]:
        return f"{count(row['failed'], 'run')} failed"
    if row["n"] < 2:
        return "fewer than two seeds"
    if not row["lead"] > 0:
        return "no better than an untrained policy"
    faults = {
        f"{row['lead']:.1f} of {LEAD:g} SD above untrained policies": row["lead"] < LEAD,
        f"{100 * row['progress']:.0f}% of the way to the best": row["progress"] < PROGRESS,
        f"{100 * row['ceiling']:.0f}% of seeds at a ceiling": row["ceiling"] > AT_CEILING,
    }
    return "; ".join(fault for fault, is_one in faults.items() if is_one)


def read(planned: Sequence[Plan], results: Path) -> list[Runs]:
    """Return the runs of the plans of a validation."""
    return [Runs.read(results, each, planned[1].study.metric) for each in planned]


def table(read: Sequence[Runs]) -> pd.DataFrame:
    """Return `judge` for every task. Raises UserError if no untrained policy was evaluated."""
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
        trials = pd.concat([candidates(runs, name) for runs in trained])
        frames.append(judge(name, policies, trials, task(name).most(about.settings)))
    frame = pd.concat(frames, ignore_index=True)
    levels = {name: own for each in frames for name, own in each.attrs["levels"].items()}
    frame.attrs = {"study": "exam", "kind": "exam", "caption": CAPTION, "levels": levels}
    return frame


def figure(read: Sequence[Runs], levels: Mapping[str, Mapping[str, float]]) -> Drawing:
    """Draw the evaluations of each task's candidates, with the scores that the rule requires."""
    from ablations.figures import curves

    _, first, *_ = read
    runs = replace(
        first,
        runs=pd.concat([each.runs for each in read[1:]], ignore_index=True),
        curves=pd.concat([each.curves for each in read[1:]], ignore_index=True),
        versus={name: first.variants[0] for each in read[1:] for name in each.variants},
        untrained={},
    )
    return curves(runs, levels=levels)
