"""The commands `status` and `clean`: what became of cells, and which files are left over."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ablations.cli.arguments import (
    Parser,
    add_flags,
    add_studies,
    refuse_together,
    selection,
    warn,
)
from ablations.cli.output import add_json, print_json
from ablations.cli.selected import plans, shown
from ablations.core.decode import as_json
from ablations.errors import UserError, count, printable, shortened
from ablations.request import selects
from ablations.sweep.clean import delete, size, waste
from ablations.sweep.machine import programs_folder
from ablations.sweep.slurm.commands import remembered
from ablations.sweep.slurm.submissions import cancel
from ablations.sweep.status import STATES, Status, status
from ablations.sweep.stored import remove

Row: TypeAlias = Mapping[str, Any]  # of a cell, as `Status` has them
WATCH_SECONDS = 2.0
LINES_SECONDS = 15.0
_MOST_LINES = 20
MOST_PATHS = 20  # that `clean` lists, the largest


def add_status(command: Parser) -> None:
    """Add the flags of `status`."""
    add_studies(command, "*")
    add_json(command)
    add_flags(
        command,
        {
            "--watch": "follow it until nothing moves any more",
            "--cancel": "take the jobs of the named studies out of the cluster's queue",
        },
        action="store_true",
    )


def _cancel(options: argparse.Namespace) -> None:
    """Take the jobs of studies out of the queue."""
    if not options.studies:
        raise UserError("name the studies whose jobs are to be cancelled")
    selected = selects(selection(options))
    cells = {cell.hash for plan in plans(options) for cell in plan.cells} if selected else None
    jobs, left = cancel(options.results, options.studies, cells)
    names = ", ".join(dict.fromkeys(options.studies))
    if not jobs:
        print(f"no job of {names} is in the queue")
        return
    print(
        f"{count(jobs, 'job')} of {names} cancelled, with {count(left, 'run')}; what was running "
        f"goes on from its last checkpoint when it is submitted again"
    )


def run_status(options: argparse.Namespace) -> None:
    """Print the state of every cell, once or until nothing moves; or cancel their jobs."""
    given = [f"--{name}" for name in ("cancel", "watch", "json") if getattr(options, name)]
    refuse_together("".join(given[:1]), given[1:])
    if options.cancel:
        return _cancel(options)
    queue = remembered()
    current = status(shown(options), options.results, queue)
    warn(current.edited)
    if options.json:
        print_json([*map(as_json, current.rows)])
        if current.silent:
            print(f"ablations: {current.silent}", file=sys.stderr)
    elif options.watch:
        _follow(lambda: status(plans(options), options.results, queue), current)
    else:
        print("\n".join(_lines(current)))


def _follow(look: Callable[[], Status], current: Status) -> None:
    console = Console(highlight=False)
    while not console.is_terminal and (current.moving or current.silent):
        print("\n".join(_lines(current)), flush=True)
        time.sleep(LINES_SECONDS)
        current = look()
    try:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while current.moving or current.silent:
                live.update(Text("\n".join(_lines(current))), refresh=True)
                time.sleep(WATCH_SECONDS)
                current = look()
    except KeyboardInterrupt:
        current = look()
    print("\n".join(_lines(current)))


def _lines(current: Status) -> list[str]:
    return [printable(line) for line in _all_lines(current)]


def _all_lines(current: Status) -> Iterable[str]:
    for study in dict.fromkeys(row["study"] for row in current.rows):
        of_study = [row for row in current.rows if row["study"] == study]
        width = max(20, *(len(row["variant"]) for row in of_study))
        yield f"{study}: {_states(of_study)}"
        grouped: dict[str, dict[str, list[Row]]] = {}
        for row in of_study:
            grouped.setdefault(row["variant"], {}).setdefault(row["task"], []).append(row)
        for variant, of_tasks in grouped.items():
            per_task = [f"{task} {_states(rows)}" for task, rows in of_tasks.items()]
            yield f"    {variant:<{width}} {'; '.join(per_task)}"
        yield from _shortened([line for row in of_study for line in _running(row)])
        yield from _waiting(of_study)
        yield from _shortened([line for row in of_study for line in _stopped(row)])
        yield from _lost(of_study)
        for row in of_study:
            if row["state"] in ("failed", "damaged"):
                yield f"    {row['state']}: {_where(row)}: {row['reason']}"
                yield from (f"        {line}" for line in row.get("log", [])[-5:])
    if current.silent:
        yield f"the queue is not known: {current.silent}"


def _running(row: Row) -> Iterable[str]:
    if row["state"] == "running":
        job = f", job {row['job']}" if row.get("job") else ""
        if (given := row.get("cores_given")) and row["cores"] < given:
            job += f", which may use {row['cores']} of its {given} cores"
        of = f" of {row['steps']:,}" if row["steps"] else ""
        score = "" if row.get("score") is None else f", return {row['score']:.4g}"
        yield (
            f"    running: {_where(row)}: step {row['step']:,}{of}, "
            f"{row['rate']:,} steps/s{score}, on {row['host']}{job}"
        )


def _stopped(row: Row) -> Iterable[str]:
    if row["state"] == "missing" and "checkpoint" in row and "reason" not in row:
        yield f"    stopped: {_where(row)}: would go on at step {row['checkpoint']:,}"


def _waiting(rows: Sequence[Row]) -> Iterable[str]:
    """Yield a line for each state of the queue, not for each cell."""
    queued = [row for row in rows if row["state"] == "queued"]
    for what in dict.fromkeys((row["queue"], row["reason"]) for row in queued):
        alike = [row for row in queued if (row["queue"], row["reason"]) == what]
        jobs = {row["job"] for row in alike}
        why = f" ({what[1]})" if what[1] else ""
        yield (
            f"    queued: {count(len(alike), 'cell')} in {count(len(jobs), 'job')}, {what[0]}{why}"
        )


def _lost(rows: Sequence[Row]) -> Iterable[str]:
    """Yield a line for each job that left cells behind."""
    lost = [row for row in rows if row["state"] == "missing" and "reason" in row]
    reasons = list(dict.fromkeys(row["reason"] for row in lost))
    for reason in reasons[:_MOST_LINES]:
        alike = [row for row in lost if row["reason"] == reason]
        first = _where(alike[0]) if len(alike) == 1 else count(len(alike), "cell")
        yield f"    lost: {first}: {reason}"
        if alike[0].get("log"):
            yield f"        {alike[0]['log']}"
    if len(reasons) > _MOST_LINES:
        yield f"    ... and {len(reasons) - _MOST_LINES} more jobs; --json has all"
    if lost:
        study = lost[0]["study"]
        yield f"    `ablations run {study}`, with the flags of then, submits what was lost again"


def _shortened(lines: list[str]) -> list[str]:
    return shortened(lines, _MOST_LINES, "    ... and {} more; --json has all")


def _where(row: Row) -> str:
    return f"{row['variant']} on {row['task']}, seed {row['seed']} ({row['hash']})"


def _states(rows: Sequence[Row]) -> str:
    counts = Counter(row["state"] for row in rows)
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def add_clean(command: Parser) -> None:
    """Add the flags of `clean`."""
    command.add_argument(
        "study", nargs="?", metavar="STUDY", help="its plans, and the runs that no other study has"
    )
    add_flags(command, {"--yes": "delete them; without it they are listed"}, action="store_true")
    add_json(command)


def run_clean(options: argparse.Namespace) -> None:
    """Delete temporary files or a study, or list them."""
    if options.study:
        going, what = remove(options.results, options.study, dry_run=True), "no other study has"
    else:
        going, what = waste(options.results), "no table needs"
    sizes = {path: size(path) / 1e6 for path in going}
    if options.yes and options.study:
        remove(options.results, options.study, dry_run=False)
    elif options.yes:
        delete(options.results, sizes)
    if options.json:
        print_json({str(path): round(1e6 * megabytes) for path, megabytes in sizes.items()})
        return
    for path in sorted(sizes, key=sizes.__getitem__, reverse=True)[:MOST_PATHS]:
        print(f"{sizes[path]:9.1f} MB  {path}")
    total = f"{len(sizes)} files and folders of {sum(sizes.values()):.1f} MB, which {what}"
    if not sizes:
        print(f"nothing to clean in '{options.results}'")
    elif options.yes:
        print(f"deleted: {total}")
    elif options.study:
        print(f"{total}: `ablations clean {options.study} --yes` deletes them")
    else:
        print(f"{total}; unfinished cells begin anew without theirs: `ablations clean --yes`")
    if (programs := programs_folder()) and (large := size(programs)):
        print(f"compiled programs of all your results: {large / 1e6:.1f} MB in '{programs}'")
