"""What a user asks for: a study and the selection flags. The same to run, status, table, figure,
report.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ablations.errors import UserError

PROFILE = "quick"


@dataclass(frozen=True)
class Request:
    """The selection flags. None means what the study's profile says."""

    study: str
    profile: str = PROFILE
    tasks: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    seeds: int | None = None
    steps: int | None = None
    set: Mapping[str, Any] = field(default_factory=dict)

    def flags(self) -> dict[str, Any]:
        """As plain data: what names the plan that answers this request."""
        return {
            "profile": self.profile,
            "tasks": None if self.tasks is None else list(self.tasks),
            "variants": None if self.variants is None else list(self.variants),
            "seeds": self.seeds,
            "steps": self.steps,
            "set": dict(self.set),
        }


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """["discount=0.9", "policy_layers=[64,64]"] as a dict; values are JSON, else text."""
    settings = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"--set takes name=value, not '{assignment}'")

        def refuse(constant: str, name: str = name) -> NoReturn:
            raise UserError(f"{name} must be a finite number, not {constant}")

        try:
            settings[name] = json.loads(text, parse_constant=refuse)
        except ValueError:
            settings[name] = text
    return settings
