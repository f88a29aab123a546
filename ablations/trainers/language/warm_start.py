"""The first policy of language training: pretrained on right answers to part of the problems.

It learns all easy problems (`Kind.easy`: additions without a carry, short lists) and a share
`SHOWN` of the others. So it knows the form of an answer, is often wrong on the harder problems of
training, and is uncertain enough to find right answers by sampling. Since it saw right answers
only, becoming more certain of its answers does not raise the score.

It depends on the recipe and the seed, never on a variant. All variants of a seed start from one
policy, which is their reference; intervals over seeds include the differences between first
policies. Every process computes it once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import jax
import jax.numpy as jnp
import optax

from ablations.tasks.language import puzzles
from ablations.trainers.language.completions import masked_log_probs, read
from ablations.trainers.language.decoder import Decoder, DecoderConfig
from ablations.trainers.trainer import Array, Tree

BATCH = 64
LEARNING_RATE = 3e-3
KEY = 20  # separates these draws from those of training with the same seed
SHOWN = 0.1  # share of the problems that are not easy


@lru_cache(maxsize=64)
def warm_start(config: DecoderConfig, kinds: tuple[str, ...], steps: int, seed: int) -> Tree:
    """Return parameters of the decoder after `steps` steps of supervised learning, on the host."""
    return jax.device_get(
        _teacher(config, kinds, steps)(jax.random.fold_in(jax.random.key(KEY), seed))
    )


@lru_cache(maxsize=4)
def _teacher(config: DecoderConfig, kinds: tuple[str, ...], steps: int) -> Callable[[Array], Tree]:
    """Return the compiled function from a key to pretrained parameters."""
    problems_of = puzzles.Problems(kinds)
    decoder = Decoder(config)
    if steps == 0:
        return decoder.init
    adam = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, steps, 0.1))

    def loss(parameters: Tree, problems: puzzles.Problem, shown: Array) -> Array:
        """Return the mean -log π over the tokens of the shown answers [B]."""
        mask = puzzles.valid_tokens(problems.answer) * shown[:, None]
        features = read(decoder, parameters, problems.prompt, problems.answer, mask)
        log_probs, _ = masked_log_probs(decoder, parameters, features, problems.answer, mask)
        return -jnp.sum(log_probs) / jnp.sum(mask)

    @jax.jit
    def teach(key: Array) -> Tree:
        key_init, key_problems, key_shown = jax.random.split(key, 3)
        parameters = decoder.init(key_init)
        # Drawn before the loop: fused into a step, they compile for ten minutes.
        problems = jax.vmap(jax.vmap(problems_of.draw))(
            jax.random.split(key_problems, (steps, BATCH))
        )
        easy = jax.vmap(jax.vmap(problems_of.easy))(problems)
        shown = easy | (jax.random.uniform(key_shown, (steps, BATCH)) < SHOWN)

        def step(
            now: tuple[Tree, Tree], asked: tuple[puzzles.Problem, Array]
        ) -> tuple[tuple[Tree, Tree], None]:
            parameters, optimizer = now
            problems, shown = asked
            gradient = jax.grad(loss)(parameters, problems, shown.astype(jnp.float32))
            updates, optimizer = adam.update(gradient, optimizer)
            return (optax.apply_updates(parameters, updates), optimizer), None

        start = (parameters, adam.init(parameters))
        (parameters, _), _ = jax.lax.scan(step, start, (problems, shown))
        return parameters

    return teach
