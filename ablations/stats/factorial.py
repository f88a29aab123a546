"""Factorial designs: main effects and interactions of settings, paired by seed.

In a fractional factorial each of N variants is trained with each of n seeds, which are blocks. A
contrast of the variants has two errors. The error of the runs shows between seeds, and falls with
more seeds. The error by interactions of three or more factors is the same in every seed; it shows
in the variants' means as the residual of a model of main effects and two-factor interactions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ablations.errors import value_text
from ablations.stats.differences import Difference, by_student, of_differences, rounding_of
from ablations.stats.summaries import LEVEL, NAN, Floats

FEWEST_UNUSED = 5  # contrasts needed to estimate a lack of fit; with fewer, t quantiles are huge

Alias = dict[tuple[int, int], int]  # two factors -> the sign of their interaction; the first is 1
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
        return tuple(map(len, self.factors.values()))

    @property
    def full(self) -> bool:
        """Whether every combination of levels has a variant."""
        return len(self.variants) == math.prod(self.shape)

    @property
    def columns(self) -> list[tuple[int, ...]]:
        """For each factor its level in each variant."""
        return list(zip(*self.variants.values(), strict=True))

    def products(self, factors: Sequence[tuple[int, ...]]) -> Floats:
        """Return products of factors as rows `[len(factors), N]`, with -1 for the reference."""
        signs = 2.0 * np.array(self.columns) - 1
        products = [signs[list(several)].prod(axis=0) for several in factors]
        return np.array(products).reshape(-1, len(self.variants))


def design(sets: Mapping[str, Mapping[str, Any]], baseline: str) -> Design | None:
    """Return the full or fractional factorial that variants form, or None.

    Settings that always change together are one factor. Two settings whose combinations do not all
    occur are joined to one factor if this makes a factorial; its levels are the combinations that
    occur. A setting that a variant does not set is at its default.

    Args:
        sets: variant -> its settings.
        baseline: its levels are the references.
    """
    order = sorted(sets, key=lambda variant: variant != baseline)
    columns: _Columns = {}
    texts: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for settings in sets.values() for name in settings):
        values = [value_text(sets[v][name]) if name in sets[v] else "default" for v in order]
        if len(set(values)) > 1:
            columns.setdefault(_levels(values), []).append(name)
            texts[name] = values
    if len(set(zip(*columns, strict=True))) != len(order):
        return None
    full = next((each for each in _joined(columns) if _combinations(each) == len(order)), None)
    if full is None and _is_fraction(list(columns)):
        full = columns
    if full is None or len(full) < 2:
        return None
    factors = {
        ", ".join(names): tuple(
            dict.fromkeys(map(", ".join, zip(*(texts[name] for name in names), strict=True)))
        )
        for names in full.values()
    }
    return Design(factors, dict(zip(order, zip(*full, strict=True), strict=True)))


def _levels(values: Sequence[Any]) -> tuple[int, ...]:
    """Return the number of each value, in order of appearance."""
    levels = {value: level for level, value in enumerate(dict.fromkeys(values))}
    return tuple(levels[value] for value in values)


def _joined(columns: _Columns) -> Iterator[_Columns]:
    """Yield the factors, then the factors with each pair of them joined to one."""
    yield columns
    for first, second in itertools.combinations(columns, 2):
        joint = _levels(list(zip(first, second, strict=True)))
        names = {**columns, first: columns[first] + columns[second]}
        yield {joint if c == first else c: names[c] for c in columns if c != second}


def _combinations(columns: Iterable[tuple[int, ...]]) -> int:
    return math.prod(1 + max(column) for column in columns)


def _is_fraction(columns: Sequence[tuple[int, ...]]) -> bool:
    if len(columns) < 4:
        return False
    signs = 2 * np.array(columns) - 1
    both = np.array([a * b for a, b in itertools.combinations(signs, 2)])
    # If not all of these sums are 0, an interaction of two could look like a main effect, or a
    # factor has three levels. Other products than 0 and N are interactions aliased in part.
    products = {*np.unique(np.abs(both @ both.T)).tolist()}
    return not (both @ signs.T).any() and products <= {0, len(columns[0])}


def letters(count: int) -> tuple[str, ...]:
    """Return names of factors: "A" to "Z" without "I" (the mean), then "A1" and so on."""
    names = (f"{a}{k or ''}" for k in itertools.count() for a in "ABCDEFGHJKLMNOPQRSTUVWXYZ")
    return tuple(itertools.islice(names, count))


# Effects by seed


def contrasts(factorial: Design) -> dict[tuple[tuple[int, int], ...], Floats]:
    """Return main effects and two-factor interactions of a full design, as weights of variants.

    Main effect of level k of a factor: the mean of the variants with it minus the mean of the
    variants with the reference. Interaction of levels k and m of two factors: the mean of the
    variants with k and m, minus with m and the first reference, minus with k and the second
    reference, plus with both references.

    Returns:
        (factor, level) of a main effect or of both changes -> weights `[N]`.
    """
    columns, shape = np.array(factorial.columns), factorial.shape
    changes = [[(i, k) for k in range(1, levels)] for i, levels in enumerate(shape)]
    pairs = (itertools.product(*two) for two in itertools.combinations(changes, 2))

    def weights(of: Sequence[tuple[int, int]]) -> Floats:
        signs = [(columns[i] == k) * 1.0 - (columns[i] == 0) for i, k in of]
        others = math.prod(shape) / math.prod(shape[i] for i, _ in of)
        return np.asarray(np.prod(signs, axis=0) / others)

    mains = ((change,) for each in changes for change in each)
    return {of: weights(of) for of in (*mains, *itertools.chain(*pairs))}


def effect(scores: ArrayLike, weights: Floats, level: float = LEVEL) -> Difference:
    """Return a weighted sum of variants, with one number per seed.

    Args:
        scores: `[n, N]` with a row per seed and a column per variant of a design, or
            `[tasks, n, N]`, which are averaged over tasks.
        weights: of the variants `[N]`.
        level: of the interval.
    """
    y, rounding = _over_tasks(scores, len(weights))
    return of_differences(y @ weights, level, rounding)


def _over_tasks(scores: ArrayLike, variants: int) -> tuple[Floats, float]:
    y = np.asarray(scores, np.float64)
    if y.ndim not in (2, 3) or y.shape[-1] != variants:
        raise ValueError(f"scores need the shape [n, {variants}]: {y.shape}")
    return (y.mean(axis=0) if y.ndim == 3 else y), rounding_of(y)


# Fractions


class Residual(NamedTuple):
    """The residual variance that gives the intervals of a fraction.

    Attributes:
        variance: of a variant's mean over seeds; NaN if it cannot be estimated.
        freedom: its degrees of freedom.
        lacks_fit: whether it is the variance of the variants' means about the model, which is
            larger than the variance between seeds.
    """

    variance: float = NAN
    freedom: float = 0.0
    lacks_fit: bool = False


def aliases(factorial: Design) -> list[Alias]:
    """Return the groups of aliased two-factor interactions: a fraction shows their signed sums."""
    pairs = list(itertools.combinations(range(len(factorial.factors)), 2))
    groups: dict[bytes, Alias] = {}
    for pair, column in zip(pairs, factorial.products(pairs), strict=True):
        group = groups.setdefault((column[0] * column).tobytes(), {})
        group[pair] = int(column[0])
    return [{pair: s * next(iter(g.values())) for pair, s in g.items()} for g in groups.values()]


def fraction_effects(
    scores: ArrayLike, factorial: Design, level: float = LEVEL
) -> tuple[list[Difference], list[tuple[Alias, Difference]], Residual]:
    """Return the main effects and aliased interactions of a fraction, and the residual variance.

    A main effect is the mean of the variants with a factor's level minus the mean of the others; an
    interaction is defined as in `contrasts`. The sd of an effect is √n times its standard error,
    the largest of three. They are from

    * the variance between seeds, pooled over all contrasts, with (n - 1) (N - 1) degrees of freedom
      or fewer (Satterthwaite): in an orthogonal array all contrasts have the same variance if runs
      are independent given their seed, even if the variants' variances differ;
    * the residual of the model of the variants' means (a lack of fit) with its degrees of freedom,
      if they are at least `FEWEST_UNUSED`; one seed has no other;
    * the contrast's own variance between seeds, as a detail may act on some seeds only, with the
      degrees of freedom of the larger of the other two.

    Args:
        scores: as for `effect`.
        factorial: a fraction.
        level: shared by the main effects, and again by the interactions (Bonferroni).
    """
    y, rounding = _over_tasks(scores, len(factorial.variants))
    groups, single = aliases(factorial), [(i,) for i in range(len(factorial.factors))]
    residual = _residual(y, _explained(factorial))

    def judged(columns: Sequence[tuple[int, ...]], scale: float) -> list[Difference]:
        weights = scale * factorial.products(columns) / y.shape[1]
        return _judged(y, weights, residual, rounding, level / len(columns))

    together = judged([next(iter(group)) for group in groups], 4.0)
    return judged(single, 2.0), list(zip(groups, together, strict=True)), residual


def placebos(scores: ArrayLike, factorial: Design, splits: int) -> Floats:
    """Return placebo effects: details that change nothing, estimated like the real details.

    For each variant, half of its seeds are labelled as changed. This label and its products with
    each detail are placebos, with as many runs on each side as a detail has. The first split labels
    the first half of the seeds; further splits are random. With an odd number, a seed is not used.

    Args:
        scores: as for `effect`, of two or more seeds.
        factorial: the design.
        splits: number of random splits. The placebos of a split share the 5%.

    Returns:
        Estimates and the ends of their intervals `[1 + splits, 1 + details, 3]`, the label first.
        The ends are NaN without an estimate of the error.
    """
    y, rounding = _over_tasks(scores, len(factorial.variants))
    columns = [(), *((i,) for i in range(len(factorial.factors)))]
    weights = 2 * factorial.products(columns) / y.shape[1]
    kept, half, random = _explained(factorial), len(y) // 2, np.random.default_rng(0)
    judged = []
    for split in range(1 + splits):
        order = random.permuted(y, axis=0) if split else y
        changed = (order[:half] - order[half : 2 * half]) / 2
        residual, level = _residual(changed, kept), LEVEL / len(weights)
        effects = _judged(changed, weights, residual, rounding, level)
        judged.append([(each.difference, each.low, each.high) for each in effects])
    return np.array(judged)


def unused_columns(factorial: Design) -> Floats:
    """Return products of three factors that are orthogonal to all one- and two-factor effects.

    They are rows `[k, N]`. Their effects are sums of interactions of three or more factors.
    """
    threes = itertools.combinations(range(len(factorial.shape)), 3)
    columns = factorial.products([*threes])
    free = columns[np.abs(columns @ _explained(factorial)).max(axis=1) < 1e-6]
    taken: Floats = free[:0]
    for column in free:
        if not (taken @ column).any():
            taken = np.vstack([taken, column])
    return taken


def unused_effects(scores: ArrayLike, factorial: Design) -> list[Difference]:
    """Estimate the effect of each unused column like a detail's, with the other columns' error."""
    y, rounding = _over_tasks(scores, len(factorial.variants))
    level, basis = LEVEL / len(factorial.factors), _explained(factorial)
    judged: list[Difference] = []
    for column in unused_columns(factorial):
        residual = _residual(y, np.column_stack([basis, column / math.sqrt(len(column))]))
        judged += _judged(y, 2 * column[None] / len(column), residual, rounding, level)
    return judged


def _explained(factorial: Design) -> Floats:
    """Return an orthonormal basis `[N, ...]` of a constant, main effects and interactions."""
    single = [(i,) for i in range(len(factorial.factors))]
    pairs = [next(iter(group)) for group in aliases(factorial)]
    return factorial.products([(), *single, *pairs]).T / math.sqrt(len(factorial.variants))


def _residual(y: Floats, kept: Floats) -> Residual:
    n, variants = y.shape
    unused = variants - kept.shape[1]
    means = y.mean(axis=0) if n else y.sum(axis=0)
    residuals: list[Residual] = []
    if n > 1:
        own = y - y.mean(axis=1, keepdims=True) - means + means.mean()
        each = (own**2).sum(axis=0) / (n - 1)  # of a variant
        variance = float(each.sum()) / (variants - 1) / n
        residuals.append(Residual(variance, _freedom(each, n)))
    if n and unused >= FEWEST_UNUSED:
        left = means - kept @ (kept.T @ means)
        residuals.append(Residual(float(left @ left) / unused, unused, lacks_fit=True))
    return max(residuals, default=Residual())


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
) -> list[Difference]:
    """Return weighted sums `[k, N]` of the variants' means with their intervals."""
    n = len(y)
    if not n:
        return [Difference(0)] * len(weights)
    own = (y @ weights.T).var(axis=0, ddof=1) / n if n > 1 else 0.0
    errors = np.sqrt(np.maximum(own, residual.variance * (weights**2).sum(axis=1)))
    effects = zip((weights @ y.mean(axis=0)).tolist(), errors.tolist(), strict=True)
    return [
        by_student(n, estimate, error, residual.freedom, level)
        if error > rounding
        else Difference(n, estimate)  # all seeds are equal, or the error is unknown
        for estimate, error in effects
    ]
