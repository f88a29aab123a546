"""A results folder made to hurt: whatever once executed, wrote or deleted something, or held a
command up, planted into a folder that `sandbox.build` made.

    python tests/hostile_folder.py FOLDER
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
from sandbox import EXECUTED, build, child

from ablations.records import digest

OURS = "0123456789abcdef"  # as a cell of ours would be called
NAMES = (
    "<script>document.write(1)</script>",
    "\\input{/etc/passwd}",
    "[/x]",
    "\x1b[31mred",
    "=cmd|' /C calc'!A0",
    "../../../escaped",
    "constructor",
    "a" * 300,
)
PRECIOUS = (
    *("cells/features.npy", "cells/model/weights.bin", "work/thesis/chapter.tex", "notes.md"),
    *("work/logs/training.log", "cache/features.npy", "code/analysis.py", "set-aside/old.csv"),
    *("archive/paper.pdf", "plans/mine.txt", "baselines/mine.txt"),
)


class _Planted:
    """Unpickled it runs a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {EXECUTED}",)


def plant(folder: Path) -> list[Path]:
    """Plant all of it; return the files of a user's that must stay as they are."""
    results = folder / "results"
    precious = [_write(results / name, b"precious") for name in PRECIOUS]
    outside = folder / "outside"
    precious += [_write(outside / name / "secret.txt", b"precious") for name in (OURS, "x")]
    with child() as (inside, answer):  # whose memory is not ours
        if inside:
            for some in (_code, _names, _archives, _links, _no_files):
                some(folder, results)
            answer("planted")
    assert answer.text == "planted"
    return precious


def _write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def _plan(results: Path) -> dict[str, object]:
    """What the last plan of `walk` says."""
    folder = results / "plans" / "walk"
    plan: dict[str, object] = json.loads(
        (folder / f"{(folder / 'last').read_text()}.json").read_text()
    )
    del plan["checksum"]
    return plan


def _planned(results: Path, study: str, plan: dict[str, object]) -> None:
    """Store a plan as that of another study."""
    name = digest(plan["request"])
    _write(results / "plans" / study / f"{name}.json", json.dumps(plan))
    _write(results / "plans" / study / "last", name)


def _code(folder: Path, results: Path) -> None:
    """What would run where a file that results name were imported, unpickled or trusted."""
    executes = f"import pathlib; pathlib.Path(__file__).with_name({EXECUTED!r}).touch()\n"
    named = _write(folder / "planted.py", executes + "study = {}\n")
    for name in ("sitecustomize", "usercustomize", "conftest", "ablations_plugin"):
        _write(folder / f"{name}.py", executes)
    _write(results / "cells" / "__init__.py", executes)
    plan = _plan(results)
    _planned(
        results, "named", {**plan, "study": {**plan["study"], "name": "named", "file": str(named)}}
    )
    pickled = pickle.dumps(_Planted())
    for path in (f"cache/f-{OURS}.program", f"work/submissions/{OURS[:8]}/slurm/1_submitted.pkl"):
        _write(results / path, pickled)
    _write(results / "cells" / OURS / "policies" / "1.npz", pickled)
    _write(results / "code" / OURS / "walk.sh", f"touch {EXECUTED}\n")
    _write(results / "cells" / OURS / "run" / "log.csv", "step,return\n")


def _names(folder: Path, results: Path) -> None:
    """Names that a page, a table, a terminal or a path must not obey."""
    plan = _plan(results)
    baseline = plan["study"]["baseline"]
    for place, name in enumerate(NAMES):
        study = f"odd{place}"
        text = json.dumps(plan).replace('"slow"', json.dumps(name))
        odd = json.loads(text)
        odd["study"] |= {"name": study, "title": name, "claim": name, "claim_source": name}
        assert odd["study"]["baseline"] != baseline
        _planned(results, study, odd)
    for name in ("..", "a b", "-x"):
        with_name = {**plan, "study": {**plan["study"], "name": name}}
        _write(
            results / "plans" / f"x{name}" / f"{digest(plan['request'])}.json",
            json.dumps(with_name),
        )
    _planned(results, "escaping", {**plan, "study": {**plan["study"], "name": "../../escaped"}})
    cells = [[*row[:3], "../../outside/x", row[4]] for row in plan["cells"]]
    _planned(
        results,
        "elsewhere",
        {**plan, "study": {**plan["study"], "name": "elsewhere"}, "cells": cells},
    )


def _archives(folder: Path, results: Path) -> None:
    """An archive with a byte changed and one whose study leads elsewhere."""
    (ours,) = (results / "archive").glob("walk-*.parquet")
    data = bytearray(ours.read_bytes())
    data[len(data) // 2] ^= 1
    _write(results / "archive" / "tampered-1.parquet", bytes(data))
    beside = ours.with_name(f"{ours.name}.sha256").read_bytes()
    _write(results / "archive" / "tampered-1.parquet.sha256", beside)
    table = pyarrow.parquet.read_table(ours)
    about = table.schema.metadata or {}
    text = about[b"ablations"].replace(b'"name": "walk"', b'"name": "../../../escaped"')
    assert text != about[b"ablations"]
    _signed(
        results / "archive" / "escaped-1.parquet",
        table.replace_schema_metadata({"ablations": text}),
    )


def _signed(path: Path, table: pyarrow.Table) -> None:
    pyarrow.parquet.write_table(table, path, compression="zstd")
    beside = path.with_name(f"{path.name}.sha256")
    beside.write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")


def _links(folder: Path, results: Path) -> None:
    """Links that lead out, where `clean` or a reader would follow them."""
    outside = folder / "outside"
    for path, target in _linked(outside):
        (results / path).parent.mkdir(parents=True, exist_ok=True)
        (results / path).symlink_to(target)


def _linked(outside: Path) -> Iterator[tuple[str, Path]]:
    yield f"cells/{OURS[::-1]}", outside / OURS
    yield f"work/{OURS[::-1]}", outside / OURS
    yield "set-aside/" + f"{OURS}-{OURS[:8]}", outside / "x"
    yield f"cache/g-{OURS}.program", outside / "x" / "secret.txt"
    yield "plans/linked", outside / "x"
    yield "plans/zero/last", Path("/dev/zero")
    yield f"plans/round/{OURS}.json", Path(f"{OURS}.json")
    yield f"cells/{'f' * 16}/record.json", Path("/dev/zero")


def _no_files(folder: Path, results: Path) -> None:
    """Pipes, folders and endless nesting in place of files."""
    (cell, other, third, *_) = sorted(
        path for path in (results / "cells").glob("[0-9a-f]*/record.json")
    )
    for path in (cell, other):
        path.unlink()
    os.mkfifo(cell)
    other.mkdir()
    fields = json.loads(third.read_text())
    fields["config"]["deep"] = float("nan")
    third.write_text(json.dumps(fields))
    hashes = [row[3] for row in _plan(results)["cells"]]
    for path in (f"work/{hashes[0]}/heartbeat.json", "plans/pipe/last"):
        (results / path).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(results / path)
    _write(results / "plans" / "deep" / "last", OURS)
    _write(results / "plans" / "deep" / f"{OURS}.json", "[" * 100_000)
    _write(results / "plans" / "newer" / "last", OURS)
    _write(results / "plans" / "newer" / f"{OURS}.json", json.dumps({"format": 99, "cells": {}}))
    _write(results / "work" / hashes[1] / "heartbeat.json", json.dumps({"pid": "x" * 1000}))


if __name__ == "__main__":
    where = Path(sys.argv[1])
    plant(build(where))
    print(where)
