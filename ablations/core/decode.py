"""Decode JSON values as types: dataclasses, TypedDicts, tuples, mappings, unions, literals.

A type says all that is checked, so that whoever holds a decoded value need not ask again:

    str                     text that can be written as UTF-8
    int, float              finite, and an int in 64 bits; True is neither
    Annotated[X, Within]    also between two bounds
    Annotated[X, Matches]   also of a pattern
    list[X], tuple[X, ...]  a list; tuple[X, Y] one of that length
    Annotated[X, As]        what another type says, held as X
    Json                    any JSON value of such numbers and texts, at most `MOST_DEPTH` deep
    a dataclass             an object with its fields and no others
    a TypedDict             an object with its keys; others are `Json`, unless it is `closed`

TypedDicts and mappings stay the dictionaries that they are, so that what is hashed keeps its bytes.
"""

from __future__ import annotations

import dataclasses
import marshal
import math
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
else:
    Json = object

T = TypeVar("T")
Hint: TypeAlias = Any  # a type as annotations have it, for which Python has no type
Decoded: TypeAlias = Any  # a value of the type that was asked for
Check: TypeAlias = Callable[[Json], Decoded]

MOST_DEPTH = 32
_REMEMBERED = 1000
_SHOWN = 40  # characters of a value in an error
_CLOSED: set[object] = set()
_REPEATED: set[object] = set()


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


def closed(kind: type[T]) -> type[T]:
    """Mark a TypedDict as one without further keys."""
    _CLOSED.add(kind)
    return kind


def repeated(kind: type[T]) -> type[T]:
    """Mark a TypedDict whose values are the same in thousands of files: each is checked once."""
    _REPEATED.add(kind)
    return kind


def decode(kind: type[T], value: Json) -> T:
    """Return a JSON value as a type. Raise Mismatch."""
    hint: Hint = kind
    decoded: T = _check(hint)(value)
    return decoded


def shown(value: Json) -> str:
    """Format the beginning of a value, for an error."""
    if type(value) is int and not -(2**63) <= value < 2**63:
        return "one of more than 64 bits"  # of thousands of digits Python prints none
    text = ascii(value) if isinstance(value, str | int | float) else _KINDS.get(type(value), "null")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_KINDS: Mapping[type, str] = {dict: "an object", list: "a list"}


