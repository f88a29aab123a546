"""A question, as a study of two variants in a results folder, played look by look."""

from __future__ import annotations

import json
import math
import operator
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from ablations import looks, studies
from ablations.core.decode import Json
from ablations.core.plan import Looks
from ablations.errors import UserError
from ablations.gate.early import Sample, chance_to_pass
from ablations.gate.question import CODES, NO_WORSE, Question, Reading, Verdict, Word, judged
from ablations.gate.sides import ARGUMENTS, Sides
from ablations.looks import Look, Stage
from ablations.names import require_name
from ablations.records import Plan, has_run, read_plan, read_record, write_atomically
from ablations.report.results import Results
from ablations.report.scores import Scores, scores
from ablations.report.statistics import Comparison, compare, compare_unpaired
from ablations.report.statistics.rates import compare_outcomes, is_outcome
from ablations.report.units import of_cells
from ablations.request import Request
from ablations.studies import Profile, Study, Variant
from ablations.sweep.backends.command.study_file import TASK
from ablations.sweep.local import Processes
from ablations.sweep.plan import on_seeds, with_seeds
from ablations.sweep.plan import plan as planned
from ablations.trainers.command import CODE, CommandTrainer

BASELINE, CHANGE = "baseline", "change"
DEFAULT = Processes()
Say = Callable[[str], None]


def silent(line: str) -> None:
    """Say nothing."""


class Lost(NamedTuple):
    """Runs that failed though their counterparts did not. fails: so many that the change fails."""

    seeds: tuple[int, ...] = ()
    fails: bool = False
    reason: str = ""
    log: tuple[str, ...] = ()


