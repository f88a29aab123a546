"""What the page says about each study, ready for the template."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ablations.errors import UserError
from ablations.records import Plan, Record, read_results
from ablations.report import sheets, tables
from ablations.report.digits import Column, verdict_text
from ablations.report.page import charts
from ablations.report.scores import Cell, Scores, diagnostic_scores, moves, scores
from ablations.report.supplements import KINDS
from ablations.report.tables import ALL_TASKS, Entry, Table

CAPTIONS = {
    "curves": (
        "Learning curves",
        "Interquartile mean over seeds, pointwise 95% interval.",
    ),
    "differences": (
        "Differences to the baseline",
        "Mean of the differences paired by seed, 95% interval. Shaded: the margin within which a "
        "difference does not matter.",
    ),
    "improvement": (
        "Probability of improvement",
        "Share of all pairs of runs in which the variant scores higher than its baseline, 95% "
        "score interval (Newcombe 2006). Colour: the verdict.",
    ),
    "intervals": (
        "Aggregates of normalised scores",
        "0 and 1 are the tasks' references; 95% stratified bootstrap interval, over the seeds "
        "that are complete on every task.",
    ),
    "profiles": (
        "Performance profiles",
        "Share of runs above each normalised score, mean over tasks, pointwise 95% interval.",
    ),
    "effects": (
        "Effects of the factorial",
        "Diagonal: main effect of a level against the reference. Below it: interaction. Bold: "
        "adjusted p < .05; in brackets: equivalent.",
    ),
    "diagnostics": (
        "Diagnostics over training",
        "Interquartile mean over seeds of what the trainer records beside the score.",
    ),
}
_LARGEST_SVG = 300_000  # bytes: a figure of dozens of panels is smaller as pixels
KIND_TITLES = {
    "effects": "Effects of the factorial",
    "efficiency": "Sample efficiency",
    "power": "Seeds needed",
}


@dataclass(frozen=True)
class Score:
    """One line of the scorecard: a comparison, over all tasks where there are several."""

    variant: str
    baseline: str
    verdict: str
    text: str
    estimate: str
    seeds: str
    strip: Markup


@dataclass(frozen=True)
class Figure:
    """A chart of the page. key: names its data; panels: one title each, `columns` of them side by
    side where there is room; image: a data URI of the static figure, for print and where no script
    runs, or None."""

    key: str
    title: str
    text: str
    panels: tuple[str, ...]
    image: str | None
    columns: int
    folded: bool = False


@dataclass(frozen=True)
class Run:
    """One cell, as the table of runs shows it."""

    hash: str
    task: str
    variant: str
    seed: int
    status: str
    score: str
    seconds: str
    started: str
    made_by: str
    render: str | None


@dataclass(frozen=True)
class Section:
    """A study on the page. `problem` is all there is where its records could not be read."""

    slug: str
    name: str
    title: str
    claim: str
    source: str
    problem: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    unit: str = ""
    scorecard: tuple[Score, ...] = ()
    summary: str = ""
    variants: tuple[Mapping[str, Any], ...] = ()
    columns: int = 1
    legend: tuple[Mapping[str, Any], ...] = ()
    table: Markup | None = None
    caption: str = ""
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    sheets: tuple[tuple[str, str, Markup], ...] = ()
    runs: tuple[Run, ...] = ()
    provenance: tuple[tuple[str, Mapping[str, str]], ...] = ()
    failures: tuple[str, ...] = ()
    charts: Mapping[str, Any] = field(default_factory=dict)


def section(plan: Plan, results: Path, slug: str, *, static: bool, folder: Path) -> Section:
    """A study's section; with `problem` where a record is damaged.

    static: with figures for print. folder: where the page will lie, for links.
    """
    about = plan.study
    heads = {
        "slug": slug,
        "name": about["name"],
        "title": about["title"],
        "claim": about["claim"],
        "source": about.get("claim_source", ""),
    }
    try:
        found = scores(plan, results)
        made = tables.table(plan, results)
    except UserError as problem:
        return Section(**heads, problem=str(problem))
    counts = {
        status: sum(cell.status in which for cell in found.cells)
        for status, which in {
            "done": ("done", "empty"),
            "failed": ("failed",),
            "missing": ("missing",),
        }.items()
    }
    drawn = _charts(plan, results, found, made)
    runs, provenance = _runs(plan, results, found, folder)
    lines, unit = _scorecard(made)
    return Section(
        **heads,
        facts=tuple(_facts(plan, counts)),
        counts=counts,
        unit=unit,
        scorecard=lines,
        summary=_summary(lines),
        variants=tuple(_variants(plan)),
        columns=charts.side_by_side(len(plan.variants)),
        legend=tuple(charts.legend(plan)),
        table=Markup(tables.render(replace(made, caption="", notes=()), "html")),
        caption=made.caption,
        notes=made.notes,
        figures=tuple(_figures(plan, results, slug, drawn, static)),
        sheets=tuple(_sheets(plan, results, found)),
        runs=runs,
        provenance=provenance,
        failures=tuple(_failures(found.cells)),
        charts={f"{slug}/{name}": chart for name, chart in drawn.items()},
    )


def slugs(names: Sequence[str]) -> list[str]:
    """An anchor per name: letters, digits and dashes, each once."""
    found: list[str] = []
    for name in names:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "study"
        while slug in found:
            slug += "-"
        found.append(slug)
    return found


# The scorecard


def _scorecard(made: Table) -> tuple[tuple[Score, ...], str]:
    several = any(row.task == ALL_TASKS for row in made.rows)
    task = ALL_TASKS if several else made.tasks[0]
    rows = [row for row in made.rows if row.task == task and row.baseline]
    reach = max([_reach(row) for row in rows], default=1.0) or 1.0
    numbers = Column(rows)
    lines = tuple(
        Score(
            variant=row.variant,
            baseline=row.baseline or "",
            verdict=(row.verdict or "").replace(" ", "-"),
            text=verdict_text(row),
            estimate=" ".join(numbers.difference(row)).strip(),
            seeds=f"{row.n_pairs} of {row.n_planned}"
            if (row.n_pairs or 0) < row.n_planned
            else str(row.n_pairs),
            strip=_strip(row, reach),
        )
        for row in rows
    )
    return lines, "score units, over all tasks" if several else f"{made.metric} on {task}"


def _reach(row: Entry) -> float:
    bounds = (row.difference_low, row.difference_high, row.difference)
    widest = max((abs(one) for one in bounds if one is not None), default=0.0)
    return 1.08 * max(widest, 1.3 * (row.margin or 0.0))


def _strip(row: Entry, reach: float) -> Markup:
    """A comparison as a small drawing: margin, zero, interval, estimate."""

    def x(value: float) -> str:
        return f"{70 + 68 * value / reach:.1f}"

    parts = []
    if row.margin:
        width = f"{2 * 68 * row.margin / reach:.1f}"
        parts.append(
            f'<rect class="margin" x="{x(-row.margin)}" y="1" width="{width}" height="16"/>'
        )
    parts.append('<path class="zero" d="M70 0V18"/>')
    if row.difference_low is not None and row.difference_high is not None:
        parts.append(
            f'<path class="reach" d="M{x(row.difference_low)} 9H{x(row.difference_high)}"/>'
        )
    if row.difference is not None:
        parts.append(f'<circle cx="{x(row.difference)}" cy="9" r="3.6"/>')
    name = (row.verdict or "").replace(" ", "-")
    return Markup(
        f'<svg class="strip {name}" viewBox="0 0 140 18" aria-hidden="true" focusable="false">'
        + "".join(parts)
        + "</svg>"
    )


def _summary(lines: Sequence[Score]) -> str:
    """ "2 equivalent, 1 worse"."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.verdict.replace("-", " ")] = counts.get(line.verdict.replace("-", " "), 0) + 1
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


