"""Does this RL implementation detail matter? Interchangeable components, paired seeds, honest
tables.

From Python:

    from ablations import make_trainer, run, table

    curves = run("gae", profile="smoke")      # what is missing; then every curve, one row per point
    table("gae")                              # the comparison, one row per variant and task
    trainer, variant = make_trainer("reacher", advantage="brax")     # one composed trainer, for a
    notebook
    policy = load_policy(find_cell("gae", task="fast"), step="best")  # policy(observation) acts

Importing this starts neither JAX nor pandas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.errors import UserError

if TYPE_CHECKING:
    import pandas

    from ablations.policies import find_cell, load_policy, saved_steps
    from ablations.trainers import Trainer, Variant

__all__ = [
    "UserError",
    "curves",
    "find_cell",
    "load_policy",
    "make_trainer",
    "run",
    "saved_steps",
    "table",
]

_FROM_POLICIES = ("find_cell", "load_policy", "saved_steps")


def __getattr__(name: str) -> Any:
    if name in _FROM_POLICIES:
        from ablations import policies

        return getattr(policies, name)
    raise AttributeError(f"module 'ablations' has no attribute '{name}'")


def run(
    study: str,
    *,
    results: str | Path = "results",
    profile: str = "quick",
    tasks: Sequence[str] | None = None,
    variants: Sequence[str] | None = None,
    seeds: int | None = None,
    steps: int | None = None,
    set: Mapping[str, Any] | None = None,
    workers: int | None = None,
    quiet: bool = False,
    fresh: bool = False,
) -> pandas.DataFrame:
    """Runs whatever the study needs and nobody has, then returns its curves (see `curves`).

    The flags are those of `ablations run`; fresh computes it again. Raises UserError on bad input;
    a cell that failed does not raise, it is in the table as a failure.
    """
    from ablations import plugins
    from ablations.request import Request
    from ablations.sweep import local
    from ablations.sweep.plan import plan

    plugins.load()
    request = Request(
        study=study,
        profile=profile,
        tasks=None if tasks is None else tuple(tasks),
        variants=None if variants is None else tuple(variants),
        seeds=seeds,
        steps=steps,
        set=dict(set or {}),
    )
    local.run([plan(request)], Path(results), workers=workers, quiet=quiet, fresh=fresh)
    return curves(study, results=results)


def curves(study: str, *, results: str | Path = "results") -> pandas.DataFrame:
    """The curves of the study's last plan, one row per point: task, variant, seed, step, then the
    metrics.
    """
    import pandas

    from ablations.records import read_curve, read_plan, read_results

    plan = read_plan(Path(results), study)
    frames = []
    for cell, record in read_results(Path(results), plan):
        if record is not None:
            frame = read_curve(Path(results), record).to_pandas()
            for place, name in enumerate(("task", "variant", "seed")):
                frame.insert(place, name, cell[name])
            frames.append(frame)
    if not frames:
        return pandas.DataFrame(columns=["task", "variant", "seed", "step"])
    return pandas.concat(frames, ignore_index=True)


def table(
    study: str,
    *,
    results: str | Path = "results",
    metric: str | None = None,
    score: str = "final",
) -> pandas.DataFrame:
    """The comparison that the study's last plan makes, one row per variant and task."""
    from ablations.records import read_plan
    from ablations.report import tables

    folder = Path(results)
    made = tables.table(read_plan(folder, study), folder, metric=metric, score=score)
    return made.dataframe()


def make_trainer(
    task: str,
    *,
    trainer: str = "ppo",
    updates_per_chunk: int = 1,
    evaluation_envs: int = 16,
    **settings: Any,
) -> tuple[Trainer, Variant]:
    """One composed trainer and its variant, for use without the engine.

        trainer, variant = make_trainer("reacher", advantage="brax", num_envs=64)
        state = jax.jit(trainer.init)(jax.random.key(0), variant)
        state, metrics = jax.jit(trainer.chunk)(state, variant)

    settings: choices of axes, coefficients, structure and task settings, over the task's defaults.
    Choices are fixed in the program by name. Raises UserError for what does not exist or makes no
    sense.
    """
    from ablations import tasks, trainers
    from ablations.trainers.composed import compose
    from ablations.trainers.composition import resolve

    one, definition = tasks.task(task), trainers.trainer(trainer)
    config = resolve(one, definition, {**one.hyperparameters.get(trainer, {}), **settings})
    config["run"] = {"updates_per_chunk": updates_per_chunk, "evaluation_envs": evaluation_envs}
    composed, as_data = compose(config, fixed=tuple(config["choices"]))
    return composed, as_data(config)
