"""Controls: what must come out, for the answers beside it to be trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ablations.core.verdict import Answer, answer
from ablations.errors import count
from ablations.report.questions.entries import Control, Task, core_hours
from ablations.report.questions.measures import (
    FEWEST,
    Bound,
    answering,
    bound_ends,
    difference,
)
from ablations.report.questions.words import hours_text, share_text
from ablations.report.results import Results
from ablations.report.scores import Scores
from ablations.report.statistics import Design, Floats
from ablations.report.statistics.fractions import dummy_details, unused_effects
from ablations.report.statistics.unpaired import Moments, welch
from ablations.report.tables.factorial import factorial, factorial_scores

PLANTED = 0.2  # of the unit, which has to be found
SPLITS = 1000  # of seeds, by lot
FALSE = 0.061  # most false shares of so many: 5%, and 1.64 of their standard errors
FOUND = 0.95  # least share of planted losses that are found over all splits


class Part(NamedTuple):
    """The outcome of a control on a task, in words, and whether it is as it must be.

    kept: None while a planted loss is missed and seeds of the design have not run.
    """

    text: str
    kept: bool | None


@dataclass(frozen=True)
class Outcome:
    """A control and what came out of it.

    parts: by task. waiting: what it takes, in words, where it has not run.
    """

    control: Control
    parts: Mapping[str, Part]
    waiting: str = ""

    @property
    def kept(self) -> bool | None:
        """Return whether all is as wanted, None where it has not run, or not all of it."""
        kept = [part.kept for part in self.parts.values()]
        return False if False in kept else None if None in kept or not kept else True


def outcome(
    control: Control, results: Results | None, tasks: Mapping[str, Task], planned: int
) -> Outcome:
    """Judge a control on each of its tasks that passed the exam, those of fractions over all too.

    Args:
        control: to be judged.
        results: of its design, None where nothing was planned.
        tasks: all tasks of the file.
        planned: cells of the design on each task; seeds of a fraction.
    """
    named = [tasks[name].as_run for name in control.tasks]
    parts: dict[str, Part] = {}
    if results is not None:
        passed = {t.name: t.unit for t in named if t.unit and t.name in results.plan.tasks}
        found = answering(results, [t for t in named if t.exam])
        if control.kind in _OF_FRACTIONS:
            parts = _of_fraction(control, results, found, passed, planned)
        else:
            judge = {"disjoint": _disjoint, "difference": _different}[control.kind]
            parts = {
                task: part
                for task, unit in passed.items()
                if (part := judge(control, found, task, unit)) is not None
            }
    if parts:
        return Outcome(control, parts)
    if control.kind in _OF_FRACTIONS:
        return Outcome(control, {}, "not run yet: takes two seeds of every setting on a task")
    cost = sum(core_hours(task, planned) for task in named)
    return Outcome(control, {}, f"not run yet: costs about {hours_text(cost)} core-hours")


def _disjoint(control: Control, found: Scores, task: str, unit: float) -> Part | None:
    """Compare the first half of a variant's seeds with the second, and halves by lot."""
    values = np.array([value for _, value in sorted(found.by_seed(task, control.variant).items())])
    half = len(values) // 2
    if half < FEWEST:
        return None
    first = _halves(values / unit, half)
    if first.low is None:
        return None
    random = np.random.default_rng(0)
    others = [_halves(random.permutation(values / unit), half) for _ in range(SPLITS)]
    false = sum(map(_told, others)) / SPLITS
    text = f"{share_text(first)}, {half} seeds each; {_false_text(false)}"
    return Part(text, not _told(first) and false <= FALSE)


def _halves(values: Floats, half: int) -> Bound:
    compared = welch(Moments.of(values[:half]), Moments.of(values[half : 2 * half]))
    return Bound(compared.difference or 0.0, compared.low, compared.high)


def _told(bound: Bound) -> bool:
    """Return whether an interval excludes 0, so that its answer is Yes or The reverse."""
    return answer(*bound_ends(bound)) in (Answer.YES, Answer.YES_SMALL)


def _false_text(share: float) -> str:
    return f"of {SPLITS:,} random splits {100 * share:.1f}% are false"


