"""The mathematics of the design decisions: one module per axis, pure functions of arrays.

Every module of this package is imported here, so a new axis is one new file. Nothing is computed
on import.
"""

import importlib
import pkgutil

from variants.registry import (
    Axis,
    Choice,
    RegistrationError,
    UnknownName,
    axes,
    axis,
    conflict,
    conflicts,
    register,
)

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

__all__ = [
    "Axis",
    "Choice",
    "RegistrationError",
    "UnknownName",
    "axes",
    "axis",
    "conflict",
    "conflicts",
    "register",
]
