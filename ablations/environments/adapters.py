"""The environments of other libraries as ours, by what they look like."""

from __future__ import annotations

import math

from ablations.environments.brax import BraxEnvironment
from ablations.environments.environment import Box, Discrete, Environment, Tree
from ablations.environments.gymnax import GymnaxEnvironment
from ablations.errors import UserError
from ablations.tasks import Task

# A member that tells an environment's library -> that library, and the other members of its form.
FORMS = {
    "actions": ("our environments", ("observations", "fresh", "trailing", "reset", "step")),
    "step_env": ("Gymnax's", ("reset_env", "action_space", "default_params")),
    "action_size": ("Brax's", ("reset", "step")),
}


def adapted(made: Tree, task: Task | None = None) -> Environment:
    """Return what `Task.make` returned as an `Environment`.

    made: one already, or an environment with the interface of Brax (`reset`, `step`,
        `action_size`), of MuJoCo Playground, which is the same, or of Gymnax (`reset_env`,
        `step_env`, `default_params`). Raises UserError for anything else, and where it is not what
        the task says of it.
    """
    environment = _adapted(made)
    _require_actions_and_observations(environment)
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
    kind = type(made).__name__
    telling = next((name for name in FORMS if hasattr(made, name)), None)
    if telling is None:
        raise UserError(
            f"{kind} is no environment: it has neither `actions`, as ours have, nor `action_size`, "
            f"as Brax's, nor `step_env`, as Gymnax's"
        )
    whose, members = FORMS[telling]
    if missing := [name for name in members if not hasattr(made, name)]:
        raise UserError(f"{kind} has `{telling}`, as {whose} have, and lacks {', '.join(missing)}")
    if telling == "step_env":
        return GymnaxEnvironment(made, made.default_params)
    environment: Environment = made if telling == "actions" else BraxEnvironment(made)
    return environment


def _require_actions_and_observations(environment: Environment) -> None:
    """Raise UserError for actions of another type, and observations that contradict themselves."""
    actions, form = environment.actions, environment.observations
    if not isinstance(actions, Box | Discrete):
        raise UserError(f"actions are a Box or a Discrete, and not {actions!r}")
    if (actions.choices if isinstance(actions, Discrete) else actions.size) < 1:
        raise UserError(f"there is nothing to choose in actions {actions}: at least 1")
    if form.image is not None and math.prod(form.image) != form.size:
        raise UserError(f"an image of {form.image} has not the {form.size} numbers of observations")
    for start, stop in filter(None, (form.policy, form.value)):
        if not 0 <= start < stop <= form.size:
            raise UserError(f"observations have {form.size} numbers, and no part {start}:{stop}")
