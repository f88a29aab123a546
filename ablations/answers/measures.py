"""The numbers of published answers: a frame of answers, one of effects, one of controls."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from msgspec import structs

from ablations import stats
from ablations.answers.entries import Control, Entries, Question, Task
from ablations.comparison import ends
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
# Seeds of answers, held-out seeds, and both. Seeds from 1000 are for tuning.
SEEDS = {"": range(500), "held_out": range(500, 1000), "all_seeds": range(1000)}
ANSWERING = SEEDS[""]
SPLITS = 1000  # random splits of a control's seeds
MOST_FALSE = 0.061  # highest share of false splits: 5% plus 1.64 standard errors
PLANTED, LEAST_FOUND = 0.2, 0.95  # the loss in learned ranges; the share that must be detected
MEAN = "mean over tasks"
_NAMES = ("id", "label", "group", "question", "study", "factor", "variant", "versus")
_SHARES = [f"{kind}share{end}" for kind in ("", "plain_", "area_") for end in ("", "_low", "_high")]
_REPEATED = ("tasks", "seeds", *_SHARES[:3], "p", "verdict")
_COLUMNS = (
    *(*_NAMES, "settings", "details", "levels", "tasks", "seeds", "baseline_seeds", *_SHARES),
    *("level", "sd", "freedom", "p", "q", "verdict", "note"),
    *("seeds_to_detect", "seeds_to_equivalence", "p_held_out"),
    *(f"{part}_{name}" for part in ("held_out", "all_seeds", "other") for name in _REPEATED),
    *("other_settings", "dots"),
)
_SHARED = ("profile", "steps", "set", "vary", "base", "geometry")  # equal in plans of one design
Row = dict[str, Any]


@dataclass(frozen=True)
class Answers:
    """Published answers.

    Attributes:
        frame: a row per question.
        effects: a row per question and task.
        checks: a row per control and task.
        designs: the runs of all questions and controls.
    """

    entries: Entries
    frame: pd.DataFrame
    effects: pd.DataFrame
    checks: pd.DataFrame
    designs: Sequence[Design]


def answer_all(results: Path, entries: Entries) -> Answers:
    """Answer questions from all stored runs of their designs. Archives must be unpacked.

    Columns of the frame (effects are in learned ranges):
        id, label, group, question, study, factor, variant, versus: from questions.toml.
        settings, details, levels: of a fractional factorial: the number of variants and of
            factors, and the two compared levels.
        tasks, seeds, baseline_seeds: used by the answer.
        share, share_low, share_high: mean effect over tasks with its 95% interval. The intervals of
            a fractional factorial are simultaneous over its details.
        plain_share: from paired seeds only, if the baseline has more seeds.
        area_share: effect on the area under the evaluations, which measures speed.
        level: of the interval.
        p, q: of no effect, and adjusted over all answers (Benjamini-Hochberg).
        sd, freedom: of the paired differences; degrees of freedom of Student's t.
        verdict, note: see `stats.decide`.
        seeds_to_detect: seeds that detect a true effect of 5% with 80% power.
        seeds_to_equivalence: seeds that show equivalence with 80% power if the true effect is 0.
            Both are for inconclusive answers; NaN if more seeds do not help.
        held_out_*, all_seeds_*: the same on seeds from 500, and on all seeds.
        p_held_out: of equal effects on the first and the held-out seeds.
        other_*: in the question's other design.
        dots: the effect of each seed.

    Raises:
        UserError: the study of a question does not have its factor.
    """
    designs: dict[str, Design | None] = {}

    def design(entry: Question | Control) -> Design | None:
        request = entry.request()
        if (command := request.command()) not in designs:
            designs[command] = Design.stored(results, request)
        return designs[command]

    tasks = entries.tasks
    checks = [row for each in entries.control for row in _check(each, design(each), tasks)]
    rows, effects = [], []
    for question in entries.question:
        row, own = _answer(question, design(question), tasks)
        if other := question.elsewhere():
            answer, _ = _answer(other, design(other), tasks)
            row |= {f"other_{name}": answer.get(name) for name in (*_REPEATED, "settings")}
        rows.append(row)
        effects += own
    frame = pd.DataFrame(rows).reindex(columns=list(_COLUMNS))
    known = frame.p.dropna().sort_values(ascending=False)
    frame["q"] = (known * len(known) / np.arange(len(known), 0, -1)).cummin()
    used = [each for each in designs.values() if each is not None]
    return Answers(entries, frame, pd.DataFrame(effects), pd.DataFrame(checks), used)


# Designs


@dataclass(frozen=True, eq=False)
class Design:
    """All stored runs of a study with the same selection."""

    folder: Path
    plan: Plan

    @classmethod
    def stored(cls, folder: Path, request: Request) -> Design | None:
        """Return all tasks and seeds of a design from all of its plans, or None without plans.

        A run in several plans counts once. This needs neither the study's definition nor JAX.
        """

        def shared(flags: Any) -> list[Any]:
            return [as_json(flags).get(name) or None for name in _SHARED]

        plans: list[Plan] = []
        tasks: dict[str, Any] = {}
        variants: dict[str, Any] = {}
        cells: dict[tuple[str, str, int], CellEntry] = {}
        for path in sorted(plans_folder(folder, request.study).glob("*.json")):
            with contextlib.suppress(UserError):  # a damaged plan, or one of another version
                plan = read_plan(folder, request.study, path.stem)
                if shared(plan.request) != shared(request.flags()):
                    continue
                plans.append(plan)
                tasks, variants = {**plan.tasks, **tasks}, {**plan.variants, **variants}
                for cell in plan.cells:
                    if plan.tasks[cell.task] == tasks[cell.task]:
                        cells.setdefault(cell.place, cell)
        if not plans:
            return None
        merged = (*cells.values(),)
        plan = structs.replace(plans[0], tasks=tasks, variants=variants, cells=merged)
        return cls(folder, plan)

    @cached_property
    def runs(self) -> Runs:
        """The runs, with the study's score."""
        return Runs.read(self.folder, self.plan)

    @cached_property
    def factorial(self) -> factorial.Design | None:
        """The factorial that the variants form."""
        return design_of(self.plan)

    @cached_property
    def areas(self) -> pd.DataFrame:
        """The areas under the evaluations, in the form of `Runs.scores`."""
        return pd.DataFrame(
            {
                place: {n: SCORES["auc"](curve.steps, curve.values) for n, curve in curves.items()}
                for place in itertools.product(self.plan.tasks, self.plan.variants)
                if (curves := self.runs.curves_of(*place))
            }
        )

    def array(
        self,
        tasks: Sequence[Task],
        variants: Sequence[str],
        seeds: range = ANSWERING,
        *,
        area: bool = False,
    ) -> Floats:
        """Return scores `[tasks, n, variants]` on the n seeds that are complete on every task.

        The unit is the learned range; on tasks without one it is the unit of the metric.
        """
        table = self.areas if area else self.runs.scores
        places = list(itertools.product([task.column for task in tasks], variants))
        if not set(places) <= set(table):
            return np.zeros((len(tasks), 0, len(variants)))
        rows = table.loc[table.index.isin(seeds), places].dropna().to_numpy()
        sizes = np.array([task.range or 1.0 for task in tasks])
        scores = rows.reshape(-1, len(tasks), len(variants)).transpose(1, 0, 2)
        return np.asarray(scores / sizes[:, None, None])


