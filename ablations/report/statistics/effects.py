"""Factorial studies: main effects and interactions of what the variants set, paired by seed."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.core.plan import Settings
from ablations.errors import value_text
from ablations.report.statistics.paired import Comparison, judge, rounding_of
from ablations.report.statistics.summaries import LEVEL


@dataclass(frozen=True)
class Design:
    """A factorial, every combination of whose levels is one variant, or a fraction of one.

    In a fraction the levels of every three factors meet equally often (an orthogonal array of
    strength 3). factors: name -> levels in words; the first is the reference. variants: variant ->
    the index of its level of each factor.
    """

    factors: Mapping[str, tuple[str, ...]]
    variants: Mapping[str, tuple[int, ...]]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each factor."""
        return tuple(len(levels) for levels in self.factors.values())

    @property
    def full(self) -> bool:
        """Return whether every combination of levels is there."""
        return len(self.variants) == math.prod(self.shape)


@dataclass(frozen=True)
class Effect:
    """The effect of a factor's level, or of two levels together beyond their sum.

    factors, levels: one name each for a main effect, two for an interaction. comparison: of the
    contrast, one number per seed, in the scores' units, like the margin.
    """

    factors: tuple[str, ...]
    levels: tuple[str, ...]
    comparison: Comparison
    margin: float | None = None


def design(sets: Mapping[str, Settings], baseline: str) -> Design | None:
    """Find the factorial that variants form, or a fraction of one; else None.

    Settings that change together are one factor, and so are two of which not every combination is
    there, if that makes a factorial: its levels are those that are. A setting that a variant leaves
    out is at its default.

    Args:
        sets: variant -> what it sets.
        baseline: whose levels come first.
    """
    names = list(dict.fromkeys(name for set_here in sets.values() for name in set_here))
    columns: _Columns = {}
    texts: dict[str, list[str]] = {}
    order = [baseline, *(v for v in sets if v != baseline)] if baseline in sets else list(sets)
    for name in names:
        values = [value_text(sets[v][name]) if name in sets[v] else "default" for v in order]
        levels = list(dict.fromkeys(values))
        if len(levels) > 1:
            columns.setdefault(tuple(levels.index(value) for value in values), []).append(name)
            texts[name] = values
    if len(set(zip(*columns, strict=True))) != len(order):
        return None
    full = next((joined for joined in _joined(columns) if _is_full(joined, len(order))), None)
    # Else an interaction of two could pass for a main effect.
    if full is None and len(columns) > 3 and meet_equally(list(columns), 3):
        full = columns
    if full is None or len(full) < 2:
        return None
    factors = {
        ", ".join(grouped): _levels([texts[name] for name in grouped], column)
        for column, grouped in full.items()
    }
    places = zip(*full, strict=True)
    return Design(factors, dict(zip(order, places, strict=True)))


_Columns = dict[tuple[int, ...], list[str]]  # the level of each variant -> settings of those levels


def _joined(columns: _Columns) -> Iterator[_Columns]:
    """Yield the factors as they are; then each two of them as one.

    Its levels are the combinations that are there, in order of appearance.
    """
    yield columns
    for first, second in itertools.combinations(columns, 2):
        pairs = list(zip(first, second, strict=True))
        seen = list(dict.fromkeys(pairs))
        joint = tuple(seen.index(pair) for pair in pairs)
        rest = {column: names for column, names in columns.items() if column != second}
        yield {
            (joint if column == first else column): (
                names + columns[second] if column == first else names
            )
            for column, names in rest.items()
        }


def _is_full(columns: _Columns, variants: int) -> bool:
    shape = [1 + max(column) for column in columns]
    return int(np.prod(shape)) == variants == len(set(zip(*columns, strict=True)))


def meet_equally(columns: Sequence[tuple[int, ...]], several: int) -> bool:
    """Return whether all levels of every so many factors meet, and equally often.

    Args:
        columns: the level of each variant, of each factor.
        several: how many factors; the strength of the orthogonal array. More than there are do not.
    """
    for together in itertools.combinations(columns, several):
        met = Counter(zip(*together, strict=True))
        if (
            len(met) != math.prod(1 + max(column) for column in together)
            or len(set(met.values())) > 1
        ):
            return False
    return several <= len(columns)


def _levels(texts: Sequence[Sequence[str]], column: tuple[int, ...]) -> tuple[str, ...]:
    """Name each level as the first variant with it does. texts: of each setting, by variant."""
    return tuple(
        ", ".join(values[column.index(level)] for values in texts)
        for level in range(1 + max(column))
    )


def over_tasks(scores: ArrayLike, factorial: Design) -> tuple[NDArray[np.float64], float]:
    """Return scores `[n, variants]`, means over tasks of `[tasks, n, variants]`.

    Beside them the difference up to which numbers made of them are the same.

    Raises:
        ValueError: another shape.
    """
    y = np.asarray(scores, dtype=np.float64)
    if y.ndim not in (2, 3) or y.shape[-1] != len(factorial.variants):
        raise ValueError(f"scores need the shape [n, {len(factorial.variants)}]: {y.shape}")
    return (y.mean(axis=0) if y.ndim == 3 else y), rounding_of(y)


def effects(
    scores: ArrayLike, factorial: Design, margin: float | None = None, level: float = LEVEL
) -> list[Effect]:
    """Judge main effects and two-way interactions.

    Main effect of level k of a factor: the mean of the variants with it, minus that of those at the
    reference. Interaction of k and m of two factors: means of the variants with both, minus with m
    and the first reference, minus with k and the second, plus with both references. Each contrast
    is one number per seed, judged by `paired.judge`. In a fraction interactions of two cannot be
    told from each other, so there are none; a main effect there includes interactions of three.

    Args:
        scores: `[n, variants]`, a row per seed and the variants in the order of the design; or
            `[tasks, n, variants]`, of which the means over tasks are judged.
        factorial: the design.
        margin: in the units of the scores.
        level: of each interval.
    """
    y, rounding = over_tasks(scores, factorial)
    places = np.array(list(factorial.variants.values()))
    names, levels = list(factorial.factors), list(factorial.factors.values())

    def at(*where: tuple[int, int]) -> NDArray[np.float64]:
        """Return the mean of each seed's variants at levels of factors."""
        chosen = np.all([places[:, i] == k for i, k in where], axis=0)
        return np.asarray(y[:, chosen].mean(axis=1))

    def effect(of: tuple[tuple[int, int], ...], contrast: NDArray[np.float64]) -> Effect:
        return Effect(
            tuple(names[i] for i, _ in of),
            tuple(levels[i][k] for i, k in of),
            judge(contrast, margin, rounding, level),
            margin,
        )

    changes = [[(i, k) for k in range(1, len(of))] for i, of in enumerate(levels)]
    mains = itertools.chain(*changes)
    estimated = [effect(((i, k),), at((i, k)) - at((i, 0))) for i, k in mains]
    if factorial.full:
        estimated += [
            effect(
                ((i, k), (j, m)),
                (at((i, k), (j, m)) - at((i, 0), (j, m)))
                - (at((i, k), (j, 0)) - at((i, 0), (j, 0))),
            )
            for first, second in itertools.combinations(changes, 2)
            for (i, k), (j, m) in itertools.product(first, second)
        ]
    return estimated
