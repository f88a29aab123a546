"""The commands `export` and `import`: runs for other tools, and runs that others trained."""

from __future__ import annotations

import argparse
from pathlib import Path

from ablations import studies
from ablations.cli.arguments import Parser, add_flags, add_studies
from ablations.cli.output import folder_flag
from ablations.cli.selected import shown_with_edits
from ablations.errors import UserError, count, shortened
from ablations.io.archives import archive
from ablations.io.export import export
from ablations.io.imports import import_runs

SHOWN = 12  # failed or missing runs


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
        help="a long table (CSV, Parquet) with columns task, variant, seed, step and a metric; "
        "logs of a run each, such as 'logs/*/progress.csv' or a folder of TensorBoard's; the CSV "
        "of a W&B panel",
    )
    add_flags(command, {"--study NAME": "the name of the study here"}, required=True)
    add_flags(
        command,
        {
            "--task COLUMN": "the column of tasks; default: a usual name, or one task",
            "--variant COLUMN": "the column of variants; default: a usual name",
            "--seed COLUMN": "the column of seeds; default: a usual name",
            "--step COLUMN": "the column of steps; default: a usual name",
            "--metric": "the column or tag that is judged; default: the return",
            "--pattern": "where names of files state the rest: '{variant}/{task}_{seed}'",
            "--baseline VARIANT": "default: the first variant",
        },
    )
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
        {"--title": None, "--claim": None, "--source": "where the claim was stated"},
        default="",
    )


def run_export(options: argparse.Namespace) -> None:
    """Write the runs of studies for other tools."""
    plans = shown_with_edits(options)
    if options.format == "archive":
        folder = options.output or options.results / "archive"
        for path in archive(plans, options.results, folder, options.metric):
            print(path)
        return
    path = options.output or options.results / "export" / f"runs.{options.format}"
    export(plans, options.results, path, options.format, options.metric)
    print(path)


def run_import(options: argparse.Namespace) -> None:
    """Store runs that others trained as a study."""
    if options.study in studies.studies():
        raise UserError(f"'{options.study}' is a study of this suite: choose another --study name")
    names = ("task", "variant", "seed", "step", "metric", "pattern", "baseline", "better", "margin")
    wanted = {name: getattr(options, name) for name in (*names, "title", "claim", "source")}
    runs = import_runs(options.paths, options.study, options.results, **wanted, say=print)
    study = options.study + folder_flag(options)
    print(
        f"{count(runs.variant.nunique(), 'run')} with {count(runs.seed.nunique(), 'seed')} on "
        f"{', '.join(runs.task.unique())}: "
        f"`ablations table {study}` and `ablations report {study}` know them now"
    )
    for status, what in (("failed", "count as failures"), ("missing", "are not there")):
        of_status = runs[runs.status == status]
        lines = [
            f"  {row.variant} on {row.task}, seed {row.seed}"
            + (f": {row.reason}" if status == "failed" else "")
            for row in of_status.itertuples()
        ]
        if lines:
            print(f"{len(lines)} of {len(runs)} runs {what}")
            print("\n".join(shortened(lines, SHOWN, "  and {} more")))
