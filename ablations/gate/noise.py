"""`ablations gate --noise`: the spread over runs of one command, and the margins it allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ablations.engine.backends.command.code import digest_of, place_of
from ablations.engine.backends.command.study_file import code_of
from ablations.errors import UserError
from ablations.gate.question import command_plan
from ablations.gate.run import Execution
from ablations.names import require_name
from ablations.records import Plan
from ablations.runs import Runs
from ablations.stats import POWER, deviation, sd_interval, smallest_margin
from ablations.studies import Variant
from ablations.trainers.command import CODE, Line, Site

RUNS = (5, 10, 20)  # runs per side for which the table states a margin


def noise_plan(
    line: Line,
    here: Path,
    runs: int,
    name: str,
    steps: int | None,
    timeout: float | None,
    depends: Sequence[str] | None = None,
) -> Plan:
    """Return the plan of `runs` runs of the command in the folder `here`. Raises UserError."""
    require_name("--name", name)
    if runs < 2:
        raise UserError(f"--first-seeds {runs}: a standard deviation needs at least 2 runs")
    code = code_of(line, here, depends)
    sites = {"now": Site(digest_of(code.files(), here), place_of(code, timeout))}
    variants = {"runs": Variant({CODE: "now"})}
    return command_plan(name, "Runs of one command", line, sites, variants, runs, steps)


def measure(plan: Plan, results: Path, how: Execution, rate: float) -> pd.DataFrame:
    """Run the missing runs of a plan; return the table of `noise`. Raises UserError."""
    runs = how.run(plan, results) or Runs.read(results, plan)
    scores = runs.runs.score.dropna().tolist()
    if len(scores) < 2:
        reason = next((text for text in runs.runs.reason if text), "no value")
        raise UserError(f"{len(scores)} of {len(plan.cells)} runs have a value: {reason}")
    return noise(runs.metric, scores, rate)


def noise(metric: str, scores: Sequence[float], rate: float) -> pd.DataFrame:
    """Return the smallest margin that 5, 10 and 20 runs per side can decide, with its interval.

    Args:
        metric: the name of the scores.
        scores: of runs of one command `[n]`.
        rate: of false passes.
    """
    n, sd, mean = len(scores), float(deviation(scores)), sum(scores) / len(scores)
    low, high = sd_interval(n, sd) if sd else (0.0, 0.0)
    frame = pd.DataFrame({"runs": RUNS})
    for column, of in (("margin", sd), ("margin_low", low), ("margin_high", high)):
        frame[column] = [smallest_margin(runs, of, rate) if of else 0.0 for runs in RUNS]
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
