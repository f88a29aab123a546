"""The check: what it calls worse, what it lets pass, how many seeds it takes, what it refuses."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pandas
import pytest
from scipy import stats
from synthetic_curves import STEPS, array, independent, made, some

from ablations.errors import UserError
from ablations.regression.check import (
    Check,
    Terms,
    check,
    learned,
    line,
    plan_check,
    plan_line,
    sequential,
    table,
)
from ablations.regression.curves import SCORES, Curves, Run, first_difference, from_user
from ablations.regression.design import Design
from ablations.scoring import auc, final

BASELINE = made(range(24))


def changed(curves: Curves, change: Callable[[np.ndarray], np.ndarray]) -> Curves:
    """The same seeds with other values."""
    runs = {seed: Run(run.steps, change(run.values)) for seed, run in curves.runs.items()}
    return Curves(runs, curves.failed)


def run(loss: float, stream: int = 1, **terms: object) -> Check:
    """A sequential check of other code that is worse by `loss`."""
    asked: list[int] = []

    def more(seeds):
        asked.extend(seeds)
        return made(seeds, loss, stream)

    found = sequential(BASELINE, more, Terms(**terms))
    assert len(asked) == len(set(asked)) == len(found.now)
    return found


@pytest.mark.parametrize(
    ("loss", "stream", "outcome", "verdict", "seeds", "says"),
    [
        (0.0, 0, "pass", "equivalent", 4, "toy: identical bit for bit on 4 seeds"),
        (0.0, 1, "pass", "equivalent", 4, "toy passes, equivalent: a loss of 4.74 (15% of what"),
        (2.0, 1, "pass", "equivalent", 4, "; below 0, within the margin: final performance 38.7"),
        (10.0, 1, "fail", "worse", 4, "toy got worse: final performance 38.73 → 28.98, -9.75 ["),
        (-10.0, 1, "pass", "better", 4, "toy is better: final performance 38.73 → 48.57, +9.84"),
    ],
)
def test_outcomes(loss, stream, outcome: str, verdict: str, seeds: int, says: str) -> None:
    found = run(loss, stream)
    assert (found.outcome, found.verdict, len(found.now)) == (outcome, verdict, seeds)
    assert says in line("toy", found)
    assert "\n" not in line("toy", found)
    assert found.identical == (found.differs is None) == (stream == 0)


def test_the_verdict_stands_at_the_score_that_failed() -> None:
    """The end got worse and the area did not, and the other way round."""
    now, steps = array(range(100, 110), 0.0, 1), np.arange(20)
    for lost, worse in ((steps >= 18, "final performance"), (steps < 16, "area under the curve")):
        found = check(BASELINE, from_user(now - 9.0 * lost, steps=STEPS), Terms(effect=0.2))
        rows = table({"toy": found}).set_index("score").verdict
        assert found.verdict == rows.pop(worse) == "worse"
        assert rows.item() != "worse"


def test_the_first_step_that_differs_is_named_whoever_it_is() -> None:
    rows = array(range(24))
    rows[7, 12] = np.nextafter(rows[7, 12], np.inf)
    rows[3, 15] += 1.0
    assert first_difference(from_user(rows, steps=STEPS), BASELINE) == (7, STEPS[12])
    assert first_difference(some(BASELINE, [5, 2]), BASELINE) is None


def test_seeds_are_added_only_while_undecided() -> None:
    wide = Terms(effect=0.03)
    taken = [
        len(sequential(BASELINE, lambda s, x=loss: made(s, x, 2), wide).now)
        for loss in (20.0, 0.0, 0.7)
    ]
    assert taken[0] == 4
    assert taken == sorted(taken)
    assert taken[2] <= wide.most


def test_lower_is_better_where_it_is_said() -> None:
    losses = changed(BASELINE, np.negative)
    now = changed(made(range(100, 108), 10.0), np.negative)
    found = check(losses, now, Terms(higher_is_better=False))
    assert found.verdict == "worse"
    assert 0 < found.worst.low < found.worst.difference < found.worst.high
    assert check(losses, now, Terms()).verdict == "better"


def test_scores_and_intervals_are_those_of_an_oracle() -> None:
    now = made(range(12), 1.0, stream=3)
    found = check(BASELINE, now, Terms())
    for row, score in zip(found.rows, (final, auc), strict=True):
        ours = [score(STEPS, values) for values in array(range(12), 1.0, 3)]
        theirs = [score(STEPS, values) for values in array(range(24))]
        test = stats.ttest_ind(ours, theirs, equal_var=False)
        interval = test.confidence_interval()
        assert (row.low, row.high) == pytest.approx((interval.low, interval.high))
        assert row.now == pytest.approx(np.mean(ours))
        assert row.difference == pytest.approx(np.mean(ours) - np.mean(theirs))


def test_a_seed_that_diverged_counts_as_one_that_learned_nothing() -> None:
    now = made(range(24, 30), stream=1)
    found = check(BASELINE, Curves(now.runs, dict.fromkeys(range(30, 36), "no longer finite")))
    assert found.verdict == "worse"
    assert "6 diverged" in line("toy", found)
    everything = Curves({}, dict.fromkeys(range(24, 30), "no longer finite"))
    assert check(BASELINE, everything).verdict == "worse"


def design(baseline: Curves, **terms: float) -> Design:
    return plan_check(baseline, Terms(**terms)).design


def test_the_design_follows_spread_level_and_seeds_of_the_baseline() -> None:
    calm = design(BASELINE, effect=0.05)
    centre = np.mean(array(range(24)), axis=0)
    wild = changed(BASELINE, lambda row: centre + 2 * (row - centre))
    loud = design(wild, effect=0.05)
    assert loud.needed is None or loud.needed > 2 * calm.needed
    assert loud.caught["final"] > calm.caught["final"]
    stricter = design(BASELINE, effect=0.05, alpha=0.001)
    assert stricter.needed is None or stricter.needed > calm.needed
    small = design(some(BASELINE, range(6)), effect=0.05)
    spread = [some(BASELINE, range(n)).scores()["final"].std(ddof=1) for n in (6, 24)]
    assert small.caught["final"] / spread[0] > 1.3 * calm.caught["final"] / spread[1]
    assert small.lucky > calm.lucky > 0.01
    huge = design(made(range(2_000)), effect=0.05)
    assert huge.lucky == pytest.approx(0.01, rel=0.5)
    stages = design(BASELINE, effect=0.03).stages
    assert sum(stages.levels) == pytest.approx(0.01)
    assert 2 < len(stages.seeds) == len(set(stages.seeds))
    assert list(stages.seeds) == sorted(stages.seeds) <= [32] * len(stages)
    text = plan_line("toy", plan_check(BASELINE, Terms(effect=0.03)))
    assert f"4 seeds, up to {stages.seeds[-1]} while undecided" in text
    assert "false alarms: at most 0.01 on average over baselines" in text


def test_the_power_that_is_promised_is_there() -> None:
    """Against the loss that each design says is caught with 95%, in one score alone, on average
    over baselines of 5 seeds; 120 checks, standard error 2%. Taking the baseline's deviation for
    the true one gives 86%."""
    random, caught = np.random.default_rng(5), 0
    for _ in range(120):
        baseline = independent(random, range(5))
        terms = Terms(effect=0.1, unit=1.0, most=12)
        loss = plan_check(baseline, terms).design.caught["final"]
        found = sequential(baseline, lambda s, x=loss: independent(random, s, final=x), terms)
        caught += found.outcome == "fail"
    assert caught / 120 >= 0.93


def test_a_gain_in_one_score_does_not_hide_a_loss_in_the_other() -> None:
    """Final performance down by 1.3 effects, area up by two: at most the 2.5% whose loss is ruled
    out by mistake may pass as better."""
    random, verdicts = np.random.default_rng(4), []
    for _ in range(60):
        baseline = independent(random, range(8))
        terms = Terms(effect=2.0, unit=1.0)
        found = sequential(
            baseline, lambda seeds: independent(random, seeds, final=2.6, area=-4.0), terms
        )
        verdicts.append(found.verdict)
    assert verdicts.count("better") <= 3
    assert verdicts.count("worse") >= 54
    found = check(
        independent(random, range(40)),
        independent(random, range(40, 80), final=1.0, area=-4.0),
        Terms(effect=2.5, unit=1.0),
    )
    assert found.verdict == "better"
    assert "is better: area under the curve" in line("toy", found)
    assert "below 0, within the margin: final performance" in line("toy", found)


def test_what_it_learns_is_the_unit() -> None:
    """From the lowest to the highest point of the mean curve, over the tenth before each point."""
    mean = array(range(24)).mean(axis=0)
    # Two points in a tenth of 20.
    tenths = [mean[max(0, i - 1) : i + 1].mean() for i in range(20)]
    assert learned(BASELINE) == pytest.approx((min(tenths), max(tenths)))
    level = changed(BASELINE, lambda row: 0 * row + 3.0)
    assert np.ptp(learned(level)) > 0
    assert check(level, changed(level, lambda row: row - 1)).verdict == "worse"


def test_seeds_may_have_steps_of_their_own() -> None:
    """As where a point is logged at the end of each episode: the same curve, seen elsewhere."""
    random = np.random.default_rng(0)
    whole = made(range(24), stream=3)

    def seen_elsewhere(loss: float) -> Curves:
        inner = [random.choice(np.arange(100, 9_900), 60, replace=False) for _ in range(24)]
        marks = [np.append(np.sort(row), 10_000 - random.integers(50)) for row in inner]
        runs = zip(marks, whole.runs.values(), strict=True)
        return Curves({s: Run(m.astype(float), r.at(m) - loss) for s, (m, r) in enumerate(runs)})

    uneven = seen_elsewhere(0.0)
    assert len(uneven.steps) > 500
    for name, values in uneven.scores().items():
        np.testing.assert_allclose(values, whole.scores()[name], rtol=0.03)
    assert np.ptp(learned(uneven)) == pytest.approx(np.ptp(learned(whole)), rel=0.1)
    # Against a baseline with yet other steps, both ways round.
    assert check(BASELINE, uneven).outcome == check(uneven, BASELINE).outcome == "pass"
    assert check(BASELINE, seen_elsewhere(12.0)).verdict == "worse"
    again = check(uneven, some(uneven, [5, 7, 9, 11]))
    assert again.identical
    assert all(row.difference == 0 for row in again.rows)


def test_logging_more_often_is_no_change() -> None:
    """Steep curves: read at their own steps, those with more points would have more area."""
    fine, now = np.arange(100, 10_001, 100), made(range(30, 54))
    found = check(BASELINE, from_user([run.at(fine) for run in now.runs.values()], steps=fine))
    for ours, same in zip(found.rows, check(BASELINE, now).rows, strict=True):
        assert ours.now == pytest.approx(same.now)


def test_stages_of_uneven_curves_are_taken_together() -> None:
    def more(seeds):
        rows = array(seeds, 0.7, 2)
        return Curves({s: Run(STEPS - s % 7.0, row) for s, row in zip(seeds, rows, strict=True)})

    found = sequential(BASELINE, more, Terms(effect=0.01))
    assert len(found.now) == found.design.stages.seeds[-1]


def test_ones_own_scores() -> None:
    """A loss that neither the end nor the mean of training shows."""
    scores = {**SCORES, "lowest of the second half": lambda steps, values: values[10:].min()}
    now = changed(made(range(30, 54), stream=1), lambda row: row - 12.0 * (np.arange(20) == 14))
    assert check(BASELINE, now).outcome == "pass"
    found = check(BASELINE, now, Terms(scores=scores))
    assert line("toy", found).startswith("toy got worse: lowest of the second half ")
    assert table({"toy": found}).score.iloc[-1] == "lowest of the second half"
    with pytest.raises(UserError, match="seed 0 has no score 'odd'"):
        check(BASELINE, now, Terms(scores={"odd": lambda steps, values: float("nan")}))


ROW = [1.0, 2.0]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: check(BASELINE, made(range(30, 33))), "too few seeds: 3 seeds against 24"),
        (
            lambda: check(BASELINE, from_user(array(range(8))[:, :18], steps=STEPS[:18])),
            "different steps: the baseline has 20 points up to step 10,000, these curves have 18",
        ),
        (lambda: from_user([ROW], steps=[2, 2]), "seed 0 has two values at one step"),
        (lambda: from_user([ROW] * 2, seeds=[1, 1]), "seed 1 has two values at one step"),
        (lambda: from_user([ROW], seeds=[0, 1]), "with a number in seeds= for each row"),
        (
            lambda: sequential(BASELINE, lambda s: made(s[:1])),
            "called with the seeds 0, 1, 2, 3, but returned curves of 0",
        ),
        (lambda: check(BASELINE, made(range(8)), Terms(alpha=0)), "between 0 and 0.5, not 0"),
        (
            lambda: sequential(BASELINE, made, Terms(alpha=1e-7, most=4)),
            "could never show a loss at a false-alarm rate of 1e-07",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, says: str) -> None:
    with pytest.raises(UserError) as error:
        make()
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_data_frame_is_as_good_as_an_array() -> None:
    seeds = [7, 3, 5, 9, 11]
    columns = {"seed": np.repeat(seeds, 20), "step": np.tile(STEPS, 5)}
    frame = pandas.DataFrame({**columns, "return": array(seeds).ravel()})
    found = from_user(frame.sample(frac=1, random_state=0))
    assert sorted(found.seeds) == sorted(seeds)
    for seed, row in zip(seeds, array(seeds), strict=True):
        np.testing.assert_array_equal(found.runs[seed].values, row)
    with pytest.raises(UserError, match="seed 11 has no score 'final'"):
        from_user(frame.iloc[:-3])
    with pytest.raises(UserError, match="a data frame with the columns seed, step and value"):
        from_user(frame.rename(columns={"step": "steps"}))
    with pytest.raises(UserError, match="two values at one step"):
        from_user(pandas.concat([frame, frame.iloc[:1]]))


# Words go with numbers, whatever the numbers, their order and their unit

SEEDS, POINTS = 8, np.arange(1.0, 21.0)
_NOISE = np.random.default_rng(3).normal(size=(2, SEEDS))
# Scores by seed of a baseline that learns 1, and of new curves less those of the baseline
BASELINES = {"equal": np.zeros(SEEDS), "noise": 0.05 * _NOISE[0], "wide": _NOISE[0]}
CHANGES = {
    "identical": None,
    "no score": np.zeros(SEEDS),
    "up": np.full(SEEDS, 0.5),
    "down": np.full(SEEDS, -0.5),
    "a little down": np.full(SEEDS, -1 / 64),
    "one seed": np.where(np.arange(SEEDS) == 3, -4.0, 0.0),
    "ties": np.where(np.arange(SEEDS) % 2, -0.5, 0.0),
    "noise": 0.05 * _NOISE[1],
    "collapse": np.where(np.arange(SEEDS) % 2, -3.0, 1.0),
}


def curves(scores: np.ndarray, mark: float, unit: float = 1.0, add: float = 0.0) -> Curves:
    """Curves that learn 1 and end at their scores; mark: bits of their own, which no score sees."""
    rise = np.minimum(POINTS / 10, 1.0) - 1.0
    bits = mark * np.where(POINTS == 2, 1.0, np.where(POINTS == 4, -1.0, 0.0))
    rows = unit * (scores[:, None] + rise + bits) + add
    return from_user(rows, steps=POINTS)


def checked(baseline: str, change: str, **how) -> Check:
    old, moved = BASELINES[baseline], CHANGES[change]
    unit, add, order = how.get("unit", 1.0), how.get("add", 0.0), how.get("order", range(SEEDS))
    now = curves(old if moved is None else old + moved, 0.0 if moved is None else 0.25, unit, add)
    terms = Terms(alpha=0.02, higher_is_better=unit > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return check(curves(old, 0.0, unit, add), some(now, order), terms)


@pytest.mark.parametrize(("baseline", "change"), [*itertools.product(BASELINES, CHANGES)])
def test_words_go_with_numbers(baseline: str, change: str) -> None:
    found = checked(baseline, change)
    assert found.identical == (change == "identical")
    verdicts = {row.verdict for row in found.rows}
    if found.outcome == "fail":
        assert found.worst.verdict == "worse"
        assert found.worst.difference < 0
        assert found.worst.p_worse <= found.terms.alpha
    else:
        assert "worse" not in verdicts
    if found.verdict == "better":
        assert found.best.difference > 0
    if found.outcome == "pass":
        assert all(row.difference > -found.design.effect for row in found.rows)
    for row in found.rows:
        assert row.low <= row.difference <= row.high
        assert row.verdict != "equivalent" or abs(row.difference) < found.design.effect
    assert not {"nan", "inf"} & set(line("x", found).split())


MOVES = {
    "order of seeds": {"order": np.random.default_rng(1).permutation(SEEDS).tolist()},
    "a constant": {"add": 1024.0},
    "a large unit": {"unit": 2.0**40},
    "a small unit": {"unit": 2.0**-40},
    "a unit whose square is nothing": {"unit": 2.0**-990},
    "lower is better": {"unit": -1.0},
}


@pytest.mark.parametrize(("baseline", "move"), [*itertools.product(BASELINES, MOVES)])
def test_words_of_checks_stay(baseline: str, move: str) -> None:
    for change in CHANGES:
        before, after = (checked(baseline, change, **how) for how in ({}, MOVES[move]))
        assert (before.outcome, before.verdict) == (after.outcome, after.verdict), change
        assert [row.verdict for row in before.rows] == [row.verdict for row in after.rows], change
