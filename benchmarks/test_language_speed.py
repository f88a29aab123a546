"""Speed of the language trainer: the engine's lanes, a trainer in a Python loop, sampling.

    pytest benchmarks/test_language_speed.py --benchmark-only -s
    python benchmarks/test_language_speed.py

The setting: 2 layers, width 64, 16 prompts x 4 completions, 8 + 8 tokens, one epoch of one update.
`lanes`: a process on each of two cores with one XLA device, as the engine's workers are; iterations
per second of both together. `loop`: the same model and update as most trainers are written:
completions from one compiled function, answers checked in Python, an update from another one; one
core too. `sampling`: completion tokens per second on one core, with the cache and without one,
where every token reads the whole sequence again. Times are CPU times, so that other work on the
machine disturbs little; nothing is asserted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from ablations.sweep.machine import worker_environment

ITERATIONS = 100
ROUNDS = 3


def program() -> tuple[Any, Any]:
    """The trainer of the setting from a random start, and a variant."""
    from ablations.tasks import task
    from ablations.trainers import trainer
    from ablations.trainers.composed import compose
    from ablations.trainers.composition import resolve

    config = resolve(task("addition"), trainer("language"), {"learning_rate": 1e-4})
    run = {"updates_per_chunk": ITERATIONS, "evaluation_envs": 16}
    composed, as_data = compose({**config, "run": run})
    return composed, as_data({**config, "run": run})


def language() -> Any:
    from ablations.tasks import task
    from ablations.trainers.language.settings import STRUCTURE, compose

    one = task("addition")
    structure = {name: option.default for name, option in STRUCTURE.items()}
    return compose(task=one, settings=one.settings, structure=structure, updates_per_chunk=1)


def seconds_of(function: Callable[[], Any]) -> float:
    """CPU seconds of the shortest of some rounds, after one that does not count."""
    import jax

    jax.block_until_ready(function())
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        jax.block_until_ready(function())
        times.append(time.process_time() - started)
    return min(times)


def lane() -> None:
    """Iterations per second of one worker, printed."""
    import jax

    composed, variant = program()
    state = jax.jit(composed.init)(jax.random.key(0), variant)
    chunk = jax.jit(composed.chunk)
    print(ITERATIONS / seconds_of(lambda: chunk(state, variant)))


def loop() -> None:
    """Iterations per second of the trainer in a Python loop, printed."""
    import jax
    import numpy as np

    from ablations.tasks.language.puzzles import decode

    found = language()
    _, variant = program()
    state = jax.jit(found.init)(jax.random.key(0), variant)
    sample = jax.jit(found.sample)
    draw = jax.jit(lambda key: found.problems.held_out(key, found.prompts))

    @jax.jit
    def update(state: Any, variant: Any, problems: Any, completions: Any, reward: Any) -> Any:
        no = np.bool_(False)
        batch, _ = found.prepare(state, problems, completions, reward, no, variant)
        learner, _ = found.gradient_step(state.learner, batch, state.key, np.float32(0), variant)
        return state._replace(learner=learner)

    def train(count: int = ITERATIONS) -> Any:
        now = state
        for index in range(count):
            key = jax.random.fold_in(now.key, index)
            problems = draw(key)
            completions = sample(now.parameters["policy"], problems, key)
            prompts = [decode(prompt)[:-1].split("+") for prompt in np.asarray(problems.prompt)]
            answers = [str(int(a) + int(b))[::-1] for a, b in prompts for _ in range(found.samples)]
            texts = map(decode, np.asarray(completions.tokens))
            right = [text == answer for text, answer in zip(texts, answers, strict=True)]
            reward = np.array(right, np.float32).reshape(found.prompts, found.samples)
            now = update(now, variant, problems, completions, reward)
        return now

    print(ITERATIONS / seconds_of(train))


def sampling() -> None:
    """Tokens per second with the cache and without, printed."""
    import jax
    import jax.numpy as jnp

    found = language()
    policy = found.start(0)
    problems = found.problems.held_out(jax.random.key(0), found.prompts)
    width = problems.prompt.shape[1]
    total = width + found.length

    def without_cache(policy: Any, problems: Any, key: Any) -> Any:
        tokens = jnp.repeat(problems.prompt, found.samples, axis=0)
        tokens = jnp.pad(tokens, ((0, 0), (0, found.length)))
        shape = (found.length, len(tokens), found.decoder.config.vocabulary)

        def step(tokens: Any, now: Any) -> tuple[Any, None]:
            slot, noise = now
            valid = (tokens != found.special.pad) & (jnp.arange(total) < slot)
            empty = found.decoder.empty_cache(len(tokens), total)
            features, _ = found.decoder.extend(policy, tokens, valid, empty, 0)
            logits = found.decoder.logits(policy, features[:, slot - 1])
            return tokens.at[:, slot].set(jnp.argmax(logits + noise, axis=-1)), None

        noise = jax.random.gumbel(key, shape)
        return jax.lax.scan(step, tokens, (width + jnp.arange(found.length), noise))[0]

    count = found.prompts * found.samples * found.length
    keys = tuple(jax.random.split(jax.random.key(0), 20))
    for sampler in (found.sample, without_cache):
        compiled = jax.jit(sampler)
        taken = seconds_of(lambda c=compiled: [c(policy, problems, key) for key in keys])
        print(count * len(keys) / taken)


def measured(part: str, *cores: int) -> list[float]:
    """What a part prints, in a process of its own on each of these cores."""
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, part],
            env=worker_environment(accelerator=False),
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda core=core: os.sched_setaffinity(0, {core}),  # type: ignore[misc]
        )
        for core in cores
    ]
    said = [process.communicate()[0] for process in processes]
    assert not any(process.returncode for process in processes)
    return [float(number) for text in said for number in text.split()]


def report() -> list[str]:
    """What was measured, line by line."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    lanes, looped = measured("lane", *cores), measured("loop", cores[0])
    cached, whole = measured("sampling", cores[0])
    tokens = 64 * 8
    return [
        f"lanes on {len(cores)} cores: {sum(lanes):.0f} iterations/s ({sum(lanes) * tokens:,.0f} "
        "completion tokens/s)",
        f"Python loop on one core: {looped[0]:.0f} iterations/s; a lane on one core is "
        f"{lanes[0] / looped[0]:.1f}x",
        f"sampling on one core: {cached:,.0f} tokens/s with the cache, {whole:,.0f} without: "
        f"{cached / whole:.1f}x",
    ]


@pytest.mark.benchmark(group="language")
def test_language_speed(benchmark: Any) -> None:
    lines = benchmark.pedantic(report, rounds=1)
    print(*lines, sep="\n")
    benchmark.extra_info["measured"] = lines


PARTS = {"lane": lane, "loop": loop, "sampling": sampling}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="?", choices=PARTS)
    asked = parser.parse_args()
    if asked.part:
        PARTS[asked.part]()
    else:
        print(*report(), sep="\n")
