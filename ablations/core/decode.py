"""Decode JSON values as types, with msgspec. All files are validated here.

    str, int, float, ...          Python's types; True is not an int, and an int is a float
    Annotated[X, Within(0, 1)]    a number between two bounds, both included
    Annotated[X, Matches("a+", "a name")]    a text that matches the pattern, called "a name"
    msgspec.Struct                an object with these fields
    TypedDict                     an object with these keys; other keys are dropped
    Json                          any value

Values come from `ablations.core.files.parse`, or are plain values such as those of a TOML file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import msgspec

from ablations.errors import UserError, one_line, unknown

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
    Number: TypeAlias = float
else:
    Json = object
    Number = int | float  # an int stays an int, so that it is written as it was read

T = TypeVar("T")

_SHOWN, _LONGEST = 40, 300  # characters of a value, and of an error
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_CALLED: dict[str, str] = {}  # pattern -> the name of its texts in errors


class Mismatch(ValueError):
    """A value that does not have its type; the message has its position and the expected type."""


def Within(low: float, high: float) -> msgspec.Meta:  # noqa: N802
    """Return the bounds of a number, both included."""
    return msgspec.Meta(ge=low, le=high)


def Matches(pattern: str, called: str) -> msgspec.Meta:  # noqa: N802
    """Require a text to match a pattern; errors call such a text `called`."""
    anchored = rf"\A(?:{pattern})\Z"
    _CALLED[anchored] = called
    return msgspec.Meta(pattern=anchored)


Count = Annotated[int, Within(0, 2**62)]
Positive = Annotated[int, Within(1, 2**62)]
PathText: TypeAlias = str  # may have surrogate escapes for bytes that are not UTF-8


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object in a file with exactly these fields. Default values are not written."""


def decode(kind: type[T], value: Json, raw: Sequence[str] = ()) -> T:
    """Return a JSON value as a type. Raises Mismatch.

    `raw` names fields of a struct that are checked but not converted: hashed data must keep its
    numbers and keys.
    """
    if is_dataclass(kind) and isinstance(value, Mapping):  # structs check unknown keys themselves
        for name in value.keys() - {field.name for field in fields(kind)}:
            raise Mismatch(f"unknown key {shown(name)}")
    try:
        decoded: T = msgspec.convert(value, kind)
    except ValueError as error:
        raise Mismatch(_worded(kind, str(error))) from None
    if raw and isinstance(decoded, msgspec.Struct) and isinstance(value, Mapping):
        kept = {name: value[name] for name in raw if name in value}
        return msgspec.structs.replace(decoded, **kept)
    return decoded


def required(kind: type[T], value: Json, where: str) -> T:
    """Return a user's value as a type. Raises UserError: `where`, then why, in words of TOML."""
    try:
        return decode(kind, value)
    except Mismatch as why:
        raise UserError(f"{where} {why}".lstrip().replace("an object", "a table")) from None


def _worded(kind: Any, error: str) -> str:
    """Word an error of msgspec: "cells[3].seed: expected a whole number, got a text"."""
    what, _, position = error.partition(" - at `")
    where = position.replace("`", "").removeprefix("$").removeprefix(".")
    name = what.split("`")[1] if "`" in what else ""
    if "unknown field" in what:
        known = getattr(kind, "__struct_fields__", ())
        what = f"unknown key {shown(name)}" if where else str(unknown("key", name, known))
    elif "required field" in what:
        what = f"missing key '{name}'"
    elif what.startswith("Expected"):
        for pattern, called in _CALLED.items():
            what = what.replace(f"matching regex {pattern!r}", f"that is {called}")
        what = "e" + re.sub("`([^`]+)`", lambda match: _kinds(match[1]), what)[1:]
    what = what.replace("Invalid enum value", "unknown value")
    line = f"{where}: {what}" if where else what
    return one_line(line)[:_LONGEST]


def _kinds(named: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in named.split(" | "))


def shown(value: Json) -> str:
    """Format the start of a value for an error."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def encode(value: Any) -> str:
    """Encode plain values, structs and dataclasses as JSON; NaN is written as NaN."""
    return json.dumps(value, default=msgspec.to_builtins)


def as_json(decoded: Mapping[str, Any]) -> Mapping[str, Json]:
    """Return a TypedDict with the type of JSON."""
    return decoded


def leaves(tree: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    """Yield the dotted names and values of nested objects."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
