"""Every formula against its oracles and identities."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from oracles import CHECKS

for path in sorted(Path(__file__).parent.glob("*_checks.py")):
    import_module(path.stem)


@pytest.mark.parametrize(
    ("module", "check"),
    [(module, check) for module, checks in sorted(CHECKS.items()) for check in checks],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_formula(module, check):
    check(import_module(f"variants.{module}"))
