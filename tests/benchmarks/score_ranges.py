"""Where the tasks' score ranges come from: the return of a random policy and of a trained one.

    python tests/benchmarks/score_ranges.py [TASK=STEPS ...]

Random: actions uniform in [-1, 1], 64 whole episodes. Trained: ppo with the task's defaults for
that many steps, mean over seeds 0 and 1 of 16 evaluation episodes. Rounded to two digits, these are
the score ranges.
"""

from __future__ import annotations

import os
import sys
from typing import Any

BUDGET = {
    "fast": 100_000,
    "inverted_pendulum": 500_000,
    "inverted_double_pendulum": 1_000_000,
    "reacher": 1_000_000,
    "hopper": 2_000_000,
    "walker2d": 2_000_000,
    "halfcheetah": 1_000_000,
    "ant": 1_000_000,
    "humanoid": 500_000,
}


def random_return(name: str, episodes: int = 64) -> float:
    """Mean return of uniformly random actions."""
    import jax
    import jax.numpy as jnp

    from ablations.tasks import task
    from ablations.trainers.control.environment import Environments

    one = task(name)
    environments = Environments(one.make(one.settings), episodes, one.settings["episode_length"])
    shape = (episodes, environments.env.action_size)

    @jax.jit
    def play(key: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            running, active, total = carry
            action = jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
            running, outcome = environments.step(running, action)
            total = total + jnp.where(active, outcome.reward, 0.0)
            return (running, active & ~outcome.finished, total), None

        begin = (environments.reset(key), jnp.ones(episodes, bool), jnp.zeros(episodes))
        keys = jax.random.split(key, environments.episode_length)
        return jnp.mean(jax.lax.scan(step, begin, keys)[0][2])

    return float(play(jax.random.key(0)))


def trained_return(name: str, steps: int, seeds: int = 2) -> list[float]:
    """Evaluation return after `steps` of training with the task's defaults, per seed."""
    import jax
    from test_speed import composed_trainer

    updates = steps // 10 // 2048
    trainer, variant = composed_trainer(name, updates, evaluation_envs=16)
    init, evaluate = jax.jit(trainer.init), jax.jit(trainer.evaluate)
    chunk = jax.jit(trainer.chunk, donate_argnums=0)
    returns = []
    for seed in range(seeds):
        state = init(jax.random.key(seed), variant)
        for _ in range(round(steps / trainer.steps_per_chunk)):
            state, _ = chunk(state, variant)
        metrics = evaluate(state, variant, jax.random.key(1000 + seed))
        returns.append(float(metrics["evaluation/return"]))
    return returns


if __name__ == "__main__":
    os.environ["NPROC"] = "1"  # before JAX starts
    asked = dict(argument.split("=") for argument in sys.argv[1:]) or BUDGET
    for task_name, budget in asked.items():
        trained = trained_return(task_name, int(budget))
        listed = ", ".join(f"{value:.4g}" for value in trained)
        print(
            f"{task_name}: random {random_return(task_name):.4g}, "
            f"after {int(budget):,} steps {listed}",
            flush=True,
        )
