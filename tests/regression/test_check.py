"""The check: what it calls worse, what it lets pass, how many seeds it takes, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic_curves import STEPS, array, independent, made

from ablations.errors import UserError
from ablations.regression import curves, messages
from ablations.regression.check import Terms, check, layout, learned, sequential
from ablations.regression.curves import first_difference, from_user
from ablations.report.scores import auc, final

BASELINE = made(range(24))


def run(loss: float, stream: int = 1, **terms: object):
    """A sequential check of other code that is worse by `loss`, and how many seeds it trained."""
    asked: list[int] = []

    def more(seeds):
        asked.extend(seeds)
        return made(seeds, loss, stream)

    found = sequential(BASELINE, more, Terms(**terms))
    assert len(asked) == len(set(asked)) == len(found.now)
    return found


def test_nothing_changed_is_seen_at_the_first_look() -> None:
    found = run(0.0, stream=0)
    assert found.verdict == "identical"
    assert len(found.now) == found.design.looks[0].seeds
    assert all(row.difference == 0 for row in found.rows)


def test_the_first_step_that_differs_is_named_whoever_it_is() -> None:
    values = BASELINE.values.copy()
    values[7, 12] = np.nextafter(values[7, 12], np.inf)
    values[3, 15] += 1.0
    assert first_difference(replace(BASELINE, values=values), BASELINE) == (7, STEPS[12])
    assert first_difference(BASELINE.of([5, 2]), BASELINE) is None


@pytest.mark.parametrize("loss", [10.0, 20.0])
def test_a_large_loss_takes_few_seeds(loss: float) -> None:
    found = run(loss)
    assert found.verdict == "worse"
    assert len(found.now) == 4
    assert found.worst.difference < 0


def test_a_gain_is_suspicious() -> None:
    found = run(-10.0)
    assert found.verdict == "better"
    assert "suspiciously better" in messages.line("toy", found)


def test_other_code_that_is_as_good_is_no_worse() -> None:
    found = run(0.0)
    assert found.verdict == "no worse"
    assert found.differs is not None


def test_seeds_are_added_only_while_undecided() -> None:
    wide = Terms(effect=0.03)
    taken = {
        loss: len(sequential(BASELINE, lambda s, x=loss: made(s, x, 2), wide).now)
        for loss in (0.0, 0.7, 20.0)
    }
    assert taken[20.0] == 4
    assert taken[20.0] <= taken[0.0] <= taken[0.7] <= wide.most


def test_lower_is_better_where_it_is_said() -> None:
    losses = replace(BASELINE, values=-BASELINE.values)
    worse = made(range(100, 108), 10.0)
    now = replace(worse, values=-worse.values)
    found = check(losses, now, Terms(higher_is_better=False))
    assert found.verdict == "worse"
    assert found.worst.difference > 0
    assert found.worst.low < found.worst.difference < found.worst.high
    assert check(losses, now, Terms()).verdict == "better"


def test_the_scores_are_those_of_the_tables() -> None:
    now = made(range(30, 38))
    found = {row.score: row for row in check(BASELINE, now).rows}
    for name, score in (("final", final), ("auc", auc)):
        ours = np.mean([score(STEPS, row) for row in now.values])
        theirs = np.mean([score(STEPS, row) for row in BASELINE.values])
        assert found[name].now == pytest.approx(ours)
        assert found[name].difference == pytest.approx(ours - theirs)


def test_the_interval_is_welchs_and_paired_students() -> None:
    from scipy import stats

    now = made(range(12), 1.0, stream=3)
    ours = [final(STEPS, row) for row in now.values]
    theirs = [final(STEPS, row) for row in BASELINE.values]
    welch = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    row = check(BASELINE, now).rows[0]
    assert (row.low, row.high) == pytest.approx((welch.low, welch.high))
    student = stats.ttest_rel(ours, theirs[:12]).confidence_interval()
    row = check(BASELINE, now, Terms(paired=True)).rows[0]
    assert (row.low, row.high) == pytest.approx((student.low, student.high))


def test_pairs_see_what_their_spread_hides() -> None:
    """The same runs, a little worse each: far less than the spread between seeds."""
    now = replace(BASELINE, values=BASELINE.values - np.linspace(0.3, 0.4, 24)[:, None])
    assert check(BASELINE, now, Terms(effect=0.005)).verdict == "undecided"
    assert check(BASELINE, now, Terms(effect=0.005, paired=True)).verdict == "worse"


def test_a_seed_that_diverged_counts_as_one_that_learned_nothing() -> None:
    now = made(range(24, 36), stream=1)
    lost = dict.fromkeys(range(30, 36), "no longer finite")
    found = check(BASELINE, replace(now.of(range(24, 30)), failed=lost))
    assert found.verdict == "worse"
    assert "6 diverged" in messages.line("toy", found)


def test_more_spread_between_seeds_needs_more_seeds() -> None:
    calm, _ = layout(BASELINE, Terms(effect=0.05))
    centre = BASELINE.values.mean(axis=0)
    wild = replace(BASELINE, values=centre + 2 * (BASELINE.values - centre))
    loud, _ = layout(wild, Terms(effect=0.05))
    assert calm.needed is not None
    assert loud.needed is None or loud.needed > 2 * calm.needed
    assert loud.caught["final"] > calm.caught["final"]
    stricter, _ = layout(BASELINE, Terms(effect=0.05, alpha=0.001))
    assert stricter.needed is None or stricter.needed > calm.needed


def test_the_levels_of_the_looks_add_up() -> None:
    made_, _ = layout(BASELINE, Terms(effect=0.03))
    assert len(made_.looks) > 2
    assert sum(look.level for look in made_.looks) == pytest.approx(0.01)
    seeds = [look.seeds for look in made_.looks]
    assert seeds == sorted(set(seeds))
    assert seeds[-1] <= 32


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


def test_a_gain_that_comes_with_a_smaller_loss_says_both() -> None:
    random = np.random.default_rng(0)
    found = check(
        independent(random, range(40)),
        independent(random, range(40, 80), final=1.0, area=-4.0),
        Terms(effect=2.5, unit=1.0),
    )
    assert found.verdict == "better"
    line = messages.line("toy", found)
    assert "suspiciously better: area under the curve" in line
    assert "though a loss is shown: final performance" in line


@pytest.mark.parametrize("old", [5, 8, 24])
def test_the_power_that_is_promised_is_there(old: int) -> None:
    """Against the loss that each design says is caught with 95%, in one score alone, on average
    over baselines; 120 checks, standard error 2%. Taking the baseline's deviation for the true one
    gives 86% and 92% for baselines of 5 and 8 seeds."""
    random, caught = np.random.default_rng(old), 0
    for _ in range(120):
        baseline = independent(random, range(old))
        terms = Terms(effect=0.1, unit=1.0, most=12)
        made_, _ = layout(baseline, terms)
        loss = made_.caught["final"]
        found = sequential(baseline, lambda s, x=loss: independent(random, s, final=x), terms)
        caught += found.verdict == "worse"
    assert caught / 120 >= 0.93


def test_a_small_baseline_promises_less_and_a_lucky_one_alarms_more() -> None:
    small, _ = layout(BASELINE.of(range(6)), Terms(effect=0.05))
    large, _ = layout(BASELINE, Terms(effect=0.05))
    spread = [curves.scores(BASELINE.of(range(n)))["final"].std(ddof=1) for n in (6, 24)]
    assert small.caught["final"] / spread[0] > 1.3 * large.caught["final"] / spread[1]
    assert small.lucky > large.lucky > large.alpha
    huge, _ = layout(made(range(2_000)), Terms(effect=0.05))
    assert huge.lucky == pytest.approx(huge.alpha, rel=0.5)


def test_it_says_before_it_runs_how_many_seeds_it_may_take() -> None:
    terms = Terms(effect=0.03)
    made_, unit = layout(BASELINE, terms)
    text = messages.plan_line("toy", made_, unit, terms)
    assert f"4 seeds, up to {made_.most_seeds} while undecided" in text
    assert "against the baseline's 24" in text
    assert "false alarms at most 0.01 on average over baselines" in text
    assert "lucky by two standard errors" in text


def test_what_it_learns_is_the_unit() -> None:
    """From the lowest to the highest point of the mean curve, over the tenth before each point."""
    mean, steps = BASELINE.values.mean(axis=0), BASELINE.steps
    tenths = [
        mean[(steps > step - steps[-1] / 10) & (steps <= step)].mean() for step in steps.tolist()
    ]
    assert learned(BASELINE).size == pytest.approx(np.ptp(tenths))
    level = replace(BASELINE, values=np.full((24, 20), 3.0))
    assert learned(level).size > 0
    assert check(level, replace(level, values=level.values - 1)).verdict == "worse"


def test_one_line_says_what_where_and_by_how_much() -> None:
    line = messages.line("sac-hopper", run(12.0))
    assert line.startswith("sac-hopper got worse: ")
    assert "\n" not in line
    assert "→" in line
    assert "of what the baseline learns" in line


def test_a_point_at_step_0_is_a_point() -> None:
    """Brax evaluates before it trains."""
    values = np.concatenate([np.zeros((24, 1)), BASELINE.values], axis=1)
    found = from_user(values, steps=[0, *STEPS])
    assert found.steps[0] == 0
    assert check(found, found.of(range(8))).verdict == "identical"


def test_seeds_may_have_steps_of_their_own() -> None:
    """As where a point is logged at the end of each episode: the same curve, seen elsewhere."""
    random = np.random.default_rng(0)
    whole = made(range(24), stream=3)

    def seen_elsewhere(loss: float) -> curves.Curves:
        inner = [random.choice(np.arange(100, 9_900), 60, replace=False) for _ in range(24)]
        marks = [np.append(np.sort(row), 10_000 - random.integers(50)) for row in inner]
        rows = [
            np.interp(row, STEPS, values) - loss
            for row, values in zip(marks, whole.values, strict=True)
        ]
        return from_user(rows, steps=marks)

    uneven = seen_elsewhere(0.0)
    assert uneven.values.shape[1] > 500
    for name, values in curves.scores(uneven).items():
        np.testing.assert_allclose(values, curves.scores(whole)[name], rtol=0.03)
    assert learned(uneven).size == pytest.approx(learned(whole).size, rel=0.1)
    # Against a baseline with yet other steps, both ways round.
    assert check(BASELINE, uneven).verdict == "no worse"
    assert check(uneven, BASELINE).verdict == "no worse"
    assert check(BASELINE, seen_elsewhere(12.0)).verdict == "worse"
    again = check(uneven, uneven.of([5, 7, 9, 11]))
    assert again.verdict == "identical"
    assert all(row.difference == 0 for row in again.rows)


def test_logging_more_often_is_no_change() -> None:
    """Steep curves: read at their own steps, those with more points would have more area."""
    fine = np.arange(100, 10_001, 100)
    rows = [np.interp(fine, STEPS, row) for row in made(range(30, 54)).values]
    found = check(BASELINE, from_user(rows, steps=fine))
    theirs = check(BASELINE, made(range(30, 54)))
    for ours, same in zip(found.rows, theirs.rows, strict=True):
        assert ours.now == pytest.approx(same.now)


def test_looks_at_uneven_curves_are_taken_together() -> None:
    def more(seeds):
        marks = [STEPS - seed % 7 for seed in seeds]
        return from_user(array(seeds, 0.7, 2), steps=marks, seeds=seeds)

    found = sequential(BASELINE, more, Terms(effect=0.01))
    assert len(found.now) == found.design.most_seeds


def test_ones_own_scores() -> None:
    """A loss that neither the end nor the mean of training shows."""
    scores = {**curves.SCORES, "lowest of the second half": lambda steps, values: values[10:].min()}
    now = made(range(30, 54), stream=1)
    now.values[:, 14] -= 12.0
    assert check(BASELINE, now).verdict == "no worse"
    found = check(BASELINE, now, Terms(scores=scores))
    assert found.verdict == "worse"
    assert messages.line("toy", found).startswith("toy got worse: lowest of the second half ")
    assert "lowest of the second half" in messages.text({"toy": found})
    with pytest.raises(UserError, match="the score 'odd' of seed 0 is nan, not a number"):
        check(BASELINE, now, Terms(scores={"odd": lambda steps, values: float("nan")}))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: check(BASELINE, made(range(30, 33))),
            "too few seeds: 3 seeds against 24",
        ),
        (
            lambda: check(BASELINE.of(range(4)), made(range(30, 40))),
            "the baseline has 4 seeds: at least 5",
        ),
        (
            lambda: check(BASELINE, from_user(array(range(8))[:, :18], steps=STEPS[:18])),
            "different steps: the baseline has 20 points up to step 10,000, these curves have 18",
        ),
        (
            lambda: check(BASELINE, from_user(array(range(8)), steps=2 * STEPS)),
            "different steps",
        ),
        (lambda: from_user([[1.0, 2.0], [1.0]]), "unequal lengths: seed 0 has 2 points, seed 1"),
        (
            lambda: from_user([[1.0, float("nan"), 2.0]]),
            "the curve of seed 0 is nan at step 2",
        ),
        (lambda: from_user([[1.0, float("inf")]], missing_ok=True), "is inf at step 2"),
        (
            lambda: from_user([[1.0] * 9 + [float("nan")]], missing_ok=True),
            "no value where its final score looks (the last tenth of the steps)",
        ),
        (lambda: from_user([["a", "b"]]), "curves must be numbers"),
        (lambda: from_user(3.0), "curves are an array [seeds, points]"),
        (lambda: from_user(np.zeros((2, 3, 4))), "must have the shape [seeds, points]"),
        (lambda: from_user([[1.0, 2.0]], steps=[2, 1]), "must increase from point to point"),
        (lambda: from_user([[1.0, 2.0]], steps=[-1, 2]), "must not be negative"),
        (lambda: from_user([[1.0, 2.0]], steps=[[1, 2], [1, 2]]), "1 curves, but steps= has 2"),
        (lambda: from_user([[1.0, 2.0], [1.0]], steps=[[1, 2], [1, 2]]), "2 steps for 1 points"),
        (lambda: from_user([[1.0, 2.0]], steps=[1]), "1 steps for 2 points"),
        (lambda: from_user([[1.0, 2.0]] * 2, seeds=[1, 1]), "a seed occurs twice"),
        (lambda: from_user([[1.0, 2.0]] * 2, seeds=[1, 1.5]), "seeds must be whole numbers"),
        (
            lambda: from_user([[1.0, 2.0]] * 2, seeds=[1, float("nan")]),
            "seeds must be whole numbers",
        ),
        (lambda: from_user([[1.0, 2.0]] * 2, seeds=[1]), "2 curves, but seeds= names 1"),
        (
            lambda: sequential(BASELINE, lambda s: made(s[:1])),
            "asked for 4 more seeds (0, 1, 2, 3), got curves of 1 (0)",
        ),
        (lambda: check(BASELINE, made(range(8)), Terms(alpha=0)), "between 0 and 0.5, not 0"),
        (lambda: check(BASELINE, made(range(8)), Terms(effect=0)), "above 0, not 0"),
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
    import pandas

    seeds = [7, 3, 5, 9, 11]
    frame = pandas.DataFrame(
        {
            "seed": np.repeat(seeds, 20),
            "step": np.tile(STEPS, 5),
            "return": array(seeds).ravel(),
        }
    )
    found = from_user(frame.sample(frac=1, random_state=0))
    assert sorted(found.seeds) == sorted(seeds)
    np.testing.assert_array_equal(found.of(seeds).values, array(seeds))
    with pytest.raises(UserError, match="the curve of seed 11 has no value where its final score"):
        from_user(frame.iloc[:-3])
    with pytest.raises(UserError, match="has the columns seed, step and value"):
        from_user(frame.rename(columns={"step": "steps"}))
    with pytest.raises(UserError, match="two values at one step"):
        from_user(pandas.concat([frame, frame.iloc[:1]]))