# What was asked


def _facts(plan: Plan, counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    steps = {about["steps"] for about in plan.tasks.values()}
    yield "tasks", ", ".join(plan.tasks)
    yield "seeds", str(len(plan.seeds))
    yield "environment steps", " to ".join(f"{n:,}" for n in sorted({min(steps), max(steps)}))
    yield "margin", f"{100 * plan.study['margin']:g}% of the task's score unit"
    yield "score", plan.study["metric"]
    if plan.request.get("profile"):
        yield "profile", str(plan.request["profile"])
    flags = {
        name: plan.request[name]
        for name in ("tasks", "variants", "seeds", "steps", "set")
        if plan.request.get(name)
    }
    if flags:
        yield "selection", json.dumps(flags)
    yield "cells", ", ".join(f"{n} {status}" for status, n in counts.items() if n)


def _variants(plan: Plan) -> Iterator[dict[str, Any]]:
    for name, about in plan.variants.items():
        formulas = about.get("formulas") or {}
        yield {
            "name": name,
            "baseline": tables.baseline_of(plan, name),
            "summary": about["summary"],
            "sets": [
                (setting, _said(value))
                for setting, value in about["sets"].items()
                if setting not in formulas
            ],
            "formulas": [(axis, one) for axis, one in formulas.items()],
        }


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# Charts, figures, tables


def _charts(plan: Plan, results: Path, found: Scores, made: Table) -> dict[str, Any]:
    diagnosed = {n: one for n, one in diagnostic_scores(plan, results).items() if moves(one)}
    maybe = {
        "curves": charts.curves(plan, found),
        "differences": charts.differences(made),
        "improvement": charts.improvement(made),
        "intervals": charts.intervals(plan, found),
        "profiles": charts.profiles(plan, found),
        "effects": charts.effects(KINDS["effects"](plan, results, found)),
        "diagnostics": charts.diagnostics(plan, diagnosed) if diagnosed else None,
    }
    return {name: chart for name, chart in maybe.items() if chart is not None}


def _figures(
    plan: Plan, results: Path, slug: str, drawn: Mapping[str, Any], static: bool
) -> Iterator[Figure]:
    images = dict(_images(plan, results)) if static else {}
    for name, chart in drawn.items():
        title, text = CAPTIONS[name]
        yield Figure(
            key=f"{slug}/{name}",
            title=title,
            text=text,
            panels=tuple(panel["title"] for panel in chart["panels"]),
            image=images.get(name),
            columns=chart["columns"],
            folded=name == "diagnostics",
        )


def _images(plan: Plan, results: Path) -> Iterator[tuple[str, str]]:
    """Every static figure as a data URI of SVG."""
    from ablations.report import figures
    from ablations.report.figures.style import METADATA, style

    with style():
        for name, drawn in figures.draw(plan, results):
            text = io.BytesIO()
            drawn.savefig(text, format="svg", metadata=METADATA["svg"])
            kind = "svg+xml"
            if text.tell() > _LARGEST_SVG:
                text, kind = io.BytesIO(), "png"
                drawn.savefig(text, format="png", dpi=75, metadata=METADATA["png"])
            yield name, f"data:image/{kind};base64,{base64.b64encode(text.getvalue()).decode()}"


def _sheets(plan: Plan, results: Path, found: Scores) -> Iterator[tuple[str, str, Markup]]:
    for kind, title in KIND_TITLES.items():
        made = KINDS[kind](plan, results, found)
        if made is not None:
            yield title, made.caption, Markup(sheets.html_sheet(replace(made, caption="")))


# Runs


def _runs(
    plan: Plan, results: Path, found: Scores, folder: Path
) -> tuple[tuple[Run, ...], tuple[tuple[str, Mapping[str, str]], ...]]:
    """The cells, and what made them: each different provenance once, under a letter."""
    made: dict[str, tuple[str, Mapping[str, str]]] = {}
    scored = {(cell.task, cell.variant, cell.seed): cell for cell in found.cells}
    rendered = _renders(results, folder)
    runs = []
    for cell, record in read_results(results, plan):
        one = scored[cell["task"], cell["variant"], cell["seed"]]
        letter = ""
        if record is not None:
            told = _made_by(record)
            letter, _ = made.setdefault(json.dumps(told), (_letters(len(made)), told))
        runs.append(
            Run(
                hash=cell["hash"],
                task=cell["task"],
                variant=cell["variant"],
                seed=cell["seed"],
                status=one.status,
                score=f"{one.value:.5g}" if one.status == "done" else "",
                seconds=_seconds(record),
                started=_started(record),
                made_by=letter,
                render=rendered.get(cell["hash"]),
            )
        )
    return tuple(runs), tuple(made.values())


def _made_by(record: Record) -> dict[str, str]:
    """All of a provenance that is not about one run alone."""
    own = ("seconds", "compile_seconds", "started", "steps_per_second", "versions", "environment")
    told = {k: v for k, v in record.provenance.items() if k not in own}
    for name in ("versions", "environment"):
        many = record.provenance.get(name) or {}
        told |= {name: ", ".join(f"{k} {v}" for k, v in sorted(many.items()))} if many else {}
    return {str(name): str(value) for name, value in sorted(told.items())}


def _letters(place: int) -> str:
    """A, B, ... Z, AA, AB ..."""
    text = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, 26)
        text = chr(65 + letter) + text
    return text


def _seconds(record: Record | None) -> str:
    seconds = None if record is None else record.provenance.get("seconds")
    return f"{seconds:.1f}" if isinstance(seconds, (int, float)) else ""


def _started(record: Record | None) -> str:
    started = None if record is None else record.provenance.get("started")
    if not isinstance(started, (int, float)):
        return ""
    return datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d %H:%M")


def _renders(results: Path, folder: Path) -> dict[str, str]:
    """cell -> link to its rendered policy: any page under results/render named by the cell's
    hash."""
    found: dict[str, str] = {}
    for path in sorted((results / "render").rglob("*.html")):
        for part in re.findall(r"[0-9a-f]{16}", path.stem):
            up = "../" * len(folder.relative_to(results).parts)
            found[part] = up + path.relative_to(results).as_posix()
    return found


def _failures(cells: Sequence[Cell]) -> Iterator[str]:
    for cell in cells:
        if cell.status == "failed":
            step = "" if cell.failed_step is None else f" at step {cell.failed_step:,}"
            reason = (cell.reason or "").strip().partition("\n")[0]
            yield f"{cell.variant} on {cell.task}, seed {cell.seed}{step}: {reason}"
