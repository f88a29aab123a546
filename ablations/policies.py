"""Saved policies: found, listed, loaded with one call, and written for Brax.

results/cells/<hash>/policies/<step>.npz     see `ablations.sweep.snapshots`
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ablations import plugins, tasks
from ablations.core.decode import Json
from ablations.core.plan import Settings
from ablations.core.record import Configuration
from ablations.errors import UserError, unknown
from ablations.records import Record, cell_folder, read_curve, read_plan, read_record
from ablations.sweep.checkpoints import system_error
from ablations.sweep.snapshots import ABOUT
from ablations.trainers import trainer as trainer_named
from ablations.trainers.values import count

if TYPE_CHECKING:
    import jax
    from jax.typing import ArrayLike

    from ablations.trainers import Trainer, Tree


@dataclass(frozen=True, eq=False)  # a function to jax.jit, which hashes it
class Policy:
    """A saved policy: `policy(observation)` acts by its mode, `policy(observation, key)` samples.

    observation: [..., O], as the environment gives it: what normalisation there is, is inside.
    Returns the action [..., A] for the environment's `step`. Works under jit and vmap.

    config: of the cell that it comes from. step: environment steps of training behind it.
    state: what the trainer keeps of a policy, as a pytree; `trainer`: the composed trainer.
    """

    config: Configuration
    step: int
    state: Tree = field(repr=False)
    trainer: Trainer = field(repr=False)

    def __call__(self, observation: ArrayLike, key: jax.Array | None = None) -> jax.Array:
        """Act on observations [..., O]."""
        assert self.trainer.act is not None
        return self.trainer.act(self.state, observation, key)

    def evaluate(self, episodes: int = 16, seed: int = 0) -> dict[str, float]:
        """Play whole episodes by the mode, all at once; return their means.

        Names are those of a curve's evaluations. Raises UserError for what is no policy of a
        control task.
        """
        import jax

        from ablations.environments import adapted
        from ablations.trainers.control.environment import Environments
        from ablations.trainers.control.outcomes import whole_episodes

        about = self.config["task"]
        task = tasks.task(about["name"])
        settings = task.completed(about["settings"])
        if "episode_length" not in settings:
            raise UserError(f"policies on '{task.name}' are not evaluated by episodes")
        environments = Environments(
            adapted(task.made(settings), task),
            episodes,
            count("episode_length", settings["episode_length"], 1),
            unpaid=task.unpaid(settings),
        )
        metrics = jax.jit(lambda key: whole_episodes(environments, self, key))(jax.random.key(seed))
        return {name: float(value) for name, value in metrics.items()}

    def save_for_brax(self, folder: str | Path) -> Path:
        """Write a checkpoint for `brax.training.agents.ppo.checkpoint.load_policy`.

        Returns the path to give to that. Raises UserError for what Brax's networks cannot express.
        """
        from ablations.trainers.control import brax_policies

        try:
            return brax_policies.write(self.state, self.config, self.step, Path(folder))
        except ValueError as error:
            raise system_error(error, Path(folder)) from None


def find_cell(
    study: str,
    *,
    task: str | None = None,
    variant: str | None = None,
    seed: int = 0,
    results: str | Path = "results",
    plan: str | None = None,
) -> Path:
    """Return the folder of one cell of a study's last plan, or of its plan of that name.

    task, variant: may be left out where the plan has only one task; the variant is then the
    baseline. Raises UserError, also where the cell has no record yet.
    """
    folder = Path(results)
    planned = read_plan(folder, study, plan)
    if task is None and len(planned.tasks) > 1:
        raise UserError(f"'{study}' ran on several tasks ({', '.join(planned.tasks)}): name one")
    task = task or next(iter(planned.tasks))
    variant = variant or planned.study.baseline
    if task not in planned.tasks:
        raise unknown(f"task of '{study}'", task, planned.tasks)
    if variant not in planned.variants:
        raise unknown(f"variant of '{study}'", variant, planned.variants)
    for cell in planned.cells:
        if (cell.task, cell.variant, cell.seed) == (task, variant, seed):
            if read_record(folder, cell.hash) is None:
                raise UserError(
                    f"{variant} on {task}, seed {seed}, of '{study}' has no record yet: "
                    f"`ablations run {study}` computes it"
                )
            return cell_folder(folder, cell.hash)
    seeds = planned.seeds
    ran = f"it ran with seeds {seeds[0]} to {seeds[-1]}" if seeds else "its plan is empty"
    raise UserError(f"'{study}' has no seed {seed}: {ran}")


def saved_steps(cell: str | Path, *, results: str | Path = "results") -> list[int]:
    """Return the steps of saved policies, ascending: of a cell, or of Brax's checkpoints."""
    if theirs := brax_checkpoints(cell):
        return list(theirs)
    return sorted(map(int, _record(_cell(cell, results)).policies.get("files", {})))


