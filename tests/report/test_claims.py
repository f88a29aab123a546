"""Published claims: the statistics against loops that anyone can read, the words against their
rules, the page against the archives."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from synthetic import synthetic_study

import variants
from ablations import cli
from ablations.core.verdict import Verdict
from ablations.errors import UserError
from ablations.exchange import archive, restore
from ablations.records import Plan, Record, read_plan, read_record, write_record
from ablations.report.claims.conditions import again, conditions_sheet, fates
from ablations.report.claims.cost import cost_sheet
from ablations.report.claims.entries import OWN, Claim, read, read_conditions
from ablations.report.claims.found import learned_by
from ablations.report.claims.judge import by_another, judged
from ablations.report.claims.page import page
from ablations.report.claims.rows import claims_sheet, difference_of_estimates, replication_sheet
from ablations.report.claims.words import sentence, stand, turning, verdict
from ablations.report.figures.claims import STAND_COLORS, all_claims, one_claim
from ablations.report.figures.conditions import conditions as heat_map
from ablations.report.figures.marks import Text
from ablations.report.results import Results
from ablations.report.scores import scores
from ablations.report.statistics import LEVEL, compare_lost, compare_spreads, design, lost
from ablations.report.statistics.summaries import REPLICATES, SEED
from ablations.studies import fraction
from ablations.sweep.planned import planned
from ablations.trainers.definition import BUILT_IN

ROOT = Path(__file__).parents[2]
SEEDS = 20


# Statistics


def test_a_ratio_of_spreads_is_the_jackknife_of_its_logarithm() -> None:
    rng = np.random.default_rng(3)
    common = rng.normal(size=12)
    a, b = common + rng.gamma(1.0, 2.0, 12), common + rng.normal(size=12)
    ratio = math.log(np.std(a, ddof=1) / np.std(b, ddof=1))
    pseudo = []
    for k in range(12):
        rest = [np.std(np.delete(x, k), ddof=1) for x in (a, b)]
        pseudo.append(12 * ratio - 11 * math.log(rest[0] / rest[1]))
    reach = stats.t.ppf(0.995, 11) * np.std(pseudo, ddof=1) / math.sqrt(12)
    found = compare_spreads(a, b, 0.01)
    assert (found.difference, found.low, found.high) == pytest.approx(
        (ratio, ratio - reach, ratio + reach)
    )
    turned = compare_spreads(b, a, 0.01)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))  # type: ignore[operator]
    moved = compare_spreads(5 + 3 * a, b - 7, 0.01)
    assert moved.difference == pytest.approx(ratio + math.log(3))


def test_a_spread_of_nothing_has_no_interval() -> None:
    some = [1.0, 2.0, 4.0, 3.0]
    assert compare_spreads([1.0] * 4, some).low is None
    assert compare_spreads([1.0, 1.0, 1.0, 9.0], some).low is None, "one seed alone differs"
    assert compare_spreads(some[:3], some[:3]).low is None


@pytest.mark.parametrize(
    ("shape", "least"), [("normal", 0.93), ("skewed", 0.88), ("collapses", 0.93)]
)
def test_intervals_of_ratios_of_spreads_cover(shape: str, least: float) -> None:
    """Of skewed returns 90%, as its docstring says, where Pitman's and Morgan's cover 70%."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(800):
        draw = {
            "normal": lambda: rng.normal(size=SEEDS),
            "skewed": lambda: -np.exp(0.6 * rng.normal(size=SEEDS)),
            "collapses": lambda: np.where(rng.random(SEEDS) < 0.15, -5, 0) + rng.normal(size=SEEDS),
        }[shape]
        found = compare_spreads(draw(), draw())
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0 <= found.high
    assert hits / 800 >= least


def test_what_one_setting_for_all_loses() -> None:
    assert lost([[1.0, 0.0], [0.0, 1.0]]) == pytest.approx(1.0 - 0.5)
    assert lost([[3.0, 2.0], [7.0, 1.0]]) == 0, "the first setting is the best everywhere"
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 4))
    by_hand = np.mean([max(row) for row in means]) - max(np.mean(means[:, h]) for h in range(4))
    assert lost(means) == pytest.approx(by_hand)


def test_losses_are_compared_by_a_bootstrap_over_seeds() -> None:
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(size=(2, 2, 3, 9)) + rng.normal(size=9)
    found = compare_lost(ours, theirs, 0.1)
    drawn = np.random.default_rng([SEED, 9]).integers(0, 9, (REPLICATES, 9))
    loops = [
        float(lost(ours[:, :, row].mean(axis=2)) - lost(theirs[:, :, row].mean(axis=2)))
        for row in drawn
    ]
    tail = stats.norm.cdf(stats.t.ppf(0.05, 8) * math.sqrt(9 / 8))
    assert found.difference == pytest.approx(lost(ours.mean(2)) - lost(theirs.mean(2)))
    assert (found.low, found.high) == pytest.approx(np.quantile(loops, (tail, 1 - tail)))
    same = compare_lost(ours, ours)
    assert (same.difference, same.low, same.high) == (0, None, None), "no seed differs"


def test_two_settings_of_which_some_combinations_lack_are_one_factor() -> None:
    statistics = [("all", "minibatch"), ("all", "batch"), ("group", "batch")]
    sets = {
        f"{a},{s},{c}": {"advantage": a, "statistics": s, "scope": c}
        for a, (s, c) in itertools.product(("gae", "brax"), statistics)
    }
    found = design(sets, "gae,all,minibatch")
    assert found is not None
    assert found.factors == {
        "advantage": ("gae", "brax"),
        "statistics, scope": ("all, minibatch", "all, batch", "group, batch"),
    }
    assert found.variants["brax,group,batch"] == (1, 2)
    del sets["brax,all,batch"]
    assert design(sets, "gae,all,minibatch") is None


# Words


@pytest.mark.parametrize(
    ("word", "higher", "lower", "none", "differs"),
    [
        ("better", "holds", "opposite", "differs", "holds"),
        ("better, by an undecided amount", "holds", "opposite", "amount", "amount"),
        ("worse", "opposite", "holds", "differs", "holds"),
        ("lower, by an undecided amount", "opposite", "holds", "amount", "amount"),
        ("equivalent", "no difference", "no difference", "holds", "no difference"),
        ("identical", "no difference", "no difference", "holds", "no difference"),
        ("undecided", "undecided", "undecided", "undecided", "undecided"),
        ("unstable", "unstable", "unstable", "unstable", "unstable"),
        (Verdict.NOT_RUN_YET, "not run", "not run", "not run", "not run"),
    ],
)
def test_what_a_word_says_of_a_sentence(word, higher, lower, none, differs) -> None:
    directions = ("higher", "lower", "none", "differs")
    assert tuple(stand(Verdict(word), one) for one in directions) == (higher, lower, none, differs)


