"""Escapes text in CSV files that a spreadsheet would run as a formula.

It gets a leading apostrophe, the spreadsheets' mark of text. So does such text that already has an
apostrophe, so that `plain` can reverse it. Numbers do not change.
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


def plain(text: str) -> str:
    """Reverse `inert`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
