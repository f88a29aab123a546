"""Compare whole training with Brax: our preset `brax` and Brax's ppo.train, seed by seed.

    python benchmarks/brax_training.py [--tasks cartpole_balance ...] [--workers 2]
        [--output results/reference]

Both train the same networks with the same hyperparameters, tasks and seeds, with their own random
numbers. After each of 16 chunks, our evaluation measures both policies: the mode's return over 64
whole episodes from resets that the seed decides. The score of a run is the area under this curve
as a share of the task's range of returns. The trainers are equivalent if the 95% interval of the
mean difference lies within ±MARGIN (TOST at 2.5% on each side).

Margin, seeds, learning rate and budget were fixed before the comparison; the last two from the
spread of other seeds (100 and above) of our trainer. Eight seeds could not decide
inverted_pendulum, and their spread asked for 75. So 80 other seeds, 8 to 87, ran once and decide.
On cartpole_balance ten seeds could not, and 40 others, 10 to 49, decide. The table has all. On
MuJoCo Playground's tasks Brax's trainer has that library's wrapper.

Writes brax_training.csv and brax_training.md, and keeps the rows of other tasks. --table writes the
page again from the CSV.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pandas

MARGIN = 0.05
# Returns of a random and of a good policy, measured at 1,000 steps, for these episode lengths.
# cartpole_balance and cheetah_run: the bounds of the return, because rewards are within [0, 1].
REFERENCES = {
    "inverted_pendulum": (4.2, 180.0),
    "reacher": (-42.0, -7.5),
    "cartpole_balance": (0.0, 250.0),
    "cheetah_run": (0.0, 250.0),
}
COMPARISONS = (
    ("reacher", range(8)),
    ("inverted_pendulum", range(8)),
    ("inverted_pendulum", range(8, 88)),
    ("cartpole_balance", range(10)),
    ("cartpole_balance", range(10, 50)),
    ("cheetah_run", range(10)),
)
PART = 20  # seeds of one process, which keeps what Brax compiles for each: 45 are too many
CHUNKS = 16
EPISODES = 64
STRUCTURE: dict[str, Any] = {
    "num_envs": 64,
    "unroll_length": 32,
    "num_minibatches": 4,
    "epochs": 4,
    "policy_layers": [32, 32],
    "value_layers": [64, 64],
    "activation": "swish",
}
COMPOSITION: dict[str, Any] = {
    "advantage": "brax",
    "advantage_timing": "minibatch",
    "advantage_statistics": "all",
    "advantage_scope": "minibatch",
    "value_error": "squared",
    "value_clip": "none",
    "policy_loss": "clip",
    "entropy_estimate": "one_sample",
    "gradient_clip": "none",
    "learning_rate_schedule": "constant",
    "observation_normalization": "before",
    "reward_scaling": "constant",
    "minibatch_unit": "segments",
    "network_init": "lecun_uniform",
    "clip_epsilon": 0.3,
    "gae_lambda": 0.95,
    "value_coefficient": 0.25,  # Brax: 0.5 * vf_loss_coefficient, which is 0.5
    "random_elapsed_steps": False,
}
ITERATION = STRUCTURE["num_envs"] * STRUCTURE["unroll_length"]
# updates: iterations of a chunk. In short episodes both kinds of end occur early.
TASKS: dict[str, dict[str, Any]] = {
    "inverted_pendulum": {
        "updates": 24,
        "episode_length": 200,
        "learning_rate": 3e-4,
        "discount": 0.99,
        "entropy_coefficient": 1e-2,
        "reward_scale": 0.1,
    },
    "reacher": {
        "updates": 8,
        "episode_length": 50,
        "learning_rate": 3e-4,
        "discount": 0.95,
        "entropy_coefficient": 1e-3,
        "reward_scale": 1.0,
    },
    # Rate, discount and entropy are Playground's; its reward_scale of 10 is for a larger critic.
    # Seeds 100 to 103 of ours rise from 65 to at least 150 with this length and budget.
    "cartpole_balance": {
        "updates": 16,
        "episode_length": 250,
        "learning_rate": 1e-3,
        "discount": 0.995,
        "entropy_coefficient": 1e-2,
        "reward_scale": 1.0,
    },
    # The same; seed 100 of ours reaches 48 in this budget, and 56 in twice as many steps.
    "cheetah_run": {
        "updates": 8,
        "episode_length": 250,
        "learning_rate": 1e-3,
        "discount": 0.995,
        "entropy_coefficient": 1e-2,
        "reward_scale": 1.0,
    },
}

COLUMNS = ["task", "trainer", "seed", "step", "evaluation_return"]
Curve = list[tuple[int, float]]


def environment_of(task: str, **settings: Any) -> dict[str, Any]:
    """Return an environment with these settings, and the wrapper arguments of Brax's trainer."""
    from ablations.tasks import task as task_of

    environment = task_of(task).make({**task_of(task).settings, **settings})
    if not hasattr(environment, "mjx_model"):
        return {"environment": environment}
    from mujoco_playground import wrapper

    return {"environment": environment, "wrap_env_fn": wrapper.wrap_for_brax_training}


