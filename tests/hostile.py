"""A results folder made to hurt, and a command that runs in it under watch: what once executed,
wrote or deleted something, or held a command up."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forked
import pyarrow.parquet
import walk

from ablations.cli import main
from ablations.records import digest

EXECUTED = "executed"  # the file that planted code makes
OURS = "0123456789abcdef"  # as a run of ours would be called
RUNS = "run,seed,step,return\n" + "".join(
    f"{run},{seed},{step},{step * drift + seed}\n"
    for run, drift in (("a", 1), ("b", 2))
    for seed in range(3)
    for step in (1, 2, 3, 4)
)
NAMES = (
    *("<script>document.write(1)</script>", "\\input{/etc/passwd}", "[/x]", "\x1b[31mred"),
    *("=cmd|' /C calc'!A0", "../../../escaped", "constructor", "a" * 300),
)
PRECIOUS = (
    *("cells/features.npy", "cells/model/weights.bin", "work/thesis/chapter.tex", "notes.md"),
    *("work/logs/training.log", "cache/features.npy", "code/analysis.py", "set-aside/old.csv"),
    *("archive/paper.pdf", "plans/mine.txt", "baselines/mine.txt"),
)


# Under watch


def run(folder: Path, *commands: Sequence[str]) -> list[dict[str, Any]]:
    """Run commands in a fork: for each its exit code, its output and errors, and the harm it did,
    that is what it executed or wrote outside of the results, or its traceback."""
    program = f"import hostile; hostile.watched({list(map(list, commands))!r})"
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "home")}
    done = forked.run(["python", "-c", program], folder, environment)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def watched(commands: Sequence[Sequence[str]]) -> None:
    """Print the outcomes of commands in this process, of which nothing else is wanted."""
    hook = Hook(Path.cwd())
    sys.addaudithook(hook)
    print(json.dumps([_outcome(words, hook) for words in commands]))


def _outcome(words: Sequence[str], hook: Hook) -> dict[str, Any]:
    out, err, code = io.StringIO(), io.StringIO(), None
    hook.harm = []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except BaseException:
            hook.harm.append(traceback.format_exc()[-1500:])
    lines = err.getvalue().splitlines()
    if code == 2 and not (lines and all(line.startswith("ablations: ") for line in lines)):
        hook.harm.append(f"no line: {err.getvalue()[-400:]}")
    return {"code": code, "out": out.getvalue(), "err": err.getvalue(), "harm": hook.harm}


class Hook:
    """Notes what is executed, and what is opened for writing outside of the results."""

    EXECUTES = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "pickle.find_class")
    CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink")

    def __init__(self, folder: Path):
        self.folder, self.harm = str(folder), list[str]()
        self.allowed = (str(folder / "results"), str(folder / "home"), "/dev/", "/proc/")

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in self.EXECUTES and os.path.basename(str(arguments[0])) != "git":
            self.harm.append(f"{event} {arguments[:2]!r}"[:300])
        elif event == "exec" and self.folder in getattr(arguments[0], "co_filename", ""):
            self.harm.append(arguments[0].co_filename)
        elif event in self.CHANGES:
            descriptor = next((one for one in arguments[1:] if type(one) is int and one > 2), None)
            within = descriptor is not None and event in ("os.remove", "os.rmdir")
            folder = os.readlink(f"/proc/self/fd/{descriptor}") if within else ""
            self._require_inside(event, os.path.join(folder, os.fsdecode(arguments[0])))
        elif event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._require_inside(event, arguments[0])

    def _require_inside(self, event: str, path: object) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            text = os.path.abspath(os.fsdecode(path))
            caches = ("matplotlib", "fontconfig", "__pycache__")
            if not text.startswith((*self.allowed, sys.prefix)) and not any(
                name in text for name in caches
            ):
                self.harm.append(f"{event} {text}")


# Made to hurt


def build(folder: Path) -> Path:
    """Make a folder with a study that ran, imported runs, an archive and a baseline."""
    folder.mkdir(parents=True)
    for name, text in {**walk.FILES, "runs.csv": RUNS}.items():
        (folder / name).write_text(text)
    made = (
        "run walk.toml --cluster debug --quiet",
        "import runs.csv --study theirs",
        "export walk --format archive",
        "check b --save walk",
        "table walk theirs",
    )
    for command in made:
        done = forked.run(["ablations", *command.split()], folder, dict(os.environ))
        assert not done.returncode, done.stderr
    return folder


class _Planted:
    """Unpickled it runs a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {EXECUTED}",)


def plant(folder: Path) -> list[Path]:
    """Plant all of it; return the files of a user's that must stay as they are."""
    results, outside = folder / "results", folder / "outside"
    precious = [write(results / name, b"precious") for name in PRECIOUS]
    precious += [write(outside / name / "secret.txt", b"precious") for name in (OURS, "x")]
    for some in (_code, _names, _archives, _links, _no_files):
        some(folder, results)
    return precious


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def _plan(results: Path) -> dict[str, Any]:
    """What the last plan of `walk` says."""
    folder = results / "plans" / "walk"
    plan = json.loads((folder / f"{(folder / 'last').read_text()}.json").read_text())
    del plan["checksum"]
    return plan


