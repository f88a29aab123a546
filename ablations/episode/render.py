"""`ablations render`: runs an episode of saved policies and writes a page or a GIF."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

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

Ink: TypeAlias = tuple[float, float, float]
Draw: TypeAlias = Callable[[Sequence[int], Ink], Iterator[np.ndarray]]
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
    draw: Callable[[Episode, Sequence[int], Ink], Iterator[np.ndarray]]


@dataclass(frozen=True)
class Selected:
    """The selected saved policies.

    Attributes:
        task: None if the plan has only one.
        variants: None is the baseline.
        seed: of the runs, and of the reset.
        snapshots: "best", "last", "all" or steps, for every variant.
        length: most steps of an episode; default: the task's episode_length.
    """

    task: str | None = None
    variants: Sequence[str | None] = (None,)
    seed: int = 0
    snapshots: Sequence[str] = ("best",)
    length: int | None = None


def render(
    plan: Plan,
    results: Path,
    selected: Selected,
    *,
    format: str | None = None,
    output: Path | None = None,
) -> Path:
    """Write an episode of each selected policy, side by side, from the same reset.

    `format` is one of `FORMATS`; default: the extension of `output`, else html. Raises UserError if
    a policy is missing or cannot be drawn.
    """
    format = _format(format, output)
    if format != "html":
        choose_gl()
    study, task, seed = plan.study.name, selected.task, selected.seed
    cells = [
        find_run(study, task=task, variant=variant, seed=seed, results=results, plan=plan.name)
        for variant in selected.variants
    ]
    task = task or next(iter(plan.tasks))
    names = [variant or plan.study.baseline for variant in selected.variants]
    chosen = _chosen(cells, selected.snapshots)
    use_cache()
    played = list(_play(names, cells, chosen, selected, bodies=format == "html"))
    runs = [run for run, _ in played]
    name = _plain(f"{task}-{'-'.join(names)}")[:200] + f"-seed{seed}.{format}"
    path = output or results / "render" / _plain(study)[:200] / name
    try:
        if format == "html":
            episode_page.write(path, study, task, seed, runs)
        else:
            _film(path, played)
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None
    return path


def _format(format: str | None, output: Path | None) -> str:
    ending = output.suffix.lower().lstrip(".") if output else ""
    if format is None:
        return ending if ending in FORMATS else "html"
    if ending in FORMATS and ending != format:
        raise UserError(f"--output '{output}' ends in .{ending}, but --format is {format}")
    if output and format != "html" and not ending:
        raise UserError(f"--output '{output}' has no extension: use '{output}.{format}'")
    return format


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
    if word in ("best", "last"):
        return word
    try:
        step = float(word.replace("_", "").replace(",", ""))
        if step < 0 or not step.is_integer():
            raise ValueError
    except (ValueError, OverflowError):
        raise UserError(f"--snapshot '{word}': expected best, last, all or a step") from None
    return int(step)


def _play(
    names: Sequence[str],
    cells: Sequence[Path],
    chosen: Sequence[Sequence[str | int]],
    selected: Selected,
    *,
    bodies: bool,
) -> Iterator[tuple[Run, Draw]]:
    """Yield each policy's episode and its drawing function; `bodies`: the scene needs some."""
    stages: dict[str, Stage] = {}
    for name, cell, wanted in zip(names, cells, chosen, strict=True):
        policies = [load_policy(cell, step) for step in wanted]
        about = policies[0].config["task"]
        settings = tasks.task(about["name"]).completed(about["settings"])
        key = canonical(settings)
        if key not in stages:
            made = tasks.task(about["name"]).made(settings)
            stages[key] = _stage(made, about["name"], bodies)
        stage = stages[key]
        steps = count("episode_length", settings["episode_length"], 1)
        length = min(steps, selected.length or steps)
        played = episodes(stage.env, policies, selected.seed, length)
        for step, policy, episode in zip(wanted, policies, played, strict=True):
            run = Run(
                variant=name,
                snapshot=step if isinstance(step, str) else "",
                step=policy.step,
                scene=stage.scene,
                positions=episode.positions if stage.scene.bodies else np.empty((0, 0, 3)),
                rotations=episode.rotations if stage.scene.bodies else np.empty((0, 0, 4)),
                rewards=episode.rewards,
                end=episode.end,
            )
            yield run, partial(stage.draw, episode)


def _stage(made: Environment, task: str, bodies: bool) -> Stage:
    env = adapted(made) if hasattr(made, "reset_env") else made
    if isinstance(env, GymnaxEnvironment):
        if bodies:
            raise UserError(f"a page shows bodies, but '{task}' has none: try --format gif")
        return Stage(
            env,
            Scene((), (), (), gymnax.timestep(env)),
            lambda episode, places, ink: gymnax.pictures(env, episode.frames, places, SIZE),
        )
    shapes, model = scene(made, task), mujoco_model(made)

    def draw(episode: Episode, places: Sequence[int], ink: Ink) -> Iterator[np.ndarray]:
        return pictures(model, shapes, episode.positions, episode.rotations, places, SIZE, ink)

    return Stage(made, shapes, draw)


def _film(path: Path, played: Iterable[tuple[Run, Draw]]) -> None:
    played = list(played)
    runs = [run for run, _ in played]
    places = film.places(runs)
    drawn = []
    for index, (run, draw) in enumerate(played):
        last = len(run.rewards)
        own = [*(place for place in places if place < last), last]
        drawn.append(list(draw(own, film.INKS[index % len(film.INKS)])))
    film.write(path, runs, drawn)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).lstrip(".") or "-"
