"""Values as users give them, checked: in range, of the type of their default. No registry, so
that what trains without it has the same messages.
"""

from __future__ import annotations

import sys
from typing import Any

from ablations.errors import UserError, unknown


def number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{name} must be a number, not {value!r}")
    if not low <= value <= high:
        raise UserError(f"{name}={value:g} is out of range: it goes from {low:g} to {high:g}")
    return float(value)


def count(name: str, value: Any, low: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} must be a whole number, not {value!r}")
    if value < low:
        raise UserError(f"{name} must be at least {low}, not {value}")
    return value


def option(name: str, value: Any, of: Any) -> Any:
    value = like(name, value, of.default)
    if of.allowed is not None and value not in of.allowed:
        raise unknown(name, str(value), map(str, of.allowed))
    every = value if isinstance(value, list) else [value]
    if of.low is not None and any(one < of.low for one in every):
        raise UserError(f"{name} must be at least {of.low}, not {value}")
    return value


def like(name: str, value: Any, default: Any) -> Any:
    """The value in the type of its default: a flag, a whole number, a number, a list of counts, a
    text.
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
