"""Fisher's exact test against scipy's."""

from __future__ import annotations

import itertools

import pytest
from scipy import stats

from ablations.distributions import fisher_p


@pytest.mark.parametrize("trials", [(7, 7), (5, 12), (40, 40), (320, 160)])
def test_fishers_p_is_scipys(trials: tuple[int, int]) -> None:
    for events in itertools.product(range(0, 6), range(0, 6)):
        if events[0] <= trials[0] and events[1] <= trials[1]:
            table = [[k, n - k] for k, n in zip(events, trials, strict=True)]
            assert fisher_p(events, trials) == pytest.approx(stats.fisher_exact(table).pvalue)
