"""results/claims.toml: one published claim an entry, with how it is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from ablations.core.decode import Json, Matches, Mismatch, Within, decode
from ablations.core.files import read_toml
from ablations.core.plan import Flags, Seed, Settings
from ablations.errors import UserError, unknown
from ablations.names import NAME
from ablations.request import Request

Statistic = Literal["difference", "spread", "robustness", "effect", "interaction", "agreement"]
Text = Annotated[str, Matches(r"(?s).*\S.*", "a text")]
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
    run: the selection of the study that runs all that it needs; {}: the study's last plan.
    """

    id: Annotated[str, Matches(r"[\w-]+", "letters, digits, - and _, as it names a file")]
    title: Text
    source: Text
    published: Text
    judged: Text
    study: Text
    metric: Text
    statistic: Statistic
    direction: Literal["higher", "lower", "none", "differs"]
    tasks: tuple[Text, ...]
    margin: Annotated[float, Within(1e-9, 1e6)]
    run: Flags = field(default_factory=Flags)
    variant: tuple[Text, ...] = ()
    versus: tuple[Text, ...] = ()
    factor: str = ""
    against: str = ""

    @property
    def command(self) -> str:
        """The command that runs it; equal ones run the same plan."""
        return Request.of(self.study, self.run).command()


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


Entry = TypeVar("Entry", Claim, Condition)


def read(path: Path) -> list[Claim]:
    """Read the claims of a file.

    Raises:
        UserError: something is no claim.
    """
    claims = _entries(path, "claim", Claim, "id")
    if not claims:
        raise UserError(f"'{path}' holds no claims: each begins with [[claim]]")
    for claim in claims:
        try:
            _require_sound(claim)
        except UserError as why:
            raise UserError(f"'{path}': claim '{claim.id}': {why}") from None
    return claims


def read_conditions(path: Path) -> list[Condition]:
    """Read the conditions of a file of claims.

    Raises:
        UserError: something is no condition.
    """
    conditions = _entries(path, "condition", Condition, "name")
    for condition in conditions:
        where = f"'{path}': condition '{condition.name}'"
        if condition.name == OWN:
            raise UserError(f"{where} is what others are compared with: give it another name")
        if not condition.set or not all(condition.set.values()):
            raise UserError(f"{where}: set is a table of settings for each task")
    return conditions


def _entries(path: Path, table: str, kind: type[Entry], key: str) -> list[Entry]:
    """Decode the entries of a table, each named by its key."""
    found: dict[str, Entry] = {}
    for number, entry in enumerate(_load(path)[table], 1):
        name = entry.get(key) if isinstance(entry, dict) else None
        where = f"{table} '{name}'" if isinstance(name, str) else f"{table} {number}"
        try:
            decoded = decode(kind, _listed(entry))
        except Mismatch as why:
            raise UserError(f"'{path}': {where}: {why}") from None
        if name in found:
            raise UserError(f"'{path}' has two {table}s '{name}'")
        found[str(name)] = decoded
    return list(found.values())


def _load(path: Path) -> dict[str, list[Json]]:
    """Read the tables of both kinds."""
    try:
        read = read_toml(path)
    except FileNotFoundError:
        raise UserError(
            f"there are no claims: '{path}' is missing; the published ones, and the archives that "
            f"they rest on, are in a clone of the repository"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {error}") from None
    for name in read:
        if name not in ("claim", "condition"):
            raise UserError(f"'{path}': {unknown('table', name, ('claim', 'condition'))}")
    tables: dict[str, list[Json]] = {"claim": [], "condition": []}
    for name, entries in read.items():
        if not isinstance(entries, list):
            raise UserError(f"'{path}' holds no {name}s: each begins with [[{name}]]")
        tables[name] = entries
    return tables


def _listed(entry: Json) -> Json:
    """Return an entry in which the names that may be one text are lists."""
    names = ("variant", "versus", "tasks", "studies")
    if not isinstance(entry, dict):
        return entry
    return {k: [x] if k in names and isinstance(x, str) else x for k, x in entry.items()}


_NEEDS: Mapping[Statistic, tuple[str, ...]] = {
    "difference": ("variant", "versus"),
    "spread": ("variant", "versus"),
    "robustness": ("variant", "versus"),
    "effect": ("factor",),
    "interaction": (),
    "agreement": ("against",),
}


def _require_sound(claim: Claim) -> None:
    """Raise UserError for fields that do not go together, and for what is no name of a study.

    Not a file: whoever judges somebody's claims executes nothing of theirs.
    """
    if claim.study.endswith((".toml", ".py")) or not NAME.fullmatch(claim.study):
        raise UserError(f"'{claim.study}' is no name of a study")
    for name in ("variant", "versus", "factor", "against"):
        needed = name in _NEEDS[claim.statistic]
        if bool(getattr(claim, name)) != needed:
            lacks = "needs" if needed else "has no"
            raise UserError(f"the statistic {claim.statistic} {lacks} {name}")
    _require_distinct(tasks=claim.tasks, variant=claim.variant, versus=claim.versus)
    if not claim.tasks:
        raise UserError("tasks names none")
    if claim.statistic == "robustness":
        if len(claim.variant) != len(claim.versus) or len(claim.variant) < 2:
            raise UserError("robustness compares two lines, with as many variants in each")
        if len(claim.tasks) < 2:
            raise UserError("robustness is lost between tasks: it needs two")
    elif len(claim.versus) > 1:
        raise UserError("versus names one variant")
    if claim.statistic == "spread" and not claim.margin > 1:
        raise UserError(f"the margin of a spread is a ratio above 1, not {claim.margin}")
    Request.of(claim.study, claim.run)


def _require_distinct(**lists: Sequence[str]) -> None:
    for name, names in lists.items():
        if len(set(names)) < len(names):
            raise UserError(f"{name} names one twice")
