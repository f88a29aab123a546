"""Finds runs in other programs' files: the files, their columns, and each run's name.

Columns or file names state task, variant and seed; they are never guessed.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ablations.core.decode import Json
from ablations.errors import UserError, count, unknown
from ablations.io import tensorboard
from ablations.io.formats import FORMATS, RECIPES, File, Row, Rows, rows_of
from ablations.io.logs import (
    EVENTS,
    KINDS,
    are_whole,
    columns_of,
    floats,
    is_blank,
    is_text,
    refused,
    two_values,
)
from ablations.io.printed import number

Place: TypeAlias = tuple[str, str, int]  # task, variant, seed

TASK = "task"  # the name of the task if no column or file name states it
RUN = ("task", "variant", "seed")
# Usual names of columns; environment steps come before other steps.
KNOWN = {
    "task": ("task", "env", "env_id", "environment"),
    "variant": ("variant", "run", "algorithm", "algo", "exp_name"),
    "seed": ("seed",),
    "step": (
        *("global_step", "time/total_timesteps", "total_timesteps", "num_timesteps", "timesteps"),
        *("TotalEnvInteracts", "num_steps", "env_steps", "total_steps", "timesteps_total"),
        *("num_env_steps_sampled_lifetime", "step_count", "step", "steps", "_step", "Step"),
        *("timestep", "iteration"),
    ),
}
# Usual names of the return of an episode.
RETURNS = (
    *("charts/episodic_return", "rollout/ep_rew_mean", "eval/episode_reward", "Train/mean_reward"),
    *("training/return", "return", "results", "episodic_return", "episode_return"),
    *("mean_episode_return", "AverageTestEpRet", "AverageEpRet", "env_runners/episode_return_mean"),
    *("episode_reward_mean", "ep_rew_mean", "reward", "score", "Value"),
)
ENDED = ("status", "failure", "reason")  # columns on the outcome of a run
# In a folder the first of these kinds that exists is read, otherwise files of any format.
FILES = (r"evaluations\.npz", rf".*{EVENTS}.*", r"progress\.(csv|txt)")
NOT_LOGS = {".json", ".npz"}  # in a folder these are settings and weights
# File names that do not describe the run.
COMMON = re.compile("progress|evaluations|metrics|logs?|results|history|eval|train")
PARTS = {
    "{task}": "(?P<task>.+?)",
    "{variant}": "(?P<variant>.+?)",
    "{seed}": r"(?P<seed>\d{1,18})",
    "{}": ".+?",
}
PANEL = " - "  # between run and metric in the columns of a W&B panel
# The CSV that TensorBoard's page downloads, for a run with a name such as ppo_1.
DOWNLOAD = ["Wall time", "Step", "Value"]
DOWNLOADED = re.compile(r"run-[^\W\d_][^_]*_\d{1,9}-tag-.+")


class Names(NamedTuple):
    """Names of columns (None: the usual ones), and the pattern of file names."""

    task: str | None = None
    variant: str | None = None
    seed: str | None = None
    step: str | None = None
    metric: str | None = None
    pattern: str = ""


@dataclass(frozen=True)
class Source:
    """One or several runs: a file, a folder of event files, or columns of a W&B panel.

    Attributes:
        name: the part of the path that describes the run.
        rows: line (or step) and fields.
        keys: the columns of task, variant, seed and step, as far as they exist.
        stated: task, variant and seed as far as the name states them.
        metrics: the other columns.
    """

    path: Path
    name: str
    rows: Rows
    keys: Mapping[str, str]
    stated: Mapping[str, str]
    metrics: Sequence[str]

    @property
    def is_table(self) -> bool:
        """Whether columns state the runs."""
        return "variant" in self.keys or "seed" in self.keys

    def place(self, row: Row) -> Place:
        """Return task, variant and seed of a row. Raises UserError if one is empty or invalid."""
        stated = {**self.stated, **{key: row[1].get(name) for key, name in self.keys.items()}}
        for key in ("task", "variant"):
            if stated[key] in (None, ""):
                raise UserError(f"'{self.path}', line {row[0]}: {self.keys[key]} is empty")
            if not is_text(str(stated[key])):
                raise refused(str(self.path), row, self.keys[key], "text in UTF-8")
        seed = floats([(0, stated)], "seed")[0]
        if not are_whole(seed)[0]:
            raise refused(str(self.path), row, self.keys["seed"], "a whole number")
        return str(stated["task"]).strip(), str(stated["variant"]).strip(), int(seed[0])


def sources(paths: Sequence[Path | str], names: Names, notes: list[str]) -> Iterator[Source]:
    """Yield the sources in folders and patterns, then the sources in single files.

    `notes` receives messages on skipped content. Raises UserError for unreadable files.
    """
    files = [Path(path) for path in paths if Path(path).is_file()]
    if duplicates := {path for path in files if files.count(path) > 1}:
        raise UserError(f"a file is given twice: {', '.join(map(str, sorted(duplicates)))}")
    groups = [_inside(Path(path), notes) for path in paths if Path(path) not in files]
    if files:
        parents = [path.absolute().parent for path in files]
        groups.append((Path(os.path.commonpath(parents)), files))
    if not any(inside for _, inside in groups):
        raise UserError("no runs found: name files or folders of logs")
    for root, inside in groups:
        for path, name in _named(root.absolute(), inside, names.pattern):
            with naming(path):
                yield from _read(path, name, names, notes)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path of a file to errors that lack it."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror or error}") from None
    except UserError as error:
        raise error if str(path) in str(error) else UserError(f"'{path}': {error}") from None


def _inside(path: Path, notes: list[str]) -> tuple[Path, list[Path]]:
    """Return the root below which paths describe runs, and the files of a folder or pattern."""
    matches, root = [path], path
    if not path.exists():
        matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        root = Path(*itertools.takewhile(lambda part: not glob.has_magic(part), path.parts))
    if not matches:
        raise UserError(f"no such file: '{path}'")
    if special := [match for match in matches if not (match.is_dir() or match.is_file())]:
        raise UserError(f"'{special[0]}' is neither a file nor a folder")
    inside = [_in_folder(match, notes) if match.is_dir() else [match] for match in matches]
    return root, [*itertools.chain(*inside)]


def _in_folder(path: Path, notes: list[str]) -> list[Path]:
    walked = [(Path(folder), inner, files) for folder, inner, files in os.walk(path)]
    linked = sorted(
        str(folder / name)
        for folder, inner, _ in walked
        for name in inner
        if (folder / name).is_symlink()
    )
    if linked:
        notes.append(
            f"skipped {count(len(linked), 'linked folder')} ({', '.join(linked[:3])}): name them, "
            f"or a pattern such as '{path}/*/*/progress.csv'"
        )
    files = sorted(folder / name for folder, _, inner in walked for name in inner)
    endings = "|".join(map(re.escape, FORMATS.keys() - NOT_LOGS))
    named = [*FILES, rf".*({endings})"]
    kinds = [[f for f in files if re.fullmatch(kind, f.name) and f.is_file()] for kind in named]
    chosen = next(filter(None, kinds), [])
    if not chosen:
        why = notes[-1] if linked else f"for other formats {RECIPES}"
        raise UserError(f"no TensorBoard event files or other logs in '{path}'; {why}")
    if others := {file.name for kind in kinds for file in kind if file not in chosen}:
        shown = ", ".join(sorted(others)[:3])
        notes.append(f"skipped files of other kinds in '{path}' ({shown}): name them to read them")
    return chosen


def _named(root: Path, files: Sequence[Path], pattern: str) -> Iterator[tuple[Path, str]]:
    """Yield files, or folders of event files, with the part of their path that describes the run.

    This is the path below the root, without a file name that all share or that is usual, such as
    progress.csv. If the pattern has more parts, folders above the root are added.
    """
    paths = dict.fromkeys(file.parent if EVENTS in file.name else file for file in files)
    same_name = len({path.name for path in paths}) == 1 < len({path.parent for path in paths})
    for path in paths:
        folder = path.absolute() if path.is_dir() else path.absolute().parent
        own = [] if path.is_dir() or COMMON.fullmatch(path.stem) or same_name else [path.stem]
        if path.suffix and pattern.endswith(path.suffix):
            own = [path.name]
        below = len(folder.relative_to(root).parts)
        wanted = max(below, 0 if own else 1, pattern.count("/") + 1 - len(own) if pattern else 0)
        yield path, "/".join([*folder.parts[len(folder.parts) - wanted :], *own])


def _stated(name: str, pattern: str, keys: Mapping[str, str]) -> dict[str, str]:
    """Return task, variant and seed from the name, unless columns state them.

    Raises:
        UserError: the name does not match the pattern, or nothing states the variant or seed.
    """
    stated = {"task": TASK}
    lacking = [key for key in ("variant", "seed") if key not in keys]
    if pattern and lacking:
        parts = re.split(r"(\{[^{}]*\})", pattern)
        for part in parts:
            if part.startswith("{") and part not in PARTS:
                raise unknown("part of a pattern", part, PARTS)
            if part in PARTS and part != "{}" and parts.count(part) > 1:
                raise UserError(f"the pattern '{pattern}' has '{part}' twice")
        match = re.fullmatch("".join(PARTS.get(p, re.escape(p)) for p in parts), name)
        if match is None:
            raise UserError(f"'{name}' does not match the pattern '{pattern}'")
        stated |= match.groupdict()
        lacking = [key for key in lacking if key not in stated]
    if lacking:
        raise UserError(
            f"no column states the {' and '.join(lacking)} of '{name}': name the column with "
            f"--{' and --'.join(lacking)}, or the position in the name with --pattern, such as "
            f"--pattern '{{variant}}/{{task}}_{{seed}}' ({{}} matches anything)"
        )
    return {key: value for key, value in stated.items() if key not in keys}


def _read(path: Path, name: str, names: Names, notes: list[str]) -> Iterator[Source]:
    own: list[str] = []
    if path.is_dir():
        tags = tensorboard.parts(path, own)
        judged = names.metric or next((tag for tag in RETURNS if tag in tags), "")
        rows = list(tensorboard.rows(tags, judged, own))
        metrics = [tag for tag in columns_of(rows) if tag != tensorboard.STEP]
        stated = _stated(name, names.pattern, {}) if rows else {}
        yield Source(path, name, rows, {"step": tensorboard.STEP}, stated, metrics)
    else:
        file = File(path)
        if (records := rows_of(file)) is None:
            raise UserError(f"neither a table with a header nor JSON lines (.jsonl): {RECIPES}")
        rows, own = list(records), file.notes
        columns = columns_of(rows)
        steps = [column for column in columns if PANEL not in column]
        if len(steps) == 1 < len(columns):
            yield from _panel(path, names._replace(step=steps[0]), rows)
        else:
            if columns == DOWNLOAD and not names.pattern and DOWNLOADED.fullmatch(name):
                names = names._replace(pattern="run-{variant}_{seed}-tag-{}")
            yield _source(path, name, names, rows)
    notes += (f"'{name}': {note}" for note in own)


def _source(path: Path, name: str, names: Names, rows: Rows) -> Source:
    keys, columns = {}, columns_of(rows)
    for key, usual in KNOWN.items():
        named = getattr(names, key)
        if rows and named is not None and named not in columns:
            raise unknown("column", named, columns, of=f"'{path}'")
        if column := named or next((each for each in usual if each in columns), None):
            keys[key] = column
    if {"metric", "value"} <= {*columns}:
        rows = _wide(path, rows, keys)
    left_out = {*keys.values(), *KNOWN["step"], *ENDED, *KINDS}
    metrics = [
        column
        for column in columns_of(rows)
        if column not in left_out and not all(is_blank(fields.get(column)) for _, fields in rows)
    ]
    return Source(
        path, name, rows, keys, _stated(name, names.pattern, keys) if rows else {}, metrics
    )


def _panel(path: Path, names: Names, rows: Rows) -> Iterator[Source]:
    """Yield the runs of a W&B panel: a column of steps, and one or three columns per run."""
    columns = [column for column in rows[0][1] if PANEL in column]
    own = [c for c in columns if re.sub("__(MIN|MAX)$", "", c) not in {*columns} - {c}]
    step = str(names.step)
    for run in dict.fromkeys(column.rpartition(PANEL)[0] for column in own):
        metrics = {c.rpartition(PANEL)[2]: c for c in own if c.rpartition(PANEL)[0] == run}
        logged = [
            (line, {step: fields[step], **values})
            for line, fields in rows
            if (values := {m: fields[c] for m, c in metrics.items() if not is_blank(fields[c])})
        ]
        if logged:
            yield _source(path / run, run, names, logged)


def _wide(path: Path, rows: Rows, keys: Mapping[str, str]) -> Rows:
    """Return rows with one column per metric, from rows with the columns metric and value."""
    joined: dict[tuple[str, ...], tuple[int, dict[str, Json]]] = {}
    metrics: dict[str, None] = {}
    for line, fields in rows:
        about = (*keys.values(), *ENDED, *KINDS)
        own = {column: fields[column] for column in about if column in fields}
        metric = str(fields["metric"] or "")
        row = joined.setdefault(tuple(map(str, own.values())), (line, own))[1]
        if metric in row:
            step = int(number(fields.get(keys.get("step", ""))) or 0)
            raise UserError(f"'{path}', line {line}: {two_values(metric, step)}")
        if metric:
            row[metric] = fields["value"]
            metrics[metric] = None
    # A point has all metrics. A failed or missing run has a row without metrics.
    return [
        (line, {**metrics, **row} if metrics.keys() & row.keys() else row)
        for line, row in joined.values()
    ]
