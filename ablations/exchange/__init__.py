"""Runs out, for other tools, and other people's runs in, for our statistics and page.

from ablations import exchange

exchange.frame(plan, results)                          # long format, one row per point and metric
exchange.archive([plan], results, results / "archive") # for git: counts as done where it lies
exchange.import_runs(["runs.csv"], "mine", results)    # then: ablations table mine, report mine
"""

from ablations.exchange.archives import archive, restorable, restore
from ablations.exchange.export import export, frame
from ablations.exchange.imports import Options, import_runs
from ablations.exchange.outcomes import unfinished

__all__ = [
    "Options",
    "archive",
    "export",
    "frame",
    "import_runs",
    "restorable",
    "restore",
    "unfinished",
]
