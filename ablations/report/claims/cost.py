"""Cost of the claims: cells, steps and core-hours, in the order in which they are best run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ablations.core.record import Configuration, steps_of
from ablations.records import Plan, canonical
from ablations.report.tables.entries import Column, Sheet, Values, text_columns
from ablations.request import Request


def cost_sheet(
    plans: Sequence[tuple[str, Plan]], rates: Mapping[str, float], compiling: float
) -> Sheet:
    """List the cost of each task and study, task by task, so that what is finished is whole.

    A cell that an earlier row has costs nothing more. Steps of evaluations count like those of
    training.

    Args:
        plans: each with the name of its row.
        rates: task -> steps per second of one core.
        compiling: seconds for each program.
    """
    tasks = list(dict.fromkeys(task for _, plan in plans for task in plan.tasks))
    seen: set[str] = set()
    compiled: set[str] = set()
    rows: list[Values] = []
    total = 0.0
    for task in tasks:
        for name, plan in plans:
            on_task = [cell for cell in plan.cells if cell.task == task]
            if not on_task:
                continue
            new = {cell.hash: cell.config for cell in on_task if cell.hash not in seen}
            programs = {_program(config) for config in new.values()} - compiled
            steps = sum(map(steps_of, new.values()))
            evaluated = sum(_evaluation(config) for config in new.values())
            seconds = (steps + evaluated) / rates[task] + compiling * len(programs)
            total += seconds / 3600
            seen |= set(new)
            compiled |= programs
            distinct = len({cell.hash for cell in on_task})
            hours = seconds / 3600
            rows.append((task, name, distinct, len(new), steps, evaluated, hours, total))
    cells, steps, evaluated = (sum(row[k] for row in rows) for k in (3, 4, 5))
    named = sum(row[2] for row in rows)
    rows.append(("all", "", named, cells, steps, evaluated, total, total))
    assumed = ", ".join(f"{task} {rates[task]:,.0f}" for task in tasks if task in rates)
    return Sheet(
        "claims",
        "cost",
        f"What the claims cost, task by task. Cells that a row above has are not run again. Steps "
        f"per second of one core: {assumed}; {compiling:.0f} s for each program that is compiled. "
        f"Steps of evaluations are counted like those of training, which is too many; those under "
        f"conditions like those at the task's own settings, which may be too few.",
        ("task", "study", "cells", "new", "steps", "evaluation_steps", "hours", "total_hours"),
        tuple(rows),
        (
            *text_columns("task", "study"),
            Column("cells", "count", ("cells",)),
            Column("new", "count", ("new",)),
            Column("steps", "steps", ("steps",)),
            Column("of evaluations", "steps", ("evaluation_steps",)),
            Column("core-hours", "fixed", ("hours",), places=2),
            Column("so far", "fixed", ("total_hours",), places=2),
        ),
    )


def commands(plans: Sequence[Plan]) -> list[str]:
    """Return one command per task for all studies of the same flags, in the order of the rows."""
    lines: list[str] = []
    for task in dict.fromkeys(task for plan in plans for task in plan.tasks):
        studies: dict[str, list[str]] = {}
        for plan in plans:
            if task in plan.tasks:
                request = replace(Request.of("{}", plan.request), tasks=(task,))
                studies.setdefault(request.command(), []).append(plan.study.name)
        lines += (command.replace("'{}'", " ".join(names)) for command, names in studies.items())
    return lines


def _program(config: Configuration) -> str:
    shape = config["trainer"], config["task"], config["structure"]
    return canonical([*shape, config["run"]["updates_per_chunk"]])


def _evaluation(config: Configuration) -> int:
    run = config["run"]
    length = config["task"]["settings"].get("episode_length", 1)
    assert isinstance(length, int)
    return run["evaluations"] * run["evaluation_envs"] * length
