"""Policies that learn nothing, evaluated as those that do: what a score of a task has to beat.

The evaluation is the trainer's own, with its environments or prompts, its counts and its keys: a
cell of the seed, points and evaluations of another has the very resets of that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ablations.tasks.task import Task
from ablations.trainers.trainer import Definition, Option, Trainer, Variant

if TYPE_CHECKING:
    import jax

POLICIES = ("zero", "uniform")
# Of a decoder whose weights are 0, so that any size answers alike.
DECODER = {"layers": 1, "width": 2, "heads": 1, "mlp_width": 1}


def make(*, task: Task, structure: Mapping[str, Any], **program: Any) -> Trainer:
    """The policy in the form that the engine runs; its chunks do nothing."""
    of_task = _writer if "kinds" in program["settings"] else _actor
    return of_task(task=task, policy=structure["policy"], **program)


def _actor(
    *, task: Task, settings: Mapping[str, Any], policy: str, evaluation_envs: int, **program: Any
) -> Trainer:
    """Actions of 0, or uniform in [-1, 1], whatever is observed."""
    import jax
    import jax.numpy as jnp

    from ablations.trainers.control.environment import Environments
    from ablations.trainers.control.outcomes import whole_episodes

    env = task.make(settings)
    environments = Environments(
        env, evaluation_envs, settings["episode_length"], unpaid=task.unpaid(settings)
    )
    scale = float(policy == "uniform")

    def act(kept: Any, observation: jax.Array, key: jax.Array | None = None) -> jax.Array:
        shape = (*observation.shape[:-1], env.action_size)
        if key is None:
            return jnp.zeros(shape)
        return kept["scale"] * jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)

    def evaluate(state: jax.Array, variant: Variant, key: jax.Array) -> dict[str, Any]:
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


def _writer(
    *, task: Task, settings: Mapping[str, Any], evaluation_envs: int, policy: str, **program: Any
) -> Trainer:
    """Tokens that are uniformly random; the greedy completion is always the same."""
    import jax
    import jax.numpy as jnp

    from ablations.trainers.language import settings as language

    options = {name: option.default for name, option in language.STRUCTURE.items()}
    composed = language.compose(
        task=task,
        settings=settings,
        structure={**options, **DECODER},
        updates_per_chunk=1,
        evaluation_envs=evaluation_envs,
    )
    plain = language.DEFINITION.data(language.DEFINITION.resolve(task, settings))

    def known(variant: Variant) -> Variant:
        return plain._replace(task=variant.task)

    def init(key: jax.Array, variant: Variant) -> Any:
        state = composed.init(key, known(variant))
        return state._replace(parameters=jax.tree.map(jnp.zeros_like, state.parameters))

    return Trainer(
        init=init,
        chunk=_nothing,
        evaluate=lambda state, variant, key: composed.evaluate(state, known(variant), key),
        policy=composed.policy,
        steps_per_chunk=program["updates_per_chunk"],
        act=composed.act,
    )


def _nothing(state: Any, variant: Variant) -> tuple[Any, dict[str, Any]]:
    """A chunk of training, in which nothing is trained and no episode ends."""
    import jax.numpy as jnp

    return state, {"training/return": jnp.float32(jnp.nan)}


def check(*, structure: Mapping[str, Any], settings: Mapping[str, Any], **_: Any) -> list[str]:
    """What does not fit together, in words."""
    if "kinds" in settings and structure["policy"] != "uniform":
        return [f"policy={structure['policy']} writes no tokens: use policy=uniform"]
    if "kinds" not in settings and "episode_length" not in settings:
        return ["the task has neither episodes nor prompts, so nothing is known of its policies"]
    return []


DEFINITION = Definition(
    name="trivial",
    summary="policies that learn nothing, evaluated as all others: zero or random actions, tokens",
    axes={},
    numbers={},
    structure={
        "policy": Option(
            "zero",
            "what is done whatever is seen: nothing, or uniformly random actions or tokens",
            POLICIES,
        )
    },
    make=make,
    iteration_steps=lambda structure: 1,
    check=check,
)
