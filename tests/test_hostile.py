"""A results folder made to hurt executes nothing, leads nowhere, and loses nothing of a user's."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import hostile
import pytest

COMMANDS = (
    *("table walk", "table named odd0 odd1 odd2 odd3 odd4 odd5 odd6 odd7", "status"),
    *("table walk --format html", "table odd0 --format latex", "table named --seeds 2"),
    *("table escaping", "table elsewhere", "table linked", "table zero", "table pipe"),
    *("table round", "table deep", "table newer", "status walk", "status walk --seeds 2"),
    *("report walk odd2", "figure odd0 --format svg --kind curves", "export walk odd4"),
    *("export walk --format archive", "clean", "show walk", "show 0123456789abcdef"),
    *("render walk", "clean walk", "status walk --cancel"),
    *("check b --records results", "import runs.csv --study ../../escaped", "clean --yes"),
    *("run walk.toml --dry-run", "table walk --results outside", "table ../../outside"),
    "status",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile.build(tmp_path_factory.mktemp("hostile") / "in" / "in")


def test_a_folder_made_to_hurt_does_not(built: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(built, tmp_path / "in" / "in")
    precious = hostile.plant(folder)
    outcomes = hostile.run(folder, *(command.split() for command in COMMANDS))
    for command, outcome in zip(COMMANDS, outcomes, strict=True):
        assert not outcome["harm"], command
        assert outcome["code"] in (0, 1, 2), command
        assert "\x1b" not in outcome["out"] + outcome["err"], command
    assert all(path.read_bytes() == b"precious" for path in precious)
    assert not [*tmp_path.rglob("escaped"), *tmp_path.rglob(hostile.EXECUTED)]
    status = outcomes[-1]
    assert status["code"] == 0, status["err"]  # what cannot be read is named, the rest answers
    for name in ("plans/deep", "plans/newer", "plans/pipe", "plans/zero", "plans/escaping"):
        (line,) = [one for one in status["err"].splitlines() if f"results/{name}/" in one]
        assert line.startswith("ablations: left out: the plan '")


# Files -> commands that read them
READERS = {
    "results/cells/*/record.json": ("table walk", "status walk --format json", "show walk"),
    "results/cells/*/curve.parquet": ("table walk", "export walk", "run walk.toml --dry-run"),
    "results/plans/walk/*.json": ("table walk --kind power", "status", "clean", "show walk"),
    "results/plans/walk/[!.]*[!n]": ("table walk", "status", "clean", "export"),  # units, the last
    "results/archive/walk-*.parquet*": ("table walk", "status", "export walk"),
    "results/baselines/b/*": ("check b --records results",),
    "walk.toml": ("run walk.toml --dry-run", "table walk.toml"),
    "runs.csv": ("import runs.csv --study other",),
}
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 10**400, -0.0, 1e308, float("nan"), -float("inf"), "", "x" * 5000),
    *("../../../escaped", "a\0b", "a\nb", "\ud800", "[/x]", "\x1b[31m", "nan", "0" * 16),
    *([], {}, [[]], [None], {"": {}}, ["a", 1], {"a": [1e308, "x"]}),
)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_files_harm_nobody(built: Path, tmp_path: Path, seed: int, run_all: bool) -> None:
    """Some values of a file are others, signed as its writer would; or some of its bytes are."""
    dice = random.Random(seed)
    for number in range(50 if run_all else 12):
        folder = shutil.copytree(built, tmp_path / str(number) / "in" / "in")
        pattern = dice.choice(list(READERS))
        path = dice.choice(sorted(folder.glob(pattern)))
        if "archive" in pattern:
            shutil.rmtree(folder / "results" / "cells")
        damage(dice, path)
        command = dice.choice(READERS[pattern])
        (outcome,) = hostile.run(folder, command.split())
        assert not outcome["harm"], (number, path, command)
        assert not [*tmp_path.rglob("escaped"), *tmp_path.rglob(hostile.EXECUTED)]


def damage(dice: random.Random, path: Path) -> None:
    if path.suffix == ".json" and dice.random() < 0.7:
        fields = json.loads(path.read_text())
        holder, key = dice.choice([*places(fields)])
        holder[key] = dice.choice(VALUES)
        if "checksum" in fields:
            del fields["checksum"]
            text = json.dumps(json.loads(json.dumps(fields)), sort_keys=True)
            fields["checksum"] = hashlib.sha256(text.encode()).hexdigest()
        path.write_text(json.dumps(fields))
    elif dice.random() < 0.1:
        path.unlink()
        dice.choice((os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")))(path)
    else:
        data = bytearray(path.read_bytes())
        for _ in range(dice.randint(1, 8)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data[: dice.choice((len(data), dice.randrange(len(data))))])


def places(value: Any) -> Any:
    """Every container of a value, with each key or index of it."""
    if isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from places(inner)
