"""Writes tables as text: one formatter of numbers, one function per format.

The columns `x`, `x_low` and `x_high` of a frame are printed as one column, "x [low, high]". The
frame's `attrs` may have `study`, `kind`, `title`, `caption`, `legend` (column -> a sentence of the
caption that explains it), `notes`, `summary`, the columns that are `shown`, and `unit` ("score" if
shares are in units of the score).
"""

from __future__ import annotations

import html
import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ablations.errors import printable, unknown
from ablations.spreadsheets import inert

MINUS = "\N{MINUS SIGN}"
MOST_DIGITS = 8  # after the point
SIGNED = frozenset({"difference", "share", "effect", "alone", "removed", "interaction", "slope"})
PERCENT = frozenset({"share", "progress", "ceiling", "slope"})
HEADS = {
    "baseline": "against",
    "mean": "mean [95%]",
    "difference": "difference [95%]",
    "share": "effect, % [95%]",
    "raw_difference": "on common seeds [95%]",
    "p_adjusted": "p (adj.)",
    "sd": "SD",
    "steps": "steps [95%]",
    "n": "seeds",
    "lead": "SDs above untrained",
    "progress": "progress, %",
    "ceiling": "at ceiling, %",
    "slope": "slope, %",
    "seeds_needed": "needs",
}
# The columns of a comparison that are printed by default
COMPARISON = ("task", "variant", "baseline", "mean", "share", "verdict", "seeds", "seeds_needed")
KEYS = ("task", "variant", "factor", "detail")  # in every table that has them
HIDDEN = frozenset({"untrained", "best", "tied", "beyond_margin", "level", "note", "kind"})
SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "inconclusive": "?", "failed": "✗"}
STYLES = {
    "better": "green",
    "worse": "red",
    "equivalent": "cyan",
    "inconclusive": "yellow",
    "failed": "magenta",
}
# A narrow terminal omits columns from the right, except the first one and those that begin so.
KEPT = (
    *(*KEYS, "level", "verdict", "effect", "share", "difference"),
    *("steps", "sd", "collapse_rate"),
)
LONGEST_WORD = 26  # that is not broken
FORMATS = ("markdown", "latex", "html", "csv", "json", "terminal")


def format_table(
    frame: pd.DataFrame,
    form: str = "terminal",
    *,
    columns: Sequence[str] = (),
    caption: bool = True,
    width: int | None = None,
) -> str:
    """Write a table as text.

    Args:
        frame: a table of `ablations.tables`, or any frame.
        form: "markdown", "latex" (needs booktabs), "html", "csv", "json" or "terminal". csv and
            json have all columns and all digits.
        columns: the columns to print beside `KEYS`, without _low and _high; default: the most
            important ones.
        caption: write the caption and the notes.
        width: of the terminal, in characters; default: this terminal's.

    Raises:
        UserError: an unknown format or column.
    """
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if form == "csv":
        return _csv(frame)
    if form == "json":
        return _json(frame)
    texts = display(frame, columns)
    about = dict(frame.attrs) if caption else {}
    if form == "latex" and "best" in frame and not columns:
        return _latex(*_by_task(frame, about))
    for name, sentence in about.get("legend", {}).items() if columns else ():
        if name not in columns:
            about["caption"] = about["caption"].replace(f" {sentence}", "")
    heads = _heads(frame, texts)
    if form == "terminal":
        return _terminal(texts, heads, frame, about, width)
    if form == "html":
        return _html(texts.rename(columns=heads), frame, about)
    if "task" in texts:  # only in its first row
        texts = texts.assign(task=texts.task.where(texts.task != texts.task.shift(), ""))
    texts = texts.rename(columns=heads)
    return _latex(texts, about) if form == "latex" else _markdown(texts, about)


# Numbers


def decimals(value: float, low: float = math.nan, high: float = math.nan) -> int:
    """Return the number of decimals that shows an interval's width to two significant digits.

    Without an interval it shows the value to four.
    """
    size, digits = (high - low, 2) if high > low else (abs(value), 4)
    if not size or not math.isfinite(size):
        return 0 if high > low else 2
    return min(MOST_DIGITS, max(0, digits - 1 - math.floor(math.log10(size))))


