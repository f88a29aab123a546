"""Arc tangents against NumPy's in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations.trainers.control import batching as arctangents


def last_places(found: jax.Array, exact: np.ndarray) -> np.ndarray:
    """How far off, in units in the last place of float32."""
    return np.abs(np.asarray(found, np.float64) - exact) / np.spacing(np.abs(np.float32(exact)))


def test_of_points_near_and_far() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, 100_000)) * 10.0 ** rng.uniform(-6, 6, (2, 100_000))).astype("f")
    found = jax.jit(arctangents.arctan2)(y, x)
    assert last_places(found, np.arctan2(np.float64(y), np.float64(x))).max() < 2


@pytest.mark.parametrize(
    ("name", "least", "most"), [("arctan", -50, 50), ("arcsin", -1, 1), ("arccos", -1, 1)]
)
def test_of_a_tangent_a_sine_and_a_cosine(name: str, least: float, most: float) -> None:
    x = np.linspace(least, most, 100_001, dtype=np.float32)
    found = jax.jit(getattr(arctangents, name))(x)
    exact = getattr(np, name)(np.float64(x))
    assert last_places(found, exact)[exact != 0].max() < 3
    np.testing.assert_array_equal(found[exact == 0], 0)


def test_on_the_axes_at_infinity_and_of_what_is_no_number() -> None:
    special = np.float32([0.0, -0.0, 1, -1, 1e30, np.inf, -np.inf, np.nan])
    y, x = np.meshgrid(special, special)
    found, exact = np.asarray(jax.jit(arctangents.arctan2)(y, x)), np.arctan2(y, x)
    np.testing.assert_allclose(found, exact, rtol=2e-7)
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(exact)[known])
    beyond = jnp.float32([-1.5, 1.5, np.nan])
    assert np.isnan(jax.jit(arctangents.arcsin)(beyond)).all()
    assert np.isnan(jax.jit(arctangents.arccos)(beyond)).all()
