"""Decode JSON values as types with msgspec, the one validator of everything that is read.

    str, int, float, ...          Python's types; True is no int, and an int is a float
    Annotated[X, Within(0, 1)]    a number between two bounds, both included
    Annotated[X, Matches("a+", "a name")]    a text that is a name by this pattern
    msgspec.Struct                an object with these fields
    TypedDict                     an object with these keys; others are left out
    Json                          any value

Values are of `ablations.core.files.parse`, or plain ones such as those of a TOML file.
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
    Number = int | float  # a whole number stays one, so that it is written as it was read

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
_CALLED: dict[str, str] = {}  # pattern -> what a text that matches it is


class Mismatch(ValueError):
    """A value that is not of its type: where it is, what is expected, what it is."""


def Within(low: float, high: float) -> msgspec.Meta:  # noqa: N802
    """Return the bounds of a number, both included."""
    return msgspec.Meta(ge=low, le=high)


def Matches(pattern: str, called: str) -> msgspec.Meta:  # noqa: N802
    """Return the pattern of a whole text, and what errors call such a text."""
    whole = rf"\A(?:{pattern})\Z"
    _CALLED[whole] = called
    return msgspec.Meta(pattern=whole)


Count = Annotated[int, Within(0, 2**62)]
Positive = Annotated[int, Within(1, 2**62)]
PathText: TypeAlias = str  # may hold bytes that are no text, as Python has them


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object of a file, with these fields and no others. Default values are not written."""


def decode(kind: type[T], value: Json, raw: Sequence[str] = ()) -> T:
    """Return a JSON value as a type. Raises Mismatch.

    raw: fields of a struct that are checked and stay the very objects of the value, since what is
    hashed must keep its numbers and keys.
    """
    if is_dataclass(kind) and isinstance(value, Mapping):  # a struct refuses them itself
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
    """Return a value that a user wrote as a type. Raises UserError, which begins with `where`."""
    try:
        return decode(kind, value)
    except Mismatch as why:
        raise UserError(f"{where} {why}") from None


def _worded(kind: Any, error: str) -> str:
    """Word an error of msgspec: "cells[3].seed: expected a whole number, got a text"."""
    what, _, place = error.partition(" - at `")
    where = place.replace("`", "").removeprefix("$").removeprefix(".")
    name = what.split("`")[1] if "`" in what else ""
    if "unknown field" in what:
        known = getattr(kind, "__struct_fields__", ())
        what = f"unknown key {shown(name)}" if where else str(unknown("key", name, known))
    elif "required field" in what:
        what = f"missing key '{name}'"
    elif what.startswith("Expected"):
        for pattern, called in _CALLED.items():
            what = what.replace(f"matching regex {pattern!r}", f"that is {called}")
        what = "e" + re.sub("`([^`]+)`", lambda found: _kinds(found[1]), what)[1:]
    what = what.replace("Invalid enum value", "unknown value")
    line = f"{where}: {what}" if where else what
    return one_line(line)[:_LONGEST]


def _kinds(named: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in named.split(" | "))


def shown(value: Json) -> str:
    """Format the beginning of a value, for an error."""
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def encode(value: Any) -> str:
    """Encode plain values, structs and dataclasses as JSON; NaN is written as Python does."""
    return json.dumps(value, default=msgspec.to_builtins)


def as_json(decoded: Mapping[str, Any]) -> Mapping[str, Json]:
    """Return a TypedDict as the JSON that it is, which its type does not say."""
    return decoded


def leaves(
    tree: Mapping[str, Json], deepest: float = float("inf"), prefix: str = ""
) -> Iterator[tuple[str, Json]]:
    """Yield the values in an object of objects, each with its dotted name of `deepest` names."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and prefix.count(".") < deepest:
            yield from leaves(value, deepest, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
