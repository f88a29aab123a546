"""Policy and value networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from flax import linen

import variants
from ablations.trainers.control.heads import SCALAR, Head
from ablations.trainers.products import Dense
from ablations.trainers.trainer import Scalar, Tree

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
    """Initializer of the weights of one layer."""

    def __call__(self, *, key: jax.Array, shape: tuple[int, int], gain: Scalar) -> jax.Array:
        """Return weights [I, O]; gain is that of the layer's activation, 1 without."""


class BiasInit(Protocol):
    """Initializer of the biases of one layer."""

    def __call__(self, *, key: jax.Array, fan_in: int, size: int) -> jax.Array:
        """Return biases [size] of a layer of so many inputs."""


class Start(NamedTuple):
    """The start of the parameters of both networks.

    policy_gain, value_gain: of the hidden layers. policy_scale, value_scale: factors on the weights
        of the last ones.
    """

    kernel: KernelInit = partial(variants.axis("network_init").apply, "lecun_uniform")
    bias: BiasInit = partial(variants.axis("bias_init").apply, "zeros")
    policy_gain: Scalar = HIDDEN_GAIN
    value_gain: Scalar = HIDDEN_GAIN
    policy_scale: Scalar = 1.0
    value_scale: Scalar = 1.0

    def of(
        self,
        net: MLP,
        key: jax.Array,
        example: jax.Array,
        gain: Scalar,
        scale: Scalar | None = None,
    ) -> Tree:
        """Initialize a network that takes inputs such as an example.

        gain: of the hidden layers. scale: a factor on the weights of the last one.
        """
        net = net.clone(kernel_init=self.kernel, bias_init=self.bias, hidden_gain=gain)
        parameters: Tree = net.init(key, example)
        if scale is not None:
            last = parameters["params"][f"hidden_{len(net.layers) - 1}"]
            last["kernel"] = last["kernel"] * scale
        return parameters


class LayerNorm(linen.Module):
    """Layer normalisation: γ·(x - mean(x))/√(var(x) + 1e-6) + β over the last axis.

    As `linen.LayerNorm` in float32, by operations that every processor rounds alike.
    """

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalize x [..., D]."""
        size = (x.shape[-1],)
        scale = self.param("scale", linen.initializers.ones_init(), size, jnp.float32)
        bias = self.param("bias", linen.initializers.zeros_init(), size, jnp.float32)
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        return centred / jnp.sqrt(variance + NORM_EPSILON) * scale + bias


def layers_of(network: Mapping[str, Mapping[str, Tree]]) -> int:
    """Return how many dense layers a network's parameters have."""
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
    hidden_gain: Scalar = HIDDEN_GAIN
    normalized: bool = False

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the outputs [..., O] for inputs x [..., I]."""
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
    both(parameters, observation) -> (raw, outputs of the critic), the torso run once.
    head: what those stand for; of a scalar one they are the values.
    """

    init: Callable[..., Tree]
    policy: Callable[[Tree, jax.Array], jax.Array]
    value: Callable[[Tree, jax.Array], jax.Array]
    both: Callable[[Tree, jax.Array], tuple[jax.Array, jax.Array]]
    head: Head = SCALAR


def make_networks(  # noqa: PLR0913  # a network names all that it is made of
    observation_size: int,
    action_size: int,
    policy_layers: Sequence[int] = (64, 64),
    value_layers: Sequence[int] = (64, 64),
    torso: str = "separate",
    activation: str = "tanh",
    spread_parameter: bool = False,
    normalized: str = "none",
    head: Head = SCALAR,
) -> Networks:
    """Make two networks, or one torso of `policy_layers` with two linear heads (torso="shared").

    spread_parameter: the last A of `raw` are one more weight each, from 0 on and of the policy's,
        instead of outputs of its last layer. normalized: the choice of network_normalization.
        head: of the critic.
    """
    activate = ACTIVATIONS[activation]
    example = jnp.zeros(observation_size)
    shared = torso == "shared"
    outputs = action_size if spread_parameter else 2 * action_size
    trunk = MLP(
        tuple(policy_layers), activate, activate_final=True, normalized=normalized != "none"
    )
    hidden: tuple[Sequence[int], Sequence[int]] = (policy_layers, value_layers)
    if shared:
        hidden = ((), ())
        example = jnp.zeros((observation_size, *policy_layers)[-1])
    policy_net, value_net = (
        MLP((*layers, size), activate, normalized=normalized in ("both", name))
        for name, layers, size in zip(
            ("policy", "critic"), hidden, (outputs, head.size), strict=True
        )
    )

    def init(key: jax.Array, start: Start = Start()) -> Tree:  # noqa: B008  # immutable
        key_policy, key_value, key_torso = jax.random.split(key, 3)
        policy = start.of(policy_net, key_policy, example, start.policy_gain, start.policy_scale)
        if spread_parameter:
            policy["params"][SPREAD] = jnp.zeros(action_size)
        value = start.of(value_net, key_value, example, start.value_gain, start.value_scale)
        parameters = {"policy": policy, "value": value}
        if shared:
            first = jnp.zeros(observation_size)
            parameters["torso"] = start.of(trunk, key_torso, first, start.policy_gain)
        return parameters

    def features(parameters: Tree, observation: jax.Array) -> Tree:
        return trunk.apply(parameters["torso"], observation) if shared else observation

    def policy_head(parameters: Tree, x: jax.Array) -> Tree:
        head: Tree = policy_net.apply(parameters["policy"], x)
        if spread_parameter:
            spread = jnp.broadcast_to(parameters["policy"]["params"][SPREAD], head.shape)
            head = jnp.concatenate([head, spread], axis=-1)
        return head

    def value_head(parameters: Tree, x: jax.Array) -> Tree:
        layer: Tree = value_net.apply(parameters["value"], x)
        return head.outputs(layer)

    def both(parameters: Tree, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = features(parameters, observation)
        return policy_head(parameters, x), value_head(parameters, x)

    return Networks(
        init=init,
        policy=lambda p, observation: policy_head(p, features(p, observation)),
        value=lambda p, observation: head.values(value_head(p, features(p, observation))),
        both=both,
        head=head,
    )
