"""Policy and value networks, and the values of their outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen

import variants
from ablations.environments import Observations
from ablations.errors import UserError
from ablations.trainers.choices import apply
from ablations.trainers.control import normalizer as statistics
from ablations.trainers.control.normalizer import Normalizer
from ablations.trainers.products import Dense, dense_product
from ablations.trainers.trainer import Array, Scalar, TracedConfig, Tree

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "swish": jax.nn.swish,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
}

HIDDEN_GAIN = math.sqrt(2.0)
NORM_EPSILON = 1e-6
# The name of the std's weights among the policy's parameters.
SPREAD = "spread"


class Start(NamedTuple):
    """Initialisation of both networks.

    kernel: (key, shape [I, O], gain) -> weights [I, O]; the gain is 1 without an activation.
    bias: (key, fan_in, size) -> biases [size].
    policy_gain, value_gain: gains of hidden layers. policy_scale, value_scale: factors on the
        weights of the last layers.
    """

    kernel: Callable[..., Array] = partial(variants.axis("network_init").apply, "lecun_uniform")
    bias: Callable[..., Array] = partial(variants.axis("bias_init").apply, "zeros")
    policy_gain: Scalar = HIDDEN_GAIN
    value_gain: Scalar = HIDDEN_GAIN
    policy_scale: Scalar = 1.0
    value_scale: Scalar = 1.0

    def of(
        self, net: MLP, key: Array, example: Array, gain: Scalar, scale: Scalar | None = None
    ) -> Tree:
        """Initialize a network for an example input.

        gain: of the hidden layers. scale: a factor on the weights of the last layer.
        """
        net = net.clone(kernel_init=self.kernel, bias_init=self.bias, hidden_gain=gain)
        parameters: Tree = net.init(key, example)
        if scale is not None:
            last = parameters["params"][f"hidden_{len(net.layers) - 1}"]
            last["kernel"] = last["kernel"] * scale
        return parameters


def start_of(variant: TracedConfig) -> Start:
    """Return the initialisation by a variant's choices and numbers, those of its trainer."""
    numbers = variant.numbers
    return Start(
        kernel=partial(apply, "network_init", variant),
        bias=partial(apply, "bias_init", variant),
        policy_gain=numbers.get("policy_hidden_gain", HIDDEN_GAIN),
        value_gain=numbers["value_hidden_gain"],
        policy_scale=numbers.get("policy_init_scale", 1.0),
        value_scale=numbers["value_init_scale"],
    )


class LayerNorm(linen.Module):
    """Layer normalisation: γ·(x - mean(x))/√(var(x) + 1e-6) + β over the last axis.

    It equals `linen.LayerNorm` in float32, and every processor gives the same bits.
    """

    @linen.compact
    def __call__(self, x: Array) -> Array:
        """Normalize x [..., D]."""
        size = (x.shape[-1],)
        scale = self.param("scale", linen.initializers.ones_init(), size, jnp.float32)
        bias = self.param("bias", linen.initializers.zeros_init(), size, jnp.float32)
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        return centred / jnp.sqrt(variance + NORM_EPSILON) * scale + bias


