"""`ablations gate --noise`: how far runs of one command part, and what so many of them can decide.

For n runs of either side with standard deviation σ, a change of no effect passes as *no worse* with
a chance of 80% where the margin m solves P(d - t s√(2/n) > -m) = 0.8, with d normal of variance
2σ²/n, s the pooled deviation of 2(n-1) degrees of freedom, and t the Student quantile of the rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ablations.distributions import chi_squared_quantile, normal_cdf, student_quantile
from ablations.errors import UserError
from ablations.names import require_name
from ablations.records import Plan
from ablations.report.results import Results
from ablations.report.scores import scores
from ablations.report.statistics.power import POWER, deviations
from ablations.report.tables.entries import Column, Sheet, Values
from ablations.request import Request
from ablations.studies import Profile, Study, Variant
from ablations.sweep.backends.command.code import digest_of
from ablations.sweep.backends.command.repository import place_of
from ablations.sweep.backends.command.study_file import TASK, code_of
from ablations.sweep.local import Processes
from ablations.sweep.plan import plan as planned
from ablations.trainers.command import CODE, CommandTrainer, Line, Site

RUNS = (5, 10, 20)  # of either side, for which margins are said
_NODES = 512


@dataclass(frozen=True)
class Noise:
    """The scores of runs of one command.

    values: `[n]`, one a run. metric: their name.
    """

    metric: str
    values: tuple[float, ...]
    rate: float

    @property
    def deviation(self) -> float:
        """The standard deviation between runs."""
        return float(np.std(self.values, ddof=1))

    @property
    def mean(self) -> float:
        """The mean of the runs."""
        return float(np.mean(self.values))


def noise_plan(
    line: Line,
    here: Path,
    runs: int,
    name: str,
    steps: int | None,
    timeout: float | None,
    depends: Sequence[str] | None = None,
) -> Plan:
    """Return the plan of so many runs of a command, as it lies in a folder. Raises UserError."""
    require_name("--name", name)
    if runs < 2:
        raise UserError(f"a spread needs two runs or more: --first-seeds 2, not {runs}")
    code = code_of(line, here, {"depends": None if depends is None else list(depends)}, None)
    site = Site(digest_of(code.files(), here), place_of(code, timeout))
    trainer = CommandTrainer(f"command of {name}", line, {"now": site}, (TASK,), repeats=True)
    study = Study(
        name=name,
        title="Runs of one command",
        claim="",
        claim_source="",
        baseline="runs",
        variants={"runs": Variant({CODE: "now"})},
        margin=0.05,
        metric=line.judged,
        trainer=trainer,
        profiles={"quick": Profile(tasks=(TASK,), seeds=runs, steps=steps)},
    )
    return planned(Request(name, brought=(study,)))


def measure(plan: Plan, results: Path, executor: Processes, rate: float) -> Noise:
    """Run what is missing of a plan and return its scores. Raises UserError for fewer than two."""
    executor.run([plan], results)
    found = scores(Results(plan, results))
    values = tuple(found.by_seed(TASK, "runs").values())
    if len(values) < 2:
        reason = next((cell.reason for cell in found.of(TASK, "runs") if cell.reason), "no value")
        raise UserError(f"{len(values)} of {len(plan.cells)} runs have a value: {reason}")
    return Noise(found.metric, values, rate)


def smallest_margin(n: int, deviation: float, rate: float) -> float:
    """Return the margin at which n runs of either side pass a change of no effect with 80% chance.

    Args:
        n: runs of either side, unpaired.
        deviation: between runs.
        rate: of false passes.
    """
    freedom = 2 * (n - 1)
    error = deviation * math.sqrt(2 / n)
    even = (np.arange(_NODES) + 0.5) / _NODES
    spread = np.sqrt(chi_squared_quantile(freedom, even) / freedom)
    reach = -student_quantile(freedom, rate) * spread

    def passes(margin: float) -> bool:
        return bool(np.mean(normal_cdf(margin - reach)) >= POWER)

    return error * _least(passes)


def _least(passes: Callable[[float], bool]) -> float:
    high = 1.0
    while not passes(high):
        high *= 2
    low = 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def noise_sheet(noise: Noise) -> Sheet:
    """Describe the spread, with its 95% interval, and what so many runs can decide."""
    n, deviation = len(noise.values), noise.deviation
    low, high = deviations(n, deviation, 0.05) if deviation else (0.0, 0.0)
    rows: list[Values] = []
    for runs in RUNS:
        margins = [
            smallest_margin(runs, one, noise.rate) if one else 0.0 for one in (deviation, low, high)
        ]
        percent = 100 * margins[0] / abs(noise.mean) if noise.mean else None
        rows.append((runs, *margins, percent))
    between = f" [{low:.3g}, {high:.3g}]" if deviation else ""
    return Sheet(
        "noise",
        "noise",
        f"{n} runs of one command: {noise.metric} {noise.mean:.4g}, standard deviation "
        f"{deviation:.3g}{between} between them. Below: the smallest margin at which so many runs "
        f"of either side, unpaired, pass a change without effect with {POWER:.0%} chance, while "
        f"one that is worse by the margin passes at most {noise.rate:.0%} of the time; in brackets "
        f"what the interval of the deviation leaves open.",
        ("runs", "margin", "margin_low", "margin_high", "percent"),
        tuple(rows),
        (
            Column("runs of each", "count", ("runs",)),
            Column("smallest margin", "estimate", ("margin", "margin_low", "margin_high")),
            Column("[95%]", "interval", ("margin", "margin_low", "margin_high")),
            Column("% of the mean", "fixed", ("percent",), places=1),
        ),
    )
