"""Accuracies of completions, over all and by kind of problem."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ablations.tasks.language.environment import Problems
from ablations.tasks.language.puzzles import Problem
from ablations.trainers.trainer import Metrics


def average(of_prompt: jax.Array, counts: jax.Array | float = 1.0) -> jax.Array:
    """Return the mean of [P] over the prompts that count [P]; NaN where none does."""
    of_prompt = of_prompt.astype(jnp.float32)
    weight = jnp.broadcast_to(counts, of_prompt.shape)
    total = jnp.sum(weight)
    return jnp.where(total > 0, jnp.sum(of_prompt * weight) / total, jnp.nan)


def accuracies(
    name: str,
    asked: Problems,
    problems: Problem,
    correct: jax.Array,
    counts: jax.Array | float = 1.0,
) -> Metrics:
    """Return the share of correct [P, K], and that of each kind of problem.

    It is NaN for a kind that did not come up. counts: [P].
    """
    weight = jnp.broadcast_to(counts, problems.kind.shape)
    right = jnp.mean(correct.astype(jnp.float32), axis=1)
    return {name: average(right, weight)} | {
        f"{name}_{kind}": average(right, weight * (problems.kind == index))
        for index, kind in enumerate(asked.kinds)
    }


def outcomes(
    prefix: str,
    asked: Problems,
    problems: Problem,
    correct: jax.Array,
    reward: jax.Array,
    mask: jax.Array,
    counts: jax.Array | float = 1.0,
) -> Metrics:
    """Return accuracy, mean reward and length of completions [P, K]. counts: [P]."""
    return {
        f"{prefix}/return": average(jnp.mean(reward, axis=1), counts),
        **accuracies(f"{prefix}/accuracy", asked, problems, correct, counts),
        f"{prefix}/length": jnp.sum(mask) / correct.size,
    }
