"""No word contradicts its numbers in gates; of tables see `test_words.py`."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from words import (
    cell,
    pairs,
    scores_of,
)

from ablations import gate, looks
from ablations.gate import run
from ablations.report.statistics import compare

# The gate


@given(pairs(), st.sampled_from([0.05, 1.0, 1e300]), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_gate_goes_with_its_interval(both, margin, last, better) -> None:
    found = compare(*both, level=0.02)
    word = gate.judged(found, margin, last=last, better=better)
    assert word not in ("identical", "fails", "unstable")
    if found.n < 2 or found.difference is None:
        assert word == "undecided"
        return
    low = found.difference if found.low is None else found.low
    high = found.difference if found.high is None else found.high
    assert (word != "better") or low > 0
    assert (word != "no worse") or (low > -margin and not better)
    assert (word != "worse") or (high < 0 and found.difference < 0)
    assert (word != "not better") or (better and high < margin)
    if found.low is None and 2.0 ** (1 - found.n) >= found.level:
        assert word == "undecided", "so few equal pairs may be chance"


@pytest.mark.parametrize(
    ("shift", "bits", "seeds", "word"),
    [
        (0.0, 0.0, 3, "identical"),
        (0.0, 0.25, 3, "undecided"),
        (0.0, 0.25, 9, "no worse"),
        (1.0, 0.25, 3, "undecided"),
        (1.0, 0.25, 9, "better"),
        (-1.0, 0.25, 9, "worse"),
        (-(2.0**-20), 0.25, 9, "no worse"),
    ],
)
def test_a_gate_says_identical_of_bits_alone(shift, bits, seeds: int, word: str) -> None:
    cells = []
    for name, moved, mark in ((run.BASELINE, 0.0, 0.0), (run.CHANGE, shift, bits)):
        rows = np.arange(seeds) / 8 + moved
        cells += [cell(run.TASK, name, k, x, mark, 1.0) for k, x in enumerate(rows)]
    design = looks.design((seeds, 32), 0.1)
    margin = SimpleNamespace(size=0.5, share=False)
    asked = object.__new__(gate.Gate)  # decides without a command, a plan and a folder
    asked.paired, asked.looks, asked.above = True, design, design
    asked.question = SimpleNamespace(better=False, name="gate", futility=0, margin=margin)
    found = asked.decide(design[0], scores_of(cells), ())
    assert found.word == word
    assert "nan" not in found.text
