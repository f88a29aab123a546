"""Evaluations with a row per item: from tables and JSON lines, by the reader of all logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ablations import logs
from ablations.errors import UserError, unknown
from ablations.logs.formats import Row

_WORDS = {"true": 1.0, "false": 0.0}
_LONGEST = 40  # characters of a text that the reader of logs keeps


@dataclass(frozen=True)
class Columns:
    """The names of columns. cluster: None where every item is its own."""

    item: str
    metric: str
    cluster: str | None = None


@dataclass(frozen=True)
class Items:
    """The scores of an evaluation, by item.

    names: of the items. scores: `[items]`, each the mean of the item's rows. clusters: of the
    items. rows: how many were read.
    """

    names: tuple[str, ...]
    scores: NDArray[np.float64]
    clusters: tuple[str, ...]
    rows: int


def read_items(paths: Sequence[Path], columns: Columns) -> Items:
    """Read files with a row per item, or several per item: attempts, seeds. Raises UserError."""
    scores: dict[str, list[float]] = {}
    clusters: dict[str, str] = {}
    for path in paths:
        rows = logs.rows(path)
        if not rows:
            raise UserError(f"'{path}' has no rows: an item a row is needed")
        known = {name for row in rows for name in (*row.numbers, *row.other, *row.empty)}
        for name in (columns.item, columns.metric, columns.cluster):
            if name is not None and name not in known:
                raise unknown(f"column of '{path}'", name, known)
        for row in rows:
            item = _text(row, columns.item)
            scores.setdefault(item, []).append(_number(row, columns.metric))
            cluster = item if columns.cluster is None else _text(row, columns.cluster)
            if clusters.setdefault(item, cluster) != cluster:
                raise UserError(f"{row.place}: '{item}' is in two clusters")
    return Items(
        tuple(scores),
        np.array([np.mean(values) for values in scores.values()]),
        tuple(clusters[item] for item in scores),
        sum(map(len, scores.values())),
    )


def on_both(ours: Items, theirs: Items) -> tuple[Items, Items]:
    """Return the items that both have, in one order. Raises UserError where no two are shared."""
    others = {*theirs.names}
    shared = [name for name in ours.names if name in others]
    if len(shared) < 2:
        raise UserError(
            f"the evaluations share {len(shared)} of {len(ours.names)} items: 2 at least"
        )
    return _chosen(ours, shared), _chosen(theirs, shared)


def _chosen(items: Items, names: Sequence[str]) -> Items:
    place = {name: at for at, name in enumerate(items.names)}
    rows = [place[name] for name in names]
    clusters = tuple(items.clusters[at] for at in rows)
    return Items(tuple(names), items.scores[rows], clusters, items.rows)


def _text(row: Row, name: str) -> str:
    if name in row.other:
        text = row.other[name]
        if len(text) >= _LONGEST:
            raise UserError(f"{row.place}: {name} has {_LONGEST} letters or more: give items an id")
        return text
    if name not in row.numbers:
        raise UserError(f"{row.place}: {name} is empty")
    return f"{row.numbers[name]:.17g}"


def _number(row: Row, name: str) -> float:
    value = row.numbers.get(name, _WORDS.get(row.other.get(name, "").lower(), np.nan))
    if not np.isfinite(value):
        shown = row.other.get(name, "nothing" if name not in row.numbers else "NaN")
        raise UserError(f"{row.place}: {name} must be a number, true or false, not {shown!r}")
    return float(value)
