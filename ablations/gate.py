"""`ablations gate`: judge a change as an improvement, a regression, or noise.

A command is run before and after a change (a commit and the files as they lie there, or two sets of
arguments) on the same seeds, and more seeds are added at planned looks while nothing is decided.
The runs are cells as those of any study; what is decided follows from their records alone, so that
a second call costs nothing.

With d the mean difference of the change over seeds, m the margin, and (low, high) its interval, one
of the intervals of all looks that hold at once (`ablations.looks`):

    no worse   low > -m: also where the change is a little worse, by less than matters
    worse      high < -m; at the last look also high < 0
    better     low > 0
    not better high < m, where gains are asked for

Each side of those intervals is wrong with a chance of at most `rate` over all looks together.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ablations import looks, studies
from ablations.core.plan import Context, Looks
from ablations.errors import UserError, count
from ablations.looks import Look, Stage
from ablations.names import require_name
from ablations.records import Plan, has_run, read_plan, write_atomically
from ablations.report.results import Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import Comparison, compare, compare_unpaired
from ablations.report.units import of_cells
from ablations.request import Request
from ablations.studies import Profile, Study, Variant
from ablations.sweep.backends.command.code import digest_of
from ablations.sweep.backends.command.commit import Commit, checked_out
from ablations.sweep.backends.command.repository import place_of
from ablations.sweep.backends.command.study_file import TASK, code_of
from ablations.sweep.executor import Executor
from ablations.sweep.local import Processes
from ablations.sweep.plan import plan as planned
from ablations.sweep.plan import with_seeds
from ablations.trainers.command import CODE, CommandTrainer, Line, Site

BASELINE, CHANGE = "baseline", "change"
DEFAULT = Processes()
ARGUMENTS = "arguments"  # the placeholder of what one side has more than the other
FIRST_SEEDS = 5
MOST_SEEDS = 32
RATE = 0.05
NO_WORSE, WORSE, UNDECIDED = 0, 1, 3  # exit codes
Word = Literal[
    "better", "no worse", "identical", "worse", "fails", "not better", "undecided", "unstable"
]
CODES: dict[Word, int] = {
    **{"better": NO_WORSE, "no worse": NO_WORSE, "identical": NO_WORSE},
    **{"worse": WORSE, "fails": WORSE, "not better": WORSE},
    **{"undecided": UNDECIDED, "unstable": UNDECIDED},
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


@dataclass(frozen=True)
class Question:
    """A change, and how surely it is to be judged.

    line: without what the two sides differ in. baseline: a commit, or None where only arguments
    differ; against: what the baseline's command has more. rate: of a false alarm, and of a false
    pass. first, most: seeds of the first look and of the last. better: whether only a gain passes.
    steps: what {steps} is. timeout: of a run, in seconds. depends: files that the command rests on;
    None: its repository.
    """

    line: Line
    margin: Margin
    baseline: str | None = None
    against: tuple[str, ...] = ()
    rate: float = RATE
    first: int = FIRST_SEEDS
    most: int = MOST_SEEDS
    better: bool = False
    steps: int | None = None
    timeout: float | None = None
    depends: tuple[str, ...] | None = None
    name: str = "gate"


@dataclass(frozen=True)
class Reading:
    """The result of one look; low, high: None where all differences are the same number."""

    seeds: int
    pairs: int
    difference: float | None
    low: float | None
    high: float | None
    level: float
    word: Word


@dataclass(frozen=True)
class Verdict:
    """The verdict at a look; see `looks.Decision`.

    margin: in units of the metric; of: what that is, in words. looks: all up to this one. failed:
    side -> seeds. reason: of failed runs. differences: `[pairs]`, change - baseline. paired: by
    seed; else the runs of either side are independent.
    """

    word: Word
    metric: str
    margin: float
    of: str
    looks: tuple[Reading, ...]
    planned: tuple[int, ...]
    failed: Mapping[str, tuple[int, ...]]
    reason: str = ""
    differences: tuple[float, ...] = ()
    paired: bool = True

    @property
    def decided(self) -> bool:
        """True where no further look is needed."""
        return self.word != "undecided"

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.word]

    @property
    def text(self) -> str:
        """The verdict in a line, for people."""
        last = self.looks[-1]
        text = f"{self.word}: {self.reason}" if self.reason else self.word
        if last.difference is None:
            return text
        between = "" if last.low is None else f" [{last.low:+.4g}, {last.high:+.4g}]"
        runs = count(last.pairs, "paired seed" if self.paired else "unpaired run")
        return (
            f"{text}: {self.metric} {last.difference:+.4g}{between} on "
            f"{runs}; margin {self.margin:.4g} ({self.of})"
        )


class Gate:
    """A question, as a study of two variants in a results folder; see `looks.SequentialTest`."""

    def __init__(self, question: Question, results: Path, here: Path):
        """Plan the looks. Raises UserError for a question that cannot be answered.

        Args:
            question: the change.
            results: the results folder.
            here: the folder in which the command runs.
        """
        _require_sound(question)
        _require_free(question.name, results)
        self.question = question
        self.results = results
        line = replace(question.line, run=(*question.line.run, f"{{{ARGUMENTS}}}"))
        self.commit, sites = _sites(question, line, here, results)
        self.paired = "seed" in line.placeholders()
        trainer = CommandTrainer(
            f"command of {question.name}", line, sites, (TASK,), repeats=not self.paired
        )
        if question.steps is None and "steps" in line.placeholders():
            raise UserError("the command has {steps}: say how many with --steps")
        study = Study(
            name=question.name,
            title=f"{self.sides[1]} against {self.sides[0]}",
            claim=f"{self.sides[1]} is no worse than {self.sides[0]}",
            claim_source="",
            baseline=BASELINE,
            variants={
                BASELINE: Variant(
                    {CODE: "then" if self.commit else "now", ARGUMENTS: list(question.against)}
                ),
                CHANGE: Variant({CODE: "now", ARGUMENTS: []}),
            },
            margin=question.margin.size,
            margin_in_metric=not question.margin.share,
            metric=line.judged,
            trainer=trainer,
            profiles={"quick": Profile(tasks=(TASK,), seeds=question.first, steps=question.steps)},
        )
        seeds = looks.planned(question.first, question.most)
        self.looks = looks.design(seeds, 2 * question.rate)
        made = planned(Request(question.name, brought=(study,)))
        self._plan = replace(made, looks=Looks(tuple(seeds), comparisons=1, over_tasks=0))

    @property
    def sides(self) -> tuple[str, str]:
        """The baseline and the change, in words."""
        more = " ".join(self.question.against)
        if self.commit is None:
            return f"the command with {more}", "the command"
        then = f"{self.question.baseline} ({self.commit.name[:10]})"
        return f"{then}{f' with {more}' if more else ''}", "the files as they are"

    def stated(self) -> Iterator[str]:
        """Yield what is planned, before anything runs."""
        rate = f"{100 * self.question.rate:g}%"
        yield f"gate: {self.sides[1]} against {self.sides[0]}"
        yield (
            f"    {'seeds' if self.paired else 'runs'} of each: "
            f"{', '.join(map(str, self.looks.seeds))}; more only while nothing is decided"
        )
        if not self.paired:
            yield (
                "    the command has no {seed}: its runs are repeats, compared unpaired; equal "
                "seeds on both sides would save runs where they make runs alike"
            )
        alarm, miss = "calls worse what is no worse", "passes what is worse by the margin"
        if self.question.better:
            alarm, miss = "passes a change that gains nothing", "fails one that gains the margin"
        yield f"    {alarm}: at most {rate} of the time; {miss}: at most {rate}"

    def run(
        self,
        say: Callable[[str], None] = lambda line: None,
        executor: Executor[object] = DEFAULT,
    ) -> Verdict:
        """Run look after look until one decides. Raises UserError.

        Args:
            say: takes the verdict of each look but the last.
            executor: where the commands run.
        """

        def collect(stages: Mapping[str, Stage[Plan, Verdict]]) -> dict[str, Scores]:
            plans = {name: stage.needs for name, stage in stages.items()}
            executor.run(list(plans.values()), self.results)
            return {name: scores(Results(plan, self.results)) for name, plan in plans.items()}

        def tell(name: str, stage: Stage[Plan, Verdict]) -> None:
            if not stage.ended:
                verdict = stage.decisions[-1]
                say(f"    {verdict.looks[-1].seeds} seeds: {verdict.text}")

        name = self.question.name
        return looks.play({name: self}, collect, tell=tell)[name].decisions[-1]

    def needs(self, look: Look, before: Sequence[Verdict] = ()) -> Plan:
        """Return the plan of both sides with a look's seeds."""
        return with_seeds(self._plan, {(TASK, name): look.seeds for name in (BASELINE, CHANGE)})

    def decide(self, look: Look, runs: Scores, before: Sequence[Verdict]) -> Verdict:
        """Judge the runs of a look. Raises UserError where the baseline has none."""
        values = {name: runs.by_seed(TASK, name) for name in (BASELINE, CHANGE)}
        if not values[BASELINE]:
            reason = next((c.reason for c in runs.of(TASK, BASELINE) if c.reason), "no value")
            raise UserError(
                f"every run of the baseline failed: {reason} (`ablations status "
                f"{self.question.name}` shows what it printed)"
            )
        margin, of = self._margin(runs.below(self.looks.seeds[0]))
        both = sorted(set(values[BASELINE]) & set(values[CHANGE]))
        if self.paired:
            ours, theirs = ([values[name][seed] for seed in both] for name in (CHANGE, BASELINE))
            compared = compare(ours, theirs, level=look.level)
        else:
            ours, theirs = ([*values[name].values()] for name in (CHANGE, BASELINE))
            compared = compare_unpaired(ours, theirs, level=look.level)
        paired = replace(runs, cells=tuple(cell for cell in runs.cells if cell.seed in both))
        identical, last = paired.identical([TASK], CHANGE, BASELINE), look == self.looks[-1]
        better = self.question.better
        word = judged(compared, margin, last=last, better=better, identical=identical)
        failed = {
            name: tuple(c.seed for c in runs.of(TASK, name) if c.status in ("failed", "empty"))
            for name in (BASELINE, CHANGE)
        }
        reason = ""
        if lost := [seed for seed in failed[CHANGE] if seed in values[BASELINE]]:
            reasons = {c.seed: c.reason for c in runs.of(TASK, CHANGE)}
            reason = f"{len(lost)} of {look.seeds} runs of the change failed ({reasons[lost[0]]})"
            fails = len(lost) >= 2 and 2 * len(lost) >= look.seeds - len(failed[BASELINE])
            word = "fails" if fails else "unstable" if CODES[word] == NO_WORSE else word
        interval = (compared.difference, compared.low, compared.high)
        reading = Reading(look.seeds, compared.n, *interval, look.level, word)
        return Verdict(
            *(word, runs.metric, margin, of),
            (*(before[-1].looks if before else ()), reading),
            *(self.looks.seeds, failed, reason),
            tuple(np.subtract(ours, theirs).tolist()) if self.paired else (),
            self.paired,
        )

    def _margin(self, first: Scores) -> tuple[float, str]:
        """Return the margin in the metric, by the runs of the first look, and what it is of."""
        size = self.question.margin.size
        if not self.question.margin.share:
            return size, "in units of the metric"
        percent = f"{100 * size:g}%"
        if (learned := of_cells(first, TASK, BASELINE)) is not None:
            return size * learned.size, f"{percent} of what the baseline learned"
        mean = abs(float(np.mean(list(first.by_seed(TASK, BASELINE).values()) or [math.nan])))
        if not 0 < mean < math.inf:
            raise UserError(
                f"the baseline learned nothing that stands out and its mean is {mean:g}: give the "
                f"margin in units of the metric, such as --margin 0.5"
            )
        return size * mean, f"{percent} of the baseline's mean"

    def described(self, verdict: Verdict) -> dict[str, object]:
        """Return the verdict as JSON, for whoever decides by it."""
        return {
            "verdict": verdict.word,
            "exit_code": verdict.code,
            "line": f"gate: {verdict.text}",
            "baseline": self.sides[0],
            "change": self.sides[1],
            "commit": self.commit.name if self.commit else None,
            "command": list(self.question.line.run),
            "metric": verdict.metric,
            "paired": verdict.paired,
            "margin": verdict.margin,
            "margin_of": verdict.of,
            "rate": self.question.rate,
            "require": "better" if self.question.better else "no worse",
            "seeds_planned": list(verdict.planned),
            "looks": [asdict(reading) for reading in verdict.looks],
            "differences": [d if math.isfinite(d) else None for d in verdict.differences],
            "failed_seeds": {name: list(seeds) for name, seeds in verdict.failed.items()},
        }

    def write(self, verdict: Verdict) -> Path:
        """Store the verdict as JSON; return its path."""
        path = self.results / "gates" / f"{self.question.name}.json"
        write_atomically(
            path, json.dumps(self.described(verdict), indent=1, allow_nan=False) + "\n"
        )
        return path