def claim(**changes: object) -> Claim:
    values: dict[str, object] = {
        "id": "one",
        "title": "Brax is better",
        "source": "a paper",
        "published": "no number",
        "judged": "Brax's estimator is better.",
        "study": "gae",
        "metric": "training/return",
        "statistic": "difference",
        "direction": "higher",
        "tasks": ("hopper", "reacher"),
        "margin": 0.05,
        "variant": ("brax",),
        "versus": ("standard",),
    }
    return Claim(**(values | changes))  # type: ignore[arg-type]


def around(mean: float, spread: float = 0.01) -> list[float]:
    """Scores of known mean, whose differences between variants have a spread of their own."""
    noise = np.random.default_rng(int(1e6 * abs(mean)) + 7).normal(size=SEEDS)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    return [float(x) for x in mean + spread * noise]


def study(tmp_path: Path, finals: dict[tuple[str, str], list[float]], **how: object):
    return synthetic_study(tmp_path, finals, **how)  # type: ignore[arg-type]


FINALS = {
    ("hopper", "standard"): around(1.0),
    ("hopper", "brax"): around(1.2),
    ("reacher", "standard"): around(1.0),
    ("reacher", "brax"): around(1.001),
}


def test_a_claim_holds_on_one_task_and_makes_no_difference_on_another(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS)
    one = judged(claim(), Results(plan, tmp_path))
    assert [part.word for part in one.parts] == ["better", "equivalent"]
    assert verdict(one) == "holds on 1 of 2, fails on 1"
    assert sentence(one).startswith("Holds (better) on hopper; no difference that matters on rea")
    both = [np.array(FINALS["hopper", name]) for name in ("brax", "standard")]
    difference = both[0] - both[1]
    # Two comparisons share the 5%; the unit of the synthetic curves is what they rise by.
    reach = stats.t.ppf(1 - LEVEL / 4, SEEDS - 1) * stats.sem(difference)
    assert one.parts[0].low == pytest.approx(difference.mean() - reach)
    unit = one.parts[0].value / one.parts[0].effect / 0.05  # type: ignore[operator]
    assert unit == pytest.approx(1.0, abs=0.05)


def test_all_claims_at_once_have_wider_intervals(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS)
    alone = judged(claim(), Results(plan, tmp_path)).parts[0]
    wide = judged(claim(), Results(plan, tmp_path), LEVEL / 50).parts[0]
    assert wide.low < alone.low  # type: ignore[operator]
    assert wide.value == alone.value


def test_the_other_way_round_it_is_the_opposite(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS)
    turned = claim(variant=("standard",), versus=("brax",), tasks=("hopper",))
    one = judged(turned, Results(plan, tmp_path))
    assert (one.parts[0].word, verdict(one)) == ("worse", "the opposite")
    assert verdict(judged(replace(turned, direction="lower"), Results(plan, tmp_path))) == "holds"
    assert verdict(judged(replace(turned, direction="none"), Results(plan, tmp_path))) == "differs"


def test_tasks_that_disagree_are_named(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS | {("reacher", "brax"): around(0.7)})
    one = judged(claim(direction="differs"), Results(plan, tmp_path))
    assert verdict(one) == "holds; tasks disagree"
    assert "one interval lies above 0 and another below" in sentence(one)


def test_what_is_undecided_says_how_many_seeds_would_decide(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS | {("reacher", "brax"): around(1.0, 0.3)})
    one = judged(claim(tasks=("reacher",)), Results(plan, tmp_path))
    assert verdict(one) == "undecided"
    assert "seeds would decide)" in sentence(one)


def test_a_seed_that_is_missing_is_not_judged(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS, missing=[("reacher", "brax", 3)])
    one = judged(claim(), Results(plan, tmp_path))
    assert verdict(one) == "so far: holds"
    assert "not run yet (19 of 20 seeds) on reacher" in sentence(one)
    nothing = study(
        tmp_path / "b", FINALS, missing=[(t, v, s) for t, v in FINALS for s in range(SEEDS)]
    )
    assert verdict(judged(claim(), Results(nothing, tmp_path / "b"))) == Verdict.NOT_RUN_YET


def test_a_variant_that_fails_more_often_gets_no_flattering_word(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS, failed={("hopper", "brax", 1): "NaN"})
    one = judged(claim(tasks=("hopper",)), Results(plan, tmp_path))
    assert (one.parts[0].word, verdict(one)) == ("unstable", "runs fail")
    wide = claim(statistic="spread", margin=1.5, direction="lower", tasks=("hopper",))
    finals = FINALS | {("hopper", "brax"): around(1.2, 0.001)}
    plan = study(tmp_path / "b", finals, failed={("hopper", "brax", 1): "NaN"})
    assert verdict(judged(wide, Results(plan, tmp_path / "b"))) == "runs fail"


def test_a_smaller_spread_holds_and_is_a_ratio(tmp_path: Path) -> None:
    finals = FINALS | {("hopper", "brax"): around(1.2, 0.001)}
    plan = study(tmp_path, finals)
    one = judged(claim(statistic="spread", margin=1.5, direction="lower"), Results(plan, tmp_path))
    (part, other) = one.parts
    assert part.value == pytest.approx(0.1)
    assert part.effect == pytest.approx(math.log(0.1) / math.log(1.5))
    assert (part.word, other.value) == ("lower", pytest.approx(1.0))
    expected = compare_spreads(finals["hopper", "brax"], finals["hopper", "standard"], LEVEL / 2)
    assert part.low == pytest.approx(math.exp(expected.low))  # type: ignore[arg-type]


def test_robustness_is_lost_between_the_best_rates_of_tasks(tmp_path: Path) -> None:
    """One line wants another rate on each task; the other has one that is best on both."""
    means = {
        ("hopper", "a@rate=1"): 1.0,
        ("hopper", "a@rate=2"): 0.5,
        ("reacher", "a@rate=1"): 0.5,
        ("reacher", "a@rate=2"): 1.0,
        ("hopper", "b@rate=1"): 1.0,
        ("hopper", "b@rate=2"): 0.5,
        ("reacher", "b@rate=1"): 1.0,
        ("reacher", "b@rate=2"): 0.5,
    }
    plan = study(
        tmp_path, {place: around(mean) for place, mean in means.items()}, baseline="b@rate=1"
    )
    asked = claim(
        statistic="robustness",
        variant=("a@rate=1", "a@rate=2"),
        versus=("b@rate=1", "b@rate=2"),
    )
    one = judged(asked, Results(plan, tmp_path))
    unit = 1 - math.exp(-4 * 0.9)  # by the smoothed curve, nearly what the final score rises by
    assert one.parts[0].value == pytest.approx(0.25, rel=0.1), unit
    assert one.parts[0].word == "higher"
    assert "a is best at rate=1 on hopper, rate=2 on reacher" in one.notes[0]


