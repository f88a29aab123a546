"""`ablations exam`: whether a baseline learns enough on a task for the task to judge a detail.

A task passes at a length and a learning rate where the baseline's score

    exceeds the better of doing nothing and random actions by `LEAD` standard deviations between
    seeds or more,
    is at least `PLACE` of the way from there to the best score that the exam has seen, and
    lies at a ceiling on at most `AT_CEILING` of the seeds.

The score is the mean of the last three of ten evaluations. The rule looks at baselines and at
policies that learn nothing, never at a difference between variants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from ablations.errors import UserError, count
from ablations.records import Plan, read_runs
from ablations.report.tables.entries import Column, Sheet, number
from ablations.request import Request
from ablations.sweep.plan import plan
from ablations.tasks import task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Curve = tuple[NDArray[np.int64], NDArray[np.float64]]

METRIC = "evaluation/return"
EVALUATIONS, LAST = 10, 3  # of a run; those that its score is the mean of
LENGTHS = 3  # thirds of the longest run
SPACED = LENGTHS * EVALUATIONS  # evaluations of the longest run
LEAD, PLACE, AT_CEILING = 5.0, 0.5, 0.2
NEAR_CEILING = 0.005  # of the unit
SLOPE = 0.05  # of the unit, over the last fifth: below, the baseline has levelled off
RATES = (3e-4, 1e-3, 3e-3)
SEEDS = tuple(range(1000, 1005))  # of tuning, which no table reports


@dataclass(frozen=True)
class Candidate:
    """A baseline on a task, trained for `steps`.

    scores: of the seeds that ended well. failed: how many did not. rise: mean over seeds of the
    last evaluation minus the one at four fifths of the run.
    """

    task: str
    variant: str
    steps: int
    scores: tuple[float, ...]
    failed: int
    rise: float

    @property
    def mean(self) -> float:
        """Return the mean score, NaN without one."""
        return fmean(self.scores) if self.scores else math.nan

    @property
    def deviation(self) -> float:
        """Return the standard deviation between seeds, NaN for fewer than two."""
        return stdev(self.scores) if len(self.scores) > 1 else math.nan


@dataclass(frozen=True)
class Task:
    """What an exam knows of a task: scores of policies that learn nothing, and of candidates."""

    name: str
    trivial: Mapping[str, float]
    candidates: tuple[Candidate, ...]

    @cached_property
    def floor(self) -> float:
        """Return the score of the better policy that learns nothing."""
        return max(self.trivial.values())

    @cached_property
    def best(self) -> float:
        """Return the highest mean score of a candidate."""
        return max((one.mean for one in self.candidates if one.scores), default=math.nan)

    @cached_property
    def _highest(self) -> float:
        return max((max(one.scores) for one in self.candidates if one.scores), default=math.nan)

    def unit(self, candidate: Candidate) -> float:
        """Return what the candidate learned beyond doing nothing, the unit of effects."""
        return candidate.mean - self.floor

    def lead(self, candidate: Candidate) -> float:
        """Return the unit in standard deviations between seeds."""
        return self.unit(candidate) / candidate.deviation if candidate.deviation else math.inf

    def place(self, candidate: Candidate) -> float:
        """Return the share of the way from doing nothing to the best score."""
        return self.unit(candidate) / (self.best - self.floor)

    def at_ceiling(self, candidate: Candidate) -> float:
        """Return the share of seeds within `NEAR_CEILING` of the highest score, where that is
        shared: a single highest seed is no ceiling."""
        near = NEAR_CEILING * abs(self._highest - self.floor)
        scores = [s for one in self.candidates for s in one.scores if self._highest - s <= near]
        own = [s for s in candidate.scores if self._highest - s <= near]
        return len(own) / len(candidate.scores) if len(scores) > 1 else 0.0

    def slope(self, candidate: Candidate) -> float:
        """Return what the last fifth of training gained, as a share of the unit."""
        return candidate.rise / self.unit(candidate)

    def complaints(self, candidate: Candidate) -> list[str]:
        """Return what keeps the task from judging with this candidate; [] where it passes."""
        if candidate.failed:
            return [count(candidate.failed, "run") + " failed"]
        if len(candidate.scores) < 2:
            return ["fewer than two seeds"]
        said = []
        if self.unit(candidate) <= 0:
            return ["no better than doing nothing"]
        if self.lead(candidate) < LEAD:
            said.append(f"{self.lead(candidate):.1f} of {LEAD:g} deviations above doing nothing")
        if self.place(candidate) < PLACE:
            said.append(f"{100 * self.place(candidate):.0f}% of the way to the best")
        if self.at_ceiling(candidate) > AT_CEILING:
            said.append(f"{100 * self.at_ceiling(candidate):.0f}% of seeds at a ceiling")
        return said


def requests(
    tasks: Sequence[str],
    *,
    rates: Sequence[float] = RATES,
    presets: Sequence[str] = (),
    seeds: Sequence[int] = SEEDS,
    steps: int | None = None,
    profile: str = "paper",
    settings: Mapping[str, Any] | None = None,
) -> list[Request]:
    """Return what an exam runs: trivial policies, the baseline at each rate, and presets.

    steps: of the longest run; None: each task's own. settings: of the baseline; those of a task are
    the trivial policies' and the presets' too.
    """
    given = dict(settings or {})
    own = {name for one in tasks for name in task(one).settings}
    of_task = {name: value for name, value in given.items() if name in own}
    common: dict[str, Any] = {
        "profile": profile,
        "tasks": tuple(tasks),
        "seeds": tuple(seeds),
        "steps": steps,
    }
    run = {"evaluations": SPACED, "points": SPACED}
    trained = {**common, "set": {**given, **run}, "variants": ("baseline",)}
    if len(rates) > 1:
        trained["vary"] = {"learning_rate": tuple(rates)}
    elif rates:
        trained["set"] = {**trained["set"], "learning_rate": rates[0]}
    asked = [
        Request("trivial_policies", **common, set={**of_task, **run}),
        Request("exam", **trained),
    ]
    if presets:
        of_presets = {**common, "variants": tuple(presets), "set": {**of_task, **run}}
        asked.append(Request("exam", **of_presets))
    return asked


def plans(asked: Sequence[Request]) -> list[Plan]:
    """Return the plans of an exam. Raises UserError for what makes no sense, and for runs that are
    too short for its evaluations."""
    planned = [plan(request) for request in asked]
    for cell in (cell for made in planned for cell in made.cells):
        run = cell.config["run"]
        if run["evaluations"] < SPACED:
            steps = SPACED * run["iteration_steps"]
            raise UserError(
                f"an exam evaluates {SPACED} times, and a run of this length on {cell.task} has "
                f"room for {run['evaluations']}: give --steps {steps} or more"
            )
    return planned


def results_of(planned: Sequence[Plan], results: Path) -> list[Task]:
    """Return what the records say of each task; cells that have not run are left out."""
    trivial, *trained = [(made, _curves(made, results)) for made in planned]
    return [
        Task(
            name,
            {
                policy: fmean(values.mean() for _, values in curves)
                for policy in trivial[0].variants
                if (curves := [one for one in trivial[1].get((name, policy), []) if one])
            },
            tuple(
                one
                for made, curves in trained
                for variant in made.variants
                for one in _candidates(name, variant, curves.get((name, variant), []))
            ),
        )
        for name in trivial[0].tasks
    ]


def _candidates(name: str, variant: str, curves: Sequence[Curve | None]) -> Iterator[Candidate]:
    """Yield a variant at each third of its runs; one without scores where all of them failed."""
    ended = [one for one in curves if one is not None]
    failed = len(curves) - len(ended)
    if failed and not ended:
        yield Candidate(name, variant, 0, (), failed, math.nan)
    for third in range(1, LENGTHS + 1) if ended else ():
        # Ten evaluations of a run of this length are as many apart as it has thirds.
        kept = [values[: third * EVALUATIONS][third - 1 :: third] for _, values in ended]
        yield Candidate(
            name,
            variant,
            int(ended[0][0][third * EVALUATIONS - 1]),
            tuple(float(values[-LAST:].mean()) for values in kept),
            failed,
            fmean(float(values[-1] - values[-1 - EVALUATIONS // 5]) for values in kept),
        )


def _curves(made: Plan, results: Path) -> dict[tuple[str, str], list[Curve | None]]:
    """Return the steps and returns `[n]` of all evaluations of each cell that has run, by task and
    variant; None for one that failed, or has an evaluation that is no number."""
    import numpy as np

    found: dict[tuple[str, str], list[Curve | None]] = {}
    for cell, record, columns in read_runs(results, made):
        if record is None:
            continue
        values = np.array([np.nan if v is None else v for v in columns.get(METRIC, ())], float)
        seen = np.isfinite(values)
        whole = record.status == "done" and seen.sum() == SPACED
        curve = (np.asarray(columns["step"])[seen], values[seen]) if whole else None
        found.setdefault((cell.task, cell.variant), []).append(curve)
    return found


def sheet(made: Sequence[Task]) -> Sheet:
    """Return the table of an exam: a row for each task, candidate and length."""
    rows = []
    for one in made:
        for policy, score in one.trivial.items():
            rows.append((one.name, f"({policy})", None, score, *[None] * 6, "learns nothing"))
        for candidate in one.candidates:
            complaints = one.complaints(candidate)
            rows.append(
                (
                    one.name,
                    candidate.variant,
                    candidate.steps,
                    number(candidate.mean),
                    number(candidate.deviation),
                    number(one.lead(candidate)),
                    number(100 * one.place(candidate)),
                    100 * one.at_ceiling(candidate),
                    number(100 * one.slope(candidate)),
                    len(candidate.scores),
                    "; ".join(complaints) or "passes",
                )
            )
    columns = (
        *("task", "variant", "steps", "mean", "deviation", "lead", "place", "ceiling"),
        *("slope", "seeds", "verdict"),
    )
    shown = (
        Column("task", "text", ("task",)),
        Column("variant", "text", ("variant",)),
        Column("steps", "count", ("steps",)),
        Column("mean", "fixed", ("mean",)),
        Column("SD", "fixed", ("deviation",)),
        Column("SDs above trivial", "fixed", ("lead",), places=1),
        Column("% of the way", "fixed", ("place",)),
        Column("% at ceiling", "fixed", ("ceiling",)),
        Column("last fifth, %", "fixed", ("slope",), sign="+"),
        Column("seeds", "count", ("seeds",)),
        Column("verdict", "text", ("verdict",)),
    )
    return Sheet("exam", "exam", _CAPTION, columns, tuple(rows), shown)


_CAPTION = (
    f"mean of the last {LAST} of {EVALUATIONS} evaluations. A task passes where the baseline is "
    f"{LEAD:g} standard deviations between seeds or more above the better of doing nothing (zero) "
    f"and random actions (uniform), at least {100 * PLACE:.0f}% of the way from there to the best "
    f"score of this table, and at a ceiling on at most {100 * AT_CEILING:.0f}% of its seeds. Last "
    f"fifth: what the mean gained over it, in % of the unit (mean minus the better policy that "
    f"learns nothing); above {100 * SLOPE:.0f}% answers say at how many steps they hold."
)
