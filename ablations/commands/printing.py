"""How a command prints what its function returns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import pandas
from cyclopts import Parameter

from ablations.commands.selected import folder_flag
from ablations.errors import count, shortened
from ablations.parameters import SEVERAL
from ablations.records import write_atomically
from ablations.tables import format_table

SHOWN = 12  # failed or missing runs
FORMATS = {"markdown": "md", "latex": "tex", "csv": "csv", "html": "html", "json": "json"}


def print_table(
    frame: pandas.DataFrame,
    *,
    format: Literal["markdown", "latex", "csv", "html", "json"] | None = None,
    columns: Annotated[Sequence[str], SEVERAL] = (),
    wide: bool = False,
    caption: bool = False,
    output: Annotated[str | Path | None, Parameter(metavar="DIR")] = None,
) -> int:
    """Print a table, or write it to a file; return the exit code.

    Args:
        frame: the table.
        format: Default: a table as wide as the terminal.
        columns: Only these columns, such as mean difference p.
        wide: All columns, however wide, as markdown.
        caption: Below the table, what its numbers mean.
        output: Write STUDY.md, STUDY.tex, ... or STUDY_KIND.md to this folder instead.
    """
    if not len(frame.columns):
        return 1 if frame.attrs.get("failed") else 0
    form = format or ("markdown" if wide or output else "terminal")
    caption = caption or form != "terminal"
    text = format_table(frame, form, columns=list(columns), wide=wide, caption=caption)
    notes = frame.attrs.get("notes", ())
    if form == "terminal" and notes and not caption:
        text += f"\n{count(len(notes), 'note')}: --caption; all columns: --wide"
    if output is None:
        apart = "\n" if "failed" in frame.attrs else ""  # from what training printed
        print(f"{apart}{text}\n")
    else:
        kind, study = frame.attrs["kind"], re.sub(r"[/\\]", "_", frame.attrs["study"])
        name = study + ("" if kind == "comparison" else f"_{kind}")
        path = Path(output) / f"{name}.{FORMATS[format or 'markdown']}"
        write_atomically(path, text.removesuffix("\n") + "\n")
    return 1 if frame.attrs.get("failed") else 0


def print_imported(runs: pandas.DataFrame, *, study: str, results: str) -> None:
    """Print which runs were imported, which failed, and which are missing."""
    name = study + folder_flag(results)
    print(
        f"{count(runs.variant.nunique(), 'variant')} with {count(runs.seed.nunique(), 'seed')} on "
        f"{', '.join(runs.task.unique())}: see `ablations table {name}` and `ablations report "
        f"{name}`"
    )
    lost = runs[runs.status != "done"]
    lines = [
        f"  {run.status}: {run.variant} on {run.task}, seed {run.seed}"
        + (f": {run.reason}" if run.status == "failed" else "")
        for run in lost.itertuples()
    ]
    if lines:
        print(f"{len(lines)} of {len(runs)} runs failed or are missing")
        print("\n".join(shortened(lines, SHOWN, "  and {} more")))
