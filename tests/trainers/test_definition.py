"""What a composition is: what it reads, by name; and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import variants
from ablations.engine.backends.compiled import BACKEND
from ablations.errors import UserError
from ablations.tasks import task
from ablations.trainers import (
    Trainer,
    TrainerSpec,
    component,
    number,
    number_default,
    static,
    trainer,
    trainers,
)
from ablations.trainers.choices import apply, fix
from ablations.trainers.spec import register
from ablations.trainers.trainer import ResolvedSettings

PPO, LANGUAGE = trainer("ppo"), trainer("language")


def composed(definition: TrainerSpec, **values: Any) -> dict[str, Any]:
    return definition.resolve(task("fast" if definition is PPO else "addition"), values)


def names(config: dict[str, Any]) -> set[str]:
    return {*config["choices"], *config["numbers"], *config["structure"]}


def test_a_shared_torso_has_no_layers_of_the_critic() -> None:
    separate, shared = (composed(PPO, torso=torso) for torso in ("separate", "shared"))
    assert names(separate) - names(shared) == {"value_layers", "value_hidden_gain"}
    assert names(shared) <= names(separate)
    assert composed(PPO, torso="shared", value_layers=[8]) == shared


def test_a_critic_decides_what_the_language_trainer_reads() -> None:
    without, critic = (composed(LANGUAGE, critic=critic) for critic in ("none", "separate"))
    only_without = {"prompt_advantage", "advantage_clip", "prompt_epsilon"}
    assert names(without) - names(critic) == only_without
    assert names(critic) - names(without) == {
        "advantage",
        "discount",
        "gae_lambda",
        "value_error",
        "value_clip",
        "value_coefficient",
        "token_statistics",
        "critic_rate_factor",
    }
    chosen = {
        composed(LANGUAGE, critic="separate", prompt_advantage=one) == critic
        for one in variants.axis("prompt_advantage")
    }
    assert chosen == {True}


@pytest.mark.parametrize(
    ("definition", "sets", "read"),
    [
        (PPO, {}, {"clip_epsilon"}),
        (PPO, {"policy_loss": "none"}, set()),
        (PPO, {"policy_loss": "clip_higher"}, {"clip_epsilon", "clip_epsilon_high"}),
        (PPO, {"policy_loss": "dual_clip"}, {"clip_epsilon", "dual_clip"}),
        (PPO, {"policy_loss": "kl_penalty"}, {"penalty_coefficient"}),
        (PPO, {"value_clip": "none"}, set()),
        (PPO, {"value_clip": "replace"}, {"value_clip_range"}),
        (PPO, {"value_error": "squared"}, set()),
        (PPO, {"value_error": "huber"}, {"error_scale"}),
        (PPO, {"gradient_clip": "none"}, set()),
        (PPO, {"gradient_clip": "element_wise"}, {"max_gradient_norm"}),
        (PPO, {"advantage_statistics": "none"}, set()),
        (PPO, {"advantage_statistics": "per_group"}, {"ddof", "epsilon"}),
        (PPO, {"reward_scaling": "constant"}, {"reward_scale"}),
        (PPO, {"reward_scaling": "running_return_std"}, {"reward_scale", "reward_clip"}),
        (PPO, {"learning_rate_schedule": "linear"}, set()),
        (LANGUAGE, {"kl_placement": "none"}, set()),
        (LANGUAGE, {"kl_placement": "loss_k2", "kl_clip": 10}, {"kl_coefficient", "kl_clip"}),
        (LANGUAGE, {"kl_placement": "loss_k3", "kl_coefficient": 0}, {"kl_coefficient"}),
        (LANGUAGE, {"reward_transform": "clipped"}, {"reward_clip"}),
    ],
)
def test_a_number_is_read_by_the_choices_that_name_it(
    definition: TrainerSpec, sets: dict[str, Any], read: set[str]
) -> None:
    """Of the numbers of the axes that are set, and whatever their values."""
    found = names(composed(definition, **sets))
    axes = [variants.axis(name) for name in sets if name in definition.axes]
    axes = axes or [variants.axis("policy_loss")]
    assert {name for axis in axes for name in axis.known_numbers} & found - {"discount"} == read


def test_what_is_read_is_asked_of_the_definition_too() -> None:
    config = LANGUAGE.completed(composed(LANGUAGE, critic="separate", value_error="huber"))
    chosen = {name: one["name"] for name, one in config["choices"].items()}
    everything = {**LANGUAGE.axes, **chosen}
    assert LANGUAGE.reads(
        ResolvedSettings(task("addition"), {}, config["structure"], everything)
    ) == names(config)


@pytest.mark.parametrize(
    ("sets", "complaint"),
    [
        ({"gae_lamda": 0.9}, "unknown setting 'gae_lamda': did you mean 'gae_lambda'?"),
        ({"kl_coefficient": 1.0}, "'kl_coefficient' belongs to 'language', not to 'ppo'"),
        ({"kl_placement": "none"}, "'kl_placement' belongs to 'language', not to 'ppo'"),
        ({"advantage": "braks"}, "unknown choice 'braks' of axis 'advantage': did you mean 'brax'"),
        ({"torso": "shard"}, "unknown torso 'shard': did you mean 'shared'?"),
        ({"discount": 2}, "discount=2 is out of range: it goes from 0 to 1"),
        ({"value_clip_range": -1}, "value_clip_range=-1 is out of range"),  # checked, if not read
    ],
)
def test_what_is_refused(sets: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError) as error:
        composed(PPO, **sets)
    assert complaint in str(error.value)


def test_an_axis_that_no_trainer_reads_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants.registry, "_AXES", dict(variants.registry._AXES))
    variants.register(variants.Axis("toy_orphan", summary="a toy"))
    with pytest.raises(UserError, match="no trainer reads the component 'toy_orphan'"):
        composed(PPO, toy_orphan="on")


def test_what_cannot_act_is_told() -> None:
    config = composed(LANGUAGE, critic="separate", epochs=1, num_minibatches=1)
    told = LANGUAGE.inert(config, ["prompt_advantage", "policy_loss", "learning_rate", "seeds"])
    assert told.keys() == {"prompt_advantage", "policy_loss"}
    assert told["prompt_advantage"] == "a critic estimates advantages"
    assert LANGUAGE.inert(composed(LANGUAGE, epochs=2), ["policy_loss", "epochs"]) == {}
    assert "gae_lambda" in LANGUAGE.inert(composed(LANGUAGE), ["gae_lambda"])


def test_a_number_has_one_meaning_in_a_trainer() -> None:
    base: Any = PPO.hyperparameters
    for name, declared, complaint in (
        ("discount", number(0.9, 0, 2, "-"), "'discount' of advantage means something else"),
        ("discont", number_default(0.9), "unknown number"),
        ("clip_epsilon", static(1, "-"), "has a setting 'clip_epsilon'"),
    ):
        more = dataclass(frozen=True, kw_only=True)(
            type("More", (base,), {name: declared, "__annotations__": {name: float}})
        )
        with pytest.raises(UserError, match=complaint):
            replace(PPO, hyperparameters=more).known_numbers()


def test_a_hyperparameter_is_declared() -> None:
    @dataclass(frozen=True)
    class Bare:
        width: int = 64

    with pytest.raises(UserError, match="'width' of trainer 'ppo' is not declared"):
        replace(PPO, hyperparameters=Bare)


# Trainers by name


def test_importing_trainers_starts_no_jax() -> None:
    code = """
