"""Tables as text: digits, verdicts, escaping, and the same bytes wherever they are written."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outline import Outline
from synthetic import realistic, synthetic_study

from ablations import Runs, compare, format_table
from ablations.errors import UserError
from ablations.io.export import export
from ablations.spreadsheets import inert
from ablations.tables import FORMATS, TABLES, table_of
from ablations.tables.formats import MINUS, decimals, display, estimate, number, p_value

UNITS = {"reacher": 30.0, "hopper": 2000.0}
NASTY = 'a|b_*c* <b>&"x" 50% $1 #2 {~^} \\end \u00d7é'
NAN = math.nan
WORSE = ["worse (1 more run failed than of base)"]


@pytest.fixture
def table(study) -> pd.DataFrame:
    plan, results = study(
        realistic(),
        units=UNITS,
        failed={("hopper", "done_cut", 2): "loss is not finite"},
        missing=[("reacher", "brax", 7)],
    )
    return table_of(Runs.read(results, plan))


# Numbers


@pytest.mark.parametrize(
    ("value", "low", "high", "places"),
    [
        (-7.4213, -7.61, -7.20, 2),
        (1450.0, 1300.0, 1600.0, 0),
        (0.5, 0.4999, 0.5002, 5),
        (3.0, 3.0, 3.0, 3),
        (12.0, NAN, NAN, 2),
        (0.0, 0.0, 0.0, 2),
        (1e7, NAN, NAN, 0),
    ],
)
def test_digits_follow_the_width_of_the_interval(value, low, high, places) -> None:
    assert decimals(value, low, high) == places


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (number(-0.001, 2), "0.00"),
        (number(-0.001, 2, sign=True), "+0.00"),
        (number(-1234.5, 1), f"{MINUS}1,234.5"),
        (number(-math.inf), f"{MINUS}∞"),
        (number(3.2e18), "3.200e+18"),
        (estimate(1.5, NAN, NAN), "1.500"),
        (estimate(1450, 1300, 1600), "1,450 [1,300, 1,600]"),
        (estimate(0.5, 0.0004, 1.0, sign=True), "+0.5000 [0.0004, 1.0000]"),  # not "[0.0, ..."
        (p_value(0.0121), ".012"),
        (p_value(1e-9), "<.001"),
        (p_value(0.9997), "1"),
        (p_value(0.0497), ".0497"),  # on which side of .05
        (p_value(0.0503), ".050"),
        (p_value(NAN), ""),
    ],
)
def test_numbers_as_they_are_written(written, text) -> None:
    assert written == text


# Formats


def test_a_markdown_table_is_that_of_its_frame(study_runs) -> None:
    base = np.arange(1.0, 9)
    wiggle = 0.001 * np.array([1, -1, 2, -2, 3, -3, 1, -1])
    finals = {
        ("hopper", "base"): base,
        ("hopper", "half"): base / 2,
        ("hopper", "near"): base + 0.1 + wiggle,
        ("hopper", "noise"): base[::-1],
    }
    runs = study_runs(finals, units={"hopper": 10.0}, failed={("hopper", "half", 0): "NaN"})
    text = format_table(table_of(runs), "markdown").replace(MINUS, "-")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1, "it lines up"
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines] == [
        ["task", "variant", "mean [95%]", "effect, % [95%]", "verdict", "seeds", "needs"],
        [mark.ljust(len(mark)) for mark in re.findall("[^|]+", lines[1])],
        ["hopper", "base", "4.5 [2.5, 6.5]", "", "baseline", "8", ""],
        ["", "half", "2.5 [1.5, 3.5]", "-25 [-38, -12]", *WORSE, "7, 1 failed", ""],
        ["", "near", r"4.6 [2.6, 6.6]\*", "+1.00 [0.98, 1.02]", "equivalent", "8", ""],
        ["", "noise", "4.5 [2.5, 6.5]†", "+0 [-54, 54]", "inconclusive", "8", "1,008"],
    ]


def test_columns_are_chosen_by_name_or_all_shown(table) -> None:
    text = format_table(table, "csv")
    chosen = format_table(table, "markdown", columns=["variant", "p", "difference"], caption=False)
    assert re.fullmatch(
        r"\| task +\| variant +\| +p \| +difference \[95%\] \|", chosen.splitlines()[0]
    )
    for form, explained in (("latex", "Needs:"), ("markdown", "Effect:")):
        assert explained in format_table(table, form, columns=["share", "seeds_needed"]), form
        assert "Needs:" not in format_table(table, form, columns=["share"]), form
    assert r"\pm$: half the width" in (by_task := format_table(table, "latex"))
    assert "Needs:" not in by_task
    assert text.splitlines()[0] == ",".join(table.columns)
    with pytest.raises(UserError, match="did you mean 'variant'"):
        format_table(table, "markdown", columns=["variants"])
    with pytest.raises(UserError, match="did you mean 'markdown'"):
        format_table(table, "markdwon")


def test_several_baselines_are_named_and_repetitions_pointed_out(study_runs) -> None:
    finals = {("hopper", v): np.arange(5.0) + (v == "d") for v in "abcde"}
    runs = study_runs(finals, versus={"c": "c", "d": "c"}, same_as={"e": "b"})
    text = format_table(table_of(runs), "markdown")
    assert "against" in text
    assert re.search(r"\| d .*\| c ", text)
    assert re.search(r"\| e .*\| equivalent \(identical to b\)", text)
    assert "against" not in format_table(table_of(study_runs(realistic())), "markdown")


def test_csv_and_json_have_every_column_and_digit(table) -> None:
    read = pd.read_csv(io.StringIO(format_table(table, "csv")))
    texts = {name: table[name].map(inert) for name in ("note", "baseline")}
    kept = [name for name in table if table[name].dtype.kind in "fib"]
    pd.testing.assert_frame_equal(read[kept], table[kept], check_exact=True, check_dtype=False)
    assert list(read.note.fillna("")) == list(texts["note"])
    text = format_table(table, "json")
    assert "NaN" not in text
    assert "Infinity" not in text
    stored = json.loads(text, parse_constant=pytest.fail)
    assert stored["study"] == "gae"
    assert stored["caption"] == table.attrs["caption"]
    assert list(stored["rows"][0]) == list(table)
    rows = pd.DataFrame(stored["rows"])
    for name in ("mean", "difference_low", "p"):
        np.testing.assert_allclose(rows[name].astype(float), table[name], rtol=1e-15)


def test_any_frame_is_a_table() -> None:
    """A triple x, x_low, x_high is one column; a caption needs no study."""
    frame = pd.DataFrame({"name": ["a", "b"], "x": [1.0, NAN], "x_low": [0.5, NAN]})
    frame = frame.assign(x_high=[1.5, NAN], ok=[True, False], n=[3, 4])
    frame.attrs["caption"] = "Numbers."
    for form in FORMATS:
        text = format_table(frame, form)
        assert form in ("csv", "json") or "1.0 [0.5, 1.5]" in text.replace("{[}", "["), form
    assert "Numbers." in format_table(frame, "markdown")


# Escaping


@pytest.fixture
def nasty(study_runs) -> pd.DataFrame:
    finals = {("hop_per & co", v): np.arange(5.0) for v in (NASTY, "[x]", "*y")}
    failed = {("hop_per & co", "[x]", 1): f"broke <b> at {NASTY} <script>alert(1)</script>"}
    return table_of(study_runs(finals, title=NASTY, failed=failed))


def test_html_escapes_names_and_marks_heads_and_verdicts(nasty, table) -> None:
    outline = Outline(format_table(nasty, "html"))
    assert not {"script", "b"} & {*outline.tags}
    assert NASTY in outline.text
    text = format_table(table, "html")
    assert text.count('<th scope="rowgroup"') == text.count("<tbody>") == 3
    assert text.count('<th scope="row">') == len(table)
    assert text.count('<td class="verdict worse">') == (table.verdict == "worse").sum()


def test_names_do_not_break_a_markdown_table(nasty) -> None:
    text = format_table(nasty, "markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert not re.search("<script|<b>", text)


def test_latex_escapes_names_and_balances_braces(nasty, study_runs) -> None:
    text = format_table(nasty, "latex")
    assert r"\textbackslash{}end $\times$é" in text
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    bare = re.sub(r"\\[\\{}&#_%$]", "", body)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[#%~]", bare)
    assert not re.search(r"\\\\\s*[\[*]", body)
    rows = body.partition(r"\midrule")[2].partition(r"\bottomrule")[0].splitlines()
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows if row.endswith(r"\\")} == {1}
    equal = {("task", name): [1.0, 1.0] for name in ("base", "clip", "noclip")}
    by_task = format_table(table_of(study_runs(equal, name="equal")), "latex")
    assert re.search(r"noclip & .*1\.00", by_task), "a column called task has no repeats"
    best = format_table(table_of(study_runs(realistic(), name="two")), "latex")
    assert best.count(r"\textbf") == 3, "of each task and of all"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_compiles_in_a_minimal_article(nasty, table, tmp_path) -> None:
    text = "\n".join(format_table(frame, "latex") for frame in (table, nasty))
    article = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "article.tex").write_text(article + text + "\n\\end{document}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "article.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]


STARTS = ("=", "+", "-", "@", "\t", "\r")
FORMULAS = ('=HYPERLINK("http://a")', "+cmd|' /C calc'!A0", "-GAE", "@SUM(1)", "'=1", "-0.5")


@given(st.text(alphabet="=+-@'\t\r 1.e", max_size=6))
def test_marked_text_is_no_formula(text: str) -> None:
    written = inert(text)
    if written.startswith(STARTS):
        float(written)  # a number


@pytest.mark.parametrize("value", [-1.5, 3, True, None, "-1", "+2.5e-3", "-.5", "gae", "", "a=b"])
def test_numbers_and_other_text_stay(value: object) -> None:
    assert inert(value) is value


def test_no_cell_of_a_file_is_a_formula(study, tmp_path) -> None:
    finals = {("=t", name): [1.0 + k, 2.0, 3.0] for k, name in enumerate(FORMULAS)}
    failed = {("=t", FORMULAS[0], 2): "=reason"}
    plan, results = study(finals, baseline=FORMULAS[2], failed=failed)
    export([plan], results, path := tmp_path / "runs.csv", "csv")
    for text in (path.read_text(), format_table(compare(Runs.read(results, plan)), "csv")):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        for cell in cells:
            if cell.startswith(STARTS):
                float(cell)
        assert {inert(name) for name in FORMULAS} <= set(cells)


# Terminal and summary

LONG = "advantage_statistics=per_group,advantage_scope=minibatch"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("several", [False, True])
def test_no_line_is_too_wide_and_none_loses_its_verdict(tmp_path, width, several) -> None:
    effects = {"base": 0.0, "same": 0.0, "up": 0.5, "down": -0.5, LONG: 0.04, "other": 1e6}
    finals = {
        (task, name): [1.0 + effect + 0.01 * seed for seed in range(8)]
        for task in ("hopper", "inverted_double_pendulum")
        for name, effect in effects.items()
    }
    versus = {"down": "down", LONG: "down"} if several else {}
    failed = {("hopper", "up", 0): "diverged"}
    plan = synthetic_study(tmp_path, finals, versus=versus, failed=failed)
    frame = table_of(Runs.read(tmp_path, plan))
    text = format_table(frame, "terminal", width=width)
    assert max(map(len, text.splitlines())) <= width
    squeezed = re.sub(r"\s", "", text)
    for row in frame[frame.verdict != ""].itertuples():
        assert row.verdict in text
        assert row.variant in squeezed or row.variant[:12] in text
    for numbers in display(frame, columns=["share"]).iloc[:, -1]:
        assert numbers in text, "numbers are never broken"


def test_every_kind_of_table_has_every_format(study_runs) -> None:
    runs = study_runs(realistic(), units=UNITS)
    for kind in TABLES:
        try:
            frame = table_of(runs, kind)
        except UserError:
            continue
        for form in FORMATS:
            assert format_table(frame, form, width=80), (kind, form)
        words = format_table(frame, "terminal", width=80).split()
        assert set(frame.get("variant", ())) <= set(words), f"{kind}: broken names"
        results = {"efficiency": {"steps", "reached"}, "stability": {"collapse", "SD"}}
        assert results.get(kind, set()) <= set(words), kind
