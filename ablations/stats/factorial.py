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

    A fraction is an orthogonal array of strength 3: all level combinations of any three factors
    occur equally often.

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

    @property
    def changes(self) -> list[tuple[int, int]]:
        """Pairs of a factor's index and the index of a level other than the reference."""
        return [(i, k) for i, levels in enumerate(self.shape) for k in range(1, levels)]


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
    # With strength below 3, a two-factor interaction could look like a main effect.
    if full is None and len(columns) > 3 and meet_equally(list(columns), 3):
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
        difference: the contrast, in units of the scores. In a fraction, its sd is √n times the
            standard error.
    """

    factors: tuple[str, ...]
    levels: tuple[str, ...]
    difference: Difference


def effects(scores: ArrayLike, factorial: Design, level: float = LEVEL) -> list[Effect]:
    """Return main effects and two-factor interactions, each with one number per seed.

    Main effect of level k of a factor: the mean of the variants with it minus the mean of the
    variants with the reference. Interaction of levels k and m of two factors: the mean of the
    variants with k and m, minus with m and the first reference, minus with k and the second
    reference, plus with both references. A fraction has no interactions, as they are aliased.

    Args:
        scores: `[n, variants]` with a row per seed and the variants in the order of the design, or
            `[tasks, n, variants]`, which are averaged over tasks.
        factorial: the design.
        level: of each interval.
    """
    y, rounding = _over_tasks(scores, factorial)
    chosen, changes = np.array(factorial.levels), factorial.changes

    def mean_of(*levels: tuple[int, int]) -> Floats:
        return _share(np.all([chosen[:, i] == k for i, k in levels], axis=0))

    contrasts: dict[tuple[tuple[int, int], ...], Floats] = {
        (change,): mean_of(change) - mean_of((change[0], 0)) for change in changes
    }
    pairs = [(a, b) for a, b in itertools.combinations(changes, 2) if a[0] != b[0]]
    for a, b in sorted(pairs, key=lambda pair: (pair[0][0], pair[1][0])) if factorial.full else ():
        i, j = (a[0], 0), (b[0], 0)
        contrasts[a, b] = mean_of(a, b) - mean_of(i, b) - mean_of(a, j) + mean_of(i, j)
    return [
        _effect(factorial, changes, of_differences(y @ weights, level, rounding))
        for changes, weights in contrasts.items()
    ]


def _effect(
    factorial: Design, changes: tuple[tuple[int, int], ...], difference: Difference
) -> Effect:
    names, levels = list(factorial.factors), list(factorial.factors.values())
    factors = tuple(names[i] for i, _ in changes)
    return Effect(factors, tuple(levels[i][k] for i, k in changes), difference)


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
        unused: number of contrasts that show a lack of fit.
    """

    variance: float
    freedom: float
    lacks_fit: bool
    seeds: int
    unused: int


def aliases(factorial: Design) -> list[Alias] | None:
    """Return the groups of aliased two-factor interactions.

    None if a factor has more than two levels, or if interactions are partially aliased.
    """
    return _aliases(factorial.levels) if set(factorial.shape) == {2} else None


@lru_cache(maxsize=4)
def _aliases(levels: Levels) -> list[Alias] | None:
    pairs = list(itertools.combinations(range(len(levels[0])), 2))
    products = _products(levels, pairs)
    signs = products[0]
    groups: dict[bytes, list[int]] = {}
    for index, column in enumerate((signs * products).T):
        groups.setdefault(column.tobytes(), []).append(index)
    columns = products[:, [first for first, *_ in groups.values()]]
    if np.count_nonzero(columns.T @ columns) > columns.shape[1]:
        return None
    return [
        Alias(tuple(pairs[i] for i in group), tuple(int(signs[i] * signs[group[0]]) for i in group))
        for group in groups.values()
    ]


