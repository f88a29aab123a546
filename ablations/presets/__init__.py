"""Each library's own defaults as settings of ours, one declarative file per library."""

from ablations.presets.definition import Preset, preset, presets

__all__ = ["Preset", "preset", "presets"]
