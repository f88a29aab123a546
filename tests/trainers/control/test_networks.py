"""Distributions, networks and observation statistics against Brax's."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from composed import alone, same_bits

import variants
from ablations.trainers.control import normalizer
from ablations.trainers.control.distribution import Normal, mean_and_std
from ablations.trainers.control.networks import SPREAD, Outputs, Start, make_networks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from brax.training import distribution
    from brax.training.acme import running_statistics, specs
    from brax.training.agents.ppo import networks as brax_networks


def test_tanh_normal_is_that_of_brax() -> None:
    keys = jax.random.split(jax.random.key(0))
    raw = 3.0 * jax.random.normal(keys[0], (7, 5, 8))
    x = 2.0 * jax.random.normal(keys[1], (7, 5, 4))
    brax = distribution.NormalTanhDistribution(4)
    mean, std = mean_and_std(raw, alone())
    slope = np.log(1.0 - np.tanh(np.asarray(x, np.float64)) ** 2).sum(-1)
    np.testing.assert_allclose(jnp.tanh(mean), brax.mode(raw), rtol=1e-6)
    np.testing.assert_allclose(std, brax.create_dist(raw).scale, rtol=1e-6)
    np.testing.assert_allclose(
        Normal(2, False).log_prob(raw, x, alone()) - slope,
        brax.log_prob(raw, x),
        rtol=1e-5,
        atol=1e-4,
    )


def test_separate_networks_are_those_of_brax() -> None:
    ours = make_networks(5, Outputs(4), (8, 7), (9,), "separate", "swish")
    theirs = brax_networks.make_ppo_networks(
        5, 2, policy_hidden_layer_sizes=(8, 7), value_hidden_layer_sizes=(9,)
    )
    parameters = ours.init(jax.random.key(0))
    shapes = jax.tree.map(jnp.shape, theirs.policy_network.init(jax.random.PRNGKey(0)))
    assert jax.tree.map(jnp.shape, parameters["policy"]) == shapes
    x = jax.random.normal(jax.random.key(1), (3, 4, 5))
    raw, value = ours.both(parameters, x)
    for policy in (raw, ours.policy(parameters, x)):
        expected = theirs.policy_network.apply(None, parameters["policy"], x)
        np.testing.assert_allclose(policy, expected, rtol=1e-5, atol=1e-6)
    for values in (value, ours.value(parameters, x)):
        expected = theirs.value_network.apply(None, parameters["value"], x)
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def test_a_shared_torso_is_moved_by_both_heads_and_a_separate_one_is_not() -> None:
    x = jax.random.normal(jax.random.key(1), (6, 5))
    moved = {}
    for torso in ("separate", "shared"):
        nets = make_networks(5, Outputs(4), (8,), (8,), torso, "tanh")
        parameters = nets.init(jax.random.key(0))
        gradient = jax.grad(lambda p, nets=nets: nets.value(p, x).sum())(parameters)
        moved[torso] = {
            name: any(bool((leaf != 0).any()) for leaf in jax.tree.leaves(part))
            for name, part in gradient.items()
        }
        raw, value = nets.both(parameters, x)
        assert (raw.shape, value.shape) == ((6, 4), (6,))
        np.testing.assert_allclose(raw, nets.policy(parameters, x), rtol=1e-6)
        np.testing.assert_allclose(value, nets.value(parameters, x), rtol=1e-6)
    assert moved["separate"] == {"policy": False, "value": True}
    assert moved["shared"] == {"policy": False, "value": True, "torso": True}


def normalized(by: normalizer.Normalizer, observation: Any) -> Any:
    """Observations in Brax's unit, the default of observation_scaling."""
    return variants.axis("observation_scaling").apply(
        "bounded_std", observation=observation, mean=by.mean, variance=by.spread
    )


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_observation_statistics_are_those_of_brax_and_of_all_the_data(scale: float) -> None:
    rng = np.random.default_rng(0)
    batches = [(5.0 * k + scale * rng.normal(size=(6, 7, 3))).astype(np.float32) for k in range(5)]
    ours = normalizer.empty(3)
    theirs = running_statistics.init_state(specs.Array((3,), jnp.dtype("float32")))
    probe = batches[0][0] + 1.0
    np.testing.assert_array_equal(normalized(ours, probe), probe)
    for batch in batches:
        ours = normalizer.update(ours, jnp.asarray(batch))
        theirs = running_statistics.update(theirs, jnp.asarray(batch))
    everything = np.concatenate(batches).reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(ours.mean, everything.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(jnp.sqrt(ours.spread), everything.std(0), rtol=1e-5)
    np.testing.assert_allclose(
        normalized(ours, probe), running_statistics.normalize(probe, theirs), rtol=1e-4, atol=1e-5
    )


def test_a_constant_feature_stays_finite() -> None:
    ours = normalizer.empty(1)
    for _ in range(20):
        ours = normalizer.update(ours, jnp.full((10, 1), 0.9))
    assert abs(float(normalized(ours, jnp.array([0.9]))[0])) < 1.0


def test_initial_weights_are_those_of_the_choice() -> None:
    """CleanRL's: orthogonal, gain √2 in hidden layers, 0.01 and 1 in the last ones."""
    for torso, hidden in (("separate", ("policy", "value")), ("shared", ("torso",))):
        parameters = make_networks(5, Outputs(4), (8, 7), (8, 7), torso).init(
            jax.random.key(0),
            Start(
                kernel=partial(variants.axis("network_init").apply, "orthogonal"), policy_scale=0.01
            ),
        )
        for name, network in parameters.items():
            layers = network["params"]
            for place in range(len(layers)):
                kernel = np.asarray(layers[f"hidden_{place}"]["kernel"])
                last = name not in hidden or (name != "torso" and place == len(layers) - 1)
                gain = (0.01 if name == "policy" else 1.0) if last else np.sqrt(2)
                lengths = np.linalg.svd(kernel, compute_uv=False)
                np.testing.assert_allclose(lengths, gain, rtol=1e-5)
                assert not np.asarray(layers[f"hidden_{place}"]["bias"]).any()


def test_a_scale_of_one_keeps_the_bits() -> None:
    nets = make_networks(5, Outputs(4))
    plain = nets.init(jax.random.key(0))
    assert same_bits(plain, nets.init(jax.random.key(0), Start(policy_scale=1.0)))
    scaled = nets.init(jax.random.key(0), Start(policy_scale=0.01))
    assert same_bits(plain["value"], scaled["value"])
    for name, layer in plain["policy"]["params"].items():
        factor = 0.01 if name == "hidden_2" else 1.0
        np.testing.assert_allclose(
            scaled["policy"]["params"][name]["kernel"], factor * layer["kernel"], rtol=1e-6
        )


def test_normalised_layers_are_those_of_flax_and_of_the_formula() -> None:
    """Before the activation, in the hidden layers of the networks of the choice alone; kernels
    start as they do without."""
    from flax import linen

    x = jax.random.normal(jax.random.key(1), (6, 5)) * 3 + 1
    plain = make_networks(5, Outputs(4), (8, 7), (8, 7)).init(jax.random.key(0))
    for choice, normalised in (("critic", "value"), ("policy", "policy"), ("both", "")):
        nets = make_networks(5, Outputs(4), (8, 7), (8, 7), normalized=choice)
        parameters = nets.init(jax.random.key(0))
        for name, network in parameters.items():
            layers = network["params"]
            for layer, one in plain[name]["params"].items():
                assert same_bits(layers[layer], one)
            expected = {"norm_0", "norm_1"} if normalised in (name, "") else set()
            assert {layer for layer in layers if layer.startswith("norm")} == expected
        moved = jax.tree.map(
            lambda p: p + 0.3 * jnp.cos(jnp.arange(p.size)).reshape(p.shape), parameters
        )
        for name, output in (("policy", nets.policy(moved, x)), ("value", nets.value(moved, x))):
            layers, h = moved[name]["params"], np.asarray(x, np.float64)
            for place in range(3):
                dense = layers[f"hidden_{place}"]
                h = h @ np.asarray(dense["kernel"], np.float64) + np.asarray(dense["bias"])
                if place < 2 and normalised in (name, ""):
                    norm = layers[f"norm_{place}"]
                    flaxs = linen.LayerNorm().apply({"params": norm}, jnp.asarray(h, jnp.float32))
                    mean, variance = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
                    h = (h - mean) / np.sqrt(variance + 1e-6)
                    h = h * np.asarray(norm["scale"]) + np.asarray(norm["bias"])
                    np.testing.assert_allclose(flaxs, h, rtol=1e-4, atol=1e-5)
                h = np.tanh(h) if place < 2 else h
            np.testing.assert_allclose(
                output, h if name == "policy" else h[..., 0], rtol=1e-4, atol=1e-5
            )
    shared = make_networks(5, Outputs(4), (8, 7), torso="shared", normalized="critic")
    parameters = shared.init(jax.random.key(0))
    assert {"norm_0", "norm_1"} <= parameters["torso"]["params"].keys()
    assert parameters["policy"]["params"].keys() == {"hidden_0"}


def test_popart_moves_the_last_layer_of_a_normalised_critic() -> None:
    from ablations.trainers.control.networks import Critic

    nets = make_networks(5, Outputs(4), (8,), (8,), normalized="critic")
    parameters = nets.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (6, 5))
    critic = Critic(nets.value, "popart", Critic.start("popart"))
    targets = 5 + 3 * jax.random.normal(jax.random.key(2), (6, 4))
    after, moved = critic.after(targets, parameters)
    np.testing.assert_allclose(
        after.value(moved, x), critic.value(parameters, x), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("torso", ["separate", "shared"])
def test_feature_variances_are_those_of_a_loop_and_teach_features_nothing(torso: str) -> None:
    nets = make_networks(5, Outputs(2, feature_variances=2), (8, 7), (8,), torso, "tanh")
    parameters = nets.init(jax.random.key(0))
    weights = 0.3 * jax.random.normal(jax.random.key(1), (7, 2))
    assert not parameters["policy"]["params"][SPREAD].any()
    parameters["policy"]["params"][SPREAD] = weights
    x = jax.random.normal(jax.random.key(2), (3, 5))
    hidden = parameters["torso" if torso == "shared" else "policy"]["params"]
    expected = np.zeros((3, 2))
    for row, observation in enumerate(np.asarray(x, np.float64)):
        for name in ("hidden_0", "hidden_1"):
            layer = hidden[name]
            observation = np.tanh(observation @ np.asarray(layer["kernel"]) + layer["bias"])
        for action in range(2):
            for feature, w in zip(observation, np.asarray(weights)[:, action], strict=True):
                expected[row, action] += (feature * np.exp(w)) ** 2
    raw = nets.policy(parameters, x)
    np.testing.assert_allclose(raw[:, 2:], expected, rtol=1e-5)
    plain = make_networks(5, Outputs(2), (8, 7), (8,), torso, "tanh")
    np.testing.assert_array_equal(raw[:, :2], plain.policy(parameters, x))

    slopes = jax.grad(lambda p: jnp.sum(nets.policy(p, x)[:, 2:]))(parameters)
    learned = {
        jax.tree_util.keystr(path)
        for path, slope in jax.tree.leaves_with_path(slopes)
        if slope.any()
    }
    assert learned == {"['policy']['params']['spread']"}
