"""Checks of a stored baseline of studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ablations.regression.baselines import Baseline, Group
from ablations.regression.check import Check, SequentialCheck, Terms, check
from ablations.regression.curves import Curves


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
