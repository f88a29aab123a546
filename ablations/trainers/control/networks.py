"""Policy and value networks, and the tanh-normal distribution of actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from flax import linen

from variants.network_init import AXIS

ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": jnp.tanh,
    "swish": jax.nn.swish,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
}

MIN_STD = 0.001
HIDDEN_GAIN = math.sqrt(2.0)


class KernelInit(Protocol):
    """How the weights [I, O] of one layer start; gain is that of its activation, 1 without."""

    def __call__(self, *, key: jax.Array, shape: tuple[int, int], gain: Any) -> jax.Array: ...


LECUN_UNIFORM: KernelInit = partial(AXIS.apply, "lecun_uniform")


class MLP(linen.Module):
    """Dense layers with an activation between them; biases start at 0.

    layers: output size of each layer. activate_final: whether the last one is activated too.
    """

    layers: Sequence[int]
    activation: Callable[[jax.Array], jax.Array]
    activate_final: bool = False
    kernel_init: KernelInit = LECUN_UNIFORM

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for i, size in enumerate(self.layers):
            activated = i < len(self.layers) - 1 or self.activate_final
            x = linen.Dense(size, kernel_init=self._initializer(activated), name=f"hidden_{i}")(x)
            if activated:
                x = self.activation(x)
        return x

    def _initializer(self, activated: bool) -> Callable[..., jax.Array]:
        def initialize(key: jax.Array, shape: tuple[int, int], dtype: Any) -> jax.Array:
            return self.kernel_init(key=key, shape=shape, gain=HIDDEN_GAIN if activated else 1.0)

        return initialize


class Networks(NamedTuple):
    """Pure functions of the parameters; observations are normalised [..., O].

    init(key, kernel_init=LECUN_UNIFORM, policy_scale=1.0) -> parameters {"policy", "value"} and, if
        shared, "torso"; policy_scale is a factor on the weights of the policy's last layer.
    policy(parameters, observation) -> distribution parameters [..., 2A], see `mean_and_std`.
    value(parameters, observation) -> [...].
    both(parameters, observation) -> (distribution parameters, value), the torso run once.
    """

    init: Callable[..., Any]
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

    def init(
        key: jax.Array, kernel_init: KernelInit = LECUN_UNIFORM, policy_scale: Any = 1.0
    ) -> Any:
        key_policy, key_value, key_torso = jax.random.split(key, 3)
        policy = policy_net.clone(kernel_init=kernel_init).init(key_policy, example)
        last = policy["params"][f"hidden_{len(policy_net.layers) - 1}"]
        last["kernel"] = last["kernel"] * policy_scale
        parameters = {
            "policy": policy,
            "value": value_net.clone(kernel_init=kernel_init).init(key_value, example),
        }
        if shared:
            torso = trunk.clone(kernel_init=kernel_init)
            parameters["torso"] = torso.init(key_torso, jnp.zeros(observation_size))
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


def normal_log_prob(raw: jax.Array, x: jax.Array) -> jax.Array:
    """Log-density [...] of x [..., A], before tanh."""
    mean, std = mean_and_std(raw)
    normal = -0.5 * jnp.square((x - mean) / std) - 0.5 * jnp.log(2.0 * jnp.pi) - jnp.log(std)
    return jnp.sum(normal, axis=-1)
