"""The loss page against Brax's loss, and its diagnostics against NumPy; see loss_checks."""

from __future__ import annotations

import loss_checks
import pytest

from ablations.trainers.control import loss


@pytest.mark.parametrize("clip_range", [None, 0.05])
def test_loss_parts_and_gradient_are_those_of_brax(clip_range: float | None) -> None:
    loss_checks.check_brax(loss, clip_range)


def test_metrics() -> None:
    loss_checks.check_metrics(loss)
