"""`ablations run`: here or on a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from pandas import DataFrame

from ablations import until
from ablations.cli.arguments import Parser, add_flags, add_studies, minutes, natural, positive
from ablations.cli.execution import add_cluster, add_keeping, cluster, keeping
from ablations.cli.output import folder_flag
from ablations.cli.selected import resolved
from ablations.errors import UserError, count, printable
from ablations.records import Plan
from ablations.request import budget_of
from ablations.runs import keep_ranges
from ablations.sweep.local import Outcome, Processes, ThisProcess, work
from ablations.sweep.prepare import missing
from ablations.sweep.slurm.cluster import Cluster
from ablations.sweep.slurm.submit import Slurm, Submitted, require_submitit
from ablations.tables import format_table


def add_run(command: Parser) -> None:
    """Add the flags of `run`."""
    add_studies(command, "*")
    add_flags(command, {"--budget T": "of --until decided: how long it may go on, such as 2h"})
    add_flags(
        command,
        {"--preset P": "a library's own settings, as a study of one variant and of that name"},
        nargs="+",
        action="extend",
        default=[],
    )
    add_running(command)


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add the flags of what runs cells."""
    add_flags(
        parser,
        {"--workers N": "default: as many as it is worth; 0: plan only, for `ablations work`"},
        type=natural,
    )
    add_flags(
        parser,
        {
            "--quiet": "no progress display",
            "--fresh": "compute again; what is there is set aside",
            "--dry-run": "say what would run, in how many jobs, for how long",
            "--script": "print what sbatch would be given, and do nothing",
        },
        action="store_true",
    )
    add_cluster(parser)
    add_keeping(parser)


def run_run(options: argparse.Namespace) -> int:
    """Run the missing cells of studies, or submit them; return the exit code."""
    here = cluster(options) is None
    seconds = budget_of(options.until, options.budget, fresh=options.fresh, here=here)
    return carry_out(options, resolved(options), seconds)


def add_work(command: Parser) -> None:
    """Add the flags of `work`."""
    command.add_argument("folder", type=Path, metavar="FOLDER", help="the results folder")
    add_studies(command, "*")
    add_flags(command, {"--minutes M": "when it ends; default: when no run is left"}, type=minutes)
    add_flags(
        command,
        {"--workers N": "processes; default: as many as it is worth", "--lanes N": "parallel runs"},
        type=positive,
    )
    add_flags(command, {"--quiet": "no progress display"}, action="store_true")


def run_work(options: argparse.Namespace) -> int:
    """Train missing runs of stored plans, beside other workers; return the exit code."""
    flags = {name: getattr(options, name) for name in ("minutes", "workers", "lanes", "quiet")}
    outcome = work(options.folder, options.studies, **flags)
    return _say_outcome(outcome, quiet=options.quiet)


def carry_out(options: argparse.Namespace, plans: list[Plan], seconds: float | None = None) -> int:
    """Run the plans here, for some seconds at most, or submit them; return the exit code.

    As the flags of `add_running` say.
    """
    where = cluster(options)
    if options.script and where is None:
        raise UserError("--script is for --cluster slurm: here nothing is given to sbatch")
    dry = options.dry_run or options.script
    if options.until and (where is not None or dry):
        plans = _at_their_looks(options, plans)
    if where is not None:
        return _submit(options, plans, where)
    if dry:
        _say_what_would_run_here(options, plans)
        return 0
    return _run_here(options, plans, seconds)


def run_and_show(
    options: argparse.Namespace, plans: list[Plan], table: Callable[[], DataFrame]
) -> int:
    """Run plans as `carry_out` does; print a table of them where none of their cells is missing."""
    code = carry_out(options, plans)
    if not (options.dry_run or options.script or missing(plans, options.results)):
        print()
        print(format_table(table(), options.format), end="\n\n")
    return code


