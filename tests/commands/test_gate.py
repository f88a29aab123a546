"""The gate: what it decides and with which exit code, at which cost, and how often it is wrong."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from ablations import gate, looks
from ablations.cli import main
from ablations.noise import Noise, noise_sheet, smallest_margin
from ablations.report.statistics import compare, compare_unpaired
from ablations.sweep import local

PYTHON = f"{sys.executable} -S -E"
# The result: seed's noise, which both sides share, and a part of either's own; and what is asked.
SCORE = """\
import random, sys
seed, shift, noise = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
own = random.Random(f"{seed} {shift}").gauss(0, 1)
print("some words"); print("score:", 10 + random.Random(seed).gauss(0, 1) + shift + noise * own)
"""


@pytest.fixture
def ask(folder, capsys, monkeypatch):
    """The command line, whose runs are in this process; its exit code and what it said."""
    folder.write("score.py", SCORE)
    monkeypatch.setattr("ablations.cli.gating.Processes", local.ThisProcess)

    def ask(*flags: str, command: str = f"{PYTHON} score.py {{seed}} 0 0.1") -> tuple[int, str]:
        fixed = ["gate", "--metric", "score", "--first-seeds", "3"]
        words = [*fixed, *flags, "--quiet", "--", *command.split()]
        code = main(words)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out + said.err

    return ask


def git(folder, *arguments: str) -> None:
    who = ("-c", "user.name=me", "-c", "user.email=me@here")
    subprocess.run(["git", *who, *arguments], cwd=folder.path, check=True, capture_output=True)


def told(folder) -> dict:
    return json.loads((folder.results / "gates" / "gate.json").read_text())


def test_two_sets_of_arguments(folder, ask) -> None:
    """`--against` says what the baseline has more; here it stands in for what is empty."""
    folder.write("score.py", SCORE.replace("sys.argv[2]", "(sys.argv + ['0'])[4]"))
    command = f"{PYTHON} score.py {{seed}} 0 0.1"
    code, said = ask("--against", "-2", "--margin", "0.5", command=command)
    assert code == 0
    assert told(folder)["verdict"] == "better"
    assert f"gate: better: score {told(folder)['looks'][-1]['difference']:+.4g}" in said
    cells = len(list(folder.results.glob("cells/*")))
    assert cells == 6, "three seeds of either were enough"
    code, _ = ask("--against", "2", "--margin", "0.5", command=command)
    assert code == 1
    assert told(folder)["verdict"] == "worse"
    again, _ = ask("--against", "2", "--margin", "0.5", command=command)
    assert again == 1
    assert len(list(folder.results.glob("cells/*"))) == 9, "the change's runs are shared"


def test_a_commit_and_the_files_as_they_are(folder, ask) -> None:
    git(folder, "init", "-q")
    folder.write(".gitignore", "results/\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "before")
    code, said = ask("--baseline", "HEAD", "--margin", "5%")
    assert code == 2
    assert "nothing to compare" in said
    folder.write("score.py", SCORE.replace("10 +", "8 +"))
    code, said = ask("--baseline", "HEAD", "--margin", "5%")
    assert code == 1, said
    found = told(folder)
    assert found["looks"][-1]["difference"] == pytest.approx(-2)
    assert found["margin"] == pytest.approx(0.5, abs=0.1)
    assert found["margin_of"] == "5% of the baseline's mean"
    git(folder, "commit", "-qam", "the change")
    before = set(folder.results.glob("cells/*"))
    folder.write("score.py", SCORE)
    code, said = ask("--baseline", "HEAD", "--margin", "5%")
    assert code == 0, said
    assert set(folder.results.glob("cells/*")) == before, "either side ran before, the other way"
    folder.write("score.py", SCORE + "# a comment\n")
    git(folder, "commit", "-qam", "back")
    folder.write("score.py", SCORE + "# another comment\n")
    code, said = ask("--baseline", "HEAD", "--margin", "5%")
    assert code == 0
    assert told(folder)["verdict"] == "identical"
    code, said = ask("--baseline", "HEAD", "--margin", "5%", "--require", "better")
    assert code == 1
    assert told(folder)["verdict"] == "not better"


def test_what_noise_hides_stays_undecided(folder, ask) -> None:
    command = f"{PYTHON} score.py {{seed}} 0.01 50"
    folder.write("score.py", SCORE.replace("sys.argv[2])", "sys.argv[-1]) / 100"))
    flags = ("--against", "3", "--margin", "1", "--most-seeds", "8")
    code, said = ask(*flags, "--futility", "0", command=command)
    assert (code, told(folder)["verdict"]) == (3, "undecided"), said
    assert [one["seeds"] for one in told(folder)["looks"]] == [3, 5, 8]
    code, said = ask(*flags, command=command)
    assert (code, told(folder)["verdict"]) == (3, "futile"), "no later look could pass"
    assert told(folder)["looks"][-1]["chance"] < told(folder)["futility"] == 0.1
    assert "is left" in said


def test_a_change_that_fails_is_no_pass(folder, ask) -> None:
    body = "import sys\nif int(sys.argv[1]) in {bad} and len(sys.argv) == 4: sys.exit(7)\n"
    folder.write("score.py", body.format(bad=(0, 1, 2)) + SCORE)
    code, said = ask("--against", "x", "--margin", "50%")
    assert code == 1
    assert "3 of 3 runs of the change failed (the command ended with exit code 7)" in said
    folder.write("score.py", body.format(bad=(1,)) + SCORE)
    code, said = ask("--against", "x", "--margin", "50%", "--most-seeds", "3")
    assert code == 3
    assert told(folder)["verdict"] == "unstable"
    folder.write("score.py", body.format(bad=(1,)).replace("== 4", "== 5") + SCORE)
    code, said = ask("--against", "x", "--margin", "50%", "--most-seeds", "3")
    assert "; 1 of 3 runs of the baseline failed" in said
    folder.write("score.py", "import sys\nsys.exit(len(sys.argv) == 5)\n" + SCORE)
    code, said = ask("--against", "x", "--margin", "50%")
    assert code == 2
    assert "every run of the baseline failed" in said
    assert "`ablations status gate` shows what it printed" in said


def test_help_shows_shares_as_they_are_typed(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["gate", "--help"])
    said = capsys.readouterr().out
    assert "2% of what the baseline learned" in " ".join(said.split())
    assert "%%" not in said


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--margin", "2%"), "nothing to compare: name a commit"),
        (("--margin", "much", "--against", "1"), "a margin is such as 2%"),
        (("--margin", "0", "--against", "1"), "a margin is such as 2%"),
        (("--margin", "2%", "--against", "1", "--rate", "70%"), "a rate is such as 5%"),
        (("--margin", "2%", "--against", "1", "--first-seeds", "40"), "--first-seeds to"),
        (("--margin", "2%", "--baseline", "main"), "is in no git repository"),
        (("--margin", "2%", "--against", "'"), "--against cannot be split"),
        (("--margin", "2%", "--against", "1", "--curve", "log.csv"), "would write one file"),
        (("--against", "1"), "--margin"),
    ],
)
def test_bad_questions_are_refused_in_a_line(folder, ask, flags, says: str) -> None:
    code, said = ask(*flags)
    assert code == 2
    assert says in said
    assert said.count("\n") == 1


def test_an_unknown_commit_is_said(folder, ask) -> None:
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "before")
    code, said = ask("--margin", "2%", "--baseline", "mian")
    assert code == 2
    assert "there is no commit 'mian'" in said


def test_words_follow_the_interval() -> None:
    def word(low: float, high: float, **how) -> str:
        middle = compare([1.0, 2.0], [0.0, 0.0])
        found = dataclasses.replace(middle, difference=(low + high) / 2, low=low, high=high)
        return gate.judged(found, 1.0, **{"last": False, **how})

    assert word(0.1, 9) == "better"
    assert word(-0.9, 0.5) == "no worse"
    assert word(-0.9, -0.1) == "no worse", "a loss within the margin does not matter"
    assert word(-3, -1.1) == "worse"
    assert word(-3, -0.1) == "undecided"
    assert word(-3, -0.1, last=True) == "worse"
    assert word(-3, 3, last=True) == "undecided"
    assert word(-0.9, 0.9, better=True) == "not better"
    assert word(-0.9, 1.1, better=True) == "undecided"
    assert word(0.1, 0.2, better=True) == "better"


@pytest.mark.parametrize(
    ("effect", "wrong", "better"),
    [(0.0, ("worse",), False), (-1.0, ("better", "no worse"), False), (0.0, ("better",), True)],
)
def test_it_is_wrong_as_rarely_as_it_says(effect: float, wrong, better: bool) -> None:
    """400 gates on paired normal returns, at 5%: 35 false ones or more come by chance once in
    1,000 tests."""
    rng = np.random.default_rng(0)
    design = looks.design(looks.planned(5, 18), 2 * 0.05)
    mistakes = 0
    for _ in range(400):
        differences = effect + rng.normal(size=18)

        def word(n: int, level: float, of=differences) -> str:
            found = compare(of[:n], np.zeros(n), level=level)
            return gate.judged(found, 1.0, last=n == 18, better=better)

        mistakes += looks.read(design, 18, word, "undecided".__ne__) in wrong
    assert mistakes < 35


@pytest.mark.parametrize("value", ["nan", "NaN", "Infinity", "-inf"])
def test_a_change_that_prints_no_finite_number_fails(ask, folder, value: str) -> None:
    folder.write(
        "t.py",
        "import sys; print('score:', sys.argv[1] if '--good' in sys.argv else VALUE)".replace(
            "VALUE", repr(value)
        ),
    )
    code, said = ask("--against", "--good", "--margin", "5%", command=f"{PYTHON} t.py {{seed}}")
    assert (code, "3 of 3 runs of the change failed" in said) == (1, True)
    assert "score is no finite number" in said


@pytest.mark.parametrize(
    ("now", "says"),
    [("1,205,000", "worse"), ("12,050", "fails"), ("98%", "fails"), ("1'234", "fails")],
)
def test_numbers_with_thousands_are_no_smaller_ones(ask, folder, now: str, says: str) -> None:
    folder.write(
        "t.py", f"import sys; print('score:', '1,290,000' if '--good' in sys.argv else {now!r})"
    )
    code, said = ask("--against", "--good", "--margin", "1%", command=f"{PYTHON} t.py {{seed}}")
    assert (code, says in said) == (1, True)


# Repeats of a command without {seed}

REPEAT = """\
import sys
print("score:", 10 + float(sys.argv[1]) + int.from_bytes(open("/dev/urandom", "rb").read(1)) / 2560)
"""


@pytest.mark.parametrize(("shift", "code", "word"), [("-2", 0, "better"), ("2", 1, "worse")])
def test_a_command_without_a_seed_is_repeated(folder, ask, shift, code, word) -> None:
    folder.write("score.py", REPEAT.replace("sys.argv[1]", "(sys.argv + ['0'])[1]"))
    flags = ("--against", shift, "--margin", "0.5")
    ended, said = ask(*flags, command=f"{PYTHON} score.py")
    assert (ended, told(folder)["verdict"], told(folder)["paired"]) == (code, word, False)
    assert "on 3 unpaired runs" in said
    assert len(list(folder.results.glob("cells/*"))) == 6
    ask(*flags, command=f"{PYTHON} score.py")
    assert len(list(folder.results.glob("cells/*"))) == 6, "runs that are there are not repeated"


@pytest.mark.parametrize(("n", "m"), [(5, 5), (3, 12), (30, 2)])
def test_unpaired_runs_are_compared_as_welch_does(n: int, m: int) -> None:
    random = np.random.default_rng(n)
    a, b = random.normal(1, 2, n), random.normal(0, 0.5, m)
    made = compare_unpaired(a, b, level=0.02)
    test = stats.ttest_ind(a, b, equal_var=False)
    interval = test.confidence_interval(0.98)
    assert (made.low, made.high) == pytest.approx((interval.low, interval.high))
    assert made.p == pytest.approx(test.pvalue)
    assert made.n == min(n, m)
    swapped = compare_unpaired(b, a, level=0.02)
    assert (swapped.low, swapped.high) == pytest.approx((-made.high, -made.low))


def test_unpaired_runs_that_are_one_number_have_no_interval() -> None:
    assert compare_unpaired([1.0] * 4, [1.0] * 4).p == 1.0
    made = compare_unpaired([2.0] * 4, [1.0] * 4)
    assert (made.difference, made.low, made.p) == (1.0, None, 0.125)
    assert compare_unpaired([1.0], [2.0]).low is None
    assert compare_unpaired([], []).difference is None


@pytest.mark.parametrize(("truth", "wrong"), [(0.0, "worse"), (-1.0, "no worse")])
def test_repeats_are_misjudged_as_seldom_as_stated(truth: float, wrong: str) -> None:
    """Over all looks: false alarms, and false passes of what is worse by the margin."""
    design = looks.design(looks.planned(5, 32), 2 * 0.05)
    random, count, mistakes = np.random.default_rng(1), 1000, 0
    for _ in range(count):
        runs = random.normal(0, 1, (2, 32))
        for look in design:
            ours, theirs = runs[0, : look.seeds] + truth, runs[1, : look.seeds]
            compared = compare_unpaired(ours, theirs, level=look.level)
            word = gate.judged(compared, 1.0, last=look == design[-1])
            if word != "undecided":
                passes = gate.CODES[word] == gate.NO_WORSE
                mistakes += passes if wrong == "no worse" else not passes
                break
    assert stats.binomtest(mistakes, count, 0.06, "greater").pvalue > 0.001


@pytest.mark.parametrize("n", [2, 5, 20])
def test_the_smallest_margin_is_one_that_passes_and_fails_as_often_as_it_says(n: int) -> None:
    margin = smallest_margin(n, 3.0, 0.05)
    random = np.random.default_rng(n)
    ours, theirs = random.normal(0, 3.0, (2, 20_000, n))
    error = np.sqrt((ours.var(axis=1, ddof=1) + theirs.var(axis=1, ddof=1)) / n)
    reach = stats.t.ppf(0.95, 2 * (n - 1)) * error
    difference = ours.mean(axis=1) - theirs.mean(axis=1)
    assert np.mean(difference - reach > -margin) == pytest.approx(0.8, abs=0.02)
    assert np.mean(difference - margin - reach > -margin) == pytest.approx(0.05, abs=0.01)


def test_the_noise_of_a_command(folder, ask, capsys) -> None:
    folder.write("score.py", REPEAT.replace("sys.argv[1]", "0"))
    code, said = ask("--noise", command=f"{PYTHON} score.py")
    assert code == 0
    assert "3 runs of one command: score 10.0" in said
    assert "a line to paste: --margin" in said
    assert len(list(folder.results.glob("cells/*"))) == 3
    code, said = ask("--noise", "--json", command=f"{PYTHON} score.py")
    rows = json.loads(said)["rows"]
    assert [row["runs"] for row in rows] == [5, 10, 20]
    assert rows[0]["margin"] > rows[1]["margin"] > rows[2]["margin"] > 0
    assert len(list(folder.results.glob("cells/*"))) == 3, "runs that are there are not repeated"
    for flags in (
        *(["--noise", "--margin", "1"], ["--noise", "--against", "x"], []),
        *(["--noise", "--minutes", "1"], ["--noise", "--require", "better"]),
        ["--noise", "--first-seeds", "1"],
    ):
        code, said = ask(*flags, command=f"{PYTHON} score.py")
        assert (code, said.count("\n")) == (2, 1)


def test_noise_of_one_number_pastes_no_margin_that_a_gate_refuses(folder, ask) -> None:
    folder.write("score.py", "print('score: 1')")
    folder.write("other.py", "")
    for _ in range(2):
        code, said = ask("--noise", "--depends", "score.py", command=f"{PYTHON} score.py")
        assert (code, "to paste" in said, "any --margin above 0" in said) == (0, False, True)
        assert len(list(folder.results.glob("cells/*"))) == 3, "it rests on score.py alone"
        folder.write("other.py", "changed = 1")


def test_a_change_that_leaves_the_depended_files_alone_is_identical(folder, ask) -> None:
    git(folder, "init", "-q")
    folder.write(".gitignore", "results/\n")
    folder.write("readme.md", "before")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "before")
    folder.write("readme.md", "after")
    asked = ("--baseline", "HEAD", "--margin", "5%", "--depends", "score.py")
    code, said = ask(*asked)
    assert (code, told(folder)["verdict"]) == (0, "identical"), said
    code, said = ask(*asked, "--require", "better")
    assert (code, told(folder)["verdict"]) == (1, "not better"), said
    assert not list(folder.results.glob("cells/*")), "nothing needs to run"


def test_runs_that_do_not_part_decide_any_margin() -> None:
    assert [row["margin"] for row in noise_sheet(Noise("x", (1.0, 1.0), 0.05)).records()] == [0] * 3
