"""Inject faults into running sweeps: no run may be lost or doubled, and no bit may differ.

    python benchmarks/faults.py --folder DIR [--of toy|ppo] [--minutes 5] [--seed 0]
    python benchmarks/faults.py --folder DIR --tell

A round is a small study in a new results folder. Heartbeats come every 50 ms and are stale after
half a second. Every chunk writes a checkpoint. Faults happen at random moments until every run has
a record. After each crash the round repeats the same command, as a user would. Then it runs the
command once more without faults and compares every curve and policy, byte by byte, with the files
of an undisturbed study. DIR/tally.json has the sums of all rounds, over several calls.

faults.c makes file operations fail; it is compiled here and preloaded into driver and workers.
Clock faults change Python's time.time. The exit code is 1 if anything was lost, doubled, different
or left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from ablations.engine import claims
from ablations.engine.prepare import whole_record
from ablations.errors import UserError
from ablations.records import read_plan

HERE = Path(__file__).resolve()
TOY = HERE.parents[1] / "tests" / "engine" / "toy.py"
ENDLESS = 2**31 - 1
STALE_SECONDS = 0.5

STUDIES = {
    "toy": (
        *("toy_slow", "--plugin", "toy", "--seeds", "4", "--steps", "800"),
        *("--set", "points=40", "--checkpoint-steps", "20"),
    ),
    "ppo": (
        *("gae", "--profile", "smoke", "--variants", "standard", "brax", "--seeds", "2"),
        *("--steps", "40000", "--set", "points=20", "--checkpoint-steps", "1"),
    ),
}
PAUSES = {"toy": (0.2, 1.6), "ppo": (1.0, 5.0)}  # seconds between faults

SHORTENED = f"""
import os, struct, time
from ablations.engine import claims, local, worker

