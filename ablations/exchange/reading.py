"""Runs as others store them: CSV files and TensorBoard event folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablations.errors import UserError, unknown
from ablations.logs import tensorboard

TASK = "task"

# What others call our columns.
_ALIASES = {
    "run": ("run", "variant", "algorithm", "algo", "exp_name"),
    "seed": ("seed",),
    "step": ("step", "steps", "global_step", "env_steps"),
    "task": ("task", "env", "env_id", "environment"),
}
# Tags under which PPO implementations log the return of an episode.
_RETURN_TAGS = (
    "charts/episodic_return",
    "rollout/ep_rew_mean",
    "eval/episode_reward",
    "Train/mean_reward",
    "training/return",
    "return",
)


@dataclass
class Curve:
    """One run as read: metric -> value, NaN where there is none, at increasing steps."""

    steps: NDArray[np.int64]
    values: dict[str, NDArray[np.float64]]
    source: Path


Place = tuple[str, str, int]


# CSV


def read_csv(path: Path, metric: str | None) -> tuple[dict[Place, Curve], str]:
    """The runs of a file, and the name of the metric that is judged. Raises UserError."""
    import pandas

    try:
        table = pandas.read_csv(path)
    except FileNotFoundError:
        raise UserError(f"no such file: '{path}'") from None
    except (OSError, UnicodeDecodeError, pandas.errors.ParserError) as problem:
        raise UserError(f"cannot read '{path}' as CSV: {problem}") from None
    except pandas.errors.EmptyDataError:
        raise UserError(f"'{path}' is empty") from None
    table.columns = [str(name).strip() for name in table.columns]
    names = {}
    for ours, theirs in _ALIASES.items():
        given = [name for name in theirs if name in table.columns]
        if given:
            names[given[0]] = ours
        elif ours != "task":
            raise UserError(
                f"'{path}' has no column '{ours}': it needs run, seed, step and return, and has "
                f"{', '.join(table.columns)}"
            )
    table = table.rename(columns=names)
    if "task" not in table:
        table["task"] = TASK
    keys = ["task", "run", "seed", "step"]
    if {"metric", "value"} <= set(table.columns):
        table = table[table["metric"].notna()]
        if table.duplicated([*keys, "metric"]).any():
            raise UserError(f"'{path}' has two values for one run, seed, step and metric")
        wide = table.pivot(index=keys, columns="metric", values="value").reset_index()
        table = table[keys].drop_duplicates().merge(wide, on=keys)  # in the file's order
    for name in ("seed", "step"):
        numbers = pandas.to_numeric(table[name], errors="coerce")
        bad = np.flatnonzero(~(numbers.notna() & (numbers % 1 == 0) & (numbers >= 0)))
        if len(bad):
            raise UserError(
                f"'{path}', line {bad[0] + 2}: {name} must be a whole number, not "
                f"{table[name].iloc[bad[0]]!r}"
            )
        table[name] = numbers.astype("int64")
    values = {}
    for name in (name for name in table.columns if name not in keys):
        numbers = pandas.to_numeric(table[name], errors="coerce")
        bad = np.flatnonzero(numbers.isna() & table[name].notna())
        if not len(bad):
            values[str(name)] = numbers.to_numpy(np.float64)
        elif name in ("return", metric):
            raise UserError(
                f"'{path}', line {bad[0] + 2}: {name} must be a number, not "
                f"{table[name].iloc[bad[0]]!r}"
            )
    judged = metric or ("return" if "return" in values else judged_of(values))
    if judged is None or judged not in values:
        raise unknown(f"column of numbers in '{path}'", judged or "return", values)
    again = table.duplicated(keys)
    if again.any():
        line = int(np.flatnonzero(again)[0]) + 2
        raise UserError(f"'{path}', line {line}: the same run, seed and step a second time")
    runs: dict[Place, Curve] = {}
    for (task, run, seed), rows in table.groupby(keys[:3], sort=False):
        order = rows.sort_values("step").index.to_numpy()
        places = table.index.get_indexer(order)
        runs[str(task), str(run), int(seed)] = Curve(
            table["step"].to_numpy()[places],
            {name: column[places] for name, column in values.items()},
            path,
        )
    return runs, judged


def judged_of(names: Mapping[str, Any]) -> str | None:
    known = [name for name in _RETURN_TAGS if name in names]
    return known[0] if known else None


# TensorBoard


def read_tensorboard(
    root: Path, metric: str | None, pattern: str | None
) -> tuple[dict[Place, Curve], str]:
    """The runs under a folder, and the name of the metric that is judged. Raises UserError."""
    folders = tensorboard.folders(root)
    if not folders:
        raise UserError(f"no TensorBoard event files in '{root}'")
    scalars = {folder: tensorboard.read_scalars(folder) for folder in folders}
    tags = {tag for one in scalars.values() for tag in one}
    judged = metric or judged_of(dict.fromkeys(tags))
    if judged is None or judged not in tags:
        raise unknown(f"tag in '{root}' (choose with --metric)", judged or "return", tags)
    runs: dict[Place, Curve] = {}
    for folder, found in scalars.items():
        if judged not in found:
            continue
        name = folder.relative_to(root).as_posix()
        place = place_of(root.name if name == "." else name, pattern)
        if place in runs:
            raise UserError(
                f"'{folder}' and '{runs[place].source}' are both run '{place[1]}' on '{place[0]}', "
                f"seed {place[2]}: tell them apart with --pattern"
            )
        runs[place] = _joined(found, judged, folder)
    return runs, judged


def place_of(name: str, pattern: str | None) -> Place:
    """Task, run and seed in a folder's name: by the pattern, else as CleanRL names them
    (task__run__seed__time), else a seed at the end of it, else run and seed 0."""
    if pattern is not None:
        found = re.fullmatch(_expression(pattern), name)
        if found is None:
            raise UserError(f"'{name}' does not fit the pattern '{pattern}'")
        parts = found.groupdict()
        return parts.get("task", TASK), parts.get("run", "run"), int(parts.get("seed") or 0)
    found = re.fullmatch(r"(?:.*/)?([^/]+)__([^/]+)__(\d+)__\d+", name)
    if found:
        return found[1], found[2], int(found[3])
    found = re.fullmatch(r"(.*?)[/_-]*(?:(?<![a-z])(?:seed|s)[_-]?)?(\d+)", name)
    body, seed = (found[1], int(found[2])) if found and found[1] else (name, 0)
    task, _, run = body.rpartition("/")
    return task or TASK, run, seed


def _expression(pattern: str) -> str:
    parts = re.split(r"(\{[^{}]*\})", pattern)
    fields = {"{task}": "(?P<task>.+?)", "{run}": "(?P<run>.+?)", "{seed}": r"(?P<seed>\d+)"}
    for part in parts:
        if part.startswith("{") and part not in (*fields, "{}"):
            raise unknown("part of a pattern", part, [*fields, "{}"])
    return "".join(fields.get(p, ".+?" if p == "{}" else re.escape(p)) for p in parts)


def _joined(found: tensorboard.Scalars, metric: str, source: Path) -> Curve:
    """All tags of a run on the steps of the judged one; points of one step are averaged."""
    averaged = {tag: _averaged(points) for tag, points in found.items()}
    steps = np.array(sorted(averaged[metric]), dtype=np.int64)
    values = {
        tag: np.array([by_step.get(int(step), np.nan) for step in steps])
        for tag, by_step in averaged.items()
    }
    kept = {t: v for t, v in values.items() if t == metric or not np.all(np.isnan(v))}
    return Curve(steps, kept, source)


def _averaged(points: Sequence[tuple[int, float]]) -> dict[int, float]:
    collected: dict[int, list[float]] = {}
    for step, value in points:
        collected.setdefault(step, []).append(value)
    return {step: float(np.mean(values)) for step, values in collected.items()}