class Gate:
    """A question about two sides; see `looks.SequentialTest`."""

    def __init__(self, question: Question, results: Path, sides: Sides):
        """Plan the looks. Raises UserError for a question that cannot be answered.

        Args:
            question: what is asked of the change.
            results: the results folder.
            sides: what is compared.
        """
        question.require_sound()
        _require_free(question.name, results)
        self.question, self.results, self.sides = question, results, sides
        line = replace(question.line, run=(*question.line.run, f"{{{ARGUMENTS}}}"))
        self.paired = "seed" in line.placeholders()
        sites = {"then": sides.baseline.site, "now": sides.change.site}
        trainer = CommandTrainer(
            f"command of {question.name}", line, sites, (TASK,), repeats=not self.paired
        )
        if question.steps is None and "steps" in line.placeholders():
            raise UserError("the command has {steps}: say how many with --steps")
        apart = ["change"] if sides.same else []  # it never runs: no study has two equal variants
        study = Study(
            name=question.name,
            title=f"{sides.change.called} against {sides.baseline.called}",
            claim=f"{sides.change.called} is no worse than {sides.baseline.called}",
            claim_source="",
            baseline=BASELINE,
            variants={
                BASELINE: Variant({CODE: "then", ARGUMENTS: list(sides.baseline.arguments)}),
                CHANGE: Variant({CODE: "now", ARGUMENTS: [*sides.change.arguments, *apart]}),
            },
            margin=question.margin.size,
            margin_in_metric=not question.margin.share,
            metric=line.judged,
            trainer=trainer,
            profiles={"quick": Profile(tasks=(TASK,), seeds=question.first, steps=question.steps)},
        )
        seeds = looks.planned(question.first, question.most)
        self.above = looks.design(seeds, 2 * question.rate)
        self.looks = looks.design(seeds, 2 * (question.pass_rate or question.rate))
        whole_plan = planned(Request(question.name, brought=(study,)))
        self._plan = msgspec.structs.replace(
            whole_plan, looks=Looks(tuple(seeds), comparisons=1, over_tasks=0)
        )

    def stated(self) -> Iterator[str]:
        """Yield what is planned, before anything runs."""
        question = self.question
        passes, rate = (
            f"{100 * each:.3g}%" for each in (question.pass_rate or question.rate, question.rate)
        )
        yield f"gate: {self.sides.change.called} against {self.sides.baseline.called}"
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
        if question.better:
            miss, alarm = "passes a change that gains nothing", "fails one that gains the margin"
        yield f"    {miss}: at most {passes} of the time; {alarm}: at most {rate}"
        if question.futility:
            yield (
                f"    ends early where the chance that it still passes falls below "
                f"{100 * question.futility:g}%, though it were worth it"
            )

    def run(
        self,
        say: Say = silent,
        executor: Processes = DEFAULT,
        seconds: float | None = None,
        since: float | None = None,
    ) -> Verdict:
        """Run look after look until one decides. Raises UserError.

        Args:
            say: takes the verdict of each look but the last.
            executor: where the commands run.
            seconds: a bound on the wall time. A look that is not whole by then is not read, as only
                planned looks may be; its runs stay, and the same call goes on with them.
            since: when that time began, of `time.monotonic`; default: now.
        """
        if self.sides.same:
            word: Word = "not better" if self.question.better else "identical"
            return self._unread(word, "what the command rests on is the same; nothing ran")
        name = self.question.name
        deadline = deadline_of(seconds, since)

        def collect(stages: Mapping[str, Stage[Plan, Verdict]]) -> dict[str, Scores]:
            runs = self._run(stages[name].needs, executor, deadline)
            return {} if runs is None else {name: runs}

        def tell(name: str, stage: Stage[Plan, Verdict]) -> None:
            if not stage.ended:
                verdict = stage.decisions[-1]
                say(f"    {verdict.looks[-1].seeds} seeds: {verdict.text}")

        stage = looks.play({name: self}, collect, tell=tell)[name]
        return stage.decisions[-1] if stage.ended else self._out_of_time(stage, seconds or 0.0)

    def _run(self, plan: Plan, executor: Processes, deadline: float | None) -> Scores | None:
        """Run a plan; return its scores, None where time is over before it is whole."""
        over = deadline is not None and time.monotonic() >= deadline
        if over or executor.run([plan], self.results, deadline=deadline).stopped:
            return None
        return scores(Results(plan, self.results))

    def _out_of_time(self, stage: Stage[Plan, Verdict], seconds: float) -> Verdict:
        reason = (
            f"{seconds / 60:g} minutes are over before the look at {stage.look.seeds} seeds; the "
            f"same call goes on"
        )
        if stage.decisions:
            return replace(stage.decisions[-1], reason=reason)
        return self._unread("undecided", reason)

    def _unread(self, word: Word, reason: str) -> Verdict:
        """Return a verdict that no look has led to."""
        metric, none = self.question.line.judged, {BASELINE: (), CHANGE: ()}
        return Verdict(
            word, metric, None, "", (), self.looks.seeds, none, reason, paired=self.paired
        )

    def fresh(
        self, seeds: int, executor: Processes = DEFAULT, deadline: float | None = None
    ) -> tuple[Comparison, Lost] | None:
        """Compare both sides on seeds that no look has seen, at 95%.

        Args:
            seeds: how many of each side.
            executor: where the commands run.
            deadline: of `time.monotonic`.

        Returns:
            The comparison, and the runs of the change that failed; None where time is over.
        """
        most = self.question.most
        runs = self._run(on_seeds(self._plan, range(most, most + seeds)), executor, deadline)
        if runs is None:
            return None
        values = {name: runs.by_seed(TASK, name) for name in (BASELINE, CHANGE)}
        return self._compared(values, 0.05), self._lost(runs, seeds)

    def require_baseline(
        self, executor: Processes = DEFAULT, deadline: float | None = None
    ) -> None:
        """Run the first look's seeds of the baseline. Raises UserError where all of them fail."""
        counts = {(TASK, BASELINE): self.looks.seeds[0], (TASK, CHANGE): 0}
        runs = self._run(with_seeds(self._plan, counts), executor, deadline)
        if runs is not None:
            self._require_values(runs)

    def needs(self, look: Look, before: Sequence[Verdict] = ()) -> Plan:
        """Return the plan of both sides with a look's seeds."""
        return with_seeds(self._plan, {(TASK, name): look.seeds for name in (BASELINE, CHANGE)})

    def decide(self, look: Look, runs: Scores, before: Sequence[Verdict]) -> Verdict:
        """Judge the runs of a look. Raises UserError where the baseline has none."""
        values = {name: runs.by_seed(TASK, name) for name in (BASELINE, CHANGE)}
        self._require_values(runs)
        margin, of = self._margin(runs.below(self.looks.seeds[0]))
        above = self.above[self.looks.index(look)]
        compared = self._compared(values, look.level)
        compared = replace(compared, high=self._compared(values, above.level).high)
        both = values[BASELINE].keys() & values[CHANGE].keys()
        paired = runs.where(lambda cell: cell.seed in both)
        better, last = self.question.better, look == self.looks[-1]
        word = judged(
            compared,
            margin,
            last=last,
            better=better,
            identical=paired.identical([TASK], CHANGE, BASELINE),
        )
        lost = self._lost(runs, look.seeds)
        reason, chance = lost.reason, None
        if word == "undecided" and not last and compared.low is not None:
            chance = self._chance(values, margin, self.looks.index(look))
            if chance < self.question.futility:
                word = "futile"
                left = f"with {self.looks[-1].seeds} seeds a chance of {chance:.0%} is left"
                reason = reason or left
        failed = {name: _failed(runs, name) for name in (BASELINE, CHANGE)}
        if lost.seeds:
            word = "fails" if lost.fails else "unstable" if CODES[word] == NO_WORSE else word
        if not reason and self.paired and _seedless(values):
            reason = "every seed gives the same number, so the command seems to ignore its {seed}"
        levels = (look.level, above.level)
        reading = Reading(look.seeds, compared.n, *compared.bounds, *levels, word, chance)
        differences = map(operator.sub, *self._in_pairs(values)) if self.paired else ()
        return Verdict(
            *(word, runs.metric, margin, of),
            (*(before[-1].looks if before else ()), reading),
            *(self.looks.seeds, failed, reason, lost.log),
            tuple(differences),
            self.paired,
        )

    def _require_values(self, runs: Scores) -> None:
        if not runs.by_seed(TASK, BASELINE):
            reason = next((c.reason for c in runs.of(TASK, BASELINE) if c.reason), "no value")
            raise UserError(
                f"every run of the baseline failed: {reason} (`ablations status "
                f"{self.question.name}` shows what it printed)"
            )

    def _lost(self, runs: Scores, planned_runs: int) -> Lost:
        """Return the runs of the change that failed; `asked`: how many of each side there are."""
        there = runs.by_seed(TASK, BASELINE)
        lost = tuple(seed for seed in _failed(runs, CHANGE) if seed in there)
        if not lost:
            return Lost()
        first = next(c for c in runs.of(TASK, CHANGE) if c.seed == lost[0])
        reason = f"{len(lost)} of {planned_runs} runs of the change failed ({first.reason})"
        fails = len(lost) >= 2 and 2 * len(lost) >= planned_runs - len(_failed(runs, BASELINE))
        return Lost(lost, fails, reason, _end_of_log(self.results, first.hash))

    def _compared(self, values: Mapping[str, Mapping[int, float]], level: float) -> Comparison:
        ours, theirs = self._in_pairs(values)
        if is_outcome(ours) and is_outcome(theirs):
            return compare_outcomes(ours, theirs, paired=self.paired, level=level)
        return (compare if self.paired else compare_unpaired)(ours, theirs, level=level)

    def _in_pairs(
        self, values: Mapping[str, Mapping[int, float]]
    ) -> tuple[list[float], list[float]]:
        """Return the scores of the change and of the baseline, by seed where they share seeds."""
        if not self.paired:
            return [*values[CHANGE].values()], [*values[BASELINE].values()]
        both = sorted(set(values[BASELINE]) & set(values[CHANGE]))
        return [values[CHANGE][s] for s in both], [values[BASELINE][s] for s in both]

    def _chance(
        self, values: Mapping[str, Mapping[int, float]], margin: float, reached: int
    ) -> float:
        """Return the chance that a later look decides; 1 where runs failed, so that n differ."""
        ours, theirs = self._in_pairs(values)
        if len(ours) != len(theirs) or is_outcome([*ours, *theirs]):
            return 1.0
        numbers = [np.subtract(ours, theirs)] if self.paired else [ours, theirs]
        later = (self.looks[reached + 1 :], self.above[reached + 1 :])
        return float(
            chance_to_pass([*map(Sample.of, numbers)], margin, *later, better=self.question.better)
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

    def described(self, verdict: Verdict) -> dict[str, Json]:
        """Return the verdict as JSON, for whoever decides by it."""
        commit = self.sides.commit
        return {
            "verdict": verdict.word,
            "exit_code": verdict.code,
            "line": f"gate: {verdict.text}",
            "baseline": self.sides.baseline.called,
            "change": self.sides.change.called,
            "commit": commit.name if commit else None,
            "command": list(self.question.line.run),
            "metric": verdict.metric,
            "paired": verdict.paired,
            "margin": verdict.margin,
            "margin_of": verdict.of,
            "rate": self.question.rate,
            "pass_rate": self.question.pass_rate or self.question.rate,
            "futility": self.question.futility,
            "require": "better" if self.question.better else "no worse",
            "seeds_planned": list(verdict.planned),
            "looks": [asdict(reading) for reading in verdict.looks],
            "differences": [d if math.isfinite(d) else None for d in verdict.differences],
            "failed_seeds": {name: list(seeds) for name, seeds in verdict.failed.items()},
            "log": list(verdict.log),
        }

    def write(self, described: Mapping[str, Json]) -> Path:
        """Store a described verdict as JSON; return its path."""
        path = self.results / "gates" / f"{self.question.name}.json"
        write_atomically(path, json.dumps(described, indent=1, allow_nan=False) + "\n")
        return path


def deadline_of(seconds: float | None, since: float | None = None) -> float | None:
    """Return when a bound on the wall time ends, of `time.monotonic`; None: never."""
    if seconds is None:
        return None
    return (time.monotonic() if since is None else since) + seconds


def _failed(runs: Scores, variant: str) -> tuple[int, ...]:
    """Return the seeds of runs that failed or have no value."""
    return tuple(c.seed for c in runs.of(TASK, variant) if c.status in ("failed", "empty"))


def _seedless(values: Mapping[str, Mapping[int, float]]) -> bool:
    """Return whether several seeds of either side are one number, which is no mere outcome."""
    sides = [list(side.values()) for side in values.values()]
    return all(len(side) > 2 and len(set(side)) == 1 and not is_outcome(side) for side in sides)


def _end_of_log(results: Path, cell: str) -> tuple[str, ...]:
    """Return the last lines that a failed run printed."""
    record = read_record(results, cell)
    log = record.provenance.get("log", []) if record else []
    return tuple(map(str, log))


def _require_free(name: str, results: Path) -> None:
    """Raise UserError for a name under which something else than a gate is known or has run."""
    require_name("--name", name)
    known = studies.studies().get(name)
    variants = set(known.variants) if known else set()
    if not known and has_run(results, name):
        variants = set(read_plan(results, name).variants)
    if variants and variants != {BASELINE, CHANGE}:
        raise UserError(f"'{name}' is a study already: give the gate another --name")
