"""A convolution over flat images, against that of flax."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen

from ablations import make_trainer
from ablations.environments import Observations
from ablations.trainers.control.networks import Outputs, make_networks, patches

IMAGE, FILTERS = (6, 5, 3), 4
SIZE = 6 * 5 * 3
CONVOLUTION = linen.Conv(FILTERS, (3, 3), padding="VALID")


def test_a_dense_layer_on_patches_is_a_convolution() -> None:
    x = jax.random.normal(jax.random.key(0), (2, 7, *IMAGE))
    theirs = CONVOLUTION.init(jax.random.key(1), x[0, 0])
    kernel = theirs["params"]["kernel"].reshape(9 * IMAGE[-1], FILTERS)
    found = patches(x.reshape(2, 7, SIZE), IMAGE) @ kernel + theirs["params"]["bias"]
    expected = CONVOLUTION.apply(theirs, x.reshape(14, *IMAGE)).reshape(2, 7, -1, FILTERS)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_networks_on_images_begin_with_it() -> None:
    """Each has one of its own: convolution, activation, then the layers of a perceptron."""
    observations = Observations(SIZE, image=IMAGE)
    networks = make_networks(observations, Outputs(2), (8,), (8,), "separate", "relu", filters=4)
    parameters = networks.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (3, SIZE))
    answers = {"policy": networks.policy(parameters, x), "value": networks.value(parameters, x)}
    for name, found in answers.items():
        layers = parameters[name]["params"]
        first = layers["convolution"]
        kernel = first["kernel"].reshape(3, 3, IMAGE[-1], FILTERS)
        weights = {"params": {"kernel": kernel, "bias": first["bias"]}}
        hidden = jax.nn.relu(CONVOLUTION.apply(weights, x.reshape(3, *IMAGE))).reshape(3, -1)
        hidden = jax.nn.relu(hidden @ layers["hidden_0"]["kernel"] + layers["hidden_0"]["bias"])
        expected = hidden @ layers["hidden_1"]["kernel"] + layers["hidden_1"]["bias"]
        np.testing.assert_allclose(
            found, jnp.squeeze(expected) if name == "value" else expected, atol=1e-5
        )
    kernels = [parameters[name]["params"]["convolution"]["kernel"] for name in answers]
    assert not np.array_equal(*kernels)


def test_without_filters_and_without_an_image_there_is_none() -> None:
    for observations, filters in ((Observations(SIZE, image=IMAGE), 0), (Observations(SIZE), 4)):
        networks = make_networks(observations, Outputs(2), (8,), (8,), filters=filters)
        layers = networks.init(jax.random.key(0))["policy"]["params"]
        assert set(layers) == {"hidden_0", "hidden_1"}
        assert layers["hidden_0"]["kernel"].shape == (SIZE, 8)


def test_ppo_trains_on_images_of_a_game() -> None:
    small = {"num_envs": 2, "unroll_length": 8, "num_minibatches": 2, "epochs": 1, "filters": 2}
    trainer, variant = make_trainer("breakout", **small, policy_layers=[4], value_layers=[4])
    before = jax.jit(trainer.init)(jax.random.key(0), variant)
    after, metrics = jax.jit(trainer.chunk)(before, variant)
    assert all(np.isfinite(metrics[name]) for name in ("loss/total", "policy/entropy"))
    for name in ("policy", "value"):
        kernels = [at.parameters[name]["params"]["convolution"]["kernel"] for at in (before, after)]
        assert kernels[0].shape == (9 * 4, 2)
        assert not np.array_equal(*kernels)
    assert 0 < metrics["policy/entropy"] <= np.log(3) + 1e-6
