"""The file of questions, the sentences, the pages, and the commands that print them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from asked import answers, comparison, control, detail, factor, fractional, two_variants

from ablations import cli
from ablations.answers import pages
from ablations.answers.entries import Detail, Entries, Task, read
from ablations.answers.measures import Answers
from ablations.errors import UserError
from ablations.studies import studies

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
FILE = RESULTS / "questions.toml"
STUDIES = {*re.findall(r'^study = "(\w+)"', FILE.read_text(), re.MULTILINE)}
ARCHIVES = [  # of the studies that answer a question
    path
    for path in sorted((RESULTS / "archive").iterdir())
    if path.name.rpartition("-")[0] in STUDIES
]


# Sentences


def made_of(*rows: dict[str, Any], found: Sequence[str] = ()) -> tuple[Answers, Detail]:
    """Return answers with given numbers, and their detail. found: domains of planted losses."""
    usual = {"detail": "a_id", "domain": "land", "note": "", "tasks": "a", "q": 0.01}
    usual |= {"seeds": 10, "seeds_by_task": "10"}
    frame = pd.DataFrame([usual | row for row in rows])
    checks = pd.DataFrame([{"kind": "bug", "domain": d, "control": d, "kept": True} for d in found])
    checks = checks.reindex(columns=["kind", "domain", "control", "kept"])
    asked = detail(comparison())
    entries = Entries((asked,), (Task("a", "land", "a"), Task("b", "sea", "b")))
    return Answers(entries, frame, pd.DataFrame(), checks, {}), asked


BETTER = {"verdict": "better", "share": 0.12, "share_low": 0.06, "share_high": 0.18}
WORSE = {"verdict": "worse", "share": -0.2, "share_low": -0.25, "share_high": -0.14}
EQUAL = {"verdict": "equivalent", "share": 0.019, "share_low": 0.002, "share_high": 0.037}
OPEN = {"verdict": "inconclusive", "share": 0.002, "share_low": -0.0561, "share_high": 0.05}
ON_B = {"domain": "sea", "tasks": "b, c", "seeds": 4, "seeds_by_task": "4"}


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([BETTER], "a higher score on land (+12%, 95% CI 6 to 18; a, 10 seeds). Use it."),
        ([WORSE], "a lower score on land (-20%, 95% CI -25 to -14; a, 10 seeds). Do not use it."),
        (
            [EQUAL],
            "no relevant effect on land (+1.9%, 95% CI 0.2 to 3.7; a, 10 seeds). Keep either.",
        ),
        (
            [OPEN, {**WORSE, **ON_B}],
            "no detectable effect on land (+0%, 95% CI -6 to 5; a, 10 seeds); a lower score on sea "
            "(-20%, 95% CI -25 to -14; b and c, 4 seeds each). Do not use it.",
        ),
        (
            [{**BETTER, **ON_B, "seeds_by_task": "16, 4"}],
            "a higher score on sea (+12%, 95% CI 6 to 18; b and c, 16 and 4 seeds). Use it.",
        ),
        (
            [{**EQUAL, "note": "identical"}],
            "identical runs on land (+1.9%, 95% CI 0.2 to 3.7; a, 10 seeds). Keep either.",
        ),
        (
            [{**OPEN, "note": "tasks disagree: + on a, - on b"}],
            "tasks disagree: + on a, - on b on land (+0%, 95% CI -6 to 5; a, 10 seeds). No "
            "evidence to prefer either.",
        ),
        (
            [{**BETTER, "verdict": "failed", "note": "1 more failed run"}],
            "more failed runs on land (+12%, 95% CI 6 to 18; a, 10 seeds). Do not use it.",
        ),
        ([{"verdict": "", "note": "no runs", "seeds": 0}], "not tested."),
    ],
)
def test_a_sentence_has_each_effect_with_its_interval_and_what_follows(rows, text) -> None:
    assert pages.sentence(*made_of(*rows, found=["land"])) == f"Clipping: {text}"


@pytest.mark.parametrize(
    ("rows", "found", "advice"),
    [
        ([BETTER, {**WORSE, **ON_B}], [], "depends"),
        ([BETTER, {**OPEN, **ON_B}], [], "yes"),
        ([{**BETTER, "q": 0.06}], [], "no evidence"),
        ([{**WORSE, "q": 0.06}, {**EQUAL, **ON_B}], ["sea"], "either"),
        ([EQUAL], ["sea"], "no evidence"),
        ([EQUAL], ["land"], "either"),
        ([OPEN], ["land"], "no evidence"),
    ],
)
def test_advice_needs_an_adjusted_p_or_a_sensitive_domain(rows, found, advice) -> None:
    assert pages.advice(*made_of(*rows, found=found)) == advice


# The file


def test_every_entry_of_the_file_is_unique_and_exists() -> None:
    """A misspelt name would only make a page say that nothing has run."""
    entries = read(FILE)
    assert len(entries.detail) >= 40
    both = [*entries.detail, *entries.control]
    comparisons = [each for detail in entries.detail for each in detail.comparison]
    for values in (
        *([each.label for each in both], [task.name for task in entries.task]),
        *([each.id for each in entries.detail], [each.id for each in comparisons]),
    ):
        assert len(set(values)) == len(values)
    assert max(len(each.label) for each in both) <= 50
    for each in (*comparisons, *entries.control):
        assert len({entries.tasks[name].domain for name in each.tasks}) == 1
        if each.study.endswith("_control"):
            continue  # of the plugin benchmarks/mission_control.py
        study = studies()[each.study]
        assert each.request().profile in study.profiles
        names = {name.partition("@")[0] for name in (each.variant, each.versus) if name}
        assert names <= {name.partition("@")[0] for name in study.variants}, each.id
        factors = {name for variant in study.variants.values() for name in variant.sets}
        assert {*filter(None, each.factor.split(", "))} <= factors, each.id
    for each in comparisons:
        assert (each.factor == "") == (each.variant != "") == (each.versus != "")
        assert each.variant != each.versus or each.factor
        assert not {"tasks", "seeds"} & {*each.run}, "all stored runs count"
        assert not each.range_of or not each.factor
    assert all(re.match("https?://|$", detail.link) for detail in entries.detail)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('label = "Raw advantages"', "", "missing key 'label'"),
        ('terms = ["Brax GAE"', 'words = ["Brax GAE"', "unknown key 'words'"),
        ("[[detail]]", "[[detail", "cannot read"),
    ],
)
def test_a_slip_in_the_file_is_one_line(tmp_path: Path, old, new, error: str) -> None:
    text = FILE.read_text()
    assert old in text
    (tmp_path / "questions.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=error) as raised:
        pages.write(tmp_path)
    assert "\n" not in str(raised.value)


# Pages of made-up runs


def written(folder: Path, made: Answers, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Write the pages of answers, and return the text files by name."""
    monkeypatch.setattr(pages, "read", lambda path: made.entries)
    monkeypatch.setattr(pages, "answer_all", lambda *_: made)
    pages.write(folder)
    return {path.name: path.read_text() for path in folder.rglob("*.*") if path.suffix != ".svg"}