claims.HEARTBEAT_SECONDS, claims.STALE_SECONDS = 0.05, {STALE_SECONDS}
worker.WAIT_SECONDS, local.POLL_SECONDS = 0.1, 0.1
real, control = time.time, os.open(os.environ["FAULTS_CONTROL"], os.O_RDONLY)
time.time = lambda: real() + struct.unpack("q", os.pread(control, 8, 16))[0]
"""


class Control:
    """A file that the processes under test read: the error number of failing operations, how many
    should still fail, how many have failed, and the error of the clock in seconds."""

    def __init__(self, path: Path):
        path.write_bytes(bytes(24))
        self.path = path

    def fail(self, number: int, operations: int) -> None:
        self._write(0, struct.pack("iii", number, operations, 0))

    def heal(self) -> int:
        """Stop the failures; return how many operations failed."""
        with self.path.open("rb") as file:
            hits: int = struct.unpack("iii", file.read(12))[2]
        self.fail(0, 0)
        return hits

    def set_clock(self, seconds: int) -> None:
        self._write(16, struct.pack("q", seconds))

    def _write(self, place: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(place)
            file.write(data)


class Round:
    """A study under faults.

    injected: number of faults by kind. stolen: runs that could be taken from a paused worker.
    """

    def __init__(self, folder: Path, of: str, chance: random.Random):
        self.folder, self.of, self.chance = folder, of, chance
        self.results = folder / "results"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(TOY, folder)
        (folder / "shortened.py").write_text(SHORTENED)
        self.control = Control(folder / "control")
        self.log = folder.with_suffix(".log")  # not on the disk that is full
        self.log.unlink(missing_ok=True)
        self.drivers: list[subprocess.Popen[bytes]] = []
        self.injected: Counter[str] = Counter()
        self.tracebacks = self.stolen = 0

    def command(self) -> list[str]:
        plugin, workers = ("--plugin", "shortened"), ("--workers", "2", "--quiet")
        return [sys.executable, "-m", "ablations.cli", "run", *STUDIES[self.of], *plugin, *workers]

    def environment(self) -> dict[str, str]:
        whole = dict(os.environ) | {
            "FAULTS_CONTROL": str(self.control.path),
            "FAULTS_ROOT": str(self.folder),
            "LD_PRELOAD": str(self.folder.parent / "faults.so"),
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        }
        if self.of == "ppo":  # the toy's programs are small and call back: none of them is kept
            whole["JAX_COMPILATION_CACHE_DIR"] = str(self.folder.parent / "programs")
        return whole

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.drivers.append(
                subprocess.Popen(
                    self.command(),
                    cwd=self.folder,
                    env=self.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def alive(self) -> list[subprocess.Popen[bytes]]:
        return [one for one in self.drivers if one.poll() is None]

    def workers(self) -> list[int]:
        return list(_workers(self.folder))

    def beats(self) -> dict[str, claims.Heartbeat]:
        names = [path.parent.name for path in self.results.glob("work/*/heartbeat.json")]
        found = {name: claims.read_heartbeat(self.results, name) for name in names}
        here = set(self.workers())
        return {name: beat for name, beat in found.items() if beat and beat.pid in here}

    def cells(self) -> list[str]:
        with contextlib.suppress(UserError):
            return [cell.hash for cell in read_plan(self.results, STUDIES[self.of][0]).cells]
        return []

    def complete(self) -> bool:
        cells = self.cells()
        try:
            found = [whole_record(self.results, cell) for cell in cells]
        except (UserError, OSError):
            return False
        return bool(cells) and all(one is not None and one.status == "done" for one in found)

    def suffer(self, until: float) -> None:
        """Inject faults until every run has its record, or the time is over."""
        pauses = PAUSES[self.of]
        while not self.complete() and time.monotonic() < until:
            if not self.alive():
                self.start()
            if self.chance.random() < 0.8:  # else while something starts or ends
                self._wait_for_training(until)
            time.sleep(self.chance.uniform(*pauses))
            fault = self.chance.choice(FAULTS)
            if fault(self):
                self.injected[fault.__doc__ or ""] += 1

    def _wait_for_training(self, until: float) -> None:
        while not self.beats() and self.alive() and time.monotonic() < until:
            time.sleep(0.1)

    def end(self) -> None:
        self.control.heal()
        self.control.set_clock(0)
        _kill(*self.workers(), *(one.pid for one in self.alive()))
        for one in self.drivers:
            one.wait()
        while self.workers():
            time.sleep(0.05)

    def in_peace(self) -> int:
        self.start()
        return self.drivers[-1].wait()


# Faults: the first line of the docstring is the name; they return whether they could happen.


def kill_worker(on: Round) -> bool:
    """kill -9 of a worker"""
    return _kill(*on.chance.sample(on.workers(), min(1, len(on.workers()))))


def kill_driver(on: Round) -> bool:
    """kill -9 of a driver"""
    return _kill(*(one.pid for one in on.alive()[:1]))


def kill_both(on: Round) -> bool:
    """kill -9 of drivers and workers at once"""
    drivers, workers = [one.pid for one in on.alive()], on.workers()
    return bool(drivers and workers) and _kill(*drivers, *workers)


def stand_still(on: Round) -> bool:
    """SIGSTOP of a worker until its heartbeat is stale"""
    beats = on.beats()
    if not beats:
        return False
    cell = on.chance.choice(sorted(beats))
    try:
        os.kill(beats[cell].pid, signal.SIGSTOP)
        time.sleep(2 * STALE_SECONDS)
        held = None if claims.published(on.results, cell) else claims.hold(on.results, cell)
        beat = claims.read_heartbeat(on.results, cell)
        if held:
            # The worker may have released the run before it was stopped.
            on.stolen += beat is not None and beat.pid == beats[cell].pid
            held.release()
        os.kill(beats[cell].pid, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return held is None


def full_disk(on: Round) -> bool:
    """a full disk (ENOSPC) for up to two seconds"""
    on.control.fail(errno.ENOSPC, ENDLESS)
    time.sleep(on.chance.uniform(0.2, 2))
    return on.control.heal() > 0


def input_output_error(on: Round) -> bool:
    """EIO of one to four file operations"""
    return _failing(on, errno.EIO)


def stale_handle(on: Round) -> bool:
    """ESTALE of one to four file operations"""
    return _failing(on, errno.ESTALE)


def torn_checkpoint(on: Round) -> bool:
    """a torn checkpoint, and kill -9 of the worker that wrote it"""
    beats = on.beats()
    found = [
        path
        for cell in beats
        for path in on.results.glob(f"work/{cell}/checkpoints/[0-9]*")
        if path.is_file()
    ]
    if not found:
        return False
    path = on.chance.choice(found)
    (pid,) = [beats[cell].pid for cell in beats if cell in path.parts]
    return _torn(on, path) and _kill(pid)


def torn_record(on: Round) -> bool:
    """a torn record"""
    return _torn(on, *on.results.glob("cells/[!.]*/record.json"), *_curves(on.results).values())


def torn_plan(on: Round) -> bool:
    """a torn plan"""
    return _torn(on, *on.results.glob("plans/*/[!.]*"))


def clock_jump(on: Round) -> bool:
    """a clock that jumps by up to a day, either way"""
    on.control.set_clock(on.chance.randint(-86_400, 86_400))
    return bool(on.workers())


def second_driver(on: Round) -> bool:
    """another driver of the same study"""
    if len(on.alive()) != 1:
        return False
    on.start()
    return True


FAULTS: tuple[Callable[[Round], bool], ...] = (
    *(kill_worker, kill_driver, kill_both, stand_still, full_disk, input_output_error),
    *(stale_handle, torn_checkpoint, torn_record, torn_plan, clock_jump, second_driver),
)


def _kill(*pids: int) -> bool:
    killed = False
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed = True
    return killed


def _failing(on: Round, number: int) -> bool:
    on.control.fail(number, on.chance.randint(1, 4))
    time.sleep(on.chance.uniform(0.2, 1))
    return on.control.heal() > 0


def _torn(on: Round, *paths: Path) -> bool:
    """Truncate one of the files, or change a byte of it."""
    if not paths:
        return False
    path = on.chance.choice(sorted(paths))
    try:
        data = bytearray(path.read_bytes())
        if not data:
            return False
        place = on.chance.randrange(len(data))
        if on.chance.random() < 0.5:
            del data[place:]
        else:
            data[place] ^= 1 << on.chance.randrange(8)
        path.write_bytes(data)
    except OSError:  # it went away just now
        return False
    return True


def _workers(folder: Path) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            here = os.readlink(path.with_name("cwd")) == str(folder)
            if here and b"ablations.engine.worker" in path.read_bytes():
                yield int(path.parent.name)


def _curves(results: Path) -> dict[str, Path]:
    return {path.parent.name: path for path in results.glob("cells/[!.]*/curve.parquet")}


def _contents(results: Path) -> dict[str, bytes]:
    paths = [*_curves(results).values(), *results.glob("cells/[!.]*/policies/*.npz")]
    return {str(path.relative_to(results)): path.read_bytes() for path in paths}


def judged(one: Round, twin: Path) -> dict[str, int]:
    """Return the counts of a round, after a last command without faults."""
    code = one.in_peace()
    expected, found = _contents(twin / "results"), _contents(one.results)
    cells = set(_curves(twin / "results"))
    ended: Counter[str] = Counter()
    for log in one.results.glob("work/logs/*.log"):
        words = [line.split() for line in log.read_text(errors="replace").splitlines()]
        ended.update(line[1] for line in words if len(line) == 2 and line[0] == "ended")
        ended.update(2 * [line[1] for line in words if len(line) == 2 and line[0] == "doubled"])
    aside = Counter(
        path.name.partition("-")[0]
        for path in one.results.glob("set-aside/*")
        if "-checkpoint-" not in path.name
    )
    records = [json.loads(p.read_text()) for p in one.results.glob("cells/[!.]*/record.json")]
    return {
        "rounds": 1,
        "cells": len(cells),
        "cells that went on from a checkpoint": sum(
            "resumed_at_steps" in record["provenance"] for record in records
        ),
        "records set aside and computed again": sum(aside.values()),
        "files compared": len(expected),
        "cells lost": len(cells - set(_curves(one.results))),
        "cells doubled": sum(number > 1 + aside[cell] for cell, number in ended.items()),
        "files that differ": sum(expected[n] != found.get(n) for n in expected),
        "cells taken from a worker that stood still": one.stolen,
        "temporary files": len(list(one.results.rglob(".*"))),
        "tracebacks of drivers": one.log.read_text(errors="replace").count("Traceback"),
        "last runs that failed": int(code != 0),
    }


BAD = (
    *("cells lost", "cells doubled", "files that differ", "temporary files"),
    *("cells taken from a worker that stood still", "tracebacks of drivers"),
    "last runs that failed",
)


def read(folder: Path) -> dict[str, dict[str, Counter[str]]]:
    """Read the tally: study -> faults and counts."""
    try:
        stored = json.loads((folder / "tally.json").read_text())
    except FileNotFoundError:
        stored = {}
    return {
        of: {name: Counter(stored.get(of, {}).get(name, {})) for name in ("faults", "found")}
        for of in STUDIES
    }


def tell(folder: Path) -> int:
    """Print the sums of all rounds; return the exit code."""
    bad = 0
    for of, tally in read(folder).items():
        if not tally["faults"]:
            continue
        print(f"{of}: {tally['faults'].total()} faults\n")
        width = max(map(len, (*tally["faults"], *tally["found"])))
        for name, number in sorted(tally["faults"].items()):
            print(f"    {name:<{width}} {number:5}")
        print()
        for name, number in tally["found"].items():
            print(f"    {name:<{width}} {number:5}")
        print()
        bad += sum(tally["found"][name] for name in BAD)
    return int(bad > 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder of rounds and tally")
    parser.add_argument("--of", choices=STUDIES, default="toy", help="study under faults")
    parser.add_argument("--minutes", type=float, default=5.0, help="time limit of a round")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the faults")
    parser.add_argument("--tell", action="store_true", help="print the tally and do nothing")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.tell:
        return tell(folder)
    until = time.monotonic() + 60 * options.minutes
    folder.mkdir(parents=True, exist_ok=True)
    library = str(folder / "faults.so")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, HERE.with_suffix(".c"), "-ldl"], check=True
    )
    twin = folder / f"{options.of}-twin"
    if not (twin / "whole").exists():
        undisturbed = Round(twin, options.of, random.Random(0))
        assert undisturbed.in_peace() == 0, undisturbed.log.read_text()
        (twin / "whole").touch()
    while time.monotonic() < until:
        tally = read(folder)
        number = tally[options.of]["found"]["rounds"]
        chance = random.Random(f"{options.seed} {options.of} {number}")
        one = Round(folder / f"{options.of}-round", options.of, chance)
        try:
            one.suffer(until)
        finally:
            one.end()
        found = judged(one, twin)
        tally[options.of]["faults"].update(one.injected)
        for name, count in found.items():
            tally[options.of]["found"][name] += count
        (folder / "tally.json").write_text(json.dumps(tally, indent=1))
        print(f"round {number}: {one.injected.total()} faults, {found}", flush=True)
        if any(found[name] for name in BAD):
            kept = folder / f"{options.of}-bad-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            one.folder.rename(kept)
            one.log.rename(kept.with_suffix(".log"))
    return tell(folder)


if __name__ == "__main__":
    sys.exit(main())
