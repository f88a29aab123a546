"""Find saved policies, without JAX. `loading` loads them."""

from __future__ import annotations

from pathlib import Path

from ablations.errors import UserError, unknown
from ablations.records import Record, cell_folder, read_plan, read_record


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
    if task not in planned.tasks:
        raise unknown("task", task, planned.tasks, of=study)
    if variant not in planned.variants:
        raise unknown("variant", variant, planned.variants, of=study)
    found = {cell.place: cell.hash for cell in planned.cells}.get((task, variant, seed))
    if found is None:
        raise unknown("seed", str(seed), map(str, planned.seeds), of=study)
    if read_record(folder, found) is None:
        raise UserError(
            f"{variant} on {task}, seed {seed}, of '{study}' has no record yet: "
            f"`ablations run {study}` computes it"
        )
    return cell_folder(folder, found)


def saved_steps(cell: str | Path, *, results: str | Path = "results") -> list[int]:
    """Return the steps of a run's saved policies, in ascending order."""
    return sorted(map(int, record_of(folder_of(cell, results)).policies.get("files", {})))


def folder_of(cell: str | Path, results: str | Path) -> Path:
    """Return the folder of a run, given the folder or its hash. Raises UserError."""
    path = Path(cell)
    if path.is_dir():
        return path
    path = cell_folder(Path(results), str(cell))
    if not path.is_dir():
        raise UserError(
            f"no run '{cell}' in '{results}': give the folder of a run, its hash, or a policy "
            f"file; `ablations status --format json` lists the runs"
        )
    return path


def record_of(folder: Path) -> Record:
    """Return the record of a run, given its folder. Raises UserError."""
    folder = folder.resolve()
    if folder.parent.name != "cells" or not (folder / "record.json").exists():
        raise UserError(
            f"'{folder}' is not the folder of a run, such as results/cells/<hash>; load a policy "
            f"that was copied elsewhere by its file"
        )
    record = read_record(folder.parent.parent, folder.name)
    assert record is not None  # its file is there
    return record


def file_of(record: Record, folder: Path, step: int | str) -> tuple[Path, str]:
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
