"""The data of every table: rows of a comparison, and sheets of records with the same columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, SupportsFloat

from ablations.core.verdict import Answer, Verdict
from ablations.report.statistics.paired import Comparison

if TYPE_CHECKING:
    import pandas

ALL_TASKS = "all tasks"
Values = tuple[Any, ...]  # of a row
Row = dict[str, Any]  # and by the names of their columns


@dataclass(frozen=True)
class Entry:
    """A variant on a task, in the metric's units; on "all tasks", in what was learned.

    baseline: what the variant is compared with; None for one that heads its group.
    n, n_failed, n_empty, n_missing, n_planned: cells with a score, diverged or broken ones, those
        without a value where the score looks, those that have not run, and all.
    unit: what the baseline (or the head of a group itself) learned on the task, in the metric's
        units; None where nothing stands out of the noise. margin: the study's, in the row's units.
    mean, low, high: over seeds, with its 95% interval; on "all tasks" the mean over tasks of
        normalised scores (0 where that learning began, 1 where it got to), over the seeds that are
        complete on every task. iqm, iqm_low, iqm_high: the same of the interquartile mean.
    best, tied: highest mean of the rows with the same task settings, of the variants that fail
        least; not significantly below any of them (all pairs, 5% shared).
    n_pairs: seeds that variant and baseline both have. difference, difference_low, difference_high:
        its interval at 1 - level, which holds for all of the table's comparisons at once with 95%.
    p: of this comparison alone; p_adjusted: times the comparisons that share the 5% (Bonferroni),
        below .05 just where the interval excludes 0. The rest as in `statistics.Comparison`;
        improvement_low, improvement_high: 95% interval of the probability of improvement.
    verdict: as `statistics.verdict` says it; "identical" where the curves are equal bit for bit;
        "higher" and "lower" for a metric that is not a score; "tasks disagree" on "all tasks" where
        one task lies above 0 for sure and another, or the mean, below; "one seed" or "no pairs"
        where there is no interval; "unstable" instead of "equivalent" or any "better" where more of
        its cells failed than of the baseline's, since the seeds that survive are not those that it
        was given; likewise "unstable baseline" instead of "equivalent" or any "worse".
    same_as: another variant that composes to the same cells, so that they differ by exactly 0: the
        baseline where it does, and then the verdict is "identical" before anything has run.
    seeds_low, seeds_to_decide, seeds_high: for "undecided", see `statistics.seeds_to_decide`; None
        for more than 10,000.
    answer: what the interval says in shares of the unit, where that is what the baseline learned
        beyond policies that learn nothing. policy: the row is of such a policy, not of a variant.
        Neither is in a file of a table that has none.
    """

    task: str
    variant: str
    baseline: str | None = None
    n: int = 0
    n_failed: int = 0
    n_empty: int = 0
    n_missing: int = 0
    n_planned: int = 0
    unit: float | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    iqm: float | None = None
    iqm_low: float | None = None
    iqm_high: float | None = None
    best: bool = False
    tied: bool = False
    n_pairs: int | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    level: float | None = None
    deviation: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    wilcoxon_p: float | None = None
    p_equivalent: float | None = None
    margin: float | None = None
    probability_of_improvement: float | None = None
    improvement_low: float | None = None
    improvement_high: float | None = None
    verdict: Verdict | None = None
    same_as: str | None = None
    seeds_low: int | None = None
    seeds_to_decide: int | None = None
    seeds_high: int | None = None
    answer: Answer | None = None
    policy: bool = False

    @property
    def in_units(self) -> tuple[float, float, float] | None:
        """The difference and the ends of its interval, in shares of the unit."""
        bounds = (self.difference, self.difference_low, self.difference_high)
        unit = 1.0 if self.task == ALL_TASKS else self.unit
        if unit is None or None in bounds:
            return None
        difference, low, high = (value / unit for value in bounds if value is not None)
        return difference, low, high

    @property
    def comparison(self) -> Comparison:
        """The comparison on which the verdict rests."""
        return Comparison(
            n=self.n_pairs or 0,
            difference=self.difference,
            low=self.difference_low,
            high=self.difference_high,
            level=self.level or 1.0,
            deviation=self.deviation,
            p=self.p,
        )


@dataclass(frozen=True)
class Table:
    """Comparisons of a study, from its plan and records alone: same records, same table.

    variants: each after the one it is compared with. rows: one entry per task and variant, then one
    per variant on "all tasks" where there is more than one task.
    """

    study: str
    title: str
    metric: str
    score: str
    tasks: tuple[str, ...]
    variants: tuple[str, ...]
    rows: tuple[Entry, ...]
    caption: str
    notes: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all values of a row."""
        shown = {"answer": self.answers, "policy": any(row.policy for row in self.rows)}
        return tuple(f.name for f in fields(Entry) if shown.get(f.name, True))

    @property
    def names(self) -> list[str]:
        """Policies that learn nothing, then the variants."""
        return list(dict.fromkeys((*(r.variant for r in self.rows if r.policy), *self.variants)))

    @property
    def answers(self) -> bool:
        """Return whether rows have answers."""
        return any(row.answer for row in self.rows)

    def records(self) -> list[Row]:
        """Return each row by the names of its columns."""
        columns = self.columns
        return [{name: getattr(row, name) for name in columns} for row in self.rows]

    def entry(self, task: str, variant: str) -> Entry | None:
        """Return the row of a task (or "all tasks") and variant."""
        for row in self.rows:
            if (row.task, row.variant) == (task, variant):
                return row
        return None

    @property
    def places(self) -> list[str]:
        """The tasks, then "all tasks" where there are such rows."""
        return [*self.tasks, *([ALL_TASKS] if self.of(ALL_TASKS) else [])]

    def of(self, task: str) -> list[Entry]:
        """Return the rows of a task (or "all tasks")."""
        return [row for row in self.rows if row.task == task]

    @property
    def several_baselines(self) -> bool:
        """Return whether variants are compared with different ones."""
        return len({row.baseline for row in self.rows if row.baseline is not None}) > 1

    def dataframe(self) -> pandas.DataFrame:
        """Return a row per variant and task, numeric columns; caption and notes in `.attrs`."""
        import pandas

        frame = pandas.DataFrame(self.records(), columns=list(self.columns))
        texts = ("task", "variant", "baseline", "verdict", "same_as", "answer")
        for field in fields(Entry):
            if field.name not in texts and field.type != "bool":
                frame[field.name] = pandas.to_numeric(frame[field.name])
        frame.attrs = {"caption": self.caption, "notes": list(self.notes)}
        return frame


