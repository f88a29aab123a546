"""The first policy of language training: pretrained on right answers to part of the problems.

It learns all easy problems (`Kind.easy`: additions without a carry, short lists) and a share
`SHOWN` of the others. So it knows the form of an answer, is often wrong on the harder problems of
training, and is uncertain enough to find right answers by sampling. Since it saw right answers
only, becoming more certain of its answers does not raise the score.

It depends on the recipe and the seed, never on a variant. All variants of a seed start from one
policy, which is their reference; intervals over seeds include the differences between first
policies. If there is a folder of JAX's compiled programs, it is stored there, else computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np
import optax
from filelock import FileLock

from ablations.records import write_atomically
from ablations.tasks.language import puzzles
from ablations.tasks.language.puzzles import Problems
from ablations.trainers.language.completions import masked_log_probs, read
from ablations.trainers.language.decoder import DecoderConfig, make_decoder
from ablations.trainers.leaves import Mismatch, from_arrays, to_arrays
from ablations.trainers.trainer import Array, Tree

BATCH = 64
LEARNING_RATE = 3e-3
KEY = 20  # separates these draws from those of training with the same seed
SHOWN = 0.1  # share of the problems that are not easy
REVISION = 4


def warm_start(config: DecoderConfig, problems: Problems, steps: int, seed: int) -> Tree:
    """Return parameters of the decoder after `steps` steps of supervised learning, on the host."""
    return _kept(config, problems.kinds, steps, seed, _folder())


@lru_cache(maxsize=64)
def _kept(
    config: DecoderConfig, kinds: tuple[str, ...], steps: int, seed: int, folder: Path | None
) -> Tree:
    key = jax.random.fold_in(jax.random.key(KEY), seed)
    if folder is None:
        return jax.device_get(_teacher(config, kinds, steps)(key))
    like = jax.eval_shape(make_decoder(config).init, jax.random.key(0))
    path = folder / f"warm_start-{_name(config, kinds, steps)}-{seed}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if (found := _read(path, like)) is not None:
            return found
        parameters = jax.device_get(_teacher(config, kinds, steps)(key))
        _write(path, parameters)
        return parameters


def _folder() -> Path | None:
    found = jax.config.values["jax_compilation_cache_dir"]
    return Path(found) if found else None


def _name(config: DecoderConfig, kinds: tuple[str, ...], steps: int) -> str:
    """Return a digest of everything that decides the bits: data, code and compiler flags."""
    decides = {
        "decoder": asdict(config),
        "kinds": kinds,
        "steps": steps,
        "shown": SHOWN,
        "revision": REVISION,
        "jax": jax.__version__,
        "backend": jax.default_backend(),
        "compiled": [os.environ.get(name) for name in ("NPROC", "XLA_FLAGS")]
        + [jax.config.values["jax_disable_most_optimizations"]],
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]


def _read(path: Path, like: Tree) -> Tree:
    """Return the parameters in a file; None for a missing or damaged file."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return jax.device_get(from_arrays(dict(stored), like))
    except (OSError, ValueError, EOFError, BadZipFile, Mismatch):
        return None


def _write(path: Path, parameters: Tree) -> None:
    buffer = BytesIO()
    arrays: Tree = to_arrays(parameters)
    np.savez(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


@lru_cache(maxsize=4)
def _teacher(config: DecoderConfig, kinds: tuple[str, ...], steps: int) -> Callable[[Array], Tree]:
    """Return the compiled function from a key to pretrained parameters."""
    mixture = puzzles.mixture(kinds)
    decoder = make_decoder(config)
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
        problems = jax.vmap(jax.vmap(mixture.draw))(jax.random.split(key_problems, (steps, BATCH)))
        easy = jax.vmap(jax.vmap(mixture.easy))(problems)
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
