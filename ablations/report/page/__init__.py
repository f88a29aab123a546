"""The report: every study on one self-contained page that needs no network.

Figures are pictures in the page, and it has no script. Same records, same bytes: no date, no
wall-clock, no path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from ablations.errors import UserError
from ablations.records import Plan, write_atomically
from ablations.report.formats.html import breakable
from ablations.report.formats.templates import templates
from ablations.report.page.content import Section, section, slugs
from ablations.report.results import Results
from ablations.report.scores import DIAGNOSTICS

HERE = Path(__file__).parent


def write(plans: Sequence[Plan], results: Path) -> Path:
    """Write results/report/index.html; return its path."""
    path = results / "report" / "index.html"
    write_atomically(path, render(plans, results))
    return path


def render(plans: Sequence[Plan], results: Path) -> str:
    """Return the page as text.

    A study whose records have no scores says so in its place.

    Args:
        plans: a section each.
        results: the folder with their records.
    """
    if not plans:
        raise UserError("a report needs at least one study")
    names = slugs([plan.study.name for plan in plans])
    sections = [
        section(Results(plan, results, DIAGNOSTICS), slug)
        for plan, slug in zip(plans, names, strict=True)
    ]
    environment = templates(HERE, html=True)
    environment.filters["anchor"] = lambda key: key.replace("/", ".")
    environment.filters["breakable"] = lambda name: Markup(breakable(name))
    return environment.get_template("page.html.j2").render(
        sections=sections,
        totals=_totals(sections),
        style=Markup((HERE / "page.css").read_text()),
    )


def _totals(sections: Sequence[Section]) -> Mapping[str, int]:
    """Count runs by status; one that studies share counts once."""
    return Counter({name: status for of in sections for name, status in of.runs.items()}.values())
