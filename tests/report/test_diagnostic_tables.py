"""The tables of `ablations diagnose`, from numbers made by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from synthetic import synthetic_study

from ablations.report import formats
from ablations.report.results import Results
from ablations.report.tables.diagnostics import estimates_sheet, read_measured, training_sheet

KINDS = ("bias", "squared_bias", "variance", "correlation")


def one_seed(scale: float, bias: float = 0.0, squared_bias: float = 0.0) -> dict[str, list[float]]:
    """Two stages; `brax` has twice the variance of `standard`, whatever the seed's scale."""
    columns: dict[str, list[float]] = {"step": [100, 200]}
    for choice, factor in (("brax", 2.0), ("standard", 1.0)):
        numbers = (bias, squared_bias, factor * scale, 0.5)
        for kind, number in zip(KINDS, numbers, strict=True):
            columns[f"{choice}/{kind}"] = [number, number]
    return columns


def test_ratios_are_paired_by_seed(tmp_path: Path) -> None:
    plan = synthetic_study(tmp_path, {("here", "standard"): [1.0] * 3})
    measured = {("here", seed): one_seed(scale) for seed, scale in enumerate((0.1, 1.0, 10.0))}
    made = estimates_sheet(plan, measured, "standard")
    rows = [dict(zip(made.columns, row, strict=True)) for row in made.rows]
    assert [(row["step"], row["choice"]) for row in rows] == [
        (100, "standard"),
        (100, "brax"),
        (200, "standard"),
        (200, "brax"),
    ]
    brax = rows[1]
    assert brax["n"] == 3
    assert brax["variance_ratio"] == pytest.approx(2.0)
    assert brax["variance_ratio_low"] is None, "seeds of any scale agree, so nothing spreads"
    assert brax["rmse_ratio"] == pytest.approx(math.sqrt(2.0))
    assert brax["sd"] == pytest.approx(math.sqrt(2 * 11.1 / 3))


def test_rmse_has_both_parts_and_chance_below_zero_is_none(tmp_path: Path) -> None:
    plan = synthetic_study(tmp_path, {("here", "standard"): [1.0] * 2})
    biased = {("here", seed): one_seed(9.0, 3.0, 16.0) for seed in range(2)}
    row = dict(
        zip((made := estimates_sheet(plan, biased, "standard")).columns, made.rows[0], strict=True)
    )
    assert (row["bias"], row["sd"], row["rmse"]) == pytest.approx((3.0, 3.0, 5.0))
    lucky = {("here", seed): one_seed(9.0, 0.0, -1.0) for seed in range(2)}
    row = dict(
        zip((made := estimates_sheet(plan, lucky, "standard")).columns, made.rows[0], strict=True)
    )
    assert row["rmse"] == pytest.approx(3.0)


def test_a_diverged_seed_is_left_out_and_counted(tmp_path: Path) -> None:
    plan = synthetic_study(tmp_path, {("here", "standard"): [1.0] * 3})
    measured = {("here", seed): one_seed(1.0 + seed) for seed in range(3)}
    for name in measured["here", 1]:
        if name != "step":
            measured["here", 1][name] = [None, None]  # type: ignore[list-item]
    made = estimates_sheet(plan, measured, "standard")
    assert {row[3] for row in made.rows} == {2}
    for format in formats.FORMATS:
        assert "nan" not in formats.render(made, format).lower()


def test_nothing_measured_is_an_empty_table(tmp_path: Path) -> None:
    plan = synthetic_study(tmp_path, {("here", "standard"): [1.0]})
    assert read_measured(tmp_path, [("here", 0, "0" * 16)]) == {}
    assert estimates_sheet(plan, {}, "standard").rows == ()


def test_training_is_none_before_any_run(tmp_path: Path) -> None:
    finals = {("here", "standard"): [1.0, 2.0]}
    missing = [("here", "standard", 0), ("here", "standard", 1)]
    plan = synthetic_study(tmp_path, finals, missing=missing)
    assert training_sheet(Results(plan, tmp_path)) is None
