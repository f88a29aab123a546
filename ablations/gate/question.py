"""What a gate compares, how surely, and the rule by which it judges."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from ablations.errors import UserError
from ablations.records import Plan
from ablations.request import Request
from ablations.stats import Difference, decide
from ablations.studies import Profile, Study, Variant
from ablations.sweep.backends.command.code import Code, checked_out, place_of
from ablations.sweep.backends.command.study_file import TASK, code_of
from ablations.sweep.plan import plan as plan_of
from ablations.trainers.command import CommandTrainer, Line, Site

FIRST_SEEDS = 5
MOST_SEEDS = 32
RATE = 0.05
FUTILITY = 0.1  # the chance to pass below which a gate ends early
ARGUMENTS = "arguments"  # the placeholder of what one side has more than the other

Outcome = Literal["pass", "fail", "undecided"]
EXIT_CODES: Mapping[Outcome, int] = {"pass": 0, "fail": 1, "undecided": 3}


@dataclass(frozen=True)
class Margin:
    """The difference that does not matter.

    size: a share of the range that the baseline learned (of its mean score, where its runs are one
    number each), or in units of the metric.
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
    differ; against: further arguments of the baseline's command. rate: of a false alarm, and of a
    false pass; pass_rate: of a false pass, where it is another. first, most: seeds of the first and
    of the last stage. better: whether only a gain passes. futility: the chance to pass below which
    a stage ends the gate; 0: never. steps: the value of {steps}. timeout: of a run, in seconds.
    depends: files that the command depends on; None: its repository.
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

    def code(self, here: Path, without: Path | None = None) -> Code:
        """Return the code that the command depends on, as it lies in a folder.

        without: a file that is no part of it.
        """
        return code_of(self.line, here, {"depends": self.depends}, without)


class Judgement(NamedTuple):
    """What a stage says: whether the change passes, the verdict (`stats.decide`), and a note."""

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

    A change passes where the lower end of the interval is above minus the margin, or above 0 where
    only a gain passes. Where all pairs differ by one number, that number takes the place of the
    interval as soon as so many equal pairs are unlikely by the sign test.

    Args:
        difference: change - baseline, with its interval.
        margin: in units of the metric.
        level: of the interval.
        last: whether it is the last stage.
        better: whether only a gain passes.
        identical: whether the curves are the same bits.
        more_failures: runs of the change that failed where the baseline's did not; below 0: the
            other way round.
    """
    n, low, high = difference.n, difference.low, difference.high
    if identical:
        low = high = 0.0
    elif math.isnan(low) and 0.5 ** (n - 1) < level:
        low = high = difference.difference
    if math.isnan(low) or n < 2:
        return Judgement()
    # A gain that is asked for may be smaller than the margin.
    verdict = decide(low, high, math.nan if better and low > 0 else margin, more_failures)
    if low > (0 if better else -margin):
        outcome: Outcome = "undecided" if verdict == "failed" else "pass"
        note = "" if better else _within(low, high, verdict)
        return Judgement(outcome, verdict, "identical" if identical else note)
    fails = high < (margin if better else -margin) or (last and high < 0 and not better)
    # Without the seeds on which it failed, the baseline may look better than it is.
    if not fails or (more_failures < 0 and verdict == "inconclusive"):
        return Judgement()
    note = "a gain of the margin is ruled out" if better and verdict != "worse" else ""
    return Judgement("fail", verdict, "identical" if identical else note)


def _within(low: float, high: float, verdict: str) -> str:
    """Return the note on a change that is no worse than the margin."""
    if verdict == "inconclusive":
        return "a loss of the margin is ruled out"
    beside = "above" if low > 0 else "below" if high < 0 else ""
    return f"{beside} 0, within the margin" if beside and verdict == "equivalent" else ""


# The two sides


@dataclass(frozen=True)
class Side:
    """A side of a comparison.

    arguments: after the words that both have. called: for people. commit: its full hash, of one.
    """

    site: Site
    arguments: tuple[str, ...]
    called: str
    commit: str | None = None


class Sides(NamedTuple):
    """The two sides of a comparison."""

    baseline: Side
    change: Side

    @property
    def same(self) -> bool:
        """Whether both run the same code with the same arguments."""
        baseline, change = self.baseline, self.change
        return (baseline.site.code, baseline.arguments) == (change.site.code, change.arguments)


def compared_sides(question: Question, here: Path) -> Sides:
    """Return the sides of a question: a commit or further arguments, and the files as they are.

    Raises UserError where there is nothing to compare.
    """
    against, more = question.against, " ".join(question.against)
    if question.baseline is None and not against:
        raise UserError("nothing to compare: name a commit with --baseline, or --against ARGS")
    code = question.code(here)
    now = Site(code.digest(), place_of(code, question.timeout))
    if question.baseline is None:
        return Sides(Side(now, against, f"the command with {more}"), Side(now, (), "the command"))
    commit = checked_out(here, question.baseline, question.depends)
    if commit.digest == now.code and not against and question.depends is None:
        raise UserError(
            f"nothing to compare: what the command rests on is the same in "
            f"'{question.baseline}' and here"
        )
    then = Site(commit.digest, {"here": str(commit.here), "timeout": question.timeout})
    called = f"{question.baseline} ({commit.name[:10]}){f' with {more}' if more else ''}"
    baseline = Side(then, against, called, commit.name)
    return Sides(baseline, Side(now, (), "the files as they are"))


def command_plan(
    name: str,
    title: str,
    line: Line,
    sites: Mapping[str, Site],
    variants: Mapping[str, Variant],
    seeds: int,
    steps: int | None,
    margin: Margin | None = None,
) -> Plan:
    """Return the plan of a study whose trainer is a command; the first variant is its baseline."""
    repeats = "seed" not in line.placeholders()
    trainer = CommandTrainer(f"command of {name}", line, sites, (TASK,), repeats=repeats)
    study = Study(
        name=name,
        title=title,
        claim=title,
        claim_source="",
        baseline=next(iter(variants)),
        variants=variants,
        margin=margin.size if margin else 0.05,
        margin_in_metric=margin is not None and not margin.share,
        metric=line.judged,
        trainer=trainer,
        profiles={"quick": Profile(tasks=(TASK,), seeds=seeds, steps=steps)},
    )
    return plan_of(Request(name, brought=(study,)))
