"""A table as text. Numbers carry as many digits as their interval's width supports."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import statistics
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ablations.errors import unknown
from ablations.report.tables import ALL_TASKS, Entry, Table


def render(table: Table, format: str) -> str:
    """A table as markdown, latex, csv, html or json. Raises UserError for another format."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS)
    return FORMATS[format](table)


# Numbers


def decimals(value: float, low: float | None, high: float | None) -> int:
    """Digits after the point that show an interval's width to two significant digits.

    Without a width, those that show the value to four.
    """
    wide = low is not None and high is not None and high > low
    scale, digits = (high - low, 2) if wide else (abs(value), 4)  # type: ignore[operator]
    if not scale or not math.isfinite(scale):
        return 0 if wide else 2
    return min(8, max(0, digits - 1 - math.floor(math.log10(scale))))


def _shared(cases: Iterable[tuple[float | None, float | None, float | None]]) -> int:
    """One number of decimals for a column: the median of what its numbers ask for."""
    asked = [decimals(value, low, high) for value, low, high in cases if value is not None]
    return statistics.median_low(asked) if asked else 0


def _fixed(value: float, places: int, sign: str = "") -> str:
    text = f"{value:{sign}.{places}f}"
    return text.replace("-", sign) if not float(text) else text  # no "-0.00"


class _Numbers:
    """The strings of one task's column: an estimate and its interval, aligned over the variants."""

    def __init__(self, rows: Sequence[Entry]):
        self._scores = _shared((row.iqm, row.low, row.high) for row in rows)
        self._differences = _shared(
            (row.difference, row.difference_low, row.difference_high) for row in rows
        )

    def score(self, row: Entry) -> tuple[str, str]:
        """("-7.42", "[-8.10, -6.90]"); the second empty where there is no interval."""
        return _estimate(row.iqm, row.low, row.high, self._scores, "")

    def difference(self, row: Entry) -> tuple[str, str]:
        """("+0.12", "[-0.30, +0.54]")."""
        bounds = (row.difference, row.difference_low, row.difference_high)
        return _estimate(*bounds, self._differences, "+")

    def symmetric_difference(self, row: Entry) -> tuple[str, str]:
        """("+0.12", "0.42"): a t interval by half its width."""
        difference, around = self.difference(row)
        if row.difference_high is None or row.difference is None or not around:
            return difference, ""
        places = len(around.partition("]")[0].rpartition(".")[2]) if "." in around else 0
        reach = row.difference_high - row.difference
        return _fixed(row.difference, places, "+"), _fixed(reach, places)


def _estimate(
    value: float | None, low: float | None, high: float | None, places: int, sign: str
) -> tuple[str, str]:
    if value is None:
        return "", ""
    if low is None or high is None:
        return _fixed(value, places, sign), ""
    # A much narrower interval than its neighbours' must not read as no interval at all.
    places = max(places, min(decimals(value, low, high) - 1, places + 2))
    inside = f"[{_fixed(low, places, sign)}, {_fixed(high, places, sign)}]"
    return _fixed(value, places, sign), inside


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "<.001" if value < 0.001 else f"{value:.3f}".lstrip("0") if value < 1 else "1"


def _verdict(row: Entry) -> str:
    if row.verdict != "undecided":
        return row.verdict or ""
    seeds = row.seeds_to_decide
    return f"undecided ({'>10,000' if seeds is None else f'~{seeds:,}'} seeds)"


def _seeds(row: Entry) -> str:
    """ "8"; "5 of 8" when cells have not run; "7, 1 failed"."""
    text = f"{row.n} of {row.n_planned}" if row.n_missing else str(row.n)
    if row.n_failed:
        text += f", {row.n_failed} failed"
    if row.n_empty:
        text += f", {row.n_empty} without value"
    if row.n_pairs is not None and row.n_pairs < row.n:
        text += f" ({row.n_pairs} pairs)"
    return text


def _tasks(table: Table) -> list[str]:
    return (
        [*table.tasks, ALL_TASKS]
        if any(r.task == ALL_TASKS for r in table.rows)
        else [*table.tasks]
    )


def _rows(table: Table, task: str) -> list[Entry]:
    return [row for row in table.rows if row.task == task]


def _several_baselines(table: Table) -> bool:
    return len({row.baseline for row in table.rows if row.baseline is not None}) > 1


# Markdown: long, one row per task and variant, so that it fits a terminal


