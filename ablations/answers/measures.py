"""The numbers of published answers: a frame of answers, one of effects, one of controls."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from msgspec import structs

from ablations import stats
from ablations.answers.entries import Control, Entries, Question, Task
from ablations.core.decode import as_json
from ablations.core.plan import CellEntry
from ablations.errors import UserError, count, listed, unknown
from ablations.records import Plan, plans_folder, read_plan, usable_record
from ablations.request import Request
from ablations.runs import Runs
from ablations.scoring import SCORES, Floats
from ablations.stats import LEVEL, Difference, factorial
from ablations.stats.differences import by_student
from ablations.tables.effects import design_of
from ablations.tables.formats import MINUS, estimate

MARGIN = 0.05  # of the learned range
COLLAPSED = 0.5  # of the learned range; a run that ends below it has failed to learn
SEEDS = {"": range(500), "held_out": range(500, 1000), "all_seeds": range(1000)}  # later ones tune
ANSWERING = SEEDS[""]
SPLITS = 1000  # of a control's seeds at random
MOST_FALSE = 0.061  # share of false splits: 5%, and 1.64 standard errors of so many
PLANTED, LEAST_FOUND = 0.2, 0.95  # a loss in learned ranges; the share that must be found
MEAN = "mean over tasks"
_NAMES = ("id", "label", "group", "question", "study", "factor", "variant", "versus")
_SHARES = [f"{kind}share{end}" for kind in ("", "plain_", "area_") for end in ("", "_low", "_high")]
_REPEATED = ("tasks", "seeds", *_SHARES[:3], "p", "verdict")
_COLUMNS = (
    *(*_NAMES, "settings", "details", "levels", "tasks", "seeds", "baseline_seeds", *_SHARES),
    *("level", "sd", "freedom", "p", "q", "verdict", "note", "seeds_needed", "p_held_out"),
    *(f"{part}_{name}" for part in ("held_out", "all_seeds", "other") for name in _REPEATED),
    *("other_settings", "dots"),
)
_SHARED = ("profile", "steps", "set", "vary", "base", "geometry")  # equal in plans of one design


@dataclass(frozen=True)
class Answers:
    """Published answers.

    frame: a row per question. effects: rows per question, of the mean over tasks and of each task.
    checks: a row per control and task. designs: the runs that they rest on.
    """

    entries: Entries
    frame: pd.DataFrame
    effects: pd.DataFrame
    checks: pd.DataFrame
    designs: Sequence[Design]


def answer_all(results: Path, entries: Entries) -> Answers:
    """Answer questions from all stored runs of their designs; archives are unpacked already.

    Columns of the frame; effects are in learned ranges (1 is what the baseline learned):
    id, label, group, question, study, factor, variant, versus: of questions.toml.
    settings, details, levels: of a fraction: variants, factors, the two levels compared.
    tasks, seeds, baseline_seeds: that the answer rests on.
    share, share_low, share_high: the mean effect over tasks with its 95% interval, by itself; of a
        fraction for all of its details simultaneously. plain_share: by pairs alone, where the
        baseline has more seeds. area_share: on the area under the evaluations, which is speed.
    level: of the interval. p: of no effect. q: p adjusted over all answers (Benjamini-Hochberg).
    sd: of the paired differences. freedom: of Student's t. verdict, note: see `stats.decide`.
    seeds_needed: to show 5% with 80% power, where inconclusive; NaN where seeds do not help.
    held_out_*, all_seeds_*: the same on seeds from 500 on, and on both. p_held_out: of equal
        effects on both. other_*: in the question's other design. dots: the effect of each seed.

    Raises:
        UserError: stored runs of a question's study lack its factor.
    """
    designs: dict[str, Design | None] = {}

    def design(entry: Question | Control) -> Design | None:
        request = entry.request()
        if (command := request.command()) not in designs:
            plan = stored(results, request)
            designs[command] = None if plan is None else Design(results, plan)
        return designs[command]

    checks = [
        row for control in entries.controls for row in _check(control, design(control), entries)
    ]
    rows, effects = [], []
    for question in entries.questions:
        row, own = _answer(question, design(question), entries)
        if other := question.elsewhere():
            there, _ = _answer(other, design(other), entries)
            row |= {f"other_{name}": there.get(name) for name in (*_REPEATED, "settings")}
        rows.append(row)
        effects += own
    frame = pd.DataFrame(rows).reindex(columns=list(_COLUMNS))
    known = frame.p.dropna().sort_values(ascending=False)
    frame["q"] = (known * len(known) / np.arange(len(known), 0, -1)).cummin()
    used = [each for each in designs.values() if each is not None]
    return Answers(entries, frame, pd.DataFrame(effects), pd.DataFrame(checks), used)


# Designs


def stored(folder: Path, request: Request) -> Plan | None:
    """Return one plan of all tasks and seeds of a design, however they were divided into runs.

    Plans are those of archives and of what ran here; reading them needs neither the study nor JAX.
    A run that several have counts once. None if there is no plan.
    """

    def shared(flags: Any) -> list[Any]:
        return [as_json(flags).get(name) or None for name in _SHARED]

    plans = []
    for path in sorted(plans_folder(folder, request.study).glob("*.json")):
        with contextlib.suppress(UserError):  # damaged, or of another version
            plan = read_plan(folder, request.study, path.stem)
            if shared(plan.request) == shared(request.flags()):
                plans.append(plan)
    if not plans:
        return None
    tasks = {name: task for plan in reversed(plans) for name, task in plan.tasks.items()}
    variants = {name: about for plan in reversed(plans) for name, about in plan.variants.items()}
    cells: dict[tuple[str, str, int], CellEntry] = {}
    for plan in plans:
        for cell in plan.cells:
            if plan.tasks[cell.task] == tasks[cell.task]:
                cells.setdefault(cell.place, cell)
    return structs.replace(plans[0], tasks=tasks, variants=variants, cells=tuple(cells.values()))


@dataclass(frozen=True, eq=False)
class Design:
    """The runs of a study at one selection."""

    folder: Path
    plan: Plan

    @cached_property
    def runs(self) -> Runs:
        """The runs by the study's score."""
        return Runs.read(self.folder, self.plan)

    @cached_property
    def factorial(self) -> factorial.Design | None:
        """The factorial that the variants form."""
        return design_of(self.plan)

    @cached_property
    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Scores, and areas under the evaluations: a row per seed, columns (task, variant)."""
        areas = {
            place: {n: SCORES["auc"](curve.steps, curve.values) for n, curve in curves.items()}
            for place in itertools.product(self.plan.tasks, self.plan.variants)
            if (curves := self.runs.curves_of(*place))
        }
        return self.runs.scores, pd.DataFrame(areas)

    def array(
        self,
        tasks: Sequence[Task],
        variants: Sequence[str],
        seeds: range = ANSWERING,
        *,
        area: bool = False,
    ) -> Floats:
        """Return scores `[tasks, n, variants]` on the seeds that all have on every task.

        In learned ranges, and in the metric on tasks without one.
        """
        table = self.tables[area]
        places = list(itertools.product([task.column for task in tasks], variants))
        if not set(places) <= set(table):
            return np.zeros((len(tasks), 0, len(variants)))
        columns = [table.columns.get_loc(place) for place in places]
        rows = table.to_numpy()[table.index.isin(seeds)][:, columns]
        rows = rows[~np.isnan(rows).any(axis=1)].reshape(-1, len(tasks), len(variants))
        sizes = np.array([task.range or 1.0 for task in tasks])
        return np.asarray(rows.transpose(1, 0, 2) / sizes[:, None, None])


def cost(designs: Sequence[Design]) -> tuple[int, float, list[str]]:
    """Return the number of runs, the hours that a core trained, and the makes of processors."""
    names = {(design.folder, cell.hash) for design in designs for cell in design.plan.cells}
    records = [record for name in sorted(names) if (record := usable_record(*name)) is not None]
    runs = [record.provenance for record in records]
    seconds = math.fsum(run.get("seconds", 0.0) / max(1, run.get("lanes", 1)) for run in runs)
    return len(runs), seconds / 3600, sorted({r["processor"] for r in runs if "processor" in r})


# Answers


class Contrast:
    """What a question compares: two variants, or the two levels of a factor.

    sides: the variants without and with the change. details: of a fraction, whose intervals hold
    simultaneously.
    """

    def __init__(self, question: Question, design: Design) -> None:
        """Raise UserError if the study has no such factor."""
        self.design, self.factor, self.details, self.levels = design, question.factor, 1, ""
        self.sides = ([question.versus], [question.variant])
        self.factorial = design.factorial if question.factor else None
        if not question.factor:
            return
        factors = self.factorial.factors if self.factorial else {}
        if self.factorial is None or question.factor not in factors:
            raise unknown(f"factor of '{question.id}'", question.factor, factors)
        index = list(factors).index(question.factor)
        chosen = {name: levels[index] for name, levels in self.factorial.variants.items()}
        unchanged, changed = ([v for v, level in chosen.items() if level == k] for k in (0, 1))
        self.sides, self.details = (unchanged, changed), len(self.factorial.changes)
        self.levels = " against ".join(reversed(factors[question.factor][:2]))

    def both(self, tasks: Sequence[Task], seeds: range, *, area: bool = False) -> list[Floats]:
        """Return scores without and with the change, `[tasks, n, variants]` on common seeds."""
        scores = self.design.array(tasks, [*self.sides[0], *self.sides[1]], seeds, area=area)
        return np.split(scores, [len(self.sides[0])], axis=2)

    def effect(
        self, tasks: Sequence[Task], seeds: range, level: float = LEVEL, *, area: bool = False
    ) -> tuple[Difference, Difference, bool]:
        """Estimate the mean effect over tasks; level: shared by the details of a fraction.

        Returns the effect, the same by pairs alone, and whether more seeds narrow its interval.
        """
        unchanged, changed = self.both(tasks, seeds, area=area)
        if not unchanged.shape[1]:
            return Difference(0), Difference(0), True
        if self.factorial is None:
            pairs = changed[..., 0], unchanged[..., 0]
            result = plain = stats.paired(*pairs, level)
            every = self.design.array(tasks, self.sides[0], seeds, area=area)[..., 0]
            if every.shape[1] > plain.n:
                result = stats.control_variate(*pairs, every, level)
            return result, plain, True
        y = self.design.array(tasks, list(self.factorial.variants), seeds, area=area)
        mains, _, residual = factorial.fraction_effects(y, self.factorial, level)
        result = next(main.difference for main in mains if main.factors == (self.factor,))
        return result, result, not residual.lacks_fit

    def failed(self, tasks: Sequence[Task], seeds: range) -> list[int]:
        """Count the failed runs of either side, on the seeds that both have."""
        rows = self.design.runs.runs
        rows = rows[rows.task.isin([task.column for task in tasks]) & rows.seed.isin(seeds)]
        status = rows.pivot(index=["task", "seed"], columns="variant", values="status")
        status = status.reindex(columns=[*self.sides[0], *self.sides[1]])
        ended = status[status.isin(["done", "failed"]).all(axis=1)]
        return [int((ended[side] == "failed").to_numpy().sum()) for side in self.sides]


def _answer(
    question: Question, design: Design | None, entries: Entries
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the row of an answer, and those of its effects.

    Tasks count that passed validation and have two seeds, or one seed if none has two.
    """
    row = {name: getattr(question, name) for name in _NAMES}
    tasks = [entries.tasks[name] for name in question.tasks]
    none = {"tasks": "", "seeds": 0, "verdict": "", "note": "no runs"}
    if design is None:
        return row | none, [{"id": question.id, "task": task.column} for task in tasks]
    contrast = Contrast(question, design)
    row |= {"settings": sum(map(len, contrast.sides)), "details": contrast.details}
    row |= {"levels": contrast.levels}
    single = [_numbers(contrast, [task], ANSWERING) for task in tasks]
    effects = [{"id": question.id, "used": False, **each} for each in single]
    for name, seeds in SEEDS.items():
        pairs = {task: contrast.effect([task], seeds)[0].n for task in tasks}
        passed = [task for task, n in pairs.items() if n and task.range]
        kept = [task for task in passed if pairs[task] > 1] or passed
        mean = _numbers(contrast, kept, seeds) if kept else none
        if not name:
            failing = any(pairs.values()) and not kept
            row |= mean | ({"note": "no task passed validation"} if failing else {})
            for each, task in zip(effects, tasks, strict=True):
                each["used"] = task in kept
        elif mean["seeds"] and row["seeds"] and (name == "held_out" or "p_held_out" in row):
            row |= {f"{name}_{column}": mean.get(column) for column in _REPEATED}
            if name == "held_out":
                row["p_held_out"] = _p_of_equality(row, mean)
    return row, effects


