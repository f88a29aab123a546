"""Measures how good the choices of an axis are as estimates, at moments of a study's training.

The cells of one variant of the plan train once more, bit for bit, and are stopped at `STAGES` for
the trainer's diagnosis. What is found is kept as records are, named by a hash of all that decides
it, under results/diagnoses; so nothing is measured twice. `python -m ablations.sweep.diagnosis
ORDER.json` is a worker.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import variants
from ablations import plugins
from ablations.errors import UserError
from ablations.records import (
    DamagedRecord,
    Plan,
    Record,
    canonical,
    cell_folder,
    digest,
    read_record,
    verify_curve,
    write_atomically,
)
from ablations.sweep.claims import claim, published
from ablations.sweep.crew import POLL_SECONDS
from ablations.sweep.machine import cores, has_accelerator, use_cache, worker_environment
from ablations.trainers import trainer

STAGES = (0.1, 0.5, 1.0)
REVISION = 1


@dataclass(frozen=True)
class Job:
    """One seed of a task. config: the cell that trains, and how it is measured; named by hash.
    reference: the choice that trains."""

    task: str
    seed: int
    hash: str
    config: Mapping[str, Any]
    reference: str


def folder(results: Path) -> Path:
    """Where diagnoses are kept: a results folder of their own."""
    return results / "diagnoses"


def jobs(plan: Plan) -> list[Job]:
    """What a plan asks for: the cells of its baseline, or of its first variant where the baseline
    is not selected. Raises UserError for a trainer without a diagnosis."""
    name = plan.study["baseline"]
    name = name if name in plan.variants else next(iter(plan.variants))
    found = []
    for cell in plan.cells:
        if cell["variant"] != name:
            continue
        definition = trainer(cell["config"]["trainer"]["name"])
        if definition.diagnosis is None:
            raise UserError(
                f"trainer '{definition.name}' of study '{plan.study['name']}' has no diagnosis: "
                f"`ablations figure {plan.study['name']}` draws what it records"
            )
        axis = variants.axis(definition.diagnosed)
        config = {
            "cell": cell["config"],
            "measured": {choice.name: choice.revision for choice in axis.values()},
            "stages": list(STAGES),
            "revision": REVISION,
        }
        reference = cell["config"]["choices"][axis.name]["name"]
        found.append(Job(cell["task"], cell["seed"], digest(config), config, reference))
    return found


def run(
    plans: Sequence[Plan], results: Path, *, workers: int | None = None, quiet: bool = False
) -> None:
    """Measures what the plans ask for and nobody has. Returns when all of it is there.

    Says on stderr how far it is. Raises UserError when a worker ends without it.
    """
    asked = list({job.hash: job for plan in plans for job in jobs(plan)}.values())
    kept = folder(results)
    todo = [job for job in asked if not _is_there(kept, job.hash)]
    if not quiet:
        print(
            f"{', '.join(plan.study['name'] for plan in plans)}: {len(asked)} diagnoses: "
            f"{len(asked) - len(todo)} done, {len(todo)} to run",
            file=sys.stderr,
        )
    if not todo:
        return
    accelerator = has_accelerator()
    order = kept / "work" / "orders" / f"{uuid.uuid4().hex}.json"
    text = {"results": str(results), "plugins": plugins.loaded()}
    write_atomically(order, json.dumps(text | {"jobs": [job.config for job in todo]}))
    log = order.with_suffix(".log")
    command = [sys.executable, "-m", "ablations.sweep.diagnosis", str(order)]
    number = min(workers or (1 if accelerator else cores()), len(todo))
    with log.open("ab") as output:
        crew = [
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=worker_environment(accelerator=accelerator),
                start_new_session=True,
            )
            for _ in range(number)
        ]
    try:
        _watch(crew, [job.hash for job in todo], kept, quiet)
    finally:
        for process in crew:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if any(process.returncode for process in crew):
        lines = log.read_text(errors="replace").strip().splitlines()
        raise UserError((lines or [f"a worker ended: see '{log}'"])[-1])
    order.unlink()
    log.unlink()


def _is_there(kept: Path, name: str) -> bool:
    """Whether a diagnosis needs no measurement; a damaged one is set aside."""
    try:
        record = read_record(kept, name)
        if record is not None:
            verify_curve(kept, record)
        return record is not None
    except DamagedRecord:
        aside = kept / "set-aside" / f"{name}-{uuid.uuid4().hex[:8]}"
        aside.parent.mkdir(exist_ok=True)
        os.rename(cell_folder(kept, name), aside)
        return False


def _watch(
    crew: Sequence[subprocess.Popen[bytes]], names: Sequence[str], kept: Path, quiet: bool
) -> None:
    """Until all processes ended well, or one did not."""
    last = 0
    while True:
        codes = [process.poll() for process in crew]
        done = sum(published(kept, name) for name in names)
        if done > last and not quiet:
            print(f"{done} of {len(names)} done", file=sys.stderr, flush=True)
        last = done
        if all(code == 0 for code in codes) or any(codes):
            return
        time.sleep(POLL_SECONDS)


# The worker's side


@lru_cache(maxsize=1)
def _program(canonical_cell: str) -> tuple[Any, ...]:
    """(init, chunk, measure, as_data) of a cell's configuration without its seed, jitted."""
    import jax

    from ablations.sweep.program import compose
    from ablations.tasks import task

    cell = json.loads(canonical_cell)
    measure = trainer(cell["trainer"]["name"]).diagnosis
    assert measure is not None
    composed, as_data = compose(cell)
    measuring = measure(
        task=task(cell["task"]["name"]),
        settings=cell["task"]["settings"],
        structure=cell["structure"],
        choices={axis: choice["name"] for axis, choice in cell["choices"].items()},
        numbers=cell["numbers"],
    )
    return (
        jax.jit(composed.init),
        jax.jit(composed.chunk, donate_argnums=0),
        jax.jit(measuring),
        as_data,
    )


