"""Numbers in logs, and the pairs `name: value` on lines that a command printed.

A number is decimal, with or without an exponent, or NaN or an infinity, in upper or lower case.
Underscores may group thousands. Commas may too if they cannot be decimal commas: 1,234,567 and
9,839.45, but not 9,125. A number with a unit, a percent sign or further digits is text.
"""

from __future__ import annotations

import math
import re

from ablations.core.decode import Json

MOST = 2**53  # beyond it float64 skips whole numbers

_GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(?:(?:,\d{3}){2,}(?:\.\d*)?|,\d{3}\.\d+)")
_SPACE = "\u00a0\u2009\u202f"  # between thousands, in some languages
# How a value starts: like a number, or like an array as Python prints it.
_START = r"['\"]?(?:[\w.]*[(\[]+)?[-+\u2212]?(?:\.?\d|(?i:nan|inf(?:inity)?)(?!\w))"
_VALUE = re.compile(
    rf"[:=][ \t]{{0,9}}(?={_START})"
    rf"([^\s,;|]+(?:,\d[^\s,;|]*)*(?:[{_SPACE}]\d\S*)?)"
)
_COUNTER = re.compile(
    r"\W*(epoch|iteration|iter|episode|update|step|timestep|batch|round|trial|generation)"
    r"[ \t]+#?(\d+)(?:[ \t]?/[ \t]?\d+)?(?![\w.])[\]):|,;-]*",
    re.IGNORECASE,
)
_OF_A_TOTAL = re.compile(r"(\d+)/\d+[,;)\]]*")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RATE = re.compile(r"[^\s,\]]{0,20}(?:it/s|s/it)")  # of a progress bar
_ODD = re.compile(
    rf"[-+]?(?:\d+[,'_{_SPACE}]\d+(?:\.\d+)?|\d{{1,3}}(?:[.'{_SPACE}]\d{{3}})+(?:[.,]\d+)?)"
)
_WORD = re.compile(r"\S*[^\W\d_]\S*")
_DIGIT = re.compile(r"\d")
_SPREAD = re.compile(r"±|\+/?-")  # 9.5±0.1
_SEPARATOR = re.compile(r"[,;|]\s")
_LONGEST = 200  # letters of a name


def number(value: Json, *, of_a_total: bool = False) -> float | None:
    """Return a text or JSON value as a number, or None. With `of_a_total`, "3/10" is 3."""
    if isinstance(value, str):
        text = value.strip().replace("\u2212", "-")
        if of_a_total and (match := _OF_A_TOTAL.fullmatch(text)):
            text = match[1]
        try:
            return float(text.replace(",", "") if _GROUPED.fullmatch(text) else text)
        except ValueError:
            return None
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return value if isinstance(value, float) else None


def is_odd(text: str) -> bool:
    """Return whether a text is a number in a notation that is not read: 1'234, 0,5 or 1.234,5."""
    return bool(_ODD.fullmatch(text.strip())) and number(text) is None


def pairs(line: str) -> dict[str, str | float]:
    """Return the pairs `name: value` and `name=value` of a line, and its first words under "".

    A name is all text after the previous value and its comma, without leading numbers and
    punctuation: "train return" and "eval return" are two names. Of a quoted name the quotes are
    dropped. "Epoch 3:" at the start is a pair. A value that starts like a number but is not one is
    text, and so are two values of one name. In "eval step: 1 return: 5" the first word is "eval".
    """
    line = _COLOUR.sub("", line) if "\x1b" in line else line
    line = _RATE.sub("", line) if "it/s" in line or "s/it" in line else line
    named: dict[str, str | float] = {}
    at, heading = 0, None
    if counter := _COUNTER.match(line):
        named[counter[1]] = float(counter[2])
        at = counter.end()
    for match in _VALUE.finditer(line, at):
        text, at = line[max(at, match.start() - 2 * _LONGEST) : match.start()].rstrip(), match.end()
        if heading is not None:
            text = _SEPARATOR.split(text)[-1]
        if text.endswith(("'", '"')):
            before, _, name = text[:-1].rpartition(text[-1])
        else:
            first = _WORD.search(text)
            name = " ".join(text[first.start() :].split()).lstrip(",;|&({") if first else ""
            before = name.rpartition(" ")[0]
        if not name or len(name) > _LONGEST:
            continue
        if heading is None:  # words with digits differ from line to line
            words = before.split()
            heading = " ".join(w for w in words if _WORD.match(w) and not _DIGIT.search(w))
        token = _SPREAD.split(match[1])[0].rstrip(".:!?*>)}'\"").lstrip("'\"")
        read = number(token.strip("[]") if token.endswith("]") else token)
        value = match[1] if read is None else read
        known = named.setdefault(name, value)
        named[name] = value if str(known) == str(value) else f"{known} and {value}"
    return {"": heading or "", **named} if named else {}
