"""A table as LaTeX: one column per task, two lines per variant."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from pylatexenc.latexencode import RULE_DICT, UnicodeToLatexConversionRule, UnicodeToLatexEncoder

from ablations.core.verdict import Verdict
from ablations.report.formats.numbers import (
    Digits,
    lines_of,
    seeds_range_text,
    verdict_text,
    without_repeats,
)
from ablations.report.tables.entries import ALL_TASKS, Entry, Sheet, Table


def latex(table: Table) -> str:
    """Write a table environment, one column per task, that needs booktabs and nothing else."""
    tasks = table.places
    numbers = {task: Digits(table.of(task)) for task in tasks}
    verdicts = {row.verdict for row in table.rows if row.answer is None}
    body: list[str] = []
    for variant in table.names:
        rows = {task: table.entry(task, variant) for task in tasks}
        baseline = next(row.baseline for row in rows.values() if row is not None)
        first = [_latex_text(variant)]
        second = [rf"\quad {{\scriptsize vs {_latex_text(baseline)}}}" if baseline else ""]
        for task in tasks:
            first.append(_latex_score(rows[task], numbers[task]))
            second.append(_latex_difference(rows[task], numbers[task]))
        if baseline is None and body:
            body.append(r"\midrule")
        body.append(" & ".join(first) + r" \\")
        if any(second):
            body += [" & ".join(second) + r" \\", r"\addlinespace[2pt]"]
    signs = [f"{sign} {name}" for name, sign in _LATEX_VERDICTS.items() if name in verdicts]
    reach = r"$\pm$: half the width of its interval; "
    symbols = f" {reach}{', '.join(signs)}." if signs else ""
    below = r"\\ ".join(_breakable(note) for note in table.notes)
    caption = _breakable(table.caption) + symbols
    heads = " & ".join(["", *map(_latex_text, tasks)])
    lines = _environment("footnotesize", caption, table.study, "l" * (len(tasks) + 1), heads, body)
    if below:
        lines.insert(-1, rf"\par\smallskip\raggedright\scriptsize {below}")
    return "\n".join(lines)


def _environment(
    size: str, caption: str, label: str, columns: str, heads: str, body: Sequence[str]
) -> list[str]:
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in label)
    return [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}[t]",
        rf"\centering\{size}\setlength{{\tabcolsep}}{{3pt}}",
        rf"\caption{{{caption}}}\vspace{{6pt}}",
        rf"\label{{tab:{name}}}",
        rf"\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"\toprule",
        heads + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


_LONGEST = 24  # characters of a cell that still stands in one line
_CHARACTER, _GAP = 0.0108, 0.0175  # of an article's line: one at \scriptsize, and around a column


def latex_sheet(sheet: Sheet) -> str:
    """Write a table environment of plain cells; it needs booktabs and nothing else."""
    heads = [column.head for column in sheet.shown]
    rows = without_repeats(lines_of(sheet))
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    # Long names are broken rather than let the table run into the margin.
    broken = [width > _LONGEST for width in widths]
    taken = sum(w for w, breaks in zip(widths, broken, strict=True) if not breaks)
    left = 1 - _CHARACTER * taken - _GAP * len(heads)
    share = max(0.1, min(0.5, left / max(1, sum(broken))))
    columns = "".join(rf"p{{{share:.2f}\linewidth}}" if breaks else "l" for breaks in broken)

    def cell(text: str, place: int) -> str:
        return rf"{{\raggedright {_breakable(text)}\par}}" if broken[place] else _latex_text(text)

    caption, label = _breakable(sheet.caption), f"{sheet.study}-{sheet.kind}"
    body = [" & ".join(cell(text, i) for i, text in enumerate(row)) + r" \\" for row in rows]
    names = " & ".join(map(_latex_text, heads))
    return "\n".join(_environment("scriptsize", caption, label, columns, names, body))


def _latex_score(row: Entry | None, numbers: Digits) -> str:
    if row is None or (row.task == ALL_TASKS and row.mean is None):
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
    return shown if row.baseline else shown + _latex_seeds(row)


def _latex_seeds(row: Entry) -> str:
    """Write the seeds of an entry that rests on fewer than were planned."""
    if row.n >= row.n_planned:
        return ""
    failed = f", {row.n_failed} failed" if row.n_failed and row.task != ALL_TASKS else ""
    return rf" {{\scriptsize $n={row.n}${failed}}}"


def _latex_difference(row: Entry | None, numbers: Digits) -> str:
    if row is None or not (row.verdict or row.same_as):
        return ""
    if row.answer is not None:
        return rf"{{\scriptsize {_breakable(verdict_text(row))}}}" + _latex_seeds(row)
    difference, reach = numbers.symmetric_difference(row)
    estimate = rf"${difference}\pm{reach}$ " if reach else f"${difference}$ " if difference else ""
    verdict = row.verdict or Verdict.IDENTICAL
    sign = _LATEX_VERDICTS.get(verdict, _latex_text(verdict))
    seeds = seeds_range_text(row.seeds_low, row.seeds_high).replace(" to ", "--")
    seeds = f" {seeds}" if seeds else ""
    # A variant of the same composition is named behind the sign for identical.
    if row.same_as is not None:
        sign = (
            f"{sign} " if verdict is not Verdict.IDENTICAL else ""
        ) + f"$=$ {_breakable(row.same_as)}"
    return rf"{{\scriptsize {estimate}{sign}{seeds}}}" + _latex_seeds(row)


_LATEX_VERDICTS = {
    Verdict.BETTER: r"$\uparrow$",
    Verdict.WORSE: r"$\downarrow$",
    Verdict.BETTER_UNDECIDED: r"$\nearrow$",
    Verdict.WORSE_UNDECIDED: r"$\searrow$",
    Verdict.IDENTICAL: r"$=$",
    Verdict.HIGHER: r"$\uparrow$",
    Verdict.LOWER: r"$\downarrow$",
    Verdict.EQUIVALENT: r"$\approx$",
    Verdict.UNDECIDED: r"?",
}


# What a bare article, or a row of a table, takes better than pylatexenc's own.
_OWN = {
    "$": r"{\char36}",  # \$ asks for a font that small installations lack
    "[": "{[}",  # after a line's end, [ and * would be an argument of it
    "*": "{*}",
    "|": r"$|$",
    "\u00d7": r"$\times$",
    "→": r"$\to$",
}


@functools.cache
def _encoder() -> Callable[[str], str]:
    encoder: Callable[[str], str] = UnicodeToLatexEncoder(
        conversion_rules=[
            UnicodeToLatexConversionRule(RULE_DICT, {ord(c): text for c, text in _OWN.items()}),
            "defaults",
        ],
        unknown_char_policy=lambda _: "?",
        unknown_char_warning=False,
    ).unicode_to_latex
    return encoder


def _latex_text(text: str) -> str:
    return _encoder()(" ".join(text.split()))


def _breakable(text: str) -> str:
    """Escape a text that may be broken after the signs that join words in names and paths."""
    return re.sub(r"(\\_|(?<!\\)[/@=])(?=\S)", r"\1\\allowbreak{}", _latex_text(text))
