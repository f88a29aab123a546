"""The file of questions, the sentences, the pages, and the commands that print them."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from asked import answers, around, control, question, two_variants

from ablations import cli
from ablations.answers import pages
from ablations.answers.entries import Exam, Task, read
from ablations.answers.measures import Answers
from ablations.io.archives import restore

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
FILE = RESULTS / "questions.toml"
PAGES = [RESULTS / "README.md", *sorted((RESULTS / "questions").glob("*.md"))]
STUDIES = {*re.findall(r'^(?:study|other_design) = "(\w+)"', FILE.read_text(), re.MULTILINE)}
ARCHIVES = [  # of the studies that answer a question
    path
    for path in sorted((RESULTS / "archive").iterdir())
    if path.name.rpartition("-")[0] in STUDIES
]
EFFECT = {"share": 0.12, "share_low": 0.06, "share_high": 0.18}
AROUND_0 = {"share": 0.002, "share_low": -0.0561, "share_high": 0.05}


# Sentences


@pytest.mark.parametrize(
    ("verdict", "note", "more", "text"),
    [
        ("better", "", EFFECT, "Clipping raises the score: +12% [6, 18]"),
        (
            "worse",
            "",
            {"share": -0.2, "share_low": -0.25, "share_high": -0.14},
            "Clipping lowers the score: -20% [-25, -14]",
        ),
        (
            "equivalent",
            "",
            {"share": 0.019, "share_low": 0.002, "share_high": 0.037},
            "No relevant effect: +1.9% [0.2, 3.7], within ±5%",
        ),
        ("equivalent", "identical", EFFECT, "No effect: the runs are identical"),
        (
            "inconclusive",
            "",
            AROUND_0 | {"seeds_to_detect": 1160.0},
            "No effect found (+0%, 95% CI -6 to 5); 1,160 seeds would detect an effect of 5%",
        ),
        ("inconclusive", "", AROUND_0, "No effect found (+0%, 95% CI -6 to 5)"),
        (
            "inconclusive",
            "more seeds alone would not decide",
            AROUND_0,
            "No effect found (+0%, 95% CI -6 to 5); more seeds alone would not decide",
        ),
        (
            "inconclusive",
            "tasks disagree: + on a, - on b",
            AROUND_0,
            "The tasks disagree: + on a, - on b (+0%, 95% CI -6 to 5)",
        ),
        ("inconclusive", "one seed", {"share": 0.6}, "Inconclusive: +60.00%, one seed"),
        (
            "inconclusive",
            "1 more failed run without the change",
            EFFECT,
            "Inconclusive: +12% [6, 18], 1 more failed run without the change",
        ),
        (
            "failed",
            "1 more failed run with the change",
            EFFECT,
            "Clipping makes more runs fail: 1 more failed run with the change; +12% [6, 18]",
        ),
        ("", "no runs", {"seeds": 0}, "Not answered yet: no runs"),
    ],
)
def test_a_sentence_has_the_verdict_and_its_bounds(verdict, note, more, text: str) -> None:
    row = {"verdict": verdict, "note": note, "seeds": 10, "seeds_to_detect": math.nan} | more
    assert pages.sentence(question(), row) == text


# The file


def test_every_comparison_of_the_file_exists_and_has_a_short_label() -> None:
    entries = read(FILE)
    assert len(entries.question) >= 100
    both = [*entries.question, *entries.control]
    assert len({each.label for each in both}) == len(both)
    assert max(len(each.label) for each in both) <= 50
    for each in entries.question:
        assert not re.match(r"(Raw|Targets|Rewards|Timeouts|\w+ed) ", each.change), each.change


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('factor = "advantage"', 'variant = "brax"', "needs either factor, or variant and versus"),
        ('id = "gae_lambda"', 'id = "brax_gae"', "has the id 'brax_gae' twice"),
        ('other_design = "what_matters_discrete"', 'other_design = "q_learning"', "unknown factor"),
        (
            'run = { profile = "evidence" }\nterms',
            'run = { profile = "evidence", seeds = 3 }\nterms',
            "must not select tasks or seeds",
        ),
        (
            'link = "https',
            'link = "javascript',
            "question 'brax_gae': link: expected a text that is a web",
        ),
        ("floor = 30", "floor = nan", "task 'walker2d': exam.floor: expected a number >="),
        ('kind = "halves"', 'kind = "planted"', "control 'same': kind 'planted' needs another"),
    ],
)
def test_a_slip_in_the_file_is_one_line(tmp_path: Path, capsys, old, new, error: str) -> None:
    text = FILE.read_text()
    assert old in text
    count = -1 if old == "[[control]]" else 1
    (tmp_path / "questions.toml").write_text(text.replace(old, new, count))
    assert cli.main(["report", "--answers", "--results", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1


def test_the_validation_is_the_one_that_was_run() -> None:
    printed = (RESULTS / "reference" / "exam" / "README.md").read_text()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in printed.splitlines()
        if "|" in line
    ]
    tasks = read(FILE).task
    for task in tasks:
        assert task.exam is not None
        mine = [row for row in rows if row[0] in (task.column, "")]
        after = [rows[k : k + 2] for k, row in enumerate(rows) if row[0] == task.column]
        floors = {  # (zero), (uniform); (start)
            max(float(row[3]) for row in two if row[-1] == "learns nothing") for two in after
        }
        assert task.exam.floor in floors
        lead, score = f"{task.exam.lead:.1f}", f"{task.exam.score:g}"
        assert any(row[3] == score and row[5] == lead for row in mine if len(row) > 5), task
    assert {task.name for task in tasks if not task.range} == {"hopper"}


# Pages of made-up runs


def written(folder: Path, made: Answers, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Write the pages of answers, and return the text files by name."""
    monkeypatch.setattr(pages, "read", lambda path: made.entries)
    monkeypatch.setattr(pages, "answer_all", lambda *_: made)
    pages.write(folder)
    return {path.name: path.read_text() for path in folder.rglob("*.*") if path.suffix != ".svg"}


