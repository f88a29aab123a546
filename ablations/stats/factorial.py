"""Factorial studies: main effects and interactions of what the variants set, paired by seed.

In a fraction of a factorial a setting (one variant) is run with each of n seeds, which are blocks.
A contrast of N settings has two errors: the runs' own, which more seeds make smaller, and what
interactions of three and more factors add to it, the same in every seed. The first shows between
seeds; the second in what main effects and interactions of two leave of the settings' means.
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

FEWEST_UNUSED = 5  # contrasts that show a lack of fit; of fewer Student's quantiles are huge

Levels = tuple[tuple[int, ...], ...]  # the level of each factor, by setting
_Columns = dict[tuple[int, ...], list[str]]  # the level of each variant -> settings of those levels


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
        """Whether every combination of levels is there."""
        return len(self.variants) == math.prod(self.shape)

    @property
    def levels(self) -> Levels:
        """The index of each variant's level of each factor."""
        return tuple(self.variants.values())

    @property
    def changes(self) -> list[tuple[int, int]]:
        """The index of each factor with each of its levels but the reference."""
        return [(i, k) for i, levels in enumerate(self.shape) for k in range(1, levels)]


def design(sets: Mapping[str, Mapping[str, Any]], baseline: str) -> Design | None:
    """Find the factorial that variants form, or a fraction of one; else None.

    Settings that change together are one factor, and so are two of which not every combination is
    there, if that makes a factorial: its levels are those that are. A setting that a variant leaves
    out is at its default.

    sets: variant -> what it sets. The levels of the baseline come first.
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
    # Else an interaction of two could pass for a main effect.
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
    """Yield the factors as they are; then each two of them as one.

    Its levels are the combinations that are there, in order of appearance.
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
    """Return whether all levels of every so many factors meet, and equally often.

    columns: the level of each variant, of each factor. False where there are fewer factors.
    """
    for together in itertools.combinations(columns, several):
        met = Counter(zip(*together, strict=True))
        combinations = math.prod(1 + max(column) for column in together)
        if len(met) != combinations or len(set(met.values())) > 1:
            return False
    return several <= len(columns)


def resolution(factorial: Design) -> int:
    """Return the fewest factors whose levels do not meet equally often.

    In a fraction of resolution IV main effects are aliased with interactions of three, and those
    of two with each other (Box and Hunter 1961, "The 2^(k-p) fractional factorial designs").
    """
    columns = list(zip(*factorial.levels, strict=True))
    return next(k for k in itertools.count(2) if not meet_equally(columns, k))


def letters(count: int) -> tuple[str, ...]:
    """Name factors: "A" to "Z" without "I", which is the mean; then "A1" and so on."""
    names = (f"{a}{k or ''}" for k in itertools.count() for a in "ABCDEFGHJKLMNOPQRSTUVWXYZ")
    return tuple(itertools.islice(names, count))


# Effects by seed


@dataclass(frozen=True)
class Effect:
    """The effect of a factor's level, or of two levels together beyond their sum.

    factors, levels: one name each for a main effect, two for an interaction. difference: of the
    contrast, in the units of the scores; of a fraction its sd is the standard error times √n.
    """

    factors: tuple[str, ...]
    levels: tuple[str, ...]
    difference: Difference


def effects(scores: ArrayLike, factorial: Design, level: float = LEVEL) -> list[Effect]:
    """Judge main effects and two-way interactions, each by one number per seed.

    Main effect of level k of a factor: the mean of the variants with it, minus that of those at the
    reference. Interaction of k and m of two factors: means of the variants with both, minus with m
    and the first reference, minus with k and the second, plus with both references. A fraction
    cannot tell interactions of two from each other, so there are none; a main effect there includes
    interactions of three.

    scores: `[n, variants]`, a row per seed and the variants in the order of the design; or
    `[tasks, n, variants]`, of which the means over tasks are judged. level: of each interval.
    """
    y, rounding = _over_tasks(scores, factorial)
    chosen, changes = np.array(factorial.levels), factorial.changes

    def at(*where: tuple[int, int]) -> Floats:
        return _share(np.all([chosen[:, i] == k for i, k in where], axis=0))

    contrasts: dict[tuple[tuple[int, int], ...], Floats] = {
        (change,): at(change) - at((change[0], 0)) for change in changes
    }
    pairs = [(a, b) for a, b in itertools.combinations(changes, 2) if a[0] != b[0]]
    for a, b in sorted(pairs, key=lambda pair: (pair[0][0], pair[1][0])) if factorial.full else ():
        i, j = (a[0], 0), (b[0], 0)
        contrasts[a, b] = at(a, b) - at(i, b) - at(a, j) + at(i, j)
    return [
        _effect(factorial, of, of_differences(y @ weights, level, rounding))
        for of, weights in contrasts.items()
    ]


