"""The commands `status` and `clean`: the state of runs, and which files may be deleted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Unpack

import pandas

from ablations.commands.selected import names_of, note, plans, selection_of, shown
from ablations.engine.clean import delete, size, waste
from ablations.engine.machine import programs_folder
from ablations.engine.slurm.queue import cancel as cancel_jobs
from ablations.engine.status import STATES, Row
from ablations.engine.status import status as status_of
from ablations.engine.stored import remove
from ablations.errors import UserError, count, printable, shortened
from ablations.parameters import Folder, Names, Selection
from ablations.request import selects

_MOST_LINES = 20
MOST_PATHS = 20  # that `clean` lists, the largest


def status(
    studies: Names = (),
    /,
    *,
    cancel: bool = False,
    format: Literal["text", "json"] = "text",
    results: Folder = "results",
    **selection: Unpack[Selection],
) -> pandas.DataFrame:
    """Return the state of every run, one row each: study, task, variant, seed, hash, state, ...

    Args:
        studies: Only these studies. Default: all that ran.
        cancel: Remove the jobs of the named studies from the cluster's queue.
        format: How a command prints it: text or json.
        results: The results folder; default: results.
        selection: See `Selection`. Without one: the last run of each study.
    """
    selected = selection_of(selection)
    if cancel:
        return _cancel(names_of(studies), Path(results), selected)
    found, folder = shown(studies, results, selected)
    rows, notes = status_of(found, folder)
    note(notes)
    frame = pandas.DataFrame(rows)
    frame.attrs = {"rows": _Whole(rows)}
    return frame


class _Whole(list[Row]):
    """Rows that pandas does not copy, as it would with every selection and group of a frame."""

    def __deepcopy__(self, memo: object) -> _Whole:
        return self


def print_status(frame: pandas.DataFrame, *, format: str) -> None:
    """Print the state of runs, as lines or as data."""
    rows = frame.attrs.get("rows", ())  # empty if jobs were cancelled
    if format == "json":
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    elif rows:
        print(printable("\n".join(_lines(frame, rows))))


def _cancel(names: Sequence[str], results: Path, selection: Selection) -> pandas.DataFrame:
    """Remove the jobs of studies from the queue."""
    if not names:
        raise UserError("name the studies whose jobs are to be cancelled")
    found, folder = plans(names, results, selection)
    cells = {cell.hash for plan in found for cell in plan.cells} if selects(selection) else None
    jobs, left = cancel_jobs(folder, names, cells)
    listed = ", ".join(dict.fromkeys(names))
    if jobs:
        print(
            f"{count(jobs, 'job')} of {listed} cancelled, with {count(left, 'run')}; runs that had "
            f"begun continue from their last checkpoint when they are submitted again"
        )
    else:
        print(f"no job of {listed} is in the queue")
    return pandas.DataFrame()


def _lines(frame: pandas.DataFrame, rows: Sequence[Row]) -> Iterator[str]:
    for study, of_study in frame.groupby("study", sort=False):
        width = max(20, *map(len, of_study.variant))
        yield f"{study}: {_states(of_study.state)}"
        for variant, of_variant in of_study.groupby("variant", sort=False):
            tasks = of_variant.groupby("task", sort=False).state
            per_task = "; ".join(f"{task} {_states(states)}" for task, states in tasks)
            yield f"    {variant:<{width}} {per_task}"
        yield from _unfinished([row for row in rows if row["study"] == study])


def _unfinished(rows: Sequence[Row]) -> Iterable[str]:
    """Yield a line for each unfinished run that began; runs in the same state share a line."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if about := _about(row):
            groups.setdefault(about, []).append(row)
    lines = []
    for (state, text), alike in groups.items():
        row = alike[0]
        where = f"{row['variant']} on {row['task']}, seed {row['seed']} ({row['hash']})"
        who = where if len(alike) == 1 else count(len(alike), "run")
        log = row.get("log") or ()
        log = [log] if isinstance(log, str) else log[-5:]
        lines.append("\n        ".join([f"    {state}: {who}: {text}", *log]))
    yield from shortened(lines, _MOST_LINES, "    ... and {} more; --format json has all")
    if any(state == "lost" for state, _ in groups):
        yield f"    `ablations run {rows[0]['study']}` with the same flags submits them again"


def _about(row: Row) -> tuple[str, str] | None:
    """Return the state of an unfinished run, in words."""
    state, reason = row["state"], row.get("reason") or ""
    if state == "running":
        job = f", job {row['job']}" if row.get("job") else ""
        of = f" of {row['steps']:,}" if row["steps"] else ""
        score = "" if row.get("score") is None else f", return {row['score']:.4g}"
        speed = f"{row['rate']:,} steps/s{score}, on {row['host']}{job}"
        return state, f"step {row['step']:,}{of}, {speed}"
    if state == "queued":
        return state, row["queue"] + (f" ({reason})" if reason else "")
    if state == "missing" and reason:
        return "lost", reason
    if state == "missing":
        more = "checkpoint" in row
        return ("stopped", f"would continue at step {row['checkpoint']:,}") if more else None
    return None if state == "done" else (state, reason)


def _states(states: Iterable[str]) -> str:
    counts = Counter(states)
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def clean(study: str | None = None, /, *, yes: bool = False, results: Folder = "results") -> str:
    """Delete temporary files, or a study; without --yes only list them.

    Args:
        study: Delete its plans, and the runs that no other study has.
        yes: Delete the files.
        results: The results folder; default: results.
    """
    folder = Path(results)
    going = remove(folder, study, dry_run=True) if study else waste(folder)
    sizes = {path: size(path) for path in going}
    if yes:
        remove(folder, study, dry_run=False) if study else delete(folder, sizes)
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:MOST_PATHS]
    lines = [f"{sizes[path] / 1e6:9.1f} MB  {path}" for path in largest]
    of = (
        "no other study has" if study else "no table needs; unfinished runs begin anew without them"
    )
    total = f"{len(sizes)} files and folders of {sum(sizes.values()) / 1e6:.1f} MB, which {of}"
    command = f"`ablations clean{f' {study}' * bool(study)} --yes`"
    if not sizes:
        lines.append(f"nothing to clean in '{folder}'")
    else:
        lines.append(f"deleted: {total}" if yes else f"{total}: {command} deletes them")
    if (programs := programs_folder()) and (large := size(programs)):
        lines.append(f"compiled programs of all your results: {large / 1e6:.1f} MB in '{programs}'")
    return "\n".join(lines)
