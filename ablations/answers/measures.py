"""The numbers of published answers: a frame of answers, one of effects, one of controls."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from msgspec import structs

from ablations import stats
from ablations.answers.entries import Control, Detail, Entries, Entry, Task
from ablations.comparison import ends
from ablations.core.decode import as_json
from ablations.core.plan import CellEntry
from ablations.errors import UserError, count, listed, unknown
from ablations.records import Plan, plans_folder, read_plan, usable_record
from ablations.request import Request
from ablations.runs import Runs
from ablations.scoring import Floats
from ablations.stats import LEVEL, Difference, factorial
from ablations.stats.differences import by_student
from ablations.tables.effects import design_of
from ablations.tables.formats import MINUS, estimate

MARGIN = 0.05  # of the learned range
COLLAPSED = 0.5  # of the learned range; a run that ends below it has failed to learn
# The seeds of an answer, and its two halves: the second replicates the first. Seeds from 1000 are
# for tuning and validation.
SEEDS = {"": range(1000), "first": range(500), "second": range(500, 1000)}
ANSWERING = SEEDS[""]
SPLITS = 1000  # random splits of a control's seeds
MOST_FALSE = 0.061  # highest share of false splits: 5% plus 1.64 standard errors
PLANTED, LEAST_FOUND = 0.2, 0.95  # the loss in learned ranges; the share that must be detected
MEAN = "mean over tasks"
_SHARES = [
    f"{kind}share{end}" for kind in ("", "plain_", "other_") for end in ("", "_low", "_high")
]
_HALF = ("tasks", "seeds", "seeds_by_task", *_SHARES[:3], "p", "verdict")
_COLUMNS = (
    *("id", "detail", "label", "topic", "domain", "question", "change", "terms"),
    *("study", "factor", "variant", "versus", "settings", "details", "levels"),
    *("tasks", "seeds", "seeds_by_task", "baseline_seeds", "score", "other_score", *_SHARES),
    *("level", "sd", "freedom", "p", "q", "verdict", "note"),
    *("seeds_to_detect", "seeds_to_equivalence", "p_halves"),
    *(f"{half}_{name}" for half in ("first", "second") for name in _HALF),
    "dots",
)
_SHARED = ("profile", "steps", "set", "vary", "base", "geometry")  # equal in plans of one design
_NONE = {"tasks": "", "seeds": 0, "seeds_by_task": "", "verdict": "", "note": "no runs"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Answers:
    """Published answers.

    Attributes:
        frame: a row per comparison.
        effects: a row per comparison and task.
        checks: a row per control and task.
        contrasts: comparison -> its runs.
    """

    entries: Entries
    frame: pd.DataFrame
    effects: pd.DataFrame
    checks: pd.DataFrame
    contrasts: Mapping[str, Contrast]

    def of(self, detail: Detail) -> pd.DataFrame:
        """Return the rows of a detail."""
        return self.frame[self.frame.detail == detail.id]

    @cached_property
    def sensitive(self) -> frozenset[str]:
        """The domains in which a bug was found on every task of its control."""
        positive = self.checks[self.checks.kind == "bug"]
        found = positive.groupby(["domain", "control"]).kept.agg(lambda kept: (kept == True).all())  # noqa: E712
        return frozenset(domain for (domain, _), kept in found.items() if kept)


def answer_all(results: Path, entries: Entries) -> Answers:
    """Make all comparisons from all stored runs of their designs. Archives must be unpacked.

    Columns of the frame (effects are in learned ranges, and of turning the detail on):
        id, study, factor, variant, versus: from questions.toml, with texts of the detail.
        settings, details, levels: of a fractional factorial: the number of variants and of
            factors, and the two compared levels.
        tasks, seeds, baseline_seeds: used by the answer. `seeds` is the smallest number of a task.
        seeds_by_task: the number of each task, or one number if all are equal.
        score, other_score: the two scores of a run; the first one decides.
        share, share_low, share_high: mean effect over tasks with its 95% interval. The intervals of
            a fractional factorial are simultaneous over its details.
        plain_share: from paired seeds only, if the baseline has more seeds.
        other_share: by the other score.
        level: of the interval.
        p, q: of no effect, and adjusted over all answers (Benjamini-Hochberg).
        sd, freedom: of the paired differences; degrees of freedom of Student's t.
        verdict, note: see `stats.decide`.
        seeds_to_detect: seeds that detect a true effect of 5% with 80% power.
        seeds_to_equivalence: seeds that show equivalence with 80% power if the true effect is 0.
            Both are for inconclusive answers; NaN if more seeds do not help.
        first_*, second_*: the same on seeds below 500 and on the others.
        p_halves: of equal effects on both.
        dots: the effect of each seed.

    Raises:
        UserError: the study of a comparison has no runs, or does not have its factor.
    """
    read: dict[str, Runs] = {}

    def contrast(entry: Entry) -> Contrast:
        request = entry.request()
        if (command := request.command()) not in read:
            read[command] = stored(results, request)
        return Contrast(entry, read[command])

    tasks = entries.tasks
    checks = [row for each in entries.control for row in _check(each, contrast(each), tasks)]
    pairs = [(detail, each) for detail in entries.detail for each in detail.comparison]
    contrasts = {each.id: contrast(each) for _, each in pairs}
    made = [_answer(detail, contrasts[each.id], tasks) for detail, each in pairs]
    frame = pd.DataFrame([row for row, _ in made]).reindex(columns=list(_COLUMNS))
    known = frame.p.dropna().sort_values(ascending=False)
    frame["q"] = (known * len(known) / np.arange(len(known), 0, -1)).cummin()
    effects = pd.DataFrame([row for _, own in made for row in own])
    columns = ["control", "kind", "domain", "expected", "task", "outcome", "kept"]
    return Answers(entries, frame, effects, pd.DataFrame(checks, columns=columns), contrasts)


# Runs


def stored(folder: Path, request: Request) -> Runs:
    """Return all stored runs of a study with the same selection but of tasks and seeds.

    They come from all of its plans; a run in several plans counts once. This needs neither the
    study's definition nor JAX. Raises UserError without plans.
    """

    def shared(flags: Any) -> list[Any]:
        return [as_json(flags).get(name) or None for name in _SHARED]

    first: Plan | None = None
    tasks, variants, cells = dict[str, Any](), dict[str, Any](), dict[Any, CellEntry]()
    for path in sorted(plans_folder(folder, request.study).glob("*.json")):
        with contextlib.suppress(UserError):  # a damaged plan, or one of another version
            plan = read_plan(folder, request.study, path.stem)
            if shared(plan.request) != shared(request.flags()):
                continue
            first = first or plan
            tasks, variants = {**plan.tasks, **tasks}, {**plan.variants, **variants}
            for cell in plan.cells:
                if plan.tasks[cell.task] == tasks[cell.task]:
                    cells.setdefault(cell.place, cell)
    if first is None:
        raise UserError(f"there are no runs of `{request.command()}`")
    merged = {"tasks": tasks, "variants": variants, "cells": (*cells.values(),)}
    return Runs.read(folder, structs.replace(first, **merged))


def cost(designs: Collection[Runs]) -> tuple[int, float, list[str]]:
    """Return the number of runs, the core-hours of training, and the processor models."""
    names = {(of.folder, cell.hash) for of in designs if of.plan for cell in of.plan.cells}
    records = [usable_record(folder, name) for folder, name in sorted(names) if folder]
    runs = [record.provenance for record in records if record is not None]
    seconds = math.fsum(run.get("seconds", 0.0) / max(1, run.get("lanes", 1)) for run in runs)
    return len(runs), seconds / 3600, sorted({r["processor"] for r in runs if "processor" in r})


@cache
def _scores(runs: Runs, name: str) -> pd.DataFrame:
    if name != runs.score and runs.folder is not None:
        runs = Runs.read(runs.folder, runs.plan, runs.metric, name)  # type: ignore[arg-type]
    return runs.scores


@cache
def _fraction(runs: Runs) -> factorial.Design | None:
    return design_of(runs.plan) if runs.plan else None


class Contrast:
    """Two variants, or the two levels of a factor, of which one turns a detail on.

    `sides` are the variants without the detail, and those with it. `details` is the number of
    factors, whose intervals are simultaneous. `fraction` is the design of a fractional factorial.
    """

    def __init__(self, entry: Entry, runs: Runs) -> None:
        """Raise UserError if the study does not have the factor."""
        assert runs.plan is not None
        self.entry, self.runs, self.plan, self.factor = entry, runs, runs.plan, entry.factor
        self.fraction = None if entry.variant else _fraction(runs)
        self.baseline, self.index, self.details, self.levels = [entry.versus], 0, 1, ""
        sides = [self.baseline, [entry.variant]]
        if self.factor:
            factors = self.fraction.factors if self.fraction else {}
            if self.fraction is None or self.factor not in factors:
                raise unknown(f"factor of '{entry.id}'", self.factor, factors)
            self.index, self.details = list(factors).index(self.factor), len(factors)
            self.levels = " against ".join(reversed(factors[self.factor]))
            variants = self.fraction.variants.items()
            sides = [[n for n, chosen in variants if chosen[self.index] == i] for i in (0, 1)]
        self.sides = sides[::-1] if entry.reverse else sides

    def table(self, task: Task, score: str = "") -> pd.DataFrame:
        """Return scores of all runs, a row per seed; default: by the task's score."""
        return _scores(self.runs, score or task.score or self.runs.score)

    def learned(self, task: Task, score: str = "") -> float:
        """Return a task's learned range by a score (default: the task's).

        It goes from the better untrained policy to the mean of a variant: the entry's `range_of`,
        by default the study's baseline. In a fractional factorial, and without runs of the variant,
        it is the range of the validation. It is 1 if the task did not pass validation.
        """
        if not task.passes or task.validation is None:
            return 1.0
        end = (task.column, self.entry.range_of or self.plan.study.baseline)
        scores, top = self.table(task, score).get(end), task.validation.score
        if self.entry.variant and scores is not None:
            top = float(scores[scores.index.isin(ANSWERING)].mean())
        return top - task.validation.floor or 1.0

    def scores(
        self,
        tasks: Sequence[Task],
        variants: Sequence[str],
        seeds: range = ANSWERING,
        score: str = "",
    ) -> Floats:
        """Return scores `[tasks, n, variants]` on the n seeds that are complete on every task.

        The unit is the learned range; on tasks without one it is the unit of the metric.
        """
        parts = []
        for task in tasks:
            table = self.table(task, score)
            places = table.columns.get_indexer([(task.column, variant) for variant in variants])
            if -1 in places:
                return np.zeros((len(tasks), 0, len(variants)))
            parts.append(table.iloc[:, places] / self.learned(task, score))
        table = pd.concat(parts, axis=1).sort_index()
        rows = table[table.index.isin(seeds)].dropna().to_numpy()
        return np.asarray(rows.reshape(-1, len(tasks), len(variants)).transpose(1, 0, 2))

    def both(self, tasks: Sequence[Task], seeds: range, score: str = "") -> list[Floats]:
        """Return scores `[tasks, n, variants]` with the detail off and on, on shared seeds."""
        scores = self.scores(tasks, [*self.sides[0], *self.sides[1]], seeds, score)
        return np.split(scores, [len(self.sides[0])], axis=2)

    def pairs(self, tasks: Sequence[Task], seeds: range, score: str = "") -> list[int]:
        """Return the number of complete seeds on each task."""
        return [self.both([task], seeds, score)[0].shape[1] for task in tasks]

    def effect(
        self, tasks: Sequence[Task], seeds: range, level: float = LEVEL, score: str = ""
    ) -> tuple[Difference, Difference, bool]:
        """Return the mean effect over tasks, the effect from paired seeds only, and a flag.

        The flag says whether more seeds narrow the interval. The details of a fractional factorial
        share `level`. If tasks have different seeds, their errors are combined.
        """
        both = self.both(tasks, seeds, score)
        n = both[0].shape[1]
        if len(tasks) > 1 and not self.fraction and {*self.pairs(tasks, seeds, score)} != {n}:
            alone = (self.effect([task], seeds, level, score) for task in tasks)
            results, plains, _ = zip(*alone, strict=True)
            return stats.mean_of_tasks(results, level), stats.mean_of_tasks(plains, level), True
        if not n:
            return Difference(0), Difference(0), True
        if self.fraction:
            y = self.scores(tasks, list(self.fraction.variants), seeds, score)
            mains, _, residual = factorial.fraction_effects(y, self.fraction, level)
            result, plain, seeds_help = mains[self.index], None, not residual.lacks_fit
        else:
            unchanged, changed = (side[..., 0] for side in both)
            plain, seeds_help = stats.paired(changed, unchanged, level), True
            every = self.scores(tasks, self.baseline, seeds, score)[..., 0]
            if every.shape[1] == plain.n:
                return plain, plain, True
            pair = (unchanged, changed) if self.entry.reverse else (changed, unchanged)
            result = stats.control_variate(*pair, every, level)
        if self.entry.reverse:
            center, low, high = -result.difference, -result.high, -result.low
            result = replace(result, difference=center, low=low, high=high)
        return result, plain or result, seeds_help

    def failures(self, tasks: Sequence[Task], seeds: range) -> int:
        """Return the failed runs with the detail minus those without it, on shared seeds."""
        runs, names = self.runs, [task.column for task in tasks]
        if not (runs.runs.status == "failed").any():
            return 0
        runs = runs.where(runs.runs.seed.isin(seeds))
        return sum(runs.failures(names, new, old) for old, new in zip(*self.sides, strict=True))


