"""Files of entries, such as questions: TOML whose tables are decoded as types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from ablations.core.decode import Json, Matches, Mismatch, decode
from ablations.core.files import read_toml
from ablations.core.plan import Flags
from ablations.errors import UserError, unknown
from ablations.names import NAME
from ablations.request import Request

T = TypeVar("T")

Text = Annotated[str, Matches(r"(?s).*\S.*", "a text")]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry that rests on the runs of a study.

    title: in short. run: the selection of the study that runs all that it needs.
    """

    title: Text
    study: Text
    tasks: tuple[Text, ...]
    run: Flags

    @property
    def request(self) -> Request:
        """The request of those runs. Raises UserError for a selection that is none."""
        return Request.of(self.study, self.run)

    @property
    def command(self) -> str:
        """The command that runs them; equal ones run the same cells."""
        return self.request.command()

    def require_sound(self) -> None:
        """Raise UserError for a study, tasks or a selection that cannot be.

        A file is no study here: whoever judges somebody's entries executes nothing of theirs.
        """
        if self.study.endswith((".toml", ".py")) or not NAME.fullmatch(self.study):
            raise UserError(f"'{self.study}' is no name of a study")
        if not self.tasks:
            raise UserError("tasks names none")
        require_distinct(tasks=self.tasks)
        Request.of(self.study, self.run)


def require_distinct(**lists: Sequence[str]) -> None:
    """Raise UserError for a list that names one twice."""
    for name, names in lists.items():
        if len(set(names)) < len(names):
            raise UserError(f"{name} names one twice")


def require_fields(entry: Entry, statistic: str, needs: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError for fields that an entry of this statistic lacks, or has in vain.

    needs: statistic -> its fields, of those of all.
    """
    for name in dict.fromkeys(name for names in needs.values() for name in names):
        needed = name in needs[statistic]
        if bool(getattr(entry, name)) != needed:
            lacks = "needs" if needed else "has no"
            raise UserError(f"the statistic {statistic} {lacks} {name}")


def read_tables(path: Path, tables: Sequence[str], missing: str) -> dict[str, list[Json]]:
    """Read the entries of each table of a file, still to be decoded.

    Raises:
        UserError: the file is missing, with that message, cannot be read, or has another table.
    """
    try:
        content = read_toml(path)
    except FileNotFoundError:
        raise UserError(missing) from None
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {error}") from None
    for name in content:
        if name not in tables:
            raise UserError(f"'{path}': {unknown('table', name, tables)}")
    entries: dict[str, list[Json]] = {}
    for name in tables:
        listed = content.get(name, [])
        if not isinstance(listed, list):
            raise UserError(f"'{path}' holds no {name}s: each begins with [[{name}]]")
        entries[name] = listed
    return entries


def decode_entries(
    path: Path, table: str, entries: Sequence[Json], kind: type[T], key: str = "id"
) -> dict[str, T]:
    """Decode the entries of a table, each named by its key.

    Raises:
        UserError: one does not fit, or two have one name.
    """
    decoded: dict[str, T] = {}
    for number, entry in enumerate(entries, 1):
        name = entry.get(key) if isinstance(entry, dict) else None
        where = f"{table} '{name}'" if isinstance(name, str) else f"{table} {number}"
        try:
            value = decode(kind, entry)
        except Mismatch as why:
            raise UserError(f"'{path}': {where}: {why}") from None
        if name in decoded:
            raise UserError(f"'{path}' has two {table}s '{name}'")
        decoded[str(name)] = value
    return decoded
