"""A cell's bits depend on its configuration alone: shown on PPO, through the command line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest

from ablations import records

SMALL = ("--profile", "smoke", "--steps", "8000", "--seeds", "2")

PLUGIN = """
import variants

@variants.axis("advantage").choice("none_at_all", formula="A = 0", source="a test", summary="zero")
def none_at_all(*, rewards, values):
    return 0 * rewards, values
"""


@pytest.fixture(scope="module")
def study(shells):
    """The whole `gae` study on `fast`, two workers side by side."""
    shell = shells()
    shell.shared = None  # its own, to be counted
    shell("run", "gae", *SMALL, "--workers", "2", plugin=False)
    return shell


@pytest.fixture(scope="module")
def training(study):
    return curves(study.results, "gae")


def curves(results: Path, study: str) -> dict[tuple[str, int], dict[str, list[float]]]:
    """The training columns of every cell, by variant and seed."""
    plan = records.read_plan(results, study)
    found = {}
    for cell, record in ((c, records.usable_record(results, c.hash)) for c in plan.cells):
        assert record is not None
        columns = records.read_curve(results, record)
        found[cell.variant, cell.seed] = {
            name: values for name, values in columns.items() if not name.startswith("evaluation/")
        }
    return found


def test_seeds_and_variants_differ(training) -> None:
    assert len({str(curve) for curve in training.values()}) == 10


def test_alone_pinned_and_without_evaluation(study, training, shells) -> None:
    shell = shells()
    shell.environment["JAX_COMPILATION_CACHE_DIR"] = str(study.programs)
    alone = ("--variants", "brax", "--workers", "1", "--set", "evaluations=0")
    command = ["ablations", "run", "gae", *SMALL, *alone]
    done = forked.run(command, shell.folder, shell.environment, one_core=True)
    assert done.returncode == 0, done.stderr
    for (variant, seed), curve in curves(shell.results, "gae").items():
        assert curve == training[variant, seed]


def test_another_choice_on_the_axis_leaves_the_others_alone(training, shells) -> None:
    shell = shells()
    (shell.folder / "more.py").write_text(PLUGIN)
    shell("run", "gae", *SMALL, "--plugin", "more", plugin=False)
    assert curves(shell.results, "gae") == training


SHARDED = """
import json
from ablations import plugins
from ablations.request import Request
from ablations.engine.job import cells_of
from ablations.engine.plan import plan
from ablations.engine.backends.compiled.program import Program
import jax
study, variant, profile, sets = STUDY
plugins.load(["toy"])
request = Request(study, profile, seeds=8, variants=(variant,), set={"evaluations": 0, **sets})
cells = cells_of(plan(request))
found = []
for lanes in (1, 8):
    program = Program(cells[0], lanes=lanes, accelerator=True)
    curves = []
    for first in range(0, 8, lanes):
        block = program.start(cells[first : first + lanes])
        block.advance()
        curves += [lane.columns for lane in block.lanes]
    devices = {one.device.id for one in jax.tree.leaves(block._state)[0].addressable_shards}
    found.append([len(devices), program._needed, curves])
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    "study",
    [
        ("toy", "up", "quick", {"ballast": 100_000}),
        pytest.param(("gae", "brax", "smoke", {}), marks=pytest.mark.long),
    ],
    ids=["toy", "ppo"],
)
def test_lanes_on_eight_devices_train_as_on_one(study: tuple[Any, ...], tmp_path: Path) -> None:
    """As on accelerators; and each device holds the memory of one run, not of eight."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    environment = dict(os.environ) | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    shutil.copy(Path(__file__).with_name("toy.py"), tmp_path)
    done = forked.run(["python", "-c", f"STUDY = {study!r}\n{SHARDED}"], tmp_path, environment)
    assert done.returncode == 0, done.stderr
    (one, its_bytes, alone), (eight, their_bytes, sharded) = json.loads(done.stdout)
    assert (one, eight) == (1, 8)
    assert their_bytes < 2 * its_bytes
    assert len({str(curve) for curve in alone}) == 8
    for mine, other in zip(alone, sharded, strict=True):
        assert mine.keys() == other.keys()
        for name in mine:
            both = (np.array(side[name], np.float32) for side in (mine, other))
            np.testing.assert_allclose(*both, rtol=1e-3, atol=1e-5, err_msg=name)
