"""Disturb a sweep on a real Slurm: no run may be lost or doubled, and no bit may differ.

    python benchmarks/slurm_chaos.py [--minutes 10] [--seeds 120] [--seed 0]

Starts a one-node Slurm and submits a sweep of small runs. At random times it uses scancel, scontrol
requeue, SIGKILL of a worker or a job, preemption by a higher partition, and a restart of slurmctld.
It also repeats `ablations run`, sometimes twice simultaneously. At the end it compares every record
with an undisturbed run on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "engine" / "slurm"))
from one_node import Cluster  # noqa: E402

STUDY = ("run", "toy_slow", "--plugin", "toy", "--steps", "2000", "--set", "points=100")
KEEPING = ("--checkpoint-steps", "100")
ON_SLURM = ("--cluster", "slurm", "cpus=2", "job_minutes=1", "time=30", *KEEPING)
PATIENCE_SECONDS = 300  # without a new record


class Chaos:
    def __init__(self, folder: Path, cluster: Cluster, chance: random.Random, seeds: int):
        self.folder = folder
        self.results = folder / "results"
        self.cluster = cluster
        self.chance = chance
        self.seeds = seeds
        self.faults: Counter[str] = Counter()
        self.resumed = 0
        (folder / "toy.py").write_text((ROOT / "tests" / "engine" / "toy.py").read_text())

    def command(self, *arguments: str, seeds: int | None = None) -> list[str]:
        number = ("--seeds", str(seeds or self.seeds))
        return [sys.executable, "-m", "ablations.cli", *STUDY, *number, *arguments]

    def submit(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(*ON_SLURM, *arguments),
            cwd=self.folder,
            env=self.cluster.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 2):  # 2: the controller is away just now
            raise RuntimeError(done.stdout + done.stderr)
        return done.stdout

    def records(self) -> dict[str, dict[str, object]]:
        return {
            path.parent.name: json.loads(path.read_text())
            for path in self.results.glob("cells/[!.]*/record.json")
        }

    def jobs(self, state: str) -> list[str]:
        ids = self.cluster.ask("squeue", "-h", "-r", "-p", "main", "-t", state, "-o", "%i").split()
        return [job for job in ids if job.replace("_", "").isdecimal()]

    def inject(self) -> None:
        fault = self.chance.choice(FAULTS)
        if fault(self):
            self.faults[fault.__name__.replace("_", " ")] += 1

    def pids(self) -> list[int]:
        found = []
        for path in self.results.glob("work/*/heartbeat.json"):
            try:
                found.append(int(json.loads(path.read_text())["pid"]))
            except (OSError, ValueError):
                continue
        return found


def scancel(chaos: Chaos) -> bool:
    return _on_a_job(chaos, "scancel")


def scontrol_requeue(chaos: Chaos) -> bool:
    return _on_a_job(chaos, "scontrol", "requeue", states="R")  # others cannot be requeued


def kill_9_of_a_worker(chaos: Chaos) -> bool:
    pids = chaos.pids()
    return bool(pids) and _kill(chaos.chance.choice(pids))


def kill_9_of_a_job(chaos: Chaos) -> bool:
    pids = chaos.pids()
    if not pids:
        return False
    try:
        stat = Path(f"/proc/{chaos.chance.choice(pids)}/stat").read_text()
        parent = int(stat.rpartition(")")[2].split()[1])
        line = Path(f"/proc/{parent}/cmdline").read_text()
    except OSError:
        return False
    return "submitit" in line and _kill(parent)


def preemption(chaos: Chaos) -> bool:
    wrap = ("--output=/dev/null", "--wrap", f"sleep {chaos.chance.randint(1, 5)}")
    cpus = str(chaos.chance.choice((2, 4, 8)))
    return "Submitted" in chaos.cluster.ask("sbatch", "-p", "high", "-c", cpus, *wrap)


def restart_of_slurmctld(chaos: Chaos) -> bool:
    chaos.cluster.restart_controller()
    return True


FAULTS = (
    *(scancel, scontrol_requeue, kill_9_of_a_worker, kill_9_of_a_job, preemption),
    restart_of_slurmctld,
)


def _on_a_job(chaos: Chaos, *command: str, states: str = "R,PD") -> bool:
    jobs = chaos.jobs(states)
    if not jobs:
        return False
    return not chaos.cluster.ask(*command, chaos.chance.choice(jobs)).strip()


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seeds", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0, help="random seed of the faults")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        cluster = Cluster(folder / "slurm", cpus=8, grace=3)
        cluster.folder.mkdir()
        cluster.start()
        try:
            return _run(folder, cluster, options)
        finally:
            cluster.stop()


def _run(folder: Path, cluster: Cluster, options: argparse.Namespace) -> int:
    chaos = Chaos(folder, cluster, random.Random(options.seed), options.seeds)
    undisturbed = folder / "undisturbed"
    # Four finished runs give a time estimate; otherwise all runs would be packed into one job.
    subprocess.run(chaos.command("--quiet", *KEEPING, seeds=2), cwd=folder, check=True)
    here = ("--results", str(undisturbed), "--quiet", "--workers", "8")
    # Runs next to the disturbed sweep, almost without checkpoints
    reference = subprocess.Popen(["nice", "-n", "19", *chaos.command(*here)], cwd=folder)
    cells = 2 * options.seeds
    end = moved = time.monotonic()
    end += 60 * options.minutes
    done, last = 0, 0.0
    while time.monotonic() < max(end, moved + PATIENCE_SECONDS):
        chaotic = time.monotonic() < end
        if len(chaos.records()) > done:
            done, moved = len(chaos.records()), time.monotonic()
        if not chaotic and done == cells:
            break
        if chaotic and done == cells:
            print(f"all runs are done before {options.minutes} minutes: more --seeds", flush=True)
            break
        if chaotic:
            chaos.inject()
        if time.monotonic() - last > 20:
            _submit_again(chaos)
            last = time.monotonic()
            print(f"{done} of {cells} runs, {chaos.faults.total()} faults", flush=True)
        chaos.resumed += chaos.cluster.resume_node()
        time.sleep(chaos.chance.uniform(2, 10))
    reference.wait()
    return _tell(chaos, undisturbed, cells)


def _submit_again(chaos: Chaos) -> None:
    if chaos.chance.random() < 0.2:
        other = subprocess.Popen(
            chaos.command(*ON_SLURM),
            cwd=chaos.folder,
            env=chaos.cluster.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        chaos.submit()
        other.wait()
    else:
        chaos.submit()


def _tell(chaos: Chaos, undisturbed: Path, cells: int) -> int:
    records = chaos.records()
    ended: Counter[str] = Counter()
    for log in chaos.results.glob("work/logs/*.log"):
        for line in log.read_text(errors="replace").splitlines():
            word, _, cell = line.partition(" ")
            if word in ("ended", "doubled"):
                ended[cell] += 1
    twins = [
        (path, chaos.results / "cells" / path.parent.name / path.name)
        for path in undisturbed.glob("cells/[!.]*/curve.parquet")
        if path.parent.name in records
    ]
    different = sum(one.read_bytes() != other.read_bytes() for one, other in twins)
    lost = cells - len(records)
    doubled = sum(number > 1 for number in ended.values())
    failed = sum(record["status"] != "done" for record in records.values())
    resumed = sum("resumed_at_steps" in str(record["provenance"]) for record in records.values())
    leftovers = len(list(chaos.results.glob("cells/.*")))
    print(
        f"runs {cells}; faults injected {chaos.faults.total()} "
        f"({', '.join(f'{name} {n}' for name, n in sorted(chaos.faults.items()))}); "
        f"node drained and resumed {chaos.resumed}; "
        f"runs resumed {resumed}; runs lost {lost}; runs doubled {doubled}; failed {failed}; "
        f"of {len(twins)} curves differ {different}; temporary files {leftovers}"
    )
    whole = len(twins) == cells
    return int(bool(lost or doubled or failed or different or leftovers or not whole))


if __name__ == "__main__":
    sys.exit(main())
