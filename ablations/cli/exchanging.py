"""The commands `export` and `import`: runs for others, and runs of others."""

from __future__ import annotations

import argparse
from pathlib import Path

from ablations import exchange, studies
from ablations.cli.arguments import Parser, add_flags, add_studies
from ablations.cli.output import folder_flag
from ablations.cli.selected import shown_with_edits
from ablations.errors import UserError, count


def add_export(command: Parser) -> None:
    """Add the flags of `export`."""
    add_studies(command, "*")
    add_flags(
        command,
        {
            "--format": "archive: one small file per study, which every command counts as runs "
            "that are done"
        },
        choices=("csv", "parquet", "archive"),
        default="csv",
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


def add_import(command: Parser) -> None:
    """Add the flags of `import`."""
    command.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="FILE|FOLDER|PATTERN",
        help="a table with columns run, seed, step, return (and task); logs of a run each, such as "
        "'logs/*/progress.csv' or a folder of TensorBoard's; the CSV of a W&B panel",
    )
    add_flags(command, {"--study NAME": "what to call them here"}, required=True)
    add_flags(
        command,
        {"--better": "lower: of a loss, a cost"},
        choices=("higher", "lower"),
        default="higher",
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
        },
    )
    add_flags(
        command,
        {"--title": None, "--claim": None, "--source": "where the claim was stated"},
        default="",
    )


def run_export(options: argparse.Namespace) -> None:
    """Write the runs of studies for other tools."""
    if options.format == "archive":
        folder = options.output or options.results / "archive"
        for path in exchange.archive(
            shown_with_edits(options), options.results, folder, options.metric
        ):
            print(path)
        return
    path = options.output or options.results / "export" / f"runs.{options.format}"
    exchange.export(
        shown_with_edits(options), options.results, path, options.format, options.metric
    )
    print(path)


def run_import(options: argparse.Namespace) -> None:
    """Store other people's runs as a study."""
    if options.study in studies.studies():
        raise UserError(f"'{options.study}' is a study of this suite: choose another --study name")
    wanted = exchange.Options(
        metric=options.metric,
        baseline=options.baseline,
        margin=options.margin,
        pattern=options.pattern,
        step=options.step,
        better=options.better,
        title=options.title,
        claim=options.claim,
        claim_source=options.source,
    )
    plan = exchange.import_runs(options.paths, options.study, options.results, wanted, say=print)
    study = options.study + folder_flag(options)
    print(
        f"{count(len(plan.variants), 'run')} with {count(len(plan.seeds), 'seed')} on "
        f"{', '.join(plan.tasks)}: "
        f"`ablations table {study}` and `ablations report {study}` know them now"
    )
    for line in exchange.unfinished(plan, options.results):
        print(line)
