"""`ablations tune`: which values it chooses and keeps, and the study that runs at them."""

from __future__ import annotations

import json

import pytest

from ablations import tuning
from ablations.errors import UserError

HILL = '''
import dataclasses
from pathlib import Path

import jax.numpy as jnp
import toy
from ablations import studies, trainers


def make(**composition):
    """The toy, with a hill over the logarithm of its rate: its top depends on the variant."""
    made = toy.make(**composition)

    def chunk(state, variant):
        state, metrics = made.chunk(state, variant)
        top = jnp.where(variant.choices["toy_direction"] == 0, 0.003, 0.1)
        height = -jnp.square(jnp.log(variant.numbers["rate"] / top))
        return state, metrics | {"hill": height + 1e-6 * state.x}

    return made._replace(chunk=chunk)


trainers.register(dataclasses.replace(trainers.trainer("toy"), name="hill", make=make))
rates = studies.Tuning("rate", (0.01, 0.03, 0.1), Path("rates.json"))
studies.register(studies.Study(
    name="hill",
    title="Hills",
    claim="Each has its own top.",
    claim_source="this file",
    baseline="up",
    variants={
        "up": studies.Variant({}, tuned=rates.of("up")),
        "down": studies.Variant({"toy_direction": "down"}, tuned=rates.of("down")),
    },
    margin=0.05,
    metric="hill",
    trainer="hill",
    tuning=rates,
    profiles={"quick": studies.Profile(tasks=("line",), seeds=2, steps=40, points=2)},
))
'''


def test_a_study_runs_at_its_tuned_values(shell) -> None:
    (shell.folder / "hill.py").write_text(HILL)
    hill = ("hill", "--plugin", "hill", "--workers", "1")
    assert shell("tune", *hill[:3], "--show", code=2).stderr == (
        "ablations: nothing was tuned for 'hill'\n"
    )
    shown = shell("tune", *hill, "--quiet").stdout
    content = json.loads((shell.folder / "rates.json").read_text())
    assert content["chosen"] == {"line": {"up": 0.003, "down": 0.1}}
    # The same values for both, beyond the best of either.
    scores = content["scores"]["line"]
    values = ["0.001", "0.003", "0.01", "0.03", "0.1", "0.3"]
    assert list(scores["up"]) == list(scores["down"]) == values
    assert {len(seeds) for of in scores.values() for seeds in of.values()} == {5}
    assert content["seeds"] == [1000, 1001, 1002, 1003, 1004]
    assert (bool(content["machine"]), content["command"]) == (True, "ablations tune hill")
    # The table: the mean of every value, and * at the chosen one.
    rows = tuning.table(content).set_index("variant")
    for variant, chosen in (("up", "0.003"), ("down", "0.1")):
        assert [value for value in values if rows.loc[variant, value].endswith("*")] == [chosen]
        assert rows.loc[variant, "0.01"] == f"{sum(scores[variant]['0.01']) / 5:.3f}"
    assert rows.loc["up", "0.003"] in shown
    assert shell("tune", *hill[:3], "--show").stdout == shown
    # Tuning leaves no plan behind, and its seeds are in no table.
    assert not (shell.results / "plans").exists()
    shell("run", *hill, "--set", "rate=0.1")
    assert "each variant's best" not in shell("table", *hill[:3], "--caption").stdout
    shell("run", *hill)
    caption = " ".join(shell("table", *hill[:3], "--caption").stdout.split())
    best = "rate is each variant's best on seeds 1000-1004: up 0.003 on line; down 0.1 on line"
    assert best in caption


def test_studies_and_files_that_cannot_be_tuned_are_named(shell) -> None:
    assert "study 'toy' has no tuning" in shell("tune", "toy", code=2).stderr
    (shell.folder / "hill.py").write_text(HILL)
    (shell.folder / "rates.json").write_text("{")
    line = shell("run", "hill", "--plugin", "hill", code=2).stderr
    assert "'rates.json' is not a file of `ablations tune`" in line


def test_the_best_is_inside_the_values_or_nothing_is_chosen() -> None:
    def measure(values):
        return {"one": {f"{value:g}": [value, value] for value in values}}

    with pytest.raises(UserError, match="still at the edge"):
        tuning.extended((1e-4, 3e-4, 1e-3), measure)


def test_of_equal_values_the_smallest_and_never_one_that_failed() -> None:
    assert tuning.best({"0.3": [1.0, 1.0], "0.1": [1.0, 1.0], "1": [9.0, None]}) == 0.1
    with pytest.raises(UserError, match="all values of a variant failed"):
        tuning.best({"1": [None]})


def test_values_go_on_as_they_began() -> None:
    assert tuning.next_value(1e-3, 3e-4, 1e-4) == 3e-3
    assert tuning.next_value(3e-3, 1e-3, 3e-4) == 1e-2
    assert tuning.next_value(1e-4, 3e-4, 1e-3) == 3e-5
