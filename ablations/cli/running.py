"""`ablations run`, `status` and `cancel`: here or on a cluster."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import (
    add_cluster,
    add_command,
    add_keeping,
    add_studies,
    cluster,
    keeping,
    plans,
    positive,
    resolved,
    selection,
    shown,
    warn,
)
from ablations.errors import UserError, count, printable
from ablations.request import budget_of

if TYPE_CHECKING:
    from ablations.records import Plan
    from ablations.sweep.cell import Cell
    from ablations.sweep.slurm.cluster import Cluster
    from ablations.sweep.slurm.packing import Job, Speed
    from ablations.sweep.slurm.submit import Submitted
    from ablations.sweep.status import Status

WATCH_SECONDS = 2.0
LINES_SECONDS = 15.0
_MOST_LINES = 20


def add_commands(commands: Any) -> None:
    one = add_command(commands, "run", _run, "run what a study needs and nobody has")
    add_studies(one, "*")
    one.add_argument(
        "--budget", metavar="T", help="of --until decided: how long it may go on, such as 2h"
    )
    one.add_argument(
        "--preset",
        nargs="+",
        action="extend",
        default=[],
        metavar="P",
        help="a library's own settings, as a study of one variant and of that name",
    )
    add_running(one)

    said = "every cell: done, running, queued, failed and why, missing"
    one = add_command(commands, "status", _status, said, reads_records="of its studies")
    add_studies(one, "*")
    one.add_argument("--json", action="store_true")
    one.add_argument("--watch", action="store_true", help="follow it until nothing moves any more")

    one = add_command(
        commands, "cancel", _cancel, "take the jobs of studies out of the cluster's queue"
    )
    add_studies(one, "+")


def add_running(one: argparse.ArgumentParser) -> None:
    """The flags of what runs cells."""
    one.add_argument("--workers", type=positive, metavar="N", help="default: one per core")
    one.add_argument("--quiet", action="store_true", help="no progress display")
    one.add_argument(
        "--fresh", action="store_true", help="compute again; what is there is set aside"
    )
    one.add_argument(
        "--dry-run", action="store_true", help="say what would run, in how many jobs, for how long"
    )
    one.add_argument(
        "--script", action="store_true", help="print what sbatch would be given, and do nothing"
    )
    add_cluster(one)
    add_keeping(one)


def _run(options: argparse.Namespace) -> int:
    here = cluster(options) is None
    seconds = budget_of(options.until, options.budget, fresh=options.fresh, here=here)
    return carry_out(options, resolved(options), seconds)


def carry_out(options: argparse.Namespace, found: list[Plan], seconds: float | None = None) -> int:
    """Runs the plans here, for some seconds at most, or submits them, as the flags of `add_running`
    say; the exit code."""
    where = cluster(options)
    if options.script and where is None:
        raise UserError("--script is for --cluster slurm: here nothing is given to sbatch")
    dry = options.dry_run or options.script
    if options.until and (where is not None or dry):
        found = _at_their_looks(options, found)
    if where is not None:
        return _submit(options, found, where)
    if dry:
        _say_what_would_run_here(options, found)
        return 0
    return _run_here(options, found, seconds)


def _at_their_looks(options: argparse.Namespace, plans: list[Plan]) -> list[Plan]:
    """The plans with the seeds of the look that is due."""
    from ablations import until

    stages = [until.stage(plan, options.results) for plan in plans]
    if not options.script and (options.dry_run or not options.quiet):
        for one in stages:
            lines = until.layout(one.plan) if options.dry_run else ()
            for line in (*lines, one.line):
                print(line)
    return [one.plan for one in stages]


def _run_here(options: argparse.Namespace, plans: list[Plan], seconds: float | None) -> int:
    from ablations import until
    from ablations.report.units import keep_units
    from ablations.sweep import local

    how: dict[str, Any] = {
        "workers": options.workers,
        "lanes": options.lanes,
        "threads": options.threads,
        "in_process": options.cluster == "debug",
        "quiet": options.quiet,
        "keeping": keeping(options),
    }
    if options.until:
        _, outcome = until.run(plans, options.results, seconds=seconds, **how)
    else:
        outcome = local.run(plans, options.results, fresh=options.fresh, **how)
        for plan in plans if outcome.computed else ():
            keep_units(plan, options.results)
    for cell, record in outcome.failed:
        print(
            printable(f"failed: {cell.variant} on {cell.task}, seed {cell.seed}: {record.reason}"),
            file=sys.stderr,
        )
    if not options.quiet:
        print(
            f"{outcome.done} of {outcome.cells} cells done, {len(outcome.failed)} failed, "
            f"{outcome.found} of them were there before; {outcome.seconds:.0f} s"
        )
    return 1 if outcome.failed else 0


def _submit(options: argparse.Namespace, plans: list[Plan], cluster: Cluster) -> int:
    from ablations.sweep.slurm import submit as slurm

    dry = options.dry_run or options.script
    sent = slurm.submit(
        plans,
        options.results,
        cluster,
        keeping=keeping(options),
        fresh=options.fresh,
        dry_run=dry,
    )
    if options.script:
        print(sent.script, end="")
        return 0
    names = " ".join(dict.fromkeys(plan.study.name for plan in plans))
    left = sum(len(job.cells) for job in sent.jobs)
    if not options.quiet or dry:
        for line in _told(names, sent, left, cluster, dry):
            print(line)
    if sent.refused:
        raise UserError(
            f"Slurm took {sent.taken} of {len(sent.jobs)} jobs ({sent.refused}): the same command "
            f"submits the others later"
        )
    return 0


def _told(names: str, sent: Submitted, left: int, cluster: Cluster, dry: bool) -> Iterable[str]:
    counts = f"{names}: {count(sent.cells, 'cell')}: {sent.found} done, {sent.queued} queued"
    if not sent.jobs:
        yield f"{counts}; nothing to submit"
    else:
        yield f"{counts}, {left} {'to submit' if dry else 'submitted'}"
        yield from _packed(sent.jobs, sent.speeds, cluster.gpus)
        if not dry:
            yield f"submitted as {', '.join(sent.arrays)}"
    if not dry and (sent.jobs or sent.queued):
        yield f"follow: ablations status {names} --watch; stop: ablations cancel {names}"


def _packed(jobs: Sequence[Job], speeds: Mapping[str, Speed], gpus: int) -> Iterable[str]:
    """One line per program, and the sum."""
    for program in dict.fromkeys(job.program for job in jobs):
        mine, speed = [job for job in jobs if job.program == program], speeds[program]
        sizes = sorted({len(job.cells) for job in mine})
        of = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        longest = max(job.seconds for job in mine)
        how = "measured" if speed.measured else "assumed: nothing like it has run here"
        first = mine[0].cells[0]
        name, lanes = f"program {program}", f" of {count(mine[0].lanes, 'lane')}"
        pace = f"{speed.rate:,.0f} steps/s per worker"
        if first.is_command:
            name, lanes = "commands", ""
            pace = f"{duration((first.steps or 1) / speed.rate)} for one"
        yield (
            f"    {name}: {count(len(mine), 'job')} of {of} "
            f"cell{'' if sizes == [1] else 's'}, {count(max(j.workers for j in mine), 'worker')}"
            f"{lanes}, about {duration(longest)} each ({pace}, {how})"
        )
    hours = sum(job.seconds * (gpus or job.workers) for job in jobs) / 3600
    programs = {job.program for job in jobs if not job.cells[0].is_command}
    compiled = f"{count(len(programs), 'program')} to compile, " if programs else ""
    unit = "GPU-hours" if gpus else "core-hours"
    yield f"    {count(len(jobs), 'job')}, {compiled}about {hours:.2g} {unit}"


def _say_what_would_run_here(options: argparse.Namespace, plans: list[Plan]) -> None:
    from ablations.sweep.prepare import missing

    todo = missing(plans, options.results, fresh=options.fresh)
    cells = len({cell.hash for plan in plans for cell in plan.cells})
    names = " ".join(dict.fromkeys(plan.study.name for plan in plans))
    print(f"{names}: {count(cells, 'cell')}: {cells - len(todo)} done, {len(todo)} to run")
    if todo:
        jobs, speeds, gpus = _packed_here(options, todo)
        for line in _packed(jobs, speeds, gpus):
            print(line.replace("1 job of", "").replace(" each", ""))
        print(f"    about {duration(sum(job.seconds for job in jobs))} on this machine")


def seconds_here(options: argparse.Namespace, todo: Sequence[Cell]) -> float:
    """How long the cells should take on this machine."""
    return sum(job.seconds for job in _packed_here(options, todo)[0])


def _packed_here(
    options: argparse.Namespace, todo: Sequence[Cell]
) -> tuple[list[Job], Mapping[str, Speed], int]:
    from ablations.sweep.machine import accelerators, cores
    from ablations.sweep.slurm import packing
    from ablations.sweep.slurm.cluster import Cluster

    devices = 0 if any(cell.is_command for cell in todo) else accelerators()
    here = Cluster(
        cpus=min(options.workers or (1 if devices else cores()), len(todo)),
        gpus=devices,
        lanes=options.lanes,
        time=10**9,
        job_minutes=10**8,
    )
    speeds = packing.speeds(options.results, todo, accelerator=devices > 0)
    return packing.pack(todo, here, speeds), speeds, devices


def _cancel(options: argparse.Namespace) -> None:
    from ablations.sweep.slurm import commands
    from ablations.sweep.slurm.submissions import living

    found = plans(options)
    cells = {cell.hash for plan in found for cell in plan.cells}
    selected = any(value is not None for value in selection(options).values())
    jobs = living(
        options.results,
        lambda cell: cell.hash in cells if selected else cell.study in options.studies,
    )
    names = ", ".join(dict.fromkeys(options.studies))
    if not jobs:
        print(f"no job of {names} is in the queue")
        return
    commands.cancel(jobs)
    left = {cell.hash for cells in jobs.values() for cell in cells}
    print(
        f"{count(len(jobs), 'job')} of {names} cancelled, with {count(len(left), 'cell')}; what "
        f"ran goes on from its last checkpoint when it is submitted again"
    )


def _status(options: argparse.Namespace) -> None:
    from ablations.sweep.slurm.commands import remembered
    from ablations.sweep.status import status

    queue = remembered()
    found = status(shown(options), options.results, queue)
    warn(found.edited)
    if options.json:
        print(json.dumps(found.rows, indent=1))
        if found.silent:
            print(f"ablations: {found.silent}", file=sys.stderr)
    elif options.watch:
        _follow(lambda: status(plans(options), options.results, queue), found)
    else:
        print("\n".join(_lines(found)))


def _follow(look: Callable[[], Status], found: Status) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    while not console.is_terminal and (found.moving or found.silent):
        print("\n".join(_lines(found)), flush=True)
        time.sleep(LINES_SECONDS)
        found = look()
    try:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while found.moving or found.silent:
                live.update(Text("\n".join(_lines(found))), refresh=True)
                time.sleep(WATCH_SECONDS)
                found = look()
    except KeyboardInterrupt:
        found = look()
    print("\n".join(_lines(found)))


def _lines(found: Status) -> list[str]:
    return [printable(line) for line in _all_lines(found)]


def _all_lines(found: Status) -> Iterable[str]:
    for study in dict.fromkeys(row["study"] for row in found.rows):
        mine = [row for row in found.rows if row["study"] == study]
        width = max(20, *(len(row["variant"]) for row in mine))
        yield f"{study}: {_states(mine)}"
        grouped: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
        for row in mine:
            grouped.setdefault(row["variant"], {}).setdefault(row["task"], []).append(row)
        for variant, of_tasks in grouped.items():
            per_task = [f"{task} {_states(rows)}" for task, rows in of_tasks.items()]
            yield f"    {variant:<{width}} {'; '.join(per_task)}"
        yield from _shortened([line for row in mine for line in _running(row)])
        yield from _waiting(mine)
        yield from _shortened([line for row in mine for line in _stopped(row)])
        yield from _lost(mine)
        for row in mine:
            if row["state"] in ("failed", "damaged"):
                yield f"    {row['state']}: {_where(row)}: {row['reason']}"
                yield from (f"        {line}" for line in row.get("log", [])[-5:])
    if found.silent:
        yield f"the queue is not known: {found.silent}"


def _running(row: Mapping[str, Any]) -> Iterable[str]:
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


def _stopped(row: Mapping[str, Any]) -> Iterable[str]:
    if row["state"] == "missing" and "checkpoint" in row and "reason" not in row:
        yield f"    stopped: {_where(row)}: would go on at step {row['checkpoint']:,}"


def _waiting(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """One line per state of the queue, not one per cell."""
    queued = [row for row in rows if row["state"] == "queued"]
    for what in dict.fromkeys((row["queue"], row["reason"]) for row in queued):
        mine = [row for row in queued if (row["queue"], row["reason"]) == what]
        jobs = {row["job"] for row in mine}
        why = f" ({what[1]})" if what[1] else ""
        yield (
            f"    queued: {count(len(mine), 'cell')} in {count(len(jobs), 'job')}, {what[0]}{why}"
        )


def _lost(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """One line per job that left cells behind."""
    lost = [row for row in rows if row["state"] == "missing" and "reason" in row]
    reasons = list(dict.fromkeys(row["reason"] for row in lost))
    for reason in reasons[:_MOST_LINES]:
        mine = [row for row in lost if row["reason"] == reason]
        first = _where(mine[0]) if len(mine) == 1 else count(len(mine), "cell")
        yield f"    lost: {first}: {reason}"
        if mine[0].get("log"):
            yield f"        {mine[0]['log']}"
    if len(reasons) > _MOST_LINES:
        yield f"    ... and {len(reasons) - _MOST_LINES} more jobs; --json has all"
    if lost:
        study = lost[0]["study"]
        yield f"    `ablations run {study}`, with the flags of then, submits what was lost again"


def _shortened(lines: list[str]) -> Iterable[str]:
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"    ... and {len(lines) - _MOST_LINES} more; --json has all"


def _where(row: Mapping[str, Any]) -> str:
    return f"{row['variant']} on {row['task']}, seed {row['seed']} ({row['hash']})"


def _states(rows: Sequence[Mapping[str, Any]]) -> str:
    from ablations.sweep.status import STATES

    counts = Counter(row["state"] for row in rows)
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
