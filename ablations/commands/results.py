"""The commands `table`, `figure`, `report` and `export`: numbers, pictures, files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

import pandas
from cyclopts import Parameter

from ablations import tables
from ablations.commands.selected import (
    folder_flag,
    names_of,
    of_studies,
    plans,
    selection_of,
    shown,
    unpacked,
)
from ablations.errors import UserError, count, shortened
from ablations.io.archives import archive
from ablations.io.export import export as write_runs
from ablations.parameters import SEVERAL, Folder, Names, Selection, Text
from ablations.records import write_atomically
from ablations.runs import Runs, read_curves

Kinds = Annotated[Sequence[str] | str, SEVERAL]
FORMATS = {"markdown": "md", "latex": "tex", "csv": "csv", "html": "html", "json": "json"}
SHOWN = 12  # failed or missing runs
File = Annotated[str | Path | None, Parameter(metavar="FILE")]


def table(
    study: Names,
    /,
    *,
    kind: Text = None,
    metric: Text = None,
    score: Literal["final", "auc", "last", "mean"] | None = None,
    results: Folder = "results",
    **selection: Unpack[Selection],
) -> pandas.DataFrame:
    """Return a table, one row per variant and task; its caption and notes are in `.attrs`.

    Args:
        study: A study or several; several have a column study in front.
        kind: comparison (default), aggregates, diagnostics, effects, efficiency, improvement,
            power, shares, stability, or one of yours.
        metric: Another column of the curves, such as evaluation/return.
        score: The mean of the last tenth of training (final), the area under the curve, or the mean
            of the last three or of all evaluations.
        results: The results folder; default: results.
        selection: See `Selection`. Without one: the study's last run.
    """
    found, folder = shown(study, results, selection_of(selection))
    return of_studies(
        study, found, lambda plan: tables.table_of(Runs.read(folder, plan, metric, score), kind)
    )


def print_table(
    frame: pandas.DataFrame,
    *,
    format: Literal["markdown", "latex", "csv", "html", "json"] | None = None,
    columns: Annotated[Sequence[str], SEVERAL] = (),
    caption: bool = False,
    output: Annotated[str | Path | None, Parameter(metavar="DIR")] = None,
) -> int:
    """Print a table, or write it to a file; return the exit code.

    Args:
        frame: the table.
        format: Default: a table as wide as the terminal.
        columns: Only these columns, such as mean difference p.
        caption: Below the table, what its numbers mean.
        output: Write STUDY.md, STUDY.tex, ... or STUDY_KIND.md to this folder instead.
    """
    if not len(frame.columns):
        return 1 if frame.attrs.get("failed") else 0
    form = format or ("markdown" if output else "terminal")
    caption = caption or form != "terminal"
    text = tables.format_table(frame, form, columns=list(columns), caption=caption)
    notes = frame.attrs.get("notes", ())
    if form == "terminal" and notes and not caption:
        text += f"\n{count(len(notes), 'note')}: --caption"
    if output is None:
        apart = "\n" if "failed" in frame.attrs else ""  # from what training printed
        print(f"{apart}{text}\n")
    else:
        kind, study = frame.attrs["kind"], re.sub(r"[/\\]", "_", frame.attrs["study"])
        name = study + ("" if kind == "comparison" else f"_{kind}")
        path = Path(output) / f"{name}.{FORMATS[format or 'markdown']}"
        write_atomically(path, text.removesuffix("\n") + "\n")
    return 1 if frame.attrs.get("failed") else 0


def curves(
    study: Names, /, *, results: Folder = "results", **selection: Unpack[Selection]
) -> pandas.DataFrame:
    """Return the curves, one row per point: task, variant, seed, step, then the metrics.

    Args:
        study: A study or several; several have a column study in front.
        results: The results folder.
        selection: See `Selection`. Without one: the study's last run.
    """
    found, folder = plans(study, results, selection_of(selection))
    return of_studies(study, found, lambda plan: read_curves(plan, folder))


def figure(
    study: Names,
    /,
    *,
    kind: Kinds = (),
    metric: Text = None,
    width: Annotated[float | str, Parameter(metavar="INCHES|NAME")] = 5.5,
    each_seed: bool = False,
    smooth: bool = False,
    results: Folder = "results",
    **selection: Unpack[Selection],
) -> dict[str, Any]:
    """Draw the figures of a study: matplotlib figures by name.

    Args:
        study: A study or several; figures of several are named STUDY_FIGURE.
        kind: Only these, such as curves or differences. Default: all that the study has.
        metric: Another column of the curves, such as evaluation/return.
        width: In inches, or the name of a paper's style such as icml-column; default: 5.5.
        each_seed: Learning curves with a thin line for every seed.
        smooth: Learning curves as means over the last tenth of training at each step.
        results: The results folder; default: results.
        selection: See `Selection`. Without one: the study's last run.
    """
    from ablations import figures

    drawn: dict[str, Any] = {}
    found, folder = shown(study, results, selection_of(selection))
    for plan in found:
        made = figures.draw(
            Runs.read(folder, plan, metric),
            names_of(kind),
            width,
            each_seed=each_seed,
            smooth=smooth,
        )
        other = metric is not None and metric != plan.study.metric
        stem = f"{plan.study.name}_{metric}_" if other else f"{plan.study.name}_"
        prefix = "" if isinstance(study, str) else re.sub(r"[^\w.-]+", "_", stem)
        drawn |= {prefix + name: drawing for name, drawing in made.items()}
    return drawn


def write_figures(
    drawn: dict[str, Any],
    *,
    results: str,
    format: Annotated[
        Sequence[Literal["svg", "png", "pdf"]], Parameter(consume_multiple=1, metavar="svg|png|pdf")
    ] = ("svg", "png"),
    output: File = None,
) -> None:
    """Write figures and print their paths.

    Args:
        drawn: figures by name.
        results: the results folder.
        format: Formats of the files; default: svg png.
        output: The folder; default: figures/ in the results folder.
    """
    from ablations import figures

    folder = Path(output or Path(results) / "figures")
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawn.items():
        print(*figures.write(drawing, folder / name, list(format)), sep="\n")


def page(
    study: Names = (),
    /,
    *,
    answers: bool = False,
    results: Folder = "results",
    **selection: Unpack[Selection],
) -> list[Path]:
    """Write one page with every study, report/index.html in the results folder; return its path.

    Args:
        study: Only these studies. Default: all that ran.
        answers: Instead write the published answers to the results folder: README.md, answers.csv
            and details/ with a page and figures for each.
        results: The results folder; default: results.
        selection: See `Selection`. Without one: the last run of each study.
    """
    if answers:
        from ablations.answers import pages

        if names_of(study) or selection_of(selection):
            raise UserError("--answers has all answers: omit studies and other flags")
        return list(pages.write(unpacked(Path(results), ())))
    from ablations.report.page import write

    found, folder = shown(study, results, selection_of(selection))
    return [write(found, folder)]


def export(
    studies: Names = (),
    /,
    *,
    format: Literal["csv", "parquet", "archive"] = "csv",
    metric: Kinds = (),
    output: File = None,
    results: Folder = "results",
    **selection: Unpack[Selection],
) -> list[Path]:
    """Write runs for other tools, and return the paths.

    Args:
        studies: Only these studies. Default: all that ran.
        format: csv, parquet, or archive: a small file per study for version control, which other
            commands read as runs that are done.
        metric: Columns of the curves. Default: all; in an archive those that are judged.
        output: The file, or the folder of archives. Default: export/runs or archive/ in the
            results folder.
        results: The results folder; default: results.
        selection: See `Selection`. Without one: the last run of each study.
    """
    found, folder = shown(studies, results, selection_of(selection))
    metrics = names_of(metric) or None
    if format == "archive":
        return archive(found, folder, Path(output or Path(results) / "archive"), metrics)
    path = Path(output or Path(results) / "export" / f"runs.{format}")
    write_runs(found, folder, path, format, metrics)
    return [path]


def print_imported(runs: pandas.DataFrame, *, study: str, results: str) -> None:
    """Print which runs were imported, which failed, and which are missing."""
    lines = []
    for run in runs.sort_values("status", key=lambda of: of == "done", kind="stable").itertuples():
        read = f"{count(run.points, 'point')} up to step {run.last:,.0f} in {run.source}"
        lines.append(
            f"{run.variant} on {run.task}, seed {run.seed}: {read if run.points else run.status}"
            + (f"; failed: {run.reason}" if run.status == "failed" else "")
        )
    print("\n".join(shortened(lines, SHOWN, "and {} more runs")))
    if lost := sum(runs.status != "done"):
        print(f"{lost} of {len(runs)} runs failed or are missing")
    name = study + folder_flag(results)
    print(
        f"{count(runs.variant.nunique(), 'variant')} with {count(runs.seed.nunique(), 'seed')} on "
        f"{', '.join(runs.task.unique())}: see `ablations table {name}` and `ablations report "
        f"{name}`"
    )
