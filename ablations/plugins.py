"""Modules of the user's that register choices, axes, tasks, trainers or studies."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points

from ablations.errors import UserError

GROUP = "ablations.plugins"

_loaded: list[str] = []


def load(names: Iterable[str] = ()) -> None:
    """Imports the installed plugins (entry point group `ablations.plugins`) and the named modules.

    A module is looked for in the current folder too. Raises UserError for one that does not import.
    """
    for name in [*(point.value for point in entry_points(group=GROUP)), *names]:
        if name in _loaded:
            continue
        if "" not in sys.path:
            sys.path.insert(0, "")
        try:
            importlib.import_module(name)
        except Exception as error:
            text = " ".join(str(error).split())
            raise UserError(
                f"the plugin '{name}' does not import: {type(error).__name__}: {text}"
            ) from error
        _loaded.append(name)


def loaded() -> tuple[str, ...]:
    """What was loaded so far: what a worker has to load too."""
    return tuple(_loaded)