def number(value: float, places: int | None = None, sign: bool = False) -> str:
    """Write a number; NaN is "", and -0.00 is 0.00."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "\N{INFINITY}" if value > 0 else f"{MINUS}\N{INFINITY}"
    places = decimals(value) if places is None else places
    plus = "+" if sign else ""
    small = places >= MOST_DIGITS and 0 < abs(value) < 10.0**-MOST_DIGITS
    text = f"{value:{plus}.3e}" if abs(value) >= 1e15 or small else f"{value:{plus},.{places}f}"
    if not re.search("[1-9]", text):
        text = text.replace("-", plus)
    return text.replace("-", MINUS)


def estimate(
    value: float,
    low: float = math.nan,
    high: float = math.nan,
    *,
    sign: bool = False,
    places: int | None = None,
) -> str:
    """Write an estimate with its interval, for tables, figures and pages.

    `places` is the number of decimals; default: see `decimals`. More are used if the interval would
    otherwise seem to have no width, or to touch 0 when it does not.
    """
    if math.isnan(low) or math.isnan(high):
        return number(value, places, sign)
    places = decimals(value, low, high) if places is None else places
    places = max(places, min(decimals(value, low, high) - 1, places + 2))
    nearest = max(low, -high) if sign else 0.0
    while 0 < nearest < math.inf and places < MOST_DIGITS and not round(nearest, places):
        places += 1
    return f"{number(value, places, sign)} [{number(low, places)}, {number(high, places)}]"


def p_value(p: float) -> str:
    """Write a p-value as ".012", "<.001" or "1"; four digits if three would hide p < .05."""
    if math.isnan(p):
        return ""
    if p < 0.001:
        return "<.001"
    digits = 3 if (p < 0.05) == (round(p, 3) < 0.05) else 4
    return "1" if p >= 0.9995 else f"{p:.{digits}f}".lstrip("0")


# Display


def display(frame: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return a frame of texts with one column per estimate.

    Raises:
        UserError: an unknown column.
    """
    texts = _texts(frame)
    is_comparison = {"pairs", "verdict", "mean"} <= set(frame)
    if is_comparison:
        texts["seeds"] = [_seeds(row) for row in frame.to_dict("records")]
    for name in columns:
        if name not in texts:
            raise unknown("column", name, list(texts))
    if columns:
        texts = texts[[*(name for name in KEYS if name in texts if name not in columns), *columns]]
    elif is_comparison:
        versus = frame.baseline.where(frame.baseline != frame.variant, "")
        unused = {"baseline"} if versus[versus != ""].nunique() < 2 else set()
        unused |= {"seeds_needed"} if frame.seeds_needed.isna().all() else set()
        shown = [name for name in COMPARISON if name not in unused]
        if frame.share.isna().all() or frame.attrs.get("margin_in_metric"):
            shown = ["difference" if name == "share" else name for name in shown]
        else:  # a task without a learned range has no share
            score = texts.difference.where(texts.difference == "", texts.difference + " (score)")
            texts["share"] = texts.share.where(frame.share.notna(), score)
        texts["baseline"] = versus
        texts = texts[shown]
    else:
        keep = frame.attrs.get("shown") or [name for name in texts if name not in HIDDEN]
        texts = texts[list(keep)]
    return texts


def _heads(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, str]:
    heads = HEADS | ({"share": "share [95%]"} if frame.attrs.get("unit") == "score" else {})

    def head(name: str) -> str:
        text = heads.get(name, str(name).replace("_", " "))
        return text if f"{name}_low" in frame else text.removesuffix(" [95%]")

    return {name: head(name) for name in names}


def _texts(frame: pd.DataFrame) -> pd.DataFrame:
    texts: dict[str, Any] = {}
    parts = {f"{name}{end}" for name in frame for end in ("_low", "_high")}
    for name in (name for name in map(str, frame) if f"{name}_low" in frame or name not in parts):
        column = frame[name]
        if f"{name}_low" in frame:
            texts[name] = _estimates(frame, name)
        elif name == "p" or name.startswith("p_"):
            texts[name] = [p_value(value) for value in column.astype(float)]
        elif name == "verdict":
            texts[name] = [verdict_text(row) for row in frame.to_dict("records")]
        elif name in PERCENT:
            texts[name] = [number(100 * x, 0, name in SIGNED) for x in column.astype(float)]
        elif pd.api.types.is_bool_dtype(column):
            texts[name] = ["yes" if value else "" for value in column]
        elif pd.api.types.is_numeric_dtype(column):
            whole = (column[np.isfinite(column.astype(float))] % 1 == 0).all()
            texts[name] = [number(value, 0 if whole else None) for value in column.astype(float)]
        else:
            texts[name] = column.where(column.notna(), "").map(str)
    if {"best", "tied"} <= set(frame):
        marks = np.where(frame.best, "*", np.where(frame.tied, "†", ""))
        texts["mean"] = [text + mark for text, mark in zip(texts["mean"], marks, strict=True)]
    return pd.DataFrame(texts, index=frame.index)


