"""The gate: what it decides and with which exit code, at which cost, and how often it is wrong."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from scipy import stats

from ablations.cli import main
from ablations.commands.describe import listed
from ablations.engine import local
from ablations.gate import question as gate
from ablations.gate.early import chance_to_pass
from ablations.gate.run import BASELINE, CHANGE, TASK, noise
from ablations.runs import Runs
from ablations.stats import Difference, paired, welch
from ablations.stats.interim import design, planned, read

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
    """The command line, whose runs are in this process: exit code, gate.json, what it said."""
    folder.write("score.py", SCORE)
    monkeypatch.setattr("ablations.commands.gating.Processes", local.ThisProcess)

    def ask(*flags: str, command: str = "score.py {seed} 0 0.1") -> tuple[int, dict, str]:
        usual = {"--metric": "score", "--first-seeds": "3"}
        fixed = [word for pair in usual.items() if pair[0] not in flags for word in pair]
        code = main(["gate", "--quiet", *fixed, *flags, "--", *f"{PYTHON} {command}".split()])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        path = folder.results / "gates" / "gate.json"
        return code, json.loads(path.read_text()) if path.exists() else {}, said.out + said.err

    return ask


def runs(folder) -> int:
    return len(list(folder.results.glob("cells/*")))


# Through the command line


def test_two_sets_of_arguments(folder, ask) -> None:
    """`--against` says what the baseline has more; here it stands in for what is empty."""
    folder.write("score.py", SCORE.replace("sys.argv[2]", "(sys.argv + ['0'])[4]"))
    code, told, said = ask("--against", "-2", "--margin", "0.5")
    assert (code, told["outcome"], told["verdict"]) == (0, "pass", "better")
    assert f"gate: passes, better: score {told['stages'][-1]['difference']:+.4g}" in said
    assert runs(folder) == 6, "three seeds of either were enough"
    for _ in range(2):
        code, told, said = ask("--against", "2", "--margin", "0.5")
        assert (code, told["outcome"], told["verdict"]) == (1, "fail", "worse")
        assert runs(folder) == 9, "the change's runs are shared"
    code, told, said = ask("--against", "2", "--margin", "5")
    assert (code, told["verdict"]) == (0, "equivalent")
    assert "passes, equivalent (below 0, within the margin): score -" in said
    assert "ablations gate ... --name gate" in listed("runs", results=str(folder.results))


def test_a_commit_and_the_files_as_they_are(folder, ask) -> None:
    folder.write(".gitignore", "results/\n")
    folder.commit()
    asked = ("--baseline", "HEAD", "--margin", "5%")
    for commit, says in (("HEAD", "nothing to compare"), ("mian", "there is no commit 'mian'")):
        code, _, said = ask("--baseline", commit, *asked[2:])
        assert (code, says in said) == (2, True)
    folder.write("score.py", SCORE.replace("10 +", "8 +"))
    code, told, said = ask(*asked)
    assert code == 1, said
    assert told["stages"][-1]["difference"] == pytest.approx(-2)
    assert told["margin"] == pytest.approx(0.5, abs=0.1)
    assert told["margin_of"] == "5% of the baseline's mean"
    folder.git("commit", "-qam", "the change")
    before = runs(folder)
    folder.write("score.py", SCORE)
    assert ask(*asked)[0] == 0
    assert runs(folder) == before, "either side ran before, the other way"
    folder.write("score.py", SCORE + "# a comment\n")
    folder.git("commit", "-qam", "back")
    folder.write("score.py", SCORE + "# another comment\n")
    for more, outcome, code in (((), "pass", 0), (("--require", "better"), "fail", 1)):
        ended, told, _ = ask(*asked, *more)
        assert (ended, told["outcome"], told["note"]) == (code, outcome, "identical")
    assert not (folder.results / "code").exists(), "no code lies among the results"


def test_a_change_that_leaves_the_depended_files_alone_is_equivalent(folder, ask) -> None:
    folder.write("readme.md", "before")
    folder.commit()
    folder.write("readme.md", "after")
    asked = ("--baseline", "HEAD", "--margin", "5%", "--depends", "score.py")
    for more, outcome, code in (((), "pass", 0), (("--require", "better"), "fail", 1)):
        ended, told, said = ask(*asked, *more)
        assert (ended, told["outcome"], told["verdict"]) == (code, outcome, "equivalent"), said
    assert not runs(folder), "nothing needs to run"


def test_what_noise_hides_stays_undecided(folder, ask) -> None:
    folder.write("score.py", SCORE.replace("sys.argv[2])", "sys.argv[-1]) / 100"))
    command, flags = "score.py {seed} 0.01 50", ("--against=3", "--margin=1", "--most-seeds=8")
    code, told, _ = ask(*flags, "--futility", "0", command=command)
    assert (code, told["outcome"], told["verdict"]) == (3, "undecided", "inconclusive")
    assert [stage["seeds"] for stage in told["stages"]] == [3, 5, 8]
    code, told, said = ask(*flags, command=command)
    assert (code, told["outcome"]) == (3, "undecided"), "no later stage could pass"
    assert told["stages"][-1]["chance"] < told["futility"] == 0.1
    assert "it would pass with a probability of" in said


FAILING = "import sys\nif int(sys.argv[1]) in {bad} and len(sys.argv) == {words}: sys.exit(7)\n"


@pytest.mark.parametrize(
    ("bad", "words", "most", "code", "verdict", "says"),
    [
        ((0, 1, 2), 4, "9", 1, "failed", "3 of 3 runs of the change failed (the command ended"),
        ((1,), 4, "3", 3, "failed", "1 of 3 runs of the change failed"),
        ((1,), 5, "3", 0, "inconclusive", "; 1 of 3 runs of the baseline failed"),
        ((0, 1, 2), 5, "9", 2, None, "every run of the baseline failed"),
    ],
)
def test_runs_that_fail(folder, ask, bad, words, most, code, verdict, says) -> None:
    folder.write("score.py", FAILING.format(bad=bad, words=words) + SCORE)
    ended, told, said = ask("--against", "x", "--margin", "50%", "--most-seeds", most)
    assert (ended, told.get("verdict"), says in said) == (code, verdict, True), said


@pytest.mark.parametrize(
    ("good", "now", "says"),
    [
        (repr("1"), repr("nan"), "score is no finite number"),
        (repr("1,290,000"), repr("1,205,000"), "fails, worse"),
        (repr("1,290,000"), repr("98%"), "3 of 3 runs of the change failed"),
    ],
)
def test_what_is_no_number_fails(ask, folder, good: str, now: str, says: str) -> None:
    folder.write("t.py", f"import sys; print('score:', {good} if '--good' in sys.argv else {now})")
    code, _, said = ask("--against", "--good", "--margin", "1%", command="t.py {seed}")
    assert (code, says in said) == (1, True), said


def test_outcomes_of_0_and_1_have_exact_intervals(folder, ask) -> None:
    """Five gained and none lost are no proof at a rate of 5%, looked at twice."""
    folder.write("t.py", "import sys; print('score:', int(len(sys.argv) == 2))")
    code, told, _ = ask("--against=x", "--margin=0.1", command="t.py {seed}")
    last = told["stages"][-1]
    assert (code, told["verdict"], last["seeds"] > 3) == (0, "better", True)
    assert 0 < last["low"] < last["difference"] == 1.0 == last["high"]


def test_minutes_bound_the_wall_time_and_the_same_call_continues(folder, capsys) -> None:
    """The change waits for a file that appears only after the bound."""
    folder.write(
        "t.py",
        "import os, sys, time\nwhile len(sys.argv) == 2 and not os.path.exists('go'):\n"
        "    time.sleep(0.01)\nprint('score:', (3 - len(sys.argv)) * 9 + int(sys.argv[1]) % 3)",
    )
    words = f"gate --metric score --first-seeds 3 --against=x --margin=1 -- {PYTHON} t.py {{seed}}"
    assert main(words.replace("--against", "--minutes 0.05 --against").split()) == 3
    said = capsys.readouterr().out
    assert "the time was up before the stage of 3 seeds ended; repeat the command" in said
    folder.write("go", "")
    assert main(words.split()) == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--margin", "2%"), "nothing to compare: add --baseline"),
        (("--margin", "0", "--against", "1"), "expected a positive percentage"),
        (("--margin", "2%", "--against", "1", "--first-seeds", "40"), "--first-seeds 40"),
        (("--margin", "2%", "--futility", "60%"), '"0.6" for --futility. Must be < 0.5'),
        (("--margin", "2%", "--against", "1", "--curve", "log.csv"), "would write one file"),
        (("--against", "1"), "--margin"),
    ],
)
def test_bad_questions_are_refused_in_a_line(folder, ask, flags, says: str) -> None:
    code, _, said = ask(*flags)
    assert (code, says in said, said.count("\n")) == (2, True, 1)


# Repeats of a command without {seed}

REPEAT = """\
import sys
print("score:", 10 + float({}) + int.from_bytes(open("/dev/urandom", "rb").read(1)) / 2560)
"""


@pytest.mark.parametrize(("shift", "code", "word"), [("-2", 0, "better"), ("2", 1, "worse")])
def test_a_command_without_a_seed_is_repeated(folder, ask, shift, code, word) -> None:
    folder.write("score.py", REPEAT.format("(sys.argv + ['0'])[1]"))
    for _ in range(2):
        ended, told, said = ask("--against", shift, "--margin", "0.5", command="score.py")
        assert (ended, told["verdict"], told["paired"]) == (code, word, False)
        assert "on 3 unpaired runs" in said
        assert runs(folder) == 6, "runs that are there are not repeated"


def test_the_noise_of_a_command(folder, ask) -> None:
    folder.write("score.py", REPEAT.format("0"))
    code, _, said = ask("--noise", command="score.py")
    assert (code, "3 runs of one command: score 10" in said) == (0, True), said
    assert "a line to paste: --margin" in said
    assert noise("x", [1.0, 1.0], 0.05).margin.tolist() == [0] * 3
    rows = json.loads(ask("--noise", "--format", "json", command="score.py")[2])["rows"]
    assert [row["runs"] for row in rows] == [5, 10, 20]
    assert rows[0]["margin"] > rows[1]["margin"] > rows[2]["margin"] > 0
    assert runs(folder) == 3, "runs that are there are not repeated"
    folder.write("score.py", f"import sys\n1 / (sys.argv[1] == '0')\n{SCORE}")
    code, _, said = ask("--noise")
    assert (code, "1 of 3 runs have a value: 2 are needed" in said) == (2, True), said
    for flags in ("--margin 1", "--against x", "--minutes 1", "--require better"):
        code, _, said = ask("--noise", *flags.split(), command="score.py")
        assert (code, said.count("\n")) == (2, 1)
    for flags in ((), ("--noise", "--first-seeds", "1")):
        assert ask(*flags, command="score.py")[0] == 2


# The rule

OPEN, PASS, FAIL = ("undecided", "inconclusive"), "pass", "fail"


@pytest.mark.parametrize(
    ("low", "high", "how", "expected"),
    [
        (0.1, 9, {}, (PASS, "better")),
        (0.1, 0.9, {}, (PASS, "equivalent")),
        (-0.9, 0.5, {}, (PASS, "equivalent")),
        (-0.9, 5, {}, (PASS, "inconclusive")),
        (-0.9, -0.1, {}, (PASS, "equivalent")),
        (-3, -1.1, {}, (FAIL, "worse")),
        (-3, -0.1, {}, OPEN),
        (-3, -0.1, {"last": True}, (FAIL, "worse")),
        (-3, 3, {"last": True}, OPEN),
        (0.1, 0.2, {"better": True}, (PASS, "better")),
        (-0.9, 0.9, {"better": True}, (FAIL, "equivalent")),
        (-3, 0.9, {"better": True}, (FAIL, "inconclusive")),
        (-0.9, 1.1, {"better": True}, OPEN),
        (0.1, 9, {"more_failures": 1}, ("undecided", "failed")),
        (-0.9, 0.9, {"more_failures": 1}, ("undecided", "failed")),
        (-3, 3, {"more_failures": 1}, OPEN),
        (-3, -1.1, {"more_failures": 1}, (FAIL, "worse")),
        (-3, -1.1, {"more_failures": -1}, OPEN),
        (-0.9, 0.9, {"more_failures": -1}, (PASS, "inconclusive")),
        (0.1, 9, {"more_failures": -1}, (PASS, "better")),
        (math.nan, math.nan, {}, OPEN),
        (0.1, 9, {"identical": True}, (PASS, "equivalent")),
        (0.1, 9, {"identical": True, "better": True}, (FAIL, "equivalent")),
    ],
)
def test_the_rule(low: float, high: float, how: dict, expected: tuple[str, str]) -> None:
    difference = Difference(2, (low + high) / 2, low, high)
    made = gate.judged(difference, 1.0, 0.05, **{"last": False, **how})
    assert (made.outcome, made.verdict) == expected
    assert ("below 0, within the margin" in made.note) == (low > -1 and high < 0)


@pytest.mark.parametrize(
    ("shift", "bits", "seeds", "expected"),
    [
        (0.0, 0.0, 3, (PASS, "equivalent", "identical")),
        (0.0, 0.25, 3, (*OPEN, "")),
        (0.0, 0.25, 9, (PASS, "equivalent", "")),
        (1.0, 0.25, 3, (*OPEN, "")),
        (1.0, 0.25, 9, (PASS, "better", "")),
        (-1.0, 0.25, 9, (FAIL, "worse", "")),
        (-(2.0**-20), 0.25, 9, (PASS, "equivalent", "below 0, within the margin")),
    ],
)
def test_equal_differences_and_equal_bits(shift, bits, seeds: int, expected) -> None:
    """One number for all pairs decides as soon as so many equal pairs are unlikely."""
    import pandas as pd

    rows = [
        {"task": TASK, "variant": name, "seed": k, "step": step, "value": k / 8 + moved + mark}
        for name, moved, own in ((BASELINE, 0.0, 0.0), (CHANGE, shift, bits))
        for k in range(seeds)
        for step, mark in ((1, own), (10, 0.0))
    ]
    made = Runs.from_frame(pd.DataFrame(rows), baseline=BASELINE)
    values = [made.scores[TASK, name].to_numpy() for name in (CHANGE, BASELINE)]
    identical = made.identical([TASK], CHANGE, BASELINE)
    difference = paired(*values, level := design((seeds, 32), 0.1)[0].level)
    assert gate.judged(difference, 0.5, level, last=False, identical=identical) == expected


# How often it is wrong


@pytest.mark.parametrize("by_seed", [True, False])
@pytest.mark.parametrize(
    ("truth", "wrong", "better"), [(0.0, FAIL, False), (-1.0, PASS, False), (0.0, PASS, True)]
)
def test_it_is_wrong_as_rarely_as_it_says(truth, wrong, better: bool, by_seed: bool) -> None:
    """Over all stages, at 5%: 600 gates on normal scores."""
    random, most, count = np.random.default_rng(7), 18 if by_seed else 32, 600
    stages, mistakes = design(planned(5, most), 2 * 0.05), 0
    for _ in range(count):
        ours, theirs = random.normal(0, 1 / np.sqrt(1 + by_seed), (2, most))

        def word(n: int, level: float, ours=ours + truth, theirs=theirs) -> gate.Judgement:
            difference = (paired if by_seed else welch)(ours[:n], theirs[:n], level)
            return gate.judged(difference, 1.0, level, last=n == most, better=better)

        mistakes += read(stages, most, word, gate.Judgement().__ne__).outcome == wrong
    assert stats.binomtest(mistakes, count, 0.06, "greater").pvalue > 0.001


# Early ends

STAGES = design(planned(5, 32), 2 * 0.05)


def brute_chance(random, values: list[np.ndarray], margin: float, better: bool) -> float:
    """The chance that the last stage passes, by whole runs and scipy's intervals."""
    n, paths = len(values[0]), 3000
    truth = margin if better else 0.0
    middle = (sum(v.mean() for v in values) - truth) / 2
    centers = [truth] if len(values) == 1 else [middle + truth, middle]
    sides = []
    for known, center in zip(values, centers, strict=True):
        sigma = np.sqrt(known.var() * n / random.chisquare(n - 1, (paths, 1)))
        new = center + sigma * random.normal(size=(paths, 32 - n))
        sides.append(np.hstack([np.tile(known, (paths, 1)), new]))
    if len(sides) == 1:
        test = stats.ttest_1samp(sides[0], 0, axis=1)
    else:
        test = stats.ttest_ind(*sides, axis=1, equal_var=False)
    low = test.confidence_interval(1 - STAGES[-1].level).low
    return float((low > (0 if better else -margin)).mean())


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("better", [True, False])
def test_the_chance_to_pass_is_that_of_whole_runs(sides: int, better: bool) -> None:
    random = np.random.default_rng(sides)
    values = [random.normal(-0.1, 1, 8) for _ in range(sides)]
    got = float(chance_to_pass(values, 0.6, STAGES[-1], STAGES[-1], better=better))
    want = brute_chance(random, values, 0.6, better)
    assert 0.02 < want < 0.98
    # Without a gain that is asked for, the loss so far may be shown as well.
    assert got == pytest.approx(want, abs=0.03) if better else got >= want - 0.03


def test_many_gates_at_once_have_the_chances_of_each_in_any_unit() -> None:
    values, last = np.random.default_rng(0).normal(size=(7, 12)), STAGES[-1]
    whole = chance_to_pass([1e6 * values], 0.5e6, last, last, better=True)
    each = [chance_to_pass([v], 0.5, last, last, better=True) for v in values]
    assert whole == pytest.approx(np.array(each))