def _answer(
    detail: Detail, contrast: Contrast, tasks_of: Mapping[str, Task]
) -> tuple[Row, list[Row]]:
    """Return the row of a comparison, and the rows of its effects on single tasks.

    The mean uses tasks that passed validation and have two seeds, or one seed if none has two.
    """
    comparison = contrast.entry
    tasks = [tasks_of[name] for name in comparison.tasks]
    columns = ("id", "study", "factor", "variant", "versus")
    row: Row = {name: getattr(comparison, name) for name in columns}
    row |= {name: getattr(detail, name) for name in ("label", "topic", "question", "change")}
    row |= {"detail": detail.id, "domain": tasks[0].domain, "terms": ", ".join(detail.terms)}
    row |= {"settings": sum(map(len, contrast.sides)), "details": contrast.details}
    row |= {"levels": contrast.levels}
    used = {name: _used(contrast, tasks, seeds) for name, seeds in SEEDS.items()}
    effects = [
        {
            **{"id": comparison.id, "used": task in used[""]},
            **_numbers(contrast, [task], ANSWERING),
            **_of_one_task(contrast, task),
        }
        for task in tasks
    ]
    whole, *halves = (_numbers(contrast, used[name], seeds) for name, seeds in SEEDS.items())
    if not used[""] and any(each["seeds"] for each in effects):
        whole["note"] = "no task passed validation"
    row |= whole
    for name, half in zip(("first", "second"), halves, strict=True):
        row |= {f"{name}_{column}": half.get(column) for column in _HALF}
    if all(half["seeds"] > 1 for half in halves) and not contrast.factor:
        row["p_halves"] = _p_of_equality(*halves)
    return row, effects


