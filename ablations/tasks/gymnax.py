"""Gymnax's tasks: classic control and MinAtar. Gymnax is imported when an environment is made."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ablations.errors import lacking
from ablations.presets import purejaxql, purejaxrl
from ablations.tasks.task import Environment, Task, check_episodes, register

if TYPE_CHECKING:
    from ablations.core.plan import Settings


def _make(name: str) -> Environment:
    import gymnax

    env, _ = gymnax.make(name)
    return env


# All settings are PureJaxRL's: with normalised observations, our default, CartPole learns later.
PUREJAXRL = "PureJaxRL at 31756b1: purejaxrl/ppo.py, and examples/brax_minatar.ipynb for MinAtar"
PUREJAXQL = "PureJaxQL at 47af6d7 (config/alg/pqn_cartpole.yaml, pqn_minatar.yaml)"


def _without(values: Settings, *names: str) -> Settings:
    return {name: value for name, value in values.items() if name not in names}


_MINATAR = _without(purejaxrl.OF_DISCRETE.values(**purejaxrl.MINATAR), "reset_pool")
_CLASSIC = _without(purejaxrl.OF_DISCRETE.values(), "reset_pool", "filters")
_OF_PQN: tuple[str, ...] = (
    *("num_envs", "unroll_length", "num_minibatches", "epochs", "learning_rate", "discount"),
    *("q_lambda", "epsilon_end", "epsilon_share", "reward_scale"),
)
_OF_IMAGES = (*_OF_PQN, "network_init", "filters", "value_layers")
_PQN = {name: purejaxql.PRESET.values()[name] for name in _OF_PQN}
_PQN_MINATAR = {name: purejaxql.MINATAR_PRESET.values()[name] for name in _OF_IMAGES}


_SUMMARIES = {
    "cartpole": "balance a pole on a cart by pushes to the left or right; the highest return is "
    "500",
    "acrobot": "swing a two-jointed arm up; every step costs 1",
    "mountain_car": "rock a weak car up a hill; every step costs 1",
    "breakout": "Breakout: break bricks with a ball that starts at a random place",
    "asterix": "Asterix: collect gold, avoid enemies that grow faster",
    "freeway": "Freeway: cross a road; its episodes last 2,500 steps",
    "space_invaders": "Space Invaders: shoot aliens that come down",
}


def _register(name: str, theirs: str, episode_length: int, steps: int, speed: float) -> None:
    image = theirs.endswith("MinAtar")
    settings: Settings = {"episode_length": episode_length, "random_elapsed_steps": False}
    limited = name == "cartpole"  # a reward of 1 for each step
    register(
        Task(
            name=name,
            summary=f"MinAtar's {_SUMMARIES[name]}" if image else _SUMMARIES[name],
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
            most=lambda settings: float(settings["episode_length"]) if limited else None,
            fresh=True,
            speed=speed,
        )
    )


_register("cartpole", "CartPole-v1", 500, 500_000, 300_000)
_register("acrobot", "Acrobot-v1", 500, 500_000, 100_000)
_register("mountain_car", "MountainCar-v0", 200, 1_000_000, 300_000)
_register("breakout", "Breakout-MinAtar", 1000, 10_000_000, 100_000)
_register("asterix", "Asterix-MinAtar", 1000, 10_000_000, 80_000)
_register("freeway", "Freeway-MinAtar", 2500, 10_000_000, 80_000)
_register("space_invaders", "SpaceInvaders-MinAtar", 1000, 10_000_000, 80_000)
