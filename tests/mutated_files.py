"""Mutate the files that commands read, and run a command over each mutation."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sandbox

AT_ONCE = 20  # mutations of one process
READS = (
    "table walk",
    "status walk --format json",
    "export walk",
    "clean",
    "run walk.toml --dry-run",
)
# Pattern of a file -> commands that read such a file
READERS = {
    "results/cells/*/record.json": (*READS, "show walk"),
    "results/cells/*/curve.parquet": ("table walk", "export walk", "run walk.toml --dry-run"),
    "results/plans/walk/*.json": (*READS, "status", "table walk --kind power", "show walk"),
    "results/plans/walk/[!.]*[!n]": ("table walk", "status", "clean", "export"),  # units, the last
    "results/archive/walk-*.parquet*": ("table walk", "status", "export walk"),
    "results/baselines/b/*": ("check b --records results",),
    "walk.toml": ("run walk.toml --dry-run", "table walk.toml", "show walk.toml"),
    "runs.csv": ("import runs.csv --study other",),
    "runs.npz": ("import runs.npz --study other",),
}

# Values and texts that hurt somewhere

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e308, float("nan")),
    *(float("inf"), -float("inf"), "", " ", "x", "x" * 5000, "../../../escaped", "/etc/passwd"),
    *("a\0b", "a\nb", "\ud800", "[/x]", "\x1b[31m", "<b>", "nan", "1e999", "0" * 16),
    *([], {}, [[]], [None], {"": {}}, {"name": 1}, ["a", 1], [1, 2, 3], {"a": [1e308, "x"]}),
)
WORDS = (
    *("nan", "inf", "-inf", "1e999", "-1", "0", "1.5", "true", "[]", "{}", '""', '"../../x"'),
    *('"""', "[study]", "= = =", "\0", "\ud7ff", "9" * 500, '"' + "x" * 3000 + '"'),
    *("1_000", "2020-01-01", "[1, 2]", "{ a = 1 }", "'", "\ufeff", "é", "[" * 3000),
)


def _bytes(rng: random.Random, data: bytes) -> bytes:
    """One way in which bytes get damaged."""
    if not data:
        return b"\0"
    at, length = rng.randrange(len(data)), rng.randint(1, 40)
    kind = rng.randrange(7)
    if kind == 0:
        changed = bytearray(data)
        for _ in range(rng.randint(1, 8)):
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    return (
        data[:at],
        data[:at] + rng.randbytes(length) + data[at:],
        data[:at] + data[at + length :],
        data[:at] + data[at : at + length] * 50 + data[at:],
        data[:at] + b"\0" * length + data[at + length :],
        b"",
    )[kind - 1]