def cost(designs: Sequence[Design]) -> tuple[int, float, list[str]]:
    """Return the number of runs, the core-hours of training, and the processor models."""
    names = {(design.folder, cell.hash) for design in designs for cell in design.plan.cells}
    records = [record for name in sorted(names) if (record := usable_record(*name)) is not None]
    runs = [record.provenance for record in records]
    seconds = math.fsum(run.get("seconds", 0.0) / max(1, run.get("lanes", 1)) for run in runs)
    return len(runs), seconds / 3600, sorted({r["processor"] for r in runs if "processor" in r})


# Answers


class Contrast:
    """The comparison of a question: two variants, or the two levels of a factor.

    `sides` are the variants without and with the change. `details` is the number of factors, whose
    intervals are simultaneous.
    """

    def __init__(self, question: Question, design: Design) -> None:
        """Raise UserError if the study does not have the factor."""
        self.design, self.factor, self.details, self.levels = design, question.factor, 1, ""
        self.sides = ([question.versus], [question.variant])
        if not question.factor:
            return
        fraction = design.factorial
        if fraction is None or question.factor not in fraction.factors:
            factors = fraction.factors if fraction else ()
            raise unknown(f"factor of '{question.id}'", question.factor, factors)
        levels = fraction.factors[question.factor]
        self.levels, self.details = " against ".join(reversed(levels[:2])), len(fraction.changes)
        index = list(fraction.factors).index(question.factor)
        unchanged, changed = (
            [name for name, chosen in fraction.variants.items() if chosen[index] == level]
            for level in (0, 1)
        )
        self.sides = (unchanged, changed)

    def both(self, tasks: Sequence[Task], seeds: range, *, area: bool = False) -> list[Floats]:
        """Return scores `[tasks, n, variants]` without and with the change, on shared seeds."""
        scores = self.design.array(tasks, [*self.sides[0], *self.sides[1]], seeds, area=area)
        return np.split(scores, [len(self.sides[0])], axis=2)

    def effect(
        self, tasks: Sequence[Task], seeds: range, level: float = LEVEL, *, area: bool = False
    ) -> tuple[Difference, Difference, bool]:
        """Return the mean effect over tasks, the effect from paired seeds only, and a flag.

        The flag says whether more seeds narrow the interval. The details of a fractional factorial
        share `level`.
        """
        unchanged, changed = self.both(tasks, seeds, area=area)
        if not unchanged.shape[1]:
            return Difference(0), Difference(0), True
        if self.factor and (fraction := self.design.factorial):
            y = self.design.array(tasks, list(fraction.variants), seeds, area=area)
            mains, _, residual = factorial.fraction_effects(y, fraction, level)
            result = next(main.difference for main in mains if main.factors == (self.factor,))
            return result, result, not residual.lacks_fit
        pair = changed[..., 0], unchanged[..., 0]
        plain = stats.paired(*pair, level)
        every = self.design.array(tasks, self.sides[0], seeds, area=area)[..., 0]
        more = every.shape[1] > plain.n
        return stats.control_variate(*pair, every, level) if more else plain, plain, True

    def failures(self, tasks: Sequence[Task], seeds: range) -> int:
        """Return the failed runs with the change minus those without it, on shared seeds."""
        runs, names = self.design.runs, [task.column for task in tasks]
        if not (runs.runs.status == "failed").any():
            return 0
        runs = runs.where(runs.runs.seed.isin(seeds))
        return sum(runs.failures(names, new, old) for old, new in zip(*self.sides, strict=True))


