"""The selection: which variants, seeds and settings it means, and to every command the same."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from ablations import studies
from ablations.engine.plan import select
from ablations.errors import UserError
from ablations.request import Request


def select_from(study: str, **flags):
    return select(studies.study(study), Request(study, **flags))


def comparisons(study: str, **flags) -> dict[str, str]:
    """variant -> what it is compared with."""
    selected = select_from(study, **flags).study
    return {name: one.versus or selected.baseline for name, one in selected.variants.items()}


# Seeds


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (3, (0, 1, 2)),
        ("3", (0, 1, 2)),
        ("2-4", (2, 3, 4)),
        ("7-7", (7,)),
        (range(2, 5), (2, 3, 4)),
        ([9, 4], (4, 9)),
        (np.arange(2), (0, 1)),
        (np.int64(2), (0, 1)),
    ],
)
def test_seeds_are_a_count_a_range_or_themselves(asked, meant) -> None:
    request = Request("gae", seeds=asked)
    assert request.seeds == meant
    assert Request("gae", seeds=request.flags()["seeds"]) == request


@pytest.mark.parametrize("asked", [0, -1, [], [1, 1], 0.5, "x", "4-2", "0-3,3-7", 10**9, [2**31]])
def test_other_seeds_are_refused(asked) -> None:
    with pytest.raises(UserError, match="seeds must be a count from 1 to "):
        Request("gae", seeds=asked)


# Vary


def test_the_baseline_at_each_value_is_compared_with_the_first() -> None:
    selected = select_from("gae", vary={"discount": [0.9, 0.95, 1.0]}).study
    assert list(selected.variants) == ["discount=0.9", "discount=0.95", "discount=1.0"]
    assert selected.baseline == "discount=0.9"
    assert all(one.versus is None for one in selected.variants.values())
    assert selected.variants["discount=1.0"].sets == {"advantage": "standard", "discount": 1.0}
    assert not selected.claim, "the study's claim is about other variants"


def test_several_settings_are_crossed() -> None:
    assert list(
        comparisons("gae", vary={"discount": [0.9, 1], "policy_layers": [[64, 64], [32]]})
    ) == [
        "discount=0.9,policy_layers=[64,64]",
        "discount=0.9,policy_layers=[32]",
        "discount=1,policy_layers=[64,64]",
        "discount=1,policy_layers=[32]",
    ]


def test_a_choice_can_be_varied_whatever_the_baseline_takes() -> None:
    selected = select_from("gae", vary={"advantage": ["brax", "standard"]}).study
    assert selected.variants["advantage=brax"].sets == {"advantage": "brax"}
    assert selected.baseline == "advantage=brax"


def test_named_variants_are_crossed_and_compared_where_they_stand() -> None:
    vary = {"discount": [0.9, 0.95]}
    assert comparisons("gae", variants=["standard", "brax"], vary=vary) == {
        "standard@discount=0.9": "standard@discount=0.9",
        "brax@discount=0.9": "standard@discount=0.9",
        "standard@discount=0.95": "standard@discount=0.95",
        "brax@discount=0.95": "standard@discount=0.95",
    }
    assert comparisons("gae", variants="brax", vary=vary) == {
        "brax@discount=0.9": "brax@discount=0.9",
        "brax@discount=0.95": "brax@discount=0.9",
    }


def test_what_the_study_compares_with_each_other_stays_together() -> None:
    variants = ["separate_0.25", "shared_0.25", "shared_1"]
    found = comparisons("value_coefficient", variants=variants, vary={"discount": [0.9, 1]})
    assert found["shared_1@discount=1"] == "shared_0.25@discount=1"
    assert found["separate_0.25@discount=1"] == "separate_0.25@discount=0.9"
    clip = ["none@reward_scale=10.0", "replace@reward_scale=10.0"]
    found = comparisons("value_clipping", variants=clip, vary={"discount": [0.9, 1]})
    assert found["replace@reward_scale=10.0,discount=1"] == "none@reward_scale=10.0,discount=1"


def test_values_are_held_as_files_hold_them() -> None:
    request = Request("gae", vary={"discount": np.array([0.5, 1.0])}, set={"policy_layers": (8, 8)})
    assert request.vary == {"discount": (0.5, 1.0)}
    assert request.set == {"policy_layers": [8, 8]}
    assert Request("gae", **request.flags()) == request


@pytest.mark.parametrize(
    "values", [0.9, "standard", [0.9], [0.9, 0.9], [0.9, float("nan")], [object(), 1]]
)
def test_other_values_are_refused(values) -> None:
    with pytest.raises(UserError, match="discount"):
        Request("gae", vary={"discount": values})


# Through every command

VARY = ("--vary", "rate=0.1,0.5,1.0", "--seeds", "3-5")


@pytest.fixture(scope="module")
def varied(shells):
    shell = shells()
    shell("run", "toy", "--seeds", "2", "--quiet", "--cluster", "debug")
    assert "9 of 9 runs done" in shell("run", "toy", *VARY, "--cluster", "debug").stdout
    return shell


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_study_without_a_file(varied) -> None:
    found = rows(varied("table", "toy", *VARY, "--format", "csv").stdout)
    assert {row["variant"] for row in found} == {"rate=0.1", "rate=0.5", "rate=1.0"}
    assert "all 9 runs are done; nothing to run" in varied("run", "toy", *VARY).stdout


def test_the_same_flags_mean_the_same_to_every_command(varied) -> None:
    status = json.loads(varied("status", "toy", *VARY, "--format", "json").stdout)
    assert {row["state"] for row in status} == {"done"}
    assert {(row["variant"], row["seed"]) for row in status} == {
        (f"rate={rate}", seed) for rate in (0.1, 0.5, 1.0) for seed in (3, 4, 5)
    }
    drawn = varied("figure", "toy", *VARY, "--format", "svg", "--output", "drawn").stdout
    assert "drawn/toy_curves.svg" in drawn
    assert "rate = 0.5" in (varied.folder / "drawn/toy_curves.svg").read_text()
    page = varied.folder / varied("report", "toy", *VARY).stdout.strip()
    assert "rate=0.5" in page.read_text()
    shown = varied("show", "toy", *VARY).stdout
    assert "baseline  rate=0.1" in shown
    assert "9 runs, 3 seeds" in shown
    exported = varied("export", "toy", *VARY, "--output", "runs.csv").stdout.strip()
    assert "rate=0.5" in (varied.folder / exported).read_text()


def test_what_ran_at_other_settings_is_never_pooled(varied) -> None:
    found = rows(varied("table", "toy", "--seeds", "2", "--format", "csv").stdout)
    assert {row["variant"] for row in found} == {"up", "down"}
    assert {row["n"] for row in found} == {"2"}
    status = json.loads(varied("status", "toy", "--seeds", "1-2", "--format", "json").stdout)
    assert {(row["seed"], row["state"]) for row in status} == {(1, "done"), (2, "missing")}


def test_a_choice_varied_is_the_cell_of_the_variant_that_has_it(varied) -> None:
    flags = ("--vary", "toy_direction=up,down", "--seeds", "2")
    assert "all 4 runs are done" in varied("run", "toy", *flags).stdout
    crossed = ("--variants", "up", "down", "--vary", "rate=0.1,0.5", "--seeds", "2")
    status = json.loads(varied("status", "toy", *crossed, "--format", "json").stdout)
    assert {(row["variant"], row["state"]) for row in status} == {
        ("up@rate=0.1", "done"),
        ("down@rate=0.1", "done"),
        ("up@rate=0.5", "missing"),
        ("down@rate=0.5", "missing"),
    }