def our_trainer(task: str) -> tuple[Any, Any]:
    from ablations import make_trainer

    sets = {**STRUCTURE, **COMPOSITION, **TASKS[task]}
    updates = sets.pop("updates")
    return make_trainer(task, updates_per_chunk=updates, evaluation_envs=EPISODES, **sets)


def evaluation_key(seed: int, point: int) -> Any:
    import jax

    return jax.random.fold_in(jax.random.key(10_000 + seed), point)


def ours(task: str, seeds: range) -> Iterator[tuple[int, Curve]]:
    """Yield each seed with (step, return) after every chunk of our trainer."""
    import jax

    trainer, variant = our_trainer(task)
    init, evaluate = jax.jit(trainer.init), jax.jit(trainer.evaluate)
    chunk = jax.jit(trainer.chunk, donate_argnums=0)
    for seed in seeds:
        state, curve = init(jax.random.key(seed), variant), []
        for point in range(1, CHUNKS + 1):
            state, _ = chunk(state, variant)
            metrics = evaluate(state, variant, evaluation_key(seed, point))
            curve.append((point * trainer.steps_per_chunk, float(metrics["evaluation/return"])))
        yield seed, curve


def brax(task: str, seeds: range) -> Iterator[tuple[int, Curve]]:
    """Yield the same for Brax's ppo.train, which JAX traces again for every seed."""
    import functools

    import jax
    import jax.numpy as jnp

    from ablations.trainers.control.normalizer import Normalizer

    settings = TASKS[task]
    wrapped = environment_of(task, episode_length=settings["episode_length"])
    from brax.training.agents.ppo import networks, train
    from peers import stand_in_for_device_put_replicated

    if not hasattr(jax, "device_put_replicated"):
        jax.device_put_replicated = stand_in_for_device_put_replicated
    trainer, variant = our_trainer(task)
    evaluate = jax.jit(trainer.evaluate)
    frame = jax.jit(trainer.init)(jax.random.key(0), variant)
    for seed in seeds:
        curve: Curve = []

        def judge(step: int, _: Any, snapshot: Any, seed: int = seed, curve: Curve = curve) -> None:
            if step == 0:
                return
            statistics, policy, value = snapshot
            state = frame._replace(
                learner=frame.learner._replace(parameters={"policy": policy, "value": value}),
                normalizer=Normalizer(
                    statistics.mean, jnp.square(statistics.std), jnp.uint32(len(curve) + 1)
                ),
            )
            key = evaluation_key(seed, len(curve) + 1)
            curve.append((step, float(evaluate(state, variant, key)["evaluation/return"])))

        train.train(
            **wrapped,
            num_timesteps=CHUNKS * settings["updates"] * ITERATION,
            num_evals=CHUNKS + 1,
            run_evals=False,
            policy_params_fn=judge,
            episode_length=settings["episode_length"],
            num_envs=STRUCTURE["num_envs"],
            batch_size=STRUCTURE["num_envs"] // STRUCTURE["num_minibatches"],
            num_minibatches=STRUCTURE["num_minibatches"],
            unroll_length=STRUCTURE["unroll_length"],
            num_updates_per_batch=STRUCTURE["epochs"],
            learning_rate=settings["learning_rate"],
            discounting=settings["discount"],
            entropy_cost=settings["entropy_coefficient"],
            reward_scaling=settings["reward_scale"],
            clipping_epsilon=COMPOSITION["clip_epsilon"],
            gae_lambda=COMPOSITION["gae_lambda"],
            vf_loss_coefficient=2 * COMPOSITION["value_coefficient"],
            max_grad_norm=None,
            normalize_observations=True,
            normalize_advantage=True,
            network_factory=functools.partial(
                networks.make_ppo_networks,
                policy_hidden_layer_sizes=tuple(STRUCTURE["policy_layers"]),
                value_hidden_layer_sizes=tuple(STRUCTURE["value_layers"]),
                activation=jax.nn.swish,
            ),
            seed=seed,
        )
        assert len(curve) == CHUNKS, curve
        yield seed, curve


SIDES = {"brax": brax, "ours": ours}


def run_side(side: str, task: str, seeds: range) -> pandas.DataFrame:
    """Return the curves of seeds, one row per point."""
    rows = []
    for seed, curve in SIDES[side](task, seeds):
        rows += [(task, side, seed, step, float(f"{value:.6g}")) for step, value in curve]
        print(f"{task}, {side}, seed {seed}: {curve[-1][1]:.4g} at the end", flush=True)
    return pandas.DataFrame(rows, columns=COLUMNS)


