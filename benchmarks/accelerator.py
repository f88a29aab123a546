"""Measure training on an accelerator: steps per second by parallel runs, and time to compile.

    python benchmarks/accelerator.py [SECTION ...] [--check]

Sections run in this order: cartpole, breakout, hopper, reacher_easy, study, peers. Each takes at
most eight minutes on one card and writes results/reference/accelerator/SECTION.md. Install
jax[cuda12] first. --check runs a few steps on the CPU, to try the script, and writes no page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from pages import measured_on, write

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "results" / "reference" / "accelerator"
# Section -> preset, task, steps of a run, and the numbers of parallel runs
LANES: dict[str, tuple[str, str, int, tuple[int, ...]]] = {
    "cartpole": ("purejaxrl", "cartpole", 500_000, (1, 16, 256, 2048)),
    "breakout": ("purejaxrl", "breakout", 2_000_000, (16, 256)),
    "hopper": ("rejax", "hopper", 500_000, (30, 300)),
    "reacher_easy": ("brax", "reacher_easy", 500_000, (4, 40)),
}
STUDY = ("single_choices_playground", "--profile", "evidence")
PEERS = "--peers rejax --rounds 2 --seeds 75 --variants 4"
HEAD = "| parallel runs | steps/s | training, s | compiling, s | share of compiling | memory, MB |"


class Memory:
    """The largest memory that the card's processes have had in use, by nvidia-smi."""

    QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")

    def __enter__(self) -> Memory:
        self.megabytes, self._ended = 0, threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            try:
                used = subprocess.run(self.QUERY, capture_output=True, text=True, check=True)
            except (OSError, subprocess.SubprocessError):
                return
            self.megabytes = max(self.megabytes, *map(int, used.stdout.split()))


def row(words: list[str], *, on_cpu: bool) -> tuple[str, str]:
    """Run a command; return a row of the table, and the name of the device."""
    with tempfile.TemporaryDirectory() as folder, Memory() as memory:
        command = [sys.executable, "-m", "ablations.cli", "run", *words, "--quiet"]
        command += ["--set", "evaluations=0", "--keep-policies", "0", "--results", folder]
        environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        environment |= {"JAX_PLATFORMS": "cpu"} if on_cpu else {}
        subprocess.run(command, env=environment, cwd=ROOT, check=True)
        paths = Path(folder).glob("cells/[!.]*/record.json")
        records = [json.loads(path.read_text()) for path in paths]
    steps = seconds = compiling = 0.0
    for record in records:
        length = record["config"]["run"]
        steps += length["points"] * length["updates_per_chunk"] * length["iteration_steps"]
        lanes = record["provenance"]["lanes"]  # they share these seconds
        seconds += record["provenance"]["seconds"] / lanes
        compiling += record["provenance"]["compile_seconds"] / lanes
    share = compiling / (compiling + seconds)
    cells = (f"{lanes:,}", f"{steps / seconds:,.0f}", f"{seconds:.1f}", f"{compiling:.1f}")
    about = f"| {' | '.join(cells)} | {share:.0%} | {memory.megabytes or '-'} |"
    return about, records[0]["provenance"]["device"]


def lanes_of(section: str, *, check: bool) -> list[list[str]]:
    """Return the words of each command of a section."""
    if section == "study":
        few = "--tasks reacher_easy --seeds 1 --steps 4096 --variants brax"
        return [[*STUDY, *(few.split() if check else [])]]
    preset, task, steps, numbers = LANES[section]
    return [
        f"{preset} --tasks {task} --seeds {lanes} --lanes {lanes} --workers 1 --steps "
        f"{4096 if check else steps}".split()
        for lanes in ((1, 2) if check else numbers)
    ]


def page_of(section: str, *, check: bool) -> str:
    """Measure a section and return its page."""
    commands = lanes_of(section, check=check)
    rows, devices = zip(*(row(words, on_cpu=check) for words in commands), strict=True)
    shown = "\n".join(f"    ablations run {' '.join(words)}" for words in commands)
    return (
        f"`python benchmarks/accelerator.py {section}` on {devices[0]}. {measured_on()}\n\n"
        f"{shown}\n\n{HEAD}\n{'|--:' * 6}|\n" + "\n".join(rows) + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="default: all")
    parser.add_argument("--check", action="store_true", help="a few steps on the CPU")
    asked = parser.parse_args()
    every = [*LANES, "study", *([] if asked.check else ["peers"])]
    if unknown := {*asked.sections} - {*every}:
        parser.error(f"no section {', '.join(sorted(unknown))}: there are {', '.join(every)}")
    for section in asked.sections or every:
        page = PAGES / f"{section}.md"
        if section == "peers":
            peers = [sys.executable, str(ROOT / "benchmarks" / "peers.py"), *PEERS.split()]
            on_gpu = {**os.environ, "PEERS_ON": "cuda"}
            subprocess.run([*peers, "--output", str(page)], check=True, env=on_gpu)
            continue
        text = page_of(section, check=asked.check)
        print(text, flush=True)
        if not asked.check:
            write(page, text)


if __name__ == "__main__":
    main()
