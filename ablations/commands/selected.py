"""Find the plans of a selection, unpack their archives, and warn of runs of earlier code."""

from __future__ import annotations

import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas

from ablations import plugins
from ablations.engine.plan import no_study
from ablations.engine.stored import command_of, planned
from ablations.errors import Note, UserError, count, unknown
from ablations.io.archives import restore
from ablations.parameters import Selection
from ablations.presets import presets
from ablations.records import UNTRAINED, Plan, cell_folder
from ablations.request import selects
from ablations.studies import studies
from ablations.trainers.revisions import current, differences

RUN_FILES = (".csv", ".jsonl", ".npz", ".parquet")


def names_of(names: str | Iterable[str]) -> list[str]:
    """Return the names of one study or of several."""
    if not isinstance(names, str | Iterable):
        raise UserError(
            f'study takes a study or several: "gae", ["gae", "value_clipping"], not {names!r:.60}'
        )
    return [names] if isinstance(names, str) else list(names)


def selection_of(options: Mapping[str, Any], others: Collection[str] = ()) -> Selection:
    """Return the selection among the options of a command; None is left out.

    others: names of options that are no selection.
    """
    selected: Any = {}
    for name, value in options.items():
        if name not in {*Selection.__annotations__, *others}:
            raise unknown("selection", name, Selection.__annotations__)
        if value is not None and name not in others:
            selected[name] = value
    return selected  # type: ignore[no-any-return]


def plans(
    asked: str | Iterable[str], results: str | Path, selection: Selection
) -> tuple[list[Plan], Path]:
    """Return the plans that a command reads, and their folder.

    The archives of these studies are unpacked. If they lack runs of the selection, archives with
    these runs are too, as studies share runs.
    """
    names, folder = names_of(asked), Path(results)
    folder = unpacked(folder, names)
    for name in names:
        _require_known(name, folder)
    found = planned(names, folder, selection)
    hashes = frozenset(cell.hash for plan in found for cell in plan.cells)
    if selects(selection) and not all(cell_folder(folder, name).exists() for name in hashes):
        restore(folder, runs=hashes)
        found = planned(names, folder, selection)
    return found, folder


def _require_known(name: str, results: Path) -> None:
    """Raise UserError for a file of runs, and for an unknown study."""
    if Path(name).suffix in RUN_FILES:
        raise UserError(
            f"'{name}' is a file of runs: import it by `ablations import {name} --study NAME`"
        )
    if Path(name).suffix == ".toml" or "_to_" in name or (results / "plans" / name).is_dir():
        return
    plugins.load()
    ran = [path.name for path in (results / "plans").glob("*")]
    ran += [path.stem.rpartition("-")[0] for path in (results / "archive").glob("*.parquet")]
    known = {*studies(), *presets(), *ran}
    if name not in known:
        raise no_study(name, known)


def shown(
    asked: str | Iterable[str], results: str | Path, selection: Selection
) -> tuple[list[Plan], Path]:
    """Return `plans` of a command that shows results, and warn of runs of earlier code."""
    of, folder = plans(asked, results, selection)
    note(filter(None, (outdated(plan, folder) for plan in of)))
    return of, folder


def of_studies(
    studies: str | Iterable[str],
    plans: Sequence[Plan],
    frame_of: Callable[[Plan], pandas.DataFrame],
) -> pandas.DataFrame:
    """Return the frame of one study, or of several studies with a first column `study`."""
    if isinstance(studies, str):
        return frame_of(plans[0])
    names = [plan.study.name for plan in plans]
    frames = pandas.concat(map(frame_of, plans), keys=names, names=["study"])
    return frames.reset_index("study").reset_index(drop=True)


def note(lines: Iterable[str]) -> None:
    """Warn with lines; a command prints each on stderr."""
    for line in lines:
        warnings.warn(line, Note, stacklevel=3)


def unpacked(results: Path, names: Collection[str]) -> Path:
    """Unpack archives of a folder and return it.

    names: of studies, which get untrained policies too; none, or a path: all studies.
    """
    if any("." in name or "/" in name for name in names):
        names = ()
    restore(results, (*names, UNTRAINED) if names else ())
    return results


def outdated(plan: Plan, results: Path) -> str | None:
    """Return a line on the records that earlier code computed; None where there are none.

    Starts no JAX.
    """
    now = current()
    there = {cell.hash: (cell.task, cell.variant) for cell in plan.cells}
    configs = {(cell.task, cell.variant): cell.config for cell in plan.cells}
    changed = {pair: differences(config, now) for pair, config in configs.items()}
    old = [
        changed[pair]
        for name, pair in there.items()
        if changed[pair] and cell_folder(results, name).exists()
    ]
    if not old:
        return None
    what = "; ".join(Counter(line for lines in old for line in lines))
    return (
        f"{plan.study.name}: {len(old)} of {count(len(there), 'run')} are from earlier code "
        f"({what}) and shown as they were; `{command_of(plan)}` trains them again"
    )


def folder_flag(results: str | Path) -> str:
    """Return the flag --results for a suggested command; "" for the default folder."""
    return "" if str(results) == "results" else f" --results {shlex.quote(str(results))}"
