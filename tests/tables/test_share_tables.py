"""Tables of shares of a gap: verdicts go with their intervals, and what acts with its curves."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from memory import PATTERNS, SEEDS, contradicts, runs_of

from ablations.core.plan import Detail, Explanation
from ablations.tables import table_of
from ablations.tables.shares import GAP, INERT

AT = {"s": "", "e": "xy", "s + x": "x", "s + y": "y", "e - x": "y", "e - y": "x"}
AT |= {"order 1": "x", "reverse 1": "y"}


def gap_of(x: str, y: str, *, alike: bool = False, seeds: int = SEEDS, **options: Any) -> Any:
    """Return the table of a gap of two details. alike: no curve differs from another."""
    moved = {"": 0, "x": PATTERNS[x], "y": PATTERNS[y], "xy": PATTERNS[x] + PATTERNS[y]}
    scores = {("a", v): (np.arange(SEEDS) / 8 + moved[on])[:seeds] for v, on in AT.items()}
    orders = {str(seed): ("x", "y") for seed in range(SEEDS)}
    details = {name: Detail({name: (0, 1)}, {}) for name in "xy"}
    bits = {name: "" if alike else on for name, on in AT.items()}
    about = Explanation("s", "e", details, orders, {})
    return table_of(runs_of(scores, bits=bits, explanation=about, **options))


def said(frame: pd.DataFrame) -> set[tuple[str, str]]:
    return set(zip(frame.verdict, frame.note, strict=True))


@pytest.mark.parametrize("pair", list(itertools.combinations(PATTERNS, 2))[::5], ids=" | ".join)
def test_verdicts_go_with_their_intervals(pair: tuple[str, str]) -> None:
    gap, *rows = gap_of(*pair).to_dict("records")
    assert not any(contradicts(row, "share") for row in (gap, *rows))
    assert {row["note"] for row in rows} <= {"", "no spread"}
    for row in rows:
        pattern = PATTERNS[pair["xy".index(row["detail"])]]
        assert row["share"] == pytest.approx(pattern.mean(), abs=1e-12)
    assert (gap["detail"], len(rows)) == (GAP, 2)
    assert gap["share"] == pytest.approx(sum(row["share"] for row in rows), abs=1e-12)


def test_curves_and_not_scores_tell_whether_a_detail_acts() -> None:
    assert {verdict for verdict, _ in said(gap_of("balanced", "equal"))} == {"inconclusive"}
    assert said(gap_of("equal", "equal", alike=True)) == {("equivalent", INERT)}


def test_seeds_that_lack_a_run_are_left_out_and_named() -> None:
    lost = {("a", "order 1", seed): "missing" for seed in (2, 3, 4)} | {("a", "e", 9): "failed"}
    frame = gap_of("up", "noise", lost=lost)
    assert (set(frame.n), set(frame.n_planned)) == ({SEEDS - 4}, {SEEDS})
    assert "a: excluded as a run is missing: 4 of 22 seeds (2-4, 9)" in frame.attrs["notes"]
    assert said(gap_of("up", "noise", seeds=1)) == {("inconclusive", "one seed")}
    frame = gap_of("up", "noise", seeds=1, lost={("a", "e", 0): "missing"})
    assert said(frame) == {("inconclusive", "no seed is complete")}
    assert frame.attrs["summary"] == "a: no seed is complete yet"
