"""Measure whether an RL implementation detail matters: components, paired seeds, honest tables.

    from ablations import compare, curves, explain, figure, make_trainer, page, run, sweep, table

    run("gae", profile="smoke", seeds=range(8, 12))     # train the missing runs
    table("gae")                                        # compare the runs of the last call
    sweep({"gae_lambda": [0.9, 0.95, 1.0]}, tasks="fast")   # a comparison without a study
    run("gae", until="decided", minutes=120)            # add seeds until it is decided
    run("gae", base="cleanrl")                          # with a library's settings
    run("norm_adv.toml")                                # a study whose trainer is a command
    explain("brax", "cleanrl", tasks="reacher")         # which settings make their gap
    figure("gae")["curves"]                             # a matplotlib Figure
    page()                                              # every study on one page; its path
    trainer, variant = make_trainer("reacher", advantage="brax")    # one composed trainer
    import_runs("logs", "mine", pattern="{variant}/{task}_{seed}")  # runs that others trained
    policy = load_policy(find_run("gae", task="fast"), step="best")    # policy(observation) acts

The functions are the commands of `ablations --help`. Importing this starts neither JAX nor pandas:
each function is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ablations.errors import UserError, missing_extra

if TYPE_CHECKING:
    from ablations.commands.describe import show
    from ablations.commands.designing import tune, validate
    from ablations.commands.rendering import render
    from ablations.commands.results import curves, export, figure, page, table
    from ablations.commands.running import Trained, explain, run, sweep
    from ablations.commands.watching import clean, status
    from ablations.comparison import compare
    from ablations.io.imports import import_runs
    from ablations.loading import find_run, load_policy, make_trainer, saved_steps
    from ablations.parameters import Selection
    from ablations.runs import Runs
    from ablations.tables import format_table

_MODULES = {  # module -> what comes from it
    "commands.describe": ("show",),
    "commands.designing": ("tune", "validate"),
    "commands.rendering": ("render",),
    "commands.results": ("curves", "export", "figure", "page", "table"),
    "commands.running": ("Trained", "explain", "run", "sweep"),
    "commands.watching": ("clean", "status"),
    "comparison": ("compare",),
    "io.imports": ("import_runs",),
    "loading": ("find_run", "load_policy", "make_trainer", "saved_steps"),
    "parameters": ("Selection",),
    "runs": ("Runs",),
    "tables": ("format_table",),
}
__all__ = ["UserError", *(name for names in _MODULES.values() for name in names)]


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _MODULES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'ablations' has no attribute '{name}'")
    try:
        module = importlib.import_module(f"ablations.{home}")
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
