"""Factorial designs: main effects and interactions of settings, paired by seed.

In a fractional factorial each of N variants is trained with each of n seeds, which are blocks. A
contrast of the variants has two errors. The error of the runs shows between seeds, and falls with
more seeds. The error by interactions of three or more factors is the same in every seed; it shows
in the variants' means as the residual of a model of main effects and two-factor interactions.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.errors import value_text
from ablations.stats.differences import Difference, by_student, of_differences, rounding_of
from ablations.stats.summaries import LEVEL, NAN, Floats, student

FEWEST_UNUSED = 5  # contrasts needed to estimate a lack of fit; with fewer, t quantiles are huge

Levels = tuple[tuple[int, ...], ...]  # for each variant the level of each factor
_Columns = dict[tuple[int, ...], list[str]]  # the level in each variant -> settings with them


@dataclass(frozen=True)
class Design:
    """A full factorial, with a variant for every combination of levels, or a fraction of one.

    A fraction has two levels of each factor. All level combinations of any three factors occur
    equally often, and any two interactions of two factors are equal, opposite or orthogonal.

    Attributes:
        factors: name -> levels in words; the first is the reference.
        variants: variant -> the index of its level of each factor.
    """

    factors: Mapping[str, tuple[str, ...]]
    variants: Mapping[str, tuple[int, ...]]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each factor."""
        return tuple(len(levels) for levels in self.factors.values())

    @property
    def full(self) -> bool:
        """Whether every combination of levels has a variant."""
        return len(self.variants) == math.prod(self.shape)

    @property
    def levels(self) -> Levels:
        """For each variant the index of its level of each factor."""
        return tuple(self.variants.values())


def design(sets: Mapping[str, Mapping[str, Any]], baseline: str) -> Design | None:
    """Return the full or fractional factorial that variants form, or None.

    Settings that always change together are one factor. Two settings whose combinations do not all
    occur are joined to one factor if this makes a factorial; its levels are the combinations that
    occur. A setting that a variant does not set is at its default.

    Args:
        sets: variant -> its settings.
        baseline: its levels are the references.
    """
    names = list(dict.fromkeys(name for settings in sets.values() for name in settings))
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
    if full is None and _is_fraction(list(columns)):
        full = columns
    if full is None or len(full) < 2:
        return None
    factors = {
        ", ".join(grouped): tuple(
            ", ".join(texts[name][column.index(level)] for name in grouped)
            for level in range(1 + max(column))
        )
        for column, grouped in full.items()
    }
    return Design(factors, dict(zip(order, zip(*full, strict=True), strict=True)))


def _joined(columns: _Columns) -> Iterator[_Columns]:
    """Yield the factors, then the factors with each pair of them joined to one.

    The levels of a joint factor are the combinations that occur, in order of appearance.
    """
    yield columns
    for first, second in itertools.combinations(columns, 2):
        pairs = list(zip(first, second, strict=True))
        present = list(dict.fromkeys(pairs))
        joint = tuple(present.index(pair) for pair in pairs)
        yield {
            (joint if column == first else column): (
                names + columns[second] if column == first else names
            )
            for column, names in columns.items()
            if column != second
        }


def _is_full(columns: _Columns, variants: int) -> bool:
    size = math.prod(1 + max(column) for column in columns)
    return size == variants == len(set(zip(*columns, strict=True)))


def _is_fraction(columns: Sequence[tuple[int, ...]]) -> bool:
    # With strength below 3, a two-factor interaction could look like a main effect.
    if len(columns) < 4 or not meet_equally(columns, 3):
        return False
    signs = 2 * np.array(columns) - 1
    both = np.array([a * b for a, b in itertools.combinations(signs, 2)])
    # Other products than 0 and N show interactions that are aliased in part, or a third level.
    return {*np.unique(np.abs(both @ both.T)).tolist()} <= {0, len(columns[0])}


def meet_equally(columns: Sequence[tuple[int, ...]], several: int) -> bool:
    """Return whether all level combinations of any `several` factors occur, equally often.

    `columns` has for each factor the level of each variant. The result is False with fewer factors.
    """
    for together in itertools.combinations(columns, several):
        met = Counter(zip(*together, strict=True))
        combinations = math.prod(1 + max(column) for column in together)
        if len(met) != combinations or len(set(met.values())) > 1:
            return False
    return several <= len(columns)


