"""What may be deleted from a results folder, how large it is, and its deletion."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ablations.records import read_plan
from ablations.sweep import diagnosis
from ablations.sweep.claims import RUNNING, at_rest, hold
from ablations.sweep.slurm import commands
from ablations.sweep.slurm.submissions import all_submissions

SUBMITTED = ("submissions", "code", "submit.lock")


@dataclass(frozen=True)
class Waste:
    """Some files that no table needs. `bytes` is their size on disk."""

    what: str
    paths: tuple[Path, ...]

    @property
    def bytes(self) -> int:
        files = [f for path in self.paths for f in ([path] if path.is_file() else path.rglob("*"))]
        return sum(file.stat().st_size for file in files if file.is_file())


def waste(results: Path) -> list[Waste]:
    """What may go: leftovers of stopped work, records that were set aside or that no plan refers
    to, the compilation cache and copies of commits (made again when needed). Nothing that a table
    of any plan reads."""
    wanted: set[str] = set()
    for path in sorted((results / "plans").glob("*/*.json")):
        wanted |= {cell["hash"] for cell in read_plan(results, path.parent.name, path.stem).cells}
    cells = sorted(path for path in (results / "cells").glob("*") if path.is_dir())
    both = (results, diagnosis.folder(results))
    work = [
        path
        for folder in both
        for path in sorted((folder / "work").glob("*"))
        if path.name not in ("programs", RUNNING) and not _needed(folder, path)
    ]
    aside = [path for folder in both for path in sorted((folder / "set-aside").glob("*"))]
    stopped = [path for path in work if (path / "checkpoints").is_dir()]
    found = [
        Waste("records that no plan refers to", tuple(c for c in cells if c.name not in wanted)),
        Waste("damaged or failed records, set aside", tuple(aside)),
        Waste("unfinished cells, which would go on from their checkpoints", tuple(stopped)),
        Waste("logs and leftovers of stopped runs", tuple(p for p in work if p not in stopped)),
        Waste("compiled programs", tuple(sorted((results / "cache").glob("*")))),
        Waste("copies of commits, which gates make again", tuple((results / "code").glob("*"))),
    ]
    return [one for one in found if one.paths]


def delete(results: Path, found: list[Waste]) -> None:
    """Deletes it, except for what somebody took up meanwhile."""
    for one in found:
        for path in one.paths:
            if path.parent.name == "work":
                _delete_work(path.parent.parent, path)
            else:
                _delete(path)


def _delete_work(results: Path, path: Path) -> None:
    if (path / "lock").exists():
        if held := hold(results, path.name):
            held.finish()
        return
    with at_rest(results) as idle:
        if idle and not (path.name in SUBMITTED and _queued(results)):
            _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _needed(results: Path, path: Path) -> bool:
    """Whether something that runs, or will run, needs a part of the work folder."""
    if (path / "lock").exists():
        held = hold(results, path.name)
        if held is not None:
            held.release()
        return held is None
    with at_rest(results) as idle:
        return not idle or (path.name in SUBMITTED and _queued(results))


def _queued(results: Path) -> bool:
    """Whether a job still waits or runs that needs its submission and its code; True where the
    queue does not answer."""
    jobs = {job for one in all_submissions(results) for job in one.slurm_jobs().values()}
    try:
        return any(state.alive or state.held for state in commands.states(jobs).values())
    except commands.Silent:
        return True