def _json(rng: random.Random, value: Any) -> Any:
    """The value with one of its parts another, gone, or under another name."""
    places = list(_places(value))
    holder, name = rng.choice(places) if places else (None, None)
    if holder is None:
        return rng.choice(VALUES)
    kind = rng.random()
    if kind < 0.7:
        holder[name] = json.loads(json.dumps(rng.choice(VALUES)))
    elif kind < 0.8:
        del holder[name]
    elif kind < 0.87:
        other, part = rng.choice(places)
        holder[name] = other[part]
    elif kind < 0.94 and isinstance(holder, dict):
        holder[rng.choice(("x", "", "\ud800", "name", "../x"))] = holder.pop(name)
    else:
        deep: Any = 1
        for _ in range(rng.choice((40, 200))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        holder[name] = deep
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for name, inner in (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    ):
        yield value, name
        yield from _places(inner)


def _in_text(rng: random.Random, path: Path) -> None:
    """A word of a text file becomes another."""
    text = path.read_text()
    words = list(re.finditer(r'"[^"\n]*"|[^\s,=\[\]]+|[\[\]=,]', text))
    word = rng.choice(words)
    path.write_text(text[: word.start()] + rng.choice(WORDS) + text[word.end() :])


def _no_file(rng: random.Random, path: Path) -> None:
    """In place of the file something else."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    kind = rng.randrange(7)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path.name)
    elif kind == 3:
        path.symlink_to("/dev/zero")
    elif kind == 4:
        path.symlink_to("nowhere")
    elif kind == 5:
        with path.open("wb") as file:
            file.truncate(1_100_000_000)
    else:
        path.write_text(
            rng.choice(("[" * 50_000, '{"a":' * 50_000, "9" * 50_000, "null", '""', "{}"))
        )


@dataclass
class Mutation:
    """A damaged file, the command that read it, and what that did."""

    number: int
    pattern: str
    folder: Path
    command: str
    outcome: sandbox.Outcome | None = None


def mutations(base: Path, seed: int, count: int) -> Iterator[Mutation]:
    """Make mutations of a folder from the seed and their numbers; run a command over each."""
    for start in range(0, count, AT_ONCE):
        with tempfile.TemporaryDirectory(dir=base.parent) as place:
            numbers = range(start, min(start + AT_ONCE, count))
            made = [_made(base, seed, number, Path(place) / str(number)) for number in numbers]
            # A process remembers a study file that it read, so each of these has its own.
            alone = [[one] for one in made if one.pattern == "walk.toml"]
            for group in [[one for one in made if one.pattern != "walk.toml"], *alone]:
                outcomes = sandbox.run_all([(one.folder, one.command.split()) for one in group])
                for one, outcome in zip(group, outcomes, strict=True):
                    one.outcome = outcome
                    if any(one.folder.parent.parent.rglob("escaped*")):
                        outcome.harm.append(("wrote outside", "escaped"))
        yield from made


def _made(base: Path, seed: int, number: int, place: Path) -> Mutation:
    rng = random.Random(f"{seed}/{number}")
    pattern = rng.choice(list(READERS))
    folder = sandbox.copied(base, place / "a" / "in")
    steps = np.arange(1, 9) * 10
    np.savez(folder / "runs.npz", timesteps=steps, results=np.ones((8, 3)))
    path = rng.choice(sorted(folder.glob(pattern)))
    if "archive" in pattern:
        shutil.rmtree(folder / "results" / "cells")
    with contextlib.suppress(ValueError, KeyError, TypeError):  # what Python cannot write
        _mutate(rng, path)
    return Mutation(number, pattern, folder, rng.choice(READERS[pattern]))


def _mutate(rng: random.Random, path: Path) -> None:
    """Damage a file; sign the damaged content as its writer would, most of the time."""
    if rng.random() < 0.1:
        _no_file(rng, path)
    elif path.suffix in (".json", ".unit") and rng.random() < 0.7:
        fields = _json(rng, json.loads(path.read_text()))
        path.write_text(json.dumps(_signed(fields)))
    elif path.suffix in (".toml", ".csv") and rng.random() < 0.7:
        for _ in range(rng.randint(1, 3)):
            _in_text(rng, path)
    else:
        path.write_bytes(_bytes(rng, path.read_bytes()))
    if path.is_file() and not path.is_symlink() and rng.random() < 0.8:
        _sign_elsewhere(path)


def _signed(fields: Any) -> Any:
    """With the checksum that a writer of such a record or plan would give it."""
    if isinstance(fields, dict) and "checksum" in fields:
        fields.pop("checksum")
        whole = json.dumps(json.loads(json.dumps(fields)), sort_keys=True)
        fields["checksum"] = hashlib.sha256(whole.encode()).hexdigest()
    return fields


def _sign_elsewhere(path: Path) -> None:
    """Write the new digest of a curve, an archive or a baseline's curves where it is kept."""
    digest = hashlib.sha256(path.open("rb").read(10_000_000)).hexdigest()
    beside = path.with_name(f"{path.name}.sha256")
    if beside.is_file():
        beside.write_text(digest)
    elif path.name == "curve.parquet":
        record = path.with_name("record.json")
        fields = json.loads(record.read_text())
        fields["curve"]["sha256"] = digest
        record.write_text(json.dumps(_signed(fields)))
    elif path.name == "baseline.csv":
        described = path.with_suffix(".json")
        described.write_text(json.dumps(json.loads(described.read_text()) | {"sha256": digest}))
