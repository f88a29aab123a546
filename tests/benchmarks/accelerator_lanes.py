"""Lanes of one composition on an accelerator, beside Brax's trainer there.

    python tests/benchmarks/accelerator_lanes.py [--task hopper] [--networks small brax]
        [--lanes 1 2 4 ... 512] [--output results/reference/speed/accelerator.md]

Ours is the engine's program of an accelerator, whose lanes are seeds, composed as Brax's trainer
(its preset, with the arguments of peers.py); Brax's `ppo.train` trains one run. Each in a process
of its own, one after the other; wall times of steady training. Prints the accelerator's name and
the table. Where there is none it says so, measures nothing and ends with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import peers
from pages import measured_on, write

from ablations.errors import count
from ablations.sweep.machine import accelerators, worker_environment

LANES = tuple(2**power for power in range(10))
UPDATES, CHUNKS = 8, 5
WORKER = """
import json, sys, time
import jax
from test_switching_speed import cells
from ablations.sweep.backends.compiled.program import Program
task, lanes, updates, chunks, sets = json.loads(sys.argv[1])
block = cells(task, lanes, updates, **sets)
program = Program(block[0], lanes=lanes, accelerator=True)
training = program.start(block[: program.lanes])
training.advance()
seconds = []
for _ in range(chunks):
    started = time.monotonic()
    training.advance()
    seconds.append(time.monotonic() - started)
device = jax.devices()[0]
memory = (device.memory_stats() or {}).get("peak_bytes_in_use", 0)
steps = program.lanes * block[0].step_at(1) / sorted(seconds)[chunks // 2]
print(json.dumps({
    "device": device.device_kind, "lanes": program.lanes, "steady": steps,
    "compile": program.compile_seconds, "gigabytes": memory / 1e9,
}))
"""


def measured(command: list[str]) -> dict[str, Any]:
    """The JSON of a process's last line, on JAX's default device."""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(peers.ROOT)])
    environment = {
        **worker_environment(accelerator=True),
        "PYTHONPATH": paths,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)[:200]}\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ours(task: str, networks: str, lanes: int) -> dict[str, Any]:
    """Steady steps/s over all lanes, seconds of compilation, peak memory, the card's name."""
    flags_and_sets = peers.settings_as("brax", {"networks": networks})
    from ablations.presets import preset

    sets = {**preset("brax").values(), **flags_and_sets[1]}
    order = json.dumps([task, lanes, UPDATES, CHUNKS, sets])
    return measured([sys.executable, "-c", WORKER, order])


def brax(task: str, networks: str) -> dict[str, Any]:
    """The same of one run of `ppo.train`."""
    spec = {
        "task": task,
        "networks": networks,
        "steps": (CHUNKS + 1) * UPDATES * peers.ITERATION,
        "points": CHUNKS + 1,
        "seeds": 1,
        "lambdas": peers.LAMBDAS[:1],
        "runs": 1,
        "judge": False,
    }
    script = str(Path(peers.__file__).resolve())
    return measured([sys.executable, script, "--side", "brax", "--spec", json.dumps(spec)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--task", default="hopper")
    parser.add_argument("--networks", nargs="+", default=list(peers.NETWORKS))
    parser.add_argument("--lanes", nargs="+", type=int, default=list(LANES))
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    if not accelerators():
        print("JAX finds no accelerator here: nothing was measured")
        return 0
    lines = [measured_on(), ""]
    for networks in asked.networks:
        theirs = brax(asked.task, networks)
        lines += [
            f"{asked.task}, networks {networks}: Brax's trainer {theirs['steady']:,.0f} steps/s in "
            f"one run, compiled in {theirs['compile']:.1f} s",
            "",
            "| lanes | steps/s of ours | times Brax's | compiling, s | GB | device |",
            "|---|---|---|---|---|---|",
        ]
        for lanes in asked.lanes:
            mine = ours(asked.task, networks, lanes)
            lines.append(
                f"| {mine['lanes']} | {mine['steady']:,.0f} "
                f"| {mine['steady'] / theirs['steady']:.2f} | {mine['compile']:.1f} "
                f"| {mine['gigabytes']:.2f} | {mine['device']} |"
            )
            print(lines[-1], flush=True)
            if mine["lanes"] < lanes:
                lines += ["", f"No more than {count(mine['lanes'], 'lane')} fit."]
                break
        lines.append("")
        if asked.output:
            write(asked.output, "\n".join(lines))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