def _estimates(frame: pd.DataFrame, name: str) -> list[str]:
    scale = 100.0 if name in PERCENT and frame.attrs.get("unit") != "score" else 1.0
    ends = scale * frame[[name, f"{name}_low", f"{name}_high"]].astype(float)
    if not (ends % 1).fillna(0.0).to_numpy().any():  # numbers of seeds
        texts = ends.map(lambda value: number(value, 0)).to_numpy()
        return [f"{text} [{low}, {high}]" if low else text for text, low, high in texts]
    places = pd.Series([decimals(*row) for row in ends.to_numpy()], frame.index)
    tasks = frame["task"] if "task" in frame else pd.Series("", frame.index)
    places = places.where(ends[name].notna()).groupby(tasks).transform("median").fillna(0)
    rows = zip(ends.to_numpy(), places.astype(int), strict=True)
    return [estimate(*row, sign=name in SIGNED, places=digits) for row, digits in rows]


def verdict_text(row: Mapping[Any, Any]) -> str:
    """Write a row's verdict with its note."""
    verdict, note = str(row["verdict"]), str(row.get("note") or "")
    if note == "no runs":
        verdict = ""
    if row.get("untrained"):
        return "untrained"
    if "baseline" in row and row["baseline"] == row["variant"] and not verdict:
        return "baseline"
    if row.get("same_as"):
        note = f"identical to {row['same_as']}"
    return f"{verdict} ({note})" if verdict and note else verdict or note


def _seeds(row: Mapping[Any, Any]) -> str:
    planned = row["n"] + row["failed"] + row["empty"] + row["missing"]
    text = f"{row['n']} of {planned}" if row["missing"] else str(row["n"])
    text += f", {row['failed']} failed" if row["failed"] else ""
    text += f", {row['empty']} without a score" if row["empty"] else ""
    compared = row["verdict"] and row["pairs"] < row["n"]
    return f"{text} ({row['pairs']} pairs)" if compared else text


# Formats


def _csv(frame: pd.DataFrame) -> str:
    safe = frame.map(inert)
    return str(safe.to_csv(index=False, lineterminator="\n")).rstrip("\n")


def _json(frame: pd.DataFrame) -> str:
    """Write numbers that are not finite as null."""
    about = {name: x for name, x in frame.attrs.items() if name not in ("shown", "legend")}
    data = msgspec.json.encode(about | {"rows": frame.to_dict("records")}, enc_hook=np.generic.item)
    return msgspec.json.format(data, indent=1).decode()


def markdown_text(text: str) -> str:
    """Escape a line for Markdown."""
    text = " ".join(text.split())
    for special in "\\`*|":
        text = text.replace(special, "\\" + special)
    text = re.sub(r"\](?=[(\[:])", r"\]", text)  # is not the end of a link
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _markdown(texts: pd.DataFrame, about: Mapping[str, Any]) -> str:
    cells = texts.map(lambda text: markdown_text(str(text)))
    name = f"{about['study']}: " if about.get("study") else ""
    above = _wrapped(f"{name}{about['caption']}") if about.get("caption") else ""
    below = "\n".join(_wrapped(note, "- ") for note in about.get("notes", ()))
    table = pipes(list(cells), cells.to_numpy().tolist())
    return printable("\n\n".join(part for part in (above, table, below) if part))


