"""The commands about results: tables, figures, pages, files of others, policies, cleaning."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.cli.arguments import (
    add_command,
    add_flags,
    add_studies,
    load_installed_plugins,
    plans,
    positive,
    resolved,
    selection,
    shown,
    shown_with_edits,
    whole,
)
from ablations.errors import UserError, count
from ablations.request import parse_settings

if TYPE_CHECKING:
    from ablations.policies import Policy

MOST_PATHS = 20  # that `clean` lists, the largest
FORMATS = {"markdown": "md", "latex": "tex", "csv": "csv", "html": "html", "json": "json"}


def add_commands(commands: Any) -> None:
    """Add the commands about results."""
    read = partial(add_command, commands, reads_records="of its studies")
    metric = {"--metric": "another column of the curves, such as evaluation/return"}
    command = read("table", _table, "the results in numbers")
    add_studies(command, "+")
    command.add_argument(
        "--kind",
        choices=("comparison", "effects", "efficiency", "power", "shares", "stability"),
        help="what of a study: its comparisons (default), the effects of a factorial (default of "
        "a fraction of one), sample efficiency, the seeds it needs, or how stable it is; of an "
        "explanation the shares of a gap (default)",
    )
    command.add_argument(
        "--format", choices=FORMATS, help="default: as wide as the terminal; in a pipe, markdown"
    )
    command.add_argument(
        "--wide", action="store_true", help="all numbers of a comparison, however wide: markdown"
    )
    command.add_argument(
        "--caption", action="store_true", help="below it, what its numbers mean, for a paper"
    )
    add_flags(command, metric)
    command.add_argument(
        "--score",
        choices=("final", "auc", "last"),
        help="of a run: its last tenth, all of it (auc), its last three evaluations (last); "
        "default: the profile's, else final",
    )
    add_flags(
        command,
        {"--output DIR": "write <study>.md, .tex, ... there instead, or <study>_<kind>.md"},
        type=Path,
    )

    command = add_command(
        commands, "diagnose", _diagnose, "bias and variance of advantages, and what training met"
    )
    add_studies(command, "+")
    command.add_argument("--format", choices=FORMATS, default="markdown")
    add_flags(command, {"--output DIR": "write files there instead"}, type=Path)
    add_flags(command, {"--workers N": "default: one per core"}, type=positive)
    command.add_argument("--quiet", action="store_true", help="no progress on stderr")

    command = read("figure", _figure, "learning curves, differences and more, ready for a paper")
    add_studies(command, "+")
    command.add_argument(
        "--format",
        nargs="+",
        choices=("svg", "png", "pdf"),
        default=["svg", "png"],
        help="default: svg png",
    )
    add_flags(
        command,
        {
            **metric,
            "--width INCHES|NAME": "for a paper, without title and footnote: inches, or "
            "icml-column, neurips, ...",
        },
    )
    command.add_argument(
        "--each-seed", action="store_true", help="learning curves with a faint line for every seed"
    )
    add_flags(command, {"--output DIR": "default: figures/ in the results folder"}, type=Path)

    command = read("report", _report, "every study on one self-contained page, report/index.html")
    add_studies(command, "*")

    command = add_command(
        commands, "render", _render, "episodes of saved policies, to watch: a page or a GIF"
    )
    add_studies(command, 1)
    add_flags(command, {"--task T": "may be left out where the study has one"})
    add_flags(
        command,
        {
            "--variant V": "several: side by side; default: the baseline. Checkpoints of Brax's "
            "PPO, by their folder, here or in place of the study"
        },
        nargs="+",
    )
    add_flags(command, {"--seed S": "default: 0"}, type=whole, default=0)
    add_flags(
        command,
        {
            "--snapshot best|last|all|N": "which saved policies of a run, by step, several side "
            "by side; default: best"
        },
        nargs="+",
        default=["best"],
    )
    command.add_argument("--format", choices=("html", "gif"), help="default: html")
    add_flags(command, {"--length N": "steps of an episode at most"}, type=positive)
    add_flags(command, {"--output FILE": "default: under render/ in the results folder"}, type=Path)

    command = add_command(
        commands, "export", _export, "runs for other tools, or as an archive to be committed"
    )
    add_studies(command, "*")
    command.add_argument(
        "--format",
        choices=("csv", "parquet", "marl-eval", "archive"),
        default="csv",
        help="archive: one small file per study, which every command counts as runs that are done",
    )
    add_flags(
        command,
        {"--metric": "columns of the curves; default: all, in an archive the judged ones"},
        nargs="+",
    )
    add_flags(
        command,
        {"--output FILE": "default: export/runs, or the folder archive, in the results folder"},
        type=Path,
    )

    command = add_command(
        commands, "import", _import, "other people's runs, for our statistics and page"
    )
    command.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="FILE|FOLDER|PATTERN",
        help="a table with columns run, seed, step, return (and task); logs of a run each, such as "
        "'logs/*/progress.csv' or a folder of TensorBoard's; W&B, Trackio, marl-eval, rliable",
    )
    add_flags(command, {"--study NAME": "what to call them here"}, required=True)
    command.add_argument(
        "--better", choices=("higher", "lower"), default="higher", help="lower: of a loss, a cost"
    )
    add_flags(
        command,
        {"--margin": "share of what the baseline learned that does not matter; default: 0.05"},
        type=float,
        default=0.05,
    )
    add_flags(
        command,
        {
            "--metric": "the column or tag that is judged; default: the return",
            "--baseline RUN": "default: the first run",
            "--pattern": "parts of a log's name, such as {task}/{run}/seed{seed}",
            "--step": "the column that counts steps; default: a known one",
            "--seed-from FILE:KEY": "where a run's seed is, beside its log: config.json:seed",
        },
    )
    add_flags(
        command,
        {"--title": None, "--claim": None, "--source": "where the claim was stated"},
        default="",
    )

    command = add_command(
        commands, "policies", _policies, "the saved policies of a cell; and out to Brax"
    )
    command.add_argument(
        "name",
        metavar="STUDY|CELL|FOLDER",
        help="a study's last plan, a cell's hash, or a folder of checkpoints of Brax's PPO",
    )
    add_flags(
        command,
        {
            "--task T": "needed where the study ran on several, and for a folder",
            "--variant V": "default: the baseline",
        },
    )
    add_flags(
        command,
        {"--set NAME=VALUE": "settings of a folder's task, such as backend=mjx"},
        nargs="+",
        action="extend",
    )
    add_flags(command, {"--seed S": "default: 0"}, type=whole, default=0)
    add_flags(command, {"--step best|last|N": "which to export; default: best"}, default="best")
    add_flags(command, {"--brax DIR": "write that one there, as Brax's own checkpoint"}, type=Path)

    command = add_command(
        commands, "clean", _clean, "what may be deleted, and its size", reads_records="none"
    )
    command.add_argument("--yes", action="store_true", help="delete it")


def _table(options: argparse.Namespace) -> None:
    from ablations.report import formats, tables
    from ablations.report.formats.terminal import print_in_terminal
    from ablations.report.results import Results

    for plan in shown(options):
        results = Results(plan, options.results)
        made = tables.asked(results, options.kind, options.metric, options.score)
        name = plan.study.name
        if isinstance(made, tables.Sheet):
            name = f"{name}_{made.kind}"
        elif _fits_a_terminal(options):
            print_in_terminal(made, caption=options.caption)
            continue
        _put(formats.render(made, options.format or "markdown"), options, name)


def _fits_a_terminal(options: argparse.Namespace) -> bool:
    asked = options.format or options.wide or options.output
    return not asked and (options.caption or sys.stdout.isatty())


def _diagnose(options: argparse.Namespace) -> None:
    from ablations.report import formats
    from ablations.report.results import Results
    from ablations.report.tables import diagnostics
    from ablations.sweep import diagnosis

    found = resolved(options)
    diagnosis.run(found, options.results, workers=options.workers, quiet=options.quiet)
    for plan in found:
        cells = diagnosis.cells(plan)
        measured = diagnostics.read_measured(
            diagnosis.folder(options.results), ((cell.task, cell.seed, cell.hash) for cell in cells)
        )
        made = [
            diagnostics.estimates_sheet(plan, measured, diagnosis.reference(cells[0])),
            diagnostics.training_sheet(Results(plan, options.results)),
        ]
        for sheet in made:
            if sheet is not None:
                _put(formats.render(sheet, options.format), options, f"{sheet.study}_{sheet.kind}")


def _put(text: str, options: argparse.Namespace, name: str) -> None:
    """Print a text, or with --output write it to a file of that name."""
    from ablations.records import write_atomically

    if options.output is None:
        print(f"{text}\n")
        return
    path = options.output / f"{name}.{FORMATS[options.format or 'markdown']}"
    try:
        write_atomically(path, text if text.endswith("\n") else text + "\n")
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


def _figure(options: argparse.Namespace) -> None:
    from ablations.report.figures.files import write_figures

    folder = options.output or options.results / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder '{folder}': {error.strerror}") from None
    for plan in shown_with_edits(options):
        written = write_figures(
            plan,
            options.results,
            folder,
            metric=options.metric,
            formats=options.format,
            width=options.width,
            each_seed=options.each_seed,
        )
        print(*written, sep="\n")


def _report(options: argparse.Namespace) -> None:
    from ablations.report import page

    print(page.write(shown(options), options.results))


def _render(options: argparse.Namespace) -> None:
    from ablations import policies
    from ablations.episode import render as rendering

    load_installed_plugins()
    (name,) = options.studies
    if policies.brax_checkpoints(name):
        plan, variants = None, [name, *(options.variant or [])]
    else:
        _require_no_path(name)
        (plan,), variants = plans(options), options.variant or [None]
    selected = rendering.Selected(
        task=options.task,
        variants=variants,
        seed=options.seed,
        snapshots=options.snapshot,
        length=options.length,
        settings=None if plan else selection(options)["set"],
    )
    path = rendering.render(
        plan, options.results, selected, format=options.format, output=options.output
    )
    print(path)


def _export(options: argparse.Namespace) -> None:
    from ablations import exchange

    if options.format == "archive":
        folder = options.output or options.results / "archive"
        for path in exchange.archive(
            shown_with_edits(options), options.results, folder, options.metric
        ):
            print(path)
        return
    suffix = {"csv": ".csv", "parquet": ".parquet", "marl-eval": ".json"}[options.format]
    path = options.output or options.results / "export" / f"runs{suffix}"
    chosen = shown_with_edits(options)
    exchange.export(chosen, options.results, path, options.format, options.metric)
    if options.format == "marl-eval":  # which has no place for them
        for line in (one for plan in chosen for one in exchange.unfinished(plan, options.results)):
            print(f"left out: {line}", file=sys.stderr)
    print(path)


def _import(options: argparse.Namespace) -> None:
    from ablations import exchange

    wanted = exchange.Options(
        metric=options.metric,
        baseline=options.baseline,
        margin=options.margin,
        pattern=options.pattern,
        step=options.step,
        seed_from=options.seed_from,
        better=options.better,
        title=options.title,
        claim=options.claim,
        claim_source=options.source,
    )
    plan = exchange.import_runs(options.paths, options.study, options.results, wanted, say=print)
    print(
        f"{count(len(plan.variants), 'run')} with {count(len(plan.seeds), 'seed')} on "
        f"{', '.join(plan.tasks)}: "
        f"`ablations table {options.study}` and `ablations report {options.study}` know them now"
    )
    for line in exchange.unfinished(plan, options.results):
        print(line)


def _policies(options: argparse.Namespace) -> None:
    from ablations import policies

    step = int(options.step) if options.step.isdecimal() else options.step
    if policies.brax_checkpoints(options.name):
        settings = parse_settings(options.set or [])
        if options.brax is None:
            print(policies.brax_listing(Path(options.name), options.task, settings))
            return
        policy = policies.load_policy(options.name, step, task=options.task, settings=settings)
        _export_to_brax(policy, options.brax)
        return
    where = {"task": options.task, "variant": options.variant, "seed": options.seed}
    cell = options.results / "cells" / options.name
    if not (options.name and (cell / "record.json").exists()):
        _require_no_path(options.name)
        cell = policies.find_cell(options.name, results=options.results, **where)
    if options.brax is None:
        print(policies.listing(cell))
        return
    _export_to_brax(policies.load_policy(cell, step), options.brax)


def _require_no_path(name: str) -> None:
    """Raise UserError for a path that holds no checkpoint of Brax's PPO."""
    if Path(name).name != name:
        raise UserError(
            f"'{name}' holds no checkpoint of Brax's PPO: name a folder that does, or a study or "
            f"cell that ran"
        )


def _export_to_brax(policy: Policy, folder: Path) -> None:
    try:
        print(policy.save_for_brax(folder))
    except OSError as error:
        raise UserError(f"cannot write '{folder}': {error.strerror}") from None


def _clean(options: argparse.Namespace) -> None:
    from ablations.sweep.clean import delete, size, waste
    from ablations.sweep.machine import programs_folder

    sizes = {path: size(path) / 1e6 for path in waste(options.results)}
    for path in sorted(sizes, key=sizes.__getitem__, reverse=True)[:MOST_PATHS]:
        print(f"{sizes[path]:9.1f} MB  {path}")
    total = f"{sum(sizes.values()):.1f} MB in all, which no table needs"
    if not sizes:
        print(f"nothing to clean in '{options.results}'")
    elif options.yes:
        delete(options.results, sizes)
        print(f"deleted: {total}")
    else:
        print(f"{total}; unfinished cells begin anew without theirs: `ablations clean --yes`")
    if (programs := programs_folder()) and (large := size(programs)):
        print(f"compiled programs of all your results: {large / 1e6:.1f} MB in '{programs}'")
