"""Runs in MLflow's file store, `mlruns/`: a folder each, with a file per metric.

    <experiment>/<run>/meta.yaml          the run's name, on a line "run_name: ppo_seed3"
    <experiment>/<run>/metrics/<name>     lines "milliseconds value step"
    <experiment>/<run>/params/<name>      a value
    <experiment>/<run>/tags/mlflow.runName

An experiment's own meta.yaml has no metrics beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ablations.errors import UserError
from ablations.exchange.others import Run, Source, Step, run_of_points
from ablations.exchange.places import Stated
from ablations.logs.files import content
from ablations.logs.numbers import number

META = "meta.yaml"
MOST_VALUE = 100_000  # bytes of a parameter or a name
_TASKS = ("task", "env", "env_id", "env_name", "environment")


def is_run(path: Path) -> bool:
    """Return whether a file is the head of a run in a file store."""
    return path.name == META and (path.parent / "metrics").is_dir()


def stored_run(source: Source) -> Run:
    """Return the run whose meta.yaml a source is. Raise UserError for a damaged metric."""
    folder = source.path.parent
    points = [
        point
        for path in sorted((folder / "metrics").rglob("*"))
        if path.is_file()
        for point in _points(path, path.relative_to(folder / "metrics").as_posix())
    ]
    task = next(filter(None, (_value(folder / "params" / name) for name in _TASKS)), None)
    seed = _value(folder / "params" / "seed") or ""
    stated = Stated(task=task, seed=int(seed) if re.fullmatch(r"\d{1,9}", seed) else None)
    return run_of_points(source, _name(folder), points, stated, folder.name)


def _points(path: Path, metric: str) -> Iterator[Step]:
    for place, line in enumerate(content(path).decode(errors="replace").splitlines(), 1):
        parts = line.split()
        value = number(parts[1]) if len(parts) == 3 else None
        if value is None or not parts[2].isdecimal():
            raise UserError(f"'{path}', line {place}: no metric of MLflow's: {line!r:.60}")
        yield int(parts[2]), {metric: value}


def _name(folder: Path) -> str:
    """Return the name of a run; its id where it has none."""
    meta = content(folder / META, MOST_VALUE).decode(errors="replace")
    line = re.search(r"(?m)^run_name: *['\"]?(.+?)['\"]? *$", meta)
    return _value(folder / "tags" / "mlflow.runName") or (line[1] if line else folder.name)


def _value(path: Path) -> str | None:
    return content(path, MOST_VALUE).decode(errors="replace").strip() if path.is_file() else None
