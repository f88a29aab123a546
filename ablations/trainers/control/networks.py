"""Policy and value networks, and what their outputs stand for."""

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
from ablations.trainers.trainer import Scalar, TracedConfig, Tree

ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": jnp.tanh,
    "swish": jax.nn.swish,
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
}

HIDDEN_GAIN = math.sqrt(2.0)
NORM_EPSILON = 1e-6
# Where the policy's parameters hold the weights of its std.
SPREAD = "spread"


class Start(NamedTuple):
    """The start of the parameters of both networks.

    kernel(key, shape [I, O], gain) -> weights [I, O] of one layer; gain is that of the layer's
        activation, 1 without. bias(key, fan_in, size) -> biases [size].
    policy_gain, value_gain: of the hidden layers. policy_scale, value_scale: factors on the weights
        of the last ones.
    """

    kernel: Callable[..., jax.Array] = partial(variants.axis("network_init").apply, "lecun_uniform")
    bias: Callable[..., jax.Array] = partial(variants.axis("bias_init").apply, "zeros")
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
    LayerNorm stands before each activation. image: height, width, channels of inputs that are
    images; a convolution of 3 by 3 with so many `filters` is the first layer, activated as all.
    """

    layers: Sequence[int]
    activation: Callable[[jax.Array], jax.Array]
    activate_final: bool = False
    kernel_init: Callable[..., jax.Array] = Start().kernel
    bias_init: Callable[..., jax.Array] = Start().bias
    hidden_gain: Scalar = HIDDEN_GAIN
    normalized: bool = False
    image: tuple[int, int, int] | None = None
    filters: int = 0

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
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

    def _dense(self, size: int, name: str, x: jax.Array, activated: bool) -> jax.Array:
        outputs: jax.Array = Dense(
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

    def _activated(self, x: jax.Array, name: str) -> jax.Array:
        return self.activation(LayerNorm(name=name)(x) if self.normalized else x)


def patches(x: jax.Array, image: tuple[int, int, int]) -> jax.Array:
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
    """The outputs of a policy's network: of its last layer, then what other weights make.

    weights: that many of their own, from 0, the same in every state. feature_variances: that many,
    of the features φ [F] of the last hidden layer and a matrix W [F, A] from 0, Σⱼ φⱼ²·exp(2·Wⱼ),
    through which no gradient reaches φ.
    """

    layer: int
    weights: int = 0
    feature_variances: int = 0


class PolicyHead(NamedTuple):
    """The policy's network, behind a torso where one is shared.

    seen: the part of its inputs that it sees, as in `seen`.
    """

    net: MLP
    outputs: Outputs
    seen: tuple[int, int] | None

    def init(self, key: jax.Array, start: Start, x: jax.Array) -> Tree:
        """Initialize its parameters for inputs such as x [..., I]."""
        policy = start.of(self.net, key, seen(self.seen, x), start.policy_gain, start.policy_scale)
        if self.outputs.weights:
            policy["params"][SPREAD] = jnp.zeros(self.outputs.weights)
        if self.outputs.feature_variances:
            size = self._features(policy, x).shape[-1]
            policy["params"][SPREAD] = jnp.zeros((size, self.outputs.feature_variances))
        return policy

    def raw(self, policy: Tree, x: jax.Array) -> jax.Array:
        """Return its outputs [..., R]."""
        layer = jnp.asarray(self.net.apply(policy, seen(self.seen, x)))
        if self.outputs.weights:
            spread = policy["params"][SPREAD]
            spread = jnp.broadcast_to(spread, (*layer.shape[:-1], self.outputs.weights))
        elif self.outputs.feature_variances:
            squares = jnp.square(self._features(policy, x))
            spread = dense_product(squares, jnp.exp(2.0 * policy["params"][SPREAD]))
        else:
            return layer
        return jnp.concatenate([layer, spread], axis=-1)

    def _features(self, policy: Tree, x: jax.Array) -> Tree:
        """Return its last hidden layer [..., F], constant in differentiation."""
        hidden = self.net.clone(layers=self.net.layers[:-1], activate_final=True)
        return jax.lax.stop_gradient(hidden.apply(policy, seen(self.seen, x)))


class Head(NamedTuple):
    """A choice of critic_head, with what it fixes of the network.

    size: outputs of the last layer. value_range: bins lie from minus that to that.
    """

    choice: str = "scalar"
    size: int = 1
    value_range: float = 10.0

    def outputs(self, layer: jax.Array) -> jax.Array:
        """Return what the critic answers by its last layer [..., K]: [...] where K is 1 number."""
        return layer[..., 0] if self.choice == "scalar" else layer

    def values(self, outputs: jax.Array) -> jax.Array:
        """Return the values [...] that are meant by `outputs`."""
        if self.choice == "scalar":
            return outputs
        answer = variants.axis("critic_head").apply(
            self.choice,
            outputs=outputs,
            targets=jnp.zeros(outputs.shape[:-1]),
            value_range=self.value_range,
        )
        values: jax.Array = answer.value
        return values

    def error(self, outputs: jax.Array, variant: TracedConfig) -> Callable[..., jax.Array] | None:
        """Return the loss of each sample as a function of flat targets; None: that of a number."""
        if self.choice == "scalar":
            return None

        def error(*, values: jax.Array, targets: jax.Array) -> jax.Array:
            answer = apply(
                "critic_head",
                variant,
                outputs=outputs.reshape(-1, self.size),
                targets=targets,
                value_range=self.value_range,
            )
            losses: jax.Array = answer.loss
            return losses

        return error


SCALAR = Head()


class Networks(NamedTuple):
    """Pure functions of the parameters; observations are normalised [..., O].

    init(key, start=Start()) -> parameters {"policy", "value"} and, if shared, "torso".
    policy(parameters, observation) -> raw [..., R], of which a `Distribution` makes actions.
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

    observations: their form, or the size of vectors. outputs: of the policy. normalized: the choice
        of network_normalization. filters: of the convolution that images meet first, 0 for none.
        head: of the critic.
    """
    form = Observations(observations) if isinstance(observations, int) else observations
    shared = torso == "shared"
    net = partial(MLP, activation=ACTIVATIONS[activation])
    image = partial(net, image=form.image, filters=filters)
    trunk = image(tuple(policy_layers), activate_final=True, normalized=normalized != "none")
    first: partial[MLP] = net if shared else image
    hidden: tuple[Sequence[int], Sequence[int]] = (policy_layers, value_layers)
    if shared:
        hidden = ((), ())
    policy_net, value_net = (
        first((*layers, size), normalized=normalized in ("both", name))
        for name, layers, size in zip(
            ("policy", "critic"), hidden, (outputs.layer, head.size), strict=True
        )
    )

    head_of_policy = PolicyHead(policy_net, outputs, form.policy)

    def init(key: jax.Array, start: Start = Start()) -> Tree:  # noqa: B008  # immutable
        key_policy, key_value, key_torso = jax.random.split(key, 3)
        example, torso = jnp.zeros(form.size), {}
        if shared:
            torso = {"torso": start.of(trunk, key_torso, example, start.policy_gain)}
        x = features(torso, example)
        policy = head_of_policy.init(key_policy, start, x)
        value = start.of(
            value_net, key_value, seen(form.value, x), start.value_gain, start.value_scale
        )
        return {"policy": policy, "value": value, **torso}

    def features(parameters: Tree, observation: jax.Array) -> Tree:
        return trunk.apply(parameters["torso"], observation) if shared else observation

    def value_head(parameters: Tree, x: jax.Array) -> Tree:
        layer: Tree = value_net.apply(parameters["value"], seen(form.value, x))
        return head.outputs(layer)

    def both(parameters: Tree, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = features(parameters, observation)
        return head_of_policy.raw(parameters["policy"], x), value_head(parameters, x)

    return Networks(
        init=init,
        policy=lambda p, observation: head_of_policy.raw(p["policy"], features(p, observation)),
        value=lambda p, observation: head.values(value_head(p, features(p, observation))),
        both=both,
        head=head,
    )


class Critic(NamedTuple):
    """A value network, and the statistics that its outputs are scaled by.

    network: (parameters, normalised observations [..., O]) -> outputs [...].
    choice: of value_normalization. seen: statistics of the value targets so far.
    """

    network: Callable[[Tree, jax.Array], jax.Array]
    choice: str
    seen: Normalizer | None

    @staticmethod
    def start(choice: str) -> Normalizer | None:
        """Return the statistics of no value targets; None where a choice reads none."""
        reads = "mean" in variants.axis("value_normalization")[choice].inputs
        return statistics.empty(1) if reads else None

    def value(self, parameters: Tree, observation: jax.Array) -> jax.Array:
        """Return values [...] of observations [..., O], in units of scaled reward."""
        return self.meant(self.network(parameters, observation))

    def meant(self, output: jax.Array) -> jax.Array:
        """Return the values that outputs of the network stand for."""
        return self._map(output, inverse=True)

    def output(self, value: jax.Array) -> jax.Array:
        """Return what the network would have to answer for these values."""
        return self._map(value, inverse=False)

    def after(self, targets: jax.Array, parameters: Tree) -> tuple[Critic, Tree]:
        """Return the critic whose statistics have seen these targets [T, N] too, and parameters.

        With "popart" those are changed so that they answer the same values as before.
        """
        if self.seen is None:
            return self, parameters
        critic = self._replace(seen=statistics.update(self.seen, targets[..., None]))
        if self.choice != "popart":
            return critic, parameters

        # Both maps are affine, so two values say what becomes of the last layer.
        def moved(output: jax.Array) -> jax.Array:
            return critic.output(self._map(output, inverse=True))

        shift = moved(jnp.zeros(1))
        factor = moved(jnp.ones(1)) - shift
        layers = parameters["value"]["params"]
        last = f"hidden_{layers_of(parameters['value']) - 1}"
        layer = layers[last]
        rescaled = {"kernel": layer["kernel"] * factor, "bias": layer["bias"] * factor + shift}
        value = {**parameters["value"], "params": {**layers, last: rescaled}}
        return critic, {**parameters, "value": value}

    def _map(self, x: jax.Array, *, inverse: bool) -> jax.Array:
        mean, variance = (
            (0.0, 1.0) if self.seen is None else (self.seen.mean[0], self.seen.spread[0])
        )
        mapped: jax.Array = variants.axis("value_normalization").apply(
            self.choice, x=x, inverse=inverse, mean=mean, variance=variance
        )
        return mapped


class QNetwork(NamedTuple):
    """Pure functions of the parameters; observations are normalised [..., O].

    init(key, start=Start()) -> parameters {"q"}; start's gain and scale are those of a critic.
    values(parameters, observation) -> [..., A], of every action.
    actions: A.
    """

    init: Callable[..., Tree]
    values: Callable[[Tree, jax.Array], jax.Array]
    actions: int


def make_q_network(
    observations: Observations,
    actions: int,
    layers: Sequence[int],
    *,
    activation: str = "relu",
    normalized: bool = True,
    filters: int = 0,
) -> QNetwork:
    """Make a network that has a value for each action.

    normalized: whether a LayerNorm stands before each activation. filters: of the convolution that
    images meet first, 0 for none.
    """
    net = MLP(
        (*layers, actions),
        activation=ACTIVATIONS[activation],
        normalized=normalized,
        image=observations.image,
        filters=filters,
    )

    def init(key: jax.Array, start: Start = Start()) -> Tree:  # noqa: B008  # immutable
        example = seen(observations.policy, jnp.zeros(observations.size))
        return {"q": start.of(net, key, example, start.value_gain, start.value_scale)}

    def values(parameters: Tree, observation: jax.Array) -> jax.Array:
        outputs: Tree = net.apply(parameters["q"], seen(observations.policy, observation))
        return jnp.asarray(outputs)

    return QNetwork(init, values, actions)


def seen(part: tuple[int, int] | None, observation: jax.Array) -> jax.Array:
    """Return the part [start, stop) of an observation [..., O]; None: all of it."""
    return observation if part is None else observation[..., slice(*part)]
