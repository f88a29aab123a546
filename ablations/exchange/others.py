"""Runs as others store them: a log each, or the panel of several runs that W&B exports."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ablations import logs
from ablations.errors import UserError
from ablations.exchange.places import UNSTATED, Stated
from ablations.exchange.reading import ALIASES, STEPS, Curve, joined
from ablations.logs.files import File
from ablations.logs.formats import Row, separator
from ablations.logs.numbers import MOST
from ablations.logs.order import Points
from ablations.logs.reading import Point

_PANEL = " - "  # between run and metric in W&B's names of columns


@dataclass(frozen=True)
class Source:
    """A file, or a folder of event files, and the name by which its run is known."""

    path: Path
    name: str

    @cached_property
    def file(self) -> File:
        """The file, not yet read."""
        return File(self.path)

    @cached_property
    def header(self) -> list[str]:
        """The names in the first line, as far as it is short; [] for a file that is no table."""
        line = self.file.start.partition(b"\n")[0]
        if line[:1] in (b"", b"{", b"[", b"#") or b"\0" in line:
            return []
        head = self.file.head
        try:
            names = next(csv.reader([head], delimiter=separator(head)), [])
        except csv.Error:
            return []
        return [name.strip() for name in names]


@dataclass(frozen=True)
class Run:
    """A run of others.

    source: its file or folder; of several in a file, with its name below. name: in which task, run
    and seed are. metrics: names of what it logged. read: returns the curve of a metric, and gives
    lines to a list. stated: what the file says of task, run and seed.
    """

    source: Path
    name: str
    metrics: Collection[str]
    read: Callable[[str, list[str]], Curve]
    stated: Stated = UNSTATED


def runs_in(source: Source, step: str | None) -> list[Run]:
    """Return the runs in a source. step: the column that counts. Raises UserError."""
    if source.path.is_dir():
        return [_of_events(source)]
    return _panel(source) or [_of_log(source, step)]


def _of_events(source: Source) -> Run:
    events = logs.Events(source.path)
    events.read_on()

    def read(metric: str, notes: list[str]) -> Curve:
        log = logs.read(source.path, metric, events=events)
        notes += (f"'{source.name}': {note}" for note in log.notes)
        return joined(_by_metric(log.points), metric, source.path)

    return Run(source.path, source.name, events.parts(), read)


def _of_log(source: Source, step: str | None) -> Run:
    rows = logs.rows(source.path)
    names = dict.fromkeys(name for row in rows for name in (*row.numbers, *row.other))

    def read(metric: str, notes: list[str]) -> Curve:
        judged = [row for row in rows if metric in row.numbers]
        column = step or next((n for n in STEPS if any(n in row.numbers for row in judged)), None)
        if column is None and judged:
            raise UserError(
                f"'{source.path}' has no known column of steps: name it with --step; it has "
                f"{', '.join(names)}"
            )
        log = logs.read(source.path, metric, column, rows=rows)
        notes += (f"'{source.name}': {note}" for note in log.notes)
        return joined(_by_metric(log.points), metric, source.path)

    stated = Stated(
        _stated(source, rows, "task"), _stated(source, rows, "run"), _seed(source, rows)
    )
    return Run(source.path, source.name, names, read, stated)


def _stated(source: Source, rows: Collection[Row], key: str) -> str | None:
    """Return the text that all rows have in a column. Raise UserError for several."""
    texts = {row.other[name] for row in rows for name in ALIASES[key] if name in row.other}
    if len(texts) > 1:
        raise UserError(f"'{source.path}' has several values of {key}: write a table of runs")
    return next(iter(texts), None)


def _seed(source: Source, rows: Collection[Row]) -> int | None:
    seeds = {row.numbers["seed"] for row in rows if "seed" in row.numbers}
    if len(seeds) > 1:
        raise UserError(f"'{source.path}' has several seeds, and no column that names runs")
    seed = next(iter(seeds), math.nan)
    return int(seed) if seed % 1 == 0 and 0 <= seed <= MOST else None


def _by_metric(points: Iterable[Point]) -> dict[str, Points]:
    curves: dict[str, Points] = {}
    for step, row in points:
        for name, value in row.items():
            curves.setdefault(name, []).append((step, value))
    return curves


def _panel(source: Source) -> list[Run]:
    """Return the runs of a panel that W&B exported: a column for steps, three for every run."""
    steps = [name for name in source.header if _PANEL not in name]
    if len(steps) != 1 or len(source.header) < 2:
        return []
    again = [name for name, times in Counter(source.header).items() if times > 1]
    if again:
        raise UserError(f"'{source.path}' has two columns '{again[0]}': name the runs differently")
    judged = [
        name
        for name in source.header
        if _PANEL in name and re.sub("__(MIN|MAX)$", "", name) not in {*source.header} - {name}
    ]
    points: dict[str, dict[int, list[tuple[str, float]]]] = {}
    for row in logs.rows(source.path):
        step = row.numbers.get(steps[0], math.nan)
        if not (0 <= step <= MOST and step % 1 == 0):
            raise UserError(f"{row.place}: {steps[0]} must be a whole number: export over steps")
        for name in judged:
            if name in row.other:
                raise UserError(f"{row.place}: '{row.other[name]}' is no number")
            run, _, metric = name.rpartition(_PANEL)
            if name in row.numbers:
                points.setdefault(run, {}).setdefault(int(step), []).append(
                    (metric, row.numbers[name])
                )
    for run, rows in points.items():
        twice = [step for step, pairs in rows.items() if len(dict(pairs)) < len(pairs)]
        if twice:
            raise UserError(f"'{source.path}' has step {twice[0]:,} of '{run}' twice")
    return [
        _of_panel(source.path / run, run, [(step, dict(pairs)) for step, pairs in rows.items()])
        for run, rows in points.items()
    ]


def _of_panel(source: Path, name: str, points: Collection[Point]) -> Run:
    curves = _by_metric(points)
    return Run(source, name, curves, lambda metric, _: joined(curves, metric, source))