def _numbers(contrast: Contrast, tasks: Sequence[Task], seeds: range) -> dict[str, Any]:
    """Return the columns of an effect; of one task also the scores, and collapsed runs."""
    result, plain, seeds_help = contrast.effect(tasks, seeds)
    names, level = ", ".join(task.column for task in tasks), LEVEL / contrast.details
    row: dict[str, Any] = {
        "task": names,
        "tasks": names,
        "about": tasks[0].about,
        "seeds": result.n,
    }
    if not result.n:
        return row | {"verdict": "", "note": "no runs"}
    verdict, note = _verdict(contrast, tasks, seeds, result)
    if note == "identical":
        result = Difference(result.n, 0.0, 0.0, 0.0, 1.0, 0.0)
    elif verdict == "inconclusive" and result.n > 1 and not note:
        if seeds_help:
            row["seeds_needed"] = stats.seeds_needed(
                MARGIN, plain.sd, level=level, fewest=result.n + 1
            )
        else:
            note = "more seeds alone would not decide"
    unchanged, changed = self_both = contrast.both(tasks, seeds)
    every = [contrast.design.array(tasks, side, seeds) for side in contrast.sides]
    row |= {"baseline_seeds": result.n if contrast.factor else every[0].shape[1]}
    size = tasks[0].range or 1.0
    if len(tasks) == 1:
        row |= {"unchanged": size * unchanged.mean(), "changed": size * changed.mean()}
        row |= _ends("difference", result, size)
    if all(task.range for task in tasks):
        row |= _ends("share", result) | _ends("plain_share", plain)
        row |= _ends("area_share", contrast.effect(tasks, seeds, area=True)[0])
        row["dots"] = changed.mean(axis=(0, 2)) - unchanged.mean(axis=(0, 2))
    row |= {"level": level, "p": result.p, "sd": result.sd, "freedom": result.freedom}
    row |= {"verdict": verdict, "note": note}
    exam = tasks[0].exam
    if len(tasks) > 1 or exam is None or not tasks[0].range:
        return row
    # All seeds of either variant; of a fraction those that every setting has.
    sides = [side.ravel() for side in (self_both if contrast.factor else every)]
    if not contrast.factor and len(sides[0]) > 1:
        row["lead"] = (sides[0].mean() - exam.floor / size) / max(1e-12, sides[0].std(ddof=1))
    events = [int(np.sum(side < exam.floor / size + COLLAPSED)) for side in sides]
    p = stats.fisher_p((events[0], events[1]), (len(sides[0]), len(sides[1])))
    texts = [f"{few} of {len(side)}" for few, side in zip(events, sides, strict=True)]
    row |= {"collapsed_unchanged": texts[0], "collapsed_changed": texts[1]}
    return row | {"p_collapsed": min(1.0, p * contrast.details)}


