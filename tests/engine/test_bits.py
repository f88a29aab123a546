"""A cell's bits depend on its configuration alone: shown on PPO, through the command line."""

from __future__ import annotations

from pathlib import Path

import forked
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
