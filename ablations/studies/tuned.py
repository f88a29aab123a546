"""The choices of `ablations tune` for a study: a committed file, read where the study is written.

The file is JSON: the setting, the rule in words, the seeds, the command, the machine, and per task
and variant the value that was chosen and the score of every seed at every value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypedDict

from ablations.errors import UserError

SEEDS = tuple(range(1000, 1005))
# variant -> value, as text -> the score of each seed, None where it failed
OfTask: TypeAlias = dict[str, dict[str, list[float | None]]]
Scores: TypeAlias = dict[str, OfTask]  # by task


class Tuned(TypedDict, total=False):
    """The file. chosen: task -> variant -> value. machine: the processors that trained."""

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
    """The settings that are tuned for every variant of a study on every task, with an equal budget.

    setting: a number, such as "learning_rate". grid: the values to begin with, ascending, each the
        same multiple of the one before. file: where the choice is kept, with its records. profile:
        whose tasks, steps and variants are tuned. seeds: of tuning, which no table reports.
    """

    setting: str
    grid: tuple[float, ...]
    file: Path
    profile: str = "quick"
    seeds: tuple[int, ...] = SEEDS

    def read(self) -> Tuned:
        """Read the file; {} where there is none yet. Raises UserError for one that is not whole."""
        try:
            found: Tuned = json.loads(self.file.read_text())
            found["chosen"]
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError):
            raise UserError(
                f"'{self.file}' is not what `ablations tune` writes: tune again"
            ) from None
        return found

    def of(self, variant: str) -> Mapping[str, Mapping[str, float]]:
        """Return task -> setting -> the value that was chosen for a variant; {} where none was."""
        chosen = self.read().get("chosen", {})
        return {
            task: {self.setting: values[variant]}
            for task, values in chosen.items()
            if variant in values
        }
