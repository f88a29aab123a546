"""Comparing with an oracle, and the numbers that libraries produced (tests/golden).

The *_checks modules hold what the module of an axis must satisfy: functions that pass for it, and
fail for a mutant of it. Their oracles are independent of the code under test: plain float64 loops
over single numbers, the implementations of Brax, rlax and optax, and the golden numbers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden"

# A module of variants: what must hold of it, and not of its mutants.
Check = Callable[[ModuleType], None]
CHECKS: defaultdict[str, list[Check]] = defaultdict(list)

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def close(got: Any, expected: Any, **tolerance: float) -> None:
    np.testing.assert_allclose(
        np.asarray(got), np.asarray(expected, np.float64), **(TOLERANCE | tolerance)
    )


@cache
def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def check_of(*modules: str) -> Callable[[Check], Check]:
    """Add a check of these modules of variants to CHECKS."""

    def noted(check: Check) -> Check:
        for module in modules:
            CHECKS[module].append(check)
        return check

    return noted
