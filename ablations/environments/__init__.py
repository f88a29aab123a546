"""The interface of environments, and `adapted`, which gives it to those of other libraries.

Environments of other libraries are recognised by their members. Imports JAX.
"""

from __future__ import annotations

from ablations.environments.brax import BraxEnvironment
from ablations.environments.environment import (
    Actions,
    Box,
    Discrete,
    Environment,
    Observations,
    State,
    Step,
    Tree,
)
from ablations.environments.gymnax import GymnaxEnvironment
from ablations.errors import UserError
from ablations.tasks import Task

# A member that identifies a library's environments -> the library, and the other required members.
INTERFACES = {
    "actions": ("our", ("observations", "fresh", "trailing", "reset", "step")),
    "step_env": ("Gymnax's", ("reset_env", "action_space", "default_params")),
    "action_size": ("Brax's", ("reset", "step")),
}


def adapted(made: Tree, task: Task | None = None) -> Environment:
    """Return an `Environment` for the return value of `Task.make`.

    made: an `Environment`, or an environment with the interface of Brax or MuJoCo Playground
        (`reset`, `step`, `action_size`) or of Gymnax (`reset_env`, `step_env`,
        `default_params`).
    task: its `discrete`, `image` and `fresh` are checked.
    Raises UserError: it has another interface, or the task describes it wrongly.
    """
    environment = _adapted(made)
    actual = {
        "discrete": isinstance(environment.actions, Discrete),
        "image": environment.observations.image is not None,
        "fresh": environment.fresh,
    }
    for name, value in actual.items():
        if task is not None and getattr(task, name) != value:
            raise UserError(
                f"task '{task.name}' has {name}={getattr(task, name)}, but its environment has "
                f"{name}={value}: register the task with {name}={value}"
            )
    return environment


def _adapted(made: Tree) -> Environment:
    kind = type(made).__name__
    member = next((name for name in INTERFACES if hasattr(made, name)), None)
    if member is None:
        raise UserError(
            f"{kind} is not an environment: it has neither `actions` (our interface) nor "
            f"`action_size` (Brax's) nor `step_env` (Gymnax's)"
        )
    library, members = INTERFACES[member]
    if missing := [name for name in members if not hasattr(made, name)]:
        raise UserError(
            f"{kind} has `{member}` of {library} interface, but lacks {', '.join(missing)}"
        )
    if member == "step_env":
        return GymnaxEnvironment(made, made.default_params)
    environment: Environment = made if member == "actions" else BraxEnvironment(made)
    return environment