def markdown(table: Table) -> str:
    against = _several_baselines(table)
    head = ["task", "variant", "IQM", "[95%]", "difference", "[95%]", "p (Holm)", "P(better)"]
    head += ["verdict", "seeds"]
    if against:
        head.insert(4, "against")
    right = {"IQM", "[95%]", "difference", "p (Holm)", "P(better)"}
    lines: list[list[str]] = []
    for task in _tasks(table):
        rows = _rows(table, task)
        numbers = _Numbers(rows)
        for place, row in enumerate(rows):
            score, inside = numbers.score(row)
            difference, around = numbers.difference(row)
            chance = row.probability_of_improvement
            cells = [
                _markdown_text(task) if place == 0 else "",
                _markdown_text(row.variant),
                f"**{score}**" if row.best else f"{score}†" if row.tied else score,
                inside,
                difference,
                around,
                _p(row.p_holm),
                "" if chance is None else f"{chance:.2f}",
                _verdict(row) if row.baseline else "baseline",
                _seeds(row),
            ]
            if against:
                cells.insert(4, _markdown_text(row.baseline or ""))
            lines.append(cells)
    caption = f"{_markdown_text(table.study)}: {_markdown_text(table.caption)}"
    text = [*_wrapped(caption), "", *_pipes(head, lines, right)]
    if table.notes:
        text.append("")
    for note in table.notes:
        text += _wrapped(f"- {_markdown_text(note)}")
    return "\n".join(text)


def _wrapped(text: str) -> list[str]:
    hanging = "  " * text.startswith("- ")
    return textwrap.wrap(
        text, 100, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def _pipes(head: Sequence[str], lines: Sequence[Sequence[str]], right: set[str]) -> list[str]:
    """A pipe table, padded so that it lines up in a terminal."""
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]

    def joined(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(cells, widths, head, strict=True)
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [
        "-" * (width + 1) + ":" if name in right else "-" * (width + 2)
        for width, name in zip(widths, head, strict=True)
    ]
    return [joined(head), "|" + "|".join(rule) + "|", *map(joined, lines)]


def _markdown_text(text: str) -> str:
    text = " ".join(text.split())
    for special in "\\`*|":
        text = text.replace(special, "\\" + special)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


# LaTeX: one column per task, two lines per variant


def latex(table: Table) -> str:
    """A table environment that needs booktabs and nothing else."""
    tasks = _tasks(table)
    numbers = {task: _Numbers(_rows(table, task)) for task in tasks}
    said = {row.verdict for row in table.rows}
    body: list[str] = []
    for variant in table.variants:
        rows = {task: table.entry(task, variant) for task in tasks}
        baseline = next(row.baseline for row in rows.values() if row is not None)
        first = [_latex_text(variant)]
        second = [rf"\quad {{\scriptsize vs {_latex_text(baseline or '')}}}"]
        for task in tasks:
            first.append(_latex_score(rows[task], numbers[task]))
            second.append(_latex_difference(rows[task], numbers[task]))
        if baseline is None and body:
            body.append(r"\midrule")
        body.append(" & ".join(first) + r" \\")
        if baseline is not None:
            body += [" & ".join(second) + r" \\", r"\addlinespace[2pt]"]
    signs = [f"{sign} {name}" for name, sign in _LATEX_VERDICTS.items() if name in said]
    reach = r"$\pm$: half the width of its 95\% interval; "
    symbols = f" {reach}{', '.join(signs)}." if signs else ""
    below = r"\\ ".join(_latex_text(note) for note in table.notes)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}[t]",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{_latex_text(table.caption)}{symbols}}}\vspace{{6pt}}",
        rf"\label{{tab:{''.join(c if c.isascii() and c.isalnum() else '-' for c in table.study)}}}",
        rf"\begin{{tabular}}{{@{{}}l{'l' * len(tasks)}@{{}}}}",
        r"\toprule",
        " & ".join(["", *map(_latex_text, tasks)]) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *([rf"\par\smallskip\raggedright\scriptsize {below}"] if below else []),
        r"\end{table}",
    ]
    return "\n".join(lines)


def _latex_score(row: Entry | None, numbers: _Numbers) -> str:
    if row is None or row.task == ALL_TASKS:
        return ""
    score, inside = numbers.score(row)
    if not score:
        return rf"-- {{\scriptsize $n={row.n}$}}"
    shown = (
        rf"$\mathbf{{{score}}}$"
        if row.best
        else rf"${score}^\dagger$"
        if row.tied
        else f"${score}$"
    )
    if inside:
        shown += rf" {{\scriptsize ${inside}$}}"
    if row.n < row.n_planned:
        failed = f", {row.n_failed} failed" if row.n_failed else ""
        shown += rf" {{\scriptsize $n={row.n}${failed}}}"
    return shown


def _latex_difference(row: Entry | None, numbers: _Numbers) -> str:
    if row is None or not row.verdict:
        return ""
    difference, reach = numbers.symmetric_difference(row)
    estimate = rf"${difference}\pm{reach}$ " if reach else f"${difference}$ " if difference else ""
    sign = _LATEX_VERDICTS.get(row.verdict, _latex_text(row.verdict))
    seeds = f" {row.seeds_to_decide}" if row.seeds_to_decide else ""
    return rf"{{\scriptsize {estimate}{sign}{seeds}}}"