def resolution(factorial: Design) -> int:
    """Return the smallest number of factors whose level combinations do not occur equally often.

    With resolution IV, main effects are aliased with three-factor interactions, and two-factor
    interactions with each other (Box and Hunter 1961, "The 2^(k-p) fractional factorial designs").
    """
    columns = list(zip(*factorial.levels, strict=True))
    return next(k for k in itertools.count(2) if not meet_equally(columns, k))


def letters(count: int) -> tuple[str, ...]:
    """Return names of factors: "A" to "Z" without "I" (the mean), then "A1" and so on."""
    names = (f"{a}{k or ''}" for k in itertools.count() for a in "ABCDEFGHJKLMNOPQRSTUVWXYZ")
    return tuple(itertools.islice(names, count))


# Effects by seed


@dataclass(frozen=True)
class Effect:
    """A main effect, or an interaction of two factors.

    Attributes:
        factors, levels: one name for a main effect, two for an interaction.
        difference: the contrast, in units of the scores.
    """

    factors: tuple[str, ...]
    levels: tuple[str, ...]
    difference: Difference


def effects(scores: ArrayLike, factorial: Design, level: float = LEVEL) -> list[Effect]:
    """Return main effects and two-factor interactions, each with one number per seed.

    Main effect of level k of a factor: the mean of the variants with it minus the mean of the
    variants with the reference. Interaction of levels k and m of two factors: the mean of the
    variants with k and m, minus with m and the first reference, minus with k and the second
    reference, plus with both references.

    Args:
        scores: `[n, variants]` with a row per seed and the variants in the order of the design, or
            `[tasks, n, variants]`, which are averaged over tasks.
        factorial: a full design.
        level: of each interval.
    """
    y, rounding = _over_tasks(scores, factorial)
    chosen, names = np.array(factorial.levels), list(factorial.factors)
    changes = [(i, k) for i, levels in enumerate(factorial.shape) for k in range(1, levels)]

    def mean_of(*levels: tuple[int, int]) -> Floats:
        having: Floats = np.all([chosen[:, i] == k for i, k in levels], axis=0) * 1.0
        return np.asarray(having / having.sum())

    contrasts: dict[tuple[tuple[int, int], ...], Floats] = {
        (change,): mean_of(change) - mean_of((change[0], 0)) for change in changes
    }
    pairs = [(a, b) for a, b in itertools.combinations(changes, 2) if a[0] != b[0]]
    for a, b in sorted(pairs, key=lambda pair: (pair[0][0], pair[1][0])):
        i, j = (a[0], 0), (b[0], 0)
        contrasts[a, b] = mean_of(a, b) - mean_of(i, b) - mean_of(a, j) + mean_of(i, j)
    return [
        Effect(
            tuple(names[i] for i, _ in of),
            tuple(factorial.factors[names[i]][k] for i, k in of),
            of_differences(y @ weights, level, rounding),
        )
        for of, weights in contrasts.items()
    ]


def _over_tasks(scores: ArrayLike, factorial: Design) -> tuple[Floats, float]:
    y = np.asarray(scores, np.float64)
    if y.ndim not in (2, 3) or y.shape[-1] != len(factorial.variants):
        raise ValueError(f"scores need the shape [n, {len(factorial.variants)}]: {y.shape}")
    return (y.mean(axis=0) if y.ndim == 3 else y), rounding_of(y)


# Fractions


@dataclass(frozen=True)
class Alias:
    """Two-factor interactions of which a fraction only shows the signed sum.

    Attributes:
        pairs: the indices of two factors each.
        signs: 1 or -1; the first is 1.
    """

    pairs: tuple[tuple[int, int], ...]
    signs: tuple[int, ...]


@dataclass(frozen=True)
class Residual:
    """The residual variance that gives the intervals of a fraction.

    Attributes:
        variance: of a variant's mean over seeds; NaN if it cannot be estimated.
        freedom: its degrees of freedom.
        lacks_fit: whether it is the variance of the variants' means about the model, which is
            larger than the variance between seeds.
        seeds: number of seeds.
    """

    variance: float
    freedom: float
    lacks_fit: bool
    seeds: int


