# ruff: noqa: RUF001  # a minus sign is meant
"""Word problems with one number for an answer, as in GSM8K: reading them, and checking answers.

A file has one JSON object a line, with "question" and "answer", whose text ends in the number
after '####' (Cobbe et al. 2021, https://arxiv.org/abs/2110.14168).
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from ablations.errors import UserError

MARK = "####"
# A sign belongs to the number unless it stands behind something to subtract from, or is a hyphen.
# Commas part groups of three digits, and nothing else.
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)\]%])[-−+])?[$€£]?(?P<inner>(?<=[$€£])[-−+])?"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
)


class Record(NamedTuple):
    """One problem: what is asked, and the number that answers it."""

    question: str
    answer: Fraction


def last_number(text: str) -> Fraction | None:
    """The last number in a text, whatever unit stands around it: -1234.5 in 'lost $-1,234.50.'"""
    found = None
    for found in _NUMBER.finditer(text):  # noqa: B007  # the last one is wanted
        pass
    if found is None:
        return None
    number = Fraction(found["digits"].replace(",", ""))
    negative = any(found[name] in ("-", "−") for name in ("sign", "inner"))
    return -number if negative else number


def given_answer(text: str) -> Fraction | None:
    """The first number after the last '####'; without such a mark the last number of all."""
    _, mark, after = text.rpartition(MARK)
    if not mark:
        return last_number(text)
    found = _NUMBER.search(after)
    return last_number(found.group()) if found else None


def is_right(completion: str, answer: Fraction) -> bool:
    """Whether a completion gives that number: 18, 18.0 and $18.00 are the same."""
    return given_answer(completion) == answer


def read_records(path: Path) -> list[Record]:
    """All records of a JSON-lines file. Raises UserError that names the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist: it must hold one JSON object a line, with question and answer"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read as text: {error}") from error
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            found = json.loads(line)
        except ValueError as error:
            raise UserError(f"{where} is not JSON: {error}") from error
        texts = found if isinstance(found, dict) else {}
        question, solution = texts.get("question"), texts.get("answer")
        if not isinstance(question, str) or not isinstance(solution, str):
            raise UserError(f'{where} must be an object with the texts "question" and "answer"')
        answer = given_answer(solution) if MARK in solution else None
        if answer is None:
            raise UserError(f"{where}: its answer must end in '{MARK}' and a number")
        records.append(Record(question.strip(), answer))
    if not records:
        raise UserError(f"{path} holds no records")
    return records
