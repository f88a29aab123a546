"""The checks notice what goes wrong in practice: each mutation of a formula fails one of them."""

from __future__ import annotations

import inspect
import tomllib
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest
from test_formulas import CHECKS

import variants

pytestmark = pytest.mark.inputs(
    "variants", "tests/variants", "tests/variants/test_formulas.py", "tests/golden"
)
TABLE = tomllib.loads(Path(__file__).with_name("mutations.toml").read_text())
MUTATIONS = [
    pytest.param(module, *mutation, id=f"{module}-{mistake}")
    for module, mistakes in TABLE.items()
    for mistake, mutation in mistakes.items()
]


def mutated(original: ModuleType, function: str, old: str, new: str) -> str:
    """The original's source, with `new` for the one `old` in the source of `function`."""
    source = inspect.getsource(original)
    part = inspect.getsource(reduce(getattr, function.split("."), original))
    assert part.count(old) == 1, f"{old!r} is not there exactly once"
    assert source.count(part) == 1
    return source.replace(part, part.replace(old, new))


def module_of(source: str, original: ModuleType) -> ModuleType:
    """A module of this source that registers nothing."""
    module = ModuleType(original.__name__)
    axis = getattr(original, "AXIS", None)
    if axis is not None and "AXIS = Axis(" not in source:  # choices of another module's axis
        module.AXIS = variants.Axis(
            axis.name,
            summary=axis.summary,
            inputs=axis.inputs,
            numbers=axis.numbers,
            defaults=axis.defaults,
        )
        source = source.replace("AXIS,", "", 1)
    with mock.patch.multiple(variants.rules, _CONFLICTS=[], _INERT=[]):
        exec(source, module.__dict__)
    return module


@pytest.mark.parametrize(("name", "function", "old", "new"), MUTATIONS)
def test_mutation_is_noticed(name, function, old, new):
    original = import_module(f"variants.{name}")
    mutant = module_of(mutated(original, function, old, new), original)
    for check in CHECKS[name]:
        try:
            check(mutant)
        except AssertionError:
            return
    pytest.fail("no check notices")


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_unchanged_copy_passes(name):
    """What fails above fails for the mutation, not for the way the copy is made."""
    original = import_module(f"variants.{name}")
    copy = module_of(inspect.getsource(original), original)
    assert getattr(copy, "AXIS", copy) is not getattr(original, "AXIS", original)
    for check in CHECKS[name]:
        check(copy)