def aliases(factorial: Design) -> list[Alias]:
    """Return the groups of aliased two-factor interactions of a fraction."""
    return _aliases(factorial.levels)


@lru_cache(maxsize=4)
def _aliases(levels: Levels) -> list[Alias]:
    pairs = list(itertools.combinations(range(len(levels[0])), 2))
    products = _products(levels, pairs)
    signs = products[0]
    groups: dict[bytes, list[int]] = {}
    for index, column in enumerate((signs * products).T):
        groups.setdefault(column.tobytes(), []).append(index)
    return [
        Alias(tuple(pairs[i] for i in group), tuple(int(signs[i] * signs[group[0]]) for i in group))
        for group in groups.values()
    ]


def fraction_effects(
    scores: ArrayLike, factorial: Design, level: float = LEVEL
) -> tuple[list[Difference], list[tuple[Alias, Difference]], Residual]:
    """Return the main effects and aliased interactions of a fraction, and the residual variance.

    A main effect is the mean of the variants with a factor's level minus the mean of the others; an
    interaction is defined as in `effects`. The sd of an effect is √n times its standard error. The
    variance of a run is pooled over all contrasts, with (n - 1) (N - 1) degrees of freedom. If runs
    are independent given their seed, all contrasts of an orthogonal array have the same variance,
    even if the variants' variances differ; Satterthwaite's approximation then reduces the degrees
    of freedom. If the residual of the model of the variants' means has a larger mean square (a lack
    of fit), this is used with its own degrees of freedom. It is the only estimate with one seed;
    with fewer than `FEWEST_UNUSED` degrees of freedom there is no interval. A contrast that varies
    more between seeds has its own variance, as a detail may act on some seeds only, with the pooled
    degrees of freedom.

    Args:
        scores: as for `effects`.
        factorial: a fraction.
        level: shared by the main effects, and again by the interactions (Bonferroni).
    """
    y, rounding = _over_tasks(scores, factorial)
    groups, single = aliases(factorial), [(i,) for i in range(len(factorial.factors))]
    means = y.mean(axis=0) if len(y) else np.full(y.shape[1], NAN)
    residual = _residual(y, means, _explained(factorial.levels))

    def judged(columns: Sequence[tuple[int, ...]], scale: float) -> list[Difference]:
        weights = scale * _products(factorial.levels, columns).T / y.shape[1]
        return [_judged(y, row, residual, rounding, level / len(columns)) for row in weights]

    together = judged([group.pairs[0] for group in groups], 4.0)
    return judged(single, 2.0), list(zip(groups, together, strict=True)), residual


def placebos(scores: ArrayLike, factorial: Design, splits: int) -> Floats:
    """Return placebo effects: details that change nothing, estimated like the real details.

    For each variant, half of its seeds are labelled as changed. This label and its products with
    each detail are placebos, with as many runs on each side as a detail has. The first split labels
    the first half of the seeds; further splits are random. With an odd number, a seed is not used.

    Args:
        scores: as for `effects`, of two or more seeds.
        factorial: the design.
        splits: number of random splits. The placebos of a split share the 5%.

    Returns:
        Estimates and the ends of their intervals `[1 + splits, 1 + details, 3]`, the label first;
        NaN without an estimate of the error.
    """
    y, _ = _over_tasks(scores, factorial)
    columns = [(), *((i,) for i in range(len(factorial.factors)))]
    weights = 2 * _products(factorial.levels, columns).T / y.shape[1]
    kept, half = _explained(factorial.levels), len(y) // 2
    random = np.random.default_rng(0)
    orders = itertools.chain([y[: 2 * half]], (random.permuted(y, axis=0) for _ in range(splits)))
    judged = np.full((1 + splits, len(weights), 3), NAN)
    for split, order in enumerate(orders):
        changed = (order[:half] - order[half : 2 * half]) / 2
        means = changed.mean(axis=0)
        residual = _residual(changed, means, kept)
        if not math.isnan(residual.variance):
            t = student(residual.freedom, LEVEL / len(weights))
            reach, estimates = t * _errors(changed, weights, residual), weights @ means
            judged[split] = np.stack([estimates, estimates - reach, estimates + reach], axis=1)
    return judged


