"""Encode the types of `core` as JSON."""

from __future__ import annotations

import dataclasses


def fields_of(value: object) -> dict[str, object]:
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
