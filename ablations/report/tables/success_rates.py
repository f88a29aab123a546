"""Tell which tasks of a table have success rates as scores, and write how these are judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ablations.report.scores import Scores
from ablations.report.statistics.rates import are_successes
from ablations.report.units import Units


def successes(scored: Scores, learned: Units, task: str) -> bool:
    """Return whether every score of a task is a run's success or failure; see `are_successes`.

    Of a metric that is no score, 1 is no success.
    """
    return learned.judged and are_successes(scored.values.get(task, ()))


def all_successes(scored: Scores, learned: Units, places: Iterable[str]) -> bool:
    """Return whether all rows have success rates; those of "all tasks" have means of them."""
    return all(successes(scored, learned, place) for place in places)


def success_sentence(scored: Scores, learned: Units, tasks: Iterable[str]) -> Iterator[str]:
    """Write how successes are judged, and on which tasks where others have other scores."""
    rates = {task: successes(scored, learned, task) for task in tasks}
    if any(rates.values()):
        where = "" if all(rates.values()) else f" on {', '.join(t for t in rates if rates[t])}"
        yield (
            f"Scores of 0 and 1{where} are successes of runs and judged exactly: a rate has "
            "Clopper and Pearson's interval, a difference that of the seeds that both have and on "
            "which they differ, and p and \u2020 are of McNemar's test."
        )