def test_effects_average_over_the_other_details(tmp_path: Path) -> None:
    finals, sets = {}, {}
    for a, b in itertools.product((0, 1), (0, 1)):
        finals["hopper", f"{a}{b}"] = around(1.0 + 0.2 * a + 0.3 * a * b + 0.001 * b)
        sets[f"{a}{b}"] = {"first": str(a), "second": str(b)}
    plan = study(tmp_path, finals, sets=sets)
    asked = claim(tasks=("hopper",), variant=(), versus=(), direction="differs")
    main = judged(replace(asked, statistic="effect", factor="first"), Results(plan, tmp_path))
    assert main.parts[0].value == pytest.approx(0.35, abs=0.005)
    assert verdict(main) == "holds"
    both = judged(replace(asked, statistic="interaction"), Results(plan, tmp_path))
    assert both.parts[0].value == pytest.approx(0.3, abs=0.005)
    with pytest.raises(UserError, match="factor of claim 'one'"):
        judged(replace(asked, statistic="effect", factor="third"), Results(plan, tmp_path))


def test_a_fraction_has_main_effects_and_no_interactions(tmp_path: Path) -> None:
    changes = {name: {name: "on"} for name in ("first", "second", "third", "fourth")}
    finals, sets = {}, {}
    for name, one in fraction(changes).items():
        gain = 0.2 * ("first" in one.sets) + 0.1 * ("second" in one.sets and "third" in one.sets)
        finals["hopper", name] = around(1.0 + gain)
        sets[name] = {change: one.sets.get(change, "off") for change in changes}
    on = [name for name, of in sets.items() if of["fourth"] == "on"]
    failed = {("hopper", name, seed): "nan" for name in on for seed in (0, 1)}
    plan = study(tmp_path, finals, sets=sets, failed=failed)
    asked = claim(tasks=("hopper",), variant=(), versus=(), direction="higher")
    main = replace(asked, statistic="effect", factor="first")
    assert judged(main, Results(plan, tmp_path)).parts[0].value == pytest.approx(0.2, abs=0.01)
    second = judged(replace(main, factor="second"), Results(plan, tmp_path))
    assert second.parts[0].value == pytest.approx(0.05, abs=0.01)
    fourth = judged(replace(main, factor="fourth", direction="none"), Results(plan, tmp_path))
    assert fourth.parts[0].word == "unstable", "of equal returns more runs fail with it"
    for which, word in (([0], "equivalent"), (range(SEEDS), "unstable")):
        failed = {("hopper", on[0], seed): "nan" for seed in which}
        plan = study(tmp_path / word, finals, sets=sets, failed=failed)
        (part,) = judged(replace(main, factor="fourth"), Results(plan, tmp_path / word)).parts
        assert part.word == word, "one of so many runs is no sign; without a whole seed nothing is"
    with pytest.raises(UserError, match="fraction of a factorial"):
        judged(replace(asked, statistic="interaction"), Results(plan, tmp_path))


def with_evaluations(
    folder: Path, finals: dict[tuple[str, str], tuple[list[float], list[float]]]
) -> Plan:
    """A study whose cells end at known training and evaluation returns: training rises by 1 in a
    straight line, and the first of five evaluations comes when most of that is done."""
    everything = [(task, v, s) for task, v in finals for s in range(SEEDS)]
    plan = study(folder, {place: both[0] for place, both in finals.items()}, missing=everything)
    step = np.arange(1, 21) * 1000
    for cell in plan.cells:
        trained, evaluated = (one[cell.seed] for one in finals[cell.task, cell.variant])
        seen = [evaluated - 0.1 * (20 - k) / 20 if k % 4 == 0 else None for k in range(1, 21)]
        columns = {
            "step": step,
            "training/return": trained - 1 + np.minimum(step / 19_000, 1.0),
            "evaluation/return": seen,
        }
        write_record(folder, Record(cell.hash, cell.config, status="done"), columns)
    return plan


def test_evaluations_are_judged_by_what_training_learned(tmp_path: Path) -> None:
    """By the rise of evaluations alone, 0.08 here, a margin would be a twelfth of it."""
    finals = {
        ("hopper", "standard"): (around(1.0), around(1.5)),
        ("hopper", "brax"): (around(1.0, 0.02), around(1.52)),
    }
    plan = with_evaluations(tmp_path, finals)
    asked = claim(tasks=("hopper",), metric="evaluation/return")
    one = judged(asked, Results(plan, tmp_path))
    (part,) = one.parts
    assert part.value == pytest.approx(0.02)
    assert part.value / part.effect / 0.05 == pytest.approx(1.0, rel=0.1)  # type: ignore[operator]
    assert part.word == "equivalent"
    # The page tells that this margin is more than half of what evaluations rose by.
    margin, rose = one.margins["hopper"]
    assert margin == pytest.approx(part.value / part.effect)  # type: ignore[operator]
    assert rose == pytest.approx(0.08)
    text = " ".join(page([one], [one], {}).split())
    assert f"The margin is {margin:.3g} on hopper ({100 * margin / 0.08:.0f}%)" in text
    fallen = replace(one, margins={"hopper": (margin, -1.0)})
    assert f"The margin is {margin:.3g} on hopper (these fell)" in " ".join(
        page([fallen], [fallen], {}).split()
    )


def test_metrics_agree_where_differences_are_the_same(tmp_path: Path) -> None:
    finals = {
        ("hopper", "standard"): (around(1.0), around(1.5)),
        ("hopper", "brax"): (around(1.2), around(1.7)),
        ("hopper", "other"): (around(1.1), around(1.3)),
    }
    plan = with_evaluations(tmp_path, finals)
    asked = claim(statistic="agreement", direction="none", variant=(), versus=(), tasks=("hopper",))
    one = judged(replace(asked, against="evaluation/return"), Results(plan, tmp_path))
    same, other = one.parts
    assert (same.label, same.word) == ("brax", "equivalent")
    trained, evaluated = (
        np.array(finals["hopper", "other"][k]) - np.array(finals["hopper", "standard"][k])
        for k in (0, 1)
    )
    assert other.value == pytest.approx(np.mean(trained - evaluated), rel=0.1)
    reach = stats.t.ppf(1 - LEVEL / 4, SEEDS - 1) * stats.sem(trained - evaluated)
    assert other.high - other.value == pytest.approx(reach, rel=0.1)  # type: ignore[operator]
    assert other.word == "higher"
    assert "1 of 2 comparisons get the same word, and 1 the opposite one" in one.notes[0]
    assert "0.50 on hopper" in one.notes[0], "ranks 1, 3, 2 and 2, 3, 1"


