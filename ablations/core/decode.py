"""Decode JSON values as types: dataclasses, TypedDicts, tuples, mappings, unions, literals.

A type says all that is checked, so that whoever holds a decoded value need not ask again:

    str                     text that can be written as UTF-8
    int, float              finite, and an int in 64 bits; True is neither
    Annotated[X, Within]    also between two bounds
    Annotated[X, Matches]   also of a pattern
    list[X], tuple[X, ...]  a list; tuple[X, Y] one of that length
    Annotated[X, As]        what another type says, held as X
    object                  any JSON value of such numbers and texts, at most `MOST_DEPTH` deep
    a dataclass             an object with its fields and no others
    a TypedDict             an object with its keys; others are `object`, unless it is `closed`

TypedDicts and mappings stay the dictionaries that they are, so that what is hashed keeps its bytes.
"""

from __future__ import annotations

import dataclasses
import marshal
import math
import re
import types
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

T = TypeVar("T")
Check = Callable[[Any], Any]

MOST_DEPTH = 32
_REMEMBERED = 1000
_SHOWN = 40  # characters of a value in an error
_CLOSED: set[object] = set()
_REPEATED: set[object] = set()


class Mismatch(ValueError):
    """A value that is not of its type: where it stands, and what it must be."""

    def __init__(self, what: str, place: str = ""):
        """Say what a value must be, and where it stands."""
        super().__init__(f"{place.lstrip('.') or 'it'} {what}")
        self.what, self.place = what, place

    def within(self, part: object) -> Mismatch:
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
    """The pattern of a whole text, and what it is called."""

    pattern: str
    called: str


@dataclass(frozen=True)
class As:
    """The type that is checked, where code reads the value by a wider one."""

    kind: Any


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


def decode(kind: type[T], value: object) -> T:
    """Return a JSON value as a type. Raise Mismatch."""
    return cast(T, _check(cast(Any, kind))(value))


def shown(value: object) -> str:
    """Return the beginning of a value, for a line of text."""
    if type(value) is int and not -(2**63) <= value < 2**63:
        return "one of more than 64 bits"  # of thousands of digits Python prints none
    text = ascii(value) if isinstance(value, str | int | float) else _KINDS.get(type(value), "null")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_KINDS: Mapping[Any, str] = {dict: "an object", list: "a list"}


