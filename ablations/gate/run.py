"""Runs the stages of a gate, as a study of two variants in a results folder."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from ablations import stats, studies
from ablations.core.plan import Looks
from ablations.engine.backends.command.study_file import TASK
from ablations.engine.local import Processes
from ablations.engine.plan import on_seeds, with_seeds
from ablations.engine.plan import plan as plan_of
from ablations.errors import UserError, count
from ablations.gate.early import chance_to_pass
from ablations.gate.question import (
    ARGUMENTS,
    EXIT_CODES,
    Judgement,
    Outcome,
    Question,
    Sides,
    judged,
)
from ablations.names import require_name
from ablations.records import Plan, has_run, read_plan, read_record, write_atomically
from ablations.request import Request
from ablations.runs import Runs
from ablations.stats import (
    POWER,
    Difference,
    Floats,
    deviation,
    is_outcome,
    sd_interval,
    smallest_margin,
)
from ablations.stats.interim import Stage, design, planned
from ablations.studies import Profile, Study, Variant
from ablations.trainers.command import CODE, CommandTrainer

BASELINE, CHANGE = "baseline", "change"
NOISE_RUNS = (5, 10, 20)  # runs per side for which `gate --noise` states a margin


@dataclass(frozen=True)
class Reading:
    """The result of one stage.

    Attributes:
        seeds: planned for each side.
        pairs: number of paired seeds, or of runs per side if they are not paired.
        difference, low, high: change - baseline, with its interval; the ends are None if all
            differences are the same number.
        chance: the probability that the last stage passes a useful change; None if not computed.
    """

    seeds: int
    pairs: int
    difference: float | None
    low: float | None
    high: float | None
    outcome: Outcome
    verdict: str
    chance: float | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict after a stage.

    Attributes:
        paired: whether the two sides share seeds; otherwise all runs are independent.
        reason: why runs failed, or why the gate ended early.
        decided: whether no further stage is needed.
        margin: in units of the metric.
        margin_of: what the margin is a percentage of, in words.
        failed_seeds: by side.
        log: the last lines that a failed run of the change printed.
    """

    metric: str
    seeds_planned: tuple[int, ...]
    paired: bool
    outcome: Outcome = "undecided"
    verdict: str = "inconclusive"
    note: str = ""
    reason: str = ""
    decided: bool = False
    margin: float | None = None
    margin_of: str = ""
    stages: tuple[Reading, ...] = ()
    failed_seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    log: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """Whether no stage is left."""
        return self.decided or len(self.stages) == len(self.seeds_planned)

    @property
    def code(self) -> int:
        """The exit code."""
        return EXIT_CODES[self.outcome]

    @property
    def text(self) -> str:
        """The verdict in one line."""
        text = {"pass": "passes", "fail": "fails"}.get(self.outcome, self.outcome)
        if self.outcome != "undecided" and self.verdict != "failed":
            text += f", {self.verdict}"
        text += f" ({self.note})" if self.note else ""
        text += f": {self.reason}" if self.reason else ""
        last = self.stages[-1] if self.stages else None
        if last is None or last.difference is None:
            return text
        runs = count(last.pairs, "paired seed" if self.paired else "unpaired run")
        lost = len(self.failed_seeds[BASELINE])
        crashed = f"; {lost} of {last.seeds} runs of the baseline failed" if lost else ""
        return (
            f"{text}: {self.metric} {written(last.difference, last.low, last.high)} on {runs}; "
            f"margin {self.margin:.4g} ({self.margin_of}){crashed}"
        )


class Lost(NamedTuple):
    """Runs of the change that failed on seeds on which the baseline succeeded.

    Attributes:
        fails: whether they are so many that the change fails.
        log: the last lines that the first of them printed.
    """

    number: int = 0
    fails: bool = False
    reason: str = ""
    log: tuple[str, ...] = ()


