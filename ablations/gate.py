"""Is this change an improvement, a regression, or noise? `ablations gate`.

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ablations import looks, studies, trainers
from ablations.core.plan import Looks
from ablations.errors import UserError, count
from ablations.names import require_name
from ablations.records import Plan, has_run, read_plan, write_atomically
from ablations.report.results import Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import Comparison, compare
from ablations.report.units import of_cells
from ablations.request import Request
from ablations.studies import Profile, Study, Variant
from ablations.sweep import local
from ablations.sweep.command.code import digest_of
from ablations.sweep.command.commit import Commit, checked_out
from ablations.sweep.command.repository import place_of
from ablations.sweep.command.study_file import TASK, code_of
from ablations.sweep.plan import plan as planned
from ablations.sweep.plan import with_seeds
from ablations.trainers.command import CODE, Line, Site, definition

BASELINE, CHANGE = "baseline", "change"
ARGUMENTS = "arguments"  # the placeholder of what one side has more than the other
FIRST_SEEDS = 5
MOST_SEEDS = 32
RATE = 0.05
NO_WORSE, WORSE, UNDECIDED = 0, 1, 3  # exit codes
CODES = {
    "better": NO_WORSE,
    "no worse": NO_WORSE,
    "identical": NO_WORSE,
    "worse": WORSE,
    "fails": WORSE,
    "not better": WORSE,
    "undecided": UNDECIDED,
    "unstable": UNDECIDED,
}


@dataclass(frozen=True)
class Margin:
    """The difference that does not matter: a share of what the baseline learned (of its mean score,
    where its runs are one number each), or in units of the metric."""

    size: float
    share: bool

    @classmethod
    def read(cls, text: str) -> Margin:
        """From "2%" or "0.5"."""
        found = re.fullmatch(r"\s*(\d*\.?\d+(?:[eE][-+]?\d+)?)\s*(%?)\s*", text)
        size = float(found[1]) if found else 0.0
        if found is None or not 0 < size < math.inf:
            raise UserError(
                f"a margin is such as 2% (of what the baseline learned) or 0.5 (in units of the "
                f"metric), above 0, not '{text}'"
            )
        return cls(size / 100 if found[2] else size, bool(found[2]))


@dataclass(frozen=True)
class Question:
    """What is asked. line: without what the two sides differ in. baseline: a commit, or None where
    only arguments differ; against: what the baseline's command has more. rate: of a false alarm,
    and of a false pass. better: whether only a gain passes."""

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


Word = Literal[
    "better",
    "no worse",
    "identical",
    "worse",
    "fails",
    "not better",
    "undecided",
    "unstable",
]


@dataclass(frozen=True)
class Look:
    """What one look said. low, high: None where all differences are the same number."""

    seeds: int
    pairs: int
    difference: float | None
    low: float | None
    high: float | None
    level: float
    word: Word


@dataclass(frozen=True)
class Verdict:
    """How a gate ended. margin: in units of the metric; of: what that is, in words."""

    word: Word
    metric: str
    margin: float
    of: str
    looks: tuple[Look, ...]
    planned: tuple[int, ...]
    failed: Mapping[str, tuple[int, ...]]
    reason: str = ""
    differences: tuple[float, ...] = ()

    @property
    def code(self) -> int:
        return CODES[self.word]

    @property
    def line(self) -> str:
        last = self.looks[-1]
        said = f"gate: {self.word}"
        if self.reason:
            said += f": {self.reason}"
        if last.difference is not None:
            between = "" if last.low is None else f" [{last.low:+.4g}, {last.high:+.4g}]"
            said += (
                f": {self.metric} {last.difference:+.4g}{between} on "
                f"{count(last.pairs, 'paired seed')}; margin {self.margin:.4g} ({self.of})"
            )
        return said


class Gate:
    """A question, as a study of two variants in a results folder."""

    def __init__(self, question: Question, results: Path, here: Path):
        if question.baseline is None and not question.against:
            raise UserError("nothing to compare: name a commit with --baseline, or --against ARGS")
        if not 0 < question.rate < 0.5:
            raise UserError(f"--rate must be between 0 and 0.5, not {question.rate:g}")
        if not 2 <= question.first <= question.most:
            raise UserError(
                f"the seeds go from --first-seeds to --most-seeds, at least 2: not from "
                f"{question.first} to {question.most}"
            )
        _require_free(question.name, results)
        self.question = question
        self.results = results
        self.commit: Commit | None = None
        line = replace(question.line, run=(*question.line.run, f"{{{ARGUMENTS}}}"))
        code = code_of(line, here, {"depends": question.depends}, None)
        files = code.files()
        sites = {"now": Site(digest_of(files, here), place_of(code, question.timeout))}
        if question.baseline is not None:
            self.commit = checked_out(here, question.baseline, results, question.depends)
            place = {"here": str(self.commit.here), "timeout": question.timeout}
            sites["then"] = Site(self.commit.digest, place)
            if sites["then"].code == sites["now"].code and not question.against:
                raise UserError(
                    f"nothing to compare: what the command rests on is the same in "
                    f"'{question.baseline}' and here"
                )
        then = "then" if question.baseline is not None else "now"
        trainer = definition(f"command of {question.name}", line, sites, (TASK,), "step")
        if question.steps is None and "steps" in line.placeholders():
            raise UserError("the command has {steps}: say how many with --steps")
        self.study = Study(
            name=question.name,
            title=f"{self.sides[1]} against {self.sides[0]}",
            claim=f"{self.sides[1]} is no worse than {self.sides[0]}",
            claim_source="",
            baseline=BASELINE,
            variants={
                BASELINE: Variant({CODE: then, ARGUMENTS: list(question.against)}),
                CHANGE: Variant({CODE: "now", ARGUMENTS: []}),
            },
            margin=question.margin.size,
            margin_in_metric=not question.margin.share,
            metric=line.judged,
            trainer=trainer.name,
            profiles={"quick": Profile(tasks=(TASK,), seeds=question.first, steps=question.steps)},
        )
        trainers.register(trainer, again=True)
        studies.register(self.study, again=True)
        seeds = looks.planned(question.first, question.most)
        self.design = looks.design(seeds, 2 * question.rate)
        made = planned(Request(question.name))
        self._plan = replace(made, looks=Looks(tuple(seeds), comparisons=1, over_tasks=0))

    @property
    def sides(self) -> tuple[str, str]:
        """What is compared, in words: the baseline, the change."""
        asked = self.question
        more = " ".join(asked.against)
        if asked.baseline is None:
            return f"the command with {more}", "the command"
        then = f"{asked.baseline} ({self.commit.name[:10]})" if self.commit else asked.baseline
        return f"{then}{f' with {more}' if more else ''}", "the files as they are"

    def stated(self) -> Iterator[str]:
        """What is said before anything runs."""
        asked = self.question
        seeds = ", ".join(map(str, self.design.seeds))
        yield f"gate: {self.sides[1]} against {self.sides[0]}"
        yield f"    seeds of each: {seeds}; more only while nothing is decided"
        if asked.better:
            yield (
                f"    passes a change that gains nothing: at most {100 * asked.rate:g}% of the "
                f"time; fails one that gains the margin: at most {100 * asked.rate:g}%"
            )
        else:
            yield (
                f"    calls worse what is no worse: at most {100 * asked.rate:g}% of the time; "
                f"passes what is worse by the margin: at most {100 * asked.rate:g}%"
            )

    def plan(self, seeds: int) -> Plan:
        return with_seeds(self._plan, {(TASK, name): seeds for name in (BASELINE, CHANGE)})

    def run(self, say: Callable[[str], None] = lambda line: None, **how: Any) -> Verdict:
        """Runs look after look until one decides. how: as for `sweep.local.run`."""
        done: list[Look] = []
        verdict = None
        for seeds, level in zip(self.design.seeds, self.design.levels, strict=True):
            made = self.plan(seeds)
            local.run([made], self.results, **how)
            last = seeds == self.design.seeds[-1]
            verdict = self._read(
                scores(Results(made, self.results)), seeds, level, tuple(done), last
            )
            done = list(verdict.looks)
            if verdict.word != "undecided" or last:
                break
            say(f"    {seeds} seeds: {verdict.line.removeprefix('gate: ')}")
        assert verdict is not None
        return verdict

    def _read(
        self, found: Scores, seeds: int, level: float, before: tuple[Look, ...], last: bool
    ) -> Verdict:
        if not found.by_seed(TASK, BASELINE):
            reason = next((c.reason for c in found.of(TASK, BASELINE) if c.reason), "no value")
            raise UserError(
                f"every run of the baseline failed: {reason} (`ablations status "
                f"{self.question.name}` shows what it printed)"
            )
        margin, of = self._margin(found.below(self.design.seeds[0]))
        failed = {
            name: tuple(c.seed for c in found.of(TASK, name) if c.status in ("failed", "empty"))
            for name in (BASELINE, CHANGE)
        }
        values = {name: found.by_seed(TASK, name) for name in (BASELINE, CHANGE)}
        both = sorted(set(values[BASELINE]) & set(values[CHANGE]))
        ours, theirs = ([values[name][seed] for seed in both] for name in (CHANGE, BASELINE))
        compared = compare(ours, theirs, level=level)
        paired = replace(found, cells=tuple(cell for cell in found.cells if cell.seed in both))
        word = judged(
            compared,
            margin,
            last=last,
            better=self.question.better,
            identical=paired.identical([TASK], CHANGE, BASELINE),
        )
        reason = ""
        if lost := [seed for seed in failed[CHANGE] if seed in values[BASELINE]]:
            reasons = {c.seed: c.reason for c in found.of(TASK, CHANGE)}
            reason = f"{len(lost)} of {seeds} runs of the change failed ({reasons[lost[0]]})"
            fails = len(lost) >= 2 and 2 * len(lost) >= seeds - len(failed[BASELINE])
            word = "fails" if fails else "unstable" if CODES[word] == NO_WORSE else word
        look = Look(
            seeds, compared.n, compared.difference, compared.low, compared.high, level, word
        )
        return Verdict(
            word,
            found.metric,
            margin,
            of,
            (*before, look),
            self.design.seeds,
            failed,
            reason,
            tuple(np.subtract(ours, theirs).tolist()),
        )

    def _margin(self, first: Scores) -> tuple[float, str]:
        """In units of the metric, and what it is of: by the runs of the first look."""
        asked = self.question.margin
        if not asked.share:
            return asked.size, "in units of the metric"
        percent = f"{100 * asked.size:g}%"
        if (learned := of_cells(first, TASK, BASELINE)) is not None:
            return asked.size * learned.size, f"{percent} of what the baseline learned"
        mean = abs(float(np.mean(list(first.by_seed(TASK, BASELINE).values()) or [math.nan])))
        if not 0 < mean < math.inf:
            raise UserError(
                f"the baseline learned nothing that stands out and its mean is {mean:g}: give the "
                f"margin in units of the metric, such as --margin 0.5"
            )
        return asked.size * mean, f"{percent} of the baseline's mean"

    def write(self, verdict: Verdict) -> Path:
        """Leaves the verdict as JSON, for whoever decides by it; its path."""
        asked = self.question
        told = {
            "verdict": verdict.word,
            "exit_code": verdict.code,
            "line": verdict.line,
            "baseline": self.sides[0],
            "change": self.sides[1],
            "commit": self.commit.name if self.commit else None,
            "command": list(asked.line.run),
            "metric": verdict.metric,
            "margin": verdict.margin,
            "margin_of": verdict.of,
            "rate": asked.rate,
            "require": "better" if asked.better else "no worse",
            "seeds_planned": list(verdict.planned),
            "looks": [asdict(one) for one in verdict.looks],
            "differences": [one if math.isfinite(one) else None for one in verdict.differences],
            "failed_seeds": {name: list(seeds) for name, seeds in verdict.failed.items()},
        }
        path = self.results / "gates" / f"{asked.name}.json"
        write_atomically(path, json.dumps(told, indent=1, allow_nan=False) + "\n")
        return path


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
    found: Comparison, margin: float, *, last: bool, better: bool = False, identical: bool = False
) -> Word:
    """The word for a comparison of the change with the baseline, at one look.

    identical: whether the curves are the same bits. Where all pairs differ by one number, that is
    the difference, as soon as so many equal ones are no chance by the sign test.
    """
    if found.difference is None or found.n < 2:
        return "undecided"
    if identical:
        return "not better" if better else "identical"
    low, high = found.low, found.high
    if low is None or high is None:
        if 0.5 ** (found.n - 1) >= found.level:
            return "undecided"
        low = high = found.difference
    if low > 0:
        return "better"
    if better:
        return "not better" if high < margin else "undecided"
    if low > -margin:
        return "no worse"
    if high < -margin or (last and high < 0):
        return "worse"
    return "undecided"
