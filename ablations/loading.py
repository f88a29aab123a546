"""Composed trainers, and saved policies: find them, and load them with one call to act."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from ablations import plugins, presets, tasks
from ablations.core.record import Configuration
from ablations.engine.checkpoints import ABOUT
from ablations.errors import UserError, unknown
from ablations.records import Record, cell_folder, read_plan, read_record
from ablations.trainers import TracedConfig, Trainer, Tree
from ablations.trainers import trainer as trainer_named
from ablations.trainers.leaves import Mismatch, from_arrays
from ablations.trainers.revisions import compose


@dataclass(frozen=True, eq=False)  # a function to jax.jit, which hashes it
class Policy:
    """A saved policy. It works under jit and vmap.

    `policy(observation)` returns the mode of the policy, and `policy(observation, key)` a sample:
    actions `[..., A]` for the environment's `step`. Observations `[..., O]` are those of the
    environment; the policy normalises them itself.

    Attributes:
        config: the configuration of its run.
        step: environment steps that it was trained for.
        state: parameters and statistics, as a pytree.
        trainer: the composed trainer.
    """

    config: Configuration
    step: int
    state: Tree = field(repr=False)
    trainer: Trainer = field(repr=False)

    def __call__(self, observation: ArrayLike, key: jax.Array | None = None) -> jax.Array:
        """Act on observations [..., O]."""
        assert self.trainer.act is not None
        return self.trainer.act(self.state, observation, key)


def load_policy(cell: str | Path, step: int | str = "best") -> Policy:
    """Load a saved policy.

    Args:
        cell: the folder of a run (see `find_run`), or a policy file.
        step: "best", "last" or one of `saved_steps`.

    Raises:
        UserError: the policy is missing or damaged, or today's trainer has other parameters.
    """
    plugins.load()
    path, checksum = Path(cell), None
    if path.suffix != ".npz":
        path, checksum = _file_of(_stored(cell), path, step)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the policy '{path}': {error.strerror}") from None
    if checksum not in (None, hashlib.sha256(data).hexdigest()):
        raise UserError(f"the policy '{path}' is damaged: it fails its checksum")
    return _from_bytes(path, data)


def find_run(
    study: str,
    *,
    task: str | None = None,
    variant: str | None = None,
    seed: int = 0,
    results: str | Path = "results",
    plan: str | None = None,
) -> Path:
    """Return the folder of a run of a study.

    Args:
        study: the name of a study.
        task: default: the study's task, if it has only one.
        variant: default: the baseline.
        seed: of the run.
        results: the results folder.
        plan: the name of a plan; default: the study's last plan.

    Raises:
        UserError: there is no such run, or it has no record yet.
    """
    folder = Path(results)
    planned = read_plan(folder, study, plan)
    if task is None and len(planned.tasks) > 1:
        raise UserError(f"'{study}' ran on several tasks ({', '.join(planned.tasks)}): name one")
    task = task or next(iter(planned.tasks))
    variant = variant or planned.study.baseline
    seeds = [str(seed) for seed in planned.seeds]
    named = {"task": (task, planned.tasks), "variant": (variant, planned.variants)}
    for kind, (name, known) in {**named, "seed": (str(seed), seeds)}.items():
        if name not in known:
            raise unknown(kind, name, known, of=study)
    found = {cell.place: cell.hash for cell in planned.cells}[task, variant, seed]
    if read_record(folder, found) is None:
        raise UserError(
            f"{variant} on {task}, seed {seed}, of '{study}' has no record yet: "
            f"`ablations run {study}` computes it"
        )
    return cell_folder(folder, found)


def saved_steps(cell: str | Path) -> list[int]:
    """Return the steps of a run's saved policies, in ascending order."""
    return sorted(map(int, _stored(cell).policies.get("files", {})))


def _stored(cell: str | Path) -> Record:
    """Return the record in the folder of a run. Raises UserError."""
    folder = Path(cell).resolve()
    in_results = folder.parent.name == "cells"
    record = read_record(folder.parent.parent, folder.name) if in_results else None
    if record is None:
        raise UserError(
            f"no run in '{cell}': give the folder of a run, such as results/cells/<hash>, or a "
            f"policy file"
        )
    return record


def _file_of(record: Record, folder: Path, step: int | str) -> tuple[Path, str]:
    """Return the file of a saved policy and its checksum. Raises UserError."""
    files = record.policies.get("files", {})
    if not files:
        raise UserError(
            f"run {record.hash} has no saved policies: it ran with --keep-policies 0, failed, was "
            f"imported, or is a command's"
        )
    wanted = str(record.policies.get(str(step), step))
    if wanted not in files:
        raise UserError(
            f"run {record.hash} has no policy of step {step}: it has best, last and "
            f"{', '.join(sorted(files, key=int))}"
        )
    return folder / "policies" / f"{wanted}.npz", files[wanted]


def make_trainer(
    task: str,
    *,
    trainer: str = "ppo",
    preset: str | None = None,
    updates_per_chunk: int = 1,
    evaluation_envs: int = 16,
    **settings: Any,
) -> tuple[Trainer, TracedConfig]:
    """Return a composed trainer and its variant, to train in your own code.

        trainer, variant = make_trainer("reacher", advantage="brax", num_envs=64)
        state = jax.jit(trainer.init)(jax.random.key(0), variant)
        state, metrics = jax.jit(trainer.chunk)(state, variant)

    If a trainer has `start`, pass it to init: `trainer.init(key, variant, trainer.start(seed))`.
    The program has only the choices that are named.

    Args:
        task: the name of a task.
        trainer: the name of a trainer.
        preset: a library's own settings, such as "sb3", instead of the task's defaults.
        updates_per_chunk: updates in one call of `chunk`.
        evaluation_envs: environments of an evaluation.
        settings: choices, hyperparameters, static and task settings, over those defaults.

    Raises:
        UserError: an unknown setting, or an invalid value.
    """
    made_on = tasks.task(task)
    defaults = made_on.hyperparameters.get(trainer, {})
    if preset is not None:
        library = presets.preset(preset).on(made_on)
        trainer, defaults = library.trainer, library.values()
    definition = trainer_named(trainer)
    config = definition.resolve(made_on, {**defaults, **settings})
    config["run"] = {"updates_per_chunk": updates_per_chunk, "evaluation_envs": evaluation_envs}
    composed, as_data = compose(config, fixed=tuple(definition.completed(config)["choices"]))
    return composed, as_data(config)


def _from_bytes(path: Path, data: bytes) -> Policy:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            about = json.loads(stored[ABOUT].tobytes())
            arrays = {n: stored[n].view(d) for n, d in about["dtypes"].items()}
        config, step = about["config"], about["step"]
    except Exception:
        raise UserError(f"'{path}' is not a whole saved policy ({len(data)} bytes)") from None
    completed = trainer_named(config["trainer"]["name"]).completed(config)
    trainer, as_data = compose(config, fixed=tuple(completed["choices"]))
    if trainer.act is None:
        raise UserError(f"policies of the trainer '{config['trainer']['name']}' do not act")
    like = jax.eval_shape(
        lambda key, variant: trainer.policy(trainer.init(key, variant)),
        jax.random.key(0),
        as_data(config),
    )
    try:
        return Policy(config, step, from_arrays(arrays, like), trainer)
    except Mismatch as why:
        raise UserError(f"'{path}' does not fit its trainer of today: {why}") from None
