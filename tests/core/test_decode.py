"""A JSON value is its type, or the error says where it is none."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import pytest

from ablations.core.decode import AnyFloat, Matches, Mismatch, Within, closed, decode
from ablations.core.files import Foreign, parse, read_bytes, read_json, read_toml


@dataclass(frozen=True)
class Point:
    """A dataclass to decode."""

    step: Annotated[int, Within(0, 10)]
    names: tuple[str, ...] = ()


@closed
class Strict(TypedDict):
    """A TypedDict without further keys."""

    name: str


class Open(TypedDict, total=False):
    """One with further keys."""

    name: str


DEEP = json.loads("[" * 33 + "]" * 33)
CASES = [
    (int, True, "must be a whole number"),
    (int, 2**63, "one of more than 64 bits"),
    (int, 10**400, "one of more than 64 bits"),
    (float, float("nan"), "must be a finite number"),
    (float, 10**400, "must be a whole number"),
    (str, "\ud800", "is no Unicode text"),
    (str | None, 1, "must be a text, not 1"),
    (Literal["a", "b"], "c", "must be 'a' or 'b', not 'c'"),
    (tuple[int, str], [1], "must have 2 entries, not 1"),
    (list[int], [1, "x"], "[1] must be a whole number, not 'x'"),
    (Mapping[str, int], {"a": {}}, "a must be a whole number, not an object"),
    (Mapping[Annotated[str, Matches("[0-9]+", "a seed")], int], {"x": 1}, "x must be a seed"),
    (Point, {}, "it lacks step"),
    (Point, {"step": 11}, "step must be from 0 to 10, not 11"),
    (Point, {"step": 1, "other": 2}, "it has an unknown part 'other'"),
    (Point, {"step": 1, "names": [1]}, "names[0] must be a text, not 1"),
    (Point, [], "it must be an object, not a list"),
    (Strict, {"name": "a", "x": 1}, "it has an unknown part 'x'"),
    (Open, {"x": {"y": float("inf")}}, "x.y must be a finite number"),
    (object, DEEP, "is more than 32 deep"),
    (object, {"\ud800": 1}, "is no Unicode text"),
]


@pytest.mark.parametrize(("kind", "value", "why"), CASES)
def test_what_does_not_fit_is_named_with_its_place(kind, value, why: str) -> None:
    with pytest.raises(Mismatch) as error:
        decode(kind, value)
    assert why in str(error.value)
    assert str(error.value).isascii()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Point, {"step": 3, "names": ["a"]}),
        (Open, {"name": "a", "x": [1, {"y": None}]}),
        (Mapping[str, object], {"a": {"b": [0.5]}}),
        (float, 1),
        (AnyFloat, float("inf")),
    ],
)
def test_what_fits_is_what_it_was(kind, value) -> None:
    decoded = decode(kind, value)
    assert decoded == (Point(3, ("a",)) if kind is Point else value)


def test_equal_values_of_other_types_are_told_apart() -> None:
    """What was accepted once is remembered by its bytes, and True equals 1."""
    kind = Mapping[str, int]
    assert decode(kind, {"a": 1}) == {"a": 1}
    for value in (True, 1.0):
        with pytest.raises(Mismatch):
            decode(kind, {"a": value})


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "9" * 5000, b"\xff\xfe", "nan"])
def test_what_is_no_json_is_a_mismatch(text) -> None:
    with pytest.raises(Mismatch, match="is no JSON"):
        parse(text)


def test_only_regular_files_within_bounds_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "large").write_bytes(b"00000000001"[::-1])
    for name in ("pipe", "folder", "round", "endless", "large"):
        with pytest.raises(Foreign, match=name):
            read_bytes(tmp_path / name, 10)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "nothing")
    with pytest.raises(Foreign, match=r"large' is damaged: it must be a text"):
        read_json(tmp_path / "large", str)
    for text in ("x = " + "[" * 5000, "x = " + "9" * 5000):
        (tmp_path / "deep.toml").write_text(text)
        with pytest.raises(ValueError, match=r"Error|Invalid|limit"):
            read_toml(tmp_path / "deep.toml")
