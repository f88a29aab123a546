"""Measure whether an RL implementation detail matters: components, paired seeds, honest tables.

From Python, with the commands' selection:

    from ablations import compare, curves, explain, figure, make_trainer, page, run, status, table

    run("gae", profile="smoke", seeds=range(8, 12))     # what is missing; then every curve
    table("gae")                                        # the last run, compared
    run("gae", vary={"gae_lambda": [0.9, 0.95, 1.0]})   # its baseline at each value
    run("gae", until="decided", budget="2h")            # more seeds for what is still open
    run("gae", base="cleanrl")                          # inside a library's settings
    compare({"observation_normalization": ["none", "after"]}, tasks="fast")    # a table of these
    run("norm_adv.toml")                                # a study whose trainer is a command
    explain("brax", "cleanrl", tasks="reacher")         # which details make their gap
    figure("gae")["curves"]                             # a matplotlib Figure
    figure("gae", width="icml-column")["sensitivity"]   # as a paper wants it
    page()                                              # every study on one page; its path
    trainer, variant = make_trainer("reacher", advantage="brax")    # one composed trainer, for a
    notebook
    import_runs("logs", "mine", pattern="{variant}/{task}_{seed}")  # runs that others trained
    policy = load_policy(find_cell("gae", task="fast"), step="best")    # policy(observation) acts

Importing this starts neither JAX nor pandas: each verb is imported when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ablations.errors import UserError, missing_extra
from ablations.request import Selection

if TYPE_CHECKING:
    from ablations.comparison import compare
    from ablations.io.imports import import_runs
    from ablations.loading import load_policy
    from ablations.policies import find_cell, saved_steps
    from ablations.runs import Runs
    from ablations.tables import format_table
    from ablations.verbs import (
        curves,
        explain,
        figure,
        make_trainer,
        page,
        run,
        status,
        table,
        vary,
    )

__all__ = [
    "Runs",
    "Selection",
    "UserError",
    "compare",
    "curves",
    "explain",
    "figure",
    "find_cell",
    "format_table",
    "import_runs",
    "load_policy",
    "make_trainer",
    "page",
    "run",
    "saved_steps",
    "status",
    "table",
    "vary",
]

_ELSEWHERE = {
    "Runs": "runs",
    "compare": "comparison",
    "find_cell": "policies",
    "format_table": "tables",
    "import_runs": "io.imports",
    "load_policy": "loading",
    "saved_steps": "policies",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ablations' has no attribute '{name}'")
    try:
        module = importlib.import_module(f"ablations.{_ELSEWHERE.get(name, 'verbs')}")
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
