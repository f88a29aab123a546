"""The Python API."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import forked
import pytest

import ablations
from ablations import tasks
from ablations.trainers import static
from ablations.trainers.control import ppo


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api") / "results"
    with pytest.MonkeyPatch.context() as environment:
        shared = forked.with_shared_programs(os.environ)
        environment.delenv("JAX_DISABLE_MOST_OPTIMIZATIONS")
        environment.setenv("XLA_FLAGS", shared["XLA_FLAGS"])
        curves = ablations.run(
            "gae",
            results=folder,
            profile="smoke",
            seeds=2,
            steps=4000,
            variants=["standard", "brax"],
            quiet=True,
        ).curves()
    assert set(zip(curves["variant"], curves["seed"], strict=True)) == {
        (variant, seed) for variant in ("standard", "brax") for seed in (0, 1)
    }
    assert curves["training/return"].notna().any()
    return folder


def test_a_table_is_a_dataframe(results: Path) -> None:
    table = ablations.table("gae", results=results)
    assert set(table["variant"]) == {"standard", "brax"}
    assert table["mean"].notna().all()
    assert table.attrs["caption"]


def test_every_verb_takes_one_study_or_several(results: Path) -> None:
    one, several = (ablations.curves(names, results=results) for names in ("gae", ["gae"]))
    assert set(several.pop("study")) == {"gae"}
    assert several.equals(one)
    assert "study" in ablations.table(["gae"], results=results)
    rows = ablations.status(results=results)
    assert set(rows["state"]) == {"done"}
    assert len(rows) == 4
    assert rows[["study"]].attrs["rows"] is rows.attrs["rows"]  # copies of 20,000 take 10 seconds
    assert ablations.page(results=results) == [results / "report" / "index.html"]


def test_a_figure_is_one_of_matplotlibs(results: Path) -> None:
    from matplotlib.figure import Figure

    found = ablations.figure("gae", results=results)
    assert {"curves", "differences"} <= set(found)
    assert all(isinstance(drawn, Figure) for drawn in found.values())
    named = ablations.figure(["gae"], results=results)
    assert set(named) == {f"gae_{name}" for name in found}
    assert not (results / "figures").exists()


def test_dir_names_what_is_public() -> None:
    assert {name for name in dir(ablations) if not name.startswith("_")} == set(ablations.__all__)
    for name in ablations.__all__:
        assert getattr(ablations, name).__doc__, name


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ablations.table(3), "study takes a study or several"),
        (lambda: ablations.run("gae", steps="1M"), "steps must be a whole number, not '1M'"),
        (lambda: ablations.table("gae", tasks=3), "tasks must be a name or several names, not 3"),
        (lambda: ablations.run("gae", set=3), "set must be a mapping of settings, not 3"),
        (lambda: ablations.run("gae", tasks=[3]), "unknown task '3'"),
    ],
)
def test_a_wrong_type_is_refused_with_what_is_wanted(call, says, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ablations.UserError, match=says):
        call()


def test_no_verb_has_the_name_of_a_room() -> None:
    """Importing the room would hide the verb."""
    rooms = {path.stem for path in Path(ablations.__file__).parent.iterdir()}
    assert not rooms & set(ablations.__all__)


def test_a_selection_means_the_same_from_python(results: Path) -> None:
    selection = {"profile": "smoke", "steps": 4000, "variants": "brax", "seeds": range(1, 2)}
    rows = ablations.status("gae", results=results, **selection)
    assert rows[["variant", "seed", "state"]].values.tolist() == [["brax", 1, "done"]]
    varied = selection | {"vary": {"advantage": ["standard", "brax"]}, "variants": None}
    curves = ablations.run("gae", results=results, quiet=True, **varied).curves()
    assert set(curves["variant"]) == {"advantage=standard", "advantage=brax"}
    assert set(curves["seed"]) == {1}
    assert set(ablations.table("gae", results=results)["variant"]) == set(curves["variant"])
    earlier = {"profile": "smoke", "steps": 4000, "variants": ["standard", "brax"], "seeds": 2}
    again = ablations.run("gae", results=results, quiet=True, **earlier).curves()
    assert set(again["seed"]) == {0, 1}


def test_a_run_returns_the_curves_of_its_own_plan(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run may store a plan meanwhile."""
    from ablations.engine import local
    from ablations.engine.plan import plan
    from ablations.records import write_plan
    from ablations.request import Request

    def run(_, plans, folder, **__):
        write_plan(folder, plan(Request("gae", "smoke", seeds=7)))
        return local.Outcome(cells=2, found=2)

    monkeypatch.setattr(local.Processes, "run", run)
    flags = {"profile": "smoke", "steps": 4000, "variants": ["standard", "brax"], "seeds": 1}
    curves = ablations.run("gae", results=results, **flags).curves()
    assert set(curves["seed"]) == {0}


def test_a_composed_trainer_in_a_notebook() -> None:
    import jax

    trainer, variant = ablations.make_trainer("fast", advantage="brax", num_envs=16)
    state = jax.jit(trainer.init)(jax.random.key(0), variant)
    _, metrics = jax.jit(trainer.chunk)(state, variant)
    assert jax.numpy.isfinite(metrics["training/reward_per_step"])


def test_ppo_is_changed_by_a_subclass_with_settings_of_its_own() -> None:
    """As docs/extending.md does in a plugin, without registering anything."""

    @dataclass(frozen=True, kw_only=True)
    class Settings(ppo.Settings):
        copies: int = static(1, "of nothing", low=1)

    class Changed(ppo.PPO):
        pass

    spec = replace(ppo.SPEC, name="changed", hyperparameters=Settings)
    task = tasks.task("fast")
    structure = spec.resolve(task, {"copies": 3})["structure"]
    about = {"task": task, "settings": task.settings, "structure": structure}
    made = ppo.compose(Changed, spec, updates_per_chunk=1, evaluation_envs=1, **about)
    assert (type(made), made.settings.copies) == (Changed, 3)