@dataclass(frozen=True)
class Saved:
    """A saved policy.

    step, file: when it was saved, and where. returns: at that step, by name. marks: "best", "last".
    """

    step: int
    returns: Mapping[str, float | None]
    file: Path
    marks: tuple[str, ...] = ()

    def data(self) -> dict[str, Json]:
        """Return it as plain data."""
        return {"step": self.step, **self.returns, "is": list(self.marks), "file": str(self.file)}


def brax_saved(folder: Path, task: str | None, settings: Settings) -> list[Saved]:
    """Return the checkpoints of Brax's, with the return in 16 episodes here."""
    name = "evaluation/return"
    return [
        Saved(step, {name: load_policy(path, task=task, settings=settings).evaluate()[name]}, path)
        for step, path in brax_checkpoints(folder).items()
    ]


def saved(cell: str | Path, *, results: str | Path = "results") -> list[Saved]:
    """Return the saved policies of a cell, with the returns of its curve there."""
    folder = _cell(cell, results)
    record = _record(folder)
    _file_of(record, folder, "last")  # or it says that there are none
    curve = read_curve(folder.resolve().parent.parent, record)
    names = [name for name in ("training/return", "evaluation/return") if name in curve]
    return [
        Saved(
            step,
            {name: curve[name][curve["step"].index(step)] for name in names},
            _file_of(record, folder, step)[0],
            tuple(mark for mark in ("best", "last") if record.policies[mark] == step),
        )
        for step in saved_steps(folder)
    ]


