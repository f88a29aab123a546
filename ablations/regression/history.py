"""Nightly runs: is tonight's worse than the nights before, and do the nights drift?

The window is tonight and the n nights before it. Two tests share the rate, half each.

Tonight: the t prediction interval of one more night, x < mean - t[n-1] s √(1 + 1/n), exact for
normal results; and it must be among the lowest of the window, so that for results of any shape the
rate is at most the larger of its half and 1 / (n + 1) (39 nights for 2.5%).

Drift: a CUSUM of sequential ranks. With R_i the rank of night i among the first i of the window,
the R_i / i of a trainer in which nothing changes are independent and uniform, whatever the results
look like (Rényi 1962; McDonald 1990, "A cusum procedure based on sequential ranks"). Their normal
scores U_i = Φ⁻¹((R_i - ½) / i) add up in

    S_i = max(0, S_(i-1) - U_i - ½)      S_1 = 0

and tonight's S is compared with its own exact distribution for a window of that length, computed on
a grid of scores. A slack of ½ is for shifts of about one standard deviation (Page 1954).

Each night is judged at the stated rate, on average over nights; alarms of a drift last until it has
left the window, or `since` leaves the nights before a wanted change out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ablations.distributions import normal_quantile, student_cdf
from ablations.errors import UserError

Floats = NDArray[np.float64]
Word = Literal["fine", "worse", "drifting", "no value", "too few nights"]

NIGHTS = 39
FEWEST = 5
MOST = 365
RATE = 0.05
_SLACK = 0.5
_GRID = 0.02  # of scores
_BINS = 1000  # of sums; beyond the last they are as good as infinite


@dataclass(frozen=True)
class Terms:
    """nights: before this one. rate: of false alarms, of each night."""

    nights: int = NIGHTS
    rate: float = RATE
    lower_is_better: bool = False

    def require_sound(self) -> None:
        """Raise UserError for terms that no guard can have."""
        if not FEWEST <= self.nights <= MOST:
            raise UserError(f"nights are from {FEWEST} to {MOST}, not {self.nights}")
        if not 0 < self.rate < 0.5:
            raise UserError(f"a rate is between 0 and 0.5, not {self.rate:g}")


@dataclass(frozen=True)
class NightCheck:
    """Tonight against the nights before.

    tonight: its value. mean, deviation: of the nights before, NaN of none. before: how many there
    are. p_tonight, p_drift: the chances of a value so low, and of sums so high, where nothing has
    changed; None where there are too few nights. drift_from: the name of the night since which the
    sum is above 0.
    """

    word: Word
    tonight: float
    mean: float
    deviation: float
    before: int
    p_tonight: float | None = None
    p_drift: float | None = None
    drift_from: str | None = None

    @property
    def failed(self) -> bool:
        """True where somebody has to look."""
        return self.word in ("worse", "drifting", "no value")

    @property
    def text(self) -> str:
        """The check in a line, for people."""
        if self.word == "too few nights":
            return f"{self.word}: {self.before} before this one, and {FEWEST} are needed"
        against = f"{self.mean:.4g} ± {self.deviation:.2g} of the {self.before} nights before"
        if self.word == "no value":
            return f"{self.word} tonight, against {against}"
        text = f"{self.word}: {self.tonight:.4g} tonight, against {against}"
        text += f" (tonight p = {self.p_tonight:.2g}, drift p = {self.p_drift:.2g})"
        return text if self.word != "drifting" else f"{text}, since night {self.drift_from}"


def check_nights(
    values: Sequence[float] | ArrayLike,
    terms: Terms | None = None,
    names: Sequence[str] | None = None,
) -> NightCheck:
    """Judge the last of the nights `[n]` by those before it. Raises UserError for no night.

    NaN and infinities are nights without a value: tonight's is an alarm, those before are left out.
    names: of the nights; default: their numbers, from 1.
    """
    terms = terms or Terms()
    terms.require_sound()
    nights = np.asarray(values, np.float64)
    if not len(nights):
        raise UserError("there is no night yet")
    numbers = np.flatnonzero(np.isfinite(nights))
    earlier = numbers[numbers < len(nights) - 1][-terms.nights :]
    before, tonight = nights[earlier], float(nights[-1])
    mean = float(before.mean()) if len(before) else math.nan
    deviation = float(before.std(ddof=1)) if len(before) > 1 else math.nan
    if not math.isfinite(tonight):
        return NightCheck("no value", tonight, mean, deviation, len(before))
    if len(before) < FEWEST:
        return NightCheck("too few nights", tonight, mean, deviation, len(before))
    sign = -1.0 if terms.lower_is_better else 1.0
    window = sign * np.append(before, tonight)
    alone = p_tonight(window)
    sums = cusum(window)
    drift = p_drift(len(window), float(sums[-1]))
    began = int(np.flatnonzero(sums == 0)[-1]) + 1
    word: Word = "fine"
    if alone <= terms.rate / 2:
        word = "worse"
    elif drift <= terms.rate / 2:
        word = "drifting"
    place = int(np.append(earlier, len(nights) - 1)[min(began, len(window) - 1)])
    began_on = str(place + 1) if names is None else names[place]
    return NightCheck(word, tonight, mean, deviation, len(before), alone, drift, began_on)


def p_tonight(window: Floats) -> float:
    """Return the chance of a last value so low, `[nights]`: by t, and no lower than by its rank.

    Where even the lowest of all would not be rare enough by its rank, t alone decides, and only the
    lowest counts.
    """
    before, tonight = window[:-1], window[-1]
    n = len(before)
    spread = float(before.std(ddof=1)) * math.sqrt(1 + 1 / n)
    off = float(tonight - before.mean())
    if spread > 1e-12 * float(np.abs(window).max()):
        by_t = student_cdf(n - 1, off / spread)
    else:  # nights that are all one number
        by_t = 0.0 if off < -1e-12 * float(np.abs(window).max()) else 1.0
    lower = int(np.sum(before <= tonight))
    return by_t if not lower else max(by_t, (1 + lower) / (n + 1))


def cusum(window: Floats) -> Floats:
    """Return the sums S_1, ..., S_n of a window `[n]`; ties have their mean rank."""
    n = len(window)
    sums = np.zeros(n)
    for i in range(1, n):
        seen = window[: i + 1]
        rank = np.sum(seen < window[i]) + (1 + np.sum(seen == window[i])) / 2
        sums[i] = max(0.0, sums[i - 1] + _step(float(rank), i + 1) * _GRID)
    return sums


def p_drift(nights: int, total: float) -> float:
    """Return the chance that the last sum of a window in which nothing changed is so high."""
    place = min(round(total / _GRID), _BINS - 1)
    return float(_tail(nights)[place]) if place > 0 else 1.0


def _step(rank: float, of: int) -> int:
    """Return how far a night moves the sum, in steps of the grid."""
    return round((-normal_quantile((rank - 0.5) / of) - _SLACK) / _GRID)


@lru_cache(maxsize=64)
def _tail(nights: int) -> Floats:
    """Return P(S >= place) of the last sum of a window, over the places of the grid."""
    chance = np.zeros(_BINS)
    chance[0] = 1.0
    for i in range(2, nights + 1):
        moved = np.zeros(_BINS)
        for rank in range(1, i + 1):
            _add_moved(moved, chance, _step(rank, i))
        chance = moved / i
    return np.cumsum(chance[::-1])[::-1]


def _add_moved(moved: Floats, chance: Floats, step: int) -> None:
    """Add a distribution moved by a step, held at 0 and at the last bin."""
    if step >= 0:
        moved[step:] += chance[: _BINS - step]
        moved[-1] += chance[_BINS - step :].sum()
    else:
        moved[: _BINS + step] += chance[-step:]
        moved[0] += chance[:-step].sum()
