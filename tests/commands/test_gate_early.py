"""Early ends of a gate: futility at its stated chance, a bound on time, a crash with its log."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from scipy import stats

from ablations import gate, looks
from ablations.cli import main
from ablations.gate.early import Sample, chance_to_pass
from ablations.sweep import local

DESIGN = looks.design(looks.planned(5, 32), 2 * 0.05)


def brute_chance(random, values: list[np.ndarray], margin: float, better: bool) -> float:
    """The chance that a later look passes, by whole runs and scipy's intervals."""
    n, paths = len(values[0]), 3000
    truth = margin if better else 0.0
    middle = (sum(v.mean() for v in values) - truth) / 2
    centers = [truth] if len(values) == 1 else [middle + truth, middle]
    sides = []
    for seen, center in zip(values, centers, strict=True):
        sigma = np.sqrt(seen.var() * n / random.chisquare(n - 1, (paths, 1)))
        new = center + sigma * random.normal(size=(paths, 32 - n))
        sides.append(np.hstack([np.tile(seen, (paths, 1)), new]))
    passed = np.zeros(paths, bool)
    for look in DESIGN:
        if look.seeds > n:
            cut = [side[:, : look.seeds] for side in sides]
            if len(cut) == 1:
                test = stats.ttest_1samp(cut[0], 0, axis=1)
            else:
                test = stats.ttest_ind(*cut, axis=1, equal_var=False)
            low = test.confidence_interval(1 - look.level).low
            passed |= low > (0 if better else -margin)
    return float(passed.mean())


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("better", [True, False])
def test_the_chance_to_pass_is_that_of_whole_runs(sides: int, better: bool) -> None:
    random = np.random.default_rng(sides)
    values = [random.normal(-0.1, 1, 8) for _ in range(sides)]
    later = [look for look in DESIGN if look.seeds > 8]
    got = float(chance_to_pass([*map(Sample.of, values)], 0.6, later, later, better=better))
    want = brute_chance(random, values, 0.6, better)
    if better:
        assert got == pytest.approx(want, abs=0.05)
    else:
        assert got >= want - 0.05, "or the loss so far is shown"
    assert 0.02 < want < 0.98


def test_many_gates_at_once_have_the_chances_of_each() -> None:
    values = np.random.default_rng(0).normal(size=(7, 12))
    later = DESIGN[3:]
    whole = chance_to_pass([Sample.of(values)], 0.5, later, later, better=True)
    each = [chance_to_pass([Sample.of(v)], 0.5, later, later, better=True) for v in values]
    assert whole == pytest.approx(np.array(each))
    assert whole == pytest.approx(
        chance_to_pass([Sample.of(values * 1e6)], 0.5e6, later, later, better=True)
    ), "in any unit"


def test_a_miss_grows_by_no_more_than_the_theorem_says() -> None:
    """Gates with and without early ends on gains of the margin: a gate that ends early has no pass
    that the other has not, and misses at most β / (1 - γ)."""
    random, count = np.random.default_rng(2), 1500
    values = random.normal(0.8, 1, (count, 32))
    passed = np.zeros((2, count), bool)
    open_ = np.ones((2, count), bool)
    for at, look in enumerate(DESIGN):
        seen = values[:, : look.seeds]
        reach = stats.t.isf(look.level / 2, look.seeds - 1)
        error = seen.std(axis=1, ddof=1) / np.sqrt(look.seeds)
        low, high = seen.mean(axis=1) - reach * error, seen.mean(axis=1) + reach * error
        passed |= open_ & (low > 0)
        open_ &= (low <= 0) & (high >= 0.8)
        if later := DESIGN[at + 1 :]:
            chance = chance_to_pass([Sample.of(seen)], 0.8, later, later, better=True)
            open_[1] &= chance >= gate.FUTILITY
    assert not (passed[1] & ~passed[0]).any()
    missed = 1 - passed.mean(axis=1)
    assert missed[1] <= min(1.0, missed[0] / (1 - gate.FUTILITY)) + 0.01


# Through the command line


