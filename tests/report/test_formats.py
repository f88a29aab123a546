"""Tables as text: digits, golden lines, escaping, determinism, a LaTeX run."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas
import pytest
from synthetic import realistic

from ablations.errors import UserError
from ablations.report.formats import FORMATS, render
from ablations.report.formats.numbers import decimals, p_text
from ablations.report.results import Results
from ablations.report.tables import KINDS, sheet, table

UNITS = {"reacher": 30.0, "hopper": 2000.0}
NASTY = 'a|b_*c* <b>&"x" 50% $1 #2 {~^} \\end λ\u00d7é 漢'

GOLDEN = Path(__file__).with_name("golden_table.md")


@pytest.fixture
def made(study):
    plan, results = study(
        realistic(),
        units=UNITS,
        failed={("hopper", "done_cut", 2): "loss is not finite"},
        missing=[("reacher", "brax", 7)],
    )
    return table(Results(plan, results))


@pytest.mark.parametrize(
    ("value", "low", "high", "places"),
    [
        (-7.4213, -7.61, -7.20, 2),
        (1450.0, 1300.0, 1600.0, 0),
        (0.5, 0.4999, 0.5002, 5),
        (3.0, 3.0, 3.0, 3),
        (12.0, None, None, 2),
        (0.0, 0.0, 0.0, 2),
        (1e7, None, None, 0),
    ],
)
def test_digits_follow_the_width_of_the_interval(value, low, high, places) -> None:
    assert decimals(value, low, high) == places


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0121, ".012"),
        (1e-9, "<.001"),
        (1.0, "1"),
        (0.9997, "1"),
        (0.0497, ".0497"),
        (0.0503, ".050"),
        (None, ""),
    ],
)
def test_a_p_value_shows_on_which_side_of_the_level_it_lies(p, text) -> None:
    assert p_text(p) == text


def test_markdown_lines_up_and_reads_as_meant(study) -> None:
    base = np.arange(1.0, 9)
    wiggle = 0.001 * np.array([1, -1, 2, -2, 3, -3, 1, -1])
    finals = {
        ("hopper", "base"): base,
        ("hopper", "half"): base / 2,
        ("hopper", "near"): base + 0.1 + wiggle,
    }
    plan, results = study(finals, units={"hopper": 10.0})
    text = render(table(Results(plan, results)), "markdown")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1
    assert lines == GOLDEN.read_text().splitlines()


def test_markdown_shows_what_is_missing(made) -> None:
    text = render(made, "markdown")
    assert re.search(r"brax .*\| 7 of 8 ", text)
    assert re.search(r"done_cut .*\| 7, 1 failed", text)
    assert re.search(r"undecided \(\d+ to [\d,]+ seeds\)", text)
    assert "- failed: hopper, done_cut, seed 2 at step 200,000: loss is not finite" in text
    assert "all tasks" in text


def test_several_baselines_are_named_on_each_row(study) -> None:
    finals = {("hopper", v): np.arange(5.0) for v in "abcd"}
    plan, results = study(finals, versus={"c": "c", "d": "c"})
    text = render(table(Results(plan, results)), "markdown")
    assert "against" in text
    assert re.search(r"\| d .*\| c ", text)


def test_another_format_is_refused(made) -> None:
    with pytest.raises(UserError, match="did you mean 'markdown'"):
        render(made, "markdwon")


def test_csv_and_json_carry_every_column(made) -> None:
    rows = list(csv.DictReader(io.StringIO(render(made, "csv"))))
    whole = json.loads(render(made, "json"))
    assert len(rows) == len(whole["rows"]) == len(made.rows)
    for row, plain, entry in zip(rows, whole["rows"], made.rows, strict=True):
        assert tuple(row) == tuple(plain) == made.columns
        for name in ("mean", "iqm", "difference_low"):
            value = getattr(entry, name)
            assert (plain[name] is None) == (value is None) == (row[name] == "")
            assert plain[name] is None or plain[name] == pytest.approx(value, rel=1e-9)
        assert row["verdict"] == (entry.verdict or "")
    frame = pandas.read_csv(io.StringIO(render(made, "csv")))
    pandas.testing.assert_series_equal(frame["difference"], made.dataframe()["difference"])


def test_same_records_same_bytes_in_any_process_and_order(study) -> None:
    plan, results = study(realistic(), units=UNITS)
    shuffled = list(plan.cells)
    random.Random(0).shuffle(shuffled)
    again = dataclasses.replace(plan, cells=tuple(shuffled))
    program = (
        "import sys; from pathlib import Path; from ablations.records import read_plan;"
        "from ablations.report.formats import render; from ablations.report.tables import table;"
        "from ablations.report.results import Results;"
        "folder = Path(sys.argv[1]);"
        "made = table(Results(read_plan(folder, 'gae'), folder));"
        f"print('\\f'.join(render(made, f) for f in {list(FORMATS)!r}), end='')"
    )
    here = "\f".join(render(table(Results(again, results)), format) for format in FORMATS)
    there = subprocess.run(
        [sys.executable, "-c", program, str(results)],
        capture_output=True,
        env=os.environ | {"PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"},
        check=True,
    )
    assert there.stdout.decode() == here
    assert str(results) not in here
    assert "node" not in here


class Reader(HTMLParser):
    """Collects tags and text, and fails on anything that does not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data


def nasty_table(study):
    finals = {("hop_per & co", v): np.arange(5.0) for v in (NASTY, "[x]", "*y")}
    plan, results = study(
        finals,
        title=NASTY,
        claim=f"{NASTY} <script>alert(1)</script>",
        failed={("hop_per & co", "[x]", 1): f"broke <b> at {NASTY}"},
    )
    return table(Results(plan, results))


def test_names_are_escaped_in_html(study) -> None:
    reader = Reader()
    reader.feed(render(nasty_table(study), "html"))
    assert not reader.open
    assert not reader.tags & {"script", "b"}
    assert NASTY in reader.text
    assert "<script>alert(1)</script>" in reader.text


def test_names_do_not_break_a_markdown_table(study) -> None:
    text = render(nasty_table(study), "markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert "<script" not in text
    assert "<b>" not in text


def test_latex_is_plain_ascii_with_balanced_braces_and_escaped_names(study) -> None:
    text = render(nasty_table(study), "latex")
    assert text.isascii()
    assert r"\ensuremath{\lambda}$\times$\'e ?" in text
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    bare = re.sub(r"\\[\\{}&#_%]", "", body)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[#%~]", bare)
    assert not re.search(r"\\\\\s*[\[*]", body)
    rows = body.partition(r"\midrule")[2].partition(r"\bottomrule")[0].splitlines()
    counts = {len(re.findall(r"(?<!\\)&", row)) for row in rows if row.endswith(r"\\")}
    assert counts == {1}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_compiles_in_a_minimal_article(study, made, tmp_path: Path) -> None:
    sets = {
        f"{torso}_{c}": {"value_coefficient": c, "torso": torso}
        for torso in ("separate", "shared")
        for c in (0.25, 0.5)
    }
    finals = {
        (task, name): values
        for ((task, _), values), name in zip(realistic().items(), list(sets) * 2, strict=True)
    }
    plan, results = study(finals, name="factorial", units=UNITS, sets=sets)
    sheets = [sheet(kind, Results(plan, results)) for kind in KINDS]
    text = "\n".join(render(one, "latex") for one in (made, nasty_table(study)))
    text += "\n".join(render(one, "latex") for one in sheets)
    article = "\\documentclass{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "article.tex").write_text(article + text + "\n\\end{document}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "article.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "article.pdf").stat().st_size > 1000