def test_a_page_has_the_numbers_of_the_frame(tmp_path: Path, monkeypatch) -> None:
    scores = two_variants({"walker2d": 20.0, "ant": 10.0}, 40.0)
    made = answers(tmp_path, scores, question(), control("halves", variant="old"))
    texts = written(tmp_path / "out", made, monkeypatch)
    page, index = (" ".join(texts[name].split()) for name in ("a_id.md", "README.md"))
    (row,) = made.frame.to_dict("records")
    assert f"**{pages.sentence(question(), row)}.**" in page
    for effect in made.effects.to_dict("records"):
        assert re.search(rf"\| {effect['task']} +\|.* {effect['lead']:.1f} ", page)
    assert "less was reached here on walker2d and ant" in page
    assert "| mean over tasks |" in re.sub(" +", " ", page)
    assert "[a_label](questions/a_id.md)" in index
    assert "1 inconclusive." in index
    assert "walker2d (10 seeds), ant (10 seeds)" in index
    assert {"a_id.svg", "all.svg"} == {p.name for p in (tmp_path / "out").rglob("*.svg")}
    stored = pd.read_csv(tmp_path / "out" / "answers.csv")
    assert list(stored.id) == ["a_id"]
    for name in ("share", "share_low", "share_high", "p", "q", "sd"):
        assert stored[name][0] == pytest.approx(row[name])


def test_an_overview_has_each_answer_by_group_and_effect(tmp_path: Path, monkeypatch) -> None:
    scores = {("walker2d", "old"): around(100)}
    gains = {"even": 0.0, "up": 20.0, "down": -20.0, "wide": 3.0}
    for k, (name, gain) in enumerate(gains.items()):
        spread = 40.0 if name == "wide" else 1.0
        scores["walker2d", name] = around(100 + gain, spread, 10, k + 1)
    about = {"tasks": ("walker2d",)}
    asked = [question(id=n, label=n, variant=n, **about) for n in gains]
    asked[2] = question(id="down", label="down", variant="down", group="other", **about)
    drawn: dict[int, pd.DataFrame] = {}
    forest = pages.figures.forest
    monkeypatch.setattr(
        pages.figures,
        "forest",
        lambda f, **k: drawn.setdefault(len(drawn), f) is f and forest(f, **k),
    )
    written(tmp_path / "out", answers(tmp_path, scores, *asked), monkeypatch)
    assert list(drawn[0].label) == ["up", "wide", "even", "down"]
    assert list(drawn[0].verdict) == ["better", "inconclusive", "equivalent", "worse"]
    assert list(drawn[1].label) == ["up", "even", "down"]


HOSTILE = "<script>{0}</script> [c](javascript:{0}) [x]: y | `{0}` ![i](x) <img src=x>"


def test_no_text_of_the_file_becomes_html_or_a_link(tmp_path: Path, monkeypatch) -> None:
    texts = ("label", "group", "question", "sentence", "source", "published", "change", "note")
    named = {name: HOSTILE.format(name) for name in texts} | {"label": "<b>[l](x)</b>"}
    asked = question(link='https://x.y/) <script>"onmouseover="', terms=(HOSTILE,), **named)
    exam = Exam(0.0, 100.0, 9.0, 100.0, 0.0, HOSTILE)
    tasks = {name: Task(name, HOSTILE, exam) for name in ("walker2d", "ant")}
    made = answers(tmp_path, two_variants({"walker2d": 20.0, "ant": 20.0}), asked, tasks=tasks)
    texts_of = written(tmp_path / "out", made, monkeypatch)
    for name in ("README.md", "a_id.md"):
        text = re.sub(r"```.*?```", "", texts_of[name], flags=re.DOTALL)
        assert not re.search(r"<[A-Za-z/!?]", text), name
        links = re.findall(r"(?<!\\)\]\(([^)]*)\)", text)
        assert links
        assert not [link for link in links if "javascript" in link or " " in link], name
    link = "(https://x.y/%29%20%3Cscript%3E%22onmouseover=%22)"
    assert link in texts_of["a_id.md"]