Kind = Literal[
    "text", "answer", "count", "estimate", "interval", "p", "steps", "step interval", "share",
    "scaled", "fixed", "seeds needed", "seeds",
]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A printed column of a sheet: its head, and what is written from which values.

    kind: "text" and "count", the one value; "answer", (answer, share of the unit, low, high, seeds
        where more help); "estimate", the first of (value, low, high), to the
        digits that its interval supports; "interval", the other two; "p"; "steps" and "step
        interval", the same of steps, infinite where a run never gets there; "share", (part, whole);
        "scaled", the first of (value, scale) to two digits of the scale; "fixed", (value) or the
        interval of (value, low, high) to `places` digits; "seeds needed", (low, high),
        None where too many; "seeds", (n, failed).
    sign: "+" where numbers carry theirs. right: aligned to the right, by default as single numbers
        are.
    """

    head: str
    kind: Kind
    of: tuple[str, ...]
    sign: str = ""
    places: int = 0
    right: bool | None = None

    @property
    def is_number(self) -> bool:
        """Return whether it is aligned to the right."""
        if self.right is not None:
            return self.right
        interval = self.kind == "fixed" and len(self.of) > 1
        texts = ("text", "answer", "interval", "step interval")
        return not interval and self.kind not in texts


def text_columns(*names: str) -> tuple[Column, ...]:
    """Return columns of text that are headed as their values are called."""
    return tuple(Column(name, "text", (name,)) for name in names)


JOINT = "[95% joint]"  # of intervals that hold at once with those of other rows


def with_ends(name: str) -> tuple[str, str, str]:
    """Return the names of an estimate's column and of those of its interval's ends."""
    return name, f"{name}_low", f"{name}_high"


def bounded(
    head: str,
    name: str,
    ends: tuple[str, str] | None = None,
    *,
    sign: str = "",
    inside: str = JOINT,
    places: int | None = None,
) -> tuple[Column, Column]:
    """Return the columns of an estimate and of its interval.

    Args:
        head: of the estimate.
        name: of its value.
        ends: the names of the ends of its interval, by default those of `with_ends`.
        sign: "+" where numbers carry theirs.
        inside: head of the interval.
        places: digits after the point, by default those that the interval supports.
    """
    of = (name, *ends) if ends else with_ends(name)
    if places is None:
        return Column(head, "estimate", of, sign), Column(inside, "interval", of, sign)
    return Column(head, "fixed", (name,), sign, places), Column(inside, "fixed", of, sign, places)


@dataclass(frozen=True)
class Sheet:
    """A table of records, each with the same columns, and how to print them.

    rows: values by column, for files; infinite where something never happens. shown: the columns of
    the printed table.
    """

    study: str
    kind: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Values, ...]
    shown: tuple[Column, ...]

    def records(self) -> list[Row]:
        """Return each row by the names of its columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def dataframe(self) -> pandas.DataFrame:
        """Return the values, one row per row; the caption is in `.attrs`."""
        import pandas

        frame = pandas.DataFrame(list(self.rows), columns=list(self.columns))
        frame.attrs = {"caption": self.caption}
        return frame


def policy_text(policy: str) -> str:
    """Write a policy that learns nothing where variants stand, as "(zero)"."""
    return f"({policy})"


def number(value: SupportsFloat | None) -> float | None:
    """Return a float; None for what is not there, or too large to be one."""
    return float(value) if value is not None and math.isfinite(value) else None
