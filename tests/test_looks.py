"""Planned looks against published bounds, the multivariate normal, and simulation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import scipy.stats
from scipy.stats import norm

from ablations import looks
from ablations.looks import Looks, design, last_reached, nominal_levels, planned, read, split
from ablations.report.statistics import Comparison, judge, verdict


def read_pairs(pairs: np.ndarray, looks: Looks, margin: float | None) -> Comparison | None:
    """What the looks at paired differences say."""
    return read(
        looks,
        len(pairs),
        lambda seeds, level: judge(pairs[:seeds], margin, level=level),
        lambda comparison: verdict(comparison, margin) != "undecided",
    )


POCOCK = looks.pocock_spending
SPENDING = {  # of a rate by information time, and whether it is the right one
    "log": (POCOCK, True),
    "linear": (lambda time, rate: rate * time, False),
    "a hundredth more": (lambda time, rate: 1.01 * POCOCK(time, rate), False),
    "O'Brien and Fleming's": (
        lambda time, rate: 2 * norm.sf(norm.isf(rate / 2) / time**0.5),
        False,
    ),
}


@pytest.mark.parametrize("name", SPENDING)
def test_five_even_looks_have_the_published_bounds(name, monkeypatch) -> None:
    """Lan and DeMets' for Pocock's kind of spending, as ldbounds and gsDesign print them."""
    spending, right = SPENDING[name]
    monkeypatch.setattr(looks, "pocock_spending", spending)
    bounds = norm.isf(np.array(nominal_levels.__wrapped__((0.2, 0.4, 0.6, 0.8, 1.0), 0.05)) / 2)
    assert np.allclose(bounds, [2.438, 2.427, 2.410, 2.397, 2.386], atol=2e-3, rtol=0) == right


class UpTo(NamedTuple):
    """A sequential test that ends with a run of a certain number."""

    last: int
    looks: Looks = design((2, 4, 8), 0.05)

    def needs(self, look, before) -> range:
        return range(len(before[-1].runs) if before else 0, look.seeds)

    def decide(self, look, runs, before) -> SimpleNamespace:
        every = [*(before[-1].runs if before else ()), *runs]
        assert every == list(range(look.seeds))
        return SimpleNamespace(runs=every, decided=self.last in every)


@pytest.mark.parametrize("budget", range(4))
def test_tests_side_by_side_take_what_they_need_and_resume(budget: int) -> None:
    tests, rounds = {"early": UpTo(1), "late": UpTo(6), "open": UpTo(99)}, []

    def collect(stages):
        if len(rounds) == left:
            return {}
        rounds.append([(name, *stage.needs) for name, stage in stages.items()])
        return {name: stage.needs for name, stage in stages.items()}

    left = budget
    stages = looks.play(tests, collect)
    assert [len(now.decisions) for now in stages.values()] == [min(budget, n) for n in (1, 3, 3)]
    left = None
    stages = looks.play(tests, collect, stages)
    assert [(now.ended, len(now.decisions)) for now in stages.values()] == [
        (True, n) for n in (1, 3, 3)
    ]
    assert rounds[0] == [("early", 0, 1), ("late", 0, 1), ("open", 0, 1)]
    assert rounds[1:] == [[("late", *r), ("open", *r)] for r in (range(2, 4), range(4, 8))]


@pytest.mark.parametrize("level", [0.05, 0.001])
@pytest.mark.parametrize("seeds", [(8,), (8, 12, 18), (5, 50)])
def test_no_bound_is_crossed_with_the_chance_promised(seeds: tuple[int, ...], level: float) -> None:
    looks = design(seeds, level)
    n = np.array(seeds, float)
    correlation = np.sqrt(np.minimum.outer(n, n) / np.maximum.outer(n, n))
    bounds = scipy.stats.norm.isf(np.array(looks.levels) / 2)
    law = scipy.stats.multivariate_normal(cov=correlation, abseps=1e-7, releps=1e-7)
    held = law.cdf(bounds, lower_limit=-bounds)
    assert 1 - held == pytest.approx(level, rel=0.01)


@pytest.mark.parametrize("truth", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_the_intervals_of_all_looks_hold_at_once(truth: float, level: float) -> None:
    looks = design(planned(8, 40), level)
    trials = 20_000
    pairs = np.random.default_rng(1).normal(truth, 1.0, (trials, looks.seeds[-1]))
    missed = np.zeros(trials, bool)
    for seeds, at in zip(looks.seeds, looks.levels, strict=True):
        part = pairs[:, :seeds]
        reach = scipy.stats.t.isf(at / 2, seeds - 1) * scipy.stats.sem(part, axis=1)
        missed |= np.abs(part.mean(axis=1) - truth) > reach
    assert missed.mean() <= level * 1.1 + 2 * np.sqrt(level / trials)


def test_a_verdict_freezes_with_the_seeds_of_its_look() -> None:
    random = np.random.default_rng(3)
    pairs = np.concatenate([random.normal(3, 1, 12), random.normal(-9, 1, 28)])
    looks = design(planned(8, 40), 0.05)
    early, late = read_pairs(pairs[:8], looks, 0.5), read_pairs(pairs, looks, 0.5)
    assert early == late
    assert (late.n, late.level, verdict(late, 0.5)) == (8, looks.levels[0], "better")
    assert verdict(judge(pairs, 0.5), 0.5) != "better"


def test_seeds_between_looks_are_not_looked_at() -> None:
    pairs = np.random.default_rng(4).normal(size=40)
    looks = design(planned(8, 40), 0.05)
    assert read_pairs(pairs[:11], looks, 0.1) == read_pairs(pairs[:8], looks, 0.1)
    assert read_pairs(pairs[:7], looks, 0.1) is None
    reached = [last_reached(looks, seeds) for seeds in (7, 8, 11, 12, 40, 99)]
    assert reached == [None, 0, 0, 1, len(looks.seeds) - 1, len(looks.seeds) - 1]


def test_looks_grow_by_half_up_to_the_most() -> None:
    assert planned(8, 64) == (8, 12, 18, 27, 41, 62, 64)
    assert planned(4, 32, 2.0) == (4, 8, 16, 32)
    assert planned(8, 8) == (8,)
    for wrong in ((8, 4), (1, 4)):
        with pytest.raises(ValueError, match="looks need"):
            planned(*wrong)
    with pytest.raises(ValueError, match="increasing"):
        design((8, 8), 0.05)


@pytest.mark.parametrize("looks", [1, 2, 5])
def test_a_rate_is_split_with_half_of_it_for_the_last_look(looks: int) -> None:
    shares = split(0.01, looks)
    assert sum(shares) == pytest.approx(0.01)
    assert shares[-1] == pytest.approx(0.01 if looks == 1 else 0.005)
    assert len(set(shares[:-1])) <= 1
