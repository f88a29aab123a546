"""Tests of a difference between new curves and a baseline's, exact at every number of seeds.

If nothing changed, new and old curves come from one distribution, and every way to deal the seeds
out to "new" and "old" was as likely as the one seen. So the share of deals that look at least as
bad is a p-value, whatever the returns look like (skewed, bimodal, at a ceiling), down to four
seeds. Seeds are dealt whole, with all their scores, and the worst score is what counts: that
corrects for several scores, and knows that they go together (Westfall & Young 1993, maxT).

What is dealt is a moderated t: each side's variance is pulled towards the pooled one with
`PRIOR_SEEDS` degrees of freedom (after Smyth 2004). The plain difference of means is as good where
nothing but the mean changes, but takes a wider spread for a loss; Welch's t has up to a fifth less
power at four seeds, where a variance of four numbers is hardly known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

PRIOR_SEEDS = 6
DEALS = 10_000
SEED = 20261
_BLOCK = 4_000


@dataclass(frozen=True)
class Evidence:
    """p-values, each of all scores together, and per score within that family.

    worse, better: that nothing changed, against a loss, a gain, in any score.
    not_lost: that any score has lost as much as `loss` says, against a smaller loss in all.
    worse_each, better_each: `[scores]`. not_lost_each: the same, of each score by itself: all must
    be shown, so none is corrected.
    """

    worse: float
    better: float
    worse_each: Floats
    better_each: Floats
    not_lost_each: Floats

    @property
    def not_lost(self) -> float:
        """The largest of the scores' own p-values."""
        return float(self.not_lost_each.max())


def unpaired(now: ArrayLike, baseline: ArrayLike, loss: ArrayLike, deals: int = DEALS) -> Evidence:
    """Test unpaired curves.

    now `[n, scores]`, baseline `[m, scores]`, loss `[scores]` above 0, in the scores' units.
    """
    ours, theirs = _columns(now), _columns(baseline)
    allowed = np.asarray(loss, np.float64)
    n, m = len(ours), len(theirs)
    blocks = lambda: _deals(n, m, deals)  # noqa: E731 - an iterator is used up
    as_seen = _deal_t(np.concatenate([ours, theirs]), n, blocks)
    # With the loss given back, new curves that lost just so much are like the old ones.
    given_back = _deal_t(np.concatenate([ours + allowed, theirs]), n, blocks)
    return Evidence(*_tails(as_seen), _each_above(given_back))


def paired(differences: ArrayLike, loss: ArrayLike, deals: int = DEALS) -> Evidence:
    """Test pairs. differences `[n, scores]`, new - baseline of one seed each: signs are dealt."""
    pairs, allowed = _columns(differences), np.asarray(loss, np.float64)
    given_back = _deal_signs(pairs + allowed, deals)
    return Evidence(*_tails(_deal_signs(pairs, deals)), _each_above(given_back))


def smallest_p(n: int, m: int | None) -> float:
    """Return the smallest p that n new seeds can give against m old ones; m None: paired."""
    return 0.5**n if m is None else 1 / math.comb(n + m, n)


Dealt = tuple[Floats, Floats]  # the statistic as seen, `[scores]`, and of each deal


def _columns(scores: ArrayLike) -> Floats:
    columns = np.asarray(scores, np.float64)
    return columns[:, None] if columns.ndim == 1 else columns


def _tails(dealt: Dealt) -> tuple[float, float, Floats, Floats]:
    seen, all_ = dealt
    lowest, highest = all_.min(axis=1), all_.max(axis=1)
    slack = 1e-9 * np.maximum(1.0, np.abs(seen))
    worse = np.array([_share(lowest <= t + s) for t, s in zip(seen, slack, strict=True)])
    better = np.array([_share(highest >= t - s) for t, s in zip(seen, slack, strict=True)])
    return float(worse.min()), float(better.min()), worse, better


def _each_above(dealt: Dealt) -> Floats:
    """Return the scores' own p-values `[scores]`."""
    seen, all_ = dealt
    slack = 1e-9 * np.maximum(1.0, np.abs(seen))
    columns = zip(all_.T, seen, slack, strict=True)
    return np.array([_share(column >= t - s) for column, t, s in columns])


def _share(at_least: NDArray[np.bool_]) -> float:
    """Return the share of the deals and the one seen, which is one of them."""
    return float((1 + np.count_nonzero(at_least)) / (1 + len(at_least)))


def _deal_t(scores: Floats, n: int, blocks: Callable[[], Iterator[Floats]]) -> Dealt:
    """Return the moderated t of the first n rows against the rest, and of every deal."""
    m = len(scores) - n
    centred = scores - scores.mean(axis=0)
    size = np.abs(centred).max(axis=0)
    centred = centred / np.where(size > 0, size, 1.0)
    total = (centred**2).sum(axis=0)

    def moderated(sums: Floats, squares: Floats) -> Floats:
        """Compute t by sums and sums of squares of new rows `[..., scores]`; all sum to 0."""
        ours, theirs = sums / n, -sums / m
        within_ours = np.maximum(squares - n * ours**2, 0.0)
        within_theirs = np.maximum(total - squares - m * theirs**2, 0.0)
        prior = PRIOR_SEEDS * (within_ours + within_theirs) / (n + m - 2)
        error = (within_ours + prior) / (n - 1 + PRIOR_SEEDS) / n + (within_theirs + prior) / (
            m - 1 + PRIOR_SEEDS
        ) / m
        ratio: Floats = (ours - theirs) / np.sqrt(np.maximum(error, 1e-24))
        return ratio

    seen = moderated(centred[:n].sum(axis=0), (centred[:n] ** 2).sum(axis=0))
    parts = [moderated(deal @ centred, deal @ centred**2) for deal in blocks()]
    return seen, np.concatenate(parts)


def _deals(n: int, m: int, deals: int) -> Iterator[Floats]:
    """Yield blocks `[k, n + m]` of ways to deal: 1 for the n new, 0 for the others."""
    for start in range(0, deals, _BLOCK):
        yield _block(n, m, min(_BLOCK, deals - start), start)


@lru_cache(maxsize=16)
def _block(n: int, m: int, size: int, start: int) -> Floats:
    random = np.random.default_rng([SEED, n, m, start])
    chosen = np.argsort(random.random((size, n + m)), axis=1)[:, :n]
    dealt = np.zeros((size, n + m))
    np.put_along_axis(dealt, chosen, 1.0, axis=1)
    return dealt


def _deal_signs(pairs: Floats, deals: int) -> Dealt:
    """Deal signs to mean / root mean square.

    It orders as a paired t does, since squares keep under signs.
    """
    n = len(pairs)
    size = np.abs(pairs).max(axis=0)
    pairs = pairs / np.where(size > 0, size, 1.0)
    scale = np.sqrt((pairs**2).mean(axis=0))
    pairs = pairs / np.where(scale > 0, scale, 1.0)
    if 2**n <= deals:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=n)))[1:]
    else:
        signs = np.random.default_rng([SEED, n]).choice((1.0, -1.0), (deals, n))
    return pairs.mean(axis=0), signs @ pairs / n
