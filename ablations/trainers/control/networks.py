"""Policy and value networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from flax import linen

import variants
from ablations.trainers.products import Dense

ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": jnp.tanh,
    "swish": jax.nn.swish,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
}

HIDDEN_GAIN = math.sqrt(2.0)
NORM_EPSILON = 1e-6
# Where the policy's parameters hold a std that does not depend on the state.
SPREAD = "spread"


class KernelInit(Protocol):
    """How the weights [I, O] of one layer start; gain is that of its activation, 1 without."""

    def __call__(self, *, key: jax.Array, shape: tuple[int, int], gain: Any) -> jax.Array: ...


class BiasInit(Protocol):
    """How the biases [size] of one layer of so many inputs start."""

    def __call__(self, *, key: jax.Array, fan_in: int, size: int) -> jax.Array: ...


class Start(NamedTuple):
    """Where the parameters of both networks start.

    policy_gain, value_gain: of the hidden layers. policy_scale, value_scale: factors on the weights
        of the last ones.
    """

    kernel: KernelInit = partial(variants.axis("network_init").apply, "lecun_uniform")
    bias: BiasInit = partial(variants.axis("bias_init").apply, "zeros")
    policy_gain: Any = HIDDEN_GAIN
    value_gain: Any = HIDDEN_GAIN
    policy_scale: Any = 1.0
    value_scale: Any = 1.0


class LayerNorm(linen.Module):
    """γ·(x - mean(x))/√(var(x) + 1e-6) + β over the last axis, as `linen.LayerNorm` in float32, by
    operations that every processor rounds alike."""

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        size = (x.shape[-1],)
        scale = self.param("scale", linen.initializers.ones_init(), size, jnp.float32)
        bias = self.param("bias", linen.initializers.zeros_init(), size, jnp.float32)
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        return centred / jnp.sqrt(variance + NORM_EPSILON) * scale + bias


def layers_of(network: Mapping[str, Any]) -> int:
    """How many dense layers a network's parameters have."""
    return sum(name.startswith("hidden_") for name in network["params"])


class MLP(linen.Module):
    """Dense layers with an activation between them.

    layers: output size of each layer. activate_final: whether the last one is activated too.
    hidden_gain: what `kernel_init` is told of the layers that are activated. normalized: whether a
    LayerNorm stands before each activation.
    """

    layers: Sequence[int]
    activation: Callable[[jax.Array], jax.Array]
    activate_final: bool = False
    kernel_init: KernelInit = Start().kernel
    bias_init: BiasInit = Start().bias
    hidden_gain: Any = HIDDEN_GAIN
    normalized: bool = False

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for i, size in enumerate(self.layers):
            activated = i < len(self.layers) - 1 or self.activate_final
            gain = self.hidden_gain if activated else 1.0
            x = Dense(
                size,
                kernel_init=lambda key, shape, _, gain=gain: self.kernel_init(
                    key=key, shape=shape, gain=gain
                ),
                bias_init=lambda key, shape, _, fan_in=x.shape[-1]: self.bias_init(
                    key=key, fan_in=fan_in, size=shape[0]
                ),
                name=f"hidden_{i}",
            )(x)
            if activated and self.normalized:
                x = LayerNorm(name=f"norm_{i}")(x)
            if activated:
                x = self.activation(x)
        return x


class Networks(NamedTuple):
    """Pure functions of the parameters; observations are normalised [..., O].

    init(key, start=Start()) -> parameters {"policy", "value"} and, if shared, "torso".
    policy(parameters, observation) -> raw [..., 2A]: means, then what the axis policy_std makes the
        standard deviations of.
    value(parameters, observation) -> [...].
    both(parameters, observation) -> (raw, value), the torso run once.
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
    spread_parameter: bool = False,
    normalized: str = "none",
) -> Networks:
    """Two networks, or one torso of `policy_layers` with two linear heads (torso="shared").

    spread_parameter: the last A of `raw` are one more weight each, from 0 on and of the policy's,
        instead of outputs of its last layer. normalized: the choice of network_normalization.
    """
    activate = ACTIVATIONS[activation]
    example = jnp.zeros(observation_size)
    shared = torso == "shared"
    outputs = action_size if spread_parameter else 2 * action_size
    if shared:
        trunk = MLP(
            tuple(policy_layers), activate, activate_final=True, normalized=normalized != "none"
        )
        policy_net, value_net = MLP((outputs,), activate), MLP((1,), activate)
        example = jnp.zeros(policy_layers[-1] if policy_layers else observation_size)
    else:
        policy_net, value_net = (
            MLP(layers, activate, normalized=normalized in ("both", name))
            for name, layers in (
                ("policy", (*policy_layers, outputs)),
                ("critic", (*value_layers, 1)),
            )
        )

    def init(key: jax.Array, start: Start = Start()) -> Any:  # noqa: B008  # immutable
        key_policy, key_value, key_torso = jax.random.split(key, 3)

        def first(net: MLP, key: jax.Array, example: jax.Array, gain: Any, scale: Any) -> Any:
            net = net.clone(kernel_init=start.kernel, bias_init=start.bias, hidden_gain=gain)
            parameters = net.init(key, example)
            last = parameters["params"][f"hidden_{len(net.layers) - 1}"]
            last["kernel"] = last["kernel"] * scale
            return parameters

        policy = first(policy_net, key_policy, example, start.policy_gain, start.policy_scale)
        if spread_parameter:
            policy["params"][SPREAD] = jnp.zeros(action_size)
        parameters = {
            "policy": policy,
            "value": first(value_net, key_value, example, start.value_gain, start.value_scale),
        }
        if shared:
            parameters["torso"] = trunk.clone(
                kernel_init=start.kernel, bias_init=start.bias, hidden_gain=start.policy_gain
            ).init(key_torso, jnp.zeros(observation_size))
        return parameters

    def features(parameters: Any, observation: jax.Array) -> Any:
        return trunk.apply(parameters["torso"], observation) if shared else observation

    def policy_head(parameters: Any, x: jax.Array) -> Any:
        head: Any = policy_net.apply(parameters["policy"], x)
        if spread_parameter:
            spread = jnp.broadcast_to(parameters["policy"]["params"][SPREAD], head.shape)
            head = jnp.concatenate([head, spread], axis=-1)
        return head

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