class MLP(linen.Module):
    """Dense layers with an activation between them.

    layers: output size of each layer. activate_final: whether the last layer has an activation.
    hidden_gain: gain of `kernel_init` in layers with an activation. normalized: whether each
    activation follows a LayerNorm. image: height, width and channels of image inputs, whose first
    layer is a 3 by 3 convolution with `filters` outputs.
    """

    layers: Sequence[int]
    activation: Callable[[Array], Array]
    activate_final: bool = False
    kernel_init: Callable[..., Array] = Start().kernel
    bias_init: Callable[..., Array] = Start().bias
    hidden_gain: Scalar = HIDDEN_GAIN
    normalized: bool = False
    image: tuple[int, int, int] | None = None
    filters: int = 0

    @linen.compact
    def __call__(self, x: Array) -> Array:
        """Return the outputs [..., O] for inputs x [..., I]."""
        if self.image is not None and self.filters:
            x = self._dense(self.filters, "convolution", patches(x, self.image), activated=True)
            x = self._activated(x, "norm_convolution")
            x = x.reshape(*x.shape[:-2], -1)
        for i, size in enumerate(self.layers):
            activated = i < len(self.layers) - 1 or self.activate_final
            x = self._dense(size, f"hidden_{i}", x, activated)
            if activated:
                x = self._activated(x, f"norm_{i}")
        return x

    def _dense(self, size: int, name: str, x: Array, activated: bool) -> Array:
        outputs: Array = Dense(
            size,
            kernel_init=lambda key, shape, _: self.kernel_init(
                key=key, shape=shape, gain=self.hidden_gain if activated else 1.0
            ),
            bias_init=lambda key, shape, _, fan_in=x.shape[-1]: self.bias_init(
                key=key, fan_in=fan_in, size=shape[0]
            ),
            name=name,
        )(x)
        return outputs

    def _activated(self, x: Array, name: str) -> Array:
        return self.activation(LayerNorm(name=name)(x) if self.normalized else x)


def patches(x: Array, image: tuple[int, int, int]) -> Array:
    """Return the 3 by 3 patches of flat images [..., H·W·C]: [..., (H-2)·(W-2), 9·C].

    A dense layer on them is a convolution of stride 1 without padding, as a matrix product.
    """
    height, width, channels = image
    if min(height, width) < 3:
        raise UserError(
            f"no convolution of 3 by 3 fits images of {height} by {width}: set filters=0"
        )
    x = x.reshape(*x.shape[:-1], height, width, channels)
    rows, columns = height - 2, width - 2
    shifted = [x[..., i : i + rows, j : j + columns, :] for i in range(3) for j in range(3)]
    stacked = jnp.concatenate(shifted, axis=-1)
    return stacked.reshape(*stacked.shape[:-3], rows * columns, 9 * channels)


class Outputs(NamedTuple):
    """The numbers of outputs of a policy's network, in this order.

    layer: outputs of the last layer. weights: weights from 0, the same in every state.
    feature_variances: A outputs Σⱼ φⱼ²·exp(2·Wⱼ) of the last hidden layer φ [F], without a gradient
    through φ, and a matrix W [F, A] from 0.
    """

    layer: int
    weights: int = 0
    feature_variances: int = 0


class PolicyHead(NamedTuple):
    """The policy's network, after a shared torso if there is one.

    part: of the inputs that it reads, see `part_of`.
    """

    net: MLP
    outputs: Outputs
    part: tuple[int, int] | None

    def init(self, key: Array, start: Start, x: Array) -> Tree:
        """Initialize the parameters for inputs x [..., I]."""
        policy = start.of(
            self.net, key, part_of(self.part, x), start.policy_gain, start.policy_scale
        )
        if self.outputs.weights:
            policy["params"][SPREAD] = jnp.zeros(self.outputs.weights)
        if self.outputs.feature_variances:
            size = self._features(policy, x).shape[-1]
            policy["params"][SPREAD] = jnp.zeros((size, self.outputs.feature_variances))
        return policy

    def raw(self, policy: Tree, x: Array) -> Array:
        """Return its outputs [..., R]."""
        layer = jnp.asarray(self.net.apply(policy, part_of(self.part, x)))
        if self.outputs.weights:
            spread = policy["params"][SPREAD]
            spread = jnp.broadcast_to(spread, (*layer.shape[:-1], self.outputs.weights))
        elif self.outputs.feature_variances:
            squares = jnp.square(self._features(policy, x))
            spread = dense_product(squares, jnp.exp(2.0 * policy["params"][SPREAD]))
        else:
            return layer
        return jnp.concatenate([layer, spread], axis=-1)

    def _features(self, policy: Tree, x: Array) -> Tree:
        """Return the last hidden layer [..., F] without a gradient."""
        hidden = self.net.clone(layers=self.net.layers[:-1], activate_final=True)
        return jax.lax.stop_gradient(hidden.apply(policy, part_of(self.part, x)))


