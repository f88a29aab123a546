"""A gate's question (two sides, a margin, error rates) and the rule that answers it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from ablations.engine.backends.command.code import Code, checked_out, place_of
from ablations.engine.backends.command.study_file import code_of
from ablations.errors import UserError
from ablations.stats import Difference, decide
from ablations.trainers.command import Line, Site

FIRST_SEEDS = 5
MOST_SEEDS = 32
RATE = 0.05
FUTILITY = 0.1  # a gate ends early below this probability of a pass
ARGUMENTS = "arguments"  # the placeholder for the further arguments of a side

Outcome = Literal["pass", "fail", "undecided"]
EXIT_CODES: Mapping[Outcome, int] = {"pass": 0, "fail": 1, "undecided": 3}


@dataclass(frozen=True)
class Margin:
    """The largest difference that does not matter.

    Attributes:
        size: in units of the metric, or a share of the baseline's learned range (of its mean score
            if each run gives one number).
        share: whether `size` is such a share.
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
                f"--margin '{text}': expected a positive percentage of the baseline's learned "
                f"range, such as 2%, or a positive number in units of the metric, such as 0.5"
            )
        return cls(size / 100 if parts[2] else size, bool(parts[2]))


@dataclass(frozen=True)
class Question:
    """A change to judge, with a margin and error rates.

    Attributes:
        line: the command that both sides share.
        margin: the largest difference that does not matter.
        baseline: a commit; None if the sides differ in arguments only.
        against: further arguments of the baseline's command.
        rate: of false alarms, and of false passes unless `pass_rate` is given.
        first_seeds, most_seeds: seeds of the first and of the last stage.
        better: whether only a gain passes.
        futility: the gate ends early below this probability of a pass; 0: never.
        timeout: of a run, in seconds.
        depends: files that the command depends on; None: its repository.
        name: of the results.
    """

    line: Line
    margin: Margin
    baseline: str | None = None
    against: tuple[str, ...] = ()
    rate: float = RATE
    pass_rate: float | None = None
    first_seeds: int = FIRST_SEEDS
    most_seeds: int = MOST_SEEDS
    better: bool = False
    futility: float = FUTILITY
    timeout: float | None = None
    depends: tuple[str, ...] | None = None
    name: str = "gate"

    @property
    def passes(self) -> float:
        """The rate of false passes."""
        return self.pass_rate or self.rate

    def code(self, here: Path, without: Path | None = None) -> Code:
        """Return the code in the folder `here` that the command uses, except the file `without`."""
        return code_of(self.line, here, self.depends, without)


class Judgement(NamedTuple):
    """The result of a stage: the outcome, the verdict (of `stats.decide`) and a note."""

    outcome: Outcome = "undecided"
    verdict: str = "inconclusive"
    note: str = ""


def judged(
    difference: Difference,
    margin: float,
    level: float,
    *,
    last: bool,
    better: bool = False,
    identical: bool = False,
    more_failures: int = 0,
) -> Judgement:
    """Judge the difference of a change and its baseline at one stage.

    A change passes if the lower end of the interval is above minus the margin, or above 0 with
    `better`. If all pairs differ by the same number, there is no t interval. Then the number itself
    is judged, once the sign test rejects a median of 0 at the level.

    Args:
        difference: change - baseline, with its interval.
        margin: in units of the metric.
        level: of the interval.
        last: whether this is the last stage.
        better: whether only a gain passes.
        identical: whether the learning curves are equal bit by bit.
        more_failures: number of seeds on which only the change failed, or minus the number of
            seeds on which only the baseline failed.
    """
    n, low, high = difference.n, difference.low, difference.high
    if identical:
        low = high = 0.0
    elif math.isnan(low) and 0.5 ** (n - 1) < level:
        low = high = difference.difference
    if math.isnan(low) or n < 2:
        return Judgement()
    # With `better`, any gain above 0 passes, even one within the margin.
    verdict = decide(low, high, math.nan if better and low > 0 else margin, more_failures)
    if low > (0 if better else -margin):
        outcome: Outcome = "undecided" if verdict == "failed" else "pass"
        notes = {"inconclusive": "a loss of the margin is ruled out"}
        if high < 0:
            notes["equivalent"] = "below 0, within the margin"
        note = "" if better else notes.get(verdict, "")
        return Judgement(outcome, verdict, "identical" if identical else note)
    fails = high < (margin if better else -margin) or (last and high < 0 and not better)
    # The baseline's mean may be too high, as it lacks the seeds on which the baseline failed.
    if not fails or (more_failures < 0 and verdict == "inconclusive"):
        return Judgement()
    note = "a gain of the margin is ruled out" if better and verdict != "worse" else ""
    return Judgement("fail", verdict, "identical" if identical else note)


# The two sides


@dataclass(frozen=True)
class Side:
    """A side of a comparison.

    Attributes:
        site: the code and where it runs.
        arguments: after the words that both commands share.
        called: its name in messages.
    """

    site: Site
    arguments: tuple[str, ...]
    called: str


class Sides(NamedTuple):
    """The two sides of a comparison."""

    baseline: Side
    change: Side

    @property
    def same(self) -> bool:
        """Whether both run the same code with the same arguments."""
        baseline, change = self.baseline, self.change
        return (baseline.site.code, baseline.arguments) == (change.site.code, change.arguments)


def current_side(question: Question, here: Path) -> Side:
    """Return the side that runs the files in the folder `here` as they are."""
    code = question.code(here)
    return Side(Site(code.digest(), place_of(code, question.timeout)), (), "the command")


def compared_sides(question: Question, here: Path) -> Sides:
    """Return the two sides of a question: the baseline, and the current files as the change.

    Raises UserError if there is nothing to compare.
    """
    against, more = question.against, " ".join(question.against)
    if question.baseline is None and not against:
        raise UserError("nothing to compare: add --baseline COMMIT or --against ARGS")
    now = current_side(question, here)
    if question.baseline is None:
        return Sides(replace(now, arguments=against, called=f"the command with {more}"), now)
    commit = checked_out(here, question.baseline, question.depends)
    if commit.digest == now.site.code and not against and question.depends is None:
        raise UserError(
            f"nothing to compare: the files that the command depends on are the same in "
            f"'{question.baseline}' and in this folder"
        )
    then = Site(commit.digest, {"here": str(commit.here), "timeout": question.timeout})
    called = f"{question.baseline} ({commit.name[:10]}){f' with {more}' if more else ''}"
    return Sides(Side(then, against, called), replace(now, called="the current files"))
