"""PQN: whole updates against its authors' code and Rejax's, and what its axes do."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import same_bits, variant_of

import variants
from ablations.errors import UserError
from ablations.presets import preset
from ablations.tasks import task
from ablations.trainers import optimizer
from ablations.trainers.choices import fix
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.environment import Outcome
from ablations.trainers.control.networks import LayerNorm
from ablations.trainers.control.pqn import PQN, SPEC, Carried, compose, epsilon_greedy, taken
from ablations.trainers.control.rollouts import Draws, Rollout, State

GOLDEN = Path(__file__).parents[2] / "golden" / "q_updates"
LIBRARIES = ("purejaxql", "rejax_pqn")
CARTPOLE: dict[str, Any] = {
    "name": "cartpole",
    "settings": {"episode_length": 500, "random_elapsed_steps": False},
}
STRUCTURAL = tuple(axis for axis in SPEC.axes if variants.axis(axis).structural)


def golden(library: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{library}.json").read_text())


@cache
def learner(library: str) -> tuple[PQN, Any, dict[str, Any]]:
    """The preset's trainer at the recorded arguments; its update, compiled, with every choice that
    is not structural as data; its configuration."""
    file = golden(library)
    values = preset(library).values(**file["hyperparameters"])
    values["value_layers"] = [8, 8]
    config = SPEC.resolve(task("cartpole"), values)
    choices = {name: config["choices"][name]["name"] for name in STRUCTURAL}
    full = SPEC.completed(config)
    pqn = compose(
        task=task("cartpole"),
        settings=CARTPOLE["settings"],
        structure=full["structure"],
        updates_per_chunk=1,
        choices=choices,
    )
    learn = jax.jit(
        lambda state, rollout, draws, v: pqn.learn(state, rollout, draws, fix(v, choices))
    )
    return pqn, learn, config


def parameters_of(weights: dict[str, Any]) -> Any:
    found = {}
    for place, layer in weights.items():
        found[f"hidden_{place}"] = {
            n: jnp.asarray(layer[n], jnp.float32) for n in ("kernel", "bias")
        }
        if "norm_scale" in layer:
            found[f"norm_{place}"] = {
                n: jnp.asarray(layer[f"norm_{n}"], jnp.float32) for n in ("scale", "bias")
            }
    return {"q": {"params": found}}


def learned(library: str, **changes: Any) -> tuple[list[Any], list[np.ndarray], list[Any]]:
    """Parameters after each recorded iteration, losses in it, and states before it."""
    file, (pqn, learn, config) = golden(library), learner(library)
    one = SPEC.data(config)._replace(iterations=np.float32(file["in_all"]))
    for name, value in changes.items():
        if name in SPEC.axes:
            index = np.int32(variants.axis(name).index(value))
            one = one._replace(choices={**one.choices, name: index})
        else:
            one = one._replace(numbers={**one.numbers, name: np.float32(value)})
    first = parameters_of(file["iterations"][0]["weights"])
    N = pqn.environments.num_envs
    state = State(
        learner=optimizer.start(first, one, pqn.rule),
        reward_scaling=variants.axis("reward_scaling").init(num_envs=N),
        normalizer=statistics.empty(4),
        acting=pqn.acting(fix(one, pqn.fixed)),
        episodes=None,
        key=None,
        iteration=jnp.uint32(0),
        own=Carried(target=jax.tree.map(jnp.copy, first)),
    )
    weights, losses, states = [], [], []
    for iteration in file["iterations"]:
        states.append(state)
        order = np.asarray(iteration["minibatches"], np.int32)
        draws = Draws(jnp.asarray(order[:, :, None, :]), jnp.zeros(order.shape[:2]))
        if pqn.settings.unroll_length and order.shape[-1] % pqn.settings.unroll_length == 0:
            draws = draws._replace(
                order=draws.order.reshape(*order.shape[:2], pqn.settings.unroll_length, -1)
            )
        state, metrics = learn(state, rollout_of(iteration["rollout"]), draws, one)
        state = state._replace(iteration=state.iteration + 1)
        weights.append(state.parameters)
        losses.append(np.asarray(metrics["loss/total"]))
    return weights, losses, [*states, state]


def rollout_of(given: dict[str, Any]) -> Rollout:
    array = {name: jnp.asarray(np.asarray(x, np.float32)) for name, x in given.items()}
    observation, last = array["observation"], array["last_observation"]
    ended, nothing = array["termination"] > 0, jnp.zeros_like(array["reward"])
    # The libraries see a reset where an episode ended, and never what came before it.
    following = jnp.concatenate([observation[1:], last[None]])
    return Rollout(
        observation=observation,
        kept=jnp.asarray(given["action"], jnp.int32),
        outcome=Outcome(
            reward=array["reward"],
            termination=ended,
            truncation=nothing > 0,
            next_observation=jnp.where(ended[..., None], jnp.nan, following),
            finished=ended,
            length=nothing.astype(jnp.int32),
            reward_sum=nothing,
        ),
        last_observation=last,
    )


def off(library: str, **changes: Any) -> float:
    """By how many tolerances the worst weight is off after two iterations."""
    weights, _, _ = learned(library, **changes)
    theirs = parameters_of(golden(library)["iterations"][-1]["weights_after"])
    worst = jax.tree.map(
        lambda a, b: float(np.max(np.abs(a - b) / (1e-5 + 1e-4 * np.abs(b)))), weights[-1], theirs
    )
    return max(jax.tree.leaves(worst))


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_iterations_are_the_library_s(library: str) -> None:
    file = golden(library)
    assert all(np.sum(one["rollout"]["termination"]) > 1 for one in file["iterations"])
    weights, losses, states = learned(library)
    pqn, _, config = learner(library)
    one = fix(SPEC.data(config), {n: c["name"] for n, c in config["choices"].items()})
    for iteration, state, parameters, loss in zip(
        file["iterations"], states, weights, losses, strict=False
    ):
        rollout = rollout_of(iteration["rollout"])
        reward = rollout.outcome.reward * one.numbers["reward_scale"]
        target = pqn.targets(state, rollout, rollout.observation, reward, state.normalizer, one)
        theirs = np.asarray(iteration["targets"])
        np.testing.assert_allclose(target[: len(theirs)], theirs, rtol=1e-3, atol=1e-4)
        if "losses" in iteration:
            np.testing.assert_allclose(loss, iteration["losses"], rtol=1e-3, atol=1e-5)
        after = parameters_of(iteration["weights_after"])
        for ours, expected in zip(jax.tree.leaves(parameters), jax.tree.leaves(after), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)
    assert off(library) < 1


MUTATIONS = [
    ("purejaxql", {"q_return": "peng"}),
    ("purejaxql", {"q_lambda": 0.7}),
    ("purejaxql", {"max_gradient_norm": 0.51}),
    ("purejaxql", {"reward_scale": 0.11}),
    ("purejaxql", {"learning_rate_schedule": "linear"}),
    ("rejax_pqn", {"q_return": "purejaxql"}),
    ("rejax_pqn", {"discount": 0.98}),
    ("rejax_pqn", {"gradient_clip": "global_norm"}),
    ("rejax_pqn", {"q_target": "hard"}),
    ("rejax_pqn", {"adam_epsilon": 1e-4}),
]


@pytest.mark.parametrize(("library", "change"), MUTATIONS, ids=lambda x: str(x))
def test_what_is_not_the_library_s_is_noticed(library: str, change: dict[str, Any]) -> None:
    assert off(library, **change) > 10


def test_target_networks() -> None:
    plain, _, states = learned("rejax_pqn")
    for always in (
        {"q_target": "hard", "target_interval": 1.0},
        {"q_target": "polyak", "target_tau": 1.0},
    ):
        assert same_bits(learned("rejax_pqn", **always)[0], plain)
    assert all(same_bits(one.own.target, one.parameters) for one in states)

    _, _, states = learned("rejax_pqn", q_target="hard", target_interval=2.0)
    start, once, twice = states
    assert same_bits(once.own.target, start.parameters)
    assert same_bits(twice.own.target, twice.parameters)

    _, _, states = learned("rejax_pqn", q_target="polyak", target_tau=0.3)
    target = states[0].parameters
    for state in states[1:]:
        target = jax.tree.map(lambda t, p: 0.7 * t + 0.3 * p, target, state.parameters)
        for ours, expected in zip(
            jax.tree.leaves(state.own.target), jax.tree.leaves(target), strict=True
        ):
            np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


# Exploration


def test_random_actions_are_as_frequent_as_epsilon_and_uniform() -> None:
    noise = jax.random.uniform(jax.random.key(0), (20_000, 2))
    values = jnp.asarray([0.0, 2.0, 1.0])
    action = np.asarray(epsilon_greedy(jnp.tile(values, (20_000, 1)), noise, jnp.float32(0.3)))
    assert np.bincount(action) / 20_000 == pytest.approx([0.1, 0.8, 0.1], abs=0.01)
    greedy = epsilon_greedy(jnp.tile(values, (20_000, 1)), noise, jnp.float32(0.0))
    assert np.all(np.asarray(greedy) == 1)
    # One seed explores alike whatever the network: pairs of variants differ in what they learn.
    others = epsilon_greedy(jnp.tile(-values, (20_000, 1)), noise, jnp.float32(0.3))
    assert np.sum(np.asarray(others) == action) / 20_000 == pytest.approx(0.3, abs=0.01)
    np.testing.assert_array_equal(taken(jnp.tile(values, (3, 1)), jnp.arange(3)), values)


# Training

SMALL = {"num_envs": 8, "unroll_length": 8, "num_minibatches": 2, "epochs": 2}
CHOICES = [
    (axis, choice)
    for axis in SPEC.axes
    if axis not in STRUCTURAL
    for choice in variants.axis(axis)
    if not (axis == "learning_rate_schedule" and "kl" in choice)
]


@cache
def program(**fixed: str) -> tuple[PQN, Any, Any]:
    """PQN on CartPole with episodes of up to 20 steps, small; its init and chunk, compiled."""
    pqn = compose(
        task=task("cartpole"),
        settings=CARTPOLE["settings"] | {"episode_length": 20},
        structure={n: one.default for n, one in SPEC.structure.items()}
        | SMALL
        | {"value_layers": [16]},
        updates_per_chunk=3,
        evaluation_envs=3,
        choices=fixed,
    )
    return pqn, jax.jit(pqn.init), jax.jit(pqn.chunk)


def trained(sets: dict[str, Any], fixed: tuple[tuple[str, str], ...] = ()) -> tuple[Any, Any]:
    _, init, chunk = program(**dict(fixed))
    one = variant_of(SPEC, CARTPOLE, **sets, **dict(fixed))._replace(iterations=np.float32(6))
    state = init(jax.random.key(0), one)
    for _ in range(2):
        state, metrics = chunk(state, one)
    return state, metrics


@cache
def usual() -> Any:
    return trained({})[0].parameters


# Numbers at which a choice does something here, and choices that do nothing within 6 iterations.
SETS: dict[str, dict[str, float]] = {
    "hard": {"target_interval": 2.0},
    "element_wise": {"max_gradient_norm": 1e-3},
}
ALIKE = {("gradient_clip", "per_network")}


@pytest.mark.parametrize(("axis", "choice"), CHOICES, ids=str)
def test_every_choice_trains(axis: str, choice: str) -> None:
    """In one program, without a NaN; and what it learns is not what the default does."""
    sets = {axis: choice, **SETS.get(choice, {})}
    state, metrics = trained(sets)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.parameters))
    silent = {name for name, value in metrics.items() if not np.isfinite(value)}
    assert not silent
    default = SPEC.axes[axis] == choice or (axis, choice) in ALIKE
    if (axis, choice) not in {("gradient_clip", "none")}:  # a norm below the default limit
        assert same_bits(state.parameters, usual()) == default
    assert program()[2]._cache_size() == 1


COMPILED_IN = [
    {
        "observation_statistics": "per_step",
        "observation_scaling": "epsilon",
        "network_normalization": "none",
        "optimizer": "adamw",
        "learning_rate_warmup": "linear",
        "optimizer_reset": "batch",
        "weight_regularization": "to_initial",
    },
    {
        "observation_statistics": "per_environment",
        "observation_scaling": "symlog",
        "network_normalization": "both",
        "optimizer": "adam",
        "learning_rate_warmup": "none",
        "optimizer_reset": "batch_moments",
        "weight_regularization": "to_zero",
    },
]


@pytest.mark.parametrize("fixed", COMPILED_IN, ids=lambda one: one["observation_scaling"])
def test_structural_choices_train_and_policies_act(fixed: dict[str, str]) -> None:
    rest = tuple((n, c) for n, c in SPEC.axes.items() if n not in fixed)
    sets = {"observation_normalization": "after"}
    fixed = {**dict(rest), **fixed, **sets}
    pqn = program(**fixed)[0]
    state, _ = trained({}, tuple(fixed.items()))
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state.parameters))
    policy = pqn.policy(state)
    observation = jax.random.normal(jax.random.key(1), (400, 4))
    best = pqn.act(policy, observation)
    sampled = pqn.act(policy, observation, jax.random.key(2))
    assert best.shape == (400,)
    assert set(np.unique(best)) <= {0, 1}
    # ε is 0.05 at the end, and half of what is random is the best.
    assert 0 < np.mean(np.asarray(best != sampled)) < 0.07


def test_layer_norm_stands_before_each_activation() -> None:
    parameters = program()[0].network.init(jax.random.key(0))["q"]["params"]
    assert sorted(parameters) == ["hidden_0", "hidden_1", "norm_0"]
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    norm = LayerNorm()
    theirs = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(norm.apply(norm.init(jax.random.key(0), x), x), theirs, rtol=1e-4)


# Settings


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("fast", {}, "which task 'fast' does not have: choose one such as cartpole"),
        ("addition", {}, "which task 'addition' does not have"),
        ("cartpole", {"learning_rate_schedule": "adaptive_kl"}, "set .*=linear_per_step"),
        ("cartpole", {"network_normalization": "critic"}, "=both, or none"),
        ("cartpole", {"adam_beta1": 1.0}, "must be below 1"),
        ("cartpole", {"q_lambda": 1.5}, "q_lambda"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    name: str, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as error:
        SPEC.resolve(task(name), values)
    assert "\n" not in str(error.value)


def test_a_configuration_has_what_it_reads() -> None:
    config = SPEC.resolve(task("cartpole"), {"q_target": "hard"})
    assert "target_interval" in config["numbers"]
    assert not {"target_tau", "ladder_exponent"} & config["numbers"].keys()
    assert not {"filters", "reset_pool"} & config["structure"].keys()
    image = SPEC.resolve(task("breakout"), dict(task("breakout").hyperparameters["pqn"]))
    assert image["structure"]["filters"] == 16
    assert SPEC.inert(config, ["q_truncation"]) == {}
    theirs = SPEC.resolve(task("cartpole"), {"q_return": "rejax"})
    assert "q_truncation" in SPEC.inert(theirs, ["q_truncation"])
