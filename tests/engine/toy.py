"""A plugin: a trainer, a task, an axis and studies that compile in a blink. What the engine is
tested with.

Training moves `x` by `rate` per update, with noise from the seed. It can be told to misbehave: to
become NaN (`explode_at`), to end its process (`die`), to be slow (`slow`; until the file that
TOY_HURRY names is there), to raise while it is traced (`broken`).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import variants
from ablations import studies, tasks, trainers

AXIS = variants.register(
    variants.Axis(
        "toy_direction",
        summary="where the toy goes",
        inputs={"rate": jax.ShapeDtypeStruct((), jnp.float32)},
    )
)


@AXIS.choice("up", formula="+rate", source="this file", summary="upwards")
def up(*, rate: Any) -> Any:
    return rate


@AXIS.choice("down", formula="-rate", source="this file", summary="downwards")
def down(*, rate: Any) -> Any:
    return -rate


class State(NamedTuple):
    x: jax.Array
    key: jax.Array
    updates: jax.Array
    ballast: jax.Array


def _hook(slow: Any, die: Any) -> Any:
    if die:
        deaths = Path(os.environ["TOY_DEATHS"])
        if int(deaths.read_text()) > 0:
            deaths.write_text(str(int(deaths.read_text()) - 1))
            os._exit(9)
    hurry, end = Path(os.environ.get("TOY_HURRY", "hurry")), time.monotonic() + float(slow)
    while (left := end - time.monotonic()) > 0 and not hurry.exists():
        time.sleep(min(left, 0.02))
    return jnp.float32(0)


def make(
    *,
    task: Any,
    settings: Any,
    structure: Any,
    updates_per_chunk: int,
    evaluation_envs: int,
    choices: Any,
) -> trainers.Trainer:
    if structure["broken"]:
        raise ValueError("this toy is broken")

    def init(key: Any, variant: Any) -> State:
        ballast = jax.random.normal(key, (structure["ballast"],))
        return State(jax.random.normal(key), key, jnp.int32(0), ballast)

    def chunk(state: State, variant: Any) -> tuple[State, dict[str, Any]]:
        c = variant.numbers
        direction = AXIS.apply(
            choices.get("toy_direction", variant.choices["toy_direction"]), rate=c["rate"]
        )
        wait: Any = 0.0
        if structure["hooked"]:  # a program that calls back is never kept in the compilation cache
            float32 = jax.ShapeDtypeStruct((), jnp.float32)
            wait = jax.pure_callback(_hook, float32, c["slow"], c["die"], vmap_method="sequential")

        def update(state: State, _: None) -> tuple[State, None]:
            noise = jax.random.normal(jax.random.fold_in(state.key, state.updates))
            x = state.x + direction + (0.1 + c["wander"]) * noise + wait
            x = jnp.where(state.updates + 1 == c["explode_at"], jnp.nan, x)
            return state._replace(x=x, updates=state.updates + 1), None

        state, _ = jax.lax.scan(update, state, length=updates_per_chunk)
        return state, {"training/return": state.x, "width": jnp.ones(structure["width"]).sum()}

    def evaluate(state: State, variant: Any, key: Any) -> dict[str, Any]:
        return {"evaluation/return": state.x + jax.random.normal(key)}

    def act(policy: Any, observation: Any, key: Any) -> Any:
        return jnp.full(1, jnp.tanh(policy))

    steps = updates_per_chunk * 10
    return trainers.Trainer(init, chunk, evaluate, lambda state: state.x, steps, act)


@dataclass(frozen=True)
class Settings:
    toy_direction: str = trainers.component("up")
    rate: float = trainers.number(0.1, 0.0, 10.0, "how far in an update")
    wander: float = trainers.number(0.0, 0.0, 10.0, "how much more noise there is")
    explode_at: float = trainers.number(0, 0, 1e6, "the update that gives NaN; 0: none")
    die: float = trainers.number(0, 0, 1, "1: the process ends, as often as TOY_DEATHS says")
    slow: float = trainers.number(0, 0, 10, "seconds that a chunk waits, unless it must hurry")
    width: int = trainers.static(1, "another shape, so another program", low=1)
    ballast: int = trainers.static(1, "numbers in a checkpoint that nobody reads", low=1)
    hooked: bool = trainers.static(False, "obeys `die` and `slow`")
    broken: bool = trainers.static(False, "raises when it is composed")


trainers.register(
    trainers.TrainerSpec(
        name="toy",
        summary="a random walk",
        hyperparameters=Settings,
        make=make,
        iteration_steps=lambda structure: 10,
    )
)
tasks.register(
    tasks.Task(
        name="line",
        summary="a line",
        make=lambda settings: None,
        settings={"episode_length": 10},
        steps=1000,
    )
)


def _study(name: str, trainer: str = "toy", **variants_: dict[str, Any]) -> None:
    studies.register(
        studies.Study(
            name=name,
            title="Toy",
            claim="up is up",
            claim_source="this file",
            baseline=next(iter(variants_)),
            variants={variant: studies.Variant(sets) for variant, sets in variants_.items()},
            margin=0.05,
            trainer=trainer,
            profiles={
                "quick": studies.Profile(
                    tasks=("line",), seeds=4, steps=200, points=10, evaluations=2, evaluation_envs=1
                )
            },
        )
    )


_study("toy", up={}, down={"toy_direction": "down"})
SLOW = {"hooked": True, "slow": 0.1}
_study("toy_slow", up=SLOW, down={"toy_direction": "down", **SLOW})
HELD = {"hooked": True, "slow": 1.0}  # until it must hurry
_study("toy_held", up=HELD, down={"toy_direction": "down", **HELD})
_study("toy_close", up={}, down={"toy_direction": "down"}, wander={"wander": 0.05})
_study("toy_nan", up={}, nan={"explode_at": 7})
_study("toy_deadly", up={}, deadly={"hooked": True, "die": 1})
_study("toy_broken", up={}, broken={"broken": True})
_study("toy_wide", up={}, wide={"width": 2})
