"""Each mutation of a formula fails a test of its module."""

from __future__ import annotations

import inspect
import itertools
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.outcomes import Failed

pytestmark = pytest.mark.inputs("ablations/stats", "tests/stats", "tests/stats/test_*.py")
TABLE = tomllib.loads(Path(__file__).with_name("mutations.toml").read_text())
MUTATIONS = [
    pytest.param(module, *mutation, id=f"{module}: {mistake}")
    for module, mistakes in TABLE.items()
    for mistake, mutation in mistakes.items()
]


def cases(name: str) -> Iterator[Callable[[], None]]:
    """Yield the cases of a file of tests, but for those that need fixtures or search by chance."""
    for test in vars(import_module(f"test_{name}")).values():
        if not getattr(test, "__name__", "").startswith("test_") or hasattr(test, "hypothesis"):
            continue
        marks = [
            mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"
        ]
        names = [
            [part.strip() for part in of.split(",")] if isinstance(of, str) else list(of)
            for of, _ in marks
        ]
        if set(inspect.signature(test).parameters) != set(itertools.chain(*names)):
            continue
        for values in itertools.product(*(values for _, values in marks)):
            given = {}
            for of, value in zip(names, values, strict=True):
                given |= dict(zip(of, value if len(of) > 1 else [value], strict=True))
            yield lambda test=test, given=given: test(**given)


def replace_everywhere(patch: pytest.MonkeyPatch, tests: str, old: object, new: object) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("ablations.stats") or name == tests:
            for attribute, value in list(vars(module).items()):
                if value is old:
                    patch.setattr(module, attribute, new)


def forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("ablations.stats"):
            for value in vars(module).values():
                getattr(value, "cache_clear", lambda: None)()


@pytest.mark.parametrize(("name", "function", "old", "new"), MUTATIONS)
def test_mutation_fails_a_test(name: str, function: str, old: str, new: str) -> None:
    module = sys.modules[import_module(f"ablations.stats.{name}").__name__]
    import_module(f"test_{name}")
    original = vars(module)[function]
    source = inspect.getsource(original)
    assert source.count(old) == 1, f"{old!r} is there {source.count(old)} times"
    mutated = dict(vars(module))
    exec(source.replace(old, new), mutated)
    with pytest.MonkeyPatch.context() as patch:
        replace_everywhere(patch, f"test_{name}", original, mutated[function])
        forget()
        try:
            for case in cases(name):
                case()
        except (AssertionError, Failed):
            return
        finally:
            forget()
    pytest.fail("no test notices")
