"""No cell of CSV is a formula to a spreadsheet, and none is another text after import."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablations.exchange.export import export
from ablations.exchange.reading import read_csv
from ablations.report.formats import render
from ablations.report.formats.spreadsheets import inert, plain
from ablations.report.results import Results
from ablations.report.tables import table

STARTS = ("=", "+", "-", "@", "\t", "\r")
NAMES = ('=HYPERLINK("http://a")', "+cmd|' /C calc'!A0", "-GAE", "@SUM(1)", "'=1", "'gae", "-0.5")


@given(st.text(alphabet="=+-@'\t\r 1.e", max_size=6))
def test_marked_text_is_no_formula_and_can_be_taken_back(text: str) -> None:
    written = inert(text)
    assert plain(written) == text
    if written.startswith(STARTS):
        float(written)  # a number


@pytest.mark.parametrize("value", [-1.5, 3, True, None, "-1", "+2.5e-3", "-.5", "gae", "", "a=b"])
def test_numbers_and_other_text_stay(value: object) -> None:
    assert inert(value) is value


def test_no_cell_of_a_file_is_a_formula(study, tmp_path) -> None:
    finals = {("=t", name): [1.0 + place, 2.0, 3.0] for place, name in enumerate(NAMES)}
    failed = {("=t", NAMES[0], 2): "=reason"}
    plan, results = study(finals, baseline=NAMES[2], failed=failed)
    export([plan], results, path := tmp_path / "runs.csv", "csv")
    for text in (path.read_text(), render(table(Results(plan, results)), "csv")):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        for cell in cells:
            if cell.startswith(STARTS):
                float(cell)
        assert {inert(name) for name in NAMES} <= set(cells)
    runs, _ = read_csv(path, None)
    assert {run for _, run, _ in runs} == set(NAMES)
    assert {task for task, _, _ in runs} == {"=t"}
