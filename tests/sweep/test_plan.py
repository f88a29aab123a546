"""From flags to cells: schedules, hashes, what shares a program and what does not."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

import variants
from ablations import studies, trainers
from ablations.errors import UserError
from ablations.records import digest
from ablations.request import Request
from ablations.studies import Variant, crossed
from ablations.sweep.config import program_of, steps_of
from ablations.sweep.program import evaluation_points
from ablations.tasks import task
from ablations.trainers.composition import fixed_axes, plan, resolve


def cells(study: str = "gae", **flags):
    return plan(Request(study, "smoke", **flags)).cells


@given(steps=st.integers(1, 3_000_000), points=st.integers(1, 60), evaluations=st.integers(0, 80))
def test_a_run_has_at_least_its_steps_and_less_than_a_chunk_more(
    steps, points, evaluations
) -> None:
    sets = {"points": points, "evaluations": evaluations}
    config = cells(seeds=1, variants=("brax",), steps=steps, set=sets)[0]["config"]
    chunk = steps_of(config) // config["run"]["points"]
    assert steps <= steps_of(config) < steps + chunk
    evaluated = evaluation_points(config)
    assert len(evaluated) == min(evaluations, config["run"]["points"])
    assert evaluated <= set(range(1, config["run"]["points"] + 1))
    if evaluations:
        assert config["run"]["points"] in evaluated
        gaps = {b - a for a, b in zip(sorted(evaluated), sorted(evaluated)[1:], strict=False)}
        assert not gaps or max(gaps) - min(gaps) <= 1


def test_the_layers_of_a_configuration() -> None:
    """Trainer < task < profile < --set; a variant's own settings cannot be overridden."""
    config = cells(seeds=1)[0]["config"]
    reacher = plan(Request("gae", tasks=("reacher",), seeds=1)).cells[0]["config"]
    assert (
        config["coefficients"]["lambda_"] == trainers.trainer("ppo").coefficients["lambda_"].default
    )
    own = task("reacher").hyperparameters["ppo"]
    assert reacher["coefficients"]["discount"] == own["discount"]
    assert reacher["task"]["settings"]["episode_length"] == 50
    changed = plan(Request("gae", tasks=("reacher",), seeds=1, set={"episode_length": 70}))
    assert changed.cells[0]["config"]["task"]["settings"]["episode_length"] == 70


def test_all_variants_and_seeds_of_a_structure_share_a_program() -> None:
    assert len({program_of(cell["config"]) for cell in cells()}) == 1
    both = [*cells("value_coefficient"), *cells("gae", set={"learning_rate": 0.1})]
    assert len({program_of(cell["config"]) for cell in both}) == 2, "separate and shared torso"


def test_an_accelerator_gets_a_program_per_specialised_choice() -> None:
    config = cells()[0]["config"]
    assert fixed_axes(config, accelerator=False) == ()
    fixed = fixed_axes(config, accelerator=True)
    assert "advantage_timing" in fixed
    other = {**config["choices"], "advantage_timing": {"name": "epoch", "revision": 1}}
    assert program_of(config, fixed) != program_of(config | {"choices": other}, fixed)
    assert program_of(config) == program_of(config | {"choices": other})


def test_two_studies_share_the_cell_of_their_common_variant() -> None:
    gae = {cell["hash"] for cell in cells("gae") if cell["variant"] == "standard"}
    other = {c["hash"] for c in cells("value_coefficient") if c["variant"] == "separate_0.25"}
    assert gae == other


@pytest.mark.parametrize("what", ["seed", "coefficient", "choice", "revision", "task", "steps"])
def test_everything_that_decides_the_result_is_in_the_hash(what: str) -> None:
    config = cells(seeds=1)[0]["config"]
    changed = {
        "seed": lambda c: c | {"seed": 1},
        "coefficient": lambda c: c | {"coefficients": c["coefficients"] | {"lambda_": 0.5}},
        "choice": lambda c: (
            c | {"choices": c["choices"] | {"value_clip": {"name": "replace", "revision": 1}}}
        ),
        "revision": lambda c: (
            c | {"choices": c["choices"] | {"advantage": {"name": "standard", "revision": 2}}}
        ),
        "task": lambda c: c | {"task": c["task"] | {"revision": 99}},
        "steps": lambda c: c | {"run": c["run"] | {"points": 1}},
    }[what]
    assert digest(changed(config)) != digest(config)
    assert digest(dict(reversed(config.items()))) == digest(config), "but the order is not"


def test_a_bumped_revision_makes_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {cell["hash"] for cell in cells(variants=("brax",))}
    choices = variants.axis("advantage")._choices
    monkeypatch.setitem(
        choices, "brax", dataclasses.replace(choices["brax"], revision=choices["brax"].revision + 1)
    )
    assert before.isdisjoint(cell["hash"] for cell in cells(variants=("brax",)))


def test_names_are_stored_and_never_indices() -> None:
    for cell in cells():
        assert cell["config"]["choices"]["advantage"]["name"] == cell["variant"]


@pytest.mark.parametrize("profile", ["smoke", "quick", "paper"])
@pytest.mark.parametrize(
    "study", ["gae", "value_coefficient", "value_clipping", "advantage_normalization"]
)
def test_every_study_resolves_at_every_profile(study: str, profile: str) -> None:
    resolved = plan(Request(study, profile, seeds=1))
    for name, variant in resolved.variants.items():
        assert (variant["versus"] or resolved.study["baseline"]) in (*resolved.variants, name)


def test_quick_has_at_most_twenty_variants_in_all() -> None:
    found = {
        cell["hash"]
        for study in studies.studies().values()
        if study.trainer == "ppo"
        for cell in plan(Request(study.name, "quick", tasks=("reacher",), seeds=1)).cells
    }
    assert len(found) <= 20


def test_crossing_compares_at_the_same_levels() -> None:
    grid = crossed({"a": Variant({"x": 1}), "b": Variant({"x": 2})}, "a", y=(1, 2), z=("u",))
    assert list(grid) == ["a@y=1,z=u", "b@y=1,z=u", "a@y=2,z=u", "b@y=2,z=u"]
    assert grid["b@y=2,z=u"].sets == {"x": 2, "y": 2, "z": "u"}
    assert grid["b@y=2,z=u"].versus == "a@y=2,z=u"


def test_a_combination_that_makes_no_sense_is_named() -> None:
    with pytest.raises(UserError, match="minibatch"):
        resolve(
            task("fast"),
            trainers.trainer("ppo"),
            {"advantage_timing": "minibatch", "advantage_scope": "batch"},
        )