def listing(policies: Sequence[Saved]) -> str:
    """Write a line per saved policy: its step, its returns, its file."""
    names = list(policies[0].returns) if policies else []
    rows = [["step", *names, "", "file"]]
    for policy in policies:
        returns = ("" if value is None else f"{value:.4g}" for value in policy.returns.values())
        rows.append([f"{policy.step:,}", *returns, " ".join(policy.marks), str(policy.file)])
    return _aligned(rows)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    return "\n".join(
        "  ".join([*(f"{x:>{w}}" for x, w in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )


def brax_checkpoints(path: str | Path) -> dict[int, Path]:
    """Return step -> folder of a checkpoint that Brax's PPO saved in that folder, or that it is."""
    if not Path(path).is_dir() or Path(path).parent.name == "cells":
        return {}
    from ablations.trainers.control import brax_policies

    return brax_policies.checkpoints(Path(path))


def load_policy(
    cell: str | Path,
    step: int | str = "best",
    *,
    results: str | Path = "results",
    task: str | None = None,
    settings: Settings | None = None,
) -> Policy:
    """Load a saved policy, ready to act.

    cell: the folder of a cell (see `find_cell`), its hash, one policy file, or a folder with
    checkpoints of Brax's PPO. step: "best", "last" or one of `saved_steps`; Brax's checkpoints have
    no scores, and the last is their best. task, settings: what Brax trained on, such as "hopper"
    and {"backend": "mjx"}. Raises UserError for what is not there, is damaged, or does not fit what
    the configuration's trainer makes today.
    """
    plugins.load()
    if theirs := brax_checkpoints(cell):
        return _of_brax(Path(cell), theirs, step, task, settings or {})
    path = Path(cell)
    if path.suffix == ".npz":
        data = _bytes(path)
    else:
        record = _record(_cell(cell, results))
        path, checksum = _file_of(record, _cell(cell, results), step)
        data = _bytes(path)
        if hashlib.sha256(data).hexdigest() != checksum:
            raise UserError(f"the policy '{path}' is damaged: it fails its checksum")
    return _from_bytes(path, data)


def _of_brax(
    folder: Path,
    theirs: Mapping[int, Path],
    step: int | str,
    task: str | None,
    settings: Settings,
) -> Policy:
    from ablations.trainers.control import brax_policies

    if task is None:
        raise UserError(f"'{folder}' does not say what Brax trained on: name the task")
    wanted = max(theirs) if step in ("best", "last") else step
    if wanted not in theirs:
        steps = ", ".join(map(str, theirs))
        raise UserError(f"'{folder}' has no policy of step {step}: there are {steps}")
    assert isinstance(wanted, int)
    config, arrays = brax_policies.read(theirs[wanted], tasks.task(task), settings)
    return _composed(f"'{theirs[wanted]}' does not fit {task}", config, wanted, arrays)


def _from_bytes(path: Path, data: bytes) -> Policy:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            about = json.loads(stored[ABOUT].tobytes())
            arrays = {n: stored[n].view(d) for n, d in about["dtypes"].items()}
        config, step = about["config"], about["step"]
    except Exception:
        raise UserError(f"'{path}' is not a whole saved policy ({len(data)} bytes)") from None
    return _composed(f"'{path}' does not fit its trainer of today", config, step, arrays)


def _composed(
    misfit: str, config: Configuration, step: int, arrays: Mapping[str, np.ndarray]
) -> Policy:
    """Return the policy of these arrays; misfit: how the error for others' begins."""
    import jax

    from ablations.trainers.composed import compose
    from ablations.trainers.leaves import Mismatch, from_arrays

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
        raise UserError(f"{misfit}: {why}") from None


def _cell(cell: str | Path, results: str | Path) -> Path:
    path = Path(cell)
    if path.is_dir():
        return path
    path = cell_folder(Path(results), str(cell))
    if not path.is_dir():
        raise UserError(
            f"no cell '{cell}' in '{results}': give the folder of a cell, its hash, or a policy "
            f"file; `ablations status --json` names the cells"
        )
    return path


def _record(folder: Path) -> Record:
    folder = folder.resolve()
    if folder.parent.name != "cells" or not (folder / "record.json").exists():
        raise UserError(
            f"'{folder}' is not the folder of a cell, such as results/cells/<hash>: a policy that "
            f"was taken elsewhere is loaded by its file"
        )
    record = read_record(folder.parent.parent, folder.name)
    assert record is not None  # its file is there
    return record


def _file_of(record: Record, folder: Path, step: int | str) -> tuple[Path, str]:
    files = record.policies.get("files", {})
    if not files:
        why = (
            "it was imported"
            if "imported" in record.config
            else "a command trained it"
            if "command" in record.config
            else "it ran with --keep-policies 0, or failed before the first; run it again with "
            "--fresh"
        )
        raise UserError(f"cell {record.hash} has no saved policies: {why}")
    wanted = str(record.policies.get(str(step), step))
    if wanted not in files:
        raise UserError(
            f"cell {record.hash} has no policy of step {step}: there are best, last and "
            f"{', '.join(sorted(files, key=int))}"
        )
    return folder / "policies" / f"{wanted}.npz", files[wanted]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"the policy '{path}' is missing") from None
    except OSError as error:
        raise UserError(f"cannot read '{path}': {error.strerror}") from None