def _at_their_looks(options: argparse.Namespace, plans: list[Plan]) -> list[Plan]:
    """Return the plans with the seeds of the stage that is due."""
    stages = [until.stage(plan, options.results) for plan in plans]
    if not options.script and (options.dry_run or not options.quiet):
        for stage in stages:
            print(*(until.layout(stage.plan) if options.dry_run else ()), stage.line, sep="\n")
    return [stage.plan for stage in stages]


def processes(options: argparse.Namespace) -> Processes:
    """Return the executor of this machine that the flags ask for."""
    executor = ThisProcess if options.cluster == "debug" else Processes
    return executor(
        options.workers, options.lanes, options.threads, keeping(options), options.quiet
    )


def _run_here(options: argparse.Namespace, plans: list[Plan], seconds: float | None) -> int:
    executor = processes(options)
    if options.until:
        _, outcome = until.run(plans, options.results, executor, seconds=seconds)
    else:
        outcome = executor.run(plans, options.results, fresh=options.fresh)
        for plan in plans if outcome.computed else ():
            keep_ranges(plan, options.results)
    code = _say_outcome(outcome, quiet=options.quiet)
    if outcome.done and not options.quiet:
        print(f"next: ablations table {_names(plans)}{folder_flag(options)}")
    return code


def _say_outcome(outcome: Outcome, *, quiet: bool) -> int:
    for cell, record in outcome.failed:
        where = f"{cell.variant} on {cell.task}, seed {cell.seed}"
        print(printable(f"failed: {where}: {record.reason}"), file=sys.stderr)
    if not quiet:
        print(
            f"{outcome.done} of {outcome.cells} runs done, {len(outcome.failed)} failed, "
            f"{outcome.found} of them were there before; {outcome.seconds:.0f} s"
        )
    return 1 if outcome.failed else 0


def _submit(options: argparse.Namespace, plans: list[Plan], cluster: Cluster) -> int:
    dry = options.dry_run or options.script
    if options.script:
        require_submitit()
    executor = Slurm(cluster, keeping(options), dry_run=dry)
    sent = executor.run(plans, options.results, fresh=options.fresh)
    if options.script:
        print(sent.script, end="")
        return 0
    if not options.quiet or dry:
        print(*_submitted(_names(plans), folder_flag(options), sent, dry), sep="\n")
    if sent.refused:
        raise UserError(
            f"Slurm took {sent.taken} of {sent.estimate.jobs} jobs ({sent.refused}): the same "
            f"command submits the others later"
        )
    return 0


def _submitted(names: str, flag: str, sent: Submitted, dry: bool) -> Iterable[str]:
    counts = f"{names}: {count(sent.cells, 'run')}: {sent.found} done, {sent.queued} queued"
    if not sent.new:
        yield f"{counts}; nothing to submit"
    else:
        yield f"{counts}, {sent.new} {'to submit' if dry else 'submitted'}"
        yield from sent.estimate.lines()
        if not dry:
            yield f"submitted as {', '.join(sent.arrays)}"
    if not dry and (sent.new or sent.queued):
        studies = names + flag
        yield f"follow: ablations status {studies} --watch; stop: the same with --cancel"


def _names(plans: list[Plan]) -> str:
    return " ".join(dict.fromkeys(plan.study.name for plan in plans))


def _say_what_would_run_here(options: argparse.Namespace, plans: list[Plan]) -> None:
    todo = missing(plans, options.results, fresh=options.fresh)
    cells = len({cell.hash for plan in plans for cell in plan.cells})
    run = [cell for cell in todo if not cell.backend.has_run(cell, options.results)]
    again = (
        f", {len(todo) - len(run)} of them only to be read again" if len(run) < len(todo) else ""
    )
    done = f"{cells - len(todo)} done, {len(todo)} to run{again}"
    print(f"{_names(plans)}: {count(cells, 'run')}: {done}")
    if todo := run:
        estimate = processes(options).estimate(todo, options.results)
        print(*estimate.lines(), sep="\n")
