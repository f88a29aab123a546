"""The Python API, and what the light commands do not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ablations


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api") / "results"
    curves = ablations.run(
        "gae",
        results=folder,
        profile="smoke",
        seeds=2,
        steps=4000,
        variants=["standard", "brax"],
        quiet=True,
    )
    assert set(zip(curves["variant"], curves["seed"], strict=True)) == {
        (variant, seed) for variant in ("standard", "brax") for seed in (0, 1)
    }
    assert curves["training/return"].notna().any()
    return folder


def test_a_table_is_a_dataframe(results: Path) -> None:
    table = ablations.table("gae", results=results)
    assert set(table["variant"]) == {"standard", "brax"}
    assert table["iqm"].notna().all()


def test_table_and_status_of_a_finished_run_import_no_jax(results: Path) -> None:
    for command in (["table", "gae"], ["table", "gae", "--format", "latex"]):
        script = (
            "import sys; from ablations.cli import main\n"
            f"code = main({[*command, '--results', str(results)]!r})\n"
            "assert not code\n"
            "assert not {'jax', 'brax', 'pandas', 'seaborn'} & set(sys.modules)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "brax" in done.stdout


def test_the_flags_of_a_run_find_its_plan_again_without_jax(results: Path) -> None:
    flags = [
        "--profile",
        "smoke",
        "--seeds",
        "2",
        "--steps",
        "4000",
        "--variants",
        "standard",
        "brax",
    ]
    script = (
        "import sys; from ablations.cli import main\n"
        f"code = main({['table', 'gae', '--results', str(results), *flags]!r})\n"
        "sys.exit(code or 10 * ('jax' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, ablations; sys.exit('jax' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_composed_trainer_in_a_notebook() -> None:
    import jax

    trainer, variant = ablations.make_trainer("fast", advantage="brax", num_envs=16)
    state = jax.jit(trainer.init)(jax.random.key(0), variant)
    _, metrics = jax.jit(trainer.chunk)(state, variant)
    assert jax.numpy.isfinite(metrics["training/reward_per_step"])


def test_a_composed_trainer_refuses_what_does_not_exist() -> None:
    with pytest.raises(ablations.UserError, match="did you mean 'value_coefficient'"):
        ablations.make_trainer("fast", value_coeficient=1.0)
