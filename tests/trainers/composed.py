"""PPO on `fast`, small: composed once per structure, run by name."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ablations.tasks import task
from ablations.trainers import TracedConfig, TrainerSpec, trainer
from ablations.trainers.choices import fix
from ablations.trainers.control.ppo import PPO, SPEC, compose

SMALL = {
    "num_envs": 8,
    "unroll_length": 8,
    "num_minibatches": 2,
    "epochs": 2,
    "policy_layers": (16, 16),
    "value_layers": (16, 16),
}
SETTINGS = {"reset_group_size": 2, "random_elapsed_steps": True}
FAST = {"name": "fast", "settings": SETTINGS}


def only(*axes: str) -> tuple[tuple[str, str], ...]:
    """All default choices but those on some axes, to be compiled in: of a switch over every axis
    twice the program has to be compiled."""
    return tuple(item for item in SPEC.axes.items() if item[0] not in axes)


@cache
def program(
    updates: int = 1,
    fixed: tuple[tuple[str, str], ...] = (),
    episode_length: int = 12,
    **structure: Any,
) -> PPO:
    """One composed program on `fast`; fixed: choices that are compiled in."""
    defaults = {name: option.default for name, option in SPEC.structure.items()}
    return compose(
        task=task("fast"),
        settings=SETTINGS | {"episode_length": episode_length},
        structure=defaults | SMALL | structure,
        updates_per_chunk=updates,
        evaluation_envs=3,
        choices=dict(fixed),
    )


@cache
def compiled(**composition: Any) -> Any:
    """(init, chunk) of a program, jitted."""
    ppo = program(**composition)
    return jax.jit(ppo.init), jax.jit(ppo.chunk)


def variant_of(definition: TrainerSpec, about: dict[str, Any] = FAST, **sets: Any) -> TracedConfig:
    """A trainer's defaults with some choices and numbers set, as data. about: the task."""
    known = definition.known_numbers()
    assert sets.keys() <= definition.axes.keys() | known.keys(), sets
    return definition.data(
        {
            "choices": {n: {"name": one} for n, one in sets.items() if n in definition.axes},
            "numbers": {n: one for n, one in sets.items() if n in known},
            "structure": {},
            "task": about,
        }
    )


def variant(**sets: Any) -> TracedConfig:
    """PPO's defaults with some choices and numbers set, as data."""
    return variant_of(SPEC, **sets)


def other_unread_numbers(one: TracedConfig, config: dict[str, Any]) -> TracedConfig:
    """The same with every number that the configuration does not read at another value."""
    known = trainer(config["trainer"]["name"]).known_numbers()
    numbers = {
        name: value if name in config["numbers"] else np.float32(known[name].low + 0.37)
        for name, value in one.numbers.items()
    }
    assert numbers != one.numbers
    return one._replace(numbers=numbers)


def alone(**sets: Any) -> TracedConfig:
    """The same for functions of the trainer that are called by themselves: choices compiled in."""
    names = SPEC.axes | {name: one for name, one in sets.items() if name in SPEC.axes}
    return fix(variant(**sets), names)


def train(
    one: TracedConfig, seed: int = 0, chunks: int = 1, **composition: Any
) -> tuple[Any, dict[str, float]]:
    """The state after some chunks, and the metrics of the last."""
    init, chunk = compiled(**composition)
    state = init(jax.random.key(seed), one)
    for _ in range(chunks):
        state, metrics = chunk(state, one)
    return state, {name: float(value) for name, value in metrics.items()}


def same_bits(one: Any, other: Any) -> bool:
    """Whether all leaves of two pytrees are equal, NaN to NaN."""
    ones, others = (jax.tree.leaves(jax.tree.map(jnp.asarray, tree)) for tree in (one, other))
    return len(ones) == len(others) and all(
        np.array_equal(_data(a), _data(b), equal_nan=True)
        for a, b in zip(ones, others, strict=True)
    )


def _data(leaf: Any) -> np.ndarray:
    is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    data = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
    return data.astype(np.float64) if data.dtype == bool else data
