"""Studies: short declarative files. All files in this package are imported."""

import importlib
import pkgutil

from ablations.studies.definition import Profile as Profile
from ablations.studies.definition import Study as Study
from ablations.studies.definition import Tuning as Tuning
from ablations.studies.definition import Variant as Variant
from ablations.studies.definition import crossed as crossed
from ablations.studies.definition import fraction as fraction
from ablations.studies.definition import register as register
from ablations.studies.definition import studies as studies
from ablations.studies.definition import study as study

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
