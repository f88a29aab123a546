"""results/claims.toml: one published claim an entry, with how it is judged."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ablations.core.files import read_toml
from ablations.errors import UserError, unknown
from ablations.names import NAME

STATISTICS = ("difference", "spread", "robustness", "effect", "interaction", "agreement")
DIRECTIONS = ("higher", "lower", "none", "differs")
_RUN = ("ablations", "run")
OWN = "own settings"  # what conditions are compared with


@dataclass(frozen=True)
class Claim:
    """One sentence that somebody published, and what would make it true here.

    id: names it in files and links. title: the sentence in short. source: who says so, and where.
    published: the numbers that were given. judged: the sentence that is judged, in our words.
    variant, versus: what it is about. Several variants are each compared with the one in `versus`;
        of statistic "robustness" both are lines, one variant per learning rate.
    factor: of statistic "effect", whose levels. against: of "agreement", the other metric.
    direction: what the sentence says of the variant: "higher" or "lower" than versus, "none" (no
        difference that matters) or "differs" (one that matters, either way).
    margin: a share of what was learned; of an accuracy, points of it; of "spread", a ratio.
    command: what runs all that it needs.
    """

    id: str
    title: str
    source: str
    published: str
    judged: str
    study: str
    metric: str
    statistic: str
    direction: str
    tasks: tuple[str, ...]
    margin: float
    command: str
    variant: tuple[str, ...] = ()
    versus: tuple[str, ...] = ()
    factor: str = ""
    against: str = ""


@dataclass(frozen=True)
class Condition:
    """Other settings, under which differences are judged again.

    name: of its column in the figure. studies: whose claims. settings: task -> setting -> value,
    for all variants. seeds: as the flag of `run` takes them.
    """

    name: str
    studies: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Any]]
    seeds: str


def read(path: Path) -> list[Claim]:
    """Read the claims of a file.

    Raises:
        UserError: something is no claim.
    """
    claims = [_claim(path, number, entry) for number, entry in enumerate(_load(path)["claim"], 1)]
    _require_distinct(path, "claims", [claim.id for claim in claims])
    return claims


def read_conditions(path: Path) -> list[Condition]:
    """Read the conditions of a file of claims.

    Raises:
        UserError: something is no condition.
    """
    found = [
        _condition(path, number, entry) for number, entry in enumerate(_load(path)["condition"], 1)
    ]
    _require_distinct(path, "conditions", [condition.name for condition in found])
    return found


def _require_distinct(path: Path, what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"'{path}' has two {what} '{name}'")


def _load(path: Path) -> dict[str, list[Any]]:
    """Read the tables of both kinds."""
    try:
        found = read_toml(path)
    except FileNotFoundError:
        raise UserError(f"there are no claims: '{path}' is missing") from None
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {error}") from None
    tables = {"claim": [], "condition": [], **found}
    for name in tables:
        if name not in ("claim", "condition"):
            raise UserError(f"'{path}': {unknown('table', name, ('claim', 'condition'))}")
    if not tables["claim"]:
        raise UserError(f"'{path}' holds no claims: each begins with [[claim]]")
    for name, entries in tables.items():
        if not isinstance(entries, list):
            raise UserError(f"'{path}' holds no {name}s: each begins with [[{name}]]")
    return tables


_NAMES = {field.name: field.type for field in fields(Claim)}
_LISTS = ("variant", "versus", "tasks", "studies")
_OPTIONAL = ("variant", "versus", "factor", "against")
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "difference": ("variant", "versus"),
    "spread": ("variant", "versus"),
    "robustness": ("variant", "versus"),
    "effect": ("factor",),
    "interaction": (),
    "agreement": ("against",),
}


def _claim(path: Path, number: int, entry: Any) -> Claim:
    where = f"'{path}': claim {number}"
    if not isinstance(entry, dict):
        raise UserError(f"{where} is no table: it begins with [[claim]]")
    if isinstance(entry.get("id"), str):
        where = f"'{path}': claim '{entry['id']}'"
    _require_fields(where, entry, _NAMES, _OPTIONAL)
    values = {name: _value(where, name, entry[name]) for name in _NAMES if name in entry}
    claim = Claim(**values)
    if not re.fullmatch(r"[\w-]+", claim.id):
        raise UserError(f"{where}: its id names a file: letters, digits, - and _")
    for name, known in (("statistic", STATISTICS), ("direction", DIRECTIONS)):
        if values[name] not in known:
            raise UserError(f"{where}: {unknown(name, values[name], known)}")
    # Not a file: whoever judges somebody's claims executes nothing of theirs.
    if claim.study.endswith((".toml", ".py")) or not NAME.fullmatch(claim.study):
        raise UserError(f"{where}: '{claim.study}' is no name of a study")
    needed = _NEEDS[claim.statistic]
    for name in _OPTIONAL:
        if bool(getattr(claim, name)) != (name in needed):
            lacks = "needs" if name in needed else "has no"
            raise UserError(f"{where}: the statistic {claim.statistic} {lacks} {name}")
    _require_shape(where, claim)
    _require_command(where, claim)
    return claim


def _condition(path: Path, number: int, entry: Any) -> Condition:
    where = f"'{path}': condition {number}"
    if not isinstance(entry, dict):
        raise UserError(f"{where} is no table: it begins with [[condition]]")
    _require_fields(where, entry, ("name", "studies", "set", "seeds"))
    if entry["name"] == OWN:
        raise UserError(f"{where}: '{OWN}' are what it is compared with: give it another name")
    by_task = entry["set"]
    if (
        not isinstance(by_task, dict)
        or not by_task
        or not all(isinstance(one, dict) and one for one in by_task.values())
    ):
        raise UserError(f"{where}: set is a table of settings for each task")
    return Condition(
        _value(where, "name", entry["name"]),
        _value(where, "studies", entry["studies"]),
        by_task,
        str(entry["seeds"]),
    )


def _require_fields(
    where: str, entry: dict[str, Any], names: Collection[str], optional: Collection[str] = ()
) -> None:
    for name in entry:
        if name not in names:
            raise UserError(f"{where}: {unknown('field', name, names)}")
    for name in names:
        if name not in entry and name not in optional:
            raise UserError(f"{where} lacks {name}")


def _value(where: str, name: str, value: Any) -> Any:
    if name in _LISTS:
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not listed or not all(_is_text(x) for x in listed):
            raise UserError(f"{where}: {name} is a text, or a list of texts")
        if len(set(listed)) < len(listed):
            raise UserError(f"{where}: {name} names one twice")
        return tuple(listed)
    if name == "margin":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
            raise UserError(f"{where}: margin is a positive number, not {value!r}")
        return float(value)
    if not _is_text(value):
        raise UserError(f"{where}: {name} is a text, not {value!r}")
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _require_shape(where: str, claim: Claim) -> None:
    if claim.statistic == "robustness":
        if len(claim.variant) != len(claim.versus) or len(claim.variant) < 2:
            raise UserError(
                f"{where}: robustness compares two lines, with as many variants in each"
            )
        if len(claim.tasks) < 2:
            raise UserError(f"{where}: robustness is lost between tasks: it needs two")
    elif len(claim.versus) > 1:
        raise UserError(f"{where}: versus names one variant")
    if claim.statistic == "spread" and not claim.margin > 1:
        raise UserError(f"{where}: the margin of a spread is a ratio above 1, not {claim.margin}")


def _require_command(where: str, claim: Claim) -> None:
    """Require that what is judged is what the command runs."""
    try:
        words = shlex.split(claim.command)
    except ValueError:
        words = []
    if tuple(words[:2]) != _RUN or claim.study not in words[2:3]:
        raise UserError(
            f"{where}: the command begins with `ablations run {claim.study}`, not `{claim.command}`"
        )