def fraction_effects(
    scores: ArrayLike, factorial: Design, level: float = LEVEL
) -> tuple[list[Effect], list[tuple[Alias, Difference]], Residual]:
    """Return the main effects and aliased interactions of a fraction, and the residual variance.

    Effects are defined as in `effects`. The variance of a run is pooled over all contrasts, with
    (n - 1) (N - 1) degrees of freedom. If runs are independent given their seed, all contrasts of
    an orthogonal array have the same variance, even if the variants' variances differ;
    Satterthwaite's approximation then reduces the degrees of freedom. If the residual of the model
    of the variants' means has a larger mean square (a lack of fit), this is used with its own
    degrees of freedom. It is the only estimate with one seed; with fewer than `FEWEST_UNUSED`
    degrees of freedom there is no interval. A contrast that varies more between seeds has its own
    variance, as a detail may act on some seeds only, with the pooled degrees of freedom.

    Args:
        scores: as for `effects`.
        factorial: the design.
        level: shared by the main effects, and again by the interactions (Bonferroni).
    """
    y, rounding = _over_tasks(scores, factorial)
    groups, changes = aliases(factorial) or [], factorial.changes
    means = y.mean(axis=0) if len(y) else np.full(y.shape[1], NAN)
    residual = _residual(y, means, _explained(factorial.levels))
    mains = [
        _effect(factorial, (change,), _judged(y, weights, residual, rounding, level / len(changes)))
        for change, weights in zip(changes, _weights(factorial), strict=True)
    ]
    products = 4 * _products(factorial.levels, [group.pairs[0] for group in groups]) / y.shape[1]
    together = [
        (group, _judged(y, weights, residual, rounding, level / len(groups)))
        for group, weights in zip(groups, products.T, strict=True)
    ]
    return mains, together, residual


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
    weights = np.concatenate([np.full((1, y.shape[1]), 2 / y.shape[1]), _weights(factorial)])
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

    Their effects are sums of interactions of three or more factors. The list is empty if a factor
    has more than two levels.
    """
    if set(factorial.shape) != {2}:
        return []
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
    level, basis = LEVEL / max(1, len(factorial.changes)), _explained(factorial.levels)
    judged = []
    for three in unused_columns(factorial):
        column = _products(factorial.levels, [three]) / y.shape[1]
        kept = np.column_stack([basis, column * math.sqrt(y.shape[1])])
        residual = _residual(y, y.mean(axis=0), kept)
        judged.append((three, _judged(y, 2 * column[:, 0], residual, rounding, level)))
    return judged


def _products(levels: Levels, columns: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Return products `[N, columns]` of factors, with -1 for the reference level."""
    signs = 2 * (np.array(levels) > 0).astype(np.int64) - 1
    products = [signs[:, factors].prod(axis=1) for factors in columns]
    return np.array(products).reshape(-1, len(signs)).T


def _weights(factorial: Design) -> Floats:
    levels, changes = np.array(factorial.levels), factorial.changes
    columns = [_share(levels[:, i] == k) - _share(levels[:, i] == 0) for i, k in changes]
    return np.array(columns).reshape(len(changes), len(levels))


def _share(chosen: NDArray[np.bool_]) -> Floats:
    return chosen / max(1.0, float(np.count_nonzero(chosen)))


def _errors(y: Floats, weights: Floats, residual: Residual) -> Floats:
    own = (y @ weights.T).var(axis=0, ddof=1) / len(y) if len(y) > 1 else 0.0
    errors: Floats = np.sqrt(np.maximum(own, residual.variance * (weights**2).sum(axis=1)))
    return errors


@lru_cache(maxsize=4)
def _explained(levels: Levels) -> Floats:
    """Return an orthonormal basis `[N, ...]` of a constant, main effects and interactions."""
    if np.max(levels) == 1 and (groups := _aliases(levels)) is not None:
        single = [(i,) for i in range(len(levels[0]))]
        columns = _products(levels, [(), *single, *(group.pairs[0] for group in groups)])
        # This branch gives the same bits on any number of threads.
        if np.count_nonzero(columns.T @ columns) == columns.shape[1]:
            return columns / math.sqrt(len(levels))
    factors = zip(*levels, strict=True)
    mains = [[np.array(factor) == k for k in range(1, 1 + max(factor))] for factor in factors]
    both = [
        a & b
        for first, second in itertools.combinations(mains, 2)
        for a, b in itertools.product(first, second)
    ]
    constant = np.ones(len(levels), bool)
    model = np.array([constant, *itertools.chain(*mains), *both]).T.astype(np.float64)
    sizes, basis = np.linalg.eigh(model @ model.T)
    return basis[:, sizes > 1e-9 * sizes[-1]]


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
    return Residual(*max(unexplained, default=(NAN, 0.0, False)), n, unused)


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
