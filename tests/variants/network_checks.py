"""What variants/network_init.py must satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import numpy as np
from oracles import check_of, close

SHAPES = ((48, 64), (64, 48), (64, 64), (300, 1))


def kernel(module: ModuleType, choice: str, shape: tuple[int, int], **inputs: Any) -> np.ndarray:
    """[I, O], from a key of its own per shape."""
    key = jax.random.key(shape[0] * 1000 + shape[1])
    got = module.AXIS.apply(choice, key=key, shape=shape, **inputs)
    assert got.shape == shape
    return np.asarray(got, np.float64)


@check_of("network_init")
def uniform_has_its_bounds(module: ModuleType) -> None:
    """Every weight within the bound, the largest close to it, and the variance of a uniform."""
    for shape in SHAPES:
        inputs, outputs = shape
        bounds = {
            "lecun_uniform": np.sqrt(3 / inputs),
            "xavier_uniform": np.sqrt(6 / (inputs + outputs)),
            "torch_uniform": 1 / np.sqrt(inputs),
        }
        for choice, bound in bounds.items():
            weights = kernel(module, choice, shape, gain=7.0)
            assert 0.97 * bound < np.abs(weights).max() <= bound * (1 + 1e-6)
            close(np.mean(weights**2), bound**2 / 3, rtol=0.15)
            assert abs(np.mean(weights)) < 0.15 * bound


@check_of("network_init")
def orthogonal_keeps_lengths(module: ModuleType) -> None:
    for shape in SHAPES:
        for gain in (1.0, np.sqrt(2)):
            weights = kernel(module, "orthogonal", shape, gain=gain)
            product = weights.T @ weights if shape[0] >= shape[1] else weights @ weights.T
            close(product, gain**2 * np.eye(min(shape)))


@check_of("network_init")
def he_normal_is_flax_s(module: ModuleType) -> None:
    """At the gain of a relu; and lecun_normal at that of a last layer, PureJaxQL's two."""
    from flax.linen import initializers

    for shape in SHAPES:
        key = jax.random.key(shape[0] * 1000 + shape[1])
        for gain, theirs in ((np.sqrt(2), "he_normal"), (1.0, "lecun_normal")):
            expected = getattr(initializers, theirs)()(key, shape)
            close(kernel(module, "he_normal", shape, gain=gain), expected, rtol=1e-6)


@check_of("network_init")
def keys_decide(module: ModuleType) -> None:
    for choice in ("lecun_uniform", "orthogonal", "xavier_uniform", "torch_uniform", "he_normal"):
        one, same, other = (
            np.asarray(module.AXIS.apply(choice, key=jax.random.key(seed), shape=(5, 4)))
            for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(one, same)
        assert np.all(one != other)
