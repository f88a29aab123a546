"""Answers: exactly one word for every interval, symmetric and monotone, and their texts."""

from __future__ import annotations

import itertools

import pytest

from ablations.core import verdict
from ablations.core.verdict import Answer, answer
from ablations.report.formats.numbers import answer_text

# Ends in steps of 2.5% of the unit, so that thresholds and 0 are among them.
ENDS = [k / 40 for k in range(-8, 9)]
INTERVALS = [
    (low, (low + high) / 2, high) for low, high in itertools.combinations_with_replacement(ENDS, 2)
]


def by_definition(low: float, estimate: float, high: float, stated: int) -> list[Answer]:
    """Return all answers whose condition in docs/evidence.md holds."""
    outside = low > 0 or high < 0
    side = 1 if low > 0 else -1
    denied = outside and stated != 0 and side != stated
    within = max(abs(low), abs(high))
    return [
        word
        for word, holds in {
            Answer.YES: outside and not denied and abs(estimate) >= 0.05,
            Answer.YES_SMALL: outside and not denied and abs(estimate) < 0.05,
            Answer.NO: not outside and within <= 0.05,
            Answer.NOT_SEEN: not outside and 0.05 < within <= 0.10,
            Answer.CANNOT_TELL: not outside and within > 0.10,
            Answer.REVERSE: denied,
        }.items()
        if holds
    ]


@pytest.mark.parametrize("stated", [-1, 0, 1])
def test_every_interval_has_exactly_one_answer_that_of_the_protocol(stated: int) -> None:
    agree_with_the_protocol(stated)


def agree_with_the_protocol(stated: int) -> None:
    for low, estimate, high in INTERVALS:
        said = answer(estimate, low, high, stated=stated)
        assert [said] == by_definition(low, estimate, high, stated), (low, high)


def test_answers_do_not_depend_on_the_sign_of_the_scale() -> None:
    for (low, estimate, high), stated in itertools.product(INTERVALS, (-1, 0, 1)):
        turned = answer(-estimate, -high, -low, stated=-stated)
        assert answer(estimate, low, high, stated=stated) == turned


BY_STRENGTH = (Answer.CANNOT_TELL, Answer.NOT_SEEN, Answer.NO)


def test_a_narrower_interval_that_holds_0_says_no_less() -> None:
    around = [one for one in INTERVALS if one[0] <= 0 <= one[2]]
    for wide, narrow in itertools.product(around, repeat=2):
        if wide[0] <= narrow[0] and narrow[2] <= wide[2]:
            less, more = (
                BY_STRENGTH.index(answer(e, low, high)) for low, e, high in (wide, narrow)
            )
            assert less <= more


def test_a_larger_effect_outside_of_0_is_no_smaller_answer() -> None:
    above = [one for one in INTERVALS if one[0] > 0]
    for small, large in itertools.product(above, repeat=2):
        if small[1] <= large[1] and answer(small[1], small[0], small[2]) is Answer.YES:
            assert answer(large[1], large[0], large[2]) is Answer.YES


def test_tasks_on_both_sides_of_0_come_before_their_mean() -> None:
    for low, estimate, high in INTERVALS:
        depends = answer(estimate, low, high, tasks=[(0.1, 0.2), (-0.2, 0.1), (-0.3, -0.1)])
        assert depends is Answer.DEPENDS
        one_side = answer(estimate, low, high, tasks=[(0.1, 0.2), (-0.2, 0.1)])
        assert one_side == answer(estimate, low, high)


@pytest.mark.parametrize(
    ("name", "value"), [("MARGIN", 0.08), ("MARGIN", 0.04), ("SEEN", 0.13), ("SEEN", 0.09)]
)
def test_other_thresholds_are_seen(
    name: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, name, value)
    with pytest.raises(AssertionError):
        agree_with_the_protocol(0)


@pytest.mark.parametrize(
    ("bounds", "seeds", "text"),
    [
        ((0.12, 0.06, 0.18), 40, "Yes: +12% [6, 18]"),
        ((-0.12, -0.18, -0.06), 40, "Yes: -12% [-18, -6]"),
        ((0.03, 0.012, 0.048), 40, "Yes, but small: +3.0% [1.2, 4.8]"),
        ((0.002, -0.0361, 0.0399), 40, "No: any effect is below 4%"),
        ((0.002, -0.0361, 0.0411), 40, "No: any effect is below 4.2%"),
        ((0.03, -0.03, 0.09), 40, "Not seen: between -3 and +9%; 5% needs about 58 seeds"),
        ((0.03, -0.03, 0.09), None, "Not seen: between -3 and +9%"),
        ((-0.12, -0.4, 0.15), 40, "Cannot tell: -40 to +15%"),
        # Rounding must not say another thing than the word.
        ((0.0, -0.1004, 0.1004), 40, "Cannot tell: -10.04 to +10.04%"),
        ((0.0499, 0.0101, 0.0901), 40, "Yes, but small: +4.99% [1.01, 9.01]"),
    ],
)
def test_answers_are_written_with_their_bounds(
    bounds: tuple[float, float, float], seeds: int | None, text: str
) -> None:
    assert answer_text(answer(*bounds), *bounds, seeds) == text


def test_the_reverse_and_what_depends_are_written_with_the_mean() -> None:
    assert answer_text(Answer.REVERSE, -0.12, -0.18, -0.06) == "The reverse: -12% [-18, -6]"
    assert answer_text(Answer.DEPENDS, 0.02, -0.03, 0.07) == "It depends: +2% [-3, 7]"
    assert answer_text(None, 0.0, 0.0, 0.0) == ""
