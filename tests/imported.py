"""What every command of the tests would import anew: preloaded by `forked`. Starts no thread."""

import importlib

for name in (
    "ablations.cli",
    "jax",
    "flax.linen",
    "optax",
    "variants",
    "ablations.trainers.control.settings",
    "ablations.trainers.language.settings",
    "ablations.sweep.crew",
    "ablations.report.tables",
    "ablations.report.formats",
    "ablations.report.figures",
    "ablations.report.page",
    "scipy.stats",
    "seaborn",
    "pandas",
    "arro3.io",
):
    importlib.import_module(name)