def _used(contrast: Contrast, tasks: Sequence[Task], seeds: range) -> list[Task]:
    counts = [(task, contrast.effect([task], seeds)[0].n) for task in tasks if task.passes]
    return [task for task, n in counts if n > 1] or [task for task, n in counts if n]


def _numbers(contrast: Contrast, tasks: Sequence[Task], seeds: range) -> Row:
    if not tasks:
        return dict(_NONE)
    result, plain, seeds_help = contrast.effect(tasks, seeds)
    names, level = ", ".join(task.column for task in tasks), LEVEL / contrast.details
    row: Row = {"task": names, "tasks": names, "seeds": result.n}
    pairs = contrast.pairs(tasks, seeds)
    row["seeds_by_task"] = ", ".join(map(str, pairs if len({*pairs}) > 1 else pairs[:1]))
    if not result.n:
        return _NONE | row
    verdict, note = _verdict(contrast, tasks, seeds, result)
    if note == "identical":
        result = Difference(result.n, 0.0, 0.0, 0.0, 1.0, 0.0)
    elif verdict == "inconclusive" and not note:
        if seeds_help:
            needed = partial(stats.seeds_needed, level=level, fewest=result.n + 1)
            row["seeds_to_detect"] = needed(MARGIN, plain.sd)
            # A share of `level` finds a difference although there is none.
            chance = stats.POWER + level
            row["seeds_to_equivalence"] = needed(0.0, plain.sd, MARGIN, chance=chance)
        else:
            note = "more seeds alone would not decide"
    unchanged, changed = contrast.both(tasks, seeds)
    baseline_seeds = contrast.scores(tasks, contrast.baseline, seeds).shape[1]
    row["baseline_seeds"] = result.n if contrast.factor else baseline_seeds
    score = tasks[0].score or contrast.runs.score
    other = "last" if score == "mean" else "mean"
    if len(tasks) == 1:
        row |= ends("difference", result, 1 / contrast.learned(tasks[0]))
    if all(task.passes for task in tasks):
        row |= ends("share", result) | ends("plain_share", plain)
        row |= ends("other_share", contrast.effect(tasks, seeds, score=other)[0])
        row["dots"] = changed.mean(axis=(0, 2)) - unchanged.mean(axis=(0, 2))
    row |= {"level": level, "p": result.p, "sd": result.sd, "freedom": result.freedom}
    return row | {"score": score, "other_score": other, "verdict": verdict, "note": note}


