"""Goals of simulations, and the cases that miss them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Goals:
    """Percentages of many cases, each with the range it should be in."""

    found: dict[str, list[tuple[float, float, float, str, int]]] = field(default_factory=dict)

    def add(
        self, what: str, least: float, most: float, found: float, where: str, trials: int
    ) -> None:
        self.found.setdefault(what, []).append((least, most, found, where, trials))

    def print(self) -> None:
        """Print a line for each goal.

        It has the number of cases, how many miss the goal, how many miss it by more than two
        standard errors, the smallest and largest percentage, and the worst case.
        """
        print("\nGoals, in percent. missed: at so many places; surely: by more than two standard")
        print("errors of this simulation; worst: the place that is furthest out\n")
        heads = f"{'places':>7}{'missed':>7}{'surely':>7}{'least':>7}{'most':>7}"
        print(f"{'':58}{'goal':>7}{heads}  worst")
        for what, rows in self.found.items():
            out = [_outside(low, high, value) for low, high, value, _, _ in rows]
            errors = [error(value, trials) for _, _, value, _, trials in rows]
            sure = sum(o > 2 * e for o, e in zip(out, errors, strict=True))
            values = [value for _, _, value, _, _ in rows]
            low, high, _, where, _ = rows[out.index(max(out))]
            goal = f"{low:g}-{high:g}"
            print(
                f"{what:58}{goal:>7}{len(rows):7}{sum(o > 0 for o in out):7}{sure:7}"
                f"{min(values):7.1f}{max(values):7.1f}  {where}"
            )


def _outside(low: float, high: float, percentage: float) -> float:
    """Return the distance beyond a range, negative inside; ends at 0 and 100 do not count."""
    below = low - percentage if low > 0 else -math.inf
    return max(below, percentage - high if high < 100 else -math.inf)


def error(percentage: float, trials: int) -> float:
    """Return the standard error of a share from this many trials, in percent."""
    share = min(max(percentage / 100, 0.5 / trials), 1 - 0.5 / trials)
    return 100 * math.sqrt(share * (1 - share) / trials)