class Gate:
    """Compares two sides in a results folder, stage by stage."""

    def __init__(
        self,
        question: Question,
        results: Path,
        sides: Sides,
        executor: Processes,
        deadline: float | None = None,
    ):
        """Plan the stages. Raises UserError for a question that cannot be answered.

        A stage that is not finished at the `deadline` (of `time.monotonic`) is not analysed, as
        only planned stages may be. Its runs are stored, and the same call continues from them.
        """
        first, most = question.first_seeds, question.most_seeds
        if not 2 <= first <= most:
            raise UserError(
                f"--first-seeds {first} --most-seeds {most}: at least 2 seeds, and at most as many "
                f"in the first stage as in the last"
            )
        _require_free(question.name, results)
        self.question, self.results, self.sides = question, results, sides
        self.executor, self.deadline = executor, deadline
        self.paired = "seed" in question.line.placeholders()
        seeds = planned(first, most)
        self.above = design(seeds, 2 * question.rate)
        self.stages = design(seeds, 2 * question.passes)
        looks = Looks(tuple(seeds), comparisons=1, over_tasks=0)
        self.plan = msgspec.structs.replace(self._planned(first), looks=looks)

    def _planned(self, seeds: int) -> Plan:
        """Return the plan of a study of the two sides, whose trainer is the command."""
        question, sides = self.question, self.sides
        line = replace(question.line, run=(*question.line.run, f"{{{ARGUMENTS}}}"))
        if "steps" in line.placeholders():
            raise UserError("the command has the placeholder {steps}: write the number instead")
        sites = {"then": sides.baseline.site, "now": sides.change.site}
        trainer = CommandTrainer(
            name=f"command of {question.name}",
            line=line,
            sites=sites,
            tasks=(TASK,),
            repeats=not self.paired,
        )
        # A study needs different variants. This argument never runs: `run` ends before.
        dummy = ["change"] if sides.same else []
        title = f"{sides.change.called} is no worse than {sides.baseline.called}"
        study = Study(
            name=question.name,
            title=title,
            claim=title,
            claim_source="",
            baseline=BASELINE,
            variants={
                BASELINE: Variant({CODE: "then", ARGUMENTS: list(sides.baseline.arguments)}),
                CHANGE: Variant({CODE: "now", ARGUMENTS: [*sides.change.arguments, *dummy]}),
            },
            margin=question.margin.size,
            margin_in_metric=not question.margin.share,
            metric=line.judged,
            trainer=trainer,
            profiles={"quick": Profile(tasks=(TASK,), seeds=seeds)},
        )
        return plan_of(Request(question.name, brought=(study,)))

    def run(self) -> Verdict:
        """Run stage after stage until one decides. Raises UserError."""
        question, sides = self.question, self.sides
        runs_of = "seeds" if self.paired else "unpaired runs (the command has no {seed})"
        self._say(
            f"gate: {sides.change.called} against {sides.baseline.called}\n"
            f"    stages: {', '.join(map(str, self.stages.seeds))} {runs_of} per side\n"
            f"    false passes: at most {100 * question.passes:.3g}%; false alarms: at most "
            f"{100 * question.rate:.3g}%"
        )
        verdict = Verdict(question.line.judged, self.stages.seeds, self.paired)
        if sides.same:
            outcome: Outcome = "fail" if question.better else "pass"
            reason = "both sides have the same files and arguments, so nothing ran"
            same = replace(verdict, outcome=outcome, verdict="equivalent", reason=reason)
            return replace(same, decided=True)
        for stage in self.stages:
            if (runs := self._run(self._with_seeds(stage.seeds, stage.seeds))) is None:
                ended = f"the time was up before the stage of {stage.seeds} seeds ended"
                return replace(verdict, reason=f"{ended}; repeat the command to continue")
            verdict = self._judge(stage, runs, verdict)
            if verdict.final:
                break
            self._say(f"    {stage.seeds} seeds: {verdict.text}")
        return verdict

    def fresh(self, seeds: int) -> tuple[Difference, Lost] | None:
        """Compare both sides at 95% on `seeds` held-out seeds, which no stage uses.

        Returns the difference and the failed runs of the change, or None if time is up.
        """
        most = self.question.most_seeds
        if (runs := self._run(on_seeds(self.plan, range(most, most + seeds)))) is None:
            return None
        return self._difference(_scores(runs), 0.05), self._lost(runs)

    def baseline_scores(self) -> list[float]:
        """Run the baseline on the first stage's seeds. Raises UserError if all runs fail."""
        runs = self._run(self._with_seeds(self.stages.seeds[0], 0))
        if runs is None:
            return []
        self._require_values(runs)
        return list(_scores(runs)[BASELINE].dropna())

    def _say(self, text: str) -> None:
        if not self.executor.quiet:
            print(text, flush=True)

    def _with_seeds(self, baseline: int, change: int) -> Plan:
        return with_seeds(self.plan, {(TASK, BASELINE): baseline, (TASK, CHANGE): change})

    def _run(self, plan: Plan) -> Runs | None:
        """Run a plan; return its runs, or None if time is up before all have ended."""
        over = self.deadline is not None and time.monotonic() >= self.deadline
        if over or self.executor.run([plan], self.results, deadline=self.deadline).stopped:
            return None
        return Runs.read(self.results, plan)

    def _judge(self, stage: Stage, runs: Runs, before: Verdict) -> Verdict:
        self._require_values(runs)
        scores, last = _scores(runs), stage == self.stages[-1]
        margin, margin_of = self._margin(runs)
        above = self.above[len(before.stages)].level
        difference = self._difference(scores, stage.level)
        difference = replace(difference, high=self._difference(scores, above).high)
        lost, absent = self._lost(runs), scores.isna()
        both = runs.where(runs.runs.seed.isin(scores.dropna().index))
        judgement = judged(
            difference,
            margin,
            stage.level,
            last=last,
            better=self.question.better,
            identical=both.identical([TASK], CHANGE, BASELINE),
            more_failures=lost.number or -int((absent[BASELINE] & ~absent[CHANGE]).sum()),
        )
        reason, chance, decided = lost.reason, None, lost.fails or judgement != Judgement()
        if lost.fails:
            judgement = Judgement("fail", "failed")
        elif not decided and not last and not math.isnan(difference.low):
            chance = self._chance(scores, margin)
            decided = chance < self.question.futility
            if decided and not reason:
                most = f"with {self.stages[-1].seeds} seeds"
                reason = f"{most} it would pass with a probability of {chance:.0%}"
        if not reason and self.paired and _seedless(scores):
            reason = "every seed gives the same number; check that the command uses {seed}"
        about = (judgement.outcome, judgement.verdict, chance)
        reading = Reading(stage.seeds, difference.n, *numbers_of(difference), *about)
        return Verdict(
            *(runs.metric, self.stages.seeds, self.paired, *judgement, reason, decided),
            margin=margin,
            margin_of=margin_of,
            stages=(*before.stages, reading),
            failed_seeds={name: absent.index[absent[name]].tolist() for name in absent},
            log=lost.log,
        )

    def _require_values(self, runs: Runs) -> None:
        if _scores(runs)[BASELINE].isna().all():
            reasons = runs.runs.reason[runs.runs.variant == BASELINE]
            raise UserError(
                f"every run of the baseline failed: {next(filter(None, reasons), 'no value')} "
                f"(`ablations status {self.question.name}` shows what it printed)"
            )

    def _lost(self, runs: Runs) -> Lost:
        """Return the failed runs of the change on seeds on which the baseline has a score."""
        scores = _scores(runs)
        seeds = scores.index[scores[CHANGE].isna() & scores[BASELINE].notna()]
        if seeds.empty:
            return Lost()
        run = runs.runs[(runs.runs.variant == CHANGE) & (runs.runs.seed == seeds[0])].iloc[0]
        reason = f"{len(seeds)} of {len(scores)} runs of the change failed ({run.reason})"
        fails = len(seeds) >= 2 and 2 * len(seeds) >= int(scores[BASELINE].count())
        record = read_record(self.results, run.hash)
        log = record.provenance.get("log", []) if record else []
        return Lost(len(seeds), fails, reason, tuple(map(str, log)))

    def _difference(self, scores: pd.DataFrame, level: float) -> Difference:
        ours, theirs = self._sides(scores)
        if is_outcome(ours) and is_outcome(theirs):
            return stats.outcomes(ours, theirs, level, by_seed=self.paired)
        return (stats.paired if self.paired else stats.welch)(ours, theirs, level)

    def _sides(self, scores: pd.DataFrame) -> tuple[Floats, Floats]:
        """Return the scores of the change and of the baseline, on shared seeds if paired."""
        scores = scores.dropna() if self.paired else scores
        return scores[CHANGE].dropna().to_numpy(), scores[BASELINE].dropna().to_numpy()

    def _chance(self, scores: pd.DataFrame, margin: float) -> float:
        """Return the probability that the last stage passes; 1 if it cannot be computed.

        The formula needs equally many runs per side and a continuous score.
        """
        ours, theirs = self._sides(scores)
        if len(ours) != len(theirs) or is_outcome([*ours, *theirs]):
            return 1.0
        sides = [ours - theirs] if self.paired else [ours, theirs]
        last, better = (self.stages[-1], self.above[-1]), self.question.better
        return float(chance_to_pass(sides, margin, *last, better=better))

    def _margin(self, runs: Runs) -> tuple[float, str]:
        """Return the margin in units of the metric, and what it is a percentage of.

        It is computed from the first stage's runs, so that it stays the same at later stages.
        """
        size = self.question.margin.size
        if not self.question.margin.share:
            return size, "in units of the metric"
        percent, learned = f"{100 * size:g}%", runs.size(TASK, BASELINE)
        if not math.isnan(learned):
            return size * learned, f"{percent} of what the baseline learned"
        first = _scores(runs.below(self.stages.seeds[0]))
        mean = abs(float(first[BASELINE].mean()))
        if not 0 < mean < math.inf:
            raise UserError(
                f"{percent} of what? The baseline's runs have no learned range, and their mean is "
                f"{mean:g}: give the margin in units of the metric, such as --margin 0.5"
            )
        return size * mean, f"{percent} of the baseline's mean"

    def write(self, verdict: Verdict) -> tuple[Path, dict[str, Any]]:
        """Store a verdict as JSON; return the file and its content."""
        question = self.question
        described = asdict(verdict) | {
            "exit_code": verdict.code,
            "line": f"gate: {verdict.text}",
            "baseline": self.sides.baseline.called,
            "change": self.sides.change.called,
            "command": list(question.line.run),
            "rate": question.rate,
            "pass_rate": question.passes,
            "futility": question.futility,
            "require": "better" if question.better else "no worse",
        }
        path = self.results / "gates" / f"{question.name}.json"
        write_atomically(path, json.dumps(described, indent=1, allow_nan=False) + "\n")
        return path, described