@cache
def _check(kind: Hint) -> Check:
    origin: Hint = get_origin(kind)
    arguments = get_args(kind)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if origin in _GENERIC:
        return _GENERIC[origin](*arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*arguments)
    if is_typeddict(kind):
        return _typed_dict(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    raise TypeError(f"no JSON is decoded as {kind}")


def texts(value: Json) -> tuple[str, ...] | None:
    """Return a list of texts; None for any other value."""
    if not isinstance(value, list | tuple):
        return None
    found = tuple(text for text in value if isinstance(text, str))
    return found if len(found) == len(value) else None


def _text(value: Json) -> str:
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
        return _text(value)
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


def _json(value: Json, depth: int = MOST_DEPTH) -> Json:
    """Check any JSON value: it can be hashed, printed and written again."""
    kind = type(value)
    if kind is str:
        return _text(value)
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
                _text(name)
            _json(inner, depth - 1)
        except Mismatch as why:
            raise why.within(name) from None
    return value


_SIMPLE: Mapping[Hint, Check] = {
    str: _text,
    int: _int,
    float: _float,
    bool: _bool,
    None: _none,
    type(None): _none,
    Json: _json,
    Any: _json,
}


def _annotated(kind: Hint, *conditions: Hint) -> Check:
    kind = next((one.kind for one in conditions if isinstance(one, As)), kind)
    special: Mapping[object, Check] = {_ANY: _any_float, _BYTES: _path_text}
    check = next((special[one] for one in conditions if one in special), None) or _check(kind)

    for one in conditions:
        if isinstance(one, Within):
            check = _within(check, one)
        elif isinstance(one, Matches):
            check = _matching(check, one)
    return check


def _within(check: Check, bounds: Within) -> Check:
    low, high = bounds.low, bounds.high

    def run(value: Json) -> Decoded:
        decoded = check(value)
        if not low <= decoded <= high:
            raise Mismatch(f"must be from {low:g} to {high:g}, not {decoded}")
        return decoded

    return run


def _matching(check: Check, wanted: Matches) -> Check:
    matches = re.compile(wanted.pattern).fullmatch

    def run(value: Json) -> Decoded:
        decoded = check(value)
        if not matches(str(decoded)):
            raise Mismatch(f"must be {wanted.called}, not {shown(decoded)}")
        return decoded

    return run


def _literal(*values: str) -> Check:
    known = " or ".join(map(repr, values))

    def run(value: Json) -> Decoded:
        if type(value) is not str or value not in values:
            raise Mismatch(f"must be {known}, not {shown(value)}")
        return value

    return run


def _union(*kinds: Hint) -> Check:
    *others, last = [_check(kind) for kind in kinds if kind is not type(None)]
    nullable = type(None) in kinds

    def run(value: Json) -> Decoded:
        if value is None and nullable:
            return None
        for check in others:
            try:
                return check(value)
            except Mismatch:
                continue
        return last(value)

    return run


def _require(kind: type[T], value: Json) -> T:
    if type(value) is not kind:
        raise Mismatch(f"must be {_KINDS[kind]}, not {shown(value)}")
    return value


def _list(kind: Hint) -> Check:
    check = _check(kind)

    def run(value: Json) -> Decoded:
        decoded = []
        for number, inner in enumerate(_require(list, value)):
            try:
                decoded.append(check(inner))
            except Mismatch as why:
                raise why.within(number) from None
        return decoded

    return run


def _tuple(*kinds: Hint) -> Check:
    if kinds[-1] is ...:
        check = _list(kinds[0])
        return lambda value: tuple(check(value))
    parts = _parts(dict(enumerate(map(_check, kinds))))

    def run(value: Json) -> Decoded:
        entries = _require(list, value)
        if len(entries) != len(kinds):
            raise Mismatch(f"must have {len(kinds)} entries, not {len(entries)}")
        return tuple(parts(dict(enumerate(entries))).values())

    return run


_GENERIC: Mapping[Hint, Callable[..., Check]] = {
    Annotated: _annotated,
    Literal: _literal,
    Union: _union,
    types.UnionType: _union,
    NotRequired: _check,
    list: _list,
    tuple: _tuple,
}


def _mapping(key: Hint, kind: Hint) -> Check:
    named, check = _check(key), _check(kind)

    def run(value: Json) -> Decoded:
        decoded = {}
        for name, inner in _require(dict, value).items():
            try:
                decoded[named(name)] = check(inner)
            except Mismatch as why:
                raise why.within(name) from None
        return decoded

    return _remembering(run) if kind in _SIMPLE or is_typeddict(kind) else run


def _remembering(check: Check) -> Check:
    """Check a value once where thousands are equal, as the choices of all seeds are.

    One object of them is kept.
    """
    accepted: dict[bytes, Decoded] = {}

    def run(value: Decoded) -> Decoded:
        try:
            key = marshal.dumps(value, 2)  # of this version equal bytes are equal types, too
        except ValueError:  # deep
            return check(value)
        if key not in accepted:
            decoded = check(value)
            if len(accepted) == _REMEMBERED:
                accepted.clear()
            accepted[key] = decoded
        return accepted[key]

    return run


def _parts(checks: Mapping[Hint, Check]) -> Callable[[dict[Hint, Json]], dict[Hint, Decoded]]:
    """Return the check of an object by its keys; of one that is not known, any JSON."""

    def run(value: dict[Hint, Json]) -> dict[Hint, Decoded]:
        decoded = {}
        for name, inner in value.items():
            try:
                check = checks.get(name)
                decoded[name] = check(inner) if check else _json(inner)
            except Mismatch as why:
                raise why.within(name) from None
        return decoded

    return run


def _object(checks: Mapping[str, Check], required: AbstractSet[str], *, open_: bool) -> Check:
    parts = _parts(checks)

    def run(value: Json) -> Decoded:
        given = _require(dict, value)
        keys = given.keys()
        if not keys >= required:
            raise Mismatch(f"lacks {min(required - keys)}")
        if not keys <= checks.keys():
            unknown = sorted(keys - checks.keys())
            if not open_:
                raise Mismatch(f"has an unknown part {shown(unknown[0])}")
            for name in unknown:
                _text(name)
        return parts(given)

    return run


def _typed_dict(kind: Hint) -> Check:
    hints = get_type_hints(kind, include_extras=True)
    checks = {n: _check(one) for n, one in hints.items()}
    # Where annotations are texts, Python 3.11 does not read NotRequired from them
    required = {n for n in kind.__required_keys__ if get_origin(hints[n]) is not NotRequired}
    check = _object(checks, required, open_=kind not in _CLOSED)
    return _remembering(check) if kind in _REPEATED else check


def _dataclass(kind: Hint) -> Check:
    hints = get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    none = dataclasses.MISSING
    required = {f.name for f in fields if f.default is none and f.default_factory is none}
    parts = _object(
        {field.name: _check(hints[field.name]) for field in fields}, required, open_=False
    )
    return lambda value: kind(**parts(value))
