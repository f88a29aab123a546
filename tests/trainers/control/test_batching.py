"""`vmap_trailing` against `jax.vmap`: operation by operation, and the physics of tasks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import subjaxprs

from ablations.tasks import task
from ablations.trainers.control import batching
from ablations.trainers.control.batching import vmap_trailing

N = 5
TABLE = np.arange(12.0, dtype=np.float32).reshape(4, 3)
PLACES = np.array([2, 0, 2, 3])

# name -> function of x [4, 3], y [3] and k (a place from 0 to 3)
OPERATIONS: dict[str, Any] = {
    "of_elements": lambda x, y, k: jnp.tanh(x) * 2.0 - jnp.sqrt(jnp.abs(x)) / 3.0,
    "of_angles": lambda x, y, k: (
        jnp.arctan2(x, y) + jnp.arctan(x),
        jnp.arcsin(jnp.sin(x)) + jnp.arccos(jnp.cos(x)),
    ),
    "of_a_row_and_a_matrix": lambda x, y, k: x * y + y[0],
    "with_constants": lambda x, y, k: jnp.where(x > TABLE, x, TABLE) + jnp.clip(y, -0.1, 0.1),
    "of_axes_of_one": lambda x, y, k: x[:, :1] * x[:1, :] + TABLE[:, None, :1],
    "chosen_by_a_number": lambda x, y, k: lax.select(k > 1, x, 2 * x),
    "sums": lambda x, y, k: (x.sum(0), x.sum(1), x.sum(), x.max(0), x.argmin(1), jnp.any(x > 1)),
    "cumulated": lambda x, y, k: jnp.cumsum(x, 0) + lax.cummax(x, 1),
    "sorted": lambda x, y, k: lax.sort((x, x**2), dimension=0, num_keys=1),
    "joined": lambda x, y, k: jnp.concatenate([x, y[None], TABLE]),
    "stacked": lambda x, y, k: (jnp.stack([y, TABLE[0], y], 1), jnp.split(x, 2)),
    "turned": lambda x, y, k: (x.T, x[::-1], jnp.moveaxis(x[:, None], 0, 2)),
    "cut": lambda x, y, k: (x[1:3], x[::2, 1:], x[:, None], x[1], x[-1, 2]),
    "shaped": lambda x, y, k: (x.reshape(2, 6), jnp.broadcast_to(y, (2, 3)), jnp.tile(y, (2, 2))),
    "padded": lambda x, y, k: jnp.pad(x, ((1, 0), (0, 2)), constant_values=7.0),
    "taken": lambda x, y, k: (x[PLACES], jnp.take(x, PLACES % 3, axis=1), x[PLACES, PLACES % 3]),
    "taken_of_a_table": lambda x, y, k: (jnp.asarray(TABLE)[k], x[k], x[jnp.array([k, 0])]),
    "put": lambda x, y, k: (x.at[PLACES[:2]].set(y), jnp.asarray(TABLE).at[1].add(y)),
    "added_at": lambda x, y, k: jax.ops.segment_sum(x, PLACES, 5) + x.at[k].add(y)[0, 0],
    "multiplied_at": lambda x, y, k: x.at[PLACES, :2].multiply(y[:2]),
    "rows_from": lambda x, y, k: lax.dynamic_slice(x, (k, 0), (1, 2)),
    "products": lambda x, y, k: (x @ y, x.T @ x, y @ y, TABLE @ y, y @ TABLE.T, jnp.outer(y, y)),
    "batched_products": lambda x, y, k: jnp.einsum("aij,ajk->aik", x[:, :, None], x[:, None]),
    "crossed": lambda x, y, k: (
        jnp.cross(x, y) + jax.vmap(jnp.dot, in_axes=(0, None))(x, y)[:, None]
    ),
    "integer_products": lambda x, y, k: jnp.arange(12).reshape(4, 3) @ jnp.array([k, 1, 2]),
    "turned_while_shaped": lambda x, y, k: x.ravel("F"),
    "products_of_bits": lambda x, y, k: (x > 0) @ (y > 0),
    "half_products": lambda x, y, k: x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16),
    "computed_again": lambda x, y, k: jax.checkpoint(jnp.sin)(x) + lax.stop_gradient(x),
    "loop": lambda x, y, k: lax.fori_loop(0, 3, lambda i, c: c * x[i] + i, y),
    "scan": lambda x, y, k: lax.scan(lambda c, row: (c + row, (c * row, 1.0)), y, x, reverse=True),
    "scan_of_constants": lambda x, y, k: lax.scan(
        lambda c, row: ((c[0] + row, c[1] + y.sum() * c[0][0], c[2]), c[1]),
        (jnp.zeros(3), 1.0, 0),
        jnp.asarray(TABLE),
    ),
    "batched_later": lambda x, y, k: lax.scan(
        lambda c, _: ((c[1], c[2], c[2] + y[0]), c[0]), (0.0, 1.0, 2.0), length=4
    ),
    "while_it_is_small": lambda x, y, k: lax.while_loop(lambda c: c < 9, lambda c: c + k + 1, k),
    "a_branch_each": lambda x, y, k: lax.cond(k > 1, lambda: x + 1, lambda: x * 0),
    "a_branch_of_a_platform": lambda x, y, k: lax.platform_dependent(
        x, cpu=lambda x: x + 1, default=lambda x: x
    ),
    "own_derivative": lambda x, y, k: jax.nn.relu(x) + jax.nn.silu(x),
    "random": lambda x, y, k: jax.random.normal(jax.random.fold_in(jax.random.key(0), k), (2, 3)),
    "solved": lambda x, y, k: jnp.linalg.cholesky(x.T @ x + jnp.eye(3)),
    "nothing_of_it": lambda x, y, k: (jnp.asarray(TABLE), 3),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_it_is_vmap(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 4, 3)).astype(np.float32)
    y = rng.normal(size=(N, 3)).astype(np.float32)
    k = np.array([3, 0, 1, 2, 1])
    expected = jax.jit(jax.vmap(OPERATIONS[name]))(x, y, k)
    found = jax.jit(vmap_trailing(OPERATIONS[name]))(x, y, k)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_sizes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="every array has a batch"):
        vmap_trailing(lambda x, y: x * y)(jnp.ones((5, 2)), jnp.ones((1, 2)))


def test_lanes_go_around_it() -> None:
    x = np.random.default_rng(1).normal(size=(2, N, 4, 3)).astype(np.float32)
    expected = jax.vmap(jax.vmap(lambda x: x @ x.T))(x)
    found = jax.vmap(vmap_trailing(lambda x: x @ x.T))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_loop_leaks_no_tracer() -> None:
    def scanned(x: Any) -> Any:
        return lax.scan(lambda c, row: (c + row, c), x, jnp.ones((2, 3)))

    with jax.checking_leaks():
        jax.jit(vmap_trailing(scanned))(jnp.ones((N, 3)))


def test_arguments_are_trees_and_keys() -> None:
    keys = jax.random.split(jax.random.key(0), N)

    def step(state: Any, action: Any) -> Any:
        key, draw = jax.random.split(state["key"])
        return {"key": key, "x": state["x"] + action + jax.random.normal(draw, (2,)), "n": None}

    state, actions = {"key": keys, "x": jnp.ones((N, 2)), "n": None}, jnp.arange(N)
    expected, found = jax.vmap(step)(state, actions), vmap_trailing(step)(state, actions)
    np.testing.assert_array_equal(found["x"], expected["x"])
    np.testing.assert_array_equal(*map(jax.random.key_data, (found["key"], expected["key"])))


def test_no_operation_of_a_spring_s_step_is_left_to_vmap(monkeypatch) -> None:
    """Each would carry the batch to the front and back, in every step."""
    monkeypatch.setattr(batching, "_by_vmap", None)
    env = task("hopper").make(task("hopper").settings)
    states = jax.eval_shape(jax.vmap(env.reset), jax.random.split(jax.random.key(0), N))
    jax.eval_shape(vmap_trailing(env.step), states, jnp.zeros((N, env.action_size)))


# What XLA on a CPU takes from the C library, and glibc 2.41 changed in the last bits.
CHANGED = {"acos", "asin", "atan", "atan2", "cbrt", "tan"}


@pytest.mark.parametrize(
    "name", ["reacher", "hopper", pytest.param("humanoid", marks=pytest.mark.long)]
)
def test_physics_takes_nothing_from_the_c_library_that_its_version_decides(name: str) -> None:
    env = task(name).make(task(name).settings)
    states = jax.eval_shape(jax.vmap(env.reset), jax.random.split(jax.random.key(0), N))
    actions = jnp.zeros((N, env.action_size))
    assert CHANGED & primitives(jax.make_jaxpr(jax.vmap(env.step))(states, actions).jaxpr)
    assert not CHANGED & primitives(jax.make_jaxpr(env.reset)(jax.random.key(0)).jaxpr)
    assert not CHANGED & primitives(jax.make_jaxpr(vmap_trailing(env.step))(states, actions).jaxpr)


def primitives(jaxpr: Any) -> set[str]:
    """Names of a program's operations, with those inside of others."""
    inside = [primitives(one) for one in subjaxprs(jaxpr)]
    return {equation.primitive.name for equation in jaxpr.eqns}.union(*inside)


@pytest.mark.parametrize(("name", "backend"), [("hopper", "spring"), ("reacher", "positional")])
def test_a_step_is_that_of_vmap(name: str, backend: str) -> None:
    """In float64, where a sum's order is of no weight."""
    with jax.enable_x64(True):
        env = task(name).make({**task(name).settings, "backend": backend})
        states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), N))
        states = jax.tree.map(
            lambda x: x.astype(jnp.float64) if x.dtype == jnp.float32 else x, states
        )
        actions = jax.random.uniform(jax.random.key(1), (N, env.action_size), minval=-1.0)
        expected = jax.jit(jax.vmap(env.step))(states, actions)
        found = jax.jit(vmap_trailing(env.step))(states, actions)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