def run_all(workers: int, tasks: Collection[str]) -> pandas.DataFrame:
    """Return all curves of some tasks, from `workers` processes, a new one for PART seeds."""
    parts = [
        (side, task, seeds[first : first + PART])
        for task, seeds in COMPARISONS
        if task in tasks
        for first in range(0, len(seeds), PART)
        for side in SIDES
    ]
    os.environ |= {"NPROC": "1", "JAX_PLATFORMS": "cpu"}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, max_tasks_per_child=1) as pool:
        return pandas.concat(pool.map(run_side, *zip(*parts, strict=True)), ignore_index=True)


def normalised_scores(curves: pandas.DataFrame, task: str, seeds: range) -> dict[str, list[float]]:
    """Return the scores by side and seed; a random policy has 0 and a good policy 1."""
    from ablations.scoring import auc

    low, high = REFERENCES[task]
    of_task = curves[(curves.task == task) & curves.seed.isin(seeds)]
    areas = of_task.groupby(["trainer", "seed"]).apply(
        lambda curve: auc(list(curve.step), list(curve.evaluation_return))
    )
    return {side: [*((areas[side] - low) / (high - low))] for side in SIDES}


def page(curves: pandas.DataFrame) -> str:
    from importlib.metadata import version

    from ablations import stats

    lines = [
        "`python benchmarks/brax_training.py` compares our preset `brax` with Brax's ppo.train.",
        "",
        f"- Score: the area under the evaluation curve, which has {CHUNKS} points. A point is the "
        f"mean return of the policy's mode over {EPISODES} whole episodes. A score of 0 is the "
        "return of a random policy, and 1 is the return of a good policy at this episode length. "
        "For cartpole_balance these are 0 and the highest possible return.",
        "- Seeds: the same seeds on both sides share the resets of the evaluations and no other "
        "random number. [seeds] are the lowest and the highest seed.",
        "- Difference: ours minus Brax's, the mean over seeds with its 95% t interval. "
        f"*equivalent*: the interval lies within the margin of {MARGIN:g}, which was set before "
        "the runs.",
        "- Eight seeds could not decide inverted_pendulum. Their spread asked for 75 seeds, so 80 "
        "new seeds ran once, and only these decide. cartpole_balance likewise has 40 new seeds "
        "after ten.",
        "",
        "| task | seeds | steps | Brax | [seeds] | ours | [seeds] | difference | [95%] | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    run = set(curves.task)
    for task, seeds in COMPARISONS:
        if task not in run:
            continue
        settings = TASKS[task]
        scores = normalised_scores(curves, task, seeds)
        found = stats.paired(scores["ours"], scores["brax"])
        verdict = stats.decide(found.low, found.high, MARGIN)
        if verdict == "inconclusive":
            needed = stats.seeds_needed(0.0, found.sd, MARGIN)
            verdict += f" ({needed:.0f} seeds would show equivalence, were there no difference)"
        means = {side: sum(values) / len(values) for side, values in scores.items()}
        lines.append(
            f"| {task} | {seeds[0]}-{seeds[-1]} | {CHUNKS * settings['updates'] * ITERATION:,} | "
            + " | ".join(
                f"{means[side]:.3f} | [{min(scores[side]):.3f}, {max(scores[side]):.3f}]"
                for side in ("brax", "ours")
            )
            + f" | {found.difference:+.4f} | [{found.low:+.4f}, {found.high:+.4f}] | {verdict} |"
        )
    lines += [
        "",
        "[brax_training.csv](brax_training.csv) has the curves.",
        "",
        "Settings of both sides: "
        + ", ".join(f"{name}={value}" for name, value in STRUCTURE.items())
        + "; "
        + ", ".join(f"{name}={value}" for name, value in COMPOSITION.items())
        + ".",
        "",
        *(
            f"- {task}: " + ", ".join(f"{name}={value}" for name, value in settings.items())
            for task, settings in TASKS.items()
            if task in run
        ),
        "",
        f"brax {version('brax')}, jax {version('jax')}. ppo.train calls "
        "`jax.device_put_replicated`, which this jax no longer has. The benchmark replaces it "
        "with a function that stacks and places the copies.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole training against Brax's ppo.train.")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, default=Path("results/reference"))
    parser.add_argument("--table", action="store_true", help="write the page from stored curves")
    asked = parser.parse_args()
    path = asked.output / "brax_training.csv"
    if not asked.table:
        made = run_all(asked.workers, asked.tasks)
        if path.exists():
            kept = pandas.read_csv(path)
            made = pandas.concat([kept[~kept.task.isin(asked.tasks)], made])
        asked.output.mkdir(parents=True, exist_ok=True)
        made.to_csv(path, index=False)
    text = page(pandas.read_csv(path))
    (asked.output / "brax_training.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
