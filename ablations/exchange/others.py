"""Runs as others store them: a log each, or several in one file.

A format of several runs is a function that returns them, or None for another format, and its place
in `FORMATS`. What is none of them is a log of one run, which `ablations.logs` reads.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ablations import logs
from ablations.core.decode import Json
from ablations.errors import UserError, count
from ablations.exchange.places import UNSTATED, Stated
from ablations.exchange.reading import Curve, joined
from ablations.logs.files import File, arrays, unpacked_name
from ablations.logs.formats import STEP, Row, separator
from ablations.logs.numbers import MOST, as_number
from ablations.logs.order import Part, Points, in_order

SCORE = "score"  # what rliable's numbers are called
_DATABASE = b"SQLite format 3\0"
_DATABASES = (".db", ".sqlite", ".sqlite3")
_PANEL = " - "  # between run and metric in W&B's names of columns
# Columns that count the steps of the environment; after them those that count something.
_STEPS = (
    *("global_step", "time/total_timesteps", "total_timesteps", "num_timesteps", "timesteps"),
    *("TotalEnvInteracts", "num_steps", "env_steps", "total_steps", "timesteps_total"),
    *("num_env_steps_sampled_lifetime", "step_count", STEP, "steps", "_step", "Step", "timestep"),
)
_TASKS = ("task", "env", "env_id", "environment", "env_name")

Step = tuple[int, Mapping[str, float]]


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


def runs_in(source: Source, step: str | None, notes: list[str]) -> list[Run]:
    """Return the runs in a source. step: the column that counts. Raises UserError."""
    if source.path.is_dir():
        return [_of_events(source)]
    for format in FORMATS:
        if (runs := format(source, notes)) is not None:
            return runs
    return [_of_log(source, step)]


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

    def read(metric: str, notes: list[str]) -> Curve:
        judged = [row for row in rows if metric in row.numbers]
        column = step or next((n for n in _STEPS if any(n in row.numbers for row in judged)), None)
        log = logs.read(source.path, metric, column, rows=rows)
        if column is None:
            notes.append(f"'{source.name}' has no column of steps: points are counted, see --step")
        notes += (f"'{source.name}': {note}" for note in log.notes)
        return joined(_by_metric(log.points), metric, source.path)

    names = dict.fromkeys(name for row in rows for name in (*row.numbers, *row.other))
    return Run(source.path, source.name, names, read, _stated(source, rows))


def _stated(source: Source, rows: list[Row]) -> Stated:
    """Return the task and the seed that all rows say."""
    tasks = {row.other[name] for row in rows for name in _TASKS if name in row.other}
    seeds = {row.numbers["seed"] for row in rows if "seed" in row.numbers}
    if len(seeds) > 1:
        raise UserError(f"'{source.path}' has several seeds, and no column that names runs")
    seed = next(iter(seeds), math.nan)
    return Stated(
        task=tasks.pop() if len(tasks) == 1 else None, seed=int(seed) if seed % 1 == 0 else None
    )


def run_of_points(
    source: Source, name: str, points: Sequence[Step], stated: Stated = UNSTATED, key: str = ""
) -> Run:
    """Return a run that lies in a file with others. Where steps repeat, what came later counts.

    key: what tells it from others of its name.
    """

    def read(metric: str, notes: list[str]) -> Curve:
        scalars = {
            tag: in_order(tag, [Part(name, of_tag)], notes if tag == metric else None)
            for tag, of_tag in _by_metric(points).items()
        }
        return joined(scalars, metric, source.path / name)

    metrics = dict.fromkeys(metric for _, row in points for metric in row)
    return Run(source.path / name / key, name, metrics, read, stated)


def _by_metric(points: Iterable[Step]) -> dict[str, Points]:
    curves: dict[str, Points] = {}
    for step, row in points:
        for name, value in row.items():
            curves.setdefault(name, []).append((step, value))
    return curves


# Several runs in a file


def _trackio(source: Source, notes: list[str]) -> list[Run] | None:
    """Return the runs of a Trackio project's database."""
    if source.path.suffix not in _DATABASES and not source.file.start.startswith(_DATABASE):
        return None
    points: dict[str, list[Step]] = {}
    names: dict[str, str] = {}
    left_out = Counter[str]()
    for row in _rows(source.path):
        numbers = _numbers(row.metrics)
        if not numbers:
            left_out["of damaged JSON"] += numbers is None
        elif row.step is None:
            left_out["without a step"] += 1
        elif isinstance(row.step, int):
            names[row.run] = row.name
            points.setdefault(row.run, []).append((row.step, numbers))
        else:
            raise UserError(
                f"'{source.path}': a step of '{row.name}' is no whole number: {row.step!r:.40}"
            )
    notes += (f"left out: {count(rows, 'row')} {why}" for why, rows in left_out.items() if rows)
    return [run_of_points(source, names[run], rows, key=run) for run, rows in points.items()]


class _TrackioRow(NamedTuple):
    """run: its id, in the first versions its name."""

    run: str
    name: str
    step: int | float | str | bytes | None
    metrics: bytes | str


