"""Fixtures of the report's tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from synthetic import synthetic_study

from ablations.records import Plan


@pytest.fixture
def study(tmp_path: Path) -> Callable[..., tuple[Plan, Path]]:
    """study(finals, **options) -> (plan, results folder); see `synthetic_study`."""

    def make(
        finals: Mapping[tuple[str, str], Sequence[float]], **options: Any
    ) -> tuple[Plan, Path]:
        return synthetic_study(tmp_path, finals, **options), tmp_path

    return make
