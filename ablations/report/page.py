"""The report: all studies on one self-contained HTML page without scripts.

The same records give the same bytes: the page has no dates and no paths.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from ablations.errors import UserError, value_text
from ablations.figures import Drawing, draw, encoded
from ablations.records import Plan, write_atomically
from ablations.runs import ALL_TASKS, Runs
from ablations.stats import VERDICTS
from ablations.tables import format_table, table_of
from ablations.tables.formats import breakable
from ablations.tables.notes import seeds_text
from ablations.templates import templates

HERE = Path(__file__).parent
WIDE, NARROW = 7.0, 3.6  # inches of a figure, on a screen and on a phone
LARGEST = 300_000  # bytes of an SVG; larger figures become PNGs
SCROLLS = 5  # a table with this many columns is wider than a phone
MORE_TABLES = {
    "effects": "Effects of the settings",
    "aggregates": "Aggregates over tasks",
    "efficiency": "Sample efficiency",
    "stability": "Stability",
    "power": "Seeds needed",
}
FLAGS = ("tasks", "variants", "seeds", "until", "most_seeds", "steps", "set", "vary")


def write(plans: Sequence[Plan], results: Path) -> Path:
    """Write results/report/index.html; return its path."""
    path = results / "report" / "index.html"
    write_atomically(path, render(plans, results))
    return path


def render(plans: Sequence[Plan], results: Path) -> str:
    """Return the page as text, with a section per plan. Raises UserError without plans."""
    if not plans:
        raise UserError("a report needs at least one study")
    sections = [section(plan, results) for plan in plans]
    runs = {name: status for each in sections for name, status in each.get("runs", {}).items()}
    environment = templates(HERE)
    environment.filters["breakable"] = lambda name: Markup(breakable(name))
    environment.filters["value"] = value_text
    return environment.get_template("page.html.j2").render(
        sections=sections,
        totals=Counter(runs.values()),
        style=Markup((HERE / "page.css").read_text()),
    )


def section(plan: Plan, results: Path) -> dict[str, Any]:
    """Return what the template needs of a study.

    `problem` says why it is empty, `runs` maps hashes to statuses. The first of the `tables` has
    the `kind`; the others are folded. `scope` is "all tasks" if the verdicts are about the mean
    over tasks.
    """
    try:
        runs = Runs.read(results, plan)
        frame = table_of(runs)
    except UserError as problem:
        return {"plan": plan, "problem": str(problem)}
    kind = frame.attrs["kind"]
    rows = frame[frame.get("verdict", pd.Series("", frame.index)).isin(VERDICTS)]
    rows = rows[rows.kind == "main"] if "kind" in rows else rows
    pooled = rows[rows.task == ALL_TASKS]
    counts = Counter((rows if pooled.empty else pooled).verdict)
    return {
        **{"plan": plan, "problem": "", "kind": kind},
        "runs": dict(zip(runs.runs.hash, runs.runs.status, strict=True)),
        "summary": frame.attrs.get("summary", ""),
        "verdicts": {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        "scope": "" if pooled.empty else ALL_TASKS,
        "facts": list(_facts(plan, runs)),
        "tables": list(_tables(runs, frame, plan.study.name)),
        "notes": frame.attrs.get("notes", ()),
        "pictures": list(_pictures(runs, plan.study.name)),
    }


def _facts(plan: Plan, runs: Runs) -> Iterator[tuple[str, str]]:
    yield "tasks", ", ".join(plan.tasks)
    yield "seeds", seeds_text(runs.runs.seed.unique())
    counts = runs.runs.status.value_counts()
    yield "runs", ", ".join(f"{counts[status]:,} {status}" for status in sorted(counts.index))
    if base := plan.study.base:
        yield "settings of", base
    if plan.request.get("profile"):
        yield "profile", str(plan.request["profile"])
    if flags := {name: value for name, value in plan.request.items() if name in FLAGS and value}:
        yield "selection", json.dumps(flags)


def _tables(runs: Runs, frame: pd.DataFrame, study: str) -> Iterator[dict[str, Any]]:
    frames = {frame.attrs["kind"]: frame}
    for kind in MORE_TABLES if "comparison" in frames else ():
        with contextlib.suppress(UserError):
            frames[kind] = table_of(runs, kind)
    for kind, table in frames.items():
        html = format_table(table, "html", caption=False)
        yield {
            "key": f"{study}.{kind}-table",
            "title": MORE_TABLES.get(kind, "Results"),
            "caption": table.attrs.get("caption", ""),
            "html": Markup(html),
            "scrolls": html.count('scope="col"') >= SCROLLS,
        }


def _pictures(runs: Runs, study: str) -> Iterator[dict[str, Any]]:
    for kind, wide in draw(runs, width=WIDE).items():
        yield {
            **{"key": f"{study}.{kind}", "title": wide.title, "caption": wide.caption},
            **{"wide": _uri(wide), "narrow": _uri(draw(runs, [kind], NARROW)[kind])},
            "folded": kind == "diagnostics",
        }


def _uri(drawing: Drawing) -> str:
    data, kind = encoded(drawing, "svg"), "svg+xml"
    if len(data) > LARGEST:
        data, kind = encoded(drawing, "png", dpi=150), "png"
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
