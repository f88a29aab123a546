"""The commit of the user's repository that a command's cells come from, for their provenance."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablations.sweep import provenance
from ablations.sweep.backends.command.code import Code, root_of
from ablations.sweep.cell import Cell


def noted(cells: Iterable[Cell], results: Path) -> tuple[Cell, ...]:
    """The cells, each command with its repository's commit in its place; what the files that
    decide have over that commit is left beside the records, as a patch."""
    known: dict[str, Mapping[str, Any]] = {}

    def of(cell: Cell) -> Cell:
        if "named" not in cell.place:
            return cell
        here = cell.place["here"]
        if here not in known:
            known[here] = _commit(code_of(cell.place), results)
        return replace(cell, place={**cell.place, **known[here]})

    return tuple(map(of, cells))


def code_of(place: Mapping[str, Any]) -> Code:
    """Return the code that a command rests on, as its place has it."""
    depends, without = place["depends"], place["without"]
    return Code(
        Path(place["here"]),
        tuple(place["named"]),
        None if depends is None else tuple(depends),
        Path(without) if without else None,
    )


def place_of(code: Code, timeout: float | None) -> dict[str, Any]:
    """As plain data, for a worker anywhere."""
    return {
        "here": str(code.here),
        "named": list(code.named),
        "depends": None if code.depends is None else list(code.depends),
        "without": str(code.without) if code.without else None,
        "timeout": timeout,
    }


def _commit(code: Code, results: Path) -> dict[str, Any]:
    root = root_of(code.here)
    if root is None:
        return {}
    paths = [os.path.relpath(one, root) for one in code.files() if one.is_relative_to(root)]
    found = provenance.of_checkout(root, paths) if paths else {}
    provenance.keep_difference(results, found, root, paths)
    return found
