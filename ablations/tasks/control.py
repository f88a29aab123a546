"""Brax's control tasks, and `fast`. Brax and JAX are imported when an environment is made."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ablations.errors import lacking
from ablations.tasks.task import Environment, Task, check_episodes, register

if TYPE_CHECKING:
    import jax

    from ablations.core.plan import Settings

BACKENDS = ("spring", "positional", "generalized", "mjx")
HEALTHY_REWARD = "healthy_reward"  # Brax's name of the reward for every step


def _make(name: str, settings: Settings) -> Environment:
    with quiet():
        import brax.envs

        _fix_fluids()
        options = {x: settings[x] for x in ("backend", HEALTHY_REWARD) if x in settings}
        return brax.envs.get_environment(name, **options)


def _fix_fluids() -> None:
    """Fix the forces of fluids (swimmer): Brax 0.14.2 calls clip(x, a_min=...), removed in JAX."""
    import jax.numpy as jnp
    from brax import fluid

    def clip(x: jax.Array, a_min: float) -> jax.Array:
        return jnp.clip(x, a_min)

    fluid.jp = SimpleNamespace(**{**vars(jnp), "clip": clip})


def _check(backends: Sequence[str], settings: Settings) -> list[str]:
    complaints = check_episodes(settings)
    if settings["backend"] not in backends:
        complaints.append(f"backend={settings['backend']} is not one of {', '.join(backends)}")
    return complaints


# Messages that Brax and MuJoCo print at every import and model; users cannot act on them.
_KNOWN_LINES = ("Failed to import warp", "Failed to import mujoco_warp")
_KNOWN_MODEL_WARNINGS = ("settotalmass",)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress known messages of Brax and MuJoCo; print all others."""
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.filterwarnings("ignore", message="Brax System, piplines and environments")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="jaxopt|brax|mujoco")
        import mujoco

        handler = mujoco.get_mju_user_warning()

        def warn(message: str) -> None:
            if not any(known in message for known in _KNOWN_MODEL_WARNINGS):
                warnings.warn(f"MuJoCo: {message}", stacklevel=2)

        # Without a handler, MuJoCo writes a MUJOCO_LOG.TXT to the working directory.
        mujoco.set_mju_user_warning(warn)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(handler)
            rest = [x for x in printed.getvalue().splitlines() if not x.startswith(_KNOWN_LINES)]
            if rest:
                print("\n".join(rest), file=sys.stderr)


# Learning rates and sizes are for one core and a few hundred thousand steps. Brax's configurations
# (2048 or more environments, 2 to 50 million steps, an accelerator) barely start to learn in these.
_OWN = "own choice for short runs on one core"
_BRAX = f"{_OWN}; discount and entropy_coefficient from Brax's notebooks/training.ipynb"


def _ppo(
    learning_rate: float, discount: float, entropy_coefficient: float, **others: float
) -> Settings:
    return {
        "learning_rate": learning_rate,
        "discount": discount,
        "entropy_coefficient": entropy_coefficient,
        **others,
    }


def _register(
    name: str,
    summary: str,
    *,
    steps: int = 5_000_000,
    source: str = _OWN,
    speed: float = Task.speed,
    backends: tuple[str, ...] = BACKENDS,
    healthy_reward: float | None = None,
    ppo: Settings,
) -> None:
    """Register a Brax environment as a task.

    `backends` are the physics that it supports, with its default first. `healthy_reward` is the
    constant reward for every step of the environment; None: it has none.
    """
    paid = {} if healthy_reward is None else {HEALTHY_REWARD: healthy_reward}
    register(
        Task(
            name=name,
            summary=summary,
            make=lambda settings: _make(name, settings),
            settings={
                "backend": backends[0],
                "episode_length": 1000,  # as in Brax's configurations, for every task
                "reset_group_size": 1,
                "random_elapsed_steps": True,
                **paid,
            },
            neutral=paid,
            unpaid=lambda settings: sum((x - settings.get(n, x) for n, x in paid.items()), 0.0),
            hyperparameters={"ppo": ppo},
            steps=steps,
            speed=speed,
            source=source,
            lacks=partial(lacking, "brax"),
            check=partial(_check, backends),
        )
    )


_register(
    "inverted_pendulum",
    "balance a pole on a cart",
    steps=1_000_000,
    speed=70_000,
    ppo=_ppo(1e-3, 0.99, 1e-2, reward_scale=0.1),
)
_register(
    "inverted_double_pendulum",
    "balance two jointed poles on a cart",
    steps=2_000_000,
    speed=75_000,
    ppo=_ppo(1e-3, 0.99, 1e-2, reward_scale=0.1),
)
_register(
    "reacher",
    "bring the tip of a two-jointed arm to a target; never terminates (Gymnasium truncates at 50)",
    steps=2_000_000,
    source=_BRAX,
    ppo=_ppo(3e-4, 0.95, 1e-3),
)
_register(
    "hopper",
    "hop forward on one leg without falling",
    healthy_reward=1.0,
    ppo=_ppo(1e-3, 0.99, 1e-2, reward_scale=0.1),
)
_register(
    "walker2d",
    "walk forward on two legs without falling",
    speed=36_000,
    healthy_reward=1.0,
    ppo=_ppo(1e-3, 0.99, 1e-2, reward_scale=0.1),
)
_register(
    "halfcheetah",
    "run forward on two legs; never terminates",
    speed=30_000,
    ppo=_ppo(1e-3, 0.97, 1e-3, reward_scale=0.1),
)
_register(
    "ant",
    "walk forward on four legs",
    steps=10_000_000,
    speed=35_000,
    source=_BRAX,
    healthy_reward=1.0,
    ppo=_ppo(3e-4, 0.97, 1e-2),
)
_register(
    "humanoid",
    "walk forward as a humanoid without falling",
    steps=20_000_000,
    speed=10_000,
    source=_BRAX,
    healthy_reward=5.0,
    ppo=_ppo(3e-4, 0.97, 1e-3, reward_scale=0.1),
)
_register(
    "swimmer",
    "swim forward with three jointed links; never terminates",
    speed=25_000,
    backends=("generalized",),  # Brax supports no other
    ppo=_ppo(1e-3, 0.99, 1e-3),
)
_register(
    "pusher",
    "push a cylinder to a goal with a seven-jointed arm; never terminates (Gymnasium truncates at "
    "100)",
    speed=10_000,
    backends=("generalized", "mjx", "spring", "positional"),
    ppo=_ppo(3e-4, 0.95, 1e-3),
)


def _cart(settings: Settings) -> Environment:
    from ablations.tasks.cart import Cart

    return Cart()


register(
    Task(
        name="fast",
        summary="hold a damped cart at a target; compiles in seconds, for tests",
        make=_cart,
        settings={"episode_length": 50, "reset_group_size": 1, "random_elapsed_steps": True},
        hyperparameters={
            "ppo": {
                "num_envs": 32,
                "unroll_length": 16,
                "num_minibatches": 4,
                "learning_rate": 1e-3,
            }
        },
        steps=50_000,
        speed=120_000,
        source="own choice",
        check=check_episodes,
    )
)