def stages_table(verdict: Verdict) -> pd.DataFrame:
    """Return a row per stage: the difference, its interval and the outcome."""
    frame = pd.DataFrame([asdict(stage) for stage in verdict.stages])
    frame = frame.rename(columns={"low": "difference_low", "high": "difference_high"})
    frame["chance"] = [f"{x:.0%}" if x == x else "" for x in frame.chance.astype(float)]
    margin = f"; margin {verdict.margin:.4g} ({verdict.margin_of})" if verdict.margin else ""
    caption = (
        f"{verdict.metric}, change minus baseline{margin}. The intervals of all stages are "
        f"simultaneous. Chance: the probability that the last stage passes a useful change."
    )
    frame.attrs = {"study": "gate", "caption": caption}
    return frame


def noise(metric: str, scores: Sequence[float], rate: float) -> pd.DataFrame:
    """Return the smallest margin that 5, 10 and 20 runs per side can decide, with its interval.

    Args:
        metric: the name of the scores.
        scores: of two or more runs of one command `[n]`.
        rate: of false passes.
    """
    n = len(scores)
    sd, mean = float(deviation(scores)), sum(scores) / n
    low, high = sd_interval(n, sd) if sd else (0.0, 0.0)
    frame = pd.DataFrame({"runs": NOISE_RUNS})
    for column, of in (("margin", sd), ("margin_low", low), ("margin_high", high)):
        frame[column] = [smallest_margin(runs, of, rate) if of else 0.0 for runs in NOISE_RUNS]
    frame["percent_of_the_mean"] = 100 * frame.margin / abs(mean) if mean else float("nan")
    interval = f" [{low:.3g}, {high:.3g}]" if sd else ""
    frame.attrs["study"] = "noise"
    frame.attrs["caption"] = (
        f"{n} runs of one command: {metric} {mean:.4g}, standard deviation {sd:.3g}{interval}. "
        f"Margin: the smallest margin with which this number of unpaired runs per side passes a "
        f"change without effect with a probability of {POWER:.0%}. A change that is worse by the "
        f"margin passes with a probability of at most {rate:.0%}."
    )
    return frame


