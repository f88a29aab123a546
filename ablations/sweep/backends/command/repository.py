"""Find the commit of the user's repository that a command's cells come from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ablations.core.plan import Context
from ablations.core.record import Checkout
from ablations.sweep import provenance
from ablations.sweep.backends.command.code import Code, root_of
from ablations.sweep.cell import Cell


def noted(cells: Iterable[Cell], results: Path) -> tuple[Cell, ...]:
    """Add the commit of their repository to the contexts of cells.

    What the files that decide have over that commit is left beside the records, as a patch.
    """
    known: dict[str, Checkout] = {}

    def of(cell: Cell) -> Cell:
        if "named" not in cell.place:
            return cell
        here = cell.place["here"]
        if here not in known:
            known[here] = _commit(code_of(cell.place), results)
        return replace(cell, place={**cell.place, **known[here]})

    return tuple(map(of, cells))


def code_of(context: Context) -> Code:
    """Return the code that a command rests on."""
    depends, without = context["depends"], context["without"]
    return Code(
        Path(context["here"]),
        tuple(context["named"]),
        None if depends is None else tuple(depends),
        Path(without) if without else None,
    )


def place_of(code: Code, timeout: float | None) -> Context:
    """Return the execution context of a command."""
    return {
        "here": str(code.here),
        "named": list(code.named),
        "depends": None if code.depends is None else list(code.depends),
        "without": str(code.without) if code.without else None,
        "timeout": timeout,
    }


def _commit(code: Code, results: Path) -> Checkout:
    root = root_of(code.here)
    if root is None:
        return {}
    paths = [os.path.relpath(path, root) for path in code.files() if path.is_relative_to(root)]
    commit = provenance.of_checkout(root, paths) if paths else {}
    provenance.keep_difference(results, commit, root, paths)
    return commit
