"""A paper's mean ± SD over k seeds against runs of one's own."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ablations.errors import UserError
from ablations.report.statistics import Comparison
from ablations.report.statistics.unpaired import Moments, welch

Word = Literal["compatible", "lower", "higher", "cannot tell"]
_NUMBER = r"[-+]?\d[\d,]*(?:\.\d*)?(?:[eE][-+]?\d+)?"
_RESULT = re.compile(rf"\s*({_NUMBER})\s*(?:±|\+/?-)\s*({_NUMBER})\s*/\s*(\d+)\s*")


def read_paper(text: str) -> Moments:
    """Parse "3,200 ± 450 / 5": mean, standard deviation over seeds, seeds. Raises UserError."""
    parts = _RESULT.fullmatch(text)
    if parts is None:
        raise UserError(
            f"a paper's result is 'MEAN ± SD / SEEDS', such as '3200 ± 450 / 5', not '{text}'"
        )
    mean, deviation = (float(part.replace(",", "")) for part in parts.groups()[:2])
    seeds = int(parts[3])
    if seeds < 2 or deviation < 0 or not math.isfinite(deviation * mean):
        raise UserError(f"a standard deviation is of 2 seeds or more, and not negative: '{text}'")
    return Moments(seeds, mean, deviation)


@dataclass(frozen=True)
class PaperCheck:
    """The comparison with a paper. margin: the difference that does not matter."""

    word: Word
    compared: Comparison
    margin: float

    @property
    def code(self) -> int:
        """The exit code: 0 for compatible, 1 for another result, 3 where few runs cannot tell."""
        return {"compatible": 0, "cannot tell": 3}.get(self.word, 1)

    @property
    def text(self) -> str:
        """The check in a line."""
        gap = self.compared
        if gap.low is None:
            return (
                f"{self.word}: {gap.difference:+.4g} than the paper's (runs that do not differ "
                f"have no interval); a difference of {self.margin:.4g} does not matter"
            )
        return (
            f"{self.word}: {gap.difference:+.4g} [{gap.low:+.4g}, {gap.high:+.4g}] than the "
            f"paper's, with 95%; a difference of {self.margin:.4g} does not matter"
        )


def check_paper(values: Sequence[float], paper: Moments, effect: float) -> PaperCheck:
    """Compare the scores of one's own runs with a paper's result (Welch's interval, 95%).

    An interval that contains 0 is no evidence of the same: *compatible* needs one that lies within
    the margin.

    Args:
        values: of one's own runs, two or more, all finite.
        paper: its mean, standard deviation and seeds.
        effect: the margin, as a share of the paper's mean.
    """
    if len(values) < 2:
        raise UserError(f"{len(values)} runs tell no spread: 2 at least")
    if not np.isfinite(values).all():
        raise UserError("a run without a finite score cannot be compared: leave it out")
    if not paper.mean:
        raise UserError("a paper's mean of 0 has no share that could be the margin")
    compared = welch(Moments.of(np.asarray(values, np.float64)), paper)
    margin = effect * abs(paper.mean)
    difference = float(np.mean(values)) - paper.mean
    low = difference if compared.low is None else compared.low
    high = difference if compared.high is None else compared.high
    word: Word = "cannot tell"
    if -margin < low and high < margin:
        word = "compatible"
    elif high < 0:
        word = "lower"
    elif low > 0:
        word = "higher"
    return PaperCheck(word, compared, margin)
