"""What the page says about each study, ready for the template."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from markupsafe import Markup

from ablations.core.plan import Formula
from ablations.errors import UserError
from ablations.records import Plan
from ablations.report.formats import render
from ablations.report.page import charts
from ablations.report.page.runs import Run, failures, runs
from ablations.report.page.scorecard import Score, scorecard, summary
from ablations.report.results import Results
from ablations.report.scores import baseline_of, diagnostic_scores, moves, scores, step_unit
from ablations.report.sensitivity import plane
from ablations.report.tables import (
    KINDS,
    Sheet,
    Table,
    default_kind,
    effects_in_words,
    explained_in_words,
    table,
)
from ablations.report.tables.factorial import effects_sheet
from ablations.report.units import units

CAPTIONS = {
    "curves": (
        "Learning curves",
        "Interquartile mean over seeds, pointwise 95% interval.",
    ),
    "differences": (
        "Differences to the baseline",
        "Mean of the differences paired by seed; the intervals hold for all comparisons at once "
        "with 95%. Shaded: the margin within which a difference does not matter, of the first row "
        "where rows differ.",
    ),
    "improvement": (
        "Probability of improvement",
        "Share of all pairs of runs in which the variant scores higher than its baseline, 95% "
        "score interval (Newcombe 2006). Colour: the verdict.",
    ),
    "intervals": (
        "Aggregates of normalised scores",
        "0 and 1 are where the learning of the baseline began and where it got to; 95% stratified "
        "bootstrap interval, over the seeds that are complete on every task.",
    ),
    "profiles": (
        "Performance profiles",
        "Share of runs above each normalised score, mean over tasks, pointwise 95% interval.",
    ),
    "efficiency": (
        "Sample efficiency over tasks",
        "Interquartile mean of normalised scores per task, mean over tasks, over training; "
        "pointwise 95% interval. 0 and 1 are where the learning of the baseline began and got to.",
    ),
    "sensitivity": (
        "Sensitivity to a number",
        "Mean score at each value, with its 95% interval. Shaded: the margin around the score of "
        "what the variants are compared with.",
    ),
    "plane": (
        "Score and sensitivity",
        "Right: what is lost where one setting of the numbers serves all environments; up: the "
        "score where each environment has its own. In what was learned, 95% interval; each seed is "
        "scored at the settings that the other seeds choose (Adkins et al. 2024).",
    ),
    "effects": (
        "Effects of what the variants set",
        "Diagonal: main effect of a level against the reference. Below it: interaction. Bold: the "
        "simultaneous 95% interval excludes 0; in brackets: equivalent. Of a fraction of a "
        "factorial there are main effects alone, with their simultaneous 95% intervals.",
    ),
    "diagnostics": (
        "Diagnostics over training",
        "Interquartile mean over seeds of what the trainer records beside the score.",
    ),
}
_LARGEST_SVG = 300_000  # bytes: a figure of dozens of panels is smaller as pixels
FILES = {"csv": "csv", "tex": "latex"}  # that a table can be saved as
KIND_TITLES = {
    "effects": "Effects of what the variants set",
    "efficiency": "Sample efficiency",
    "power": "Seeds needed",
}


@dataclass(frozen=True)
class Figure:
    """A chart of the page.

    key: names its data. panels: one title each, `columns` of them
    side by side where there is room. image: a data URI of the static figure, for print and where no
    script runs, or None. formats: of the files it can be saved as.
    """

    key: str
    title: str
    text: str
    panels: tuple[str, ...]
    image: str | None
    columns: int
    folded: bool = False

    @property
    def formats(self) -> tuple[str, ...]:
        """The kinds of files that it can be saved as."""
        if self.image is None:
            return ()
        return ("svg", "png") if self.image.startswith("data:image/svg") else ("png",)


@dataclass(frozen=True)
class Folded:
    """A further table of a study. key: names its files."""

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

    problem: all there is where its records could not be read. pictures: title and data URI of
    figures that have no chart. files: table -> format -> text, to be saved.
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
    columns: int = 1
    legend: tuple[charts.Chart, ...] = ()
    table: Markup | None = None
    caption: str = ""
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    pictures: tuple[tuple[str, str], ...] = ()
    sheets: tuple[Folded, ...] = ()
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()
    provenance: tuple[tuple[str, Mapping[str, str]], ...] = ()
    failures: tuple[str, ...] = ()
    charts: Mapping[str, charts.Chart] = field(default_factory=dict)


def section(results: Results, slug: str, *, static: bool, folder: Path) -> Section:
    """Make a study's section; one with `problem` where a record is damaged.

    Args:
        results: of the study.
        slug: its anchor.
        static: whether with figures for print.
        folder: where the page will lie, for links.
    """
    plan, about = results.plan, results.plan.study
    head = Section(slug, about.name, about.title, about.claim, about.claim_source)
    try:
        found = scores(results)
        kind = default_kind(plan)
        leading = None if kind == "comparison" else KINDS[kind](results, None)
        made = table(results) if leading is None else None
    except UserError as problem:
        return replace(head, problem=str(problem))
    counts = {
        status: sum(cell.status in which for cell in found.cells)
        for status, which in {
            "done": ("done", "empty"),
            "failed": ("failed",),
            "missing": ("missing",),
        }.items()
    }
    made_by, provenance = runs(results, folder)
    common = replace(
        head,
        facts=tuple(_facts(plan, counts)),
        counts=counts,
        runs=made_by,
        provenance=provenance,
        failures=tuple(failures(found.cells)),
    )
    if made is None:
        assert leading is not None
        common = replace(
            common,
            files=_files({f"{slug}/table": leading}),
            table=Markup(render(replace(leading, caption=""), "html")),
            caption=leading.caption,
        )
        if kind != "effects":
            pictures = tuple(_images(results))
            return replace(common, summary=explained_in_words(leading), pictures=pictures)
        drawn = {"effects": charts.effects(leading, found.metric)}
        return replace(
            _drawn(common, results, drawn | {"curves": charts.curves(plan, found)}, static),
            summary=effects_in_words(leading),
            variants=tuple(_variants(plan)),
        )
    lines, unit = scorecard(made)
    sheets = {
        f"{slug}/{kind}-table": (title, sheet)
        for kind, title in KIND_TITLES.items()
        if (sheet := KINDS[kind](results, None)) is not None
    }
    tables: dict[str, Table | Sheet] = {f"{slug}/table": made}
    tables |= {key: sheet for key, (_, sheet) in sheets.items()}
    return replace(
        _drawn(common, results, _charts(results, made), static),
        unit=unit,
        scorecard=lines,
        summary=summary(made),
        variants=tuple(_variants(plan)),
        table=Markup(render(replace(made, caption="", notes=()), "html")),
        caption=made.caption,
        notes=made.notes,
        sheets=tuple(
            Folded(key, title, one.caption, Markup(render(replace(one, caption=""), "html")))
            for key, (title, one) in sheets.items()
        ),
        files=_files(tables),
    )


def slugs(names: Sequence[str]) -> list[str]:
    """Return an anchor per name: letters, digits and dashes, each once."""
    found: list[str] = []
    for name in names:
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "study"
        while slug in found:
            slug += "-"
        found.append(slug)
    return found


def _files(tables: Mapping[str, Table | Sheet]) -> dict[str, dict[str, str]]:
    return {
        key: {ending: render(one, format) for ending, format in FILES.items()}
        for key, one in tables.items()
    }


# What was asked


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
        others = {setting: x for setting, x in about.sets.items() if setting not in formulas}
        sets = tuple((n, f"{x:g}" if isinstance(x, float) else str(x)) for n, x in others.items())
        baseline = baseline_of(plan, name)
        yield Alternative(name, baseline, about.summary, sets, tuple(formulas.items()))


# Charts, figures, tables


def _charts(results: Results, made: Table) -> dict[str, charts.Chart | None]:
    plan, found, learned = results.plan, scores(results), units(results)
    diagnosed = {n: one for n, one in diagnostic_scores(results).items() if moves(one)}
    return {
        "curves": charts.curves(plan, found),
        "differences": charts.differences(plan, made, found, learned),
        "improvement": charts.improvement(made),
        "intervals": charts.intervals(plan, found, learned),
        "profiles": charts.profiles(plan, found, learned),
        "efficiency": charts.sample_efficiency(plan, found, learned),
        "sensitivity": charts.sensitivity(plan, made, found, learned),
        "plane": charts.plane(plane(plan, found, learned)),
        "effects": charts.effects(effects_sheet(results), found.metric),
        "diagnostics": charts.diagnostics(plan, diagnosed) if diagnosed else None,
    }


def _drawn(
    section: Section, results: Results, maybe: Mapping[str, charts.Chart | None], static: bool
) -> Section:
    """Return a section with those charts that it has."""
    drawn = {name: chart for name, chart in maybe.items() if chart is not None}
    return replace(
        section,
        columns=charts.side_by_side(len(results.plan.variants)),
        legend=tuple(charts.legend(results.plan)),
        figures=tuple(_figures(results, section.slug, drawn, static)),
        charts={f"{section.slug}/{name}": chart for name, chart in drawn.items()},
    )


def _figures(
    results: Results, slug: str, drawn: Mapping[str, charts.Chart], static: bool
) -> Iterator[Figure]:
    images = dict(_images(results)) if static else {}
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


def _images(results: Results) -> Iterator[tuple[str, str]]:
    """Every static figure as a data URI of SVG."""
    from ablations.report import figures
    from ablations.report.figures.style import METADATA, style

    with style():
        for name, drawn in figures.draw(results):
            text = io.BytesIO()
            drawn.savefig(text, format="svg", metadata=METADATA["svg"])
            kind = "svg+xml"
            if text.tell() > _LARGEST_SVG:
                text, kind = io.BytesIO(), "png"
                drawn.savefig(text, format="png", dpi=75, metadata=METADATA["png"])
            yield name, f"data:image/{kind};base64,{base64.b64encode(text.getvalue()).decode()}"
