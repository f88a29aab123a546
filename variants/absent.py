"""Stand-ins for JAX, so that the light install can import choices without calling them.

The light install lists axes, shows formulas and plans studies. That needs imports only.
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
    """A missing module, or a part of one: it has every attribute.

    A call raises ModuleNotFoundError, except during an import, which may build shapes.
    """

    importing = False

    def __getattr__(self, name: str) -> Absent:
        """Return an attribute. Raise AttributeError for a special name of Python."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __mro_entries__(self, bases: tuple[type | Absent, ...]) -> tuple[type, ...]:
        """Return an empty tuple: a subclass of a missing class has no base class."""
        return ()

    def __or__(self, other: type | Absent) -> Absent:
        """Return a stand-in for a union of types."""
        return self

    __ror__ = __or__

    def __call__(self, *arguments: Tree, **keywords: Tree) -> Absent:
        """Return a stand-in during an import. Raise ModuleNotFoundError afterwards."""
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
    """Replace packages that are not installed by stand-ins while the context is open.

    Afterwards, importing such a package fails again.
    """
    absent = {name for name in names if find_spec(name) is None}
    # The value is None where a test blocks the import.
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