def _effect(factorial: Design, of: tuple[tuple[int, int], ...], difference: Difference) -> Effect:
    names, levels = list(factorial.factors), list(factorial.factors.values())
    return Effect(tuple(names[i] for i, _ in of), tuple(levels[i][k] for i, k in of), difference)


def _over_tasks(scores: ArrayLike, factorial: Design) -> tuple[Floats, float]:
    """Return scores `[n, variants]`, means over tasks, and up to which difference they are equal.

    Raises:
        ValueError: another shape.
    """
    y = np.asarray(scores, np.float64)
    if y.ndim not in (2, 3) or y.shape[-1] != len(factorial.variants):
        raise ValueError(f"scores need the shape [n, {len(factorial.variants)}]: {y.shape}")
    return (y.mean(axis=0) if y.ndim == 3 else y), rounding_of(y)


# Fractions


@dataclass(frozen=True)
class Alias:
    """Interactions of two factors that a fraction cannot tell apart: it shows their signed sum.

    pairs: the indices of two factors each. signs: 1 or -1, the first 1.
    """

    pairs: tuple[tuple[int, int], ...]
    signs: tuple[int, ...]


@dataclass(frozen=True)
class Residual:
    """The residual on which the intervals of a fraction rest.

    variance: of a setting's mean over the seeds, NaN where nothing tells it. freedom: its degrees.
    lacks_fit: it is that of the settings' means about the effects, which is the larger, and not
    that between seeds. seeds: their number. unused: contrasts that show a lack of fit.
    """

    variance: float
    freedom: float
    lacks_fit: bool
    seeds: int
    unused: int


def aliases(factorial: Design) -> list[Alias] | None:
    """Group the interactions of two factors by what is aliased.

    None where a factor has more than two levels, or interactions are aliased in part.
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
    """Estimate the main effects and the aliased interactions of a fraction.

    Effects are those of `effects`. The variance of a run is pooled over all contrasts,
    `(n - 1) (N - 1)` degrees of freedom: where runs are independent given their seed, contrasts of
    an orthogonal array have one variance, however the settings differ in theirs; Satterthwaite's
    approximation counts the degrees by how they differ. Where what the model leaves of the
    settings' means has the larger mean square, that is the variance, with its own degrees: a lack
    of fit. With one seed that is all there is; no interval where it has fewer than `FEWEST_UNUSED`
    degrees. A contrast that differs more between seeds has its own variance, as a detail may act on
    some seeds alone; the degrees stay those of the pool.

    scores: as of `effects`. level: shared by the main effects, and as much by the interactions
    (Bonferroni). Returns main effects, aliased interactions, and the variance that they rest on.
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
    """Judge details that change nothing, at the counts of a fraction and as its details are.

    In each setting one half of the seeds is called changed. That and its product with each detail
    are placebos, with as many runs on a side as a detail has. The first split is the first half of
    the seeds against the last, the others are random; an odd seed is left out.

    scores: as of `effects`, of two seeds or more. splits: how many random ones, whose placebos
    share the 5%. Returns estimates and the ends of their intervals `[1 + splits, 1 + details, 3]`,
    the split itself first; NaN where nothing tells the error.
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
    """Return the columns of a fraction that neither a factor nor two have, as products of three.

    Their effects are sums of interactions of three factors and more. [] where a factor has more
    than two levels.
    """
    if set(factorial.shape) != {2}:
        return []
    threes = list(itertools.combinations(range(len(factorial.shape)), 3))
    columns = _products(factorial.levels, threes).T
    free = np.abs(columns @ _explained(factorial.levels)).max(axis=1) < 1e-6
    taken: dict[tuple[int, ...], NDArray[np.int64]] = {}
    for of, column in itertools.compress(zip(threes, columns, strict=True), free):
        if not any(column @ other for other in taken.values()):
            taken[of] = column
    return list(taken)


def unused_effects(
    scores: ArrayLike, factorial: Design
) -> list[tuple[tuple[int, ...], Difference]]:
    """Judge each unused column as a detail is, but by the error that the other columns leave."""
    y, rounding = _over_tasks(scores, factorial)
    level, basis = LEVEL / max(1, len(factorial.changes)), _explained(factorial.levels)
    judged = []
    for of in unused_columns(factorial):
        column = _products(factorial.levels, [of]) / y.shape[1]
        kept = np.column_stack([basis, column * math.sqrt(y.shape[1])])
        residual = _residual(y, y.mean(axis=0), kept)
        judged.append((of, _judged(y, 2 * column[:, 0], residual, rounding, level)))
    return judged


def _products(levels: Levels, columns: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Return products of factors, -1 for the reference and 1, `[N, columns]`."""
    signs = 2 * (np.array(levels) > 0).astype(np.int64) - 1
    return np.array([signs[:, of].prod(axis=1) for of in columns]).reshape(-1, len(signs)).T


