"""Each library's defaults as our settings, one declarative file per library."""

from ablations.presets.definition import Preset as Preset
from ablations.presets.definition import preset as preset
from ablations.presets.definition import presets as presets