@cache
def _check(kind: Any) -> Check:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if origin is Annotated:
        return _annotated(*arguments)
    if origin is Literal:
        return _literal(arguments)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is NotRequired:
        return _check(arguments[0])
    if origin is list:
        return _list(arguments[0])
    if origin is tuple:
        return _tuple(arguments[0]) if arguments[-1] is ... else _row(arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*arguments)
    if is_typeddict(kind):
        return _typed_dict(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    raise TypeError(f"no JSON is decoded as {kind}")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Mismatch(f"must be a text, not {shown(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Mismatch(f"is no Unicode text: {shown(value)}") from None
    return value


def _path_text(value: Any) -> str:
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


def _int(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise Mismatch(f"must be a whole number, not {shown(value)}")
    return value


def _float(value: Any) -> float:
    if type(value) is int:
        return _int(value)
    if type(value) is not float or not math.isfinite(value):
        raise Mismatch(f"must be a finite number, not {shown(value)}")
    return value


def _any_float(value: Any) -> float:
    return value if type(value) is float else _float(value)


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise Mismatch(f"must be true or false, not {shown(value)}")
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise Mismatch(f"must be null, not {shown(value)}")


def _json(value: Any, depth: int = MOST_DEPTH) -> Any:
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
    if kind is dict or kind is list:
        for name, inner in value.items() if kind is dict else enumerate(value):
            try:
                if kind is dict and not str(name).isascii():
                    _text(name)
                _json(inner, depth - 1)
            except Mismatch as why:
                raise why.within(name) from None
    return value


_SIMPLE: Mapping[Any, Check] = {
    str: _text,
    int: _int,
    float: _float,
    bool: _bool,
    None: _none,
    type(None): _none,
    object: _json,
    Any: _json,
}


def _annotated(kind: Any, *conditions: Any) -> Check:
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

    def run(value: Any) -> Any:
        decoded = check(value)
        if not low <= decoded <= high:
            raise Mismatch(f"must be from {low:g} to {high:g}, not {decoded}")
        return decoded

    return run


def _matching(check: Check, wanted: Matches) -> Check:
    matches = re.compile(wanted.pattern).fullmatch

    def run(value: Any) -> Any:
        decoded = check(value)
        if not matches(str(decoded)):
            raise Mismatch(f"must be {wanted.called}, not {shown(decoded)}")
        return decoded

    return run


def _literal(values: tuple[Any, ...]) -> Check:
    known = " or ".join(map(repr, values))

    def run(value: Any) -> Any:
        if type(value) is not str or value not in values:
            raise Mismatch(f"must be {known}, not {shown(value)}")
        return value

    return run


def _union(kinds: tuple[Any, ...]) -> Check:
    *others, last = [_check(kind) for kind in kinds if kind is not type(None)]
    nullable = type(None) in kinds

    def run(value: Any) -> Any:
        if value is None and nullable:
            return None
        for check in others:
            try:
                return check(value)
            except Mismatch:
                continue
        return last(value)

    return run


def _require(kind: type[Any], value: Any) -> Any:
    if type(value) is not kind:
        raise Mismatch(f"must be {_KINDS[kind]}, not {shown(value)}")
    return value


def _list(kind: Any) -> Check:
    check = _check(kind)

    def run(value: Any) -> Any:
        decoded = []
        for number, inner in enumerate(_require(list, value)):
            try:
                decoded.append(check(inner))
            except Mismatch as why:
                raise why.within(number) from None
        return decoded

    return run


def _tuple(kind: Any) -> Check:
    check = _list(kind)
    return lambda value: tuple(check(value))


def _row(kinds: tuple[Any, ...]) -> Check:
    parts = _parts(dict(enumerate(map(_check, kinds))))

    def run(value: Any) -> Any:
        if len(_require(list, value)) != len(kinds):
            raise Mismatch(f"must have {len(kinds)} entries, not {len(value)}")
        return tuple(parts(dict(enumerate(value))).values())

    return run


def _mapping(key: Any, kind: Any) -> Check:
    named, check = _check(key), _check(kind)

    def run(value: Any) -> Any:
        decoded = {}
        for name, inner in _require(dict, value).items():
            try:
                decoded[named(name)] = check(inner)
            except Mismatch as why:
                raise why.within(name) from None
        return decoded

    return _remembering(run) if kind in _SIMPLE or is_typeddict(kind) else run


def _remembering(check: Check) -> Check:
    """Check a value once where thousands are equal, as the choices of all seeds are, and keep one
    object of them."""
    accepted: dict[bytes, Any] = {}

    def run(value: Any) -> Any:
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


def _parts(checks: Mapping[Any, Check]) -> Callable[[dict[Any, Any]], dict[Any, Any]]:
    """Return the check of an object by its keys; of one that is not known, any JSON."""

    def run(value: dict[Any, Any]) -> dict[Any, Any]:
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

    def run(value: Any) -> Any:
        keys = _require(dict, value).keys()
        if not keys >= required:
            raise Mismatch(f"lacks {min(required - keys)}")
        if not keys <= checks.keys():
            unknown = sorted(keys - checks.keys())
            if not open_:
                raise Mismatch(f"has an unknown part {shown(unknown[0])}")
            for name in unknown:
                _text(name)
        return parts(value)

    return run


def _typed_dict(kind: Any) -> Check:
    checks = {n: _check(one) for n, one in get_type_hints(kind, include_extras=True).items()}
    check = _object(checks, kind.__required_keys__, open_=kind not in _CLOSED)
    return _remembering(check) if kind in _REPEATED else check


def _dataclass(kind: Any) -> Check:
    hints = get_type_hints(kind, include_extras=True)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    none = dataclasses.MISSING
    required = {f.name for f in fields if f.default is none and f.default_factory is none}
    parts = _object(
        {field.name: _check(hints[field.name]) for field in fields}, required, open_=False
    )
    return lambda value: kind(**parts(value))