def _answer(
    question: Question, design: Design | None, tasks_of: Mapping[str, Task]
) -> tuple[Row, list[Row]]:
    """Return the row of an answer, and the rows of its effects on single tasks.

    The mean uses tasks that passed validation and have two seeds, or one seed if none has two.
    """
    row: Row = {name: getattr(question, name) for name in _NAMES}
    tasks = [tasks_of[name] for name in question.tasks]
    none = {"tasks": "", "seeds": 0, "verdict": "", "note": "no runs"}
    if design is None:
        return row | none, [{"id": question.id, "task": task.column} for task in tasks]
    contrast = Contrast(question, design)
    row |= {"settings": sum(map(len, contrast.sides)), "details": contrast.details}
    row |= {"levels": contrast.levels}
    effects: list[Row] = []
    for name, seeds in SEEDS.items():
        pairs = {task: contrast.effect([task], seeds)[0].n for task in tasks}
        passed = [task for task, n in pairs.items() if n and task.range]
        kept = [task for task in passed if pairs[task] > 1] or passed
        mean = _numbers(contrast, kept, seeds) if kept else none
        if not name:
            failing = any(pairs.values()) and not kept
            row |= mean | ({"note": "no task passed validation"} if failing else {})
            for task in tasks:
                own = _numbers(contrast, [task], seeds) | _of_one_task(contrast, task)
                effects.append({"id": question.id, **own, "used": task in kept})
        elif mean["seeds"] and row["seeds"] and (name == "held_out" or "p_held_out" in row):
            row |= {f"{name}_{column}": mean.get(column) for column in _REPEATED}
            if name == "held_out":
                row["p_held_out"] = _p_of_equality(row, mean)
    return row, effects