def pipes(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write an aligned pipe table, with columns of numbers to the right."""
    import tabulate

    right = [_are_numbers([row[i] for row in rows]) for i in range(len(heads))]
    sides = ["right" if is_right else "left" for is_right in right] if rows else None
    return str(tabulate.tabulate(rows, heads, "pipe", disable_numparse=True, colalign=sides))


def _are_numbers(texts: Sequence[str]) -> bool:
    return all(not text or text[0] in f"+{MINUS}-.<0123456789" for text in texts)


def _wrapped(text: str, marker: str = "") -> str:
    return textwrap.fill(
        marker + markdown_text(text),
        100,
        subsequent_indent=" " * len(marker),
        break_long_words=False,
        break_on_hyphens=False,
    )


_LATEX = {
    "\\": r"\textbackslash{}",
    MINUS: "$-$",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": "$|$",
    "[": "{[}",  # after a line break LaTeX would read it as an argument
    "*": "{*}",
    "\N{INFINITY}": r"$\infty$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "→": r"$\to$",
    "†": r"$^\dagger$",
    "▲": r"$\uparrow$",
    "▼": r"$\downarrow$",
    "✗": r"$\times$",
    "\N{EN DASH}": "--",
    **{character: f"\\{character}" for character in "_%&#${}"},
}


def latex_text(text: str) -> str:
    """Escape a text for LaTeX."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _latex(texts: pd.DataFrame, about: Mapping[str, Any], styles: Any = None) -> str:
    label = re.sub(r"[^A-Za-z0-9]+", "-", f"{about.get('study', 'table')}-{about.get('kind', '')}")
    caption = latex_text(about["caption"]) if about.get("caption") else None
    styler = texts.map(latex_text).rename(columns=latex_text).style
    text = styler.apply(lambda _: styles, axis=None) if styles is not None else styler
    text = text.hide(axis="index").to_latex(
        hrules=True,
        caption=caption,
        label=f"tab:{label.strip('-')}" if caption else None,
        position="t",
        position_float="centering",
        column_format="l" * texts.shape[1],
    )
    return "% needs \\usepackage{booktabs}\n" + str(text).rstrip("\n")


def _by_task(
    frame: pd.DataFrame, about: dict[str, Any]
) -> tuple[pd.DataFrame, dict[str, Any], NDArray[np.str_]]:
    """Return a comparison with a column per task: "mean ± half the interval" and the verdict.

    The best means have a bold style.
    """
    texts = []
    for row in frame.itertuples():
        places = decimals(row.mean, row.mean_low, row.mean_high)
        half = number((row.mean_high - row.mean_low) / 2, places)
        text = number(row.mean, places) + (f" ± {half}" if half else "")
        texts.append(f"{text} {SIGNS.get(row.verdict, '')}".strip() if text else "")
    rows, columns = (list(dict.fromkeys(frame[name])) for name in ("variant", "task"))
    both = frame.assign(text=texts).pivot(index="variant", columns="task")
    cells, best = (both[name].reindex(rows, columns=columns) for name in ("text", "best"))
    styles = np.where(best.eq(True), "textbf:--rwrap;", "")
    if about.get("caption"):
        for name in set(about["legend"]) - {"verdict"}:
            about["caption"] = about["caption"].replace(f" {about['legend'][name]}", "")
        signs = ", ".join(f"{sign} {v}" for v, sign in SIGNS.items() if v in set(frame.verdict))
        about["caption"] += " ±: half the width of the interval. Bold: best mean."
        about["caption"] += f" {signs}: the difference to the baseline." if signs else ""
    table = cells.fillna("").reset_index().rename_axis(columns=None)
    return table, about, np.insert(styles, 0, "", axis=1)


def _html(texts: pd.DataFrame, frame: pd.DataFrame, about: Mapping[str, Any]) -> str:
    """Write a table element with rows grouped by task, for the style sheet of a page.

    The first column is the row's header. A verdict's cell has the verdict as its class.
    """
    cells = texts.drop(columns="task", errors="ignore").map(lambda cell: breakable(str(cell)))
    plain = ['<td class="number">' if _are_numbers(list(texts[n])) else "<td>" for n in cells]
    tasks = list(texts["task"]) if "task" in texts else [""] * len(texts)
    words = list(frame["verdict"]) if "verdict" in frame else [""] * len(texts)
    heads = "".join(f'<th scope="col">{html.escape(str(name))}</th>' for name in cells)
    lines = [f"<caption>{html.escape(about['caption'])}</caption>"] if about.get("caption") else []
    lines.append(f"<thead><tr>{heads}</tr></thead>")
    rows = zip(tasks, cells.to_numpy().tolist(), words, strict=True)
    for task, group in itertools.groupby(rows, key=lambda row: row[0]):
        head = f'<th scope="rowgroup" colspan="{cells.shape[1]}">{breakable(task)}</th>'
        lines += ["<tbody>", *([f'<tr class="task">{head}</tr>'] if task else [])]
        for _, (first, *rest), word in group:
            own = {"verdict": f'<td class="verdict {html.escape(word)}">'} if word else {}
            tags = [own.get(name, tag) for name, tag in zip(cells, plain, strict=True)][1:]
            others = (f"{tag}{cell}</td>" for tag, cell in zip(tags, rest, strict=True))
            lines.append(f'<tr><th scope="row">{first}</th>{"".join(others)}</tr>')
        lines.append("</tbody>")
    return "\n".join(['<table class="study-table">', *lines, "</table>"])


def breakable(name: str) -> str:
    """Escape a name for HTML and allow line breaks after @ = / and _."""
    return "<wbr>".join(html.escape(part) for part in re.split(r"(?<=[@=/_])(?=\w)", name))


def _terminal(
    texts: pd.DataFrame,
    heads: Mapping[str, str],
    frame: pd.DataFrame,
    about: Mapping[str, Any],
    width: int | None,
) -> str:
    """Write a table that fits the terminal: the summary first, verdicts in colour."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    room = width or Console().width
    console = Console(width=room + 1, highlight=False)  # the right edge is a space, cut off below
    cells = texts.drop(columns="task", errors="ignore").map(lambda cell: printable(str(cell)))
    tasks = list(texts["task"]) if "task" in texts else [""] * len(frame)
    widths, left_out = _fitted(cells, heads, tasks, room)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name, fixed in widths.items():
        table.add_column(heads[name], overflow="fold", width=fixed)
    verdicts = frame["verdict"] if "verdict" in frame else [""] * len(frame)
    rows = zip(tasks, cells[list(widths)].to_numpy(), verdicts, strict=True)
    for task, group in itertools.groupby(rows, key=lambda row: row[0]):
        if task:
            table.add_section()
            table.add_row(Text(printable(task), "bold"))
        for _, row, verdict in group:
            table.add_row(*map(Text, row), style=STYLES.get(verdict, ""))

    def say(text: str | None, style: str = "") -> None:
        if text:
            console.print(Text(printable(text), style), width=room)

    with console.capture() as printed:
        if title := frame.attrs.get("title"):
            profile = frame.attrs.get("profile")
            title = ": ".join(dict.fromkeys([frame.attrs["study"], title]))
            say(f"{title}, profile {profile}" if profile else title, "bold")
        say(frame.attrs.get("summary"))
        console.print(table)
        omitted = " ".join(left_out[::-1])
        say(omitted and f"omitted here: {omitted}; --columns shows them", "dim")
        for text in (about.get("caption"), *about.get("notes", ())):
            say(text, "dim")
    return "\n".join(map(str.rstrip, printed.get().splitlines())).rstrip("\n")


def _fitted(
    cells: pd.DataFrame, heads: Mapping[str, str], tasks: Sequence[str], width: int
) -> tuple[dict[str, int], list[str]]:
    """Return the columns that fit with their widths, and those that do not."""
    numeric = {name for name in cells if _are_numbers(list(cells[name]))}
    full = {name: max(map(len, [heads[name], *cells[name]])) for name in cells}
    least: dict[str, int] = {}  # widths that break no number, and no word of usual length
    for name in cells:
        words = " ".join([heads[name], *cells[name], *(() if least else tasks)]).split()
        longest = min(LONGEST_WORD, max(map(len, words)))
        least[name] = full[name] if name in numeric else longest

    def spare() -> int:
        return width - sum(least.values()) - 3 * len(least) + 2

    order = [name for name in [*cells][:0:-1] if not name.startswith(KEPT)]
    left_out = [name for name in order if spare() < 0 and least.pop(name, 0)]
    names = [name for name in least if name not in numeric] or list(least)
    for _ in range(-spare()):
        widest = max(names, key=least.__getitem__)
        least[widest] = max(1, least[widest] - 1)
    for name in least:
        least[name] += min(max(0, full[name] - least[name]), max(0, spare()))
    return least, left_out