def _different(control: Control, found: Scores, task: str, unit: float) -> Part | None:
    """Compare two variants, which must not come out as equal."""
    pair = (control.variant, control.versus)
    bound = difference(found, [task], {task: unit}, pair).bound
    if bound is None or bound.low is None:
        return None
    return Part(share_text(bound), answer(*bound_ends(bound)) is not Answer.NO)


def _of_fraction(
    control: Control, results: Results, found: Scores, units: Mapping[str, float], planned: int
) -> dict[str, Part]:
    """Judge a control of a fraction on each task, and over those that have the seeds."""
    design = factorial(results.plan)
    if design is None:
        return {}
    judge, fewest = _OF_FRACTIONS[control.kind]

    def in_units(tasks: Sequence[str]) -> Floats:
        sizes = {(task, v): units[task] for task in tasks for v in design.variants}
        return factorial_scores(found, design, tasks, sizes)

    alone = {task: y for task in units if (y := in_units([task])).shape[1] >= fewest}
    places = {**alone, "mean over tasks": in_units(list(alone))} if len(alone) > 1 else alone
    parts = {}
    for place, y in places.items():
        if (part := judge(y, design)) is None:
            continue
        waits = control.kind == "planted" and not part.kept and y.shape[1] < planned
        parts[place] = part._replace(kept=None) if waits else part
    return parts


def _dummies(y: Floats, design: Design) -> Part | None:
    """Judge dummy details, none of which may come out as told."""
    judged = dummy_details(y, design, SPLITS)
    if np.isnan(judged).any():
        return None
    outside = _excluded(judged)
    false = float(outside[1:].any(axis=1).mean())
    text = (
        f"{_outside(outside[0])}, {_reach(judged[0])}, "
        f"{count(y.shape[1], 'seed')}; {_false_text(false)}"
    )
    return Part(text, not outside[0].any() and false <= FALSE)


def _planted(y: Floats, design: Design) -> Part | None:
    """Count the dummy details in which a loss of `PLANTED` is found.

    A loss that is taken off the scores of a detail's runs moves its estimate and neither of its
    errors, which are those of what the details leave.
    """
    judged = dummy_details(y, design, SPLITS)
    if np.isnan(judged).any():
        return None
    caught = judged[..., 2] < PLANTED
    first, others = int(caught[0].sum()), float(caught[1:].mean())
    text = (
        f"found in {first} of {judged.shape[1]}, and in {100 * others:.1f}% of those of "
        f"{SPLITS:,} random splits, {count(y.shape[1], 'seed')}"
    )
    return Part(text, bool(caught[0].all()) and others >= FOUND)


def _unused(y: Floats, design: Design) -> Part | None:
    """Judge the columns that neither a detail nor two have."""
    effects = [c for _, c in unused_effects(y, design) if c.low is not None]
    if not effects:
        return None
    bounds = np.array([(c.difference, c.low, c.high) for c in effects], float)
    outside = _excluded(bounds)
    text = f"{_outside(outside)}, {_reach(bounds)}, {count(y.shape[1], 'seed')}"
    return Part(text, not outside.any())


def _excluded(bounds: Floats) -> NDArray[np.bool_]:
    """Return which of the intervals `[..., 3]` exclude 0."""
    return np.asarray((bounds[..., 1] > 0) | (bounds[..., 2] < 0))


def _outside(outside: NDArray[np.bool_]) -> str:
    """Write how many intervals exclude 0."""
    several = int(outside.sum())
    return f"{several or 'none'} of {outside.size} exclude{'s' * (several < 2)} 0"


def _reach(bounds: Floats) -> str:
    """Write how far intervals `[..., 3]` in shares of the unit reach."""
    return (
        f"intervals reach {100 * bounds[..., 1].min():+.0f} to {100 * bounds[..., 2].max():+.0f}%"
    )


# How each is judged, and of how many seeds at least.
_OF_FRACTIONS: Mapping[str, tuple[Callable[[Floats, Design], Part | None], int]] = {
    "dummies": (_dummies, FEWEST),
    "planted": (_planted, FEWEST),
    "unused": (_unused, 1),
}