def unused_columns(factorial: Design) -> list[tuple[int, ...]]:
    """Return triples of factors whose products are orthogonal to all one- and two-factor effects.

    Their effects are sums of interactions of three or more factors.
    """
    threes = list(itertools.combinations(range(len(factorial.shape)), 3))
    columns = _products(factorial.levels, threes).T
    free = np.abs(columns @ _explained(factorial.levels)).max(axis=1) < 1e-6
    taken: dict[tuple[int, ...], NDArray[np.int64]] = {}
    for three, column in itertools.compress(zip(threes, columns, strict=True), free):
        if not any(column @ other for other in taken.values()):
            taken[three] = column
    return list(taken)


def unused_effects(
    scores: ArrayLike, factorial: Design
) -> list[tuple[tuple[int, ...], Difference]]:
    """Estimate the effect of each unused column like a detail's, with the other columns' error."""
    y, rounding = _over_tasks(scores, factorial)
    level, basis = LEVEL / len(factorial.factors), _explained(factorial.levels)
    judged = []
    for three in unused_columns(factorial):
        column = _products(factorial.levels, [three]) / y.shape[1]
        kept = np.column_stack([basis, column * math.sqrt(y.shape[1])])
        residual = _residual(y, y.mean(axis=0), kept)
        judged.append((three, _judged(y, 2 * column[:, 0], residual, rounding, level)))
    return judged


def _products(levels: Levels, columns: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Return products `[N, columns]` of factors, with -1 for the reference level."""
    signs = 2 * np.array(levels) - 1
    products = [signs[:, factors].prod(axis=1) for factors in columns]
    return np.array(products).reshape(-1, len(signs)).T


def _errors(y: Floats, weights: Floats, residual: Residual) -> Floats:
    own = (y @ weights.T).var(axis=0, ddof=1) / len(y) if len(y) > 1 else 0.0
    errors: Floats = np.sqrt(np.maximum(own, residual.variance * (weights**2).sum(axis=1)))
    return errors


@lru_cache(maxsize=4)
def _explained(levels: Levels) -> Floats:
    """Return an orthonormal basis `[N, ...]` of a constant, main effects and interactions."""
    single = [(i,) for i in range(len(levels[0]))]
    pairs = [group.pairs[0] for group in _aliases(levels)]
    return _products(levels, [(), *single, *pairs]) / math.sqrt(len(levels))


def _residual(y: Floats, means: Floats, kept: Floats) -> Residual:
    n, settings = y.shape
    unused = settings - kept.shape[1]
    unexplained: list[tuple[float, float, bool]] = []
    if n > 1:
        own = y - y.mean(axis=1, keepdims=True) - means + means.mean()
        each = (own**2).sum(axis=0) / (n - 1)  # of a variant
        variance = float(each.sum()) / (settings - 1) / n
        unexplained.append((variance, _freedom(each, n), False))
    if n and unused >= FEWEST_UNUSED:
        left = means - kept @ (kept.T @ means)
        unexplained.append((float(left @ left) / unused, unused, True))
    return Residual(*max(unexplained, default=(NAN, 0.0, False)), n)


def _freedom(variances: Floats, n: int) -> float:
    """Return the degrees of freedom of a sum of variances `[N]` of n numbers (Satterthwaite 1946).

    The unbiased estimate of a squared variance is (n - 1) / (n + 1) times the squared estimate.
    """
    most, squares = float((n - 1) * (len(variances) - 1)), float((variances**2).sum())
    if not squares:
        return most
    return min(max((n + 1) * float(variances.sum()) ** 2 / squares, n - 1.0), most)


def _judged(
    y: Floats, weights: Floats, residual: Residual, rounding: float, level: float
) -> Difference:
    """Return a weighted sum of the variants' means with its interval; scores are `[n, N]`."""
    n = residual.seeds
    estimate = float(weights @ y.mean(axis=0)) if n else NAN
    (error,) = _errors(y, weights[None], residual)
    if not math.isfinite(estimate) or not error > rounding:  # NaN, or all seeds are equal
        return Difference(n, estimate if math.isfinite(estimate) else NAN)
    return by_student(n, estimate, float(error), residual.freedom, level)
