"""The policies of `trivial` as the engine runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack, cast

import jax
import jax.numpy as jnp

from ablations.environments import Discrete, adapted
from ablations.tasks.task import EpisodeSettings
from ablations.trainers.control.environment import Environments
from ablations.trainers.control.outcomes import whole_episodes
from ablations.trainers.language import settings as language
from ablations.trainers.language.trainer import State
from ablations.trainers.trainer import Metrics, Program, Trainer, Tree, Variant

if TYPE_CHECKING:
    from ablations.trainers.trivial import Structure

# Of a decoder whose weights are 0, so that any size answers alike.
DECODER = {"layers": 1, "width": 2, "heads": 1, "mlp_width": 1}


def actor(**program: Unpack[Program[EpisodeSettings, Structure]]) -> Trainer:
    """Return a policy of actions of 0, or uniform over all, whatever is observed."""
    task, settings = program["task"], program["settings"]
    env = adapted(task.made(settings), task)
    environments = Environments(
        env,
        program["evaluation_envs"],
        settings["episode_length"],
        unpaid=task.unpaid(settings),
    )
    scale = float(program["structure"]["policy"] == "uniform")

    def act(
        kept: dict[str, jax.Array], observation: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
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

    def evaluate(state: jax.Array, variant: Variant, key: jax.Array) -> Metrics:
        noise = jax.random.fold_in(key, 2)  # beside the two keys of a reset

        def at(observation: jax.Array, step: jax.Array) -> jax.Array:
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


def writer(**program: Unpack[Program[Tree, Structure]]) -> Trainer:
    """Return a policy of uniformly random tokens; its greedy completion is always the same."""
    task, settings = program["task"], program["settings"]
    options = {name: option.default for name, option in language.STRUCTURE.items()} | DECODER
    composed = language.compose(
        task=task,
        settings=settings,
        structure=cast(language.Structure, options),
        updates_per_chunk=1,
        evaluation_envs=program["evaluation_envs"],
    )
    plain = language.DEFINITION.data(language.DEFINITION.resolve(task, settings))

    def known(variant: Variant) -> Variant:
        return plain._replace(task=variant.task)

    def init(key: jax.Array, variant: Variant) -> State:
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


def _nothing(state: Tree, variant: Variant) -> tuple[Tree, Metrics]:
    """Return the state of before: in such a chunk nothing is trained and no episode ends."""
    return state, {"training/return": jnp.float32(jnp.nan)}
