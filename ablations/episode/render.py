"""`ablations render`: runs an episode of saved policies and writes a page or a GIF."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablations import tasks
from ablations.engine.machine import use_cache
from ablations.episode import film, page
from ablations.episode.page import Run
from ablations.episode.rollout import episodes
from ablations.episode.scene import mujoco_model, scene
from ablations.errors import UserError
from ablations.loading import find_run, load_policy, saved_steps
from ablations.records import Plan, canonical
from ablations.trainers.values import count

FORMATS = ("html", "gif")
MOST = 12  # episodes on a page


def render(  # noqa: PLR0913 - each is a flag
    plan: Plan,
    results: Path,
    *,
    task: str | None = None,
    variants: Sequence[str] = (),
    seed: int = 0,
    snapshots: Sequence[str] = ("best",),
    length: int | None = None,
    format: str | None = None,
    output: Path | None = None,
) -> Path:
    """Write an episode of each selected policy, side by side, from the same reset.

    For the arguments see `ablations.render`; format: default: the extension of `output`, else html.

    Raises:
        UserError: a policy is missing or cannot be drawn.
    """
    ending = output.suffix[1:].lower() if output else ""
    format = format or (ending if ending in FORMATS else "html")
    if output and ending != format:
        raise UserError(f"--output '{output}' must end in .{format}")
    if format != "html":
        film.choose_gl()
    study, names = plan.study.name, list(variants) or [plan.study.baseline]
    cells = [
        find_run(study, task=task, variant=name, seed=seed, results=results, plan=plan.name)
        for name in names
    ]
    task = task or next(iter(plan.tasks))
    chosen = _chosen(cells, snapshots)
    use_cache()
    runs: list[Run] = []
    models = []
    stages: dict[str, Any] = {}  # settings -> the environment and its scene
    for name, cell, wanted in zip(names, cells, chosen, strict=True):
        policies = [load_policy(cell, step) for step in wanted]
        about = policies[0].config["task"]
        settings = tasks.task(about["name"]).completed(about["settings"])
        if (key := canonical(settings)) not in stages:
            made = tasks.task(about["name"]).made(settings)
            stages[key] = made, scene(made, about["name"])
        (env, shapes), most = stages[key], count("episode_length", settings["episode_length"], 1)
        played = episodes(env, policies, seed, min(most, length or most))
        for step, policy, episode in zip(wanted, policies, played, strict=True):
            runs.append(Run(name, "" if step.isdigit() else step, policy.step, shapes, *episode))
            models.append(mujoco_model(env))
    file = _plain(f"{task}-{'-'.join(names)}")[:200] + f"-seed{seed}.{format}"
    path = output or results / "render" / _plain(study)[:200] / file
    if format == "html":
        page.write(path, study, task, seed, runs)
    else:
        film.write(path, runs, models)
    return path


def _chosen(cells: Sequence[Path], snapshots: Sequence[str]) -> list[list[str]]:
    """Return the steps, or "best" and "last", of the saved policies of each run."""
    words = [word.replace("_", "").replace(",", "") for word in snapshots]
    if wrong := [word for word in words if not re.fullmatch(r"best|last|all|\d+", word)]:
        raise UserError(f"--snapshot '{wrong[0]}': expected best, last, all or a step")
    chosen = []
    for cell in cells:
        steps = {word: map(str, saved_steps(cell)) if word == "all" else [word] for word in words}
        wanted = dict.fromkeys(step for of in steps.values() for step in of)
        chosen.append([*wanted] or ["last"])  # raises an error that says why there is none
    if (episodes := sum(map(len, chosen))) > MOST:
        raise UserError(
            f"{episodes} episodes are too many for a page (at most {MOST}): select fewer with "
            f"--variant or --snapshot"
        )
    return chosen


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).lstrip(".") or "-"