def numbers_of(difference: Difference) -> tuple[float | None, float | None, float | None]:
    """Return a difference and the ends of its interval, with None for NaN."""
    numbers = (difference.difference, difference.low, difference.high)
    value, low, high = (None if math.isnan(number) else number for number in numbers)
    return value, low, high


def written(difference: float, low: float | None, high: float | None) -> str:
    """Write a difference and its interval."""
    return f"{difference:+.4g}" + ("" if low is None else f" [{low:+.4g}, {high:+.4g}]")


def _scores(runs: Runs) -> pd.DataFrame:
    """Return a row per seed and a column per side; NaN: the run failed."""
    return runs.scores[TASK].reindex(columns=[BASELINE, CHANGE])


def _seedless(scores: pd.DataFrame) -> bool:
    """Return whether all seeds of a side give the same number, other than 0 or 1, on both sides."""
    sides = [scores[name].dropna() for name in scores]
    return all(len(x) > 2 and x.nunique() == 1 and not is_outcome(x) for x in sides)


def _require_free(name: str, results: Path) -> None:
    require_name("--name", name)
    stored = set(read_plan(results, name).variants) if has_run(results, name) else ()
    if name in studies.studies() or (stored and stored != {BASELINE, CHANGE}):
        raise UserError(f"'{name}' is a study already: give the gate another --name")
