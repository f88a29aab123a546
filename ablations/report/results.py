"""The results of a plan: its records, read once, and all that is worked out from them, kept."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from ablations.core.plan import CellEntry
from ablations.curve import Curve, logged
from ablations.records import Plan, Record, read_runs

if TYPE_CHECKING:
    from ablations.core.record import Columns

P = ParamSpec("P")
R = TypeVar("R")


class Run(NamedTuple):
    """A cell of a plan and its record, if it has one.

    metrics: the names of all columns of its curve. curves: those that were asked for.
    """

    cell: CellEntry
    record: Record | None
    metrics: tuple[str, ...]
    curves: Mapping[str, Curve]


class Results:
    """A plan and the folder with its records.

    Args:
        plan: whose cells are read.
        folder: the results folder.
        metrics: what is kept of each curve beside the study's own metric, where it has them. Any
            other can be asked for, and then all records are read again.
    """

    def __init__(self, plan: Plan, folder: Path, metrics: Sequence[str] = ()) -> None:
        """Read nothing before it is asked for."""
        self.plan, self.folder = plan, folder
        self._metrics = {plan.study.metric, *metrics}
        self._runs: list[Run] | None = None

    def runs(self, *metrics: str) -> list[Run]:
        """Return all cells in the plan's order, with the curves of these metrics."""
        if self._runs is None or not self._metrics.issuperset(metrics):
            self._metrics.update(metrics)
            self._runs = [
                self._run(*run) for run in read_runs(self.folder, self.plan, self._metrics)
            ]
        return self._runs

    def _run(self, cell: CellEntry, record: Record | None, columns: Columns) -> Run:
        steps = columns.pop("step", [])
        curves = {n: logged(steps, columns[n]) for n in columns if n in self._metrics}
        return Run(cell, record, tuple(columns), curves)


class Once(Generic[P, R]):
    """A function of results, called once for the same results and further arguments.

    kept: what it returned, by those arguments; no longer than the results themselves.
    """

    def __init__(self, function: Callable[Concatenate[Results, P], R]) -> None:
        """Take the place of a function."""
        functools.update_wrapper(self, function)
        self._function, self._signature = function, inspect.signature(function)
        self.kept: WeakKeyDictionary[Results, dict[Hashable, R]] = WeakKeyDictionary()

    def __call__(self, results: Results, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what the function returns."""
        bound = self._signature.bind(results, *args, **kwargs)
        bound.apply_defaults()
        kept, key = self.kept.setdefault(results, {}), (*bound.args[1:], *bound.kwargs.values())
        if key not in kept:
            kept[key] = self._function(results, *args, **kwargs)
        return kept[key]