def test_a_curve_that_still_rises_is_named(tmp_path: Path) -> None:
    finals = {("hopper", v): (around(1.0), around(1.0)) for v in ("standard", "brax")}
    plan = with_evaluations(tmp_path, finals)
    one = judged(claim(tasks=("hopper",)), Results(plan, tmp_path))
    # From the tenth that ends at 80% of training to the last one: points 15, 16 and 19, 20.
    rise = (19 / 19 + 1) / 2 - (15 + 16) / 2 / 19
    assert one.rising["hopper"] == pytest.approx(rise / 0.05, rel=0.1)
    assert "still moved on hopper (+3.9 margins)" in " ".join(page([one], [one], {}).split())
    level = judged(claim(tasks=("hopper",)), Results(study(tmp_path / "b", FINALS), tmp_path / "b"))
    assert abs(level.rising["hopper"]) < 1.5


def test_the_margin_is_the_claims_own(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS)
    wide = judged(claim(margin=0.5), Results(plan, tmp_path))
    assert [part.word for part in wide.parts] == ["equivalent", "equivalent"]
    assert verdict(wide) == "no difference that matters"
    # What would change it: a margin as small as the interval that reaches furthest.
    furthest = max(part.effect_high for part in wide.parts if part.effect_high is not None)
    other = judged(claim(margin=0.4999 * furthest), Results(plan, tmp_path))
    assert verdict(other) not in (verdict(wide), "undecided")
    assert turning(wide) == (
        f"A margin just below {50 * furthest:.1f}% of what was learned: "
        f'it would be "{verdict(other)}".'
    )


def test_past_the_margins_that_are_told_the_verdict_is_what_is_told(tmp_path: Path) -> None:
    """Judged anew, on either side of both."""
    finals = {**FINALS, ("hopper", "brax"): around(1.06)}
    plan = study(tmp_path, finals)
    for direction in ("higher", "none", "differs"):
        asked = claim(direction=direction, margin=0.05)
        one = judged(asked, Results(plan, tmp_path))
        told = re.findall(
            r"margin just (below|above) ([\d.]+)% of [a-z ]+: it would be \"(.*?)\"", turning(one)
        )
        assert told, direction
        for side, percent, said in told:
            for share, there in ((0.9, side == "below"), (1.1, side == "above")):
                margin = share * float(percent) / 100
                again = judged(replace(asked, margin=margin), Results(plan, tmp_path))
                assert (verdict(again) == said) is there, (direction, side, percent, share)


def test_robustness_is_a_share_of_what_was_learned(tmp_path: Path) -> None:
    """Ten times the returns and ten times the learning: the same loss."""
    values = {"a@rate=1": (1.0, 0.5), "a@rate=2": (0.5, 1.0), "b@rate=1": (1.0, 1.0)}
    values["b@rate=2"] = (0.5, 0.5)
    found = []
    for times in (1.0, 10.0):
        finals = {
            (task, v): [times * x for x in around(values[v][k])]
            for v in values
            for k, task in enumerate(("hopper", "reacher"))
        }
        folder = tmp_path / str(times)
        units = dict.fromkeys(("hopper", "reacher"), times)
        plan = study(folder, finals, baseline="b@rate=1", units=units)
        asked = claim(
            statistic="robustness",
            variant=("a@rate=1", "a@rate=2"),
            versus=("b@rate=1", "b@rate=2"),
        )
        found.append(judged(asked, Results(plan, folder)).parts[0])
    assert found[0].value == pytest.approx(found[1].value)
    assert found[0].low == pytest.approx(found[1].low)


def test_effects_of_two_tasks_share_their_level(tmp_path: Path) -> None:
    finals, sets = {}, {}
    for task, a, b in itertools.product(("hopper", "reacher"), (0, 1), (0, 1)):
        finals[task, f"{a}{b}"] = around(1.0 + 0.2 * a + 0.003 * b)
        sets[f"{a}{b}"] = {"first": str(a), "second": str(b)}
    plan = study(tmp_path, finals, sets=sets)
    asked = claim(variant=(), versus=(), statistic="effect", factor="first")
    part = judged(asked, Results(plan, tmp_path)).parts[0]
    y = {name: np.array(finals["hopper", name]) for name in sets}
    contrast = (y["10"] + y["11"] - y["00"] - y["01"]) / 2
    reach = stats.t.ppf(1 - LEVEL / 4, SEEDS - 1) * stats.sem(contrast)
    assert (part.low, part.high) == pytest.approx(
        (contrast.mean() - reach, contrast.mean() + reach)
    )


def test_an_undecided_amount_says_what_seeds_tell_on_which_side_it_lies(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS | {("hopper", "brax"): around(1.06, 0.02)})
    one = judged(claim(direction="none", tasks=("hopper",)), Results(plan, tmp_path))
    (part,) = one.parts
    assert part.word == "better, by an undecided amount"
    assert verdict(one) == "differs, by an undecided amount"
    assert part.needed is not None
    assert part.needed.seen is not None
    margin = part.value / part.effect  # type: ignore[operator]
    differences = np.array(around(1.06, 0.02)) - np.array(FINALS["hopper", "standard"])
    away, deviation = differences.mean() - margin, differences.std(ddof=1)

    def power(n: int) -> float:
        shift = away / deviation * math.sqrt(n)
        far = stats.t.ppf(1 - LEVEL / 2, n - 1)
        return float(stats.nct.sf(far, n - 1, shift) + stats.nct.cdf(-far, n - 1, shift))

    assert power(part.needed.seen) >= 0.79
    assert power(part.needed.seen - 2) < 0.81


def test_a_range_of_seeds_is_that_of_all_that_is_undecided(tmp_path: Path) -> None:
    finals = FINALS | {
        ("hopper", "brax"): around(1.0, 0.2),
        ("reacher", "brax"): around(1.001, 0.3),
    }
    one = judged(claim(), Results(study(tmp_path, finals), tmp_path))
    needed = [part.needed for part in one.parts]
    assert None not in needed
    low = min(each.low for each in needed)  # type: ignore[union-attr, type-var]
    high = max(each.high for each in needed)  # type: ignore[union-attr, type-var]
    assert f"Undecided on all 2 ({low} to {high:,} seeds would decide)." in sentence(one)


