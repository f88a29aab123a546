"""Studies: short declarative files. Every `Study` that a file of this package defines is there."""

import importlib
import pkgutil

from ablations.studies.definition import (
    Profile,
    Study,
    Tuning,
    Variant,
    crossed,
    fraction,
    register,
    studies,
    study,
)

for _module in pkgutil.iter_modules(__path__):
    for _value in vars(importlib.import_module(f"{__name__}.{_module.name}")).values():
        if isinstance(_value, Study):
            register(_value)
