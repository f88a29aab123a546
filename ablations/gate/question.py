"""A change, what is asked of it, and the answers that a gate has."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ablations.errors import UserError, count
from ablations.report.statistics import Comparison
from ablations.trainers.command import Line

FIRST_SEEDS = 5
MOST_SEEDS = 32
RATE = 0.05
FUTILITY = 0.1  # the chance to pass below which a gate ends early
NO_WORSE, WORSE, UNDECIDED = 0, 1, 3  # exit codes
Word = Literal[
    "better",
    "no worse",
    "identical",
    "worse",
    "fails",
    "not better",
    "undecided",
    "futile",
    "unstable",
]
CODES: Mapping[Word, int] = {
    **{"better": NO_WORSE, "no worse": NO_WORSE, "identical": NO_WORSE},
    **{"worse": WORSE, "fails": WORSE, "not better": WORSE},
    **{"undecided": UNDECIDED, "futile": UNDECIDED, "unstable": UNDECIDED},
}


@dataclass(frozen=True)
class Margin:
    """The difference that does not matter.

    size: a share of what the baseline learned (of its mean score, where its runs are one number
    each), or in units of the metric.
    """

    size: float
    share: bool

    @classmethod
    def read(cls, text: str) -> Margin:
        """Parse "2%" or "0.5". Raises UserError."""
        parts = re.fullmatch(r"\s*(\d*\.?\d+(?:[eE][-+]?\d+)?)\s*(%?)\s*", text)
        size = float(parts[1]) if parts else 0.0
        if parts is None or not 0 < size < math.inf:
            raise UserError(
                f"a margin is such as 2% (of what the baseline learned) or 0.5 (in units of the "
                f"metric), above 0, not '{text}'"
            )
        return cls(size / 100 if parts[2] else size, bool(parts[2]))

    @property
    def text(self) -> str:
        """The margin as it is typed."""
        return f"{100 * self.size:.12g}%" if self.share else f"{self.size:.12g}"


@dataclass(frozen=True)
class Question:
    """A change, and how surely it is to be judged.

    line: without what the two sides differ in. baseline: a commit, or None where only arguments
    differ; against: what the baseline's command has more. rate: of a false alarm, and of a false
    pass; pass_rate: of a false pass, where it is another. first, most: seeds of the first look and
    of the last. better: whether only a gain passes. futility: the chance to pass below which a look
    ends the gate; 0: never. steps: what {steps} is. timeout: of a run, in seconds. depends: files
    that the command rests on; None: its repository.
    """

    line: Line
    margin: Margin
    baseline: str | None = None
    against: tuple[str, ...] = ()
    rate: float = RATE
    pass_rate: float | None = None
    first: int = FIRST_SEEDS
    most: int = MOST_SEEDS
    better: bool = False
    futility: float = FUTILITY
    steps: int | None = None
    timeout: float | None = None
    depends: tuple[str, ...] | None = None
    name: str = "gate"

    def require_sound(self) -> None:
        """Raise UserError for rates and numbers of seeds that no gate can have."""
        if not 0 < self.rate < 0.5:
            raise UserError(f"--rate must be between 0 and 0.5, not {self.rate:g}")
        if not 0 <= self.futility < 0.5:
            raise UserError(f"--futility must be from 0 to below 0.5, not {self.futility:g}")
        if not 2 <= self.first <= self.most:
            raise UserError(
                f"the seeds go from --first-seeds to --most-seeds, at least 2: not from "
                f"{self.first} to {self.most}"
            )


@dataclass(frozen=True)
class Reading:
    """The result of one look.

    low, high: None where all differences are the same number. level, level_above: of the two-sided
    intervals that low and high are ends of. chance: to pass still, at a later look, where the
    change is worth it; None where there is none or it was not asked.
    """

    seeds: int
    pairs: int
    difference: float | None
    low: float | None
    high: float | None
    level: float
    level_above: float
    word: Word
    chance: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict at a look; see `looks.Decision`.

    margin: in units of the metric, None before the first look; of: what that is, in words. looks:
    all up to this one. failed: side -> seeds. reason: of failed runs, or of an early end. log: the
    end of what a failed run of the change printed. differences: `[pairs]`, change - baseline.
    paired: by seed; else the runs of either side are independent.
    """

    word: Word
    metric: str
    margin: float | None
    of: str
    looks: tuple[Reading, ...]
    planned: tuple[int, ...]
    failed: Mapping[str, tuple[int, ...]]
    reason: str = ""
    log: tuple[str, ...] = ()
    differences: tuple[float, ...] = ()
    paired: bool = True

    @property
    def decided(self) -> bool:
        """True where no further look is needed."""
        return self.word != "undecided"

    @property
    def final(self) -> bool:
        """True where no look is left."""
        return self.decided or len(self.looks) == len(self.planned)

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.word]

    @property
    def text(self) -> str:
        """The verdict in a line, for people."""
        text = f"{self.word}: {self.reason}" if self.reason else self.word
        if not self.looks or self.looks[-1].difference is None or self.margin is None:
            return text
        last = self.looks[-1]
        between = "" if last.low is None else f" [{last.low:+.4g}, {last.high:+.4g}]"
        runs = count(last.pairs, "paired seed" if self.paired else "unpaired run")
        lost = len(self.failed.get("baseline", ()))
        crashed = f"; {lost} of {last.seeds} runs of the baseline failed" if lost else ""
        return (
            f"{text}: {self.metric} {last.difference:+.4g}{between} on "
            f"{runs}; margin {self.margin:.4g} ({self.of}){crashed}"
        )


def judged(
    compared: Comparison,
    margin: float,
    *,
    last: bool,
    better: bool = False,
    identical: bool = False,
) -> Word:
    """Return the word for a comparison of the change with the baseline, at one look.

    Where all pairs differ by one number, that is the difference, as soon as so many equal ones are
    no chance by the sign test.

    Args:
        compared: change - baseline.
        margin: in units of the metric.
        last: whether it is the last look.
        better: whether only a gain passes.
        identical: whether the curves are the same bits.
    """
    if compared.difference is None or compared.n < 2:
        return "undecided"
    if identical:
        return "not better" if better else "identical"
    low, high = compared.low, compared.high
    if low is None or high is None:
        if 0.5 ** (compared.n - 1) >= compared.level:
            return "undecided"
        low = high = compared.difference
    if low > 0:
        return "better"
    if better:
        return "not better" if high < margin else "undecided"
    if low > -margin:
        return "no worse"
    if high < -margin or (last and high < 0):
        return "worse"
    return "undecided"