def test_a_page_has_the_numbers_of_the_frame(tmp_path: Path, monkeypatch) -> None:
    scores = two_variants({"walker2d": 20.0, "ant": 10.0}, 40.0)
    sets = {"old": {"clip": "none"}, "new": {"clip": "pessimistic"}}
    asked = detail(comparison())
    made = answers(tmp_path, scores, asked, control("halves", variant="old"), sets=sets)
    texts = written(tmp_path / "out", made, monkeypatch)
    page, index = (" ".join(texts[name].split()) for name in ("a_id.md", "README.md"))
    (row,) = made.frame.to_dict("records")
    assert f"> {pages.sentence(made, asked)}" in page
    for effect in made.effects.to_dict("records"):
        assert re.search(rf"\| {effect['task']} +\|.* {effect['lead']:.1f} ", page)
    assert "less was reached here on walker2d and ant" in page
    assert "| mean over tasks |" in re.sub(" +", " ", page)
    assert "| clip | none | pessimistic |" in page
    assert "[a_label](details/a_id.md)" in index
    assert "1 are open" in index
    assert "on walker2d (10 seeds), ant (10 seeds)" in page
    drawn = {path.name for path in (tmp_path / "out").rglob("*.svg")}
    assert drawn == {"a_id.svg", "all.svg", "a_comparison_curves.svg"}
    stored = pd.read_csv(tmp_path / "out" / "answers.csv")
    assert list(stored.id) == ["a_comparison"]
    for name in ("share", "share_low", "share_high", "p", "q", "sd"):
        assert stored[name][0] == pytest.approx(row[name])


