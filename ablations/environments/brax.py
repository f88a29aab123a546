"""Environments with Brax's interface: Brax's own, MuJoCo Playground's, and a user's.

`reset(key) -> state`, `step(state, action) -> state`, `action_size`; a state has `obs`, `reward`,
`done`, `metrics` and `replace`, and keeps its physics in `pipeline_state` (Brax) or `data`
(MuJoCo Playground).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp

from ablations.environments.environment import Box, Observations, State, Step, Tree, map_alike
from ablations.errors import UserError

# Physics whose steps are faster with a trailing batch axis; other backends are slower with it.
TRAILING = ("spring", "positional")
# MuJoCo Playground's parts of an observation: for the policy, and for the critic if it exists.
PARTS = ("state", "privileged_state")


@dataclass(frozen=True)
class BraxEnvironment:
    """Adapter of an environment with Brax's interface.

    As in Brax's AutoResetWrapper, `info` survives the end of an episode. `metrics` is output, not
    state: it is not carried from step to step. If MuJoCo Playground's physics gives observations or
    rewards that are not finite, the episode terminates with a reward of 0.
    """

    env: Tree
    fresh: bool = False

    @property
    def actions(self) -> Box:
        """Its actions, in [-1, 1]."""
        return Box(self.env.action_size)

    @property
    def trailing(self) -> bool:
        """Whether a batch is faster as the last axis."""
        return getattr(self.env, "backend", None) in TRAILING

    @cached_property
    def observations(self) -> Observations:
        """The form of its observations. Raises UserError unless they are one or two vectors."""
        # Brax's env.observation_size takes seven seconds: it resets without compiling.
        obs = jax.eval_shape(lambda key: self._first(key).obs, jax.random.key(0))
        parts = obs if isinstance(obs, Mapping) else {"state": obs}
        shapes = [getattr(part, "shape", ()) for part in parts.values()]
        if not set(parts) <= set(PARTS) or "state" not in parts or any(len(s) != 1 for s in shapes):
            raise UserError(
                f"observations must be one vector, or the vectors {' and '.join(PARTS)}, not "
                f"{jax.tree.map(jnp.shape, obs)}"
            )
        if len(parts) == 1:
            return Observations(parts["state"].shape[0])
        (policy,), (critic,) = (parts[name].shape for name in PARTS)
        size = policy + critic
        return Observations(size, policy=(0, policy), value=(policy, size))

    def reset(self, key: jax.Array) -> State:
        """Return the first state of an episode."""
        state = self._first(key)
        return _apart(state.replace(done=jnp.zeros_like(state.done)))

    def _first(self, key: jax.Array) -> Tree:
        """Return the state of a reset. Raises UserError if it lacks required fields."""
        state = self.env.reset(key)
        fields = ["obs", "reward", "done", "metrics", "replace"]
        if not hasattr(state, "pipeline_state"):
            fields += ["data", "info"]
        if missing := [name for name in fields if not hasattr(state, name)]:
            raise UserError(
                f"a reset of {type(self.env).__name__} returns {type(state).__name__}, which lacks "
                f"{', '.join(missing)}"
            )
        return state

    def step(self, state: State, action: jax.Array) -> tuple[State, Step]:
        """Return the state after an action [A], with reward and termination."""
        carried = state.carried
        before = jax.tree.map(lambda x: x, carried)  # a copy: environments change the state's dicts
        fields = {_physics_field(carried): state.physics, "obs": self._in_parts(state.observation)}
        after = self.env.step(carried.replace(**fields), action)
        kept = {"metrics": carried.metrics, "reward": carried.reward, "done": carried.done}
        given = Step(after.reward, after.done.astype(bool))
        if _physics_field(carried) == "data":
            broken = ~(jnp.isfinite(given.reward) & jnp.all(jnp.isfinite(flat(after.obs))))
            given = Step(jnp.where(broken, 0.0, given.reward), given.termination | broken)
            kept = {"metrics": before.metrics, "info": _unbroken(broken, before.info, after.info)}
            kept |= {"reward": before.reward, "done": before.done}
        return _apart(after.replace(**kept)), given

    def _in_parts(self, observation: jax.Array) -> Tree:
        if self.observations.policy is None:
            return observation
        policy, value = self.observations.policy, self.observations.value
        return {
            name: observation[slice(*part)]
            for name, part in zip(PARTS, (policy, value), strict=True)
            if part is not None
        }


def flat(observation: Tree) -> jax.Array:
    """Return an observation as one vector [O], with its `PARTS` concatenated."""
    if isinstance(observation, Mapping):
        observation = jnp.concatenate([observation[name] for name in PARTS if name in observation])
    vector: jax.Array = observation
    return vector


def _apart(state: Tree) -> State:
    """Separate the physics and the observation from the fields that survive a reset."""
    physics = _physics_field(state)
    return State(
        getattr(state, physics), flat(state.obs), state.replace(**{physics: None, "obs": None})
    )


def _unbroken(broken: jax.Array, before: Tree, after: Tree) -> Tree:
    """Return `after`, with the real numbers of `before` if the physics is `broken`."""

    def kept(before: jax.Array, after: jax.Array) -> jax.Array:
        is_real = jnp.issubdtype(jnp.result_type(after), jnp.floating)
        return jnp.where(broken, before, after) if is_real else after

    return map_alike(kept, before, after)


def _physics_field(state: Tree) -> str:
    return "pipeline_state" if hasattr(state, "pipeline_state") else "data"
