"""Escapes text in CSV files that a spreadsheet would run as a formula.

It gets a leading apostrophe, the spreadsheets' mark of text, as does such text that already has
one. Numbers do not change.
"""

from __future__ import annotations

import re
from typing import TypeVar

_Value = TypeVar("_Value")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def inert(value: _Value) -> _Value | str:
    """Escape a value for CSV if it looks like a formula."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
