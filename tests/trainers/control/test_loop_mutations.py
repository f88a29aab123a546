"""The checks hold for the loop and the loss, and fail where the source is wrong."""

from __future__ import annotations

import inspect
import sys
import tomllib
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import environment_checks
import loss_checks
import pytest

from ablations.trainers import losses
from ablations.trainers.control import advantages, distribution, environment, ppo

TABLE = tomllib.loads(Path(__file__).with_name("mutations.toml").read_text())


def mutant(module: types.ModuleType, old: str, new: str) -> types.ModuleType:
    """The module with one piece of its source replaced."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{source.count(old)} places for {old!r}"
    changed = types.ModuleType(f"{module.__name__}_mutant")
    changed.__dict__["__file__"] = module.__file__
    sys.modules[changed.__name__] = changed  # dataclasses look their module up
    exec(compile(source.replace(old, new), changed.__name__, "exec"), changed.__dict__)
    return changed


def made_of(whole: types.ModuleType, part: types.ModuleType, mutated: Any) -> types.ModuleType:
    """A copy of a module that takes from the mutant what the module takes from the part."""
    copy = types.ModuleType(f"{whole.__name__}_with_mutant")
    sys.modules[copy.__name__] = copy
    exec(compile(inspect.getsource(whole), copy.__name__, "exec"), copy.__dict__)
    for name, taken in list(copy.__dict__.items()):
        if taken is part:
            copy.__dict__[name] = mutated
        elif getattr(taken, "__module__", None) == part.__name__:
            copy.__dict__[name] = getattr(mutated, name)
    return copy


LOSS_CHECKS = (
    partial(loss_checks.check_brax, clip_range=None),
    partial(loss_checks.check_brax, clip_range=0.05),
    loss_checks.check_metrics,
)
DISTRIBUTION_CHECKS = (
    lambda normal: loss_checks.check_brax(ppo, None, normal),
    loss_checks.check_samples,
)

# Module -> what must hold of it; those of `ppo` also for the modules that the loss is made of.
CHECKS = {
    "environment": environment_checks.CHECKS,
    "ppo": LOSS_CHECKS,
    "distribution": DISTRIBUTION_CHECKS,
    "advantages": LOSS_CHECKS,
    "losses": LOSS_CHECKS,
}


@pytest.mark.parametrize(
    ("module", "check"),
    [
        *((environment, check) for check in environment_checks.CHECKS),
        *((ppo, check) for check in LOSS_CHECKS),
        *((distribution.Normal(1), check) for check in DISTRIBUTION_CHECKS),
    ],
)
def test_the_source_passes(module: Any, check: Callable[[Any], None]) -> None:
    check(module)


@pytest.mark.inputs(
    *("variants", "ablations/environments", "ablations/tasks", "ablations/trainers"),
    "tests/trainers",
)
@pytest.mark.parametrize(
    ("name", "mistake"), [(name, mistake) for name in TABLE for mistake in TABLE[name]]
)
def test_a_mistake_is_noticed(name: str, mistake: str) -> None:
    module = globals()[name]
    mutated: Any = mutant(module, *TABLE[name][mistake])
    if module in (advantages, losses):
        mutated = made_of(ppo, module, mutated)
    elif module is distribution:
        mutated = mutated.Normal(1)
    for check in CHECKS[name]:
        try:
            check(mutated)
        except AssertionError:
            return
    pytest.fail("no check notices")
