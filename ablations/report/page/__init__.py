"""The report: every study on one self-contained page that needs no network.

The interactive library is in the page, compressed; where no script runs, and in print, static
figures stand in its place. Same records, same bytes: no date, no wall-clock, no path.
"""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path

from markupsafe import Markup

from ablations.errors import UserError
from ablations.records import Plan, write_atomically
from ablations.report.figures.interactive import chart
from ablations.report.figures.palette import stylesheet
from ablations.report.formats.html import breakable
from ablations.report.formats.templates import templates
from ablations.report.page.content import Section, section, slugs
from ablations.report.page.runs import Makers
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
    folder = results / "report"
    makers = Makers()
    sections = [
        section(
            Results(plan, results, DIAGNOSTICS), slug, static=True, folder=folder, makers=makers
        )
        for plan, slug in zip(plans, names, strict=True)
    ]
    environment = templates(HERE, html=True)
    environment.filters["anchor"] = lambda key: key.replace("/", ".")
    environment.filters["breakable"] = lambda name: Markup(breakable(name))
    return environment.get_template("page.html.j2").render(
        sections=sections,
        totals=_totals(sections),
        makers=list(makers),
        data=_data(sections),
        style=Markup(stylesheet() + "\n" + (HERE / "page.css").read_text()),
        script=Markup("\n".join((HERE / name).read_text() for name in ("charts.js", "page.js"))),
        library=Markup(_library()),
    )


def _totals(sections: Sequence[Section]) -> Mapping[str, int]:
    """Count cells by status; one that studies share counts once."""
    return Counter({run.hash: run.status for of in sections for run in of.runs}.values())


def _data(sections: Sequence[Section]) -> Markup:
    """Return what page.js draws, as JSON that cannot end the element it stands in."""
    data = {
        "charts": {shown.key: chart(shown.figure) for of in sections for shown in of.charts},
        "legends": {of.slug: of.legend for of in sections},
        "files": {key: files for of in sections for key, files in of.files.items()},
        "runs": {of.slug: [list(astuple(run)) for run in of.runs] for of in sections},
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for special in "<>&\u2028\u2029":
        text = text.replace(special, f"\\u{ord(special):04x}")
    return Markup(text)


@lru_cache(maxsize=1)
def _library() -> str:
    """Return plotly.js as its Python package ships it: gzip, base64."""
    # Importing plotly takes a while, and only its folder is wanted.
    spec = importlib.util.find_spec("plotly")
    places = list((spec.submodule_search_locations if spec else None) or [])
    for folder in places:
        path = Path(folder) / "package_data" / "plotly.min.js"
        if path.exists():
            return base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode()
    raise UserError("the report needs plotly.js: pip install 'plotly>=6'")
