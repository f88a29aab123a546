"""The environments of other libraries as ours, by what they look like."""

from __future__ import annotations

from ablations.environments.brax import BraxEnvironment
from ablations.environments.environment import Discrete, Environment, Tree
from ablations.environments.gymnax import GymnaxEnvironment
from ablations.errors import UserError
from ablations.tasks import Task

MEMBERS = ("observations", "fresh", "trailing", "reset", "step")  # of ours, beside `actions`


def adapted(made: Tree, task: Task | None = None) -> Environment:
    """Return what `Task.make` returned as an `Environment`.

    made: one already, or an environment with the interface of Brax (`reset`, `step`,
        `action_size`), of MuJoCo Playground, which is the same, or of Gymnax (`reset_env`,
        `step_env`, `default_params`). Raises UserError for anything else, and where it is not what
        the task says of it.
    """
    environment = _adapted(made)
    seen = {
        "discrete": isinstance(environment.actions, Discrete),
        "image": environment.observations.image is not None,
        "fresh": environment.fresh,
    }
    for name, value in seen.items():
        if task is not None and getattr(task, name) != value:
            raise UserError(
                f"task '{task.name}' says {name}={getattr(task, name)}, and its environment is "
                f"{name}={value}: register it with that"
            )
    return environment


def _adapted(made: Tree) -> Environment:
    if hasattr(made, "actions"):
        environment: Environment = made
        if missing := [name for name in MEMBERS if not hasattr(made, name)]:
            raise UserError(
                f"{type(made).__name__} has `actions`, as our environments have, and lacks "
                f"{', '.join(missing)}"
            )
        return environment
    if hasattr(made, "step_env"):
        return GymnaxEnvironment(made, made.default_params)
    if hasattr(made, "action_size"):
        return BraxEnvironment(made)
    raise UserError(
        f"{type(made).__name__} is no environment: it has neither `actions`, as ours have, nor "
        f"`action_size`, as Brax's, nor `step_env`, as Gymnax's"
    )
