"""One run a night: alarms at the stated rate, drifts that are found, files as they come."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ablations import cli
from ablations.errors import UserError
from ablations.regression.history import Terms, check_nights, cusum, p_drift, p_tonight
from ablations.regression.nights import read_nights
from ablations.regression.paper import check_paper, read_paper

pytest_plugins = ["pytester"]


def test_tonight_s_p_is_that_of_a_prediction_interval_or_of_its_rank() -> None:
    window = np.random.default_rng(0).normal(size=12)
    window[-1] = window[:-1].min() - 0.5
    before = window[:-1]
    t = (window[-1] - before.mean()) / (before.std(ddof=1) * np.sqrt(1 + 1 / 11))
    assert p_tonight(window) == pytest.approx(stats.t.cdf(t, 10))
    window[-1] = np.sort(before)[2] + 1e-9
    assert p_tonight(window) >= 4 / 12, "three were lower"
    assert p_tonight(np.append(np.ones(9), 0.5)) == 0
    assert p_tonight(np.ones(9)) == 1


def test_sums_are_those_of_ranks_one_night_after_the_other() -> None:
    window = [3.0, 1.0, 2.0, 2.0, 0.0, 5.0]
    total, sums = 0.0, [0.0]
    for i in range(2, 7):
        rank = stats.rankdata(window[:i])[-1]
        total = max(0.0, total - stats.norm.ppf((rank - 0.5) / i) - 0.5)
        sums.append(total)
    assert cusum(np.array(window)) == pytest.approx(sums, abs=0.05)
    assert np.array_equal(cusum(np.exp(window)), cusum(np.array(window))), "by ranks alone"


@pytest.mark.parametrize("nights", [8, 40])
def test_a_sum_s_chance_is_that_of_simulated_windows(nights: int) -> None:
    random = np.random.default_rng(1)
    last = np.array([cusum(random.normal(size=nights))[-1] for _ in range(3000)])
    for total in (0.5, 1.0, 2.0, 3.0):
        want = np.mean(last >= total - 0.01)
        assert p_drift(nights, total) == pytest.approx(want, abs=4 * np.sqrt(want / 3000) + 1e-3)
    assert p_drift(nights, 0.0) == 1
    assert p_drift(nights, 1e9) < 1e-6


@pytest.mark.parametrize("shape", ["normal", "collapses", "skewed"])
def test_false_alarms_come_as_seldom_as_stated(shape: str) -> None:
    random, count = np.random.default_rng(2), 1500
    runs = random.normal(size=(count, 40))
    runs = {
        "normal": runs,
        "collapses": np.where(runs < -1.28, -9 + runs, runs),
        "skewed": -np.exp(runs),
    }[shape]
    alarms = sum(check_nights(row, Terms(rate=0.05)).failed for row in runs)
    assert stats.binomtest(alarms, count, 0.05, "greater").pvalue > 0.001


@pytest.mark.parametrize(("shift", "word"), [(6.0, "worse"), (1.0, "drifting")])
def test_a_loss_is_found_within_ten_nights(shift: float, word: str) -> None:
    random, words = np.random.default_rng(3), []
    for _ in range(100):
        nights = random.normal(size=49)
        nights[39:] -= shift
        found = [check_nights(nights[:n]) for n in range(40, 50)]
        words.append(next((each.word for each in found if each.failed), "missed"))
    assert words.count("missed") <= 30, "15 on average, of the smaller loss"
    assert words.count(word) >= 30


def test_words_and_their_lines() -> None:
    nights = [*np.random.default_rng(6).permutation(np.linspace(0.9, 1.1, 20)), 0.2]
    check = check_nights(nights)
    assert (check.word, check.failed, check.before) == ("worse", True, 20)
    assert check.text.startswith("worse: 0.2 tonight, against 1 ± 0.062 of the 20 nights before")
    assert check_nights([-x for x in nights], Terms(lower_is_better=True)).word == "worse"
    assert check_nights(nights, Terms(lower_is_better=True)).word == "fine"
    assert check_nights([*nights[:-1], 1.0]).word == "fine"
    assert check_nights([1.0, 2.0]).text == "too few nights: 1 before this one, and 5 are needed"
    assert check_nights([*nights[:-1], np.nan]).word == "no value"
    assert check_nights([np.nan, *nights[:-1], np.inf, 0.2]).before == 20
    drift = check_nights([*nights[:-1], *[0.93, 0.92, 0.91, 0.9, 0.9, 0.9]])
    assert (drift.word, drift.drift_from) == ("drifting", "21")
    assert check_nights([9.0] * 50 + nights[:-1], Terms(nights=19)).before == 19
    for bad in (Terms(nights=2), Terms(rate=0.7)):
        with pytest.raises(UserError):
            check_nights(nights, bad)
    with pytest.raises(UserError, match="no night"):
        check_nights([])


# Files


def test_nights_are_rows_or_runs(tmp_path: Path) -> None:
    rows = tmp_path / "nights.csv"
    rows.write_text("date,loss\n2026-01-01,0.5\n2026-01-02,\n2026-01-03,nan\n2026-01-04,0.25\n")
    read = read_nights(rows, "loss", "date")
    assert read.names == tuple(f"2026-01-0{day}" for day in range(1, 5))
    assert np.array_equal(read.values, [0.5, np.nan, np.nan, 0.25], equal_nan=True)
    assert read.since("2026-01-03").names == ("2026-01-03", "2026-01-04")
    rows.write_text("date,won\nmon,37/50\ntue,\nwed,10/40\n")
    rates = read_nights(rows, "won").values
    assert np.array_equal(rates, [0.74, np.nan, 0.25], equal_nan=True)
    lines = tmp_path / "nights.jsonl"
    lines.write_text("".join(json.dumps({"val": {"acc": a}}) + "\n" for a in (0.5, 0.75)))
    assert list(read_nights(lines, "val.acc").values) == [0.5, 0.75]
    for day, end in (("02", 7.0), ("01", 5.0)):
        (tmp_path / "runs" / day).mkdir(parents=True)
        curve = "".join(f"{step},{end * step / 100}\n" for step in range(0, 101, 10))
        (tmp_path / "runs" / day / "progress.csv").write_text("step,return\n" + curve)
    read = read_nights(tmp_path / "runs", "return")
    assert (read.names, list(read.values)) == (("01", "02"), [5.0, 7.0])


def write_nights(path: Path, last: float) -> Path:
    values = [*np.random.default_rng(4).normal(10, 1, 30), last]
    path.write_text("night,score\n" + "".join(f"n{i},{v}\n" for i, v in enumerate(values)))
    return path


@pytest.mark.parametrize(
    ("last", "flags", "code", "says"),
    [
        (10.0, (), 0, "score: fine: 10 tonight"),
        (2.0, (), 1, "score: worse: 2 tonight"),
        (2.0, ("--better", "lower"), 0, "score: fine"),
        (2.0, ("--night", "night", "--since", "n28"), 0, "too few nights: 2"),
        (2.0, ("--format", "markdown"), 1, "- **score**: worse"),
        (2.0, ("--since", "n99"), 2, "unknown night 'n99'"),
        (2.0, ("--nights", "2"), 2, "nights are from 5 to 365"),
        (2.0, ("base",), 2, "in place of a baseline"),
        (2.0, ("--alpha", "0.01"), 2, "--alpha is of a baseline"),
        (2.0, ("--effect", "0.01"), 2, "--effect is of a baseline"),
        (2.0, ("--exact",), 2, "--exact is of a baseline"),
        (2.0, ("--paired",), 2, "--paired is of a baseline"),
        (2.0, ("--paper", "1 ± 1 / 3"), 2, "--paper is in place of --history"),
    ],
)
def test_a_history_through_the_command(tmp_path, capsys, last, flags, code, says) -> None:
    path = write_nights(tmp_path / "n.csv", last)
    assert cli.main(["check", "--history", str(path), "--metric", "score", *flags]) == code
    said = capsys.readouterr()
    assert says in said.out + said.err
    assert (said.out + said.err).count("\n") == 1


BEFORE = [*np.random.default_rng(4).normal(10, 1, 9)]
TABLE = "night,score\n" + "".join(f"n{i},{value}\n" for i, value in enumerate(BEFORE))
LINES = "".join(json.dumps({"night": f"n{i}", "score": x}) + "\n" for i, x in enumerate(BEFORE))


@pytest.mark.parametrize(
    ("name", "last", "code", "says"),
    [
        ("n.jsonl", '{"night": "n10"}\n', 1, "no value tonight"),
        ("n.jsonl", '{"night": "n10", "sc', 1, "no value tonight"),
        ("n.jsonl", "null\n", 1, "no value tonight"),
        ("n.txt", '{"night": "n10", "sc', 1, "no value tonight"),
        ("n.csv", "n10,\n", 1, "no value tonight"),
        ("n.csv", "n10", 1, "no value tonight"),
        ("n.csv", "n10\n", 2, "1 fields, and 2 names"),
        ("n.csv", "n10,2,3\n", 2, "3 fields, and 2 names"),
    ],
)
def test_a_crash_is_no_value_and_never_the_night_before(
    tmp_path, capsys, name, last, code, says
) -> None:
    (tmp_path / name).write_text((TABLE if name == "n.csv" else LINES) + last)
    asked = ["check", "--history", str(tmp_path / name), "--metric", "score"]
    assert cli.main(asked) == code
    said = capsys.readouterr()
    assert says in said.out + said.err


def write_run(file: Path, end: float) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"step,return\n0,0\n90,1\n100,{end}\n")


@pytest.mark.parametrize("of", ["night_{}/progress.csv", "2026-01-{:02}/progress.csv", "n{}.csv"])
def test_nights_in_a_folder_are_in_the_order_of_their_numbers(tmp_path, of) -> None:
    for night in range(1, 13):
        write_run(tmp_path / of.format(night), night)
    assert list(read_nights(tmp_path, "return").values) == list(range(1, 13))


@pytest.mark.parametrize("last", [None, "", "step,return\n", "step,loss\n100,1\n"])
def test_a_folder_without_a_curve_is_a_night_without_a_value(tmp_path, capsys, last) -> None:
    for night in range(1, 13):
        write_run(tmp_path / f"n{night}" / "progress.csv", 10 + night % 3)
    (tmp_path / "n13").mkdir()
    if last is not None:
        (tmp_path / "n13" / "progress.csv").write_text(last)
    (tmp_path / "latest").symlink_to(tmp_path / "n12")
    assert cli.main(["check", "--history", str(tmp_path), "--metric", "return"]) == 1
    said = capsys.readouterr()
    assert "no value tonight, against 11" in said.out
    assert "of the 12 nights before" in said.out
    assert "night 'n13' has no value: " in said.err
    write_run(tmp_path / "n14" / "a" / "seed0" / "progress.csv", 1)
    write_run(tmp_path / "n14" / "b" / "seed0" / "progress.csv", 1)
    assert cli.main(["check", "--history", str(tmp_path), "--metric", "return"]) == 2
    assert "has 2 runs: a night has one" in capsys.readouterr().err


def test_the_night_of_a_drift_is_one_that_since_takes(tmp_path, capsys) -> None:
    values = [*np.random.default_rng(6).permutation(np.linspace(0.9, 1.1, 24)), *[0.91] * 6]
    path = tmp_path / "n.csv"
    path.write_text("night,score\n" + "".join(f"d{i},{v}\n" for i, v in enumerate(values, 1)))
    asked = ["check", "--history", str(path), "--metric", "score"]
    for flags, since in (((), "25"), (("--since", "5"), "25"), (("--night", "night"), "d25")):
        assert cli.main([*asked, *flags]) == 1
        assert capsys.readouterr().out.endswith(f", since night {since}\n")
        assert cli.main([*asked, *flags[:2], "--since", since]) in (0, 1)
        capsys.readouterr()


def test_odd_names_have_a_line(tmp_path, capsys) -> None:
    path = tmp_path / "n.csv"
    path.write_text("day,score\n2026-01-02,1\n2026-01-01,1\n2026-01-01,1\n")
    command = ["check", "--history", str(path), "--metric", "score", "--night", "day"]
    assert cli.main(command) == 0
    said = capsys.readouterr().err
    assert "night '2026-01-01' stands 2 times" in said
    assert "night '2026-01-02' stands before '2026-01-01'" in said


@pytest.mark.parametrize(
    ("content", "metric", "says"),
    [
        ("a,b\n", "b", "has no rows"),
        ("", "b", "has no rows"),
        ("a,b\n1,2\n", "c", "unknown column of"),
        ("a,b\n1,x\n", "b", "b must be a number, or a rate such as 37/50, not 'x'"),
        ("a,b\n1,5/0\n", "b", "or a rate such as 37/50, not '5/0'"),
        ("a,b\n1,7/5\n", "b", "or a rate such as 37/50, not '7/5'"),
    ],
)
def test_files_that_are_none_are_said_in_a_line(tmp_path, content, metric, says) -> None:
    (tmp_path / "n.csv").write_text(content)
    with pytest.raises(UserError, match=says):
        read_nights(tmp_path / "n.csv", metric)
    with pytest.raises(UserError, match="no such file"):
        read_nights(tmp_path / "none.csv", metric)


def test_flags_of_a_history_are_refused_without_one(capsys) -> None:
    assert cli.main(["check"]) == 2
    assert cli.main(["check", "base", "--since", "n3"]) == 2
    assert "--since is of --history" in capsys.readouterr().err
    assert cli.main(["check", "--history", "x"]) == 2


def test_the_fixture_fails_where_nights_got_worse(pytester: pytest.Pytester) -> None:
    write_nights(pytester.path / "good.csv", 10.0)
    write_nights(pytester.path / "bad.csv", 2.0)
    pytester.makepyfile(
        """
        def test_good(learning_curve):
            assert learning_curve.history("good.csv", "score").before == 30

        def test_bad(learning_curve):
            learning_curve.history("bad.csv", "score", nights=20)

        def test_none(learning_curve):
            learning_curve.history("none.csv", "score")
        """
    )
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(["*score: worse: 2 tonight, against*of the 20 nights before*"])
    done.stdout.fnmatch_lines(["*learning_curve: no such file*"])


# A paper's mean ± SD


def test_a_paper_is_compared_as_welch_does() -> None:
    ours = np.random.default_rng(5).normal(3000, 300, 8)
    paper = read_paper("3,200 ± 450/5")
    assert (paper.n, paper.mean, paper.deviation) == (5, 3200.0, 450.0)
    found = check_paper(ours, paper, 0.15).compared
    test = stats.ttest_ind_from_stats(
        ours.mean(), ours.std(ddof=1), 8, 3200, 450, 5, equal_var=False
    )
    assert found.p == pytest.approx(test.pvalue)
    assert found.difference == pytest.approx(ours.mean() - 3200)
    assert found.low < found.difference < found.high


@pytest.mark.parametrize(
    ("ours", "effect", "word", "code"),
    [
        ([100.0, 101, 99, 100], 0.15, "compatible", 0),
        ([80.0, 81, 79, 80], 0.15, "lower", 1),
        ([130.0, 131, 129, 130], 0.15, "higher", 1),
        ([80.0, 120, 60, 140], 0.15, "cannot tell", 3),
    ],
)
def test_a_paper_s_word(ours, effect, word, code) -> None:
    check = check_paper(ours, read_paper("100 +- 2 / 10"), effect)
    assert (check.word, check.code) == (word, code)


def test_runs_that_do_not_differ_are_judged_by_their_difference() -> None:
    paper = read_paper("4100 ± 0 / 10")
    words = [check_paper([each] * 5, paper, 0.15).word for each in (3100.0, 4000.0, 5100.0)]
    assert words == ["lower", "compatible", "higher"]
    assert "-1000 than the paper's" in check_paper([3100.0] * 5, paper, 0.15).text
    with pytest.raises(UserError, match="without a finite score"):
        check_paper([1.0, np.nan], paper, 0.15)


@pytest.mark.parametrize("text", ["100", "100 ± 2", "100 ± 2 / 1", "100 ± -2 / 5", "x ± 2 / 5"])
def test_what_is_no_paper_s_result(text: str) -> None:
    with pytest.raises(UserError):
        read_paper(text)


def test_a_paper_through_the_command(tmp_path: Path, capsys) -> None:
    rows = [f"ppo,{seed},100,{100 + seed}" for seed in range(5)]
    (tmp_path / "runs.csv").write_text("\n".join(["run,seed,step,return", *rows]))
    words = ["check", str(tmp_path / "runs.csv"), "--paper"]
    assert cli.main([*words, "102 ± 3 / 10"]) == 0
    assert "ppo on " in (said := capsys.readouterr().out)
    assert "compatible" in said
    assert cli.main([*words, "202 ± 3 / 10"]) == 1
    assert cli.main(["check", "--paper", "202 ± 3 / 10"]) == 2
    capsys.readouterr()
    for flags in (("--rate", "1%"), ("--alpha", "0.1"), ("--exact",), ("--better", "lower")):
        assert cli.main([*words, "102 ± 3 / 10", *flags]) == 2
        assert f"{flags[0]} is not of --paper" in capsys.readouterr().err
    (tmp_path / "runs.csv").write_text("\n".join(["run,seed,step,return", *rows, "ppo,7,100,nan"]))
    assert cli.main([*words, "102 ± 3 / 10"]) == 2
    assert "'ppo' on 'task', seed 7" in capsys.readouterr().err
