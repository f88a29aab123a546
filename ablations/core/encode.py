"""Encode the types of `core` as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ablations.core.scalars import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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
