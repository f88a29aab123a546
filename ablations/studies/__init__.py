"""Studies: one short declarative file per question, each found by itself."""

import importlib
import pkgutil

from ablations.studies.definition import (
    Profile,
    Study,
    Variant,
    crossed,
    fraction,
    register,
    studies,
    study,
)
from ablations.studies.tuned import Tuning

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Profile",
    "Study",
    "Tuning",
    "Variant",
    "crossed",
    "fraction",
    "register",
    "studies",
    "study",
]
