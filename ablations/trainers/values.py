"""Values as users give them, checked: in range, of the type of their default.

No registry, so that what trains without it has the same messages.
"""

from __future__ import annotations

import sys

from ablations.core.decode import Json
from ablations.errors import UserError, unknown
from ablations.trainers.trainer import Option


def number(name: str, value: Json, low: float, high: float) -> float:
    """Return a number between two bounds, both included. Raises UserError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{name} must be a number, not {value!r}")
    if not low <= value <= high:
        raise UserError(f"{name}={value:g} is out of range: it goes from {low:g} to {high:g}")
    return float(value)


def count(name: str, value: Json, low: int) -> int:
    """Return a whole number from a bound upwards. Raises UserError."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} must be a whole number, not {value!r}")
    if value < low:
        raise UserError(f"{name} must be at least {low}, not {value}")
    return value


def option(name: str, value: Json, of: Option) -> Json:
    """Return a value that an option of structure can have. Raises UserError."""
    value = like(name, value, of.default)
    if of.allowed is not None and value not in of.allowed:
        raise unknown(name, str(value), map(str, of.allowed))
    low, every = of.low, value if isinstance(value, list) else [value]
    if low is not None and any(isinstance(one, (int, float)) and one < low for one in every):
        raise UserError(f"{name} must be at least {of.low}, not {value}")
    return value


def like(name: str, value: Json, default: Json) -> Json:
    """Return a value in the type of its default. Raises UserError.

    That is a flag, a whole number, a number, a list of counts or a text.
    """
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UserError(f"{name} must be true or false, not {value!r}")
        return value
    if isinstance(default, int):
        return count(name, value, 0)
    if isinstance(default, float):
        return number(name, value, -sys.float_info.max, sys.float_info.max)
    if isinstance(default, (list, tuple)):
        if not isinstance(value, (list, tuple)):
            raise UserError(f"{name} must be a list such as {list(default)}, not {value!r}")
        return [count(name, one, 1) for one in value]
    if not isinstance(value, str):
        raise UserError(f"{name} must be a text such as '{default}', not {value!r}")
    return value
