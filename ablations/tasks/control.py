"""Brax's control tasks. Brax and JAX are imported when an environment is made, not before."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from ablations.tasks.task import Task, check_episodes, register

BACKENDS = ("spring", "positional", "generalized", "mjx")


def _make(name: str, settings: Mapping[str, Any]) -> Any:
    with quiet():
        import brax.envs

        return brax.envs.get_environment(name, backend=settings["backend"])


def _check(settings: Mapping[str, Any]) -> list[str]:
    complaints = check_episodes(settings)
    if settings["backend"] not in BACKENDS:
        complaints.append(f"backend={settings['backend']} is not one of {', '.join(BACKENDS)}")
    return complaints


# What Brax and MuJoCo say about themselves whenever they are imported or a model is loaded, and
# what nobody who asked for a table can act on. All else that they print or warn of goes through.
_KNOWN_LINES = ("Failed to import warp", "Failed to import mujoco_warp")
_KNOWN_MODEL_WARNINGS = ("settotalmass",)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drops those lines, and nothing else."""
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.filterwarnings("ignore", message="Brax System, piplines and environments")
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="jaxopt|brax|mujoco")
        import mujoco

        said_by_mujoco = mujoco.get_mju_user_warning()

        def warn(message: str) -> None:
            if not any(known in message for known in _KNOWN_MODEL_WARNINGS):
                warnings.warn(f"MuJoCo: {message}", stacklevel=2)

        # Without a handler MuJoCo also leaves a MUJOCO_LOG.TXT in the working directory.
        mujoco.set_mju_user_warning(warn)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(said_by_mujoco)
            rest = [x for x in printed.getvalue().splitlines() if not x.startswith(_KNOWN_LINES)]
            if rest:
                print("\n".join(rest), file=sys.stderr)


# Rates and sizes are for one core and a few hundred thousand steps, in which Brax's configurations
# (2048 environments and more, 2 to 50 million steps, on an accelerator) barely start to learn.
_OWN = "own choice for short runs on one core"
_BRAX = f"{_OWN}; discount and entropy_coefficient from Brax's notebooks/training.ipynb"


def _register(
    name: str,
    summary: str,
    *,
    steps: int,
    source: str,
    **hyperparameters: Any,
) -> None:
    """A Brax environment as a task."""
    register(
        Task(
            name=name,
            summary=summary,
            make=lambda settings: _make(name, settings),
            settings={
                "backend": "spring",
                "episode_length": 1000,  # as in Brax's configurations, for every task
                "reset_group_size": 1,
                "random_elapsed_steps": True,
            },
            hyperparameters={"ppo": hyperparameters},
            steps=steps,
            source=source,
            check=_check,
        )
    )


_register(
    "inverted_pendulum",
    "balance a pole on a cart",
    steps=1_000_000,
    source=_OWN,
    learning_rate=1e-3,
    discount=0.99,
    entropy_coefficient=1e-2,
    reward_scale=0.1,
)
_register(
    "inverted_double_pendulum",
    "balance two jointed poles on a cart",
    steps=2_000_000,
    source=_OWN,
    learning_rate=1e-3,
    discount=0.99,
    entropy_coefficient=1e-2,
    reward_scale=0.1,
)
_register(
    "reacher",
    "bring the tip of a two-jointed arm to a target; never terminates (Gymnasium truncates at 50)",
    steps=2_000_000,
    source=_BRAX,
    learning_rate=3e-4,
    discount=0.95,
    entropy_coefficient=1e-3,
)
_register(
    "hopper",
    "hop forward on one leg without falling",
    steps=5_000_000,
    source=_OWN,
    learning_rate=1e-3,
    discount=0.99,
    entropy_coefficient=1e-2,
    reward_scale=0.1,
)
_register(
    "walker2d",
    "walk forward on two legs without falling",
    steps=5_000_000,
    source=_OWN,
    learning_rate=1e-3,
    discount=0.99,
    entropy_coefficient=1e-2,
    reward_scale=0.1,
)
_register(
    "halfcheetah",
    "run forward on two legs; never terminates",
    steps=5_000_000,
    source=_OWN,
    learning_rate=1e-3,
    discount=0.97,
    entropy_coefficient=1e-3,
    reward_scale=0.1,
)
_register(
    "ant",
    "walk forward on four legs",
    steps=10_000_000,
    source=_BRAX,
    learning_rate=3e-4,
    discount=0.97,
    entropy_coefficient=1e-2,
)
_register(
    "humanoid",
    "walk forward as a humanoid without falling",
    steps=20_000_000,
    source=_BRAX,
    learning_rate=3e-4,
    discount=0.97,
    entropy_coefficient=1e-3,
    reward_scale=0.1,
)