def _verdict(
    contrast: Contrast, tasks: Sequence[Task], seeds: range, result: Difference
) -> tuple[str, str]:
    """Return the verdict by `stats.decide`, and why it is not the plain one."""
    names, runs = [task.column for task in tasks], contrast.design.runs
    if result.n < 2:
        return "inconclusive", "one seed"
    if not contrast.factor and runs.identical(names, contrast.sides[1][0], contrast.sides[0][0]):
        return "equivalent", "identical"
    if math.isnan(result.low):
        return "inconclusive", "no spread between seeds"
    on: dict[int, list[str]] = {1: [], 0: [], -1: []}
    for task in tasks:  # tasks disagree where intervals that hold on all of them at once do
        single, *_ = contrast.effect([task], seeds, LEVEL / len(tasks))
        on[(single.low > 0) - (single.high < 0)].append(task.column)
    if on[1] and on[-1]:
        return "inconclusive", f"tasks disagree: + on {listed(on[1])}, - on {listed(on[-1])}"
    without, changed = (
        contrast.failed(tasks, seeds) if (runs.runs.status == "failed").any() else (0, 0)
    )
    note = f"{changed} failed runs with the change, {without} without" if changed != without else ""
    scale = 1.0 if len(tasks) > 1 or tasks[0].range else math.nan
    return stats.decide(result.low, result.high, MARGIN * scale, changed - without), note


