"""The values that `ablations tune` chose for a study, in a committed JSON file.

It has the setting, the rule in words, the seeds, the command, the machine, and per task and variant
the chosen value and the score of every seed at every value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypedDict

from ablations.errors import UserError

SEEDS = tuple(range(1000, 1005))
# variant -> value as text -> the score of each seed (None: it failed)
OfTask: TypeAlias = dict[str, dict[str, list[float | None]]]
Scores: TypeAlias = dict[str, OfTask]  # by task


class Tuned(TypedDict, total=False):
    """The file. `chosen`: task -> variant -> value. `machine`: processors of the runs."""

    study: str
    setting: str
    metric: str
    rule: str
    seeds: list[int]
    command: str
    machine: list[str]
    chosen: dict[str, dict[str, float]]
    scores: Scores


@dataclass(frozen=True)
class Tuning:
    """A setting that is tuned for every variant of a study on every task, with equal budgets.

    Attributes:
        setting: a hyperparameter, such as "learning_rate".
        grid: the first values, an ascending geometric series.
        file: of the chosen values and scores.
        profile: its tasks, steps and variants are tuned.
        seeds: of tuning; no table uses them.
    """

    setting: str
    grid: tuple[float, ...]
    file: Path
    profile: str = "quick"
    seeds: tuple[int, ...] = SEEDS

    def read(self) -> Tuned:
        """Return the content of the file; {} if it does not exist. Raises UserError if damaged."""
        try:
            content: Tuned = json.loads(self.file.read_text())
            content["chosen"]
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError):
            raise UserError(
                f"'{self.file}' is not a file of `ablations tune`: tune again"
            ) from None
        return content

    def of(self, variant: str) -> Mapping[str, Mapping[str, float]]:
        """Return task -> setting -> the chosen value for a variant, on tuned tasks."""
        chosen = self.read().get("chosen", {})
        return {t: {self.setting: v[variant]} for t, v in chosen.items() if variant in v}
