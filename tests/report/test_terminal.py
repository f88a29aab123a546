"""The table of a terminal: no wider than the screen, and the answer is what its rows say."""

from __future__ import annotations

import pytest
from synthetic import synthetic_study

from ablations.core.verdict import Verdict
from ablations.report.formats.numbers import verdict_text
from ablations.report.formats.terminal import NARROWEST, terminal
from ablations.report.formats.words import answer, open_tasks
from ablations.report.results import Results
from ablations.report.tables import table

SEEDS = range(8)
LONG = "advantage_statistics=per_group,advantage_scope=minibatch"


def scores(mean: float, spread: float = 0.01) -> list[float]:
    return [mean + spread * (seed - 3.5) for seed in SEEDS]


def made(tmp_path, effects, tasks=("hopper",), **how):
    finals = {
        (task, name): scores(1.0 + effect)
        for task in tasks
        for name, effect in {"base": 0.0, **effects}.items()
    }
    return table(Results(synthetic_study(tmp_path, finals, **how), tmp_path))


@pytest.mark.parametrize("width", [NARROWEST, 80, 120])
@pytest.mark.parametrize("tasks", [("hopper",), ("hopper", "inverted_double_pendulum")])
def test_no_line_is_too_wide_and_none_loses_its_verdict(tmp_path, width, tasks) -> None:
    finals = {"same": 0.0, "better": 0.5, "worse": -0.5, LONG: 0.04}
    one = made(tmp_path, finals, tasks, failed={("hopper", "worse", 0): "diverged"})
    lines = terminal(one, width)
    assert max(line.cell_len for line in lines) <= width
    text = " ".join(line.plain for line in lines)
    for row in one.rows:
        assert verdict_text(row)[:20] in text
        assert row.variant in text or f"{row.variant[: width - 10]}" in text


def test_what_does_not_matter_is_said_with_its_bound(tmp_path) -> None:
    finals = {
        ("hopper", "base"): scores(1.0),
        ("hopper", "a"): scores(1.001, -0.001),
        ("hopper", "b"): scores(1.01, 0.015),
    }
    one = table(Results(synthetic_study(tmp_path, finals), tmp_path))
    bound = max(
        max(abs(row.difference_low), abs(row.difference_high)) / row.unit
        for row in one.rows
        if row.verdict is Verdict.EQUIVALENT
    )
    assert answer(one) == (
        f"No difference that matters: any effect is below {100 * bound:.2g}% of what was learned."
    )


def test_the_largest_effects_come_first_with_their_intervals(tmp_path) -> None:
    one = made(tmp_path, {"small": 0.1, "large": -0.6, "none": 0.0})
    said = answer(one)
    assert said.index("large is worse (-6") < said.index("small is better (+1")
    assert "1 of 3 makes no difference that matters" in said


def test_what_is_open_is_counted(tmp_path) -> None:
    finals = {("hopper", "base"): scores(1.0, 0.1), ("hopper", "a"): scores(1.02, 0.1)[::-1]}
    one = table(Results(synthetic_study(tmp_path, finals), tmp_path))
    assert one.rows[1].verdict is Verdict.UNDECIDED
    row = one.rows[1]
    bound = max(-row.difference_low, row.difference_high) / row.unit
    told = f"1 of 1 is not decided: any effect is below {100 * bound:.2g}% of what was learned."
    assert answer(one) == told


@pytest.mark.parametrize("missing", [[("hopper", "a", seed) for seed in SEEDS]])
def test_before_anything_has_run_nothing_is_answered(tmp_path, missing) -> None:
    assert answer(made(tmp_path, {"a": 0.0}, missing=missing)) == "Nothing is compared yet."


def test_colours_follow_the_verdict(tmp_path) -> None:
    lines = terminal(made(tmp_path, {"up": 0.5, "down": -0.5, "same": 0.0}))
    styles = {
        name: {str(span.style) for line in lines if name in line.plain for span in line.spans}
        for name in ("  up", "  down", "  same")
    }
    assert styles == {"  up": {"green"}, "  down": {"red"}, "  same": {"cyan"}}


def test_a_variant_is_named_once_with_all_its_tasks(tmp_path) -> None:
    one = made(tmp_path, {"a": 0.5}, ("hopper", "ant"))
    assert answer(one).count("a is better on ") == 1
    assert answer(one).count(" and on ") == 1


def test_a_row_over_tasks_that_is_open_says_by_which(tmp_path) -> None:
    finals = {
        ("hopper", "base"): scores(1.0),
        ("hopper", "a"): scores(1.001, -0.001),
        ("ant", "base"): scores(1.0),
        ("ant", "a"): [1.0 + 0.2 * (-1) ** seed for seed in SEEDS],
    }
    one = table(Results(synthetic_study(tmp_path, finals), tmp_path))
    (whole,) = [row for row in one.rows if row.task == "all tasks" and row.baseline]
    assert whole.verdict is Verdict.UNDECIDED
    assert open_tasks(whole, one) == ("ant",)
    assert not any(open_tasks(row, one) for row in one.rows if row is not whole)
