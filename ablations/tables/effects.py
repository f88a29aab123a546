"""Main effects of settings and interactions of two settings in factorial studies.

A full factorial has a variant for every combination of settings. In a fractional factorial,
interactions of two settings are aliased: only sums of several can be estimated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ablations.comparison import ABOUT, LEARNED_TOO_LITTLE, ends, last_stage, over_tasks
from ablations.core.plan import Settings
from ablations.core.record import settings_read
from ablations.errors import UserError, count, listed
from ablations.records import Plan
from ablations.runs import ALL_TASKS, Runs
from ablations.stats import LEVEL, Difference, Floats, decide, factorial, seeds_needed
from ablations.stats.factorial import Alias, Design, Residual
from ablations.tables.formats import MINUS
from ablations.tables.kinds import study_of, with_diverged
from ablations.tables.notes import summary

COLUMNS = (
    *("task", "kind", "key", "factor", "level", "reference", "n"),
    *("effect", "effect_low", "effect_high", "share", "share_low", "share_high"),
    *("p", "p_adjusted", "verdict", "note", "seeds_needed"),
)
LARGEST = 3  # this many aliased interactions are listed even if their intervals contain 0
TIMES = " \N{MULTIPLICATION SIGN} "

Row = dict[str, Any]


def settings_of(plan: Plan) -> dict[str, Settings]:
    """Return variant -> the value of each setting that any variant sets.

    A setting that the variant does not set has its default, if the variant's trainer reads it.
    """
    names = sorted({name for about in plan.variants.values() for name in about.sets})
    configs = {cell.variant: cell.config for cell in reversed(plan.cells)}
    filled: dict[str, Settings] = {}
    for variant, about in plan.variants.items():
        defaults = settings_read(configs.get(variant, {}))
        known = {**defaults, **(about.neutral or {}), **about.sets}
        filled[variant] = {name: known[name] for name in names if name in known}
    return filled


def design_of(plan: Plan) -> Design | None:
    """Return the full or fractional factorial that the variants of a plan form, or None."""
    return factorial.design(settings_of(plan), plan.study.baseline)


def default_kind(plan: Plan) -> str:
    """Return "shares" for an explanation, "effects" for a fraction, otherwise "comparison"."""
    if plan.study.explanation is not None:
        return "shares"
    design = design_of(plan)
    return "comparison" if design is None or design.full else "effects"


class Basis(NamedTuple):
    """What the effects on a task, or on all tasks, are estimated from.

    Attributes:
        tasks: their scores are averaged.
        sizes: `[tasks, variants]`, the unit of effects in units of the scores.
        unit: the learned range in units of the effects.
    """

    task: str
    tasks: list[str]
    sizes: Floats
    unit: float

    def scores(self, runs: Runs, design: Design) -> Floats:
        """Return scores `[tasks, n, variants]` on the n seeds that all variants have."""
        scores: Floats = runs.paired(self.tasks, list(design.variants)) / self.sizes[..., None]
        return scores.transpose(0, 2, 1)


def bases_of(runs: Runs, design: Design) -> Iterator[Basis]:
    """Yield the basis of each task, and of all tasks if two or more have a learned range.

    If variants have different settings of a task, their scores are only comparable in learned
    ranges; without a learned range such a task is left out.
    """
    variants, sizes = list(design.variants), {}
    for task in runs.tasks:
        settings = [runs.settings(task, variant) for variant in variants]
        firsts = [variants[settings.index(each)] for each in settings]
        own = np.array([runs.size(task, variant) for variant in firsts])
        if len(set(settings)) == 1:
            yield Basis(task, [task], np.ones((1, len(own))), own[0])
        elif not np.isnan(own).any():
            yield Basis(task, [task], own[None], 1.0)
        if not np.isnan(own).any():
            sizes[task] = own
    if len(sizes) > 1:
        yield Basis(ALL_TASKS, list(sizes), np.array([*sizes.values()]), 1.0)


def effects(runs: Runs) -> pd.DataFrame:
    """Return main effects and interactions of two settings, per task and over all tasks.

    Effects are paired by seed, on the seeds that every variant has. A diverged run counts as the
    worst score of its task.

    Columns:
        kind: main, interaction, or aliased. An aliased row is a signed sum of interactions; the 3
            largest are listed, and all whose interval excludes 0.
        key: letter of a factor of a fraction.
        level, reference: the compared values of the factor.
        effect: mean of the variants with the level minus mean of the variants with the reference.
            An interaction is the effect of two changes together minus the sum of their effects. The
            intervals are simultaneous over the table; in a fractional factorial, over the effects
            of one kind on one task.
        share: the effect in learned ranges.
        p, p_adjusted: without and with correction for the simultaneous effects.
        verdict: as in a comparison; an interaction is equivalent or has none.
        seeds_needed: see `compare`.

    Raises:
        UserError: the variants do not form a factorial.
    """
    design = design_of(runs.plan) if runs.plan else None
    if design is None:
        raise UserError(
            f"{study_of(runs)} is not a factorial: its variants are not all combinations of two or "
            "more settings"
        )
    rows, caption, notes = (_full if design.full else _fraction)(runs, design)
    tasks: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        single = tasks.setdefault((row["factor"], row["level"]), [])
        if row["task"] == ALL_TASKS:
            row["verdict"], row["note"] = over_tasks(row, single)
        single.append(row)
    for row in rows:
        if row["verdict"] != "equivalent" and (row["kind"] != "main" or not runs.directed):
            row["verdict"] = ""
        if row["verdict"] == "inconclusive" and not row["note"]:
            options = {"level": row["of_interval"], "fewest": row["n"] + 1}
            row["seeds_needed"] = seeds_needed(row["margin"], row["sd"], **options)
    frame = pd.DataFrame([row for row in rows if row.get("listed", True)])
    frame = frame.rename(columns=lambda name: name.replace("difference", "effect"))
    frame = frame.reindex(columns=list(COLUMNS))
    keys = ["task", "factor", "level"] if design.full else ["task", "key", "factor", "level"]
    size = "effect" if frame.share.isna().all() else "share"
    needs = [] if frame.seeds_needed.isna().all() else ["seeds_needed"]
    frame.attrs = {name: getattr(runs, name) for name in ABOUT} | {
        "caption": caption,
        "notes": [*_notes(runs, frame), *notes],
        "shown": [*keys, "reference", size, "p_adjusted", "verdict", "n", *needs],
    }
    mains = frame[frame.kind == "main"].rename(columns=lambda x: x.replace("effect", "difference"))
    named = mains.assign(variant=mains.factor + " = " + mains.level, pairs=mains.n)
    frame.attrs["summary"] = summary(named, "effect")
    return frame


def _row(
    runs: Runs, basis: Basis, names: Mapping[str, str], effect: Difference, level: float
) -> Row:
    """Return the row of an effect, with the columns of a comparison."""
    low, high, note = effect.low, effect.high, ""
    if not effect.n:
        note = "no seed is complete"
    elif runs.directed and runs.untrained and math.isnan(basis.unit):
        low, high, note = math.nan, math.nan, LEARNED_TOO_LITTLE
    elif math.isnan(low):
        note = "one seed" if effect.n == 1 else "no spread"
    margin = runs.margin * basis.unit
    return {
        **{"task": basis.task, "key": "", "level": "", "reference": "", **names, "n": effect.n},
        **ends("difference", effect),
        **ends("share", effect, basis.unit),
        **{"p": effect.p, "p_adjusted": np.minimum(1.0, effect.p * LEVEL / level)},
        **{"verdict": decide(low, high, margin), "note": note, "seeds_needed": math.nan},
        **{"margin": margin, "sd": effect.sd, "of_interval": level},
    }


def _notes(runs: Runs, frame: pd.DataFrame) -> Iterator[str]:
    diverged = runs.runs[runs.runs.diverged].groupby("task", sort=False).size()
    for task, times in diverged.items():
        yield f"{task}: {count(times, 'run')} diverged, counted as the worst score of the task"
    for task, n in frame[frame.task != ALL_TASKS].groupby("task", sort=False).n.max().items():
        planned = runs.runs[runs.runs.task == task].seed.nunique()
        if n < planned:
            yield f"{task}: only {n} of {planned} seeds are used, as other seeds lack a run"


def _full(runs: Runs, design: Design) -> tuple[list[Row], str, list[str]]:
    counted, bases, rows = with_diverged(runs), list(bases_of(runs, design)), []
    contrasts, variants = factorial.contrasts(design), list(design.variants)
    factors = list(design.factors.items())
    families = 1 + any(basis.task == ALL_TASKS for basis in bases)
    for basis in bases:
        over = basis.task == ALL_TASKS
        tasks = runs.tasks if over else basis.tasks
        shares = families * len(contrasts) * (1 if over else len(runs.tasks))
        stage, level = last_stage(counted, basis.tasks, variants, LEVEL / shares)
        scores = basis.scores(stage, design)
        same = [next(k for k, w in enumerate(variants) if w == v or stage.identical(tasks, v, w))
                for v in variants]  # fmt: skip
        for changes, weights in contrasts.items():
            chosen = [(factors[i][0], factors[i][1][k], factors[i][1][0]) for i, k in changes]
            texts = map(TIMES.join, zip(*chosen, strict=True))
            names = dict(zip(("factor", "level", "reference"), texts, strict=True))
            names["kind"] = "interaction" if len(changes) > 1 else "main"
            effect = factorial.effect(scores, weights, level)
            rows.append(_row(runs, basis, names, effect, level))
            if not np.any(np.abs(np.bincount(same, weights)) > 1e-9):
                rows[-1] |= {"verdict": "equivalent", "note": "identical"}
    stages = ", interim analyses" if runs.plan and runs.plan.looks else ""
    caption = (
        f"Effects of settings on {runs.metric}. Main: mean change from the reference level, over "
        "all levels of the other settings. Interaction: the effect of two changes together minus "
        "the sum of their effects. Paired by seed, on the seeds that every variant has. The 95% "
        f"intervals of all effects are simultaneous (Bonferroni{stages})."
    )
    return rows, caption, []


def _fraction(runs: Runs, design: Design) -> tuple[list[Row], str, list[str]]:
    counted, variants = with_diverged(runs), list(design.variants)
    letters = factorial.letters(len(design.factors))
    rows: list[Row] = []
    errors: dict[str, list[str]] = {}
    for basis in bases_of(runs, design):
        stage, level = last_stage(counted, basis.tasks, variants)
        scores = basis.scores(stage, design)
        mains, together, residual = factorial.fraction_effects(scores, design, level)
        errors.setdefault(_error(residual, scores.shape[1]), []).append(basis.task)
        judged = []
        for key, factor, effect in zip(letters, design.factors, mains, strict=True):
            reference, changed = design.factors[factor]
            names = {"kind": "main", "key": key, "factor": factor}
            names |= {"level": changed, "reference": reference}
            judged.append(_row(runs, basis, names, effect, level / len(mains)))
        together.sort(key=lambda each: -abs(each[1].difference))
        for rank, (alias, effect) in enumerate(together if scores.shape[1] else ()):
            names = {"kind": "aliased", "factor": _sum(alias, letters)}
            row = _row(runs, basis, names, effect, level / len(together))
            judged.append(row | {"listed": rank < LARGEST or effect.sign() != 0})
        # More seeds do not reduce a lack of fit.
        rows += [row | {"sd": math.nan} if residual.lacks_fit else row for row in judged]
    caption = (
        f"Effects on {runs.metric} of {len(design.factors)} settings in {len(variants)} variants, "
        "a fraction of all combinations. Main: mean of the variants with the level minus mean of "
        "the others; it includes interactions of three or more settings. Aliased: a sum of "
        "interactions of two settings. Paired by seed. The 95% intervals of all main effects on a "
        "task are simultaneous (Bonferroni)."
    )
    notes, groups = (
        [f"{listed(tasks)}: {x}" for x, tasks in errors.items()],
        factorial.aliases(design),
    )
    if any(len(group) > 1 for group in groups):
        notes.append(f"aliased: {'; '.join(_sum(group, letters) for group in groups)}")
    return rows, caption, notes


def _sum(alias: Alias, letters: Sequence[str]) -> str:
    """Write aliased interactions as "A×B + C×D"."""
    terms = (
        f"{MINUS if sign < 0 else '+'} {letters[i]}{TIMES.strip()}{letters[j]}"
        for (i, j), sign in alias.items()
    )
    return " ".join(terms).removeprefix("+ ")


def _error(residual: Residual, seeds: int) -> str:
    if math.isnan(residual.variance):
        fewest = f"one seed and fewer than {factorial.FEWEST_UNUSED} unused contrasts"
        return f"no standard errors ({fewest if seeds else 'no seed is complete'})"
    freedom = f"{residual.freedom:.0f} degrees of freedom"
    if residual.lacks_fit:
        return f"standard errors from the lack of fit ({freedom}); more seeds do not reduce them"
    return f"standard errors from the variance between seeds ({freedom})"
