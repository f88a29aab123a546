"""Tables of shares of a gap: verdicts go with their intervals, and what acts with its curves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from memory import PATTERNS, SEEDS, contradicts, runs_of

from ablations.core.plan import Detail, Explanation
from ablations.runs import Runs
from ablations.tables.effects import default_kind
from ablations.tables.shares import GAP, INERT, explained_in_words, shares

AT = {"s": "", "e": "xy", "s + x": "x", "s + y": "y", "e - x": "y", "e - y": "x"}
AT |= {"order 1": "x", "reverse 1": "y"}


def gap_of(one: str, two: str, *, alike: bool = False, seeds: int = SEEDS, **options) -> Runs:
    """Return an explanation with two details. alike: no curve differs from another."""
    scores = {
        ("a", name): (
            np.arange(SEEDS) / 8 + ("x" in on) * PATTERNS[one] + ("y" in on) * PATTERNS[two]
        )[:seeds]
        for name, on in AT.items()
    }
    orders = {str(seed): ("x", "y") for seed in range(SEEDS)}
    details = {name: Detail({name: (0, 1)}, {}) for name in "xy"}
    about = Explanation("s", "e", details, orders, {})
    bits = {name: "" if alike else on for name, on in AT.items()}
    return runs_of(scores, bits=bits, explanation=about, **options)


@pytest.mark.parametrize("pair", list(itertools.combinations(PATTERNS, 2))[::5], ids=" | ".join)
def test_verdicts_go_with_their_intervals(pair: tuple[str, str]) -> None:
    runs = gap_of(*pair)
    rows = {row["detail"]: row for row in shares(runs).to_dict("records")}
    assert next(iter(rows)) == GAP
    for row in rows.values():
        assert contradicts(row, "share") == ""
        assert row["note"] in ("", "no spread")
    for detail, pattern in zip("xy", pair, strict=True):
        assert rows[detail]["share"] == pytest.approx(PATTERNS[pattern].mean(), abs=1e-12)
    assert rows[GAP]["share"] == pytest.approx(rows["x"]["share"] + rows["y"]["share"], abs=1e-12)
    assert default_kind(runs.plan) == "shares"


def test_what_cancels_does_act() -> None:
    """Curves, and not scores, tell whether a detail acts."""
    rows = shares(gap_of("balanced", "equal")).set_index("detail")
    assert set(rows.verdict) == {"inconclusive"}
    rows = shares(gap_of("equal", "equal", alike=True))
    assert set(rows.verdict + rows.note) == {f"equivalent{INERT}"}


def test_seeds_that_lack_a_run_are_left_out_and_named() -> None:
    lost = {("a", "order 1", seed): "missing" for seed in (2, 3, 4)} | {("a", "e", 9): "failed"}
    frame = shares(gap_of("up", "noise", failed=lost))
    assert set(frame.n) == {SEEDS - 4}
    assert set(frame.n_planned) == {SEEDS}
    assert "a: left out for lack of a run: 4 of 22 seeds (2-4, 9)" in frame.attrs["notes"]
    for seeds, note in ((1, "one seed"), (0, "no seed is complete")):
        lost = {("a", "e", 0): "missing"} if not seeds else {}
        frame = shares(gap_of("up", "noise", seeds=1, failed=lost))
        assert set(frame.verdict + frame.note) == {f"inconclusive{note}"}
    assert explained_in_words(frame) == "a: no seed is complete yet"
