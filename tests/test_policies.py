"""Saved policies: which are kept, and that they act as the trainer does."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import forked
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ablations import UserError, find_run, load_policy, records, saved_steps
from ablations.engine.checkpoints import Snapshots
from ablations.engine.job import Cell, Lane, cells_of
from ablations.engine.plan import plan
from ablations.request import Request
from ablations.trainers.leaves import to_arrays
from ablations.trainers.revisions import compose

# As in test_api: what one of them has compiled the other reads.
FLAGS = ["--profile", "smoke", "--variants", "standard", "brax", "--seeds", "1", "--steps", "4000"]


@pytest.fixture(scope="module")
def study(shells):
    """Runs of PPO on `fast`, with evaluations."""
    shell = shells()
    command = ["ablations", "run", "gae", *FLAGS, "--keep-policies", "3", "--workers", "1"]
    done = forked.run(command, shell.folder, forked.with_shared_programs(dict(os.environ)))
    assert done.returncode == 0, done.stderr
    return shell


@pytest.fixture(scope="module")
def cell(study) -> Path:
    return find_run("gae", results=study.results)


@pytest.fixture(scope="module")
def curve(study, cell) -> dict[str, list[float]]:
    record = records.read_record(study.results, cell.name)
    return records.read_curve(study.results, record)


def test_evenly_spaced_the_best_and_the_last_are_kept(study, cell, curve) -> None:
    steps = saved_steps(cell)
    points = len(curve["step"])
    scheduled = [curve["step"][-(-(k + 1) * points // 3) - 1] for k in range(3)]
    evaluated = dict(zip(curve["step"], curve["evaluation/return"], strict=True))
    best = max((s for s, v in evaluated.items() if v is not None), key=lambda s: evaluated[s])
    assert steps == sorted({*scheduled, best})
    assert load_policy(cell, "best").step == best
    assert load_policy(cell, "last").step == curve["step"][-1] == steps[-1]
    assert load_policy(cell, steps[0]).step == steps[0]
    assert {int(p.stem) for p in cell.glob("policies/*")} == set(steps)


def test_it_acts_as_the_trainer_evaluated_it(cell, curve) -> None:
    """The mode, run by hand in the evaluation's own environments, gets the recorded return."""
    policy = load_policy(cell, "last")
    run, task = policy.config["run"], policy.config["task"]["settings"]
    from ablations.environments import adapted
    from ablations.tasks import task as task_named
    from ablations.trainers.control.environment import Environments

    env = task_named("fast").make(task)
    environments = Environments(adapted(env), run["evaluation_envs"], task["episode_length"])
    key = jax.random.split(jax.random.key(policy.config["seed"]))[1]
    episodes = environments.reset(jax.random.fold_in(key, run["points"]))
    returns, active = np.zeros(run["evaluation_envs"]), np.ones(run["evaluation_envs"], bool)
    step = jax.jit(lambda e: environments.step(e, policy(e.observation)))
    for _ in range(task["episode_length"]):
        episodes, outcome = step(episodes)
        returns += np.where(active, outcome.reward, 0.0)
        active &= ~(np.asarray(outcome.termination) | np.asarray(outcome.truncation))
    assert not active.any()
    assert returns.mean() == pytest.approx(curve["evaluation/return"][-1], rel=1e-4)


def test_mode_and_samples_under_jit_and_vmap(cell) -> None:
    policy = load_policy(cell)
    observations = jax.random.normal(jax.random.key(0), (64, 3))
    mode = policy(observations)
    assert mode.shape == (64, 1)
    np.testing.assert_allclose(jax.jit(policy)(observations), mode, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(policy)(observations), mode, rtol=1e-5, atol=1e-6)
    keys = jax.random.split(jax.random.key(1), 4000)
    samples = jax.vmap(lambda key: policy(observations[0], key))(keys)
    assert float(jnp.std(samples)) > 0.01
    raw = jnp.arctanh(jnp.clip(samples, -0.9999, 0.9999))
    assert float(jnp.median(raw)) == pytest.approx(float(jnp.arctanh(mode[0, 0])), abs=0.1)
    assert bool((policy(observations, keys[0]) == policy(observations, keys[0])).all())


