"""A library's settings under a study, and a preset as a study of its own."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ablations import make_trainer, presets, studies, tasks, trainers
from ablations.engine.plan import plan
from ablations.errors import UserError
from ablations.records import Plan, digest
from ablations.request import Request
from ablations.runs import Runs
from ablations.tables import table_of


def planned(study: str, **flags: Any) -> Plan:
    return plan(Request(study, "smoke", **{"seeds": 1, **flags}))


def config(made: Plan, variant: str) -> dict[str, Any]:
    return next(cell.config for cell in made.cells if cell.variant == variant)


def flat(config: dict[str, Any]) -> dict[str, Any]:
    choices = {axis: one["name"] for axis, one in config["choices"].items()}
    return {**choices, **config["numbers"], **config["structure"]}


PPO = {name for name, one in presets.presets().items() if one.trainer == "ppo"}
TASKS = {"ppo": "fast", "pqn": "cartpole", "language": "arithmetic"}


@pytest.mark.parametrize("name", sorted(presets.presets()))
def test_a_preset_is_a_study_of_one_variant(name: str) -> None:
    """As the trainer of that preset has it; the sizes of language models are the profile's."""
    one = presets.preset(name)
    where, values = TASKS[one.trainer], one.values()
    made = planned(name, tasks=(where,) if one.trainer == "language" else None)
    assert list(made.variants) == [name] == [made.study.baseline]
    assert list(made.tasks) == [where]
    alone = trainers.trainer(one.trainer).resolve(tasks.task(where), values)
    found = config(made, name)
    assert [found[part] for part in ("choices", "numbers")] == [alone["choices"], alone["numbers"]]
    own = values.keys() if one.trainer == "language" else alone["structure"].keys()
    options = [{n: x for n, x in of["structure"].items() if n in own} for of in (found, alone)]
    assert options[0] == options[1]
    if one.trainer == "ppo":
        assert make_trainer("fast", preset=name)[0].steps_per_chunk == math.prod(
            alone["structure"][size] for size in ("num_envs", "unroll_length")
        )


def test_a_base_lies_under_the_study_and_a_flag_over_it() -> None:
    """Preset < study < --set < variant."""
    plain, based = planned("gae"), planned("gae", base="cleanrl", set={"num_envs": 4})
    library = presets.preset("cleanrl").values()
    for variant in ("standard", "brax"):
        of = flat(config(based, variant))
        assert of["advantage"] == variant, "a variant's own"
        assert of["num_envs"] == 4, "a flag's"
        own = {n: v for n, v in library.items() if n in of and n not in ("advantage", "num_envs")}
        assert {name: of[name] for name in own} == own
        assert "return_std" in of["reward_scaling"]
        assert flat(config(plain, variant))["reward_scaling"] == "constant"
    hashes = [{cell.hash for cell in made.cells} for made in (plain, based)]
    assert hashes[0].isdisjoint(hashes[1])
    assert plain.name != based.name


def test_a_base_is_said(tmp_path: Any) -> None:
    made = planned("gae", base="cleanrl")
    assert "cleanrl" in table_of(Runs.read(tmp_path, made)).attrs["caption"]
    assert made.study.base == "cleanrl"
    assert "inside the settings of cleanrl" in made.study.title
    assert made.request["base"] == "cleanrl"
    assert Request("gae", **made.request).flags() == made.request
    assert planned("gae").study.base is None


def test_common_geometry_is_the_tasks() -> None:
    own, common = (planned("gae", base="brax", geometry=g) for g in ("own", "common"))
    task = tasks.task("fast").hyperparameters["ppo"]
    of = config(common, "brax")["structure"]
    options = trainers.trainer("ppo").structure
    assert of == {name: task.get(name, options[name].default) for name in of}
    assert config(own, "brax")["structure"]["policy_layers"] == [32] * 4
    assert config(common, "brax")["numbers"] == config(own, "brax")["numbers"]


def test_library_defaults_has_every_library_in_one_geometry() -> None:
    study = studies.study("library_defaults")
    assert {one.preset for one in study.variants.values()} == PPO - {"ours"}
    made = planned("library_defaults")
    structures = {digest(cell.config["structure"]) for cell in made.cells}
    assert len(structures) == 1
    for name in study.variants:
        of = flat(config(made, name))
        for setting, value in presets.preset(name).values().items():
            if setting in of and setting not in trainers.trainer("ppo").structure:
                assert of[setting] == value, (name, setting)


def test_levels_of_a_preset_are_inside_it() -> None:
    made = planned("sb3", vary={"clip_epsilon": [0.1, 0.2]})
    assert list(made.variants) == ["clip_epsilon=0.1", "clip_epsilon=0.2"]
    of = flat(config(made, "clip_epsilon=0.1"))
    assert (of["clip_epsilon"], of["adam_epsilon"]) == (0.1, 1e-5)


@pytest.mark.parametrize(
    ("study", "flags", "complaint"),
    [
        ("prompt_normalization", {"base": "sb3"}, "of the trainer 'ppo'"),
        ("sb3", {"base": "cleanrl"}, "presets themselves"),
        ("gae", {"geometry": "common"}, "--base"),
        ("gae", {"base": "sb3", "geometry": "square"}, "geometry"),
        ("sb_3", {}, "unknown study 'sb_3'"),
    ],
)
def test_what_makes_no_sense_is_said(study: str, flags: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        planned(study, **flags)
