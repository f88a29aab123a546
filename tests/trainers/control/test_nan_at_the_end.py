"""Training on a task whose episodes end by an observation of NaN, as MuJoCo Playground's do."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from brax.envs.base import State
from composed import SMALL, variant

from ablations.tasks import Task
from ablations.trainers.control.ppo import SPEC, compose


@dataclass(frozen=True)
class Environment:
    """Terminates after `last` steps with an observation of NaN."""

    last: int
    observation_size: int = 1
    action_size: int = 1

    def reset(self, key: jax.Array) -> State:
        zero = jnp.zeros(())
        return State(jnp.int32(0), jnp.zeros(1), zero, zero)

    def step(self, state: State, action: jax.Array) -> State:
        steps = state.pipeline_state + 1
        done = (steps == self.last).astype(jnp.float32)
        observation = jnp.where(done > 0, jnp.nan, jnp.zeros(1))
        return state.replace(pipeline_state=steps, obs=observation, reward=action[0], done=done)


def test_iterations_stay_finite() -> None:
    """With statistics that take final observations in, and those of value targets."""
    choices = {
        **SPEC.axes,
        "observation_statistics": "per_step_forgetting",
        "observation_scaling": "floored_std_clipped",
        "value_normalization": "running",
    }
    ppo = compose(
        task=Task("coin", "ends by a NaN", make=lambda settings: Environment(5), settings={}),
        settings={"episode_length": 1000, "random_elapsed_steps": False},
        structure={name: one.default for name, one in SPEC.structure.items()} | SMALL,
        updates_per_chunk=2,
        choices=choices,
    )
    state, metrics = jax.jit(lambda key, one: ppo.chunk(ppo.init(key, one), one))(
        jax.random.key(0), variant()
    )
    assert metrics["training/episodes"] > 0
    for leaf in jax.tree.leaves((state.parameters, state.normalizer, state.own.value_targets)):
        assert bool(jnp.isfinite(leaf).all())
    assert np.isfinite([metrics[f"loss/{name}"] for name in ("policy", "value", "total")]).all()