def _weights(factorial: Design) -> Floats:
    """Return the weights `[changes, N]` of the settings in main effects."""
    levels, changes = np.array(factorial.levels), factorial.changes
    columns = [_share(levels[:, i] == k) - _share(levels[:, i] == 0) for i, k in changes]
    return np.array(columns).reshape(len(changes), len(levels))


def _share(chosen: NDArray[np.bool_]) -> Floats:
    return chosen / max(1.0, float(np.count_nonzero(chosen)))


def _errors(y: Floats, weights: Floats, residual: Residual) -> Floats:
    """Return the standard errors `[contrasts]` of weighted sums of the settings' means."""
    own = (y @ weights.T).var(axis=0, ddof=1) / len(y) if len(y) > 1 else 0.0
    errors: Floats = np.sqrt(np.maximum(own, residual.variance * (weights**2).sum(axis=1)))
    return errors


@lru_cache(maxsize=4)
def _explained(levels: Levels) -> Floats:
    """Compute an orthonormal basis `[N, ...]` of what a model of two factors at a time explains.

    The model has a constant, the main effects and the interactions of two.
    """
    if np.max(levels) == 1 and (groups := _aliases(levels)) is not None:
        single = [(i,) for i in range(len(levels[0]))]
        columns = _products(levels, [(), *single, *(group.pairs[0] for group in groups)])
        # To the last bit, on any number of threads.
        if np.count_nonzero(columns.T @ columns) == columns.shape[1]:
            return columns / math.sqrt(len(levels))
    mains = [[np.array(of) == k for k in range(1, 1 + max(of))] for of in zip(*levels, strict=True)]
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
        each = (own**2).sum(axis=0) / (n - 1)  # of a setting
        variance = float(each.sum()) / (settings - 1) / n
        unexplained.append((variance, _freedom(each, n), False))
    if n and unused >= FEWEST_UNUSED:
        left = means - kept @ (kept.T @ means)
        unexplained.append((float(left @ left) / unused, unused, True))
    return Residual(*max(unexplained, default=(NAN, 0.0, False)), n, unused)


def _freedom(variances: Floats, n: int) -> float:
    """Return the degrees of freedom of a sum of variances `[N]` of n numbers (Satterthwaite 1946).

    The square of a variance is estimated without bias by (n - 1) / (n + 1) times that of the
    estimate.
    """
    most, squares = float((n - 1) * (len(variances) - 1)), float((variances**2).sum())
    if not squares:
        return most
    return min(max((n + 1) * float(variances.sum()) ** 2 / squares, n - 1.0), most)


def _judged(
    y: Floats, weights: Floats, residual: Residual, rounding: float, level: float
) -> Difference:
    """Judge a weighted sum of the settings' means of scores `[n, N]`."""
    n = residual.seeds
    estimate = float(weights @ y.mean(axis=0)) if n else NAN
    (error,) = _errors(y, weights[None], residual)
    if not math.isfinite(estimate) or not error > rounding:  # NaN, or all seeds say the same
        return Difference(n, estimate if math.isfinite(estimate) else NAN)
    return by_student(n, estimate, float(error), residual.freedom, level)
