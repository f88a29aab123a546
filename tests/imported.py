"""What the tests' processes would each import anew: `forks` does, once. Starts no thread."""

import importlib

for name in (
    "ablations.cli",
    "ablations.commands.checking",
    "ablations.commands.describe",
    "ablations.commands.designing",
    "ablations.commands.gating",
    "ablations.commands.results",
    "ablations.commands.screens",
    "ablations.commands.watching",
    "jax",
    "flax.linen",
    "optax",
    "variants",
    "ablations.trainers.revisions",
    "ablations.trainers.control.ppo",
    "ablations.trainers.language.trainer",
    "ablations.engine.backends.compiled.program",
    "ablations.engine.local",
    "ablations.tables",
    "ablations.figures",
    "ablations.report.page",
    "scipy.stats",
    "pandas",
    "pyarrow.parquet",
    "hypothesis",
):
    importlib.import_module(name)

from ablations.tasks.control import quiet  # noqa: E402

with quiet():
    importlib.import_module("brax.envs")
