"""A value of a file is of its type, or one line says where it is not; odd files are refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import pytest

from ablations.core.decode import Matches, Mismatch, Part, Within, decode, encode, required
from ablations.core.files import Foreign, parse, read_bytes, read_json, read_toml
from ablations.errors import UserError


class Settings(TypedDict, total=False):
    rate: float


class Point(Part, frozen=True):
    step: Annotated[int, Within(0, 10)]
    names: tuple[str, ...] = ()
    settings: Settings = {}  # noqa: RUF012


SEED = Annotated[str, Matches("[0-9]+", "a seed")]


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (int, True, "expected a whole number, got true or false"),
        (int, 1.0, "expected a whole number, got a number"),
        (str | None, 1, "expected a text or null, got a whole number"),
        (Literal["a", "b"], "c\n", r"unknown value 'c\n'"),
        (list[int], [1, "x"], "[1]: expected a whole number, got a text"),
        (Mapping[SEED, int], {"x": 1}, "key in $: expected a text that is a seed"),
        (Mapping[str, SEED], {"x": "1\n"}, "[...]: expected a text that is a seed"),
        (Point, {}, "missing key 'step'"),
        (Point, {"step": 11}, "step: expected a whole number <= 10"),
        (Point, {"step": 1, "naems": []}, "unknown key 'naems': did you mean 'names'?"),
        (Point, {"step": 1, "names": ["a", 1]}, "names[1]: expected a text, got a whole number"),
        (list[Point], [{"step": 1, "x\ud800": 1}], "surrogates not allowed"),
        (Point, [], "expected an object, got a list"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(kind, value, why: str) -> None:
    with pytest.raises(Mismatch) as error:
        decode(kind, value)
    assert why in str(error.value)
    assert str(error.value).isprintable()
    why = re.escape(why.replace("an object", "a table"))
    with pytest.raises(UserError, match=f"^'x.toml': .*{why}"):
        required(kind, value, "'x.toml':")


def test_raw_parts_keep_numbers_and_keys_that_the_type_would_change() -> None:
    value = {"step": 3, "names": ["a"], "settings": {"rate": 1, "more": 2}}
    assert decode(Point, value).settings == {"rate": 1.0}
    raw = decode(Point, value, raw=("settings",))
    assert json.dumps(raw.settings) == json.dumps(value["settings"])
    assert (raw.step, raw.names, json.loads(encode(raw))) == (3, ("a",), value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[" * 100_000, "9" * 5000, str(2**64), "nan", "NaN"),
        *('{"x": -Infinity}', "[1e999]", '"\\ud800"', b"\xff\xfe", b'"\xff"'),
    ],
)
def test_what_is_not_plain_json_is_a_mismatch(text) -> None:
    with pytest.raises(Mismatch, match="JSON"):
        parse(text)


def test_numbers_and_names_of_files_are_read_as_python_writes_them() -> None:
    numbers = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 2**63 - 1, -(2**63), 1, 1.0]
    value = {"numbers": numbers, "path": "caf\udce9", "text": "é\u2028\x00", "deep": [[{}]]}
    assert repr(parse(json.dumps(value))) == repr(value)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "large").write_bytes(b"10000000000")
    for name in ("pipe", "folder", "round", "endless"):
        with pytest.raises(Foreign, match=name):
            read_bytes(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "nothing")
    with pytest.raises(Foreign, match=r"large' is damaged: expected a text, got a whole number"):
        read_json(tmp_path / "large", str)
    for text in ("x = " + "[" * 5000, "x = " + "9" * 5000):
        (tmp_path / "deep.toml").write_text(text)
        with pytest.raises(Foreign, match="as TOML: "):
            read_toml(tmp_path / "deep.toml")
