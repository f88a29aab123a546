"""Return the settings beneath those of a study: the task's own, or those of a library."""

from __future__ import annotations

from collections.abc import Collection

from ablations import presets, studies
from ablations.core.decode import Json
from ablations.errors import UserError, unknown
from ablations.request import Request
from ablations.studies import Profile, Study, Variant
from ablations.sweep import comparison
from ablations.tasks import Task, tasks
from ablations.tasks.task import GYMNASIUM
from ablations.trainers import Composer, trainer
from ablations.trainers.field_names import FIELD_NAMES


def known_studies(request: Request) -> dict[str, Study]:
    """Return the registered studies, and those that a request brings, by name."""
    return {**studies.studies(), **{study.name: study for study in request.brought}}


def study_of(request: Request) -> Study:
    """Return the study of a request; a preset is a study of one variant.

    Raises:
        UserError: nothing has that name.
    """
    if request.study.startswith(comparison.PREFIX):
        return comparison.study_of(request)
    known, name = known_studies(request), request.study
    if name in known:
        return known[name]
    if name not in presets.presets():
        raise _no_study(name, [*known, *presets.presets()])
    return preset_study(name)


def _no_study(name: str, known: Collection[str]) -> UserError:
    """Return the error for a name of no study, which may be a name of something else."""
    if name in tasks():
        return UserError(f"'{name}' is a task: a study is run on it by --tasks {name}")
    if GYMNASIUM.fullmatch(name):
        return UserError(
            f"{name} is no study but a task of Gymnasium: `ablations list tasks` has those here; "
            f"your own training script can be a study: docs/any-trainer.md"
        )
    if (setting := FIELD_NAMES.get(name, name)) in trainer("ppo").settings:
        return UserError(f"'{name}' is a setting: `ablations sweep {setting}=A,B` compares it")
    return unknown("study", name, known)


def preset_study(name: str) -> Study:
    """Return a preset as a study of one variant.

    Raises:
        UserError: there is no such preset.
    """
    one = presets.preset(name)
    return Study(
        name=name,
        title=f"{name}, as it comes",
        claim=f"The defaults of {one.library}.",
        claim_source=f"ablations show {name}",
        baseline=name,
        variants={name: Variant(preset=name, summary=one.library)},
        profiles=comparison.profiles_of(one.trainer, (name,)),
        **comparison.score_of(one.trainer),
    )


def defaults(
    task: Task,
    definition: Composer,
    study: Study,
    variant: Variant,
    request: Request,
    profile: Profile,
) -> dict[str, Json]:
    """Return the settings of a variant that neither the study nor a flag sets.

    Those of the task, or what the profile puts in their place; where the variant has a preset, or
    the request names a base, those of that instead, but for the structure where the geometry is
    common.

    Raises:
        UserError: the preset is of another trainer, or of another kind of actions.
    """
    instead = profile.own.get(task.name, {})
    own = {
        **task.hyperparameters.get(definition.name, {}),
        **{name: value for name, value in instead.items() if name in definition.settings},
    }
    name = variant.preset or request.base
    if name is None:
        return own
    library = presets.preset(name).on(task)
    if library.trainer != definition.name:
        raise UserError(
            f"preset '{name}' is of the trainer '{library.trainer}', and '{study.name}' trains "
            f"with '{definition.name}'"
        )
    structure = {option: own[option] for option in definition.structure if option in own}
    if (request.geometry or (study.geometry if variant.preset else "own")) == "own":
        # What no library has, such as how its model was taught before, is the task's.
        return structure | library.values()
    rest = {n: value for n, value in library.values().items() if n not in definition.structure}
    return structure | rest


def require_presets(study: Study, request: Request) -> None:
    """Raise UserError for a flag about presets where none apply, or each variant has its own."""
    own = [name for name, variant in study.variants.items() if variant.preset]
    if request.base and own:
        raise UserError(
            f"--base {request.base}: variants of '{study.name}' are presets themselves "
            f"({', '.join(own)})"
        )
    if request.geometry and not (request.base or own):
        raise UserError(
            f"--geometry {request.geometry} is about a preset's: name one with --base or --preset"
        )
