"""The command `explain`: which details make the gap between two presets or variants."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from ablations import plugins
from ablations.cli.arguments import Parser, add_flags, add_selection, selection
from ablations.cli.output import add_format, alone
from ablations.cli.running import add_running, processes, run_and_show
from ablations.errors import UserError, count, duration
from ablations.records import Plan
from ablations.runs import Runs
from ablations.sweep import explanation
from ablations.sweep.job import cells_of, distinct
from ablations.sweep.prepare import missing
from ablations.tables import table_of
from ablations.tables.shares import change
from ablations.trainers import trainer


def add_explain(command: Parser) -> None:
    """Add the flags of `explain`."""
    command.add_argument("start", metavar="A", help="a preset, or a variant such as gae/brax")
    command.add_argument("end", metavar="B")
    add_selection(command)
    add_flags(command, {"--task T": "same as --tasks"}, nargs="+", action="extend", dest="tasks")
    add_flags(
        command,
        {"--together NAME,NAME,...": "details to switch as one; repeatable"},
        action="append",
        default=[],
    )
    add_format(command)
    add_running(command)


def run_explain(options: argparse.Namespace) -> int:
    """Run what an explanation lacks, and print its shares; return the exit code."""
    plugins.load()
    alone(options)
    if options.until:
        raise UserError("--until is for studies: an explanation gets its seeds by --seeds")
    together = tuple(tuple(filter(None, names.split(","))) for names in options.together)
    plan = explanation.plan(
        explanation.request(options.start, options.end, together, selection(options))
    )
    if not (options.script or options.quiet):
        for line in _plan_lines(plan, options):
            print(line, flush=True)
    here = options.cluster in ("local", "debug")
    if options.dry_run and here:
        return 0
    return run_and_show(options, [plan], lambda: table_of(Runs.read(options.results, plan)))


def _plan_lines(plan: Plan, options: argparse.Namespace) -> Iterable[str]:
    """Describe what is going to run: details, cells, programs, and how long that takes here."""
    about = plan.study.explanation
    assert about is not None
    details = about.details
    counts = (
        f"{count(len(details), 'detail')}, in random orders of {count(len(plan.seeds), 'seed')}"
    )
    yield f"{plan.study.name}: {counts}"
    for name, detail in details.items():
        yield f"    {name:<27} {change(detail)}"
    held = ", ".join(f"{name}={value}" for name, value in about.held.items())
    yield f"    the same in both: {held}"
    cells = distinct(cells_of(plan))
    todo = missing([plan], options.results, fresh=options.fresh)
    done = len(cells) - len(todo)
    yield (
        f"{count(len(plan.cells), 'cell')} on {', '.join(plan.tasks)}, {len(cells):,} of them "
        f"different: {done:,} done, {len(todo):,} to run"
    )
    if not todo:
        return
    if todo[0].backend.compiles:
        programs = {cell.program() for cell in todo}
        config = todo[0].config
        definition = trainer(config["trainer"]["name"])
        fixed = {
            *definition.compiled_in(config),
            *definition.completed(config)["structure"],
        }
        compiled = [name for name, detail in details.items() if fixed & set(detail.settings)]
        why = f"; compiled in: {', '.join(compiled)}" if compiled else ""
        join = " (--together joins details and saves some)" if len(compiled) > 1 else ""
        yield f"{count(len(programs), 'program')} to compile{why}{join}"
    if options.cluster in ("local", "debug"):
        estimate = processes(options).estimate(todo, options.results)
        yield f"about {duration(estimate.seconds)} on this machine"