def _numbers(contrast: Contrast, tasks: Sequence[Task], seeds: range) -> Row:
    result, plain, seeds_help = contrast.effect(tasks, seeds)
    names, level = ", ".join(task.column for task in tasks), LEVEL / contrast.details
    row: Row = {"task": names, "tasks": names, "seeds": result.n}
    if not result.n:
        return row | {"verdict": "", "note": "no runs"}
    verdict, note = _verdict(contrast, tasks, seeds, result)
    if note == "identical":
        result = Difference(result.n, 0.0, 0.0, 0.0, 1.0, 0.0)
    elif verdict == "inconclusive" and not note:
        if seeds_help:
            needed = partial(stats.seeds_needed, level=level, fewest=result.n + 1)
            row["seeds_to_detect"] = needed(MARGIN, plain.sd)
            row["seeds_to_equivalence"] = needed(0.0, plain.sd, MARGIN)
        else:
            note = "more seeds alone would not decide"
    unchanged, changed = contrast.both(tasks, seeds)
    baseline_seeds = contrast.design.array(tasks, contrast.sides[0], seeds).shape[1]
    row["baseline_seeds"] = result.n if contrast.factor else baseline_seeds
    if len(tasks) == 1:
        row |= ends("difference", result, 1 / (tasks[0].range or 1.0))
    if all(task.range for task in tasks):
        row |= ends("share", result) | ends("plain_share", plain)
        row |= ends("area_share", contrast.effect(tasks, seeds, area=True)[0])
        row["dots"] = changed.mean(axis=(0, 2)) - unchanged.mean(axis=(0, 2))
    row |= {"level": level, "p": result.p, "sd": result.sd, "freedom": result.freedom}
    return row | {"verdict": verdict, "note": note}


def _of_one_task(contrast: Contrast, task: Task) -> Row:
    both = contrast.both([task], ANSWERING)
    if not both[0].size:
        return {}
    size = task.range or 1.0
    row: Row = {"unchanged": size * both[0].mean(), "changed": size * both[1].mean()}
    if task.exam is None or not task.range:
        return row
    # All seeds of each variant; in a fraction, the seeds that every variant has.
    alone = [contrast.design.array([task], side) for side in contrast.sides]
    unchanged, changed = (side.ravel() for side in (both if contrast.factor else alone))
    floor = task.exam.floor / size
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
    if not contrast.factor and contrast.design.runs.identical(names, sides[1][0], sides[0][0]):
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
    scale = 1.0 if len(tasks) > 1 or tasks[0].range else math.nan
    return stats.decide(result.low, result.high, MARGIN * scale, more), note


def _p_of_equality(first: Row, second: Row) -> float:
    a, b = (row["sd"] / math.sqrt(row["seeds"]) for row in (first, second))
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


def _check(control: Control, design: Design | None, tasks_of: Mapping[str, Task]) -> list[Row]:
    """Return a row per task that passed validation; a fraction has a row for their mean too."""
    tasks = [task for name in control.tasks if (task := tasks_of[name]).range]
    check = {"halves": _halves, "difference": _pair}.get(control.kind, _check_fraction)
    outcomes = [*check(control, design, tasks)] if design else []
    return [
        {"control": control.label, "expected": control.expected}
        | dict(zip(("task", "outcome", "kept"), each, strict=True))
        for each in outcomes or [("", "no runs", None)]
    ]


def _pair(control: Control, design: Design, tasks: Sequence[Task]) -> Iterator[Outcome]:
    for task in tasks:
        result = stats.paired(*design.array([task], [control.variant, control.versus])[0].T)
        if not math.isnan(result.low):
            differs = stats.decide(result.low, result.high, MARGIN) != "equivalent"
            yield task.column, percent(ends("share", result)), differs


def _halves(control: Control, design: Design, tasks: Sequence[Task]) -> Iterator[Outcome]:
    for task in tasks:
        values = design.array([task], [control.variant])[0, :, 0]
        if (half := len(values) // 2) > 1:
            random = np.random.default_rng(0)
            orders = [values, *(random.permutation(values) for _ in range(SPLITS))]
            first, *others = [stats.welch(o[:half], o[half : 2 * half]) for o in orders]
            false = float(np.mean([other.sign() != 0 for other in others]))
            text = f"{percent(ends('share', first))}, {half} seeds each; {_false(false)}"
            yield task.column, text, first.sign() == 0 and false <= MOST_FALSE


def _check_fraction(control: Control, design: Design, tasks: Sequence[Task]) -> Iterator[Outcome]:
    if (fraction := design.factorial) is None:
        return
    variants, least = list(fraction.variants), 1 if control.kind == "unused" else 2
    alone = [task for task in tasks if design.array([task], variants).shape[1] >= least]
    for pooled in [*([task] for task in alone), *([alone] if len(alone) > 1 else [])]:
        y = design.array(pooled, variants)
        if control.kind == "unused":
            effects = [effect for _, effect in factorial.unused_effects(y, fraction)]
            judged = np.array([[(e.difference, e.low, e.high) for e in effects]])
        else:
            judged = factorial.placebos(y, fraction, SPLITS)
        if judged.size and not np.isnan(judged).any():
            outcome = _planted if control.kind == "planted" else _none_differ
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
