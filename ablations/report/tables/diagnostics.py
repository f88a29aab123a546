"""Tables of what explains a result: the quality of estimates, and what training recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ablations.records import Plan, usable_curve, usable_record
from ablations.report.results import Results
from ablations.report.scores import diagnostic_scores
from ablations.report.statistics import Comparison, judge
from ablations.report.tables.entries import Column, Sheet, Values, bounded, text_columns, with_ends

TRAINING = (
    "policy/clip_fraction",
    "value/clip_fraction",
    "value/explained_variance",
    "policy/effective_sample_size",
    "policy/approximate_kl",
    "policy/ratio_mean",
    "policy/ratio_max",
)

# (task, seed) -> column -> a number, or None, per stage; one of the columns is step.
Measured = Mapping[tuple[str, int], Mapping[str, Sequence[float | None]]]


def read_measured(results: Path, names: Iterable[tuple[str, int, str]]) -> Measured:
    """Read the diagnoses (task, seed, hash) that a folder has; those missing are left out."""
    measured = {}
    for task, seed, name in names:
        record = usable_record(results, name)
        curve = None if record is None else usable_curve(results, record)
        if curve is not None:
            measured[task, seed] = curve
    return measured


def estimates_sheet(plan: Plan, measured: Measured, reference: str) -> Sheet:
    """List bias, variance, RMSE and correlation per task, stage and choice.

    Args:
        plan: whose states were measured.
        measured: by task and seed.
        reference: the choice that trained, to which variance and RMSE are put in relation.
    """
    rows: list[Values] = []
    choices = list(
        dict.fromkeys(
            column.removesuffix("/bias")
            for columns in measured.values()
            for column in columns
            if column.endswith("/bias")
        )
    )
    choices.sort(key=lambda name: name != reference)
    for task in plan.tasks:
        seeds = [columns for (where, _), columns in sorted(measured.items()) if where == task]
        for stage, step in enumerate(seeds[0]["step"] if seeds else ()):
            whole = [
                of_seed for of_seed in seeds if all(_has(of_seed, stage, name) for name in choices)
            ]
            moments = {name: _moments(whole, stage, name) for name in choices}
            for name in choices:
                bias, variance, rmse, correlation = moments[name]
                of_variance = _ratio(variance, moments[reference][1])
                of_rmse = _ratio(rmse, moments[reference][2])
                bias_mean, correlation_mean = judge(bias), judge(correlation)
                deviation = math.sqrt(variance.mean()) if len(variance) else None
                error = math.sqrt(np.mean(rmse**2)) if len(rmse) else None
                rows.append(
                    (
                        task,
                        step,
                        name,
                        len(bias),
                        *bias_mean.bounds,
                        deviation,
                        *of_variance.bounds,
                        error,
                        *of_rmse.bounds,
                        *correlation_mean.bounds,
                    )
                )
    return Sheet(
        plan.study.name,
        "diagnostics",
        f"Advantage estimates of one critic and policy against the truth, which is Q(s, a) - V(s) "
        f"by Monte-Carlo returns of the task without its time limit. {reference} trained; in the "
        "states of its training environments every choice estimates the advantage of the same "
        "actions from the same segments, at their first step. Units: scaled reward, discounted. "
        "Bias: mean over states. sd: of an estimate, given state and action. RMSE: of both bias "
        f"and variance. Ratios: to {reference}'s variance and RMSE. Correlation: with "
        "the truth, over states and segments. 95% t intervals over seeds, ratios paired by seed "
        "and averaged as logarithms.",
        (
            *("task", "step", "choice", "n", *with_ends("bias"), "sd"),
            *(*with_ends("variance_ratio"), "rmse", *with_ends("rmse_ratio")),
            *with_ends("correlation"),
        ),
        tuple(rows),
        (
            *text_columns("task"),
            Column("step", "count", ("step",)),
            *text_columns("choice"),
            *bounded("bias", "bias", sign="+", inside="[95%]", places=4),
            Column("sd", "fixed", ("sd",), places=4),
            *bounded("variance ratio", "variance_ratio", inside="[95%]", places=3),
            Column("RMSE", "fixed", ("rmse",), places=4),
            *bounded("RMSE ratio", "rmse_ratio", inside="[95%]", places=3),
            *bounded("correlation", "correlation", inside="[95%]", places=3),
            Column("seeds", "count", ("n",)),
        ),
    )


def training_sheet(results: Results) -> Sheet | None:
    """List means over training of what the runs of a plan recorded; None before any has."""
    plan, scored = results.plan, diagnostic_scores(results, TRAINING, "auc")
    rows: list[Values] = []
    for task in plan.tasks:
        for variant in plan.variants:
            means = {
                name: judge(list(of.by_seed(task, variant).values())) for name, of in scored.items()
            }
            seeds = max((mean.n for mean in means.values()), default=0)
            if seeds:
                rows.append(
                    (task, variant, seeds, *(x for mean in means.values() for x in mean.bounds))
                )
    if not rows:
        return None
    names = list(scored)
    return Sheet(
        plan.study.name,
        "training",
        "Means over training of what the runs recorded per gradient step, over seeds. "
        "clip_fraction: share of samples whose ratio, or value, was clipped. "
        "effective_sample_size: share of the batch. approximate_kl: mean of (r - 1) - log r over "
        "ratios r.",
        ("task", "variant", "n", *(column for name in names for column in with_ends(name))),
        tuple(rows),
        (
            *text_columns("task", "variant"),
            *(Column(name, "fixed", (name,), places=4) for name in names),
            Column("seeds", "count", ("n",)),
        ),
    )


_KINDS = ("bias", "variance", "squared_bias", "correlation")


def _has(columns: Mapping[str, Sequence[float | None]], stage: int, name: str) -> bool:
    """Return whether a seed has every number of a choice.

    Ratios are paired, so it counts for all choices or for none.
    """
    values = [columns[f"{name}/{kind}"][stage] for kind in _KINDS]
    return not any(value is None or math.isnan(value) for value in values)


def _moments(
    seeds: Sequence[Mapping[str, Sequence[float | None]]], stage: int, name: str
) -> tuple[np.ndarray, ...]:
    """Return bias, variance, RMSE and correlation by seed."""
    table = np.array(
        [[columns[f"{name}/{kind}"][stage] for kind in _KINDS] for columns in seeds],
        dtype=np.float64,
    ).reshape(-1, len(_KINDS))
    bias, variance, squared_bias, correlation = table.T
    return bias, variance, np.sqrt(np.maximum(squared_bias, 0) + variance), correlation


def _ratio(numbers: np.ndarray, reference: np.ndarray) -> Comparison:
    """Return the geometric mean over that of the reference, paired, with its interval."""
    if len(numbers) != len(reference) or not np.all(numbers > 0) or not np.all(reference > 0):
        return Comparison(0)
    logs = judge(np.log(numbers / reference))
    middle, low, high = (None if x is None else math.exp(x) for x in logs.bounds)
    return Comparison(logs.n, middle, low, high)