def measure(config: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Trains one cell and measures it: step, then a column per number; None where it is not
    finite."""
    import jax

    from ablations.sweep.config import steps_of
    from ablations.sweep.program import Lane, finite_or_none

    cell = dict(config["cell"])
    seed = cell.pop("seed")
    init, chunk, measuring, as_data = _program(canonical(cell))
    data, points = as_data(cell), cell["run"]["points"]
    stages = {math.ceil(share * points) for share in config["stages"]}
    key = jax.random.key(seed)
    state, found = init(jax.random.split(key)[0], data), Lane()
    for point in range(1, points + 1):
        state, _ = chunk(state, data)
        if point in stages:
            numbers = jax.device_get(measuring(state, data, jax.random.fold_in(key, point)))
            step = point * (steps_of(cell) // points)
            found.append(step, {name: finite_or_none(value) for name, value in numbers.items()})
    return found.columns


def main(arguments: Sequence[str]) -> int:
    from ablations.records import write_record
    from ablations.sweep import provenance
    from ablations.sweep.worker import end_with_parent

    order = json.loads(Path(arguments[0]).read_text())
    results = Path(order["results"])
    plugins.load(order["plugins"])
    use_cache(results)
    end_with_parent(lambda: None)
    waiting = {digest(config): config for config in order["jobs"]}
    while waiting:
        waiting = {n: c for n, c in waiting.items() if not published(folder(results), n)}
        free = ((n, held) for n in waiting if (held := claim(folder(results), n)))
        name, held = next(free, (None, None))
        if name is None or held is None:  # the rest is in others' hands
            time.sleep(POLL_SECONDS)
            continue
        try:
            columns = measure(waiting[name])
        except UserError as error:
            held.release()
            print(error, flush=True)
            return 2
        about = provenance.of_checkout() | provenance.of_process()
        record = Record(name, waiting[name], "done", provenance=about)
        write_record(folder(results), record, columns)
        held.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
