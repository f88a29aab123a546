"""How often each task's warm start is right, by the length of its supervised training.

    python benchmarks/warm_starts.py [--tasks addition sorting] [--factors 0.5 1 2]

Prints, for multiples of the task's own `warm_start_steps` and some seeds, the greedy and sampled
accuracy on held-out prompts, in all and by kind of problem: what the cells of the task start from.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import numpy as np

from ablations.tasks import task, tasks
from ablations.trainers.language.settings import STRUCTURE, compose
from ablations.trainers.language.trainer import Language, State
from ablations.trainers.optimizer import Learner
from ablations.trainers.trainer import Variant

PROMPTS = 4096


def accuracies(name: str, factor: float, seeds: range) -> tuple[int, dict[str, float]]:
    """The steps of a warm start, and how often its policy is right."""
    asked = task(name)
    structure = {option: found.default for option, found in STRUCTURE.items()}
    structure |= asked.hyperparameters["language"]
    structure["warm_start_steps"] = steps = round(factor * structure["warm_start_steps"])
    program = compose(
        task=asked,
        settings=asked.settings,
        structure=structure,
        updates_per_chunk=1,
        evaluation_envs=PROMPTS,
        choices={},
    )
    assert isinstance(program, Language)

    @jax.jit
    def evaluate(policy: Any, key: jax.Array) -> dict[str, jax.Array]:
        state = State(Learner({"policy": policy}, None, None), None, key, jax.numpy.uint32(0))
        variant = Variant({}, {"temperature": np.float32(1.0)})
        return program.evaluate(state, variant, key)

    found = [evaluate(program.start(seed), jax.random.key(seed)) for seed in seeds]
    return steps, {
        metric.removeprefix("evaluation/"): float(np.mean([one[metric] for one in found]))
        for metric in found[0]
        if not metric.endswith(("return", "length"))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    ours = [name for name, one in tasks().items() if one.hyperparameters.get("language")]
    parser.add_argument("--tasks", nargs="+", default=[n for n in ours if "_" not in n])
    parser.add_argument("--factors", nargs="+", type=float, default=[1.0])
    parser.add_argument("--seeds", type=int, default=4)
    asked = parser.parse_args()
    for name in asked.tasks:
        for factor in asked.factors:
            steps, found = accuracies(name, factor, range(asked.seeds))
            shown = ", ".join(f"{metric} {value:.3f}" for metric, value in found.items())
            print(f"{name}, {steps} steps: {shown}", flush=True)


if __name__ == "__main__":
    main()
