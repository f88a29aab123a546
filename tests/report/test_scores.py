"""Scores of curves, and what becomes of cells that have none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ablations.core.files import SetAside
from ablations.errors import UserError
from ablations.records import Record, cell_folder, digest, read_record, write_record
from ablations.report.results import Results
from ablations.report.scores import auc, final, mean, scores

STEPS = np.arange(1, 21) * 50


def test_final_is_the_mean_of_the_last_tenth() -> None:
    values = np.arange(20.0)
    assert final(STEPS, values) == 18.5
    assert final([100], [3.0]) == 3
    assert final([0], [3.0]) == auc([0], [3.0]) == 3
    assert final([100, 200, 300], [1.0, 2.0, 3.0]) == 3


def test_final_skips_points_without_a_value() -> None:
    values = np.arange(20.0)
    values[19] = np.nan
    assert final(STEPS, values) == 18
    values[18] = np.nan
    assert np.isnan(final(STEPS, values))
    assert np.isnan(final([], []))


def test_final_is_exact_where_floats_are_not() -> None:
    steps = np.arange(1, 11) * 3 * 2**33  # 0.9 * 10 * step is no integer in float32
    assert final(steps, np.arange(10.0)) == 9


def test_mean_is_that_of_all_points_with_a_value() -> None:
    assert mean([1, 2, 9], [1.0, np.nan, 4.0]) == 2.5
    assert np.isnan(mean([1], [np.nan]))


def test_auc_of_a_constant_is_the_constant_and_of_a_line_its_middle() -> None:
    assert auc(STEPS, np.full(20, 7.0)) == pytest.approx(7)
    assert auc([0, 500, 1000], [0.0, 5.0, 10.0]) == pytest.approx(5)


def test_auc_holds_the_first_and_last_value_and_bridges_gaps() -> None:
    # 2 until step 50, up to 4 at 100.
    assert auc([50, 100], [2.0, 4.0]) == pytest.approx((2 * 50 + 3 * 50) / 100)
    full = auc([25, 50, 75, 100], [1.0, 2.0, 3.0, 4.0])
    assert auc([25, 50, 75, 100], [1.0, np.nan, 3.0, 4.0]) == pytest.approx(full)
    assert auc([25, 50, 75, 100], [1.0, 2.0, 3.0, np.nan]) == pytest.approx(
        (25 + 37.5 + 62.5 + 75) / 100
    )
    assert auc([25, 50, 75, 100], [1.0, np.inf, 3.0, 4.0]) == pytest.approx(full)
    assert np.isnan(auc([50, 100], [np.nan, np.nan]))


def test_auc_does_not_depend_on_where_a_straight_curve_is_sampled() -> None:
    coarse, fine = np.array([1, 50, 100]), np.arange(1, 101)
    assert auc(coarse, 2.0 * coarse) == pytest.approx(auc(fine, 2.0 * fine))


def test_scores_read_what_was_written(study) -> None:
    finals = {("hopper", "a"): [1.0, 2.0, 3.0], ("hopper", "b"): [4.0, 5.0, 6.0]}
    plan, results = study(finals, failed={("hopper", "b", 1): "NaN"}, missing=[("hopper", "a", 2)])
    found = scores(Results(plan, results))
    assert found.by_seed("hopper", "a") == {0: 1.0, 1: 2.0}
    assert found.by_seed("hopper", "b") == {0: 4.0, 2: 6.0}
    assert [cell.status for cell in found.of("hopper", "b")] == ["done", "failed", "done"]
    assert [cell.status for cell in found.of("hopper", "a")] == ["done", "done", "missing"]
    assert found.of("hopper", "b")[1].failed_step == 200_000


def replace_curve(results, cell, columns) -> None:
    import shutil

    record = read_record(results, cell.hash)
    shutil.rmtree(cell_folder(results, cell.hash))
    write_record(results, Record(cell.hash, record.config, "done"), columns)


@pytest.mark.parametrize(
    ("values", "status"),
    [([1.0, None], "empty"), ([1.0, float("inf")], "failed"), ([None, 2.0], "done")],
)
def test_nulls_and_infinities_are_told_apart(study, values, status) -> None:
    plan, results = study({("hopper", "a"): [1.0]})
    replace_curve(results, plan.cells[0], {"step": [1, 100], "training/return": values})
    (cell,) = scores(Results(plan, results)).cells
    assert cell.status == status


def test_a_metric_or_score_that_does_not_exist_names_the_nearest(study) -> None:
    plan, results = study({("hopper", "a"): [1.0]})
    with pytest.raises(UserError, match="did you mean 'training/return'"):
        scores(Results(plan, results), metric="training/retrun")
    with pytest.raises(UserError, match="did you mean 'final'"):
        scores(Results(plan, results), score="finl")


@pytest.mark.parametrize("name", ["record.json", "curve.parquet"])
@pytest.mark.parametrize("damage", ["truncate", "delete", "flip"])
def test_a_damaged_record_is_missing_with_a_line(study, name, damage) -> None:
    plan, results = study({("hopper", "a"): [1.0, 2.0]})
    path = cell_folder(results, plan.cells[1].hash) / name
    data = bytearray(path.read_bytes())
    if damage == "truncate":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "delete":
        path.unlink()
    elif name == "curve.parquet":
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
    else:
        path.write_text(path.read_text().replace('"seed": 1', '"seed": 3'))
    with pytest.warns(SetAside, match=plan.cells[1].hash):
        assert [cell.status for cell in scores(Results(plan, results)).cells] == ["done", "missing"]


def test_a_record_without_a_checksum_is_damaged(study) -> None:
    plan, results = study({("hopper", "a"): [1.0]})
    path = cell_folder(results, plan.cells[0].hash) / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"curve": {}}))
    with pytest.warns(SetAside, match="checksum"):
        assert scores(Results(plan, results)).cells[0].status == "missing"


def test_versions_are_counted(study) -> None:
    plan, results = study({("hopper", "a"): [1.0, 2.0, 3.0]}, other_versions=[("hopper", "a", 1)])
    versions = scores(Results(plan, results)).versions
    assert [(made_by["jax"], count) for made_by, count in versions] == [("0.10.2", 2), ("0.9.0", 1)]
    assert digest(plan.cells[0].config) == plan.cells[0].hash
