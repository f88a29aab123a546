"""The grammar of numbers in logs, one for all formats.

A number is decimal, with an exponent or without; or NaN or an infinity, in any case. Thousands may
be grouped by underscores, or by commas where these cannot be decimal ones: 1,234,567 and 9,839.45,
not 9,125. What is glued to a unit, a percent sign or further digits is none: it is never read in
part.
"""

from __future__ import annotations

import math
import re

from ablations.core.decode import Json

MOST = 2**53  # beyond it float64 leaves whole numbers out

_WHOLE = r"(?:[1-9]\d{0,2}(?:(?:,\d{3}){2,}|,\d{3}(?=\.\d)|(?:_\d{3})+)|\d+)"
_NUMBER = (
    rf"[-+\u2212]?(?:(?:{_WHOLE}(?:\.\d*)?|\.\d+)(?:[eE][-+\u2212]?\d+)?"
    r"|(?i:nan(?:\(\w*\))?|inf(?:inity)?))"
)
_SPACE = "\u00a0\u2009\u202f"  # of thousands, elsewhere
# What may stand after a number: a total, as in 3/10, is told apart; a spread, as in 9.5±0.1.
_END = rf"(?![{_SPACE}]\d)(?=$|\s|±|\+/?-|[;|)\]}}>*!?\"\x1b]|[,.:'](?!\d))"
_LIKE = (
    rf"[-+\u2212]?\.?\d[\S{_SPACE}]*|[-+]?(?i:nan|inf(?:inity)?)(?!\w)\S*"
    # An array as Python shows it.
    r"|(?:\w{1,20}\.)?(?:tensor|[aA]rray|float\d+)?[(\[]+[-+]?(?:\.?\d|(?i:nan|inf))[^\s,;]*"
)
_EXACT = re.compile(_NUMBER)
_PAIR = re.compile(
    rf"(?<!\w)([A-Za-z_][\w./-]{{0,99}})['\"]?\s*[:=]\s*['\"]?"
    rf"(?:\[\s*({_NUMBER})\s*\]{_END}|({_NUMBER}){_END}|({_LIKE}))"
)
_OF_A_TOTAL = re.compile(r"(\d+)/\d+[,;)\]]*")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_ODD = re.compile(
    rf"[-+]?(?:\d+[,'_{_SPACE}]\d+(?:\.\d+)?|\d{{1,3}}(?:[.'{_SPACE}]\d{{3}})+(?:[.,]\d+)?)"
)


def number(text: str) -> float | None:
    """Return the number that a text is, or None."""
    text = text.strip()
    if not _EXACT.fullmatch(text):
        return None
    plain = text.replace(",", "").replace("_", "").replace("\u2212", "-")
    return float(plain.partition("(")[0])


def as_number(value: Json) -> float | None:
    """Return the number that a value of JSON or NumPy is, or None; infinite if it is too large."""
    if isinstance(value, str):
        return number(value)
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return value if isinstance(value, float) else None


def is_odd(text: str) -> bool:
    """Return whether a text is a number of another notation: 1'234, 0,5 or 1.234,5."""
    return bool(_ODD.fullmatch(text.strip())) and number(text) is None


def pairs(line: str) -> list[tuple[str, str | float]]:
    """Return the pairs `name: value` and `name=value` of a line whose values begin like numbers.

    Names and values may stand in quotes, and a value alone in brackets, as an array of one number.

    Such a value is text where it is no number.
    """
    named: list[tuple[str, str | float]] = []
    for name, only, alone, like in _PAIR.findall(_COLOUR.sub("", line)):
        value = number(only or alone)
        named.append((name, like if value is None else value))
    return named


def of_a_total(text: str) -> float | None:
    """Return 3 for "3/10", None for anything else."""
    match = _OF_A_TOTAL.fullmatch(text)
    return float(match[1]) if match else None
