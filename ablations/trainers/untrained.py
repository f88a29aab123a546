"""Untrained policies, with zero or random actions: the scores that a trained policy has to beat.

The evaluation is the trainer's own, with its environments or prompts, counts and keys. With the
same seed, points and evaluations it therefore has the same resets as a trained run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import jax
import jax.numpy as jnp

from ablations.core.plan import Settings as TaskSettings
from ablations.environments import Discrete, adapted
from ablations.trainers.control.environment import Environments
from ablations.trainers.control.rollouts import whole_episodes
from ablations.trainers.language import trainer as language
from ablations.trainers.spec import TrainerSpec, static
from ablations.trainers.trainer import Array, Metrics, Program, TracedConfig, Trainer, Tree

# The decoder's weights are 0, so its size does not matter.
DECODER = {"layers": 1, "width": 2, "heads": 1, "mlp_width": 1}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Hyperparameters of untrained policies."""

    policy: str = static(
        "zero", "actions of zero, or uniformly random actions or tokens", ("zero", "uniform")
    )


def make(**program: Unpack[Program[Tree]]) -> Trainer:
    """Return the policy as a trainer whose chunks do nothing."""
    return writer(**program) if "kinds" in program["settings"] else actor(**program)


def actor(**program: Unpack[Program[Tree]]) -> Trainer:
    """Return a policy of zero actions, or of uniformly random actions."""
    task, settings = program["task"], program["settings"]
    env = adapted(task.made(settings), task)
    environments = Environments(
        env, program["evaluation_envs"], settings["episode_length"], unpaid=task.unpaid(settings)
    )
    scale = float(program["structure"]["policy"] == "uniform")

    def act(kept: dict[str, Array], observation: Array, key: Array | None = None) -> Array:
        if isinstance(env.actions, Discrete):
            shape = observation.shape[:-1]
            random = (
                jax.random.randint(key, shape, 0, env.actions.choices) if key is not None else 0
            )
            return jnp.where(kept["scale"] > 0, random, jnp.zeros(shape, jnp.int32))
        shape = (*observation.shape[:-1], env.actions.size)
        if key is None:
            return jnp.zeros(shape)
        return kept["scale"] * jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)

    def evaluate(state: Array, variant: TracedConfig, key: Array) -> Metrics:
        noise = jax.random.fold_in(key, 2)  # beside the two keys of a reset

        def at(observation: Array, step: Array) -> Array:
            return act({"scale": state}, observation, jax.random.fold_in(noise, step))

        return whole_episodes(environments, at, key, counted=True)

    return Trainer(
        init=lambda key, variant: jnp.float32(scale),
        chunk=_nothing,
        evaluate=evaluate,
        policy=lambda state: {"scale": state},
        steps_per_chunk=program["updates_per_chunk"],
        act=act,
    )


def writer(**program: Unpack[Program[Tree]]) -> Trainer:
    """Return a policy of uniformly random tokens, with one constant greedy completion."""
    task, settings = program["task"], program["settings"]
    composed = language.compose(
        task=task,
        settings=settings,
        structure=DECODER,
        updates_per_chunk=1,
        evaluation_envs=program["evaluation_envs"],
    )
    plain = language.SPEC.data(language.SPEC.resolve(task, settings))

    def known(variant: TracedConfig) -> TracedConfig:
        return plain._replace(task=variant.task)

    def init(key: Array, variant: TracedConfig) -> language.State:
        state = composed.init(key, known(variant))
        nothing = jax.tree.map(jnp.zeros_like, state.parameters)
        return state._replace(learner=state.learner._replace(parameters=nothing))

    return Trainer(
        init=init,
        chunk=_nothing,
        evaluate=lambda state, variant, key: composed.evaluate(state, known(variant), key),
        policy=composed.policy,
        steps_per_chunk=program["updates_per_chunk"],
        act=composed.act,
    )


def _nothing(state: Tree, variant: TracedConfig) -> tuple[Tree, Metrics]:
    """Return the state unchanged, and NaN as the return of training."""
    return state, {"training/return": jnp.float32(jnp.nan)}


def check(*, structure: Mapping[str, Any], settings: TaskSettings) -> list[str]:
    """Return complaints about settings that do not fit together."""
    if "kinds" in settings and structure["policy"] != "uniform":
        return [f"policy={structure['policy']} writes no tokens: use policy=uniform"]
    if "kinds" not in settings and "episode_length" not in settings:
        return ["the task has neither episodes nor prompts, so nothing is known of its policies"]
    return []


SPEC = TrainerSpec(
    name="trivial",
    summary="untrained policies: zero or random actions, random tokens",
    hyperparameters=Settings,
    make=make,
    iteration_steps=lambda structure: 1,
    check=check,
)