# The same on other seeds


def test_of_symmetric_intervals_the_difference_has_the_root_of_squares() -> None:
    found = difference_of_estimates((3.0, 0.0, 6.0), (1.0, -3.0, 5.0))
    assert found == pytest.approx((2.0, 2.0 - 5.0, 2.0 + 5.0))


def test_each_side_of_a_difference_of_estimates_reaches_as_far_as_theirs_do_there() -> None:
    low, high = 3.0 - math.hypot(1, 4), 3.0 + math.hypot(2, 3)
    found = difference_of_estimates((3.0, 2.0, 5.0), (0.0, -3.0, 4.0))
    assert found == pytest.approx((3.0, low, high))
    turned = difference_of_estimates((0.0, -3.0, 4.0), (3.0, 2.0, 5.0))
    assert turned == pytest.approx((-3.0, -high, -low))


def test_differences_of_estimates_cover_nothing_95_times_of_a_hundred() -> None:
    """Of two samples that come from the same differences between seeds."""
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(2000):
        estimates = []
        for n in (SEEDS, 12):
            sample = rng.normal(0.3, 1.0, n)
            reach = stats.t.ppf(0.975, n - 1) * stats.sem(sample)
            estimates.append((sample.mean(), sample.mean() - reach, sample.mean() + reach))
        _, low, high = difference_of_estimates(*estimates)
        hits += low <= 0 <= high
    assert 0.94 <= hits / 2000 <= 0.975


@pytest.mark.parametrize("statistic", ["difference", "spread"])
def test_estimates_agree_where_they_are_the_same_and_not_where_they_are_far_apart(
    statistic: str, tmp_path: Path
) -> None:
    wide = {"difference": around(1.5), "spread": around(1.2, 0.3)}[statistic]
    plans = [
        study(tmp_path / str(k), FINALS | {("hopper", "brax"): brax})
        for k, brax in enumerate((around(1.2), around(1.2), wide))
    ]
    asked = claim(statistic=statistic, margin=1.5, tasks=("hopper",))
    first, again, other = (
        judged(asked, Results(plan, tmp_path / str(k))) for k, plan in enumerate(plans)
    )
    same, far = replication_sheet([(first, again), (first, other)]).records()
    nothing = {"difference": 0.0, "spread": 1.0}[statistic]
    assert (same["agree"], far["agree"]) == ("yes", "no")
    assert same["between"] == pytest.approx(nothing)
    assert same["between_low"] < nothing < same["between_high"]
    far_apart = {"difference": first.parts[0].value - other.parts[0].value}  # type: ignore[operator]
    far_apart["spread"] = first.parts[0].value / other.parts[0].value  # type: ignore[operator]
    assert far["between"] == pytest.approx(far_apart[statistic])


def test_seeds_that_cannot_be_compared_are_one_line(tmp_path: Path, capsys) -> None:
    (tmp_path / "claims.toml").write_text(GOOD)
    flags = ["claims", "--results", str(tmp_path), "--seeds"]
    assert cli.main([*flags, "20-22"]) == 2
    assert "run one, such as `ablations run gae --profile smoke --tasks fast --seeds 20-22`" in (
        capsys.readouterr().err
    )
    assert cli.main([*flags, "2-4"]) == 2
    assert "seed 2 is one that the verdicts rest on" in capsys.readouterr().err
    assert cli.main([*flags, "10-12", "--cost", "--write"]) == 2
    assert "argument --cost: not allowed with argument --seeds" in capsys.readouterr().err


# Under other settings


def under(tmp_path: Path, finals: dict[str, list[float]]):
    """The comparison of FINALS on hopper, and again where Brax ends elsewhere."""
    plans = {OWN: study(tmp_path, FINALS)}
    for k, (name, brax) in enumerate(finals.items()):
        plan = study(tmp_path, {**FINALS, ("hopper", "brax"): brax})
        plans[name] = replace(plan, request={**plan.request, "steps": k})
    results = {name: Results(plan, tmp_path) for name, plan in plans.items()}
    return again(claim(), "hopper", results), results


def test_a_verdict_stands_or_not_under_other_settings(tmp_path: Path) -> None:
    finals = {
        "as there": around(1.3),
        "turned": around(0.8),
        "within the margin": around(1.001),
        "noisy": around(1.05, 1.0),
    }
    (one,), plans = under(tmp_path, finals)
    assert [one.fate(name) for name in finals] == [*("the same", "another", "another", "undecided")]
    on_the_page = judged(claim(), plans[OWN]).parts[0]
    assert one.parts[OWN] == on_the_page
    assert [(name, of) for name, _, of in fates([one])] == [
        ("as there", {"the same": 1, "moved": 1}),
        ("turned", {"another": 1, "moved": 1}),
        ("within the margin", {"another": 1, "moved": 1}),
        ("noisy", {"undecided": 1, "moved": 0}),
    ]
    rows = conditions_sheet([one]).records()
    assert [row["condition"] for row in rows] == [OWN, *finals]
    assert [row["fate"] for row in rows] == ["", *(one.fate(name) for name in finals)]


def test_a_change_is_the_difference_of_the_effects_seed_by_seed(tmp_path: Path) -> None:
    (one,), plans = under(tmp_path, {"elsewhere": around(1.26, 0.02)})
    shares = []
    for results in plans.values():
        found = scores(results)
        unit = learned_by(claim(), results, "hopper", "standard").size  # type: ignore[union-attr]
        ours, theirs = (found.by_seed("hopper", name) for name in ("brax", "standard"))
        shares.append(np.array([(ours[s] - theirs[s]) / unit for s in range(SEEDS)]))
    expected = stats.ttest_1samp(shares[1] - shares[0], 0).confidence_interval(1 - LEVEL)
    change = one.changes["elsewhere"]
    assert (change.low, change.high) == pytest.approx((expected.low, expected.high))
    assert one.moved("elsewhere") == (expected.low > 0)


def test_what_is_open_at_its_own_settings_can_be_decided_elsewhere(tmp_path: Path) -> None:
    noisy = study(tmp_path, {**FINALS, ("hopper", "brax"): around(1.05, 1.0)})
    clear = study(tmp_path, FINALS)
    clear = replace(clear, request={**clear.request, "steps": 1})
    plans = {OWN: noisy, "clear": clear, "as noisy": noisy}
    (one,) = again(claim(), "hopper", {k: Results(p, tmp_path) for k, p in plans.items()})
    assert one.fate("clear") == "decided here"
    assert one.fate("as noisy") == "undecided on both"


