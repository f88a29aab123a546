"""Components of the trainers: one module per axis, its choices are pure functions of arrays.

A choice works in any code, jitted or not, without our trainers:

    advantages, targets = variants.axis("advantage")["brax"](
        rewards=rewards, values=values, next_values=next_values,
        termination=termination, truncation=truncation, discount=0.99,
    )

Every module of this package is imported and its `AXIS` registered here, so a new axis is one new
file. An import computes nothing and works without JAX.
"""

import importlib
import pkgutil

from variants.absent import stand_in

with stand_in("jax"):
    from variants.checks import RegistrationError
    from variants.registry import Axis, Choice, Number, UnknownName, axes, axis, register
    from variants.rules import (
        conflict,
        conflict_where,
        conflicts,
        inert,
        inert_settings,
        inert_where,
    )

    for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        _axis = getattr(importlib.import_module(f"{__name__}.{_module}"), "AXIS", None)
        if _axis is not None and _axis not in axes().values():
            register(_axis)