def _of_one_task(contrast: Contrast, task: Task) -> Row:
    both = contrast.both([task], ANSWERING)
    if not both[0].size:
        return {}
    size = contrast.learned(task)
    row: Row = {"unchanged": size * both[0].mean(), "changed": size * both[1].mean()}
    if task.validation is None or not task.passes:
        return row
    # All seeds of each variant; in a fraction, the seeds that every variant has.
    alone = [contrast.scores([task], side) for side in contrast.sides]
    unchanged, changed = (side.ravel() for side in (both if contrast.factor else alone))
    floor = task.validation.floor / size
    if not contrast.factor and len(unchanged) > 1:
        row["lead"] = (unchanged.mean() - floor) / max(1e-12, unchanged.std(ddof=1))
    events = [int(np.sum(side < floor + COLLAPSED)) for side in (unchanged, changed)]
    p = stats.fisher_p((events[0], events[1]), (len(unchanged), len(changed)))
    return row | {
        "collapsed_unchanged": f"{events[0]} of {len(unchanged)}",
        "collapsed_changed": f"{events[1]} of {len(changed)}",
        "p_collapsed": min(1.0, p * contrast.details),
    }


def _verdict(
    contrast: Contrast, tasks: Sequence[Task], seeds: range, result: Difference
) -> tuple[str, str]:
    names, sides = [task.column for task in tasks], contrast.sides
    if result.n < 2:
        return "inconclusive", "one seed"
    if not contrast.factor and contrast.runs.identical(names, sides[1][0], sides[0][0]):
        return "equivalent", "identical"
    if math.isnan(result.low):
        return "inconclusive", "no spread between seeds"
    by_sign: dict[int, list[str]] = {1: [], 0: [], -1: []}
    for task in tasks:  # by intervals that are simultaneous over tasks
        single, *_ = contrast.effect([task], seeds, LEVEL / len(tasks))
        by_sign[(single.low > 0) - (single.high < 0)].append(task.column)
    if by_sign[1] and by_sign[-1]:
        positive, negative = listed(by_sign[1]), listed(by_sign[-1])
        return "inconclusive", f"tasks disagree: + on {positive}, - on {negative}"
    more = contrast.failures(tasks, seeds)
    side = "with" if more > 0 else "without"
    note = f"{count(abs(more), 'more failed run')} {side} the change" if more else ""
    scale = 1.0 if len(tasks) > 1 or tasks[0].passes else math.nan
    return stats.decide(result.low, result.high, MARGIN * scale, more), note