def test_a_condition_that_lacks_a_seed_is_not_judged(tmp_path: Path) -> None:
    short = study(tmp_path, FINALS, name="short", missing=[("hopper", "brax", 3)])
    plans = {OWN: study(tmp_path, FINALS), "short": short}
    (one,) = again(claim(), "hopper", {k: Results(p, tmp_path) for k, p in plans.items()})
    assert not one.ran
    assert one.fate("short") == ""
    assert fates([one]) == [("short", "hopper", {"not run": 1, "moved": 0})]
    assert " not run yet |" in page([], [], {}, [one])


def test_the_heat_map_frames_what_is_another_verdict(tmp_path: Path) -> None:
    (one,), _ = under(tmp_path, {"as there": around(1.3), "turned": around(0.8)})
    (same,), _ = under(tmp_path, {"as there": FINALS["hopper", "brax"], "noisy": around(1.2, 1.0)})
    fields = [heat_map([of]).drawn[0].marks[0].cells for of in (one, same)]
    assert [cell.text for cell in fields[0]] == [f"{x.effect:+.1f}" for x in one.parts.values()]
    colors = [f"{STAND_COLORS[name]}-back" for name in ("holds", "holds", "opposite")]
    assert [cell.fill for cell in fields[0]] == colors
    assert [sum(cell.framed for cell in cells) for cells in fields] == [2, 0]


def test_the_page_counts_what_stands_elsewhere(tmp_path: Path) -> None:
    (one,), plans = under(tmp_path, {"as there": around(1.3), "turned": around(0.8)})
    found = [judged(claim(), plans[OWN])]
    text = page(found, found, {}, [one])
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| turned ")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["turned", "hopper", "0", "1", "0", "0", "0", "0", "1"]
    ]
    assert "Do they stand elsewhere?" not in page(found, found, {})


def test_conditions_print_what_runs_them_and_then_what_was_found(tmp_path: Path, capsys) -> None:
    (tmp_path / "claims.toml").write_text(GOOD + CONDITION)
    flags = ["claims", "--results", str(tmp_path), "--conditions"]
    assert cli.main(flags) == 0
    told = capsys.readouterr().out
    assert told.startswith("None has run.")
    command = told.splitlines()[-1]
    assert command == (
        "ablations run gae --profile smoke --tasks fast --variants standard brax --seeds 2 "
        "--set learning_rate=0.002"
    )
    asked = {"tasks": ["fast"], "variants": ["standard", "brax"], "seeds": 2}
    asked |= {"profile": "smoke", "set": {"learning_rate": 0.002}}
    (plan,) = planned(["gae"], tmp_path, asked)
    for cell in plan.cells:
        step = np.arange(1, 6) * 4096
        curve = step / 4096 + cell.seed + 3.0 * (cell.variant == "brax")
        write_record(
            tmp_path,
            Record(cell.hash, cell.config, status="done"),
            {"step": step, "training/return": curve},
        )
    assert cli.main([*flags, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["condition"], row["seeds"]) for row in rows] == [
        (OWN, 0),
        ("fast learning", 2),
    ]
    assert cli.main([*shlex.split(command)[1:], "--results", str(tmp_path), "--dry-run"]) == 0
    assert "4 done" in capsys.readouterr().out
    assert cli.main(["claims", "--results", str(tmp_path), "--write"]) == 0
    assert (tmp_path / "claims" / "conditions.svg").exists()
    text = (tmp_path / "claims" / "README.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| fast learning | fast "))
    assert re.findall(r"\d+", row) == [*"0000000", "1"], "own seeds lack"
    assert "Do they stand elsewhere?" in text
    capsys.readouterr()
    assert cli.main(["claims", "--results", str(tmp_path), "--cost", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["study"], row["new"]) for row in rows[:-1]] == [
        *(("gae", 15), ("gae, fast learning", 4))
    ]


@pytest.mark.parametrize(
    "extra",
    ['tasks = ["fast"], variants = ["standard", "brax", "done_cut"]', 'until = "decided"'],
)
def test_the_command_of_a_condition_takes_the_place_of_a_claims_own_flags(
    extra: str, tmp_path: Path, capsys
) -> None:
    claim = GOOD.replace('"smoke"', f'"smoke", {extra}')
    (tmp_path / "claims.toml").write_text(claim + CONDITION)
    assert cli.main(["claims", "--results", str(tmp_path), "--conditions"]) == 0
    command = capsys.readouterr().out.splitlines()[-1]
    assert command == (
        "ablations run gae --profile smoke --tasks fast --variants standard brax --seeds 2 "
        "--set learning_rate=0.002"
    )