class Head(NamedTuple):
    """A choice of critic_head. size: outputs of the last layer. value_range: bound of the bins."""

    choice: str = "scalar"
    size: int = 1
    value_range: float = 10.0

    def outputs(self, layer: Array) -> Array:
        """Return the critic's outputs: the last layer [..., K], or [...] for a scalar."""
        return layer[..., 0] if self.choice == "scalar" else layer

    def values(self, outputs: Array) -> Array:
        """Return the values [...] of `outputs`."""
        if self.choice == "scalar":
            return outputs
        answer = variants.axis("critic_head").apply(
            self.choice,
            outputs=outputs,
            targets=jnp.zeros(outputs.shape[:-1]),
            value_range=self.value_range,
        )
        values: Array = answer.value
        return values

    def error(self, outputs: Array, variant: TracedConfig) -> Callable[..., Array] | None:
        """Return the loss per sample as a function of flat targets; None for a scalar."""
        if self.choice == "scalar":
            return None

        def error(*, values: Array, targets: Array) -> Array:
            answer = apply(
                "critic_head",
                variant,
                outputs=outputs.reshape(-1, self.size),
                targets=targets,
                value_range=self.value_range,
            )
            losses: Array = answer.loss
            return losses

        return error


SCALAR = Head()


class Networks(NamedTuple):
    """Policy and critic: pure functions of parameters and normalised observations [..., O].

    torso: shared by two linear networks, or None. part: of the inputs that the critic reads.
    head: maps the critic's outputs to values.
    """

    policy_net: PolicyHead
    value_net: MLP
    torso: MLP | None
    size: int
    part: tuple[int, int] | None
    head: Head = SCALAR

    def init(self, key: Array, start: Start = Start()) -> Tree:  # noqa: B008  # immutable
        """Initialize parameters {"policy", "value"}, and "torso" if it is shared."""
        key_policy, key_value, key_torso = jax.random.split(key, 3)
        example, torso = jnp.zeros(self.size), {}
        if self.torso is not None:
            torso = {"torso": start.of(self.torso, key_torso, example, start.policy_gain)}
        x = self._features(torso, example)
        policy = self.policy_net.init(key_policy, start, x)
        value = start.of(
            self.value_net, key_value, part_of(self.part, x), start.value_gain, start.value_scale
        )
        return {"policy": policy, "value": value, **torso}

    def policy(self, parameters: Tree, observation: Array) -> Array:
        """Return raw [..., R], the input of a `Distribution`."""
        return self.policy_net.raw(parameters["policy"], self._features(parameters, observation))

    def value(self, parameters: Tree, observation: Array) -> Array:
        """Return values [...]."""
        return self.head.values(self._outputs(parameters, self._features(parameters, observation)))

    def both(self, parameters: Tree, observation: Array) -> tuple[Array, Array]:
        """Return raw and the critic's outputs, with one pass of the torso."""
        x = self._features(parameters, observation)
        return self.policy_net.raw(parameters["policy"], x), self._outputs(parameters, x)

    def _features(self, parameters: Tree, observation: Array) -> Tree:
        return (
            observation
            if self.torso is None
            else self.torso.apply(parameters["torso"], observation)
        )

    def _outputs(self, parameters: Tree, x: Array) -> Array:
        layer: Tree = self.value_net.apply(parameters["value"], part_of(self.part, x))
        return self.head.outputs(layer)


def make_networks(  # noqa: PLR0913
    observations: Observations | int,
    outputs: Outputs,
    policy_layers: Sequence[int] = (64, 64),
    value_layers: Sequence[int] = (64, 64),
    torso: str = "separate",
    activation: str = "tanh",
    normalized: str = "none",
    filters: int = 0,
    head: Head = SCALAR,
) -> Networks:
    """Make two networks, or one torso of `policy_layers` with two linear heads (torso="shared").

    observations: their form, or the size of vectors. outputs: of the policy. normalized: a choice
        of network_normalization. filters: of the convolution of images, 0 for none. head: of the
        critic.
    """
    form = Observations(observations) if isinstance(observations, int) else observations
    net = partial(MLP, activation=ACTIVATIONS[activation])
    image = partial(net, image=form.image, filters=filters)
    trunk, first = None, image
    if torso == "shared":
        trunk = image(tuple(policy_layers), activate_final=True, normalized=normalized != "none")
        policy_layers, value_layers, first = (), (), net
    policy = first((*policy_layers, outputs.layer), normalized=normalized in ("both", "policy"))
    value = first((*value_layers, head.size), normalized=normalized in ("both", "critic"))
    policy_head = PolicyHead(policy, outputs, form.policy)
    return Networks(policy_head, value, trunk, form.size, form.value, head)


