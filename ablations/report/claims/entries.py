"""results/claims.toml: one published claim an entry, with how it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from ablations.core.decode import Json, Matches, Within
from ablations.core.plan import Flags, Seed, Settings
from ablations.errors import UserError
from ablations.report.entries import (
    Entry,
    Text,
    decode_entries,
    read_tables,
    require_distinct,
    require_fields,
)

Statistic = Literal["difference", "spread", "robustness", "effect", "interaction", "agreement"]
OWN = "own settings"  # what conditions are compared with


@dataclass(frozen=True, kw_only=True)
class Claim(Entry):
    """A published sentence, and the comparison that would make it true here.

    id: names it in files and links. source: who says so, and where.
    published: the numbers that were given. judged: the sentence that is judged, in our words.
    variant, versus: what it is about. Several variants are each compared with the one in `versus`;
        of statistic "robustness" both are lines, one variant per learning rate.
    factor: of statistic "effect", whose levels. against: of "agreement", the other metric.
    direction: what the sentence says of the variant: "higher" or "lower" than versus, "none" (no
        difference that matters) or "differs" (one that matters, either way).
    margin: a share of what was learned; of an accuracy, points of it; of "spread", a ratio.
    run: {}: the study's last plan.
    """

    id: Annotated[str, Matches(r"[\w-]+", "letters, digits, - and _, as it names a file")]
    source: Text
    published: Text
    judged: Text
    metric: Text
    statistic: Statistic
    direction: Literal["higher", "lower", "none", "differs"]
    margin: Annotated[float, Within(1e-9, 1e6)]
    run: Flags = field(default_factory=Flags)
    variant: tuple[Text, ...] = ()
    versus: tuple[Text, ...] = ()
    factor: str = ""
    against: str = ""


@dataclass(frozen=True)
class Condition:
    """Other settings, under which differences are judged again.

    name: of its column in the figure. studies: whose claims. set: task -> setting -> value, for all
    variants. seeds: as a selection has them.
    """

    name: Text
    studies: tuple[Text, ...]
    set: Mapping[str, Settings]
    seeds: list[Seed] | int | str


def read(path: Path) -> list[Claim]:
    """Read the claims of a file.

    Raises:
        UserError: something is no claim.
    """
    claims = decode_entries(path, "claim", _load(path)["claim"], Claim)
    if not claims:
        raise UserError(f"'{path}' holds no claims: each begins with [[claim]]")
    for name, claim in claims.items():
        try:
            _require_sound(claim)
        except UserError as why:
            raise UserError(f"'{path}': claim '{name}': {why}") from None
    return list(claims.values())


def read_conditions(path: Path) -> list[Condition]:
    """Read the conditions of a file of claims.

    Raises:
        UserError: something is no condition.
    """
    conditions = decode_entries(path, "condition", _load(path)["condition"], Condition, "name")
    for name, condition in conditions.items():
        where = f"'{path}': condition '{name}'"
        if name == OWN:
            raise UserError(f"{where} is what others are compared with: give it another name")
        if not condition.set or not all(condition.set.values()):
            raise UserError(f"{where}: set is a table of settings for each task")
    return list(conditions.values())


def _load(path: Path) -> dict[str, list[Json]]:
    """Read the entries of both kinds, whose names are lists."""
    missing = (
        f"there are no claims: '{path}' is missing; the published ones, and the archives that "
        f"they rest on, are in a clone of the repository"
    )
    tables = read_tables(path, ("claim", "condition"), missing)
    return {name: [_listed(entry) for entry in entries] for name, entries in tables.items()}


def _listed(entry: Json) -> Json:
    """Return an entry in which the names that may be one text are lists."""
    names = ("variant", "versus", "tasks", "studies")
    if not isinstance(entry, dict):
        return entry
    return {k: [x] if k in names and isinstance(x, str) else x for k, x in entry.items()}


_NEEDS: Mapping[str, tuple[str, ...]] = {
    "difference": ("variant", "versus"),
    "spread": ("variant", "versus"),
    "robustness": ("variant", "versus"),
    "effect": ("factor",),
    "interaction": (),
    "agreement": ("against",),
}


def _require_sound(claim: Claim) -> None:
    """Raise UserError for fields that do not go together."""
    claim.require_sound()
    require_fields(claim, claim.statistic, _NEEDS)
    require_distinct(variant=claim.variant, versus=claim.versus)
    if claim.statistic == "robustness":
        if len(claim.variant) != len(claim.versus) or len(claim.variant) < 2:
            raise UserError("robustness compares two lines, with as many variants in each")
        if len(claim.tasks) < 2:
            raise UserError("robustness is lost between tasks: it needs two")
    elif len(claim.versus) > 1:
        raise UserError("versus names one variant")
    if claim.statistic == "spread" and not claim.margin > 1:
        raise UserError(f"the margin of a spread is a ratio above 1, not {claim.margin}")
