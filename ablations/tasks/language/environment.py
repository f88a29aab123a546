"""Mixtures of problems as an environment, and the reward of a response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ablations.tasks.language.puzzles import Mixture, Problem, valid_tokens

TRAIN_SET = 0x5E7  # folded into the seed's key for a fixed training set


@dataclass(frozen=True)
class Problems:
    """Draws problems and checks responses.

    mixture: the kinds of problem, equally likely.
    train_prompts: the number of prompts in the training set; 0: all prompts are new.
    """

    mixture: Mixture
    train_prompts: int

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of problem."""
        return self.mixture.kinds

    def train(self, key: jax.Array, set_key: jax.Array, count: int) -> Problem:
        """Draw a batch of training problems, leaves [count, ...].

        With a training set, a problem repeats only after all others were drawn.

        key: changes with every batch.
        set_key: the key of the run, which decides its training set.
        """
        if not self.train_prompts:
            return self.held_out(key, count)
        order = jnp.resize(jax.random.permutation(key, self.train_prompts), (count,))
        known = self.train_set(set_key)
        return type(known)(*(leaf[order] for leaf in known))

    def train_set(self, set_key: jax.Array) -> Problem:
        """Draw all problems of the training set, leaves [train_prompts, ...]."""
        return self.held_out(jax.random.fold_in(set_key, TRAIN_SET), self.train_prompts)

    def held_out(self, key: jax.Array, count: int) -> Problem:
        """Draw new problems, leaves [count, ...]."""
        return jax.vmap(self.mixture.draw)(jax.random.split(key, count))

    def is_new(self, problems: Problem, set_key: jax.Array) -> jax.Array:
        """Return float32 [P]: 0 for problems in the training set, 1 for the others."""
        if not self.train_prompts:
            return jnp.ones(problems.prompt.shape[0])
        known = self.train_set(set_key).prompt
        same = jnp.all(problems.prompt[:, None] == known[None], axis=-1)
        return 1.0 - jnp.any(same, axis=-1).astype(jnp.float32)

    def correct(self, problems: Problem, responses: jax.Array) -> jax.Array:
        """Return bool [P, K]: which of the responses [P, K, L] are the answer of problems [P].

        Tokens after the first END do not count.
        """
        answer = problems.answer[:, None]
        return jnp.all((responses == answer) | ~valid_tokens(answer), axis=-1)


def reward(
    correct: jax.Array, kind: jax.Array, pay: Mapping[str, jax.Array], key: jax.Array | None
) -> jax.Array:
    """Return the rewards of completions, float32 [P, K].

    A completion gets `reward_right` or `reward_wrong`, times the scale of its problem's kind, plus
    normal noise with standard deviation `reward_noise`. There is no noise without a key.

    correct: bool [P, K].
    kind: the problems' kinds, int32 [P].
    pay: the settings; `reward_scales` is [kinds].
    """
    paid = jnp.where(correct, pay["reward_right"], pay["reward_wrong"])
    paid = paid * pay["reward_scales"][kind][:, None]
    if key is None:
        return paid
    return paid + pay["reward_noise"] * jax.random.normal(key, paid.shape)
