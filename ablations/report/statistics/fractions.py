"""Fractions of a factorial: what is aliased with what, and effects with the error of a fraction.

A setting (one variant) is run with each of n seeds, which are blocks. A contrast of N settings has
two errors: the runs' own, which more seeds make smaller, and what interactions of three and more
factors add to it, the same in every seed. The first is seen between seeds; the second in what
main effects and interactions of two leave of the settings' means.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.distributions import student_quantile
from ablations.report.statistics.effects import Design, meet_equally, over_tasks
from ablations.report.statistics.paired import Comparison
from ablations.report.statistics.summaries import LEVEL, Floats

FEWEST_UNUSED = 5  # contrasts that tell a lack of fit; of fewer Student's quantiles are huge


@dataclass(frozen=True)
class Alias:
    """Interactions of two factors that a fraction cannot tell apart: it sees their signed sum.

    pairs: places of two factors each. signs: 1 or -1, the first 1.
    """

    pairs: tuple[tuple[int, int], ...]
    signs: tuple[int, ...]


@dataclass(frozen=True)
class Contrast:
    """An effect that a fraction estimates.

    of: the place of a factor and of its level, or interactions that are aliased. comparison: of
    the effect, with n seeds; its deviation is the standard error times the root of n.
    """

    of: tuple[int, int] | Alias
    comparison: Comparison


@dataclass(frozen=True)
class Residual:
    """The residual on which the intervals of a fraction rest.

    variance: of a setting's mean over the seeds, NaN where nothing tells it. freedom: its degrees.
    lacks_fit: it is that of the settings' means about the effects, which is the larger, and not
    that between seeds. seeds: their number. unused: contrasts that tell a lack of fit.
    """

    variance: float
    freedom: float
    lacks_fit: bool
    seeds: int
    unused: int


def resolution(factorial: Design) -> int:
    """Return the fewest factors whose levels do not meet equally often.

    In a fraction of resolution IV main effects are aliased with interactions of three, and those
    of two with each other (Box and Hunter 1961, "The 2^(k-p) fractional factorial designs").
    """
    columns = list(zip(*factorial.variants.values(), strict=True))
    return next(k for k in itertools.count(2) if not meet_equally(columns, k))


def aliases(factorial: Design) -> list[Alias] | None:
    """Group the interactions of two factors by what is aliased.

    None where a factor has more than two levels, or interactions are aliased in part.
    """
    return _aliases(_places(factorial)) if set(factorial.shape) == {2} else None


@lru_cache(maxsize=4)
def _aliases(places: _Places) -> list[Alias] | None:
    columns = _signs(places)
    groups: dict[bytes, list[tuple[tuple[int, int], int]]] = {}
    products = []
    for pair in itertools.combinations(range(columns.shape[1]), 2):
        product = columns[:, pair[0]] * columns[:, pair[1]]
        sign = int(product[0])
        group = groups.setdefault((sign * product).tobytes(), [])
        if not group:
            products.append(product)
        group.append((pair, sign))
    together = np.array(products)
    if np.count_nonzero(together @ together.T) > len(together):
        return None
    return [
        Alias(tuple(pair for pair, _ in group), tuple(sign * group[0][1] for _, sign in group))
        for group in groups.values()
    ]


def fraction_effects(
    scores: ArrayLike, factorial: Design, level: float = LEVEL
) -> tuple[list[Contrast], list[Contrast], Residual]:
    """Estimate the main effects and the aliased interactions of a fraction.

    A main effect is the mean of the settings with a level minus that of those at the reference; an
    interaction of two what both do beyond the sum of each. The variance of a run is pooled over
    all contrasts, `(n - 1) (N - 1)` degrees of freedom: where runs are independent given their
    seed, contrasts of an orthogonal array have one variance, however the settings differ in
    theirs; Satterthwaite's approximation counts the degrees by how they differ. Where what the
    model leaves of the settings' means has the larger mean square, that is the variance, with its
    own degrees: a lack of fit. With one seed that is all there is; no interval where it has fewer
    than `FEWEST_UNUSED` degrees. A contrast that differs more between seeds has its own variance,
    as a detail may act on some seeds alone; the degrees stay those of the pool.

    Args:
        scores: `[n, N]`, a row per seed and the settings in the order of the design, or
            `[tasks, n, N]`, of which the means over tasks are judged.
        factorial: the design.
        level: shared by the main effects, and as much by the interactions (Bonferroni).

    Returns:
        Main effects, aliased interactions, and the variance that they rest on.
    """
    y, rounding = over_tasks(scores, factorial)
    groups = aliases(factorial) or []
    means = y.mean(axis=0) if len(y) else np.full(y.shape[1], np.nan)
    residual = _residual(y, means, _explained(_places(factorial)))

    def contrast(of: tuple[int, int] | Alias, weights: Floats, share: int) -> Contrast:
        return Contrast(of, _judged(y, weights, residual, rounding, level / share))

    changes = _changes(factorial)
    mains = [
        contrast(change, weights, max(1, len(changes)))
        for change, weights in zip(changes, _weights(factorial), strict=True)
    ]
    signs = _signs(_places(factorial))
    products = (signs[:, group.pairs[0]].prod(axis=1) for group in groups)
    together = [
        contrast(group, 4 * product / len(signs), len(groups))
        for group, product in zip(groups, products, strict=True)
    ]
    return mains, together, residual


def dummy_details(scores: ArrayLike, factorial: Design, splits: int) -> Floats:
    """Judge details that change nothing, at the counts of a fraction and as its details are.

    In each setting one half of the seeds is called changed. That and its product with each detail
    are dummy details, with as many runs on a side as a detail has. The first split is the first
    half of the seeds against the last, the others are by lot; an odd seed is left out.

    Args:
        scores: as of `fraction_effects`, of two seeds or more.
        factorial: the design.
        splits: how many by lot, whose dummy details share the 5%.

    Returns:
        Estimates and the ends of their intervals `[1 + splits, 1 + details, 3]`, the split itself
        first; NaN where nothing tells the error.
    """
    y, _ = over_tasks(scores, factorial)
    both = np.full((1, y.shape[1]), 2 / y.shape[1])
    weights = np.concatenate([both, _weights(factorial)])
    kept, half = _explained(_places(factorial)), len(y) // 2
    random = np.random.default_rng(0)
    orders = itertools.chain([y[: 2 * half]], (random.permuted(y, axis=0) for _ in range(splits)))
    judged = np.full((1 + splits, len(weights), 3), np.nan)
    for split, order in enumerate(orders):
        changed = (order[:half] - order[half : 2 * half]) / 2
        means = changed.mean(axis=0)
        residual = _residual(changed, means, kept)
        if not math.isnan(residual.variance):
            reach = -student_quantile(residual.freedom, LEVEL / len(weights) / 2)
            errors = reach * _errors(changed, weights, residual)
            estimates = weights @ means
            judged[split] = np.stack([estimates, estimates - errors, estimates + errors], axis=1)
    return judged


def unused_columns(factorial: Design) -> list[tuple[int, ...]]:
    """Return the columns of a fraction that neither a factor nor two have, as products of three.

    Their effects are sums of interactions of three factors and more. [] where a factor has more
    than two levels.
    """
    if set(factorial.shape) != {2}:
        return []
    signs, kept = _signs(_places(factorial)), _explained(_places(factorial))
    taken: list[NDArray[np.int64]] = []
    names: list[tuple[int, ...]] = []
    for of in itertools.combinations(range(signs.shape[1]), 3):
        column = signs[:, of].prod(axis=1)
        if np.abs(column @ kept).max() < 1e-6 and not any(column @ other for other in taken):
            taken.append(column)
            names.append(of)
    return names


def unused_effects(
    scores: ArrayLike, factorial: Design
) -> list[tuple[tuple[int, ...], Comparison]]:
    """Judge each unused column as a detail is, but by the error that the other columns leave.

    Args:
        scores: as of `fraction_effects`.
        factorial: the design, whose main effects share the 5%.
    """
    y, rounding = over_tasks(scores, factorial)
    means, settings = y.mean(axis=0), y.shape[1]
    places = _places(factorial)
    judged = []
    for of in unused_columns(factorial):
        column = _signs(places)[:, of].prod(axis=1)
        kept = np.column_stack([_explained(places), column / math.sqrt(settings)])
        share = LEVEL / max(1, len(_changes(factorial)))
        residual = _residual(y, means, kept)
        judged.append((of, _judged(y, 2 * column / settings, residual, rounding, share)))
    return judged


_Places = tuple[tuple[int, ...], ...]  # the levels of each setting


def _places(factorial: Design) -> _Places:
    return tuple(factorial.variants.values())


def _signs(places: _Places) -> NDArray[np.int64]:
    """Return levels `[N, factors]` as -1, the reference, and 1."""
    return 2 * (np.array(places) > 0).astype(np.int64) - 1


def _changes(factorial: Design) -> list[tuple[int, int]]:
    """Return the place of each factor with each of its levels but the reference."""
    return [(i, k) for i, levels in enumerate(factorial.shape) for k in range(1, levels)]


def _weights(factorial: Design) -> Floats:
    """Return the weights `[changes, N]` of the settings in main effects."""
    places, changes = np.array(_places(factorial)), _changes(factorial)
    columns = [_share(places[:, i] == k) - _share(places[:, i] == 0) for i, k in changes]
    return np.array(columns).reshape(len(changes), len(places))


def _errors(y: Floats, weights: Floats, residual: Residual) -> Floats:
    """Return the standard errors `[contrasts]` of weighted sums of the settings' means."""
    own = (y @ weights.T).var(axis=0, ddof=1) / len(y) if len(y) > 1 else 0.0
    errors: Floats = np.sqrt(np.maximum(own, residual.variance * (weights**2).sum(axis=1)))
    return errors


