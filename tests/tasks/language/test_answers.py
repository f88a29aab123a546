# ruff: noqa: RUF001  # a minus sign is meant
"""Word problems: which number a text gives, and files that are not what they should be."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablations.errors import UserError
from ablations.tasks.language.answers import given_answer, is_right, last_number, read_records


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", 42),
        ("so 3 + 4 = 7 apples", 7),
        ("1,234", 1234),
        ("$1,234,567.50 in total", "1234567.5"),
        ("They pay $-5", -5),
        ("They pay -$5.", -5),
        ("a loss of −12 %", -12),
        ("it is +8", 8),
        ("10-3", 3),
        ("(10)-3", 3),
        ("x-3", 3),
        ("10 - 3 = 7", 7),
        ("10 - 3", 3),
        ("about -3.25kg", "-3.25"),
        ("take 1, 2,3", 3),
        ("12,34", 34),
        ("1,2345", 2345),
        (".5 of it", "0.5"),
        ("18.00€", 18),
        ("50%", 50),
        ("the 2nd of 3rd", 3),
        ("007", 7),
        ("7.", 7),
        ("none at all", None),
        ("", None),
    ],
)
def test_last_number(text, number):
    assert last_number(text) == (None if number is None else Fraction(number))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("first 3, then 4 #### 12", 12),
        ("#### 1,000 dollars in 3 days", 1000),
        ("#### 3\nno: #### -4", -4),
        ("5 ####", None),
        ("#### $ 7", 7),
        ("so it is 5", 5),
    ],
)
def test_the_mark_decides_where_there_is_one(text, number):
    assert given_answer(text) == number


@given(st.decimals(-(10**9), 10**9, places=2, allow_nan=False), st.booleans())
def test_every_number_is_read_back(number, grouped):
    written = f"{number:,}" if grouped else str(number)
    for text in (f"It costs {written}.", f"= {written} km", f"2 and 3 make #### {written}"):
        assert is_right(text, Fraction(number)), text
        assert not is_right(text, Fraction(number) + 1)


def test_records_are_read(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [
        {"question": " How many?\n", "answer": "3+4=<<3+4=7>>7\n#### 7", "id": 1},
        {"question": "How much?", "answer": "#### -1,200"},
    ]
    path.write_text("\n\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    assert read_records(path) == [("How many?", 7), ("How much?", -1200)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist: it must hold one JSON object a line"),
        (b"\xff\xfe", "cannot be read as text"),
        (b"\n \n", "holds no records"),
        (b'{"question": "a", "answer": "#### 1"}\n{', r"line 2 is not JSON"),
        (b'["a"]', r'line 1 must be an object with the texts "question" and "answer"'),
        (b'{"question": "a"}', r"line 1 must be an object with the texts"),
        (b'{"question": "a", "answer": 3}', r"line 1 must be an object with the texts"),
        (b'{"question": "a", "answer": "it is 3"}', r"line 1: its answer must end in '####'"),
        (b'{"question": "a", "answer": "#### x"}', r"line 1: its answer must end in '####'"),
    ],
)
def test_bad_files_are_named_in_one_line(tmp_path, content, message):
    path = tmp_path / "records.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        read_records(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
