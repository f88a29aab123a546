"""Speed of training against lanes, environments, networks and task, each beside a reference.

    python benchmarks/test_speed_grid.py [AXIS ...] [--accelerator]
        [--output results/reference/speed/grid.md]
    pytest benchmarks/test_speed_grid.py --benchmark-only --benchmark-json=FILE

The reference is hopper, spring backend, 64 environments x 32 steps, 4 minibatches x 4 epochs, tanh
networks of [64, 64] for policy and value, one lane. A row changes one thing of it. Each row is a
process on one core, as a worker is; it trains a chunk and then the reference's process does, in
turns. Printed: steps/s of CPU time over all lanes, the median ratio to the reference with the 95%
interval of the sign test's inversion, what the registry took to compose the trainer once modules
were imported, CPU seconds of tracing and compiling a chunk, and the process's peak of resident
memory. With --accelerator processes are on JAX's default device, times are wall times, lanes go up
to 512, and the memory is what the device says was in use at most.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pages import measured_on, write
from test_speed_of_versions import median_interval, turn

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 9
STEPS = 32
REFERENCE: dict[str, Any] = {
    "task": "hopper",
    "lanes": 1,
    "num_envs": 64,
    "policy_layers": [64, 64],
    "value_layers": [64, 64],
    "activation": "tanh",
}
# axis -> {name of a row: what it changes}
AXES: dict[str, dict[str, dict[str, Any]]] = {
    "lanes": {f"{lanes} lanes": {"lanes": lanes} for lanes in (2, 4, 8, 16, 32, 64)},
    "environments": {f"{envs} environments": {"num_envs": envs} for envs in (16, 256, 1024, 2048)},
    "networks": {
        "networks [256, 256]": {"policy_layers": [256, 256], "value_layers": [256, 256]},
        "Brax's networks: [32] x 4 and [256] x 5, swish": {
            "policy_layers": [32] * 4,
            "value_layers": [256] * 5,
            "activation": "swish",
        },
    },
    "task": {
        name: {"task": name} for name in ("inverted_pendulum", "reacher", "halfcheetah", "ant")
    },
}

ACCELERATOR_LANES = (128, 256, 512)

WORKER = """
import json, os, resource, sys, time
from ablations.sweep.machine import worker_environment
spec = json.loads(sys.argv[1])
lanes, accelerator = spec.pop("lanes"), spec.pop("accelerator")
os.environ |= worker_environment(accelerator=accelerator)
# Two processes share an accelerator.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if hasattr(os, "sched_setaffinity") and not accelerator:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
clock = time.monotonic if accelerator else time.process_time
import jax
import jax.numpy as jnp
from ablations import make_trainer

make_trainer(**spec)
started = clock()
trainer, variant = make_trainer(**spec)
composing = clock() - started
init, chunk, keys = trainer.init, trainer.chunk, jax.random.key(0)
if lanes > 1:
    init, chunk, keys = jax.vmap(init), jax.vmap(chunk), jax.random.split(keys, lanes)
    variant = jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[None], lanes, 0), variant)
state = jax.jit(init)(keys, variant)
started = clock()
compiled = jax.jit(chunk, donate_argnums=0).lower(state, variant).compile()
compiling = clock() - started
state, _ = jax.block_until_ready(compiled(state, variant))
device = jax.devices()[0].memory_stats() or {}
resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
peak = device.get("peak_bytes_in_use", resident) / 2**20
about = {"composing": composing, "compiling": compiling, "mebibytes": peak}
print(json.dumps(about | {"device": jax.devices()[0].device_kind}), flush=True)
for _ in sys.stdin:
    started = clock()
    state, _ = jax.block_until_ready(compiled(state, variant))
    print(clock() - started, flush=True)
