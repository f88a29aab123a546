"""`ablations items`: evaluations with a row per item."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ablations import cli


@pytest.fixture
def ask(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def ask(*words: str) -> tuple[int, str]:
        code = cli.main(["items", *words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out + said.err

    return ask


def csv(name: str, scores, item: str = "item") -> None:
    rows = [f"{item},correct", *(f"q{at},{score}" for at, score in enumerate(scores))]
    Path(name).write_text("\n".join(rows) + "\n")


def row(said: str) -> dict:
    return json.loads(said)["rows"][0]


@pytest.mark.parametrize(
    ("now", "flags", "code", "word"),
    [
        ([1] * 14 + [0] * 26, (), 0, "better"),
        ([0] * 40, ("--margin", "0.1"), 3, "undecided"),
        ([1] * 4 + [0] * 36, (), 0, "identical"),
        ([1] * 4 + [0] * 36, ("--require", "better"), 1, "not better"),
        ([1] * 14 + [0] * 26, ("--better", "lower", "--margin", "0.05"), 1, "worse"),
    ],
)
def test_two_evaluations_are_compared_item_by_item(ask, now, flags, code, word) -> None:
    csv("then.csv", [1] * 4 + [0] * 36)
    csv("now.csv", now)
    asked = ("now.csv", "--against", "then.csv", "--metric", "correct", *flags)
    ended, said = ask(*asked, "--format", "json")
    assert (ended, row(said)["verdict"]) == (code, word)
    assert "McNemar" in ask(*asked)[1]


def test_attempts_are_means_of_their_item_and_clusters_stay_together(ask) -> None:
    lines = [
        {"doc": {"id": i, "repo": f"r{i // 4}"}, "ok": bool((i + a) % 3)}
        for i in range(40)
        for a in range(2)
    ]
    Path("now.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for line in lines:
        line["ok"] = False
    Path("then.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ("--item", "doc.id", "--metric", "ok", "--cluster", "doc.repo")
    code, said = ask("now.jsonl", "--against", "then.jsonl", *words, "--format", "json")
    assert (code, row(said)["items"], row(said)["gained"]) == (0, 40, 40)
    assert "10 clusters" in said
    code, said = ask("now.jsonl", *words)
    assert (code, "over 10 clusters" in said) == (0, True)


def test_a_rate_alone_has_its_exact_interval(ask) -> None:
    csv("now.csv", ["true", "False", "1", "1"])
    code, said = ask("now.csv", "--metric", "correct", "--format", "json")
    assert code == 0
    assert (row(said)["mean"], row(said)["mean_low"]) == (0.75, pytest.approx(0.1941, abs=1e-4))


@pytest.mark.parametrize("margin", ["2", "1", "200%"])
def test_a_margin_that_every_rate_passes_is_refused(ask, margin) -> None:
    csv("then.csv", [1] * 30)
    csv("now.csv", [0] * 30)
    asked = ("now.csv", "--against", "then.csv", "--metric", "correct", "--margin")
    code, said = ask(*asked, margin)
    assert (code, "give 0.02, or 2% of the baseline's mean" in said) == (2, True)
    assert ask(*asked, "2%")[0] == 1
    csv("then.csv", [30] * 30)
    csv("now.csv", [29] * 30)
    assert ask(*asked, "2")[0] == 0


def test_items_of_one_side_are_left_out_with_a_line(ask) -> None:
    csv("then.csv", [1] * 30)
    csv("now.csv", [1] * 33)
    code, said = ask("now.csv", "--against", "then.csv", "--metric", "correct")
    assert (code, "left out: 3 items that one side has alone" in said) == (0, True)


@pytest.mark.parametrize(
    ("content", "words", "says"),
    [
        ("item,correct\na,maybe\n", (), "must be a number, true or false, not 'maybe'"),
        ("item,correct\na,1\n", ("--metric", "right"), "unknown column of 'now.csv' 'right'"),
        ("item,correct\na,1\n", ("--against", "now.csv"), "share 1 of 1 items"),
        ("item,correct\na,1\n", ("--margin", "1"), "nothing to compare"),
        ("", (), "'now.csv' has no rows"),
        ("item,correct\n", (), "'now.csv' has no rows"),
        ("item,correct\na,\nb,\n", (), "must be a number, true or false, not 'nothing'"),
        ("item,correct\n,1\n,1\n", (), "item is empty"),
        (f"item,correct\n{'a' * 50},1\n", (), "give items an id"),
        ("item,correct,g\na,1,x\na,1,y\n", ("--cluster", "g"), "is in two clusters"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(ask, content, words, says) -> None:
    Path("now.csv").write_text(content)
    given = () if "--metric" in words else ("--metric", "correct")
    code, said = ask("now.csv", *given, *words)
    assert (code, says in said, said.count("\n")) == (2, True, 1)