def _p_of_equality(first: Row, second: Row) -> float:
    a, b = (
        (row["share_high"] - row["share_low"]) / 2 / stats.student(row["freedom"], row["level"])
        for row in (first, second)
    )
    if not (a > 0 and b > 0):
        return math.nan
    freedom = math.hypot(a, b) ** 4 / (a**4 / first["freedom"] + b**4 / second["freedom"])
    return by_student(2, first["share"] - second["share"], math.hypot(a, b), freedom).p


def percent(row: Mapping[str, Any], name: str = "share") -> str:
    """Write an effect in % of the learned range, such as "+12% [6, 18]"; "" without an effect."""
    numbers = [100 * row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high")]
    head, bracket, tail = estimate(*numbers, sign=True).replace(MINUS, "-").partition(" [")
    return f"{head}%{bracket}{tail}" if head else ""


# Controls

Outcome = tuple[str, str, bool | None]  # task, text, as expected


def _check(control: Control, contrast: Contrast, tasks_of: Mapping[str, Task]) -> list[Row]:
    """Return a row per task that passed validation; a fraction has a row for their mean too."""
    tasks = [task for name in control.tasks if (task := tasks_of[name]).passes]
    check = {"halves": _halves, "same": _pair, "bug": _pair}.get(control.kind, _check_fraction)
    outcomes = [*check(control.kind, contrast, tasks)] or [("", "no runs", None)]
    row = {"control": control.label, "kind": control.kind, "expected": control.expected}
    row["domain"] = tasks_of[control.tasks[0]].domain
    return [row | dict(zip(("task", "outcome", "kept"), each, strict=True)) for each in outcomes]


def _pair(kind: str, contrast: Contrast, tasks: Sequence[Task]) -> Iterator[Outcome]:
    for task in tasks:
        _, result, _ = contrast.effect([task], ANSWERING)
        if not math.isnan(result.low):
            kept = result.high < 0 if kind == "bug" else result.low <= 0 <= result.high
            yield task.column, f"{percent(ends('share', result))}, {count(result.n, 'seed')}", kept


def _halves(_: str, contrast: Contrast, tasks: Sequence[Task]) -> Iterator[Outcome]:
    for task in tasks:
        values = contrast.scores([task], contrast.sides[1])[0, :, 0]
        if (half := len(values) // 2) > 1:
            random = np.random.default_rng(0)
            orders = [values, *(random.permutation(values) for _ in range(SPLITS))]
            first, *others = [stats.welch(o[:half], o[half : 2 * half]) for o in orders]
            false = float(np.mean([other.sign() != 0 for other in others]))
            text = f"{percent(ends('share', first))}, {half} seeds each; {_false(false)}"
            yield task.column, text, first.sign() == 0 and false <= MOST_FALSE


def _check_fraction(kind: str, contrast: Contrast, tasks: Sequence[Task]) -> Iterator[Outcome]:
    if (fraction := contrast.fraction) is None:
        return
    variants, least = list(fraction.variants), 1 if kind == "unused" else 2
    alone = [task for task in tasks if contrast.scores([task], variants).shape[1] >= least]
    for pooled in [*([task] for task in alone), *([alone] if len(alone) > 1 else [])]:
        y = contrast.scores(pooled, variants)
        if kind == "unused":
            effects = factorial.unused_effects(y, fraction)
            judged = np.array([[(e.difference, e.low, e.high) for e in effects]])
        else:
            judged = factorial.placebos(y, fraction, SPLITS)
        if judged.size and not np.isnan(judged).any():
            outcome = _planted if kind == "planted" else _none_differ
            text, kept = outcome(judged[..., 1], judged[..., 2])
            task = pooled[0].column if len(pooled) == 1 else MEAN
            yield task, f"{text}, {count(y.shape[1], 'seed')}", kept


def _planted(_: Floats, high: Floats) -> tuple[str, bool]:
    """Return whether a loss is detected in the first split and in random splits.

    `high` has the upper ends of the placebos' intervals `[splits, details]`. A constant loss moves
    the estimate but not its error, so it is detected if the upper end is below the loss.
    """
    detected = high < PLANTED
    first, share = int(detected[0].sum()), float(detected[1:].mean())
    text = f"detected in {first} of {detected.shape[1]}; {SPLITS:,} random splits: in "
    return f"{text}{100 * share:.1f}%", bool(detected[0].all()) and share >= LEAST_FOUND


def _none_differ(low: Floats, high: Floats) -> tuple[str, bool]:
    outside = (low > 0) | (high < 0)
    few, reach = int(outside[0].sum()), (100 * low[0].min(), 100 * high[0].max())
    text = f"{few or 'none'} of {outside.shape[1]} exclude{'s' * (few < 2)} 0, "
    text += "intervals reach {:+.0f} to {:+.0f}%".format(*reach)
    false = float(outside[1:].any(axis=1).mean()) if len(outside) > 1 else 0.0
    splits = f"; {_false(false)}" if len(outside) > 1 else ""
    return text + splits, few == 0 and false <= MOST_FALSE


def _false(share: float) -> str:
    return f"{SPLITS:,} random splits: {100 * share:.1f}% false"
