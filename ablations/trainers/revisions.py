"""Revisions of choices, trainers and tasks, and the composition of a configuration's program.

A revision is raised when the meaning of a choice, a trainer or a task changes. Commands that only
read results do not start JAX. If the registry is not imported, they read the revisions from its
source, where they are literals.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ablations.core.record import Configuration
from ablations.errors import UserError
from ablations.tasks import task, tasks
from ablations.trainers.spec import BUILT_IN, choice_named, trainer, trainers
from ablations.trainers.trainer import TracedConfig, Trainer


def stated(config: Configuration) -> dict[str, int]:
    """Return the revisions in a configuration by name; {} for an imported run without revisions."""
    try:
        found = {_trainer(config["trainer"]["name"]): config["trainer"]["revision"]}
        found[_task(config["task"]["name"])] = config["task"]["revision"]
        choices = config["choices"].items()
        return found | {_choice(axis, one["name"]): one["revision"] for axis, one in choices}
    except (KeyError, TypeError, AttributeError):
        return {}


def differences(config: Configuration, now: Mapping[str, int]) -> list[str]:
    """Describe the revisions in a configuration that differ from `now`.

    Names missing in `now`, for example of a plugin that is not loaded, are ignored.
    """
    return [
        f"{what} is of revision {then}, now {now[what]}"
        for what, then in stated(config).items()
        if now.get(what, then) != then
    ]


def current() -> dict[str, int]:
    """Return the revisions of this code and of loaded plugins, by name."""
    found = {_task(name): one.revision for name, one in tasks().items()}
    if (registry := sys.modules.get("variants")) is None:
        return {**found, **from_source()}
    found |= {_trainer(name): one.revision for name, one in trainers().items()}
    return found | {
        _choice(axis, choice.name): choice.revision
        for axis, of in registry.axes().items()
        for choice in of.values()
    }


def require_current(config: Configuration) -> None:
    """Raise UserError for a configuration of other revisions, which this code cannot run."""
    spec = trainer(config["trainer"]["name"])
    task(config["task"]["name"])
    for axis, one in config["choices"].items():
        choice_named(axis, one["name"])
    found = differences(spec.completed(config), current())
    if found:
        raise UserError(
            f"this is of another version of the code ({'; '.join(found)}): run it again for what "
            f"today's gives"
        )


def compose(
    config: Configuration, fixed: Sequence[str] = ()
) -> tuple[Trainer, Callable[[Configuration], TracedConfig]]:
    """Return the trainer of a configuration, and a function from configurations to their data.

    fixed: axes whose choice is compiled in. Raises UserError for other revisions of the code.
    """
    require_current(config)
    spec = trainer(config["trainer"]["name"])
    config = spec.completed(config)
    composed = spec.make(
        task=task(config["task"]["name"]),
        settings=config["task"]["settings"],
        structure=config["structure"],
        updates_per_chunk=config["run"]["updates_per_chunk"],
        evaluation_envs=config["run"]["evaluation_envs"],
        choices={name: config["choices"][name]["name"] for name in fixed},
    )

    def as_data(config: Configuration) -> TracedConfig:
        run = config["run"]
        iterations = run.get("points", np.inf) * run["updates_per_chunk"]
        return spec.data(config)._replace(iterations=np.float32(iterations))

    return composed, as_data


@cache
def from_source() -> Mapping[str, int]:
    """Read the revisions of this project from its source, without imports."""
    ours, package = Path(__file__).parents[2], find_spec("variants")
    found = {}
    for name, module in BUILT_IN.items():
        for revision in _of_specs(ours.joinpath(*module.split(".")).with_suffix(".py")):
            found[_trainer(name)] = revision
    for folder in (package and package.submodule_search_locations) or ():
        for path in sorted(Path(folder).glob("*.py")):
            for axis, choice, revision in _of_choices(path):
                found[_choice(axis, choice)] = revision
    return found


def _trainer(name: str) -> str:
    return f"trainer '{name}'"


def _task(name: str) -> str:
    return f"task '{name}'"


def _choice(axis: str, name: str) -> str:
    return f"{axis}={name}"


def _of_specs(path: Path) -> Iterator[int]:
    """Yield the revisions of the instances of TrainerSpec in a module."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "TrainerSpec":
            yield _revision(node, tree)


def _of_choices(path: Path) -> Iterator[tuple[str, str, int]]:
    """Yield axis, choice and revision of the calls with a formula in a module.

    The axis has the name of the module, or the module imports AXIS from the axis' module.
    """
    tree = ast.parse(path.read_text())
    imported = (one for one in tree.body if isinstance(one, ast.ImportFrom))
    of = [one.module or "" for one in imported if any(name.name == "AXIS" for name in one.names)]
    axis = of[0].rpartition(".")[2] if of else path.stem
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(one.arg == "formula" for one in node.keywords):
            for name in (_literal(first, tree) for first in node.args[:1]):
                if isinstance(name, str):
                    yield axis, name, _revision(node, tree)


def _revision(call: ast.Call, tree: ast.Module) -> int:
    stated = [one.value for one in call.keywords if one.arg == "revision"]
    return int(_literal(stated[0], tree) or 1) if stated else 1


def _literal(node: ast.expr, tree: ast.Module) -> str | int | None:
    """Return the value of a literal, or of a module constant with a literal value, or None."""
    named = [
        one.value
        for one in tree.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == ast.unparse(node)
    ]
    value = getattr(named[0] if named else node, "value", None)
    return value if isinstance(value, str | int) else None