"""


class Trained:
    """A process that trains a chunk of a setting for each line it is sent."""

    def __init__(self, changes: Mapping[str, Any], accelerator: bool):
        setting = {**REFERENCE, **changes, "accelerator": accelerator}
        self.steps_of_update = setting["lanes"] * setting["num_envs"] * STEPS
        # A chunk of about as many steps, however many of them an update is.
        setting["updates_per_chunk"] = max(1, 32 * 64 * STEPS // self.steps_of_update)
        self.steps = self.steps_of_update * setting["updates_per_chunk"]
        setting |= {"unroll_length": STEPS, "num_minibatches": 4, "epochs": 4}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(setting)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{changes} does not train")
        self.about: dict[str, Any] = json.loads(line)

    def rate(self) -> float:
        """Steps per second of one chunk."""
        return self.steps / turn(self.process)

    def close(self) -> None:
        self.process.communicate()


def rows(axes: Sequence[str], accelerator: bool = False) -> Iterator[dict[str, Any]]:
    """The reference, then each row of these axes, measured in turns with the reference."""
    with closing(Trained({}, accelerator)) as reference:
        alone = sorted(reference.rate() for _ in range(ROUNDS))
        yield {"axis": "", "row": "the reference", "rate": alone[ROUNDS // 2], **reference.about}
        for axis in axes:
            more = ACCELERATOR_LANES if accelerator and axis == "lanes" else ()
            changing = AXES[axis] | {f"{lanes} lanes": {"lanes": lanes} for lanes in more}
            for name, changes in changing.items():
                with closing(Trained(changes, accelerator)) as changed:
                    pairs = [(changed.rate(), reference.rate()) for _ in range(ROUNDS)]
                middle, low, high = median_interval([mine / its for mine, its in pairs])
                found = {"rate": sorted(mine for mine, _ in pairs)[ROUNDS // 2], "ratio": middle}
                yield {
                    "axis": axis,
                    "row": name,
                    **found,
                    "low": low,
                    "high": high,
                    **changed.about,
                }


def line(row: Mapping[str, Any]) -> str:
    ratio = f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" if "ratio" in row else "1"
    cells = [row["row"], f"{row['rate']:,.0f}", ratio, f"{1000 * row['composing']:.0f}"]
    cells += [f"{row['compiling']:.1f}", f"{row['mebibytes']:,.0f}"]
    return f"| {' | '.join(cells)} |"


HEADS = (
    "",
    "steps/s",
    "against the reference",
    "composing, ms",
    "compiling, s",
    "peak memory, MiB",
)


def page(axes: Sequence[str], accelerator: bool) -> str:
    """The table, each of whose lines is printed to stderr when it is known."""
    machine, device = measured_on(), ""
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for row in rows(axes, accelerator):
        lines.append(line(row))
        device = f" On one {row['device']}." if accelerator else ""
        print(lines[-1], file=sys.stderr, flush=True)
    chosen = "" if list(axes) == list(AXES) else f" {' '.join(axes)}"
    chosen += " --accelerator" if accelerator else ""
    assert __doc__ is not None
    about = __doc__.split("\n\n")[2].replace("\n", " ").strip()
    command = f"`python benchmarks/test_speed_grid.py{chosen}`"
    text = [f"Speed of training: {command}", "", machine + device, "", about, "", *lines, ""]
    return "\n".join(text)


@pytest.mark.benchmark(group="grid")
@pytest.mark.parametrize("axis", AXES)
def test_speed_of_an_axis(axis: str, benchmark: Any) -> None:
    found = benchmark.pedantic(lambda: list(rows([axis])), rounds=1)
    benchmark.extra_info["rows"] = found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("axes", nargs="*", metavar="AXIS", help=f"of {', '.join(AXES)}: all")
    parser.add_argument("--output", type=Path, help="where to write the page as well")
    parser.add_argument("--accelerator", action="store_true", help="measure on JAX's device")
    options = parser.parse_args()
    if unknown := set(options.axes) - set(AXES):
        parser.error(f"unknown axis {', '.join(sorted(unknown))}: give some of {', '.join(AXES)}")
    text = page(options.axes or list(AXES), options.accelerator)
    print(text)
    if options.output:
        write(options.output, text)
