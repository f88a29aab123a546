"""The command `render`: saved policies act side by side, on a page or in a GIF."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Unpack

from cyclopts import Parameter

from ablations import plugins, tasks
from ablations.commands.selected import names_of, plans, selection_of
from ablations.engine.machine import use_cache
from ablations.errors import UserError
from ablations.parameters import SEVERAL, Folder, Names, Positive, Selection, Text
from ablations.trainers.values import count

MOST = 12  # episodes on a page


def render(
    study: str,
    /,
    *,
    task: Text = None,
    variant: Names = (),
    seed: int = 0,
    snapshot: Annotated[str | Sequence[str], SEVERAL, Parameter(metavar="best|last|all|STEP")] = (
        "best",
    ),
    length: Positive = None,
    output: Annotated[str | Path | None, Parameter(metavar="FILE")] = None,
    results: Folder = "results",
    **selection: Unpack[Selection],
) -> Path:
    """Show saved policies acting, side by side from the same reset, and return the path.

    Args:
        study: The study.
        task: The task; not needed where the study has one.
        variant: The variants; default: the baseline.
        seed: The seed of the runs and of the reset; default: 0.
        snapshot: Which saved policies of a run: best, last, all, or steps; default: best.
        length: Most steps of an episode.
        output: A page, or a GIF if it ends in .gif; default: a page under render/ in the results
            folder.
        results: The results folder; default: results.
        selection: See `Selection`. Without one: the study's last run.

    Raises:
        UserError: a policy is missing or cannot be drawn.
    """
    plugins.load()
    ending = Path(output or "page.html").suffix.lower()
    if ending not in (".gif", ".html"):
        raise UserError(f"--output '{output}' must end in .html or .gif")
    (plan,), folder = plans(study, results, selection_of(selection))
    from ablations.episode import film, page, rollout, scene
    from ablations.loading import find_run, load_policy

    study, names = plan.study.name, names_of(variant) or [plan.study.baseline]
    cells = [
        find_run(study, task=task, variant=name, seed=seed, results=folder, plan=plan.name)
        for name in names
    ]
    task = task or next(iter(plan.tasks))
    file = f"{_plain('-'.join([task, *names]))}-seed{seed}.html"
    path = Path(output or folder / "render" / _plain(study) / file)
    if ending == ".gif":
        film.choose_gl()
    use_cache()
    runs, models = [], []
    for name, cell, wanted in zip(names, cells, chosen(cells, names_of(snapshot)), strict=True):
        policies = [load_policy(cell, step) for step in wanted]
        about = tasks.task(policies[0].config["task"]["name"])
        settings = about.completed(policies[0].config["task"]["settings"])
        env = about.made(settings)
        shapes = scene.scene(env, about.name)
        most = count("episode_length", settings["episode_length"], 1)
        played = rollout.episodes(env, policies, seed, min(most, length or most))
        for step, policy, episode in zip(wanted, policies, played, strict=True):
            snapped = "" if step.isdigit() else step
            runs.append(
                page.Run(
                    **vars(episode), variant=name, snapshot=snapped, step=policy.step, scene=shapes
                )
            )
            models.append(scene.mujoco_model(env))
    if ending == ".gif":
        film.write(path, runs, models)
    else:
        page.write(path, study, task, seed, runs)
    return path


def chosen(cells: Sequence[Path], snapshots: Sequence[str]) -> list[list[str]]:
    """Return the steps, or "best" and "last", of the saved policies of each run."""
    from ablations.loading import saved_steps

    if wrong := [word for word in snapshots if not re.fullmatch(r"best|last|all|\d+", word)]:
        raise UserError(f"--snapshot '{wrong[0]}': expected best, last, all or a step")
    found = []
    for cell in cells:
        steps = [map(str, saved_steps(cell)) if word == "all" else [word] for word in snapshots]
        wanted = dict.fromkeys(step for of in steps for step in of)
        found.append([*wanted] or ["last"])  # raises an error that says why there is none
    if (episodes := sum(map(len, found))) > MOST:
        raise UserError(
            f"{episodes} episodes are too many for a page (at most {MOST}): select fewer with "
            f"--variant or --snapshot"
        )
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).lstrip(".")[:200] or "-"