def run(folder, capsys, *flags: str, words: str) -> tuple[int, dict, str]:
    code = main(["gate", "--metric", "score", "--first-seeds", "3", *flags, "--", *words.split()])
    said = capsys.readouterr()
    path = folder.results / "gates" / "gate.json"
    return code, json.loads(path.read_text()) if path.exists() else {}, said.out + said.err


def test_a_crash_is_a_verdict_with_the_end_of_its_log(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr("ablations.cli.gating.Processes", local.ThisProcess)
    folder.write(
        "t.py",
        "import sys\nif len(sys.argv) == 2:\n    print('loading')\n    raise ValueError('no GPU')\n"
        "print('score:', 1 + int(sys.argv[1]))",
    )
    words = f"{sys.executable} -S -E t.py {{seed}}"
    code, told, said = run(folder, capsys, "--against=ok", "--margin=1", "--quiet", words=words)
    assert (code, told["verdict"]) == (1, "fails")
    assert told["log"][0] == "loading"
    assert told["log"][-1] == "ValueError: no GPU"
    assert "    | ValueError: no GPU" in said


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("print('score:', 3.5 - len(sys.argv))", True),
        ("print('score:', 9 * (2 - len(sys.argv)) + len(str(id(sys))) + time.time() % 1)", False),
    ],
)
def test_a_command_that_ignores_its_seed(folder, capsys, monkeypatch, body: str, says) -> None:
    """One that always gives the same number is said to; one that is random all the same is judged
    as any other."""
    monkeypatch.setattr("ablations.cli.gating.Processes", local.ThisProcess)
    folder.write("t.py", f"import sys, time; {body}")
    words = f"{sys.executable} -S -E t.py {{seed}}"
    code, told, said = run(folder, capsys, "--against=x", "--margin=0.1", "--quiet", words=words)
    assert (code, told["verdict"]) == (0, "better")
    assert ("seems to ignore its {seed}" in said) == says


def test_minutes_bound_the_wall_time_and_the_same_call_goes_on(folder, capsys) -> None:
    """The change waits for a file that appears only after the bound."""
    folder.write(
        "t.py",
        "import os, sys, time\nwhile len(sys.argv) == 2 and not os.path.exists('go'):\n"
        "    time.sleep(0.01)\nprint('score:', (3 - len(sys.argv)) * 9 + int(sys.argv[1]) % 3)",
    )
    words, asked = f"{sys.executable} -S -E t.py {{seed}}", ("--against=x", "--margin=1")
    code, told, said = run(folder, capsys, *asked, "--minutes", "0.05", words=words)
    assert (code, told["verdict"], told["looks"]) == (3, "undecided", [])
    assert "0.05 minutes are over before the look at 3 seeds; the same call goes on" in said
    folder.write("go", "")
    code, told, said = run(folder, capsys, *asked, words=words)
    assert (code, len(told["looks"]) > 0) == (0, True), said


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--minutes", "0"), "minutes are a positive number"),
        (("--minutes", "5%"), "minutes are a positive number"),
        (("--futility", "60%"), "a chance is such as 10%"),
    ],
)
def test_bad_bounds_are_refused(folder, capsys, flags, says: str) -> None:
    code, _, said = run(folder, capsys, *flags, words="sh")
    assert (code, says in said) == (2, True)


def test_outcomes_of_0_and_1_have_exact_intervals(folder, capsys, monkeypatch) -> None:
    """Successes of episodes: five gained and none lost are no proof at a rate of 5%, looked at
    twice; twelve of twelve are."""
    monkeypatch.setattr("ablations.cli.gating.Processes", local.ThisProcess)
    folder.write("t.py", "import sys; print('score:', int(len(sys.argv) == 2))")
    words = f"{sys.executable} -S -E t.py {{seed}}"
    code, told, _ = run(folder, capsys, "--against=x", "--margin=0.1", words=words)
    assert (code, told["verdict"]) == (0, "better")
    seeds = [look["seeds"] for look in told["looks"]]
    assert seeds[-1] > 3
    last = told["looks"][-1]
    assert 0 < last["low"] < last["difference"] == 1.0 == last["high"]
