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
import re
import types
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from typing import (
    Annotated,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ablations.core.scalars import (
    KINDS,
    SIMPLE,
    AnyFloat,
    As,
    Check,
    Count,
    Decoded,
    Hint,
    Json,
    Matches,
    Mismatch,
    PathText,
    Positive,
    Within,
    any_json,
    as_json,
    shown,
    texts,
    unicode_text,
)

__all__ = [
    "AnyFloat",
    "As",
    "Count",
    "Json",
    "Matches",
    "Mismatch",
    "PathText",
    "Positive",
    "Within",
    "as_json",
    "closed",
    "decode",
    "repeated",
    "shown",
    "texts",
]

T = TypeVar("T")

_REMEMBERED = 1000
_CLOSED: set[type] = set()
_REPEATED: set[type] = set()


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


@cache
def _check(kind: Hint) -> Check:
    origin: Hint = get_origin(kind)
    arguments = get_args(kind)
    if kind in SIMPLE:
        return SIMPLE[kind]
    if origin in _GENERIC:
        return _GENERIC[origin](*arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*arguments)
    if is_typeddict(kind):
        return _typed_dict(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    raise TypeError(f"no JSON is decoded as {kind}")


def _annotated(kind: Hint, *conditions: Hint) -> Check:
    kind = next((one.kind for one in conditions if isinstance(one, As)), kind)
    check = _check(kind)
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
        raise Mismatch(f"must be {KINDS[kind]}, not {shown(value)}")
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

    return _remembering(run) if kind in SIMPLE or is_typeddict(kind) else run


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
                decoded[name] = check(inner) if check else any_json(inner)
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
                unicode_text(name)
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
