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
_SUMMARIES = {
    "inverted_pendulum": "balance a pole on a cart",
    "inverted_double_pendulum": "balance two jointed poles on a cart",
    "reacher": "bring the tip of a two-jointed arm to a target; never terminates (Gymnasium "
    "truncates at 50)",
    "hopper": "hop forward on one leg without falling",
    "walker2d": "walk forward on two legs without falling",
    "halfcheetah": "run forward on two legs; never terminates",
    "ant": "walk forward on four legs",
    "humanoid": "walk forward as a humanoid without falling",
    "swimmer": "swim forward with three jointed links; never terminates",
    "pusher": "push a cylinder to a goal with a seven-jointed arm; never terminates (Gymnasium "
    "truncates at 100)",
}
# Physics that an environment supports, if not all of BACKENDS, with its default first
_BACKENDS_OF = {
    "swimmer": ("generalized",),
    "pusher": ("generalized", "mjx", "spring", "positional"),
}


def _register(
    name: str,
    steps: int,
    speed: float,
    healthy_reward: float | None,
    source: str,
    ppo: tuple[float, ...],
) -> None:
    """Register a Brax environment as a task.

    healthy_reward: its constant reward for every step; None: it has none. ppo: the learning rate,
    the discount, the coefficient of the entropy and, where it is not 1, the reward scale.
    """
    paid = {} if healthy_reward is None else {HEALTHY_REWARD: healthy_reward}
    backends = _BACKENDS_OF.get(name, BACKENDS)
    numbers = ("learning_rate", "discount", "entropy_coefficient", "reward_scale")
    register(
        Task(
            name=name,
            summary=_SUMMARIES[name],
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
            hyperparameters={"ppo": dict(zip(numbers, ppo, strict=False))},
            steps=steps,
            speed=speed,
            source=source,
            lacks=partial(lacking, "brax"),
            check=partial(_check, backends),
        )
    )


_register("inverted_pendulum", 1_000_000, 70_000, None, _OWN, (1e-3, 0.99, 1e-2, 0.1))
_register("inverted_double_pendulum", 2_000_000, 75_000, None, _OWN, (1e-3, 0.99, 1e-2, 0.1))
_register("reacher", 2_000_000, 50_000, None, _BRAX, (3e-4, 0.95, 1e-3))
_register("hopper", 5_000_000, 50_000, 1.0, _OWN, (1e-3, 0.99, 1e-2, 0.1))
_register("walker2d", 5_000_000, 36_000, 1.0, _OWN, (1e-3, 0.99, 1e-2, 0.1))
_register("halfcheetah", 5_000_000, 30_000, None, _OWN, (1e-3, 0.97, 1e-3, 0.1))
_register("ant", 10_000_000, 35_000, 1.0, _BRAX, (3e-4, 0.97, 1e-2))
_register("humanoid", 20_000_000, 10_000, 5.0, _BRAX, (3e-4, 0.97, 1e-3, 0.1))
_register("swimmer", 5_000_000, 25_000, None, _OWN, (1e-3, 0.99, 1e-3))
_register("pusher", 5_000_000, 10_000, None, _OWN, (3e-4, 0.95, 1e-3))


def _cart(settings: Settings) -> Environment:
    from ablations.tasks.cart import Cart

    return Cart()


_FAST = {"num_envs": 32, "unroll_length": 16, "num_minibatches": 4, "learning_rate": 1e-3}
register(
    Task(
        name="fast",
        summary="hold a damped cart at a target; compiles in seconds, for tests",
        make=_cart,
        settings={"episode_length": 50, "reset_group_size": 1, "random_elapsed_steps": True},
        hyperparameters={"ppo": _FAST},
        steps=50_000,
        speed=120_000,
        source="own choice",
        check=check_episodes,
    )
)