class Critic(NamedTuple):
    """A value network, and the statistics that scale its outputs.

    network: (parameters, normalised observations [..., O]) -> outputs [...].
    choice: of value_normalization. of_targets: statistics of the value targets so far.
    """

    network: Callable[[Tree, Array], Array]
    choice: str
    of_targets: Normalizer | None

    @staticmethod
    def start(choice: str) -> Normalizer | None:
        """Return the first statistics of value targets; None if the choice reads none."""
        reads = "mean" in variants.axis("value_normalization")[choice].inputs
        return statistics.empty(1) if reads else None

    def value(self, parameters: Tree, observation: Array) -> Array:
        """Return values [...] of observations [..., O], in units of scaled reward."""
        return self.meant(self.network(parameters, observation))

    def meant(self, output: Array) -> Array:
        """Convert outputs of the network to values."""
        return self._map(output, inverse=True)

    def output(self, value: Array) -> Array:
        """Convert values to outputs of the network."""
        return self._map(value, inverse=False)

    def after(self, targets: Array, parameters: Tree) -> tuple[Critic, Tree]:
        """Add targets [T, N] to the statistics; return the new critic and the parameters.

        With "popart" the last layer is rescaled so that the network's values stay the same.
        """
        if self.of_targets is None:
            return self, parameters
        critic = self._replace(of_targets=statistics.update(self.of_targets, targets[..., None]))
        if self.choice != "popart":
            return critic, parameters

        # Both maps are affine, so two points determine the new layer.
        def moved(output: Array) -> Array:
            return critic.output(self._map(output, inverse=True))

        shift = moved(jnp.zeros(1))
        factor = moved(jnp.ones(1)) - shift
        layers = parameters["value"]["params"]
        last = f"hidden_{sum(name.startswith('hidden_') for name in layers) - 1}"
        layer = layers[last]
        rescaled = {"kernel": layer["kernel"] * factor, "bias": layer["bias"] * factor + shift}
        value = {**parameters["value"], "params": {**layers, last: rescaled}}
        return critic, {**parameters, "value": value}

    def _map(self, x: Array, *, inverse: bool) -> Array:
        of = self.of_targets
        mean, variance = (0.0, 1.0) if of is None else (of.mean[0], of.spread[0])
        mapped: Array = variants.axis("value_normalization").apply(
            self.choice, x=x, inverse=inverse, mean=mean, variance=variance
        )
        return mapped


class QNetwork(NamedTuple):
    """Pure functions of parameters {"q"} and normalised observations [..., O].

    net: has one output per action. observations: their form.
    """

    net: MLP
    observations: Observations

    def init(self, key: Array, start: Start = Start()) -> Tree:  # noqa: B008  # immutable
        """Initialize the parameters, by the value gain and scale of `start`."""
        example = part_of(self.observations.policy, jnp.zeros(self.observations.size))
        return {"q": start.of(self.net, key, example, start.value_gain, start.value_scale)}

    def values(self, parameters: Tree, observation: Array) -> Array:
        """Return the values [..., A] of all A actions."""
        seen = part_of(self.observations.policy, observation)
        outputs: Tree = self.net.apply(parameters["q"], seen)
        return jnp.asarray(outputs)


def part_of(part: tuple[int, int] | None, observation: Array) -> Array:
    """Return the part [start, stop) of an observation [..., O]; None: all of it."""
    return observation if part is None else observation[..., slice(*part)]
