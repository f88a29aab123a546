"""Check JSON values that stand alone: texts, numbers, any JSON; and name what is wrong with one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
else:
    Json = object

Hint: TypeAlias = Any  # a type as annotations have it, for which Python has no type
Decoded: TypeAlias = Any  # a value of the type that was asked for
Check: TypeAlias = Callable[[Json], Decoded]

MOST_DEPTH = 32
_SHOWN = 40  # characters of a value in an error


class Mismatch(ValueError):
    """A value that is not of its type: its place, and the type that it must have."""

    def __init__(self, what: str, place: str = ""):
        """Word what a value must be, and its place."""
        super().__init__(f"{place.lstrip('.') or 'it'} {what}")
        self.what, self.place = what, place

    def within(self, part: str | int) -> Mismatch:
        """Return the same mismatch in a part of a list, by its number, or of an object."""
        name = f"[{part}]" if isinstance(part, int) else f".{shown(part)[1:-1]}"
        return Mismatch(self.what, name + self.place)


@dataclass(frozen=True)
class Within:
    """The bounds of a number, both included."""

    low: float
    high: float


@dataclass(frozen=True)
class Matches:
    """The pattern of a whole text, and a name for it."""

    pattern: str
    called: str


@dataclass(frozen=True)
class As:
    """The type that is checked, where code knows the value by another one."""

    kind: Hint


_ANY = "infinite and NaN too"
AnyFloat = Annotated[float, _ANY]
_BYTES = "with bytes that are no text, as Python has them"
PathText = Annotated[str, _BYTES]  # the name of a file or folder
Count = Annotated[int, Within(0, 2**62)]
Positive = Annotated[int, Within(1, 2**62)]


def as_json(decoded: Mapping[str, Any]) -> Mapping[str, Json]:
    """Return a TypedDict as the JSON that it is, which its type does not say."""
    return decoded


def shown(value: Json) -> str:
    """Format the beginning of a value, for an error."""
    if type(value) is int and not -(2**63) <= value < 2**63:
        return "one of more than 64 bits"  # of thousands of digits Python prints none
    text = ascii(value) if isinstance(value, str | int | float) else KINDS.get(type(value), "null")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


KINDS: Mapping[type, str] = {dict: "an object", list: "a list"}


def texts(value: Json) -> tuple[str, ...] | None:
    """Return a list of texts; None for any other value."""
    if not isinstance(value, list | tuple):
        return None
    found = tuple(text for text in value if isinstance(text, str))
    return found if len(found) == len(value) else None


def unicode_text(value: Json) -> str:
    """Check a text that can be written as UTF-8."""
    if type(value) is not str:
        raise Mismatch(f"must be a text, not {shown(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Mismatch(f"is no Unicode text: {shown(value)}") from None
    return value


def _path_text(value: Json) -> str:
    try:
        return unicode_text(value)
    except Mismatch:
        if type(value) is not str:
            raise
    try:
        value.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise Mismatch(f"is no path: {shown(value)}") from None
    return value


def _int(value: Json) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise Mismatch(f"must be a whole number, not {shown(value)}")
    return value


def _float(value: Json) -> float:
    if type(value) is int:
        return _int(value)
    if type(value) is not float or not math.isfinite(value):
        raise Mismatch(f"must be a finite number, not {shown(value)}")
    return value


def _any_float(value: Json) -> float:
    return value if type(value) is float else _float(value)


def _bool(value: Json) -> bool:
    if type(value) is not bool:
        raise Mismatch(f"must be true or false, not {shown(value)}")
    return value


def _none(value: Json) -> None:
    if value is not None:
        raise Mismatch(f"must be null, not {shown(value)}")


def any_json(value: Json, depth: int = MOST_DEPTH) -> Json:
    """Check any JSON value: it can be hashed, printed and written again."""
    kind = type(value)
    if kind is str:
        return unicode_text(value)
    if kind is int:
        return _int(value)
    if kind is float:
        return _float(value)
    if not depth:
        raise Mismatch(f"is more than {MOST_DEPTH} deep")
    parts: Iterable[tuple[str | int, Json]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for name, inner in parts:
        try:
            if not str(name).isascii():
                unicode_text(name)
            any_json(inner, depth - 1)
        except Mismatch as why:
            raise why.within(name) from None
    return value


SIMPLE: Mapping[Hint, Check] = {
    str: unicode_text,
    int: _int,
    float: _float,
    bool: _bool,
    None: _none,
    type(None): _none,
    Json: any_json,
    Any: any_json,
    AnyFloat: _any_float,
    PathText: _path_text,
}


def leaves(
    tree: Mapping[str, Json], deepest: float = float("inf"), prefix: str = ""
) -> Iterator[tuple[str, Json]]:
    """Yield what lies in an object of objects, by the names that lead there with dots between.

    deepest: how many names, before whole objects are left.
    """
    for name, value in tree.items():
        if isinstance(value, Mapping) and prefix.count(".") < deepest:
            yield from leaves(value, deepest, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def fields_of(value: DataclassInstance) -> dict[str, Json | DataclassInstance]:
    """Return the fields of a dataclass in their order, for `json.dumps(..., default=fields_of)`.

    A field that is None by default is left out where it is None.
    """
    if not dataclasses.is_dataclass(value):
        raise TypeError(f"no JSON is made of {type(value).__name__}")
    return {
        field.name: held
        for field in dataclasses.fields(value)
        if (held := getattr(value, field.name)) is not None or field.default is not None
    }