# Commands


@pytest.mark.parametrize(
    ("name", "count", "text"),
    [
        ("clip_vloss", 6, ""),  # a library's word
        ("discount", 3, "a number of ppo"),  # a setting too
        ("huber", 2, ""),  # a variant of several studies
    ],
)
def test_show_lists_the_answers_that_match(name, count, text, tmp_path: Path, capsys) -> None:
    shutil.copy(FILE, tmp_path)
    assert cli.main(["show", name, "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count(str(tmp_path / "questions")) == out.count("Not answered yet") == count, out
    assert text in out


def test_pages_without_archives_say_so_of_every_question(tmp_path: Path, capsys) -> None:
    shutil.copy(FILE, tmp_path)
    assert cli.main(["report", "--answers", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [
        str(tmp_path / name) for name in ("README.md", "answers.csv")
    ]
    entries = read(FILE)
    for each in entries.question:
        page = (tmp_path / "questions" / f"{each.id}.md").read_text()
        assert "**Not answered yet: no runs.**" in page
    index = (tmp_path / "README.md").read_text()
    assert index.count("no runs") == len(entries.question) + len(entries.control)
    assert pd.read_csv(tmp_path / "answers.csv").verdict.isna().all()


# The committed pages


def kept_in(results: Path) -> dict[str, bytes]:
    """What `report --answers` writes, by its path."""
    named = [results / "README.md", results / "answers.csv"]
    paths = [*named, *sorted((results / "questions").iterdir())]
    return {str(path.relative_to(results)): path.read_bytes() for path in paths}


@pytest.mark.inputs(
    *(str(path.relative_to(ROOT)) for path in ARCHIVES),
    *("results/questions.toml", "results/questions", "results/README.md"),
    *("results/answers.csv", "ablations/*.py", "ablations/core", "ablations/io"),
    *("ablations/answers", "ablations/stats", "ablations/tables", "ablations/figures"),
    *("ablations/studies", "ablations/commands"),
)
def test_the_pages_are_regenerated_from_the_archives_without_jax(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    for path in ARCHIVES:
        shutil.copy(path, tmp_path / "archive")
    shutil.copy(FILE, tmp_path)
    script = (
        "import sys; sys.modules['jax'] = sys.modules['brax'] = None\n"
        "from ablations.cli import main\n"
        f"sys.exit(main(['report', '--answers', '--results', {str(tmp_path)!r}]))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    made, kept = kept_in(tmp_path), kept_in(RESULTS)
    assert list(made) == list(kept), "`ablations report --answers`, and remove pages of no question"
    for name, text in made.items():
        assert text == kept[name], f"results/{name}: `ablations report --answers`"


def test_a_learned_range_of_twice_the_size_halves_each_effect(tmp_path: Path) -> None:
    """An answer that did not come from the stored runs would stay."""
    (tmp_path / "archive").mkdir()
    for path in (RESULTS / "archive").glob("what_matters-*"):
        shutil.copy(path, tmp_path / "archive")
    restore(tmp_path)
    wide = FILE.read_text().replace("floor = 30", "floor = -140", 1)
    (tmp_path / "wide.toml").write_text(wide)
    shares = []
    for path in (tmp_path / "wide.toml", FILE):
        entries = read(path)
        asked = tuple(each for each in entries.question if each.id == "discount")
        made = pages.answer_all(tmp_path, pages.Entries(asked, entries.task))
        shares.append(made.frame[["share", "share_low", "share_high"]].to_numpy()[0])
    assert 2 * shares[0] == pytest.approx(shares[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_pages_lead_somewhere(page: Path) -> None:
    links = [t for t in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()) if "://" not in t]
    assert links
    for target in links:
        assert (page.parent / target).exists(), target
    assert page == PAGES[0] or f"(questions/{page.name})" in PAGES[0].read_text()


def test_numbers_of_the_pages_are_those_of_the_csv() -> None:
    frame = pd.read_csv(RESULTS / "answers.csv")
    assert len(frame) == len(PAGES) - 1
    for row in frame.to_dict("records"):
        page = (RESULTS / "questions" / f"{row['id']}.md").read_text()
        assert math.isnan(row["share"]) or pages.percent(row).partition("%")[0] in page, row["id"]
