"""Components of the trainers: one module per axis, its choices are pure functions of arrays.

A choice works in any code, jitted or not, without our trainers:

    advantages, targets = variants.axis("advantage")["brax"](
        rewards=rewards, values=values, next_values=next_values,
        termination=termination, truncation=truncation, discount=0.99,
    )

Every module of this package is imported here, so a new axis is one new file. An import computes
nothing and works without JAX.
"""

import importlib
import pkgutil

from variants.absent import stand_in

with stand_in("jax"):
    from variants.checks import RegistrationError
    from variants.choice import Choice, Number, UnknownName
    from variants.registry import Axis, axes, axis, register
    from variants.rules import (
        conflict,
        conflict_where,
        conflicts,
        inert,
        inert_settings,
        inert_where,
    )

    for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        importlib.import_module(f"{__name__}.{_module}")

__all__ = [
    "Axis",
    "Choice",
    "Number",
    "RegistrationError",
    "UnknownName",
    "axes",
    "axis",
    "conflict",
    "conflict_where",
    "conflicts",
    "inert",
    "inert_settings",
    "inert_where",
    "register",
]