def test_a_page_of_a_fraction_names_its_levels(tmp_path, monkeypatch) -> None:
    scores, sets = fractional(30.0)
    made = answers(tmp_path, scores, factor("first"), sets=sets)
    page = " ".join(written(tmp_path / "out", made, monkeypatch)["a_id.md"].split())
    assert f"(first: on against off; {len(sets)} settings, half with each)" in page


# Commands


@pytest.mark.parametrize(
    ("name", "details", "text"),
    [
        # a library's word
        ("clip_vloss", ["value_clip", "value_clip_unscaled", "discrete_value_clip_averaged"], ""),
        ("brax gae", ["brax_gae"], ""),  # in any case
        ("separate networks", ["shared_torso"], ""),
        ("twice coefficient", [], ""),
        ("q_lambda", ["pqn_lambda"], "a hyperparameter of pqn"),  # a setting too
        ("walker2d", [], ""),
    ],
)
def test_show_lists_the_answers_that_match(name, details, text, tmp_path: Path, capsys) -> None:
    shutil.copy(RESULTS / "answers.csv", tmp_path)
    shutil.copytree(RESULTS / "details", tmp_path / "details")
    code = cli.main(["show", name, "--results", str(tmp_path)])
    out = capsys.readouterr().out
    assert code == (2 if name == "twice coefficient" else 0)
    assert re.findall(r"details/(\w+)\.md", out) == details
    assert text in out


def test_answers_are_found_by_parts_of_the_question_from_anywhere(tmp_path, capsys) -> None:
    assert cli.main(["show", "clipping value loss", "--results", str(tmp_path)]) == 0
    assert "Does clipping the value loss help where rewards are scaled" in capsys.readouterr().out
    assert cli.main(["show", "clip_vlosss", "--results", str(tmp_path)]) == 2
    assert "; no published answer matches 'clip_vlosss'" in capsys.readouterr().err


def test_a_folder_without_questions_has_no_answers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no published answers"):
        pages.write(tmp_path)


# The committed pages


def kept_in(results: Path) -> dict[str, bytes]:
    """What `report --answers` writes, by its path."""
    named = [results / "README.md", results / "answers.csv"]
    paths = [*named, *sorted((results / "details").iterdir())]
    return {str(path.relative_to(results)): path.read_bytes() for path in paths}


@pytest.mark.inputs(
    *(str(path.relative_to(ROOT)) for path in ARCHIVES),
    *("results/questions.toml", "results/details", "results/README.md"),
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


def test_the_readme_says_what_the_table_says() -> None:
    frame = pd.read_csv(RESULTS / "answers.csv")
    row = r"^\| \[.*?\]\(results/details/(\w+)\.md\) \| (.*?) \| (.*?) \|.*$"
    rows = re.findall(row, (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(rows) > 3
    for name, domain, effect in rows:
        own = frame[(frame.detail == name) & (frame.domain == domain)]
        assert pages.percent(own.iloc[0]) == effect, name
