"""Text in CSV that a spreadsheet would take for a formula, and run.

An apostrophe goes before it, as spreadsheets mark text, and before text that has apostrophes there
already, so that it can be taken away again. Numbers stay numbers.
"""

from __future__ import annotations

import re
from typing import TypeVar

_Value = TypeVar("_Value")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def inert(value: _Value) -> _Value | str:
    """Return a value as it stands in CSV: no formula, whoever opens it."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def plain(text: str) -> str:
    """Return a text of CSV as it was before `inert`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