def test_a_single_file_is_enough(cell, tmp_path) -> None:
    step = saved_steps(cell)[0]
    alone = tmp_path / "mine.npz"
    alone.write_bytes((cell / "policies" / f"{step}.npz").read_bytes())
    observation = jnp.ones(3)
    assert load_policy(alone).step == step
    assert bool((load_policy(alone)(observation) == load_policy(cell, step)(observation)).all())


def test_one_with_a_spread_of_its_own_is_loaded(tmp_path) -> None:
    """Choices that change the shape of the state are compiled into it."""
    sets = {"policy_std": "exp_parameter"}
    (one,) = cells_of(plan(Request("gae", "smoke", variants=("standard",), seeds=1, set=sets)))
    trainer, as_data = compose(one.config, tuple(one.config["choices"]))
    state = jax.jit(trainer.init)(jax.random.key(0), as_data(one.config))
    snapshots = Snapshots(tmp_path, one, 1)
    snapshots.write(10, to_arrays(trainer.policy(state)))
    policy = load_policy(snapshots.folder / "10.npz")
    assert policy.step == 10
    assert np.all(np.isfinite(policy(jnp.zeros(3))))


def test_what_is_not_there_is_said(study, cell, tmp_path) -> None:
    for name, where, says in (
        ("gea", {}, "'gea' has not run"),
        ("gae", {"seed": 5}, "gae has no seed '5'; it has 0"),
    ):
        with pytest.raises(UserError, match=says):
            find_run(name, results=study.results, **where)
    with pytest.raises(UserError, match="has no policy of step 7: it has best, last and"):
        load_policy(cell, 7)
    for folder in (tmp_path, study.results, study.results / "cells"):
        with pytest.raises(UserError, match="give the folder of a run"):
            load_policy(folder)


def test_a_changed_file_is_noticed(cell, tmp_path) -> None:
    path = cell / "policies" / f"{saved_steps(cell)[0]}.npz"
    whole = path.read_bytes()
    for position in np.random.default_rng(0).integers(len(whole), size=5):
        flipped = bytearray(whole)
        flipped[position] ^= 4
        path.write_bytes(flipped)
        with pytest.raises(UserError, match="fails its checksum"):
            load_policy(cell, int(path.stem))
    path.write_bytes(whole)
    torn = tmp_path / "torn.npz"
    torn.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="not a whole saved policy"):
        load_policy(torn)


def test_without_snapshots_it_says_so(shell) -> None:
    shell("run", "toy", "--seeds", "1", "--keep-policies", "0", "--workers", "1")
    assert not list(shell.results.glob("cells/*/policies"))
    with pytest.raises(UserError, match="has no saved policies: it ran with --keep-policies 0"):
        load_policy(find_run("toy", results=shell.results))


def short_cell(points: int = 10) -> Cell:
    run = {"points": points, "updates_per_chunk": 2, "iteration_steps": 10, "evaluations": 0}
    return Cell("s", "t", "v", 0, "c", {"trainer": {"name": "ppo"}, "run": run, "seed": 0})


def test_the_first_of_equals_is_the_best_and_former_bests_go(tmp_path) -> None:
    snapshots = Snapshots(tmp_path, short_cell(), count=2)
    lane = Lane()
    for point, score in enumerate([1.0, 3.0, None, 3.0, 2.0, 5.0, 5.0, 4.0, 1.0, 0.0], start=1):
        lane.append(20 * point, {"training/return": score})
        if snapshots.wanted(point, lane):
            snapshots.write(20 * point, {"x": np.float32(point)[None]})
    assert {int(p.stem) for p in snapshots.folder.glob("*")} == {20, 40, 100, 120, 200}
    kept = snapshots.finish(lane)
    assert list(kept["files"]) == ["100", "120", "200"]
    assert (kept["best"], kept["last"]) == (120, 200)
    data = (snapshots.folder / "120.npz").read_bytes()
    assert kept["files"]["120"] == hashlib.sha256(data).hexdigest()


def test_nothing_is_kept_of_a_policy_that_is_no_number(tmp_path) -> None:
    snapshots = Snapshots(tmp_path, short_cell(), count=10)
    lane = Lane()
    lane.append(20, {"training/return": 1.0})
    lane.diverged = (0, 20)
    assert not snapshots.wanted(1, lane)
    assert snapshots.finish(lane) == {}
