"""A trainer of one's own: evolution strategies, with its task and a study."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ablations import studies, tasks, trainers
from ablations.trainers.choices import apply

tasks.register(
    tasks.Task(
        name="bowl",
        summary="a point; its reward is minus the squared distance to (1, 1, ...)",
        make=lambda settings: lambda x: -jnp.sum((x - 1.0) ** 2, axis=-1),
        settings={"dimensions": 8},
        steps=6400,
    )
)


def make(*, task, settings, structure, updates_per_chunk, evaluation_envs, choices):
    reward, population = task.make(settings), structure["population"]

    def init(key, variant):  # the whole state of the run, one pytree
        return {"x": jnp.zeros(settings["dimensions"]), "key": key, "updates": jnp.uint32(0)}

    def update(state, variant):
        key = jax.random.fold_in(state["key"], state["updates"])
        noise = jax.random.normal(key, (population, settings["dimensions"]))
        sigma, rate = variant.numbers["sigma"], variant.numbers["learning_rate"]
        rewards = reward(state["x"] + sigma * noise)
        weights = apply(  # the choice that the variant made, with its hyperparameters
            "advantage_statistics",
            variant,
            advantages=rewards,
            groups=jnp.zeros(population, jnp.int32),
            num_groups=1,
        )
        x = state["x"] + rate * jnp.mean(weights[:, None] * noise, axis=0) / sigma
        metrics = {"training/return": jnp.mean(rewards)}
        return {"x": x, "key": state["key"], "updates": state["updates"] + 1}, metrics

    def chunk(state, variant):  # a fixed number of updates; metrics are arrays
        state, metrics = jax.lax.scan(
            lambda state, _: update(state, variant), state, length=updates_per_chunk
        )
        return state, jax.tree.map(jnp.mean, metrics)

    def evaluate(state, variant, key):  # does not change the state
        return {"evaluation/return": reward(state["x"])}

    def policy(state):  # the part that a saved policy keeps
        return state["x"]

    return trainers.Trainer(init, chunk, evaluate, policy, updates_per_chunk * population)


@dataclass(frozen=True)
class Settings:
    """Hyperparameters, each declared once."""

    advantage_statistics: str = trainers.component("all")
    sigma: float = trainers.number(0.1, 1e-6, 10.0, "scale of the perturbations")
    learning_rate: float = trainers.number(0.02, 0.0, 10.0, "step size")
    population: int = trainers.static(64, "points tried in an update", low=2)


trainers.register(
    trainers.TrainerSpec(
        name="evolution",
        summary="evolution strategies (Salimans et al. 2017)",
        hyperparameters=Settings,
        make=make,
        iteration_steps=lambda structure: structure["population"],
    )
)

studies.register(
    studies.Study(
        name="bowl",
        title="Normalised rewards in evolution strategies",
        claim="Normalising the rewards of a population matters.",
        claim_source="Salimans et al. 2017, section 2.1",
        baseline="none",
        variants={
            "none": studies.Variant({"advantage_statistics": "none"}),
            "all": studies.Variant({"advantage_statistics": "all"}),
        },
        margin=0.05,
        trainer="evolution",
        profiles={"quick": studies.Profile(tasks=("bowl",), seeds=4)},
    )
)