_LATEX_VERDICTS = {
    "better": r"$\uparrow$",
    "worse": r"$\downarrow$",
    "higher": r"$\uparrow$",
    "lower": r"$\downarrow$",
    "equivalent": r"$\approx$",
    "undecided": r"?",
}


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"{\char36}",  # \$ asks for a font that small installations lack
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "[": "{[}",  # after a line's end, [ and * would be an argument of it
    "*": "{*}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    '"': "''",
    "†": r"$\dagger$",
    "\u00d7": r"$\times$",
    "±": r"$\pm$",
    "\u2212": r"$-$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "\u2013": "--",
    "—": "---",
    "\u2018": "`",
    "\u2019": "'",
    "“": "``",
    "”": "''",
    "…": r"\dots{}",
}


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(c) or _latex_letter(c) for c in " ".join(text.split()))


def _latex_letter(letter: str) -> str:
    """ASCII as it is, Greek as math, accented letters bare, anything else as '?'."""
    if letter.isascii():
        return letter if letter.isprintable() else ""
    words = unicodedata.name(letter, "").split()
    if words[:1] == ["GREEK"] and words[2:3] == ["LETTER"] and len(words) == 4:
        name = words[3].lower().replace("lamda", "lambda")
        if words[1] == "SMALL":
            return "o" if name == "omicron" else rf"$\{name}$"
        if name in (
            "gamma",
            "delta",
            "theta",
            "lambda",
            "xi",
            "pi",
            "sigma",
            "phi",
            "psi",
            "omega",
        ):
            return rf"$\{name.title()}$"
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_LATEX.get(c, c) for c in plain) or "?"


# HTML: a fragment with the same layout as LaTeX


def html_(table: Table) -> str:
    """A <table> element; classes study-table, interval, difference, verdict to style it by."""
    tasks = _tasks(table)
    numbers = {task: _Numbers(_rows(table, task)) for task in tasks}
    escape = html.escape
    lines = ['<table class="study-table">', f"<caption>{escape(table.caption)}</caption>"]
    heads = "".join(f'<th scope="col">{escape(task)}</th>' for task in tasks)
    lines.append(f'<thead><tr><th scope="col">variant</th>{heads}</tr></thead>')
    lines.append("<tbody>")
    for variant in table.variants:
        rows = [table.entry(task, variant) for task in tasks]
        baseline = next(row.baseline for row in rows if row is not None)
        versus = f'<br><span class="versus">vs {escape(baseline)}</span>' if baseline else ""
        cells = "".join(
            f"<td>{_html_cell(row, numbers[task])}</td>"
            for row, task in zip(rows, tasks, strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(variant)}{versus}</th>{cells}</tr>')
    lines.append("</tbody>")
    if table.notes:
        notes = "<br>".join(escape(note) for note in table.notes)
        lines.append(f'<tfoot><tr><td colspan="{len(tasks) + 1}">{notes}</td></tr></tfoot>')
    return "\n".join([*lines, "</table>"])


def _html_cell(row: Entry | None, numbers: _Numbers) -> str:
    if row is None:
        return ""
    parts = []
    if row.task != ALL_TASKS:
        score, inside = numbers.score(row)
        shown = (
            f"<strong>{score}</strong>" if row.best else f"{score}†" if row.tied else score or "n/a"
        )
        parts.append(f'{shown} <span class="interval">{inside}</span>' if inside else shown)
        if row.n < row.n_planned:
            parts[-1] += f' <span class="seeds">n={html.escape(_seeds(row))}</span>'
    if row.verdict:
        difference, around = numbers.difference(row)
        name = row.verdict.replace(" ", "-")
        parts.append(
            f'<span class="difference">{difference} <span class="interval">{around}</span></span> '
            f'<span class="verdict {name}">{html.escape(_verdict(row))}</span>'
        )
    return "<br>".join(parts)


# Files: every column, ten significant digits


def csv_(table: Table) -> str:
    """One line per row of the table, every column, empty where there is no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        values = _plain(row).values()
        writer.writerow("" if value is None else value for value in values)
    return text.getvalue().rstrip("\n")


def json_(table: Table) -> str:
    """The whole table; null where there is no value."""
    described = {k: v for k, v in asdict(table).items() if k != "rows"}
    whole = described | {"rows": [_plain(row) for row in table.rows]}
    return json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)


def _plain(row: Entry) -> dict[str, Any]:
    return {
        name: float(f"{value:.10g}") if isinstance(value, float) else value
        for name, value in asdict(row).items()
    }


FORMATS: Mapping[str, Callable[[Table], str]] = {
    "markdown": markdown,
    "latex": latex,
    "csv": csv_,
    "html": html_,
    "json": json_,
}
