"""Each library's defaults as our settings, one declarative file per library."""

from ablations.presets.definition import Preset, preset, presets
