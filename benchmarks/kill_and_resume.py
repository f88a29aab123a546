"""A study that is killed again and again ends as one that was left in peace.

    python benchmarks/kill_and_resume.py [--study gae] [--task hopper] [--kills 20]

Runs the study at `quick` twice: undisturbed, and with SIGKILL to the driver and all of its workers
at random moments, each followed by the same command again. Every third kill waits from its moment
on for the writing of a checkpoint and falls into that. Then compares every curve and every saved
policy byte by byte, looks for temporary files, and prints the tally. Exit code 1 if anything
differs, or the study ended before all kills.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ablations.records import read_record


def workers(folder: Path) -> set[int]:
    """The worker processes that run in a folder."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            here = os.readlink(path.with_name("cwd")) == str(folder)
            if here and b"ablations.sweep.worker" in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def halves(folder: Path) -> set[Path]:
    """Checkpoints that are being written, or were when the writer died."""
    return set(folder.glob("results/work/*/checkpoints/.saving-*"))


def kill(process: subprocess.Popen[str], folder: Path) -> bool:
    """Kills a driver and its workers; says whether that left a checkpoint half written."""
    before = halves(folder)
    process.kill()
    for pid in workers(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    while workers(folder):
        time.sleep(0.05)
    return bool(before & halves(folder))


def contents(folder: Path) -> dict[str, bytes]:
    """Every curve and policy of every record, by its path."""
    found = [*folder.glob("results/cells/*/curve.parquet"), *folder.glob("results/cells/*/*/*.npz")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills a study again and again.")
    parser.add_argument("--study", default="gae")
    parser.add_argument("--task", default="hopper")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seeds", default="8")
    parser.add_argument("--checkpoint-steps", default="20000")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    asked = parser.parse_args()
    command = [sys.executable, "-m", "ablations.cli", "run", asked.study, "--tasks", asked.task]
    command += ["--seeds", asked.seeds, "--quiet", "--checkpoint-steps", asked.checkpoint_steps]
    moments = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as root:
        peace, war = Path(root, "peace"), Path(root, "war")
        for folder in (peace, war):
            folder.mkdir()
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(root, "cache")))
        started = time.monotonic()
        subprocess.run(command, cwd=peace, check=True)
        whole = time.monotonic() - started
        kills = in_writing = 0
        while kills < asked.kills:
            process = subprocess.Popen(command, cwd=war, text=True)
            torn = halves(war)
            # ten seconds of a start are imports and tracing, in which there is nothing to lose
            deadline = time.monotonic() + 10.0 + moments.uniform(0.0, whole / asked.kills)
            while process.poll() is None and (
                time.monotonic() < deadline or (kills % 3 == 2 and halves(war) <= torn)
            ):
                time.sleep(0.01)
            if process.poll() is not None:
                break
            in_writing += kill(process, war)
            kills += 1
        subprocess.run(command, cwd=war, check=True)
        mine, theirs = contents(war), contents(peace)
        different = [
            name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)
        ]
        left = [*war.glob("results/cells/.*"), *war.glob("results/work/*/*")]
        left = [path for path in left if path.parent.name not in ("logs", "programs", "orders")]
        cells = {Path(name).parts[2] for name in theirs}
        resumed = 0
        for cell in cells:
            record = read_record(war / "results", cell)
            assert record is not None
            resumed += len(record.provenance.get("resumed_at_steps", ()))
    print(
        f"{asked.study} on {asked.task}: {len(cells)} cells, {whole:.0f} s undisturbed; {kills} "
        f"kills, {in_writing} of them in the writing of a checkpoint; {resumed} resumptions from a "
        f"checkpoint; {len(theirs)} curves and policies compared, {len(different)} differ; "
        f"{len(left)} temporary files left"
    )
    return 1 if different or left or kills < asked.kills else 0


if __name__ == "__main__":
    sys.exit(main())
