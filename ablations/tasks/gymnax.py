"""Gymnax's tasks: classic control and MinAtar. Gymnax is imported when an environment is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ablations.errors import lacking
from ablations.presets import purejaxql
from ablations.presets.purejaxrl import MINATAR, OF_DISCRETE, of_discrete
from ablations.tasks.task import Environment, Task, check_episodes, register

if TYPE_CHECKING:
    from ablations.core.plan import Settings
    from ablations.presets.definition import Arguments


def _make(name: str) -> Environment:
    import gymnax

    env, _ = gymnax.make(name)
    return env


def _register(
    name: str,
    theirs: str,
    summary: str,
    *,
    episode_length: int,
    steps: int,
    speed: float,
    image: bool = False,
    most: Callable[..., float | None] = lambda settings: None,
) -> None:
    settings: Settings = {"episode_length": episode_length, "random_elapsed_steps": False}
    register(
        Task(
            name=name,
            summary=summary,
            make=lambda settings: _make(theirs),
            settings=settings,
            hyperparameters={
                "ppo": _MINATAR if image else _CLASSIC,
                "pqn": _PQN_MINATAR if image else _PQN,
            },
            steps=steps,
            source=f"{PUREJAXRL}; of pqn {PUREJAXQL}",
            lacks=partial(lacking, "gymnax"),
            check=check_episodes,
            discrete=True,
            image=image,
            most=most,
            fresh=True,
            speed=speed,
        )
    )


# All settings are PureJaxRL's: with normalised observations, our default, CartPole learns later.
PUREJAXRL = "PureJaxRL at 31756b1: purejaxrl/ppo.py, and examples/brax_minatar.ipynb for MinAtar"


def _settings(arguments: Arguments) -> Settings:
    """Return our settings for PureJaxRL's arguments, without its pool of resets."""
    read = of_discrete(arguments)
    return {name: value for name, (value, _) in read.items() if name != "reset_pool"}


_MINATAR = _settings({**OF_DISCRETE, **MINATAR})
_CLASSIC = {name: value for name, value in _settings(OF_DISCRETE).items() if name != "filters"}
PUREJAXQL = "PureJaxQL at 47af6d7 (config/alg/pqn_cartpole.yaml, pqn_minatar.yaml)"
_OF_PQN: tuple[str, ...] = (
    *("num_envs", "unroll_length", "num_minibatches", "epochs", "learning_rate", "discount"),
    *("q_lambda", "epsilon_end", "epsilon_share", "reward_scale"),
)
_OF_IMAGES = (*_OF_PQN, "network_init", "filters", "value_layers")
_read = purejaxql.settings(purejaxql.ARGUMENTS)
_PQN = {name: _read[name][0] for name in _OF_PQN}
_read = purejaxql.minatar_settings(purejaxql.MINATAR_ARGUMENTS)
_PQN_MINATAR = {name: _read[name][0] for name in _OF_IMAGES}

_register(
    "cartpole",
    "CartPole-v1",
    "balance a pole on a cart by pushes to the left or right; the highest return is 500",
    episode_length=500,
    steps=500_000,
    speed=300_000,
    most=lambda settings: float(settings["episode_length"]),
)
_register(
    "acrobot",
    "Acrobot-v1",
    "swing a two-jointed arm up; every step costs 1",
    episode_length=500,
    steps=500_000,
    speed=100_000,
)
_register(
    "mountain_car",
    "MountainCar-v0",
    "rock a weak car up a hill; every step costs 1",
    episode_length=200,
    steps=1_000_000,
    speed=300_000,
)
_register(
    "breakout",
    "Breakout-MinAtar",
    "MinAtar's Breakout: break bricks with a ball that starts at a random place",
    episode_length=1000,
    steps=10_000_000,
    speed=100_000,
    image=True,
)
_register(
    "asterix",
    "Asterix-MinAtar",
    "MinAtar's Asterix: collect gold, avoid enemies that grow faster",
    episode_length=1000,
    steps=10_000_000,
    speed=80_000,
    image=True,
)
_register(
    "freeway",
    "Freeway-MinAtar",
    "MinAtar's Freeway: cross a road; its episodes last 2,500 steps",
    episode_length=2500,
    steps=10_000_000,
    speed=80_000,
    image=True,
)
_register(
    "space_invaders",
    "SpaceInvaders-MinAtar",
    "MinAtar's Space Invaders: shoot aliens that come down",
    episode_length=1000,
    steps=10_000_000,
    speed=80_000,
    image=True,
)