def _planned(results: Path, study: str, plan: dict[str, Any], name: str = "", **about: Any) -> None:
    """Store a plan as that of another study."""
    plan = {**plan, "study": {**plan["study"], "name": name or study, **about}}
    request = digest(plan["request"])
    write(results / "plans" / study / f"{request}.json", json.dumps(plan))
    write(results / "plans" / study / "last", request)


def _code(folder: Path, results: Path) -> None:
    """What would run where a file that results name were imported, unpickled or trusted."""
    executes = f"import pathlib; pathlib.Path(__file__).with_name({EXECUTED!r}).touch()\n"
    named = write(folder / "planted.py", executes + "study = {}\n")
    for name in ("sitecustomize", "conftest", "ablations_plugin", "results/cells/__init__"):
        write(folder / f"{name}.py", executes)
    _planned(results, "named", _plan(results), file=str(named))
    for path in (
        *(f"cache/f-{OURS}.program", f"work/submissions/{OURS[:8]}/slurm/1_submitted.pkl"),
        f"cells/{OURS}/policies/1.npz",
    ):
        write(results / path, pickle.dumps(_Planted()))
    write(results / "code" / OURS / "walk.sh", f"touch {EXECUTED}\n")
    write(results / "cells" / OURS / "run" / "log.csv", "step,return\n")


def _names(folder: Path, results: Path) -> None:
    """Names that a page, a table, a terminal or a path must not obey."""
    plan = _plan(results)
    for place, name in enumerate(NAMES):
        odd = json.loads(json.dumps(plan).replace('"slow"', json.dumps(name)))
        assert odd["study"]["baseline"] == name
        _planned(results, f"odd{place}", odd, title=name, claim=name, claim_source=name)
    for name in ("..", "a b", "-x"):
        _planned(results, f"x{name}", plan, name)
        (results / "plans" / f"x{name}" / "last").unlink()
    _planned(results, "escaping", plan, "../../escaped")
    cells = [[*row[:3], "../../outside/x", row[4]] for row in plan["cells"]]
    _planned(results, "elsewhere", {**plan, "cells": cells})


def _archives(folder: Path, results: Path) -> None:
    """An archive with a byte changed and one whose study leads elsewhere."""
    (ours,) = (results / "archive").glob("walk-*.parquet")
    data = bytearray(ours.read_bytes())
    data[len(data) // 2] ^= 1
    write(results / "archive" / "tampered-1.parquet", bytes(data))
    beside = ours.with_name(f"{ours.name}.sha256").read_bytes()
    write(results / "archive" / "tampered-1.parquet.sha256", beside)
    table = pyarrow.parquet.read_table(ours)
    about = table.schema.metadata[b"ablations"]
    text = about.replace(b'"name": "walk"', b'"name": "../../../escaped"')
    assert text != about
    escaped = results / "archive" / "escaped-1.parquet"
    pyarrow.parquet.write_table(table.replace_schema_metadata({"ablations": text}), escaped)
    signed = hashlib.sha256(escaped.read_bytes()).hexdigest()
    write(results / "archive" / f"{escaped.name}.sha256", f"{signed}  {escaped.name}\n")


def _links(folder: Path, results: Path) -> None:
    """Links that lead out, where `clean` or a reader would follow them."""
    outside = folder / "outside"
    for path, target in {
        f"cells/{OURS[::-1]}": outside / OURS,
        f"work/{OURS[::-1]}": outside / OURS,
        f"set-aside/{OURS}-{OURS[:8]}": outside / "x",
        f"cache/g-{OURS}.program": outside / "x" / "secret.txt",
        "plans/linked": outside / "x",
        "plans/zero/last": "/dev/zero",
        f"plans/round/{OURS}.json": f"{OURS}.json",
        f"cells/{'f' * 16}/record.json": "/dev/zero",
    }.items():
        (results / path).parent.mkdir(parents=True, exist_ok=True)
        (results / path).symlink_to(target)


def _no_files(folder: Path, results: Path) -> None:
    """Pipes, folders and endless nesting in place of files."""
    cell, other, third, *_ = sorted((results / "cells").glob("[0-9a-f]*/record.json"))
    for path in (cell, other):
        path.unlink()
    other.mkdir()
    fields = json.loads(third.read_text())
    fields["config"]["deep"] = float("nan")
    third.write_text(json.dumps(fields))
    hashes = [row[3] for row in _plan(results)["cells"]]
    for path in (cell, results / f"work/{hashes[0]}/heartbeat.json", results / "plans/pipe/last"):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    for name, text in (("deep", "[" * 100_000), ("newer", '{"format": 99, "cells": {}}')):
        write(results / "plans" / name / "last", OURS)
        write(results / "plans" / name / f"{OURS}.json", text)
    write(results / "work" / hashes[1] / "heartbeat.json", json.dumps({"pid": "x" * 1000}))