def _share(chosen: NDArray[np.bool_]) -> Floats:
    return chosen / max(1.0, float(np.count_nonzero(chosen)))


@lru_cache(maxsize=4)
def _explained(places: _Places) -> Floats:
    """Compute an orthonormal basis `[N, ...]` of what a model of two factors at a time explains.

    The model has a constant, the main effects and the interactions of two.
    """
    if np.max(places) == 1 and (groups := _aliases(places)) is not None:
        signs = _signs(places)
        products = [signs[:, group.pairs[0]].prod(axis=1) for group in groups]
        columns = np.column_stack([np.ones(len(places)), signs, *products])
        # To the last bit, on any number of threads.
        if np.count_nonzero(columns.T @ columns) == columns.shape[1]:
            return columns / math.sqrt(len(places))
    mains = [[np.array(of) == k for k in range(1, 1 + max(of))] for of in zip(*places, strict=True)]
    both = [
        a & b
        for first, second in itertools.combinations(mains, 2)
        for a, b in itertools.product(first, second)
    ]
    constant = np.ones(len(places), bool)
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
    return Residual(*max(unexplained, default=(math.nan, 0.0, False)), n, unused)


def _freedom(variances: Floats, n: int) -> float:
    """Return the degrees of freedom of a sum of variances `[N]` of n numbers (Satterthwaite 1946).

    The square of a variance is estimated without bias by (n - 1) / (n + 1) times that of the
    estimate.
    """
    squares = float((variances**2).sum())
    if not squares:
        return float((n - 1) * (len(variances) - 1))
    several = (n + 1) * float(variances.sum()) ** 2 / squares
    return min(max(several, n - 1.0), float((n - 1) * (len(variances) - 1)))


def _judged(
    y: Floats, weights: Floats, residual: Residual, rounding: float, level: float
) -> Comparison:
    """Judge a weighted sum of the settings' means of scores `[n, N]`."""
    n = residual.seeds
    estimate = float(weights @ y.mean(axis=0)) if n else math.nan
    (error,) = _errors(y, weights[None], residual)
    if not math.isfinite(estimate):
        return Comparison(n, level=level)
    if not error > rounding:  # NaN, or all seeds say the same
        return Comparison(n, estimate, level=level)
    return Comparison.by_student(n, estimate, float(error), residual.freedom, level)


def letters(count: int) -> Sequence[str]:
    """Name factors: "A" to "Z" without "I", which is the mean; then "A1" and so on."""
    alphabet = [chr(code) for code in range(ord("A"), ord("Z") + 1) if chr(code) != "I"]
    names = (f"{letter}{k or ''}" for k in itertools.count() for letter in alphabet)
    return tuple(itertools.islice(names, count))