def _rows(path: Path) -> list[_TrackioRow]:
    """Return the rows in the order written."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True)
        ) as database:
            columns = [column[1] for column in database.execute("PRAGMA table_info(metrics)")]
            run = "coalesce(run_id, run_name)" if "run_id" in columns else "run_name"
            rows = database.execute(
                f"SELECT {run}, run_name, step, metrics FROM metrics ORDER BY id"
            ).fetchall()
    except sqlite3.Error as error:
        raise UserError(f"'{path}' is no database of Trackio's: {error}") from None
    return [_TrackioRow(str(run), str(name), step, metrics) for run, name, step, metrics in rows]


def _numbers(metrics: bytes | str) -> dict[str, float] | None:
    """Return the numbers of a row, None where it cannot be read.

    Trackio writes NaN and infinities as text.
    """
    try:
        row = json.loads(metrics)
    except (ValueError, TypeError, RecursionError):
        return None
    numbers = {}
    for name, value in row.items() if isinstance(row, Mapping) else ():
        text = isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity")
        number = None if text or isinstance(value, bool) else as_number(value)
        if number is not None:
            numbers[name] = number
    return numbers


def _panel(source: Source, notes: list[str]) -> list[Run] | None:
    """Return the runs of a panel that W&B exported: a column for steps, three for every run."""
    steps = [name for name in source.header if _PANEL not in name]
    if len(steps) != 1 or len(source.header) < 2:
        return None
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
        run_of_points(source, run, [(step, dict(pairs)) for step, pairs in sorted(rows.items())])
        for run, rows in points.items()
    ]


def _marl_eval(source: Source, notes: list[str]) -> list[Run] | None:
    """Return the runs of marl-eval's JSON: environment -> task -> algorithm -> seed -> steps."""
    runs = []
    for (_, task, algorithm, seed), steps in _branches(source.file.json, 4):
        if not isinstance(steps, Mapping):
            return None
        points: list[Step] = []
        for name, values in steps.items():
            if not isinstance(values, Mapping) or "step_count" not in values:
                continue
            numbers = {key: _mean(value) for key, value in values.items()}
            at = numbers.pop("step_count") if name.startswith("step_") else math.nan
            if not (0 <= at <= MOST and at % 1 == 0):
                raise UserError(f"'{source.path}': {name} of '{algorithm}' has no whole step_count")
            points.append((int(at), {key: v for key, v in numbers.items() if not math.isnan(v)}))
        if not points:
            return None
        known = re.fullmatch(r"(?:\w*_)?(\d{1,18})", seed)
        stated = Stated(task, algorithm, int(known[1]) if known else None)
        runs.append(run_of_points(source, f"{task}, {algorithm}, {seed}", points, stated))
    return runs or None


def _branches(tree: Json, depth: int) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield the names that lead to what lies at a depth of a tree, and that."""
    if not depth:
        yield (), tree
    elif isinstance(tree, Mapping):
        for name, branch in tree.items():
            yield from (((name, *names), leaf) for names, leaf in _branches(branch, depth - 1))


def _mean(value: Json) -> float:
    """Return the mean of a list of numbers, NaN for anything else."""
    numbers = [as_number(each) for each in (value if isinstance(value, list) else [value])]
    known = [number for number in numbers if number is not None]
    return float(np.mean(known)) if known and len(known) == len(numbers) else math.nan


def _scores(source: Source, notes: list[str]) -> list[Run] | None:
    """Return the runs of rliable's scores: algorithm -> `[runs, tasks]` or `[runs, tasks, points]`.

    They are said to be no curves: a run has one point, or as many as are there, counted from 1.
    """
    packed = arrays(source.path) if source.file.start.startswith(b"PK") else {}
    if "timesteps" in packed:
        return None
    content = source.file.json
    by_name: Mapping[str, Json | NDArray[np.generic]] = (
        content if isinstance(content, Mapping) else packed
    )
    matrices = {name: _matrix(value) for name, value in by_name.items()}
    shapes = {None if matrix is None else matrix.shape[1:] for matrix in matrices.values()}
    if len(shapes) != 1 or None in shapes:
        if packed:
            raise UserError(
                f"'{source.path.name}' has no timesteps, and is no file of scores: it has "
                f"{', '.join(packed)}"
            )
        return None
    notes.append(
        f"'{source.path.name}': scores of a run and a task, numbered as rows and columns; rows of "
        f"one number are compared as pairs"
    )
    runs = []
    for name, matrix in matrices.items():
        for seed, task in np.ndindex(*([] if matrix is None else matrix.shape[:2])):
            assert matrix is not None
            points = [(at, {SCORE: float(x)}) for at, x in enumerate(matrix[seed, task], 1)]
            stated = Stated(f"task_{task + 1}", name, seed)
            runs.append(
                run_of_points(source, f"{name}, row {seed + 1}, {stated.task}", points, stated)
            )
    return runs


def _matrix(value: Json | NDArray[np.generic]) -> NDArray[np.float64] | None:
    """Return scores `[runs, tasks, points]`, None where a value has no such shape."""
    try:
        matrix = np.asarray(value, np.float64)
    except (ValueError, TypeError, OverflowError):
        return None
    if matrix.ndim == 2:
        matrix = matrix[:, :, None]
    return matrix if matrix.ndim == 3 and matrix.size else None


FORMATS = (_trackio, _panel, _marl_eval, _scores)


# Names of files that say nothing of the run.
_COMMON = re.compile(
    r"(?:\d+\.)?monitor|progress|evaluations|metrics|trainer_state|config|logs?|console|stdout"
    r"|output|results?|train|eval|history|curves?"
)


def is_common(path: Path) -> bool:
    """Return whether a file is called like those of every run, such as progress.csv."""
    return bool(_COMMON.fullmatch(stem(path)))


def stem(path: Path) -> str:
    """Return the name of a file without endings of formats."""
    plain = unpacked_name(path)
    name = plain.stem if re.fullmatch(r"\.[a-z]\w{0,8}", plain.suffix) else plain.name
    return name if re.fullmatch(r"\d+\.monitor", name) else name.removesuffix(".monitor")
