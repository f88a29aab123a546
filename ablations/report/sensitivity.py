"""Sensitivity to numbers that a study varies: scores along each.

Needs no plotting library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ablations.core.decode import Json
from ablations.core.plan import Settings
from ablations.errors import value_text
from ablations.records import Plan
from ablations.report.scores import Scores, baseline_of
from ablations.report.tables.entries import ALL_TASKS, Table
from ablations.report.tables.factorial import settings
from ablations.report.units import Units, normalised


@dataclass(frozen=True)
class Line:
    """Variants that differ in one number alone, by its value.

    name: what else they set, "" where there is nothing else.
    """

    name: str
    values: tuple[float, ...]
    variants: tuple[str, ...]


@dataclass(frozen=True)
class Panel:
    """The lines of a number in one environment: a task and settings of it.

    environment: those settings, "" where the variants do not differ in them. band: values, and the
    ends of the margin around the score of what the variants are compared with, where it is one
    variant, or one at each value.
    """

    number: str
    task: str
    environment: str
    lines: tuple[Line, ...]
    band: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]] | None

    @property
    def title(self) -> str:
        """The task and its settings."""
        return self.task + (f", {self.environment}" if self.environment else "")

    @property
    def values(self) -> list[float]:
        """All values of its lines, ascending."""
        return sorted({value for line in self.lines for value in line.values})

    @property
    def places(self) -> dict[float, float]:
        """Return the place of each value on the axis.

        By itself or by its logarithm, whichever spreads the values more evenly, or one after the
        other where neither tells them apart.
        """
        values = self.values
        spread = {nearest(values): values}
        if values[0] > 0:
            spread[nearest(np.log10(values))] = list(np.log10(values))
        apart = max(spread)
        along = spread[apart] if apart > CLOSEST else range(len(values))
        return {value: float(place) for value, place in zip(values, along, strict=True)}

    def labels(self, letter: float) -> list[str]:
        """Write the values, "" for those that would run into the one before.

        Args:
            letter: half the width of one, as a share of the axis.
        """
        places = self.places
        span = max(places.values()) - min(places.values())
        texts, end = [], -math.inf
        for value, place in places.items():
            text = f"{value:g}"
            half = letter * len(text) * span
            texts.append(text if place - half > end else "")
            end = place + half if texts[-1] else end
        return texts


CLOSEST = 0.04  # of an axis, between two values


def nearest(places: ArrayLike) -> float:
    """Return the least distance between neighbours, as a share of the whole."""
    gaps = np.diff(np.asarray(places, dtype=np.float64))
    return float(gaps.min() / gaps.sum())


@dataclass(frozen=True)
class _Varied:
    """The settings that variants differ in.

    known: variant -> setting -> value, of what a variant sets. of_task: those settings that are the
    task's, which make another environment. numbers: number -> variant -> value, of the others.
    """

    known: Mapping[str, Settings]
    of_task: frozenset[str]
    numbers: Mapping[str, Mapping[str, float]]

    def others(self, variant: str, without: Iterable[str]) -> str:
        """Write what a variant sets of that in which variants differ."""
        return self.text(variant, {*self._differing()} - {*without} - self.of_task)

    def _differing(self) -> Iterator[str]:
        for name in {name for sets in self.known.values() for name in sets}:
            if len({str(sets.get(name)) for sets in self.known.values()}) > 1:
                yield name

    def text(self, variant: str, names: Iterable[str]) -> str:
        """Write what a variant sets of these settings."""
        sets = self.known[variant]
        set_here = (name for name in sorted(names) if name in sets)
        return ", ".join(f"{name}={value_text(sets[name])}" for name in set_here)


def _varied(plan: Plan) -> _Varied:
    tasks = [cell.config.get("task") for cell in plan.cells]
    of_task = {
        name for task in tasks if isinstance(task, dict) for name in task.get("settings", ())
    }
    known = settings(plan)
    by_variant: dict[str, dict[str, Json]] = {}
    for variant, values_set in known.items():
        for name in values_set.keys() - of_task:
            by_variant.setdefault(name, {})[variant] = values_set[name]
    numbers: dict[str, Mapping[str, float]] = {}
    for name, values in sorted(by_variant.items()):
        of_variant = {v: x for v, x in values.items() if isinstance(x, float) or type(x) is int}
        if len(of_variant) == len(values) and len(set(of_variant.values())) > 1:
            numbers[name] = of_variant
    return _Varied(known, frozenset(of_task), numbers)


def panels(plan: Plan, table: Table) -> list[Panel]:
    """Return the lines of every number, per task and environment.

    Over all tasks where every variant is compared with the same one, so that there is one unit.
    """
    varied = _varied(plan)
    drawn = []
    for number, values in varied.numbers.items():
        by_environment: dict[str, dict[str, list[str]]] = {}
        for variant in (v for v in plan.variants if v in values):
            groups = by_environment.setdefault(varied.text(variant, varied.of_task), {})
            groups.setdefault(varied.others(variant, {number}), []).append(variant)
        for task, (environment, groups) in itertools.product(table.places, by_environment.items()):
            lines = [_line(name, of, values) for name, of in groups.items()]
            kept = tuple(line for line in lines if len(line.values) > 1)
            references = {_reference(plan, v) for line in kept for v in line.variants}
            if kept and (task != ALL_TASKS or len(references) == 1):
                where = environment if len(by_environment) > 1 else ""
                drawn.append(Panel(number, task, where, kept, _band(plan, table, task, kept)))
    return drawn


def runs(plan: Plan, scored: Scores, learned: Units, task: str, variant: str) -> list[float]:
    """Return the scores of a variant's runs, in the units of its row of the table."""
    if task != ALL_TASKS:
        return list(scored.by_seed(task, variant).values())
    rows = normalised(plan, scored, learned, variant)
    return list(np.mean(rows, axis=0)) if rows else []


def _line(name: str, variants: Sequence[str], values: Mapping[str, float]) -> Line:
    """Return a line of one variant per value, the first where several set the same."""
    first: dict[float, str] = {}
    for variant in variants:
        first.setdefault(values[variant], variant)
    along = sorted(first)
    return Line(name, tuple(along), tuple(first[value] for value in along))


def _band(
    plan: Plan, table: Table, task: str, lines: Sequence[Line]
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]] | None:
    at: dict[float, set[str]] = {}
    for line in lines:
        for value, variant in zip(line.values, line.variants, strict=True):
            at.setdefault(value, set()).add(_reference(plan, variant))
    low, high = [], []
    for value in sorted(at):
        rows = [table.entry(task, reference) for reference in at[value]]
        row = rows[0] if len(rows) == 1 else None
        if row is None or row.mean is None or not row.margin:
            return None
        low.append(row.mean - row.margin)
        high.append(row.mean + row.margin)
    return tuple(sorted(at)), tuple(low), tuple(high)


def _reference(plan: Plan, variant: str) -> str:
    return baseline_of(plan, variant) or variant
