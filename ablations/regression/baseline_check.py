"""Checks of a stored baseline of studies: by its scores, or bit by bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ablations.errors import UserError
from ablations.regression.baselines import Baseline, Group
from ablations.regression.check import Check, SequentialCheck, Terms, Wanted, check
from ablations.regression.curves import Curves, first_difference, require_same_steps


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
        """True where no bit differs."""
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


def planned(baseline: Baseline, terms: Terms) -> dict[str, SequentialCheck]:
    """Return the check of each group, in its own direction. Raises UserError."""
    return {
        name: SequentialCheck.of(group.curves, _terms_of(group, terms))
        for name, group in baseline.groups.items()
    }


def check_given(baseline: Baseline, terms: Terms, given: Mapping[str, Curves]) -> dict[str, Check]:
    """Check all groups against curves that are there already."""
    return {
        name: check(group.curves, given[name], _terms_of(group, terms))
        for name, group in baseline.groups.items()
    }


def _terms_of(group: Group, terms: Terms) -> Terms:
    return replace(terms, higher_is_better=group.higher_is_better)
