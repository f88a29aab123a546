"""Outcomes of episodes: of those that end while training, and of whole ones for evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp

from ablations.trainers.control.environment import Environments, Episodes, Outcome
from ablations.trainers.trainer import Metrics

State = TypeVar("State")
# Episodes, which are under way, returns and lengths so far, the number of the step where it counts.
Evaluation: TypeAlias = tuple[Episodes, jax.Array, jax.Array, jax.Array, *tuple[jax.Array, ...]]


def iterated(
    iteration: Callable[[State], tuple[State, Metrics]],
    state: State,
    *,
    length: int,
    environments: Environments,
) -> tuple[State, Metrics]:
    """Run so many iterations. Metrics are means over them, or over finished episodes.

    iteration: state -> (state, metrics), `finished_episodes` among them.
    """
    state, metrics = jax.lax.scan(lambda state, _: iteration(state), state, length=length)
    episodes = jnp.sum(metrics["training/episodes"])
    means = {name: jnp.mean(value) for name, value in metrics.items()}
    for name in ("training/return", "training/length"):
        means[name] = jnp.where(episodes > 0, jnp.sum(metrics[name]) / episodes, jnp.nan)
    means["training/episodes"] = episodes
    return state, with_usual_return(means, environments)


def finished_episodes(outcome: Outcome) -> Metrics:
    """Return the number of finished episodes, and their summed returns and lengths.

    `iterated` divides them.
    """
    finished = outcome.finished
    return {
        "training/episodes": jnp.sum(finished.astype(jnp.float32)),
        "training/return": jnp.sum(jnp.where(finished, outcome.reward_sum, 0.0)),
        "training/length": jnp.sum(jnp.where(finished, outcome.length, 0).astype(jnp.float32)),
        "training/reward_per_step": jnp.mean(outcome.reward),
    }


def whole_episodes(
    environments: Environments, act: Callable[..., jax.Array], key: jax.Array, counted: bool = False
) -> Metrics:
    """Play one whole episode per environment.

    act: observations [N, O] -> actions [N, A]. counted: it takes the number of the step, a uint32,
    too.
    """
    zeros = jnp.zeros(environments.num_envs)
    first = (jnp.uint32(0),) if counted else ()

    def step(now: Evaluation) -> Evaluation:
        episodes, active, reward_sum, length, *count = now
        episodes, outcome = environments.step(episodes, act(episodes.observation, *count))
        return (
            episodes,
            active & ~outcome.finished,
            jnp.where(active, outcome.reward_sum, reward_sum),
            jnp.where(active, outcome.length.astype(jnp.float32), length),
            *(one + 1 for one in count),
        )

    start = (environments.reset(key), zeros == 0.0, zeros, zeros, *first)
    _, _, reward_sum, length, *_ = jax.lax.while_loop(lambda now: jnp.any(now[1]), step, start)
    return with_usual_return(
        {
            "evaluation/return": jnp.mean(reward_sum),
            "evaluation/return_std": jnp.std(reward_sum),
            "evaluation/length": jnp.mean(length),
        },
        environments,
    )


def with_usual_return(metrics: Metrics, environments: Environments) -> Metrics:
    """Add the mean return that the usual settings of the task pay for the same episodes.

    Where these settings pay another it is R + unpaid·length, as <where>/usual_return.
    """
    if not environments.unpaid:
        return metrics
    usual = {
        name.replace("/return", "/usual_return"): value
        + environments.unpaid * metrics[name.replace("/return", "/length")]
        for name, value in metrics.items()
        if name.endswith("/return")
    }
    return metrics | usual