def test_a_condition_is_about_differences_on_its_own_task_with_its_own_settings(
    tmp_path: Path, capsys
) -> None:
    more = GOOD.replace('"one"', '"two"').replace('"brax"', '"done_cut"')
    spread = GOOD.replace('"one"', '"three"').replace('"difference"', '"spread"')
    spread = spread.replace('"brax"', '"timeout_bonus"').replace("0.05", "1.5")
    both = CONDITION.replace("0.002 }", "0.002 }\nreacher = { learning_rate = 0.004 }")
    claims = (GOOD + more + spread).replace('["fast"]', '["fast", "reacher"]')
    claims = claims.replace('"smoke"', '"smoke", tasks = ["fast", "reacher"]')
    (tmp_path / "claims.toml").write_text(claims + both)
    assert cli.main(["claims", "--results", str(tmp_path), "--conditions"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"ablations run gae --profile smoke --tasks {task} --variants standard brax done_cut "
        f"--seeds 2 --set learning_rate={rate}"
        for task, rate in (("fast", 0.002), ("reacher", 0.004))
    ]


# The file


CONDITION = """[[condition]]
name = "fast learning"
studies = ["gae"]
seeds = 2
[condition.set]
fast = { learning_rate = 0.002 }
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "fast learning"\n', "", "condition 1: it lacks name"),
        ('"fast learning"', "3", "name must be a text, not 3"),
        ("seeds = 2", 'seeds = "few"', "seeds must be"),
        ('["gae"]', '["value_clipping"]', "no claim is about a difference in value_clipping"),
        ("fast = {", "hopper = {", "no claim is about a difference in gae on hopper"),
        ("{ learning_rate = 0.002 }", "3", "set.fast must be an object, not 3"),
        ("{ learning_rate = 0.002 }", "{}", "a table of settings for each task"),
        ("learning_rate", "learning_rat", "did you mean 'learning_rate'"),
        ("studies", "study", "lacks studies"),
        ("[[condition]]", "[condition]", "holds no conditions"),
        ("[[condition]]", "[[conditions]]", "did you mean 'condition'"),
        ('"fast learning"', '"own settings"', "give it another name"),
        ("learning_rate = 0.002", "gae_lambda = 0.95", "it changes nothing of gae on fast"),
        ("0.002", "-1", "condition 'fast learning': "),
        (CONDITION, CONDITION + CONDITION, "two conditions 'fast learning'"),
        (CONDITION, "", "has no conditions"),
    ],
)
def test_a_bad_condition_is_one_line(old: str, new: str, said: str, tmp_path, capsys) -> None:
    assert old in CONDITION
    (tmp_path / "claims.toml").write_text(GOOD + CONDITION.replace(old, new))
    assert cli.main(["claims", "--results", str(tmp_path), "--conditions"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1


GOOD = """[[claim]]
id = "one"
title = "t"
source = "s"
published = "no number"
judged = "j"
study = "gae"
variant = "brax"
versus = "standard"
metric = "training/return"
statistic = "difference"
direction = "higher"
tasks = ["fast"]
margin = 0.05
run = { profile = "smoke" }
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('id = "one"', "id = 1", "id must be a text, not 1"),
        ('id = "one"\n', "", "claim 1: it lacks id"),
        ('id = "one"', 'id = "../one"', "as it names a file"),
        ("margin = 0.05", 'margin = "big"', "margin must be a finite number"),
        ("margin = 0.05", "margin = true", "margin must be a finite number"),
        ("margin = 0.05", "margin = -1", "margin must be from"),
        ('statistic = "difference"', 'statistic = "diference"', "must be 'difference' or 'spread'"),
        ('statistic = "difference"', 'statistic = "effect"', "effect has no variant"),
        ('statistic = "difference"', 'statistic = "spread"', "a ratio above 1"),
        ('statistic = "difference"', 'statistic = "robustness"', "two lines"),
        ('direction = "higher"', 'direction = "up"', "direction must be 'higher' or"),
        ('variant = "brax"\n', "", "difference needs variant"),
        ('versus = "standard"', 'versus = ["standard", "brax"]', "versus names one variant"),
        ('tasks = ["fast"]', "tasks = []", "tasks names none"),
        ('tasks = ["fast"]', 'tasks = ["fast", "fast"]', "tasks names one twice"),
        ('title = "t"', 'titel = "t"', "it lacks title"),
        ("run = {", "ran = {", "it has an unknown part 'ran'"),
        ("profile", "profil", "run has an unknown part 'profil'"),
        ('"smoke"', "3", "run.profile must be a text, not 3"),
        ('"smoke"', '"none"', "unknown profile of 'gae' 'none'"),
        ('profile = "smoke"', "seeds = 0", "claim 'one': seeds must be a count"),
        ('variant = "brax"', 'variant = "braks"', "did you mean 'brax'"),
        ('tasks = ["fast"]', 'tasks = ["hopper"]', "unknown task of claim 'one' 'hopper'"),
        ('study = "gae"', 'study = "gea"', "unknown study 'gea'"),
        ("[[claim]]", "[claim]", "holds no claims"),
        ("[[claim]]", "[[claims]]", "did you mean 'claim'"),
        ("[[claim]]", "[[", "cannot be read"),
        (GOOD, "", "holds no claims"),
        (GOOD, GOOD + GOOD, "two claims 'one'"),
    ],
)
def test_a_bad_file_is_one_line(old: str, new: str, said: str, tmp_path: Path, capsys) -> None:
    assert old in GOOD
    (tmp_path / "claims.toml").write_text(GOOD.replace(old, new))
    assert cli.main(["claims", "--results", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1


def test_without_a_file_there_is_one_line(tmp_path: Path, capsys) -> None:
    assert cli.main(["claims", "--results", str(tmp_path)]) == 2
    assert "there are no claims" in capsys.readouterr().err


def test_a_cost_counts_each_cell_once(tmp_path: Path, capsys) -> None:
    (plan,) = planned(["gae"], tmp_path, {"profile": "smoke"})
    first, whole = cost_sheet([("gae", plan), ("gae", plan)], {"fast": 1000.0}, 80.0).records()[::2]
    # 5 variants x 3 seeds of 20,480 steps, an evaluation of 4 episodes of 50, one program
    steps, evaluated = 15 * 20_480, 15 * 4 * 50
    assert (first["task"], first["new"], first["steps"]) == ("fast", 15, steps)
    assert (whole["task"], whole["cells"], whole["new"]) == ("all", 30, 15)
    assert whole["hours"] == pytest.approx(((steps + evaluated) / 1000 + 80) / 3600)
    (tmp_path / "claims.toml").write_text(GOOD + GOOD.replace('id = "one"', 'id = "two"'))
    assert cli.main(["claims", "--results", str(tmp_path), "--cost"]) == 0
    assert "ablations run gae --profile smoke --tasks fast\n" in capsys.readouterr().out


def test_what_an_earlier_row_has_costs_nothing_more(tmp_path: Path) -> None:
    """The baselines of two studies are the same cells."""
    both = {"gae": ("standard", "brax"), "value_coefficient": ("separate_0.25", "separate_0.5")}
    plans = []
    for name, compared in both.items():
        asked = {"profile": "claims", "tasks": ["reacher"], "variants": compared}
        plans += [(name, plan) for plan in planned([name], tmp_path, asked)]
    rows = cost_sheet(plans, {"reacher": 1000.0}, 80.0).records()
    assert [(row["cells"], row["new"]) for row in rows] == [(40, 40), (40, 20), (80, 60)]


# The page


def test_the_published_claims_are_at_least_25_and_whole() -> None:
    claims = read(ROOT / "results" / "claims.toml")
    assert len(claims) >= 25
    assert len({one.judged for one in claims}) == len(claims), "one sentence is one claim"
    assert all(by_another(one) for one in claims if one.metric == "evaluation/return")
    assert len(read_conditions(ROOT / "results" / "claims.toml")) >= 4


@pytest.fixture
def other_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every choice and trainer of another revision than those of the archives."""
    for axis in variants.axes().values():
        for name, one in axis.items():
            monkeypatch.setitem(axis._choices, name, replace(one, revision=one.revision + 100))
    for name in ("ppo", "language"):
        module = importlib.import_module(BUILT_IN[name])
        one = module.DEFINITION
        monkeypatch.setattr(module, "DEFINITION", replace(one, revision=one.revision + 100))


@pytest.mark.usefixtures("other_revisions")
def test_the_page_and_its_figures_are_regenerated_from_the_archives(tmp_path: Path, capsys) -> None:
    """Byte for byte, whatever the revisions of the code: the plans are those of the archives."""
    committed = ROOT / "results"
    shutil.copytree(committed / "archive", tmp_path / "archive")
    shutil.copy(committed / "claims.toml", tmp_path)
    assert cli.main(["claims", "--results", str(tmp_path), "--write"]) == 0
    drawn = [
        sorted(f"claims/{path.name}" for path in (folder / "claims").iterdir())
        for folder in (tmp_path, committed)
    ]
    assert drawn[0] == drawn[1]
    for name in drawn[0]:
        made, kept = ((folder / name).read_bytes() for folder in (tmp_path, committed))
        assert made == kept, f"results/{name} is another one: `ablations claims --write`"
    capsys.readouterr()
    assert cli.main(["claims", "--results", str(tmp_path), "--seeds", "20-39"]) == 0
    kept_table = (committed / "reference" / "other_seeds.md").read_text()
    assert capsys.readouterr().out == kept_table
    assert {line.split("|")[-2].strip() for line in kept_table.splitlines()[5:]} == {"yes"}


def test_a_page_says_what_was_found(tmp_path: Path) -> None:
    plan = study(tmp_path, FINALS)
    found = [judged(claim(), Results(plan, tmp_path))]
    text = page(found, found, {})
    assert "Of 1 claims, 1 have been run in full: 1 hold here and fail there." in text
    assert "Of their 2 comparisons 1 hold, 1 fail, 0 are undecided." in " ".join(text.split())
    assert "**Verdict: holds on 1 of 2, fails on 1.**" in text
    row = next(line for line in text.splitlines() if line.startswith("| hopper "))
    value = np.mean(FINALS["hopper", "brax"]) - np.mean(FINALS["hopper", "standard"])
    assert f"{value:+.3f}" in row
    sides = [np.array(FINALS["hopper", name]) for name in ("brax", "standard")]
    for one in sides:
        assert f"{one.mean():.3f} ± {one.std(ddof=1):.3f}" in row
    assert claims_sheet(found, found).rows[0][8] == "holds on 1 of 2, fails on 1"


def test_a_page_counts_what_ran_alone_and_tells_what_failed(tmp_path: Path) -> None:
    finals = {
        (task, variant): around(*(1.2, 0.02) if variant == "brax" else (1.0,))
        for task in ("hopper", "reacher", "fast")
        for variant in ("standard", "brax")
    }
    failed = {("reacher", "brax", seed): "nan" for seed in (0, 1)}
    plan = study(tmp_path, finals, missing=[("fast", "brax", 3)], failed=failed)
    asked = claim(tasks=("hopper", "reacher", "fast"))
    one = judged(asked, Results(plan, tmp_path))
    text = " ".join(page([one], [one], {}).split())
    assert "Of 1 claims, 0 have been run in full. 1 more have been run in part." in text
    assert "Of their 2 comparisons 1 hold, 0 fail, 0 are undecided, in 1 runs fail." in text
    assert "1 of the 1 that are decided are on hopper, where 0 lie within the margin." in text
    assert f"{SEEDS - 1} of {SEEDS} |" in text
    assert "**What would change it.** The runs that are missing." in text, "no margin: some failed"
    alone = judged(replace(asked, tasks=("reacher",)), Results(plan, tmp_path))
    assert turning(alone) == "Runs that do not fail."
    assert "are decided are on" not in page([alone], [alone], {})
    paid = replace(alone, claim=replace(alone.claim, metric="evaluation/accuracy"))
    assert "By the return that is paid:** +0.2" in page([paid], [paid], {"one": one})


def test_both_sides_of_a_spread_are_those_of_the_seeds_that_both_have(tmp_path: Path) -> None:
    failed = {("hopper", "brax", seed): "nan" for seed in (0, 1)}
    plan = study(tmp_path, FINALS, failed=failed)
    asked = claim(statistic="spread", margin=1.5, tasks=("hopper",), direction="lower")
    (part,) = judged(asked, Results(plan, tmp_path)).parts
    for side, name in zip(part.sides, ("brax", "standard"), strict=True):
        values = np.array(FINALS["hopper", name])[2:]
        assert side == pytest.approx((values.mean(), values.std(ddof=1)))


def test_where_a_spread_has_no_interval_no_number_of_seeds_is_told(tmp_path: Path) -> None:
    finals = {("hopper", "standard"): [1.0] * SEEDS, ("hopper", "brax"): around(1.0)}
    asked = claim(statistic="spread", margin=1.5, tasks=("hopper",), direction="lower")
    (part,) = judged(asked, Results(study(tmp_path, finals), tmp_path)).parts
    assert (part.word, part.low, part.needed) == ("undecided", None, None)


def test_the_picture_of_a_claim_has_a_word_for_each_comparison(tmp_path: Path) -> None:
    found = [judged(claim(), Results(study(tmp_path, FINALS), tmp_path))]
    (alone,), (whole,) = one_claim(found[0]).drawn, all_claims(found).drawn
    assert [text for _, text in alone.y.ticks] == [part.task for part in found[0].parts]
    words = [mark.text for mark in alone.marks if isinstance(mark, Text)]
    assert words == [part.word for part in found[0].parts]
    assert [m.text for m in whole.marks if isinstance(m, Text)] == ["holds on 1 of 2, fails on 1"]


def test_records_and_their_archive_are_judged_alike(tmp_path: Path) -> None:
    plan = study(tmp_path / "a", FINALS)
    archive([plan], tmp_path / "a", tmp_path / "b" / "archive")
    restore(tmp_path / "b")
    again = read_plan(tmp_path / "b", plan.study.name)
    assert read_record(tmp_path / "b", plan.cells[0].hash) is not None
    one = judged(claim(), Results(plan, tmp_path / "a"))
    assert judged(claim(), Results(again, tmp_path / "b")) == one


def test_where_only_the_sign_counts_a_margin_around_the_interval_changes_the_verdict(
    tmp_path: Path,
) -> None:
    """A difference by an undecided amount decides a sentence that says higher or lower."""
    plan = study(tmp_path, FINALS)
    one = judged(claim(direction="higher"), Results(plan, tmp_path))
    part = replace(one.parts[0], word=Verdict.WORSE_UNDECIDED, effect_low=-2.0)
    part = replace(part, effect_high=-0.5)
    assert turning(replace(one, parts=(part,))) == (
        'A margin just above 10.0% of what was learned: it would be "no difference that matters".'
    )
    same = replace(part, word=Verdict.IDENTICAL, effect_low=0.0, effect_high=0.0)
    assert turning(replace(one, parts=(same,))) == "Nothing: curves are identical."
