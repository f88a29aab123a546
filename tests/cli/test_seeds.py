"""`ablations seeds`: how many a comparison needs, without a study."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ablations import cli
from ablations.report.tables.seeds import Spread, seeds_sheet, spread_of


def needed(spread: Spread, margin: float, **how: float) -> dict[str, int | None]:
    (row,) = seeds_sheet({("", ""): spread}, margin, **how).records()
    return row


@pytest.mark.parametrize(
    ("effect", "name"), [(0, "equivalent"), (1, "1_margins"), (2, "2_margins")]
)
def test_so_many_seeds_decide_in_eight_of_ten_simulated_comparisons(effect, name) -> None:
    seeds = needed(Spread(50.0), 20.0)[f"seeds_{name}"]
    random = np.random.default_rng(0)
    decided = []
    for _ in range(2000):
        sides = random.normal((20.0 * effect, 0.0), 50.0, size=(seeds, 2))
        difference = sides[:, 0] - sides[:, 1]
        reach = stats.t.ppf(0.975, seeds - 1) * stats.sem(difference)
        low, high = difference.mean() - reach, difference.mean() + reach
        decided.append(low > 0 or high < 0 or (low > -20 and high < 20))
    assert np.mean(decided) == pytest.approx(0.8, abs=0.035)


def test_pairing_saves_what_the_correlation_takes_off_the_deviation() -> None:
    assert needed(Spread(50.0), 20.0, correlation=0.75) == needed(Spread(25.0), 20.0) | {
        "deviation": 50.0
    }


def test_an_estimated_deviation_leaves_a_range_that_holds_what_it_says() -> None:
    known, estimated = needed(Spread(50.0), 20.0), needed(Spread(50.0, 5), 20.0)
    for name in ("seeds_equivalent", "seeds_1_margins", "seeds_4_margins"):
        assert estimated[f"{name}_low"] < known[name] < estimated[f"{name}_high"]
        assert known[f"{name}_low"] == known[name] == known[f"{name}_high"]


def test_runs_of_a_file_are_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = {"a": [1.0, 2.0, 4.0], "b": [10.0, 12.0, 17.0]}
    lines = ["run,seed,step,return"]
    for run, ends in scores.items():
        for seed, end in enumerate(ends):
            lines += [f"{run},{seed},{step},{end if step == 100 else -5}" for step in (0, 50, 100)]
    (tmp_path / "runs.csv").write_text("\n".join(lines))
    command = ["seeds", str(tmp_path / "runs.csv"), "--margin", "1", "--format", "json"]
    assert cli.main(command) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["run"], row["n"]) for row in rows] == [("a", 3), ("b", 3)]
    for row in rows:
        assert row["deviation"] == pytest.approx(np.std(scores[row["run"]], ddof=1))
    assert spread_of(scores["a"]).deviation == pytest.approx(math.sqrt(7 / 3))


@pytest.mark.parametrize("end", ["nan", "inf"])
def test_a_run_without_a_score_is_named(tmp_path: Path, capsys, end) -> None:
    (tmp_path / "runs.csv").write_text(
        f"run,seed,step,return\na,0,100,1\na,1,100,2\na,2,50,1\na,2,100,{end}\n"
    )
    assert cli.main(["seeds", str(tmp_path / "runs.csv"), "--margin", "1"]) == 2
    said = capsys.readouterr().err
    assert "'a' on 'task', seed 2, has no finite return" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--margin 1", "give a FILE of runs, or --sd"),
        ("nosuch.csv --margin 1", "no such file"),
        ("--sd 0 --margin 1", "--sd is a positive number"),
        ("--sd 1 --of 1 --margin 1", "of two seeds or more"),
        ("--sd 1 --margin 0", "a margin is a positive number"),
        ("--sd 1 --margin 1 --correlation 1", "a correlation is from -1"),
        ("--sd 1 --margin 1 --power 1", "a power is from 0.5"),
        ("--sd 1", "--margin"),
    ],
)
def test_what_is_no_question_is_refused_in_a_line(arguments, line, capsys) -> None:
    assert cli.main(["seeds", *arguments.split()]) == 2
    assert line in (said := capsys.readouterr().err)
    assert said.count("\n") == 1
