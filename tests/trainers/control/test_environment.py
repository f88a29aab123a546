"""Batched episodes against a plain loop; see environment_checks."""

from __future__ import annotations

import environment_checks
import pytest

from ablations.trainers.control import environment


@pytest.mark.parametrize("check", environment_checks.CHECKS, ids=lambda check: check.__name__)
def test_environment(check) -> None:
    check(environment)
