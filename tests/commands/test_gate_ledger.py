"""Many candidates against a moving best: one budget, one file, whatever kills or shares it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace as changed

from ablations.cli import main
from ablations.engine import local
from ablations.errors import UserError
from ablations.gate import ledger as books
from ablations.gate.ledger import Begun, Ended, Estimate, Opening, Version, budget_level
from ablations.private import require_private_folder

ROOT = Path(__file__).parents[2]
IMPORT = "import sys; sys.path.insert(0, '.')\nfrom shift import SHIFT\nimport"
PYTHON = f"{sys.executable} -S -E"
SCORE = """\
import random, sys
seed, gain = int(sys.argv[1]), float((sys.argv + ["0"])[2])
print("score:", 10 + random.Random(seed).gauss(0, 1) + gain
      + random.Random(f"{seed} {gain}").gauss(0, 0.1))
"""
VERSION = Version("0123456789abcdef", ("--lr", "1"), "--lr 1")
TERMS = books.sound_terms(
    {
        **{"run": ("python", "t.py", "{seed}"), "curve": "stdout", "metric": "score", "step": ""},
        **{"better": "higher", "margin": "1", "rate": 0.05, "candidates": 4},
        **{"first_seeds": 3, "most_seeds": 8, "fresh": 3, "futility": 0.1},
        **{"steps": None, "depends": None},
    }
)
NIGHT = Path("night.jsonl")
NEW = ("--margin", "1", "--first-seeds", "3", "--most-seeds", "8", "--candidates", "4")


@pytest.fixture
def ask(folder, capsys, monkeypatch):
    """A gate with the ledger `night.jsonl`: its exit code, what it said, and its JSON if asked."""
    folder.write("score.py", SCORE)
    monkeypatch.setattr("ablations.commands.gating.Processes", local.ThisProcess)

    def ask(*flags: str, words: str = ""):
        command = f"{PYTHON} score.py {{seed}} {words}".split()
        fixed = ["gate", "--ledger", "night.jsonl", "--quiet"]
        metric = [] if "--metric" in flags else ["--metric", "score"]
        code = main([*fixed, *metric, *flags, "--", *command])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        text = re.sub(r"(?m)^(began|ended|program) .*\n", "", said.out + said.err)
        return (code, json.loads(text)) if "json" in flags else (code, text)

    return ask


@pytest.fixture
def opened(ask):
    """A ledger whose first best is the files as they are."""
    assert ask(*NEW)[0] == 0
    assert len(lines()) == 1
    return ask


def lines() -> list[dict]:
    return [json.loads(line) for line in NIGHT.read_text().splitlines()]


def test_the_accepted_is_the_best_with_its_runs(folder, opened, capsys) -> None:
    assert opened() == (
        2,
        "ablations: nothing to compare: these files and arguments are the first best\n",
    )
    assert opened(words="0.01")[0] in (1, 3)
    assert opened(words="3")[0] == 0
    begun, ended = lines()[-2:]
    assert begun["rate"] == pytest.approx(0.05 / 4)
    assert (ended["accepted"], ended["found"]["seeds"] >= 3) == (True, True)
    assert ended["fresh"]["seeds"] == 5
    assert ended["fresh"]["low"] < 3 < ended["fresh"]["high"]
    runs = len(list(folder.results.glob("cells/*")))
    code, told = opened("--format", "json", words="3.1")
    assert (code in (1, 3), told["accepted"], told["best"]) == (True, False, 2)
    assert (told["candidate"], "end" in told) == (3, False)
    assert told["rate"] == pytest.approx(2 * 0.05 / 4), "what was found wins budget back"
    assert len(list(folder.results.glob("cells/*"))) - runs <= 8, "the best's runs are there"
    main(["gate", "--ledger", "night.jsonl"])
    assert re.search(r"\| +2 \| +3 +\| the first +\|.*accepted", capsys.readouterr().out)


@pytest.mark.parametrize("more", [(), ("--depends", ".")])
def test_a_known_candidate_costs_nothing_and_keeps_its_verdict(ask, more) -> None:
    """The ledger is no part of the code that it lies beside."""
    ask(*NEW, *more)
    first, before = ask(words="-2"), NIGHT.read_bytes()
    assert (first[0], ask(words="-2"), NIGHT.read_bytes()) == (1, first, before)


def test_edited_code_is_kept_as_the_best(folder, opened) -> None:
    """The best was never committed, and its file is gone: it runs on from its copy, which lies
    where only the user may write, and is refused where it is not as it was."""
    folder.write("score.py", SCORE.replace("10 +", "14 +"))
    assert opened()[0] == 0
    folder.write("score.py", SCORE.replace("10 +", "9 +"))
    folder.write(f"results/code/{lines()[1]['candidate']['code']}/score.py", "print('score: -99')")
    assert opened()[0] == 1
    assert lines()[-2]["best"] == 1, "compared with the accepted one"
    assert main(["clean", "--yes"]) == 0
    folder.write("score.py", SCORE.replace("10 +", "8 +"))
    assert opened()[0] == 1
    copy = require_private_folder("code") / f"{lines()[1]['candidate']['code']}.tar"
    copy.write_bytes(copy.read_bytes().replace(b"14 +", b"99 +"))
    folder.write("score.py", SCORE.replace("10 +", "11 +"))
    code, said = opened()
    assert (code, "cannot use" in said, said.count("ablations: ")) == (2, True, 1)


def test_a_first_best_that_cannot_run_is_not_booked(folder, ask) -> None:
    folder.write("score.py", "raise SystemExit(7)")
    code, said = ask(*NEW)
    assert (code, "every run of the baseline failed" in said, NIGHT.exists()) == (2, True, False)


def test_a_ledger_that_git_tracks_is_refused(folder, opened) -> None:
    before = NIGHT.read_bytes()
    folder.commit("night.jsonl")
    code, said = opened(words="1")
    assert (code, said.count("\n"), "git tracks the ledger 'night.jsonl'" in said) == (2, 1, True)
    assert NIGHT.read_bytes() == before


def test_the_loop_that_the_page_prescribes(folder, ask) -> None:
    """Its own lines: what git is told to ignore, and how a rejected candidate is put back."""
    page = (ROOT / "docs" / "gate.md").read_text()
    ignore = re.search(r"^printf .* >> \.gitignore$", page, re.M)[0]
    put_back = re.search(r"`(git reset [^`]*)`", page)[1]
    subprocess.run(ignore, shell=True, cwd=folder.path, check=True)
    folder.commit()
    assert ask(*NEW)[0] == 0
    for shift, code in (("8", 1), ("14", 0), ("9", 1)):
        folder.write("shift.py", f"SHIFT = {shift}")
        folder.write("score.py", SCORE.replace("10", "SHIFT").replace("import", IMPORT, 1))
        assert ask()[0] == code
        if code == 0:
            folder.git("add", "-A")
            folder.git("commit", "-qm", "accepted")
            assert ask()[0] == 0, "the same, asked again"
        else:
            before = NIGHT.read_bytes()
            subprocess.run(put_back, shell=True, cwd=folder.path, check=True, capture_output=True)
            assert NIGHT.read_bytes() == before
            assert (folder.path / "shift.py").exists() == (shift == "9")
    assert [line["accepted"] for line in lines() if "end" in line] == [False, True, False]


def test_a_candidate_that_was_killed_goes_on_at_its_rate(opened) -> None:
    assert opened(words="-2")[0] == 1
    whole = NIGHT.read_bytes().splitlines(keepends=True)
    for torn in (b"", b'{"end": 1, "verd'):
        NIGHT.write_bytes(b"".join(whole[:2]) + torn)
        assert (opened(words="-2")[0], NIGHT.read_bytes()) == (1, b"".join(whole))


@pytest.mark.parametrize(
    ("fails", "code", "best", "says"),
    [
        ("seed >= 8 and gain", 3, 0, "withdrawn: on held-out seeds, 5 of 5 runs of the change"),
        ("seed in (8, 9) and gain", 0, 1, "on 3 held-out seeds, +"),
        ("seed >= 8 and not gain", 0, 1, "report no gain"),
    ],
)
def test_fresh_runs_that_fail_give_no_number(folder, ask, fails, code, best, says) -> None:
    folder.write("score.py", SCORE.replace("print", f"if {fails}: sys.exit(7)\nprint"))
    ask(*NEW)
    ended, said = ask(words="3")
    assert (ended, says in said) == (code, True), said
    assert books.read_ledger(NIGHT).best == best
    before = NIGHT.read_bytes()
    again, told = ask("--format", "json", words="3")
    assert (again, told["accepted"], NIGHT.read_bytes()) == (code, not code, before)
    assert told["verdict"] == ("failed" if code else "better")
    assert told["fresh"]["seeds"] == (3 if "on 3" in says else 0)
    assert (told["fresh"]["difference"] is None) == ("on 3" not in says)


def test_two_at_once_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "night.jsonl"
    books.append(path, Opening(3, changed(TERMS, candidates=100), VERSION))

    def begin() -> None:
        for _ in range(10):
            with books.locked(path):
                number = len(books.read_ledger(path).begun) + 1
                books.append(path, Begun(number, VERSION, 0, 0.0005))

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(books.read_ledger(path).begun) == 40


GOOD = [
    to_builtins(Opening(3, TERMS, VERSION)),
    to_builtins(Begun(1, VERSION, 0, 0.0125)),
    to_builtins(
        Ended(
            *(1, "better", True, "better", 0, Estimate(1.0, 0.5, 1.5, 5)),
            Estimate(0.8, None, None, 3),
        )
    ),
]


def write(path: Path, entries: list) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


@pytest.mark.parametrize(
    ("line", "change", "says"),
    [
        (0, {"terms": {**to_builtins(TERMS), "first_seeds": 1}}, "first_seeds"),
        (0, {"best": {**to_builtins(VERSION), "inside": "../../etc"}}, "a folder"),
        (2, {"end": 2}, "candidate 2 never began"),
        (2, {"fresh": {"difference": "x"}}, "fresh"),
    ],
)
def test_damage_is_said_in_a_line_with_its_place(tmp_path, line, change, says) -> None:
    entries = [{**entry, **change} if at == line else entry for at, entry in enumerate(GOOD)]
    with pytest.raises(UserError, match=re.escape(says)) as error:
        books.read_ledger(write(tmp_path / "l", entries))
    assert f"line {line + 1} " in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("data", [b"", b"no ledger", b"[]\n", b"\xff\xfe\n", b"{" * 5000 + b"\n"])
def test_what_is_no_ledger_is_refused(tmp_path, data: bytes) -> None:
    (tmp_path / "l").write_bytes(data)
    with pytest.raises(UserError):
        books.read_ledger(tmp_path / "l")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--margin", "2"), "this ledger has margin 1, not 2"),
        (("--metric", "other"), "this ledger has metric score, not other"),
        (("--noise",), "--noise goes without --ledger"),
    ],
)
def test_what_was_agreed_is_not_changed(opened, flags, says: str) -> None:
    code, said = opened(*flags, words="1")
    assert (code, says in said, said.count("\n")) == (2, True, 1)


def test_levels_are_lond_s() -> None:
    level = partial(budget_level, 0.05, 50)
    cases = [level(1, 0), level(50, 3), level(51, 3), level(50, 10**6)]
    assert cases == pytest.approx([0.001, 0.004, 0, 0.05])
    assert sum(level(j, 0) for j in range(1, 60)) == pytest.approx(0.05)