def _require_sound(question: Question) -> None:
    if question.baseline is None and not question.against:
        raise UserError("nothing to compare: name a commit with --baseline, or --against ARGS")
    if not 0 < question.rate < 0.5:
        raise UserError(f"--rate must be between 0 and 0.5, not {question.rate:g}")
    if not 2 <= question.first <= question.most:
        raise UserError(
            f"the seeds go from --first-seeds to --most-seeds, at least 2: not from "
            f"{question.first} to {question.most}"
        )


def _sites(
    question: Question, line: Line, here: Path, results: Path
) -> tuple[Commit | None, dict[str, Site]]:
    """Return the baseline's commit, checked out, and the folder of either side."""
    code = code_of(line, here, {"depends": question.depends}, None)
    now = Site(digest_of(code.files(), here), place_of(code, question.timeout))
    if question.baseline is None:
        return None, {"now": now}
    commit = checked_out(here, question.baseline, results, question.depends)
    if commit.digest == now.code and not question.against:
        raise UserError(
            f"nothing to compare: what the command rests on is the same in "
            f"'{question.baseline}' and here"
        )
    context: Context = {"here": str(commit.here), "timeout": question.timeout}
    return commit, {"now": now, "then": Site(commit.digest, context)}


def _require_free(name: str, results: Path) -> None:
    """Raise UserError for a name under which something else than a gate is known or has run."""
    require_name("--name", name)
    known = studies.studies().get(name)
    sides = set(known.variants) if known else set()
    if not known and has_run(results, name):
        sides = set(read_plan(results, name).variants)
    if sides and sides != {BASELINE, CHANGE}:
        raise UserError(f"'{name}' is a study already: give the gate another --name")


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
