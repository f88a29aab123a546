"""One error budget for many candidates: LOND, levels based on the number of discoveries.

The j-th of N candidates is tested at the rate

    a(j) = (D(j) + 1) * rate / N      for j <= N, else 0

with D(j) the candidates that were found better before it began. This is LOND (Javanmard and
Montanari 2015, "On online control of false discovery rate") with equal shares of the budget. The
expected share of false ones among the accepted is at most `rate` where the tests depend positively
on each other (Zrnic, Ramdas and Jordan 2021, "Asynchronous online testing of multiple hypotheses"),
as those that share the runs of a baseline do: luck of its runs helps or hurts all. Until something
is found, the levels are Bonferroni's, so that the chance of any false accept in a night in which
nothing helps is at most `rate`, however the tests depend on each other. Rules that win back more
(LORD, SAFFRON, ADDIS) need tests that are independent. D counts what had ended when a test began,
so candidates may be tested side by side.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """rate: of false ones among the accepted. candidates: for how many it is."""

    rate: float
    candidates: int

    def level(self, number: int, better: int) -> float:
        """Return the rate at which a candidate is tested; 0 where the budget is spent.

        Args:
            number: of the candidate, from 1.
            better: how many were found better before it began.
        """
        if number > self.candidates:
            return 0.0
        return min(self.rate, (better + 1) * self.rate / self.candidates)