import sys
from ablations import trainers
assert not {"jax", "variants"} & sys.modules.keys(), "on import"
trainers.trainer("ppo")
assert "ablations.trainers.language.trainer" not in sys.modules
assert "brax" not in sys.modules
assert list(trainers.trainers()) == ["ppo", "pqn", "language", "command", "trivial"]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_name_is_registered_once() -> None:
    assert trainers().keys() >= {"ppo", "language"}
    for name in ("ppo", "language"):
        with pytest.raises(UserError, match="registered twice"):
            register(replace(PPO, name=name))
    with pytest.raises(UserError, match="unknown trainer 'pppo': did you mean 'ppo'"):
        trainer("pppo")


# A choice that changes the shape of the state


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> TrainerSpec:
    """A trainer whose state is as large as its choice of the structural axis `toy_pool` says."""
    monkeypatch.setattr(variants.registry, "_AXES", dict(variants.registry._AXES))
    monkeypatch.setattr(sys.modules[register.__module__], "_REGISTERED", {})
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    axis = variants.register(
        variants.Axis("toy_pool", summary="how many", inputs={"x": scalar}, structural=True)
    )
    for name, size in (("one", lambda *, x: x[None]), ("three", lambda *, x: jnp.full(3, x))):
        axis.choice(name, formula="-", source="here", summary=name)(size)

    @dataclass(frozen=True)
    class Settings:
        toy_pool: str = component("one")
        gradient_clip: str = component("none")

    def make(*, choices: Any, updates_per_chunk: int, **_: Any) -> Trainer:
        return Trainer(
            init=lambda key, variant: apply("toy_pool", fix(variant, choices), x=jnp.float32(2)),
            chunk=lambda state, variant: (state + 1, {"sum": state.sum()}),
            evaluate=lambda state, variant, key: {},
            policy=lambda state: state,
            steps_per_chunk=updates_per_chunk,
        )

    return register(
        TrainerSpec(
            name="toy_pool",
            hyperparameters=Settings,
            make=make,
            iteration_steps=lambda structure: 1,
        )
    )


def test_a_structural_choice_is_compiled_in_on_a_cpu_too(pool: TrainerSpec) -> None:
    programs = set()
    for name, count in (("one", 1), ("three", 3)):
        config = pool.resolve(task("fast"), {"toy_pool": name})
        config["run"] = {"updates_per_chunk": 1, "evaluation_envs": 0}
        fixed = pool.compiled_in(config)
        assert fixed == ("toy_pool",)
        made = pool.make(
            task=None,
            choices={axis: config["choices"][axis]["name"] for axis in fixed},
            updates_per_chunk=1,
        )
        data = pool.data(config)
        state = jax.jit(made.init)(jax.random.key(0), data)
        np.testing.assert_array_equal(state, np.full(count, 2.0, np.float32))
        programs.add(BACKEND.program(config))
    assert len(programs) == 2


def test_a_structural_choice_is_no_data(pool: TrainerSpec) -> None:
    config = pool.resolve(task("fast"), {})
    made = pool.make(choices={}, updates_per_chunk=1)
    with pytest.raises(TypeError, match="compiled in"):
        made.init(jax.random.key(0), pool.data(config))


def test_all_but_the_axes_that_a_plan_varies_are_compiled_in() -> None:
    config = composed(PPO)
    structural = {name for name in PPO.axes if variants.axis(name).structural}
    assert set(PPO.compiled_in(config)) == structural
    assert set(PPO.compiled_in(config, ())) == set(PPO.axes) != structural
    varied = ("advantage", *structural)
    assert set(PPO.compiled_in(config, varied)) == set(PPO.axes) - {"advantage"}
