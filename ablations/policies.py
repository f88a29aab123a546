"""Find saved policies. Starts no JAX; `loading` loads them.

results/cells/<hash>/policies/<step>.npz     see `ablations.engine.checkpoints`
"""

from __future__ import annotations

from pathlib import Path

from ablations.errors import UserError, unknown
from ablations.records import Record, cell_folder, read_plan, read_record


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
    """Return the steps of a cell's saved policies, ascending."""
    return sorted(map(int, record_of(folder_of(cell, results)).policies.get("files", {})))


def folder_of(cell: str | Path, results: str | Path) -> Path:
    """Return the folder of a cell that is named by it or by its hash. Raises UserError."""
    path = Path(cell)
    if path.is_dir():
        return path
    path = cell_folder(Path(results), str(cell))
    if not path.is_dir():
        raise UserError(
            f"no cell '{cell}' in '{results}': give the folder of a cell, its hash, or a policy "
            f"file; `ablations status --format json` names the cells"
        )
    return path


def record_of(folder: Path) -> Record:
    """Return the record of a cell by its folder. Raises UserError."""
    folder = folder.resolve()
    if folder.parent.name != "cells" or not (folder / "record.json").exists():
        raise UserError(
            f"'{folder}' is not the folder of a cell, such as results/cells/<hash>: a policy that "
            f"was taken elsewhere is loaded by its file"
        )
    record = read_record(folder.parent.parent, folder.name)
    assert record is not None  # its file is there
    return record


def file_of(record: Record, folder: Path, step: int | str) -> tuple[Path, str]:
    """Return the file of a saved policy and its checksum. Raises UserError."""
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
