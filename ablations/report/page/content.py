"""Sections of the page, a study each, ready for the template."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from markupsafe import Markup

from ablations.core.plan import Formula
from ablations.errors import UserError, value_text
from ablations.records import Plan
from ablations.report.figures import FAR, study_figures
from ablations.report.figures.style import Drawing, encoded
from ablations.report.formats import render
from ablations.report.formats.words import answer
from ablations.report.page.scorecard import Score, scorecard
from ablations.report.results import Results
from ablations.report.scores import Cell, Scores, baseline_of, largest, scores, step_unit
from ablations.report.tables import (
    KINDS,
    default_kind,
    effects_in_words,
    explained_in_words,
    table,
)

_WIDTH = 7.0  # inches of a figure, whose title and caption are the page's
_LARGEST_SVG = 300_000  # bytes: a figure of dozens of panels is smaller as pixels
KIND_TITLES = {
    "effects": "Effects of what the variants set",
    "efficiency": "Sample efficiency",
    "power": "Seeds needed",
}


@dataclass(frozen=True)
class Chart:
    """A figure of the page.

    key: names its place. image: a data URI. folded: shown when the reader asks for it.
    """

    key: str
    title: str
    caption: str
    image: str
    folded: bool = False


@dataclass(frozen=True)
class Folded:
    """A further table of a study. key: names its place."""

    key: str
    title: str
    caption: str
    text: Markup


@dataclass(frozen=True)
class Alternative:
    """A variant side by side with the others: its choices, and what else it sets."""

    name: str
    baseline: str | None
    summary: str
    sets: tuple[tuple[str, str], ...]
    formulas: tuple[tuple[str, Formula], ...]


@dataclass(frozen=True)
class Section:
    """A study on the page.

    problem: all there is where its records have no scores. runs: hash -> status.
    """

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
    variants: tuple[Alternative, ...] = ()
    table: Markup | None = None
    caption: str = ""
    notes: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    sheets: tuple[Folded, ...] = ()
    runs: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()


def section(results: Results, slug: str) -> Section:
    """Return a study's section; with `problem` where its records have no scores.

    Args:
        results: of the study.
        slug: its anchor.
    """
    plan, about = results.plan, results.plan.study
    head = Section(slug, about.name, about.title, about.claim, about.claim_source)
    try:
        scored = scores(results)
        kind = default_kind(plan)
        leading = None if kind == "comparison" else KINDS[kind](results, None)
        compared = table(results) if leading is None else None
    except UserError as problem:
        return replace(head, problem=str(problem))
    counts = {
        status: sum(cell.status in which for cell in scored.cells)
        for status, which in {
            "done": ("done", "empty"),
            "failed": ("failed",),
            "missing": ("missing",),
        }.items()
    }
    common = replace(
        head,
        facts=tuple(_facts(plan, counts)),
        counts=counts,
        runs={cell.hash: cell.status for cell in scored.cells},
        failures=tuple(_failures(scored.cells)),
    )
    if compared is None:
        assert leading is not None
        effects = kind == "effects"
        only = ("effects", "curves") if effects else ()
        return replace(
            common,
            summary=(effects_in_words if effects else explained_in_words)(leading),
            variants=tuple(_variants(plan)) if effects else (),
            charts=_charts(results, scored, slug, only),
            table=Markup(render(replace(leading, caption=""))),
            caption=leading.caption,
        )
    lines, unit = scorecard(compared)
    sheets = {
        f"{slug}/{kind}-table": (title, sheet)
        for kind, title in KIND_TITLES.items()
        if (sheet := KINDS[kind](results, None)) is not None
    }
    return replace(
        common,
        unit=unit,
        scorecard=lines,
        summary=answer(compared),
        variants=tuple(_variants(plan)),
        table=Markup(render(replace(compared, caption="", notes=()))),
        caption=compared.caption,
        notes=compared.notes,
        sheets=tuple(
            Folded(key, title, sheet.caption, Markup(render(replace(sheet, caption=""))))
            for key, (title, sheet) in sheets.items()
        ),
        charts=_charts(results, scored, slug),
    )


def slugs(names: Sequence[str]) -> list[str]:
    """Return an anchor per name: letters, digits and dashes, each once."""
    unique: list[str] = []
    for name in names:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "study"
        while slug in unique:
            slug += "-"
        unique.append(slug)
    return unique


# Facts


def _failures(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a line for each failed run, with its step and its reason."""
    for cell in cells:
        if cell.status == "failed":
            step = "" if cell.failed_step is None else f" at step {cell.failed_step:,}"
            reason = (cell.reason or "").strip().partition("\n")[0]
            yield f"{cell.variant} on {cell.task}, seed {cell.seed}{step}: {reason}"


def _facts(plan: Plan, counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    steps = {task.steps for task in plan.tasks.values()}
    yield "tasks", ", ".join(plan.tasks)
    yield "seeds", str(len(plan.seeds))
    if base := plan.study.base:
        yield "base", f"the settings of {base}"
    if any(steps):
        yield step_unit(plan), " to ".join(f"{n:,}" for n in sorted({min(steps), max(steps)}))
    if plan.study.margin_in_metric:
        yield "margin", f"{plan.study.margin:g}, in units of the metric"
    else:
        yield "margin", f"{100 * plan.study.margin:g}% of what the baseline learned"
    yield "score", plan.study.metric
    if plan.request.get("profile"):
        yield "profile", str(plan.request["profile"])
    flags = {
        name: plan.request[name]
        for name in ("tasks", "variants", "seeds", "until", "most_seeds", "steps", "set", "vary")
        if plan.request.get(name)
    }
    if flags:
        yield "selection", json.dumps(flags)
    yield "cells", ", ".join(f"{n} {status}" for status, n in counts.items() if n)


def _variants(plan: Plan) -> Iterator[Alternative]:
    for name, about in plan.variants.items():
        formulas = about.formulas or {}
        sets = tuple((n, value_text(x)) for n, x in about.sets.items() if n not in formulas)
        baseline = baseline_of(plan, name)
        yield Alternative(name, baseline, about.summary, sets, tuple(formulas.items()))


# Figures


def _charts(
    results: Results, scored: Scores, slug: str, only: Sequence[str] = ()
) -> tuple[Chart, ...]:
    if largest(scored) > FAR:
        return ()
    return tuple(
        Chart(f"{slug}/{name}", drawn.title, drawn.caption, _image(drawn), name == "diagnostics")
        for name, drawn in study_figures(results, scored, only=only, width=_WIDTH).items()
    )


def _image(drawing: Drawing) -> str:
    """Return a figure as a data URI."""
    data, kind = encoded(drawing, "svg"), "svg+xml"
    if len(data) > _LARGEST_SVG:
        data, kind = encoded(drawing, "png", dpi=150), "png"
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
