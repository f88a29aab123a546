"""The policy that language training starts from: it was shown answers of which many are wrong.

Two of five answers that it learns from have one token replaced by a digit at random. So it knows
how to solve the problems, and does so about half of the time: what is left for rewards to teach is
to be reliable, which a few hundred small batches can do.

It depends on the decoder, the problems and the number of steps, never on a cell's seed or variant:
all cells of a task start from, and are held to, one reference policy, as one starts from one
fine-tuned checkpoint. It is kept beside JAX's compiled programs, where there is such a folder, and
made again when it is not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import jax
import jax.numpy as jnp
import numpy as np
import optax
from filelock import FileLock

from ablations.records import write_atomically
from ablations.tasks.language.problems import Problems
from ablations.trainers.language.completions import Special, masked_log_probs, read
from ablations.trainers.language.decoder import DecoderConfig, make_decoder
from ablations.trainers.leaves import Mismatch, from_arrays, to_arrays

BATCH = 128
LEARNING_RATE = 3e-3
KEY = 20  # of the warm start: the same for every cell
ERROR_RATE = 0.4  # of the answers shown
REVISION = 2


def warm_start(config: DecoderConfig, problems: Problems, special: Special, steps: int) -> Any:
    """Parameters of the decoder after `steps` steps of supervised learning, on the host."""
    return _kept(config, problems.kinds, steps, special, _folder())


@lru_cache(maxsize=4)
def _kept(
    config: DecoderConfig,
    kinds: tuple[str, ...],
    steps: int,
    special: Special,
    folder: Path | None,
) -> Any:
    if folder is None:
        return jax.device_get(_teach(config, kinds, special, steps))
    like = jax.eval_shape(make_decoder(config).init, jax.random.key(0))
    path = folder / f"warm_start-{_name(config, kinds, steps)}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if (found := _read(path, like)) is not None:
            return found
        parameters = jax.device_get(_teach(config, kinds, special, steps))
        _write(path, parameters)
        return parameters


def _folder() -> Path | None:
    found = jax.config.values["jax_compilation_cache_dir"]
    return Path(found) if found else None


def _name(config: DecoderConfig, kinds: tuple[str, ...], steps: int) -> str:
    """What decides the numbers to the bit: what is taught, by what code, on how many threads."""
    decides = {
        "decoder": asdict(config),
        "kinds": kinds,
        "steps": steps,
        "error_rate": ERROR_RATE,
        "revision": REVISION,
        "jax": jax.__version__,
        "backend": jax.default_backend(),
        "threads": os.environ.get("NPROC"),
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:16]


def _read(path: Path, like: Any) -> Any:
    """The parameters in a file; None where there is none, or it is not whole."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return jax.device_get(from_arrays(dict(stored), like))
    except (OSError, ValueError, EOFError, BadZipFile, Mismatch):
        return None


def _write(path: Path, parameters: Any) -> None:
    from io import BytesIO

    buffer = BytesIO()
    arrays: dict[str, Any] = dict(to_arrays(parameters))
    np.savez(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


def _with_errors(key: jax.Array, answer: jax.Array) -> jax.Array:
    """An answer [L]; at `ERROR_RATE`, with a digit at random in place of one token before END."""
    from ablations.tasks.language import puzzles

    key_wrong, key_place, key_digit = jax.random.split(key, 3)
    length = jnp.sum(puzzles.valid_tokens(answer)) - 1
    place = jax.random.randint(key_place, (), 0, length)
    digit = puzzles.ZERO + jax.random.randint(key_digit, (), 0, 10)
    wrong = jax.random.uniform(key_wrong) < ERROR_RATE
    return answer.at[place].set(jnp.where(wrong, digit, answer[place]))


def _teach(config: DecoderConfig, kinds: tuple[str, ...], special: Special, steps: int) -> Any:
    from ablations.tasks.language import puzzles

    mixture = puzzles.mixture(kinds)
    decoder = make_decoder(config)
    if steps == 0:
        return decoder.init(jax.random.key(KEY))
    adam = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, steps, 0.1))

    def loss(parameters: Any, problems: puzzles.Problem) -> jax.Array:
        """Mean -log π of the tokens of the answers."""
        mask = puzzles.valid_tokens(problems.answer).astype(jnp.float32)
        features = read(decoder, parameters, problems.prompt, special, problems.answer, mask)
        log_probs, _ = masked_log_probs(decoder, parameters, features, problems.answer, mask)
        return -jnp.sum(log_probs) / jnp.sum(mask)

    @jax.jit
    def teach(key: jax.Array) -> Any:
        key_init, key_problems = jax.random.split(key)
        parameters = decoder.init(key_init)
        # All at once: drawn within a step, they are fused into it, and compile for ten minutes.
        keys = jax.random.split(key_problems, (steps, BATCH, 2))
        problems = jax.vmap(jax.vmap(mixture.draw))(keys[..., 0])
        answers = jax.vmap(jax.vmap(_with_errors))(keys[..., 1], problems.answer)
        problems = problems._replace(answer=answers)

        def step(now: Any, problems: puzzles.Problem) -> tuple[Any, None]:
            parameters, optimizer = now
            gradient = jax.grad(loss)(parameters, problems)
            updates, optimizer = adam.update(gradient, optimizer)
            return (optax.apply_updates(parameters, updates), optimizer), None

        start = (parameters, adam.init(parameters))
        (parameters, _), _ = jax.lax.scan(step, start, problems)
        return parameters

    return teach(jax.random.key(KEY))
