"""Policy and value networks, and the tanh-normal distribution of actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen

ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": jnp.tanh,
    "swish": jax.nn.swish,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
}

MIN_STD = 0.001


class MLP(linen.Module):
    """Dense layers with an activation between them; kernels lecun-uniform as in Brax, biases 0.

    layers: output size of each layer. activate_final: whether the last one is activated too.
    """

    layers: Sequence[int]
    activation: Callable[[jax.Array], jax.Array]
    activate_final: bool = False

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for i, size in enumerate(self.layers):
            x = linen.Dense(
                size, kernel_init=jax.nn.initializers.lecun_uniform(), name=f"hidden_{i}"
            )(x)
            if i < len(self.layers) - 1 or self.activate_final:
                x = self.activation(x)
        return x


class Networks(NamedTuple):
    """Pure functions of the parameters; observations are normalised [..., O].

    init(key) -> parameters {"policy", "value"} and, if shared, "torso".
    policy(parameters, observation) -> distribution parameters [..., 2A], see `mean_and_std`.
    value(parameters, observation) -> [...].
    both(parameters, observation) -> (distribution parameters, value), the torso run once.
    """

    init: Callable[[jax.Array], Any]
    policy: Callable[[Any, jax.Array], jax.Array]
    value: Callable[[Any, jax.Array], jax.Array]
    both: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]]


def make_networks(
    observation_size: int,
    action_size: int,
    policy_layers: Sequence[int] = (64, 64),
    value_layers: Sequence[int] = (64, 64),
    torso: str = "separate",
    activation: str = "tanh",
) -> Networks:
    """Two networks, or one torso of `policy_layers` with two linear heads (torso="shared")."""
    activate = ACTIVATIONS[activation]
    example = jnp.zeros(observation_size)
    shared = torso == "shared"
    if shared:
        trunk = MLP(tuple(policy_layers), activate, activate_final=True)
        policy_net, value_net = MLP((2 * action_size,), activate), MLP((1,), activate)
        example = jnp.zeros(policy_layers[-1] if policy_layers else observation_size)
    else:
        policy_net = MLP((*policy_layers, 2 * action_size), activate)
        value_net = MLP((*value_layers, 1), activate)

    def init(key: jax.Array) -> Any:
        key_policy, key_value, key_torso = jax.random.split(key, 3)
        parameters = {
            "policy": policy_net.init(key_policy, example),
            "value": value_net.init(key_value, example),
        }
        if shared:
            parameters["torso"] = trunk.init(key_torso, jnp.zeros(observation_size))
        return parameters

    def features(parameters: Any, observation: jax.Array) -> Any:
        return trunk.apply(parameters["torso"], observation) if shared else observation

    def policy_head(parameters: Any, x: jax.Array) -> Any:
        return policy_net.apply(parameters["policy"], x)

    def value_head(parameters: Any, x: jax.Array) -> Any:
        value: Any = value_net.apply(parameters["value"], x)
        return value[..., 0]

    def both(parameters: Any, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = features(parameters, observation)
        return policy_head(parameters, x), value_head(parameters, x)

    return Networks(
        init=init,
        policy=lambda p, observation: policy_head(p, features(p, observation)),
        value=lambda p, observation: value_head(p, features(p, observation)),
        both=both,
    )


# The tanh-normal distribution: action = tanh(x), x ~ Normal(mean, std²) per dimension. As in Brax,
# x is what is stored and scored, because the action itself saturates.


def mean_and_std(raw: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Splits network outputs [..., 2A] into mean and std = softplus(·) + 0.001, each [..., A]."""
    mean, std = jnp.split(raw, 2, axis=-1)
    return mean, jax.nn.softplus(std) + MIN_STD


def _log_tanh_slope(x: jax.Array) -> jax.Array:
    """log(1 - tanh²x), without cancellation."""
    return 2.0 * (jnp.log(2.0) - x - jax.nn.softplus(-2.0 * x))


def normal_log_prob(raw: jax.Array, x: jax.Array) -> jax.Array:
    """Log-density [...] of x [..., A], before tanh."""
    mean, std = mean_and_std(raw)
    normal = -0.5 * jnp.square((x - mean) / std) - 0.5 * jnp.log(2.0 * jnp.pi) - jnp.log(std)
    return jnp.sum(normal, axis=-1)


def entropy(raw: jax.Array, key: jax.Array) -> jax.Array:
    """Entropy estimate [...]: exact for the normal, one sample for the expectation of log tanh′."""
    mean, std = mean_and_std(raw)
    x = mean + std * jax.random.normal(key, mean.shape)
    return jnp.sum(0.5 + 0.5 * jnp.log(2.0 * jnp.pi) + jnp.log(std) + _log_tanh_slope(x), axis=-1)
