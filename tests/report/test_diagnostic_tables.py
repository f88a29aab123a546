"""The table of training diagnostics: `ablations table STUDY --kind diagnostics`."""

from __future__ import annotations

from pathlib import Path

from synthetic import synthetic_study

from ablations.report.results import Results
from ablations.report.tables.diagnostics import diagnostics_sheet


def test_there_is_none_before_any_run(tmp_path: Path) -> None:
    finals = {("here", "standard"): [1.0, 2.0]}
    missing = [("here", "standard", 0), ("here", "standard", 1)]
    plan = synthetic_study(tmp_path, finals, missing=missing)
    assert diagnostics_sheet(Results(plan, tmp_path)) is None
