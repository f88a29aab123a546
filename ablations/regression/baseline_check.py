"""Checks a stored baseline of studies: by its scores, or bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ablations.errors import UserError, unless_missing
from ablations.regression.baselines import Baseline
from ablations.regression.check import (
    Check,
    SequentialCheck,
    Terms,
    Wanted,
    check,
    layout,
    play_checks,
)
from ablations.regression.curves import Curves, first_difference, require_same_steps
from ablations.regression.design import Design

Train = Callable[[Wanted], Mapping[str, Curves]]


@dataclass(frozen=True)
class Bits:
    """A bitwise comparison.

    shared: number of seeds compared. failed: seed and reason of a new run without a curve. differs:
    seed and step of the first difference.
    """

    shared: int = 0
    failed: tuple[int, str] | None = None
    differs: tuple[int, float] | None = None

    @property
    def identical(self) -> bool:
        """Whether no bit differs."""
        return self.failed is None and self.differs is None


def first_seeds(baseline: Baseline) -> Wanted:
    """Return the first seed of every group: enough to see whether the bits are the same."""
    return {name: group.curves.seeds[:1] for name, group in baseline.groups.items()}


def bits(baseline: Baseline, given: Mapping[str, Curves]) -> Iterator[tuple[str, Bits]]:
    """Yield the bitwise comparison of each group. Raises UserError where no seed is shared."""
    for name, group in baseline.groups.items():
        now = given[name]
        if now.failed:
            yield name, Bits(failed=next(iter(now.failed.items())))
            continue
        require_same_steps(now, group.curves)
        shared = [seed for seed in now.seeds if seed in group.curves.seeds]
        if not shared:
            raise UserError(f"{name}: no seed in common with the baseline: nothing to compare")
        yield name, Bits(len(shared), differs=first_difference(now, group.curves))


def terms_of(baseline: Baseline, terms: Terms) -> dict[str, Terms]:
    """Return the terms of each group, in its own direction."""
    return {
        name: replace(terms, higher_is_better=group.higher_is_better)
        for name, group in baseline.groups.items()
    }


def layouts(baseline: Baseline, terms: Mapping[str, Terms]) -> dict[str, tuple[Design, float]]:
    """Return the design and the unit of each group."""
    return {name: layout(group.curves, terms[name]) for name, group in baseline.groups.items()}


def check_all(baseline: Baseline, terms: Mapping[str, Terms], train: Train) -> dict[str, Check]:
    """Check all groups side by side, training seeds while they are undecided."""
    tests = {
        name: SequentialCheck(baseline.groups[name].curves, terms[name], *planned)
        for name, planned in layouts(baseline, terms).items()
    }
    return play_checks(tests, train)


def check_given(
    baseline: Baseline, terms: Mapping[str, Terms], given: Mapping[str, Curves]
) -> dict[str, Check]:
    """Check all groups against curves that are there already."""
    return {
        name: check(group.curves, given[name], terms[name])
        for name, group in baseline.groups.items()
    }


def draw(
    folder: Path, name: str, baseline: Baseline, checks: Mapping[str, Check]
) -> Path | UserError:
    """Draw the checks of a baseline; return the file, or the error for a missing extra."""

    def written() -> Path:
        from ablations.regression import figures

        metrics = {where: group.metric for where, group in baseline.groups.items()}
        return figures.write(folder, f"{name}_curves", name, checks, metrics, ("svg", "png"))[-1]

    try:
        return unless_missing(written)
    except OSError as error:
        raise UserError(f"cannot write to '{folder}': {error.strerror}") from None
