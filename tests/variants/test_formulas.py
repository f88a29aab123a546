"""Every formula against its oracles and identities."""

from __future__ import annotations

import advantage_checks
import gradient_checks
import pytest
import statistics_checks
import value_checks

import variants.advantage
import variants.advantage_statistics
import variants.gradient_clip
import variants.value_clip
import variants.value_error


def named(checks):
    return pytest.mark.parametrize("check", checks, ids=lambda check: check.__name__)


@named(advantage_checks.ADVANTAGE)
def test_advantage(check):
    check(variants.advantage)


@named(value_checks.VALUE_ERROR)
def test_value_error(check):
    check(variants.value_error)


@named(value_checks.VALUE_CLIP)
def test_value_clip(check):
    check(variants.value_clip)


@named(statistics_checks.ADVANTAGE_STATISTICS)
def test_advantage_statistics(check):
    check(variants.advantage_statistics)


@named(gradient_checks.GRADIENT_CLIP)
def test_gradient_clip(check):
    check(variants.gradient_clip)
