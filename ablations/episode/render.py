"""`ablations render`: runs an episode of saved policies and writes a page or a GIF."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ablations import tasks
from ablations.engine.machine import use_cache
from ablations.environments import adapted
from ablations.environments.gymnax import GymnaxEnvironment
from ablations.episode import film, gymnax
from ablations.episode import page as episode_page
from ablations.episode.offscreen import choose_gl, pictures
from ablations.episode.page import Run
from ablations.episode.rollout import Episode, episodes
from ablations.episode.scene import Scene, mujoco_model, scene
from ablations.errors import UserError
from ablations.loading import load_policy
from ablations.policies import find_run, saved_steps
from ablations.records import Plan, canonical
from ablations.tasks.task import Environment
from ablations.trainers.values import count

FORMATS = ("html", "gif")
MOST = 12  # episodes on a page
SIZE = (400, 300)  # pixels of one run's picture in a film


@dataclass(frozen=True)
class Stage:
    """An environment, its scene, and a function that draws an episode.

    `draw(episode, places, ink)` yields a uint8 [H, W, 3] for each place (index of a frame), with
    bodies without a colour in `ink`.
    """

    env: Environment
    scene: Scene
    draw: Callable[[Episode, Sequence[int], film.Ink], Iterator[np.ndarray]]


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

    Args:
        plan: the plan whose runs saved the policies.
        results: the results folder.
        task: None if the plan has only one.
        variants: default: the baseline.
        seed: of the runs, and of the reset.
        snapshots: "best", "last", "all" or steps, for every variant.
        length: most steps of an episode; default: the task's episode_length.
        format: one of `FORMATS`; default: the extension of `output`, else html.
        output: the file; default: under render/ in the results folder.

    Raises:
        UserError: a policy is missing or cannot be drawn.
    """
    ending = output.suffix[1:].lower() if output else ""
    format = format or (ending if ending in FORMATS else "html")
    if output and ending != format:
        raise UserError(f"--output '{output}' must end in .{format}")
    if format != "html":
        choose_gl()
    study, names = plan.study.name, list(variants) or [plan.study.baseline]
    cells = [
        find_run(study, task=task, variant=name, seed=seed, results=results, plan=plan.name)
        for name in names
    ]
    task = task or next(iter(plan.tasks))
    chosen = _chosen(cells, snapshots)
    use_cache()
    runs: list[Run] = []
    drawn: list[list[np.ndarray]] = []
    stages: dict[str, Stage] = {}
    for name, cell, wanted in zip(names, cells, chosen, strict=True):
        policies = [load_policy(cell, step) for step in wanted]
        about = policies[0].config["task"]
        settings = tasks.task(about["name"]).completed(about["settings"])
        key = canonical(settings)
        if key not in stages:
            made = tasks.task(about["name"]).made(settings)
            stages[key] = _stage(made, about["name"], format == "html")
        stage, steps = stages[key], count("episode_length", settings["episode_length"], 1)
        played = episodes(stage.env, policies, seed, min(steps, length or steps))
        for step, policy, episode in zip(wanted, policies, played, strict=True):
            word = step if isinstance(step, str) else ""
            positions, rotations = episode.poses if stage.scene.trees else _NO_BODIES
            ended = (positions, rotations, episode.rewards, episode.end)
            run = Run(name, word, policy.step, stage.scene, *ended)
            runs.append(run)
            if format != "html":
                ink = film.INKS[len(drawn) % len(film.INKS)]
                drawn.append([*stage.draw(episode, film.places(run), ink)])
    file = _plain(f"{task}-{'-'.join(names)}")[:200] + f"-seed{seed}.{format}"
    path = output or results / "render" / _plain(study)[:200] / file
    try:
        if format == "html":
            episode_page.write(path, study, task, seed, runs)
        else:
            film.write(path, runs, drawn)
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None
    return path


_NO_BODIES = np.empty((0, 0, 3)), np.empty((0, 0, 4))


def _chosen(cells: Sequence[Path], snapshots: Sequence[str]) -> list[list[str | int]]:
    chosen: list[list[str | int]] = []
    for cell in cells:
        wanted: dict[str | int, None] = {}
        for word in snapshots:
            steps = saved_steps(cell) if word == "all" else [_snapshot(word)]
            wanted |= dict.fromkeys(steps)
        chosen.append(list(wanted) or ["last"])  # raises an error that says why there is none
    if (episodes := sum(map(len, chosen))) > MOST:
        raise UserError(
            f"{episodes} episodes are too many for a page (at most {MOST}): select fewer with "
            f"--variant or --snapshot"
        )
    return chosen


def _snapshot(word: str) -> str | int:
    step = word.replace("_", "").replace(",", "")
    if word in ("best", "last") or step.isdecimal():
        return int(step) if step.isdecimal() else word
    raise UserError(f"--snapshot '{word}': expected best, last, all or a step")


def _stage(made: Environment, task: str, bodies: bool) -> Stage:
    """Return the stage of a task; `bodies`: its scene needs some."""
    env = adapted(made) if hasattr(made, "reset_env") else made
    if isinstance(env, GymnaxEnvironment):
        if bodies:
            raise UserError(f"a page shows bodies, but '{task}' has none: try --format gif")
        return Stage(
            env,
            Scene((), (), gymnax.timestep(env)),
            lambda episode, places, ink: gymnax.pictures(env, episode.frames, places, SIZE),
        )
    shapes, model = scene(made, task), mujoco_model(made)

    def draw(episode: Episode, places: Sequence[int], ink: film.Ink) -> Iterator[np.ndarray]:
        return pictures(model, shapes, *episode.poses, places, SIZE, ink)

    return Stage(made, shapes, draw)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).lstrip(".") or "-"
