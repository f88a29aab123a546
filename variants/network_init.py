"""The initial weights of one layer; bias_init has the biases.

Shapes: the output is [I, O] (inputs, outputs), the static `shape`; key is a PRNG key. gain depends
on the activation: √2 in hidden layers, 1 in the last layer. The trainer's policy_init_scale
multiplies the policy's last layer.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.nn import initializers

from variants.registry import Axis
from variants.rules import inert_where
from variants.shapes import Array, Scalar, floats

AXIS = Axis(
    "network_init",
    summary="the weights that learning starts from",
    inputs={"key": jax.eval_shape(lambda: jax.random.key(0)), "shape": (4, 3), "gain": floats()},
    defaults={"gain": 1.0},
)


@AXIS.choice(
    "lecun_uniform",
    formula="W ~ U(-√(3/I), √(3/I)):  variance 1/I",
    source="Brax (brax/training/networks.py); LeCun et al. 1998",
    summary="keeps the size of a signal through linear layers",
)
def lecun_uniform(*, key: Array, shape: tuple[int, int]) -> Array:
    return jnp.asarray(initializers.lecun_uniform()(key, shape))


@AXIS.choice(
    "lecun_normal",
    formula="W ~ N(0, 1/I), cut at two standard deviations and widened to variance 1/I",
    source="Flax's default for linear layers, so Rejax",
    summary="lecun_uniform with a bell's shape",
)
def lecun_normal(*, key: Array, shape: tuple[int, int]) -> Array:
    return initializers.lecun_normal()(key, shape)


@AXIS.choice(
    "orthogonal",
    formula="W = gain·Q,  QᵀQ = 1 (QQᵀ = 1 where I < O),  Q uniform among those",
    source="OpenAI Baselines, CleanRL, Stable-Baselines3; Saxe et al. 2014",
    summary="lengths and angles are kept; gain √2 in hidden layers",
)
def orthogonal(*, key: Array, shape: tuple[int, int], gain: Scalar = 1.0) -> Array:
    """Q has orthonormal columns, or orthonormal rows if I < O."""
    long, short = max(shape), min(shape)
    columns = _orthonormal(jax.random.normal(key, (long, short)))
    return gain * (columns if shape == (long, short) else columns.T)


def _orthonormal(matrix: Array) -> Array:
    """Return the Q [M, N] of matrix = QR with M >= N and a positive diagonal of R.

    By Gram and Schmidt, twice: the bits of LAPACK depend on the processor.
    """

    def column(place: Array, done: Array) -> Array:
        one = jax.lax.dynamic_index_in_dim(done, place, axis=1, keepdims=False)
        for _ in range(2):  # after one pass, rounding errors grow from column to column
            along = jnp.where(jnp.arange(matrix.shape[1]) < place, one @ done, 0.0)
            one = one - done @ along
        one = one / jnp.linalg.norm(one)
        return jnp.asarray(jax.lax.dynamic_update_index_in_dim(done, one, place, axis=1))

    return jnp.asarray(jax.lax.fori_loop(0, matrix.shape[1], column, matrix))


@AXIS.choice(
    "xavier_uniform",
    formula="W ~ U(-√(6/(I+O)), √(6/(I+O))):  variance 2/(I+O)",
    source="TensorFlow's default, so SEED RL; Glorot and Bengio 2010",
    summary="a compromise between signals forwards and gradients backwards",
)
def xavier_uniform(*, key: Array, shape: tuple[int, int]) -> Array:
    return jnp.asarray(initializers.xavier_uniform()(key, shape))


@AXIS.choice(
    "torch_uniform",
    formula="W ~ U(-1/√I, 1/√I):  variance 1/(3I)",
    source="PyTorch's default for linear layers, so RSL-RL (its biases alike: bias_init)",
    summary="a third of lecun_uniform's variance: signals shrink from layer to layer",
)
def torch_uniform(*, key: Array, shape: tuple[int, int]) -> Array:
    bound = 1 / math.sqrt(shape[0])
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


@AXIS.choice(
    "he_normal",
    formula="W ~ N(0, gain²/I), cut at two standard deviations and widened to variance gain²/I",
    source="He et al. 2015 (gain √2 in hidden layers); PureJaxQL's networks of images",
    summary="lecun_normal that makes up for what a relu takes away",
)
def he_normal(*, key: Array, shape: tuple[int, int], gain: Scalar = 1.0) -> Array:
    return gain * initializers.lecun_normal()(key, shape)


@inert_where(
    "network_init={network_init} has no gain: orthogonal and he_normal do",
    "policy_hidden_gain",
    "value_hidden_gain",
)
def few_choices_have_gains(*, network_init: str) -> bool:
    return "gain" not in AXIS[network_init].inputs
