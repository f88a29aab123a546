"""The commands `table`, `figure`, `report` and `render`: results as numbers and pictures."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ablations import plugins
from ablations.cli.arguments import (
    Parser,
    add_flags,
    add_studies,
    positive,
    refuse_together,
    selection_flags,
    whole,
)
from ablations.cli.output import FORMATS, add_format
from ablations.cli.selected import plans, shown, shown_with_edits
from ablations.errors import UserError, count
from ablations.records import write_atomically
from ablations.runs import Runs
from ablations.tables import TABLES, format_table, table_of

_METRIC = {"--metric": "another column of the curves, such as evaluation/return"}


def add_table(command: Parser) -> None:
    """Add the flags of `table`."""
    add_studies(command, "+")
    add_flags(
        command,
        {
            "--kind K": f"{', '.join(TABLES)}, or one of yours (docs/tables.md); default: "
            "comparison; of a fraction of a factorial its effects, of an explanation its shares"
        },
    )
    add_format(command, "default: as wide as the terminal", default=None)
    add_flags(command, {"--columns C": "these alone, such as mean difference p"}, nargs="+")
    add_flags(
        command,
        {
            "--wide": "all columns, however wide: markdown",
            "--caption": "below it, what its numbers mean, for a paper",
        },
        action="store_true",
    )
    add_flags(command, _METRIC)
    add_flags(
        command,
        {
            "--score": "of a run: the mean over its last tenth (final), the area under the curve "
            "(auc), the mean of the last three (last) or of all evaluations (mean); default: the "
            "profile's, else final"
        },
        choices=("final", "auc", "last", "mean"),
    )
    add_flags(
        command,
        {"--output DIR": "write <study>.md, .tex, ... there instead, or <study>_<kind>.md"},
        type=Path,
    )


def add_figure(command: Parser) -> None:
    """Add the flags of `figure`."""
    add_studies(command, "+")
    add_flags(
        command,
        {"--format": "default: svg png"},
        nargs="+",
        choices=("svg", "png", "pdf"),
        default=["svg", "png"],
    )
    add_flags(command, {"--kind F": "these alone, such as curves or differences"}, nargs="+")
    add_flags(
        command,
        {
            **_METRIC,
            "--width INCHES|NAME": "inches, or icml-column, neurips, ...; default: 5.5",
        },
    )
    add_flags(
        command,
        {
            "--each-seed": "learning curves with a thin line for every seed",
            "--smooth": "learning curves as means over the last tenth of training at each step",
        },
        action="store_true",
    )
    add_flags(command, {"--output DIR": "default: figures/ in the results folder"}, type=Path)


def add_report(command: Parser) -> None:
    """Add the flags of `report`."""
    add_studies(command, "*")
    add_flags(
        command,
        {
            "--answers": "instead write the published answers to the results folder: README.md, "
            "answers.csv, and questions/ with a page and a figure for each"
        },
        action="store_true",
    )


def run_table(options: argparse.Namespace) -> None:
    """Print the tables of studies, or write them with --output."""
    for plan in shown(options):
        frame = table_of(
            Runs.read(options.results, plan, options.metric, options.score), options.kind
        )
        default = "markdown" if options.wide or options.output else "terminal"
        form = options.format or default
        text = format_table(
            frame,
            form,
            columns=options.columns or (),
            wide=options.wide,
            caption=options.caption or form != "terminal",
        )
        notes = frame.attrs.get("notes", ())
        if form == "terminal" and notes and not options.caption:
            text += f"\n{count(len(notes), 'note')}: --caption; all columns: --wide"
        kind = frame.attrs["kind"]
        _put(text, options, plan.study.name + ("" if kind == "comparison" else f"_{kind}"))


def _put(text: str, options: argparse.Namespace, name: str) -> None:
    """Print a text, or with --output write it to a file of that name."""
    if options.output is None:
        print(f"{text}\n")
        return
    path = options.output / f"{name}.{FORMATS[options.format or 'markdown']}"
    try:
        write_atomically(path, text if text.endswith("\n") else text + "\n")
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


def run_figure(options: argparse.Namespace) -> None:
    """Write the figures of studies."""
    from ablations import figures

    folder = options.output or options.results / "figures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder '{folder}': {error.strerror}") from None
    for plan in shown_with_edits(options):
        drawn = figures.draw(
            Runs.read(options.results, plan, options.metric),
            options.kind or (),
            options.width or figures.TEXT,
            each_seed=options.each_seed,
            smooth=options.smooth,
        )
        stem = re.sub(r"[^\w.-]+", "_", plan.study.name)
        if options.metric not in (None, plan.study.metric):
            stem += "_" + re.sub(r"\W+", "_", options.metric)
        for name, figure in drawn.items():
            print(*figures.write(figure, folder / f"{stem}_{name}", options.format), sep="\n")


def run_report(options: argparse.Namespace) -> None:
    """Write the page of studies, or the published answers."""
    if options.answers:
        from ablations.answers import pages

        refuse_together("--answers", [*options.studies, *selection_flags(options)])
        print(*pages.write(options.results), sep="\n")
        return
    from ablations.report import page

    print(page.write(shown(options), options.results))


def add_render(command: Parser) -> None:
    """Add the flags of `render`."""
    add_studies(command, 1)
    add_flags(command, {"--task T": "may be left out where the study has one"})
    add_flags(command, {"--variant V": "several: side by side; default: the baseline"}, nargs="+")
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
    add_flags(command, {"--format": "default: html"}, choices=("html", "gif"))
    add_flags(command, {"--length N": "steps of an episode at most"}, type=positive)
    add_flags(command, {"--output FILE": "default: under render/ in the results folder"}, type=Path)


def run_render(options: argparse.Namespace) -> None:
    """Write episodes of saved policies."""
    plugins.load()
    (plan,) = plans(options)
    from ablations.episode.render import Selected, render

    selected = Selected(
        task=options.task,
        variants=options.variant or [None],
        seed=options.seed,
        snapshots=options.snapshot,
        length=options.length,
    )
    print(render(plan, options.results, selected, format=options.format, output=options.output))
