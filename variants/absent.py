"""Stand-ins for JAX where it is not installed: choices can then be read, and none of them computes.

The light install lists axes, shows formulas and plans studies. For that, choices and trainers are
imported and none of their functions is called.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from variants.shapes import Tree


class Absent(ModuleType):
    """A module that is not there, or a part of it: has every attribute.

    To call one raises ModuleNotFoundError, but for what an importing module makes of shapes.
    """

    importing = False

    def __getattr__(self, name: str) -> Absent:
        """Return an attribute. Raise AttributeError for those of Python itself."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __mro_entries__(self, bases: tuple[type | Absent, ...]) -> tuple[type, ...]:
        """Return no base class, in place of one that is not there."""
        return ()

    def __or__(self, other: type | Absent) -> Absent:
        """Return a stand-in for a union of types."""
        return self

    __ror__ = __or__

    def __call__(self, *arguments: Tree, **keywords: Tree) -> Absent:
        """Return a stand-in for what a call on import returns. Raise ModuleNotFoundError later."""
        root = self.__name__.partition(".")[0]
        if not Absent.importing:
            raise ModuleNotFoundError(f"No module named '{root}'", name=root)
        return self


class _Finder(MetaPathFinder, Loader):
    def __init__(self, name: str):
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self.name:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return


@contextmanager
def stand_in(*names: str) -> Iterator[None]:
    """Provide stand-ins for packages that are not installed, for what is imported meanwhile.

    Afterwards an import of them fails as before.
    """
    absent = {name for name in names if find_spec(name) is None}
    # None, where the import of it is to fail
    blocked = {name: sys.modules.pop(name) for name in absent & sys.modules.keys()}
    finders = [_Finder(name) for name in absent]
    sys.meta_path[:0] = finders
    outermost = bool(absent) and not Absent.importing
    Absent.importing = Absent.importing or outermost
    try:
        yield
    finally:
        if outermost:
            Absent.importing = False
        for finder in finders:
            sys.meta_path.remove(finder)
        for module in [m for m in sys.modules if m.partition(".")[0] in absent]:
            del sys.modules[module]
        sys.modules.update(blocked)