def _p_of_equality(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """Return the p of two independent effects being equal, by Welch's t of two estimates."""
    a, b = (of["sd"] / math.sqrt(of["seeds"]) for of in (first, second))
    if not (a > 0 and b > 0):
        return math.nan
    freedom = math.hypot(a, b) ** 4 / (a**4 / first["freedom"] + b**4 / second["freedom"])
    return by_student(2, first["share"] - second["share"], math.hypot(a, b), freedom).p


def _ends(name: str, result: Difference, scale: float = 1.0) -> dict[str, float]:
    ends = {name: result.difference, f"{name}_low": result.low, f"{name}_high": result.high}
    return {column: scale * value for column, value in ends.items()}


def percent(row: Mapping[str, Any], name: str = "share") -> str:
    """Write an effect in % of the learned range, as "+12% [6, 18]"; "" if there is none."""
    ends = [100 * row.get(f"{name}{end}", math.nan) for end in ("", "_low", "_high")]
    head, bracket, tail = estimate(*ends, sign=True).replace(MINUS, "-").partition(" [")
    return f"{head}%{bracket}{tail}" if head else ""


# Controls

Outcome = tuple[str, str, bool | None]  # task, in words, as expected


def _check(control: Control, design: Design | None, entries: Entries) -> list[dict[str, Any]]:
    """Return a row per task that passed validation, and of a fraction one for their mean."""
    row = {"control": control.label, "expected": control.expected}
    tasks = [task for name in control.tasks if (task := entries.tasks[name]).range]
    check = _check_pair if control.kind in ("halves", "difference") else _check_fraction
    outcomes = [] if design is None else list(check(control, design, tasks))
    names = ("task", "outcome", "kept")
    return [
        row | dict(zip(names, each, strict=True)) for each in outcomes or [("", "no runs", None)]
    ]


def _check_pair(control: Control, design: Design, tasks: Sequence[Task]) -> Iterator[Outcome]:
    for task in tasks:
        if control.kind == "difference":
            ours, theirs = design.array([task], [control.variant, control.versus])[0].T
            result = stats.paired(ours, theirs)
            if not math.isnan(result.low):
                kept = stats.decide(result.low, result.high, MARGIN) != "equivalent"
                yield task.column, percent(_ends("share", result)), kept
            continue
        values = design.array([task], [control.variant])[0, :, 0]
        if (half := len(values) // 2) < 2:
            continue
        random = np.random.default_rng(0)
        orders = [values, *(random.permutation(values) for _ in range(SPLITS))]
        first, *others = [stats.welch(of[:half], of[half : 2 * half]) for of in orders]
        false = float(np.mean([other.sign() != 0 for other in others]))
        text = f"{percent(_ends('share', first))}, {half} seeds each; {_false(false)}"
        yield task.column, text, first.sign() == 0 and false <= MOST_FALSE


def _check_fraction(control: Control, design: Design, tasks: Sequence[Task]) -> Iterator[Outcome]:
    if design.factorial is None:
        return
    variants, least = list(design.factorial.variants), 1 if control.kind == "unused" else 2
    alone = [task for task in tasks if design.array([task], variants).shape[1] >= least]
    for pooled in [*([task] for task in alone), *([alone] if len(alone) > 1 else [])]:
        y = design.array(pooled, variants)
        if control.kind == "unused":
            effects = [effect for _, effect in factorial.unused_effects(y, design.factorial)]
            judged = np.array([[(e.difference, e.low, e.high) for e in effects]])
        else:
            judged = factorial.placebos(y, design.factorial, SPLITS)
        if not judged.size or np.isnan(judged).any():
            continue
        where, seeds = pooled[0].column if len(pooled) == 1 else MEAN, count(y.shape[1], "seed")
        if control.kind == "planted":  # a loss moves the estimate, and not its error
            found = judged[..., 2] < PLANTED
            share = float(found[1:].mean())
            text = f"found in {found[0].sum()} of {found.shape[1]}, and in {100 * share:.1f}% of "
            text += f"those of {SPLITS:,} random splits, {seeds}"
            yield where, text, bool(found[0].all()) and share >= LEAST_FOUND
            continue
        outside = (judged[..., 1] > 0) | (judged[..., 2] < 0)
        few = int(outside[0].sum())
        text = f"{few or 'none'} of {outside.shape[1]} exclude{'s' * (few < 2)} 0, intervals reach "
        text += (
            f"{100 * judged[0, :, 1].min():+.0f} to {100 * judged[0, :, 2].max():+.0f}%, {seeds}"
        )
        if control.kind == "unused":
            yield where, text, few == 0
        else:
            false = float(outside[1:].any(axis=1).mean())
            yield where, f"{text}; {_false(false)}", few == 0 and false <= MOST_FALSE


def _false(share: float) -> str:
    return f"of {SPLITS:,} random splits {100 * share:.1f}% are false"
