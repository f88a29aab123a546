"""What lies under everything that a study sets: the task's own settings, or those of a library."""

from __future__ import annotations

from typing import Any

from ablations import presets, studies
from ablations.errors import UserError, unknown
from ablations.request import Request
from ablations.studies import Study, Variant
from ablations.studies.profiles import LANGUAGE_SCORE, control, language
from ablations.sweep import comparison
from ablations.tasks import Task
from ablations.trainers import Definition


def study_of(request: Request) -> Study:
    """Return the study of a request. Raises UserError."""
    if request.study.startswith(comparison.PREFIX):
        return comparison.study_of(request)
    return study_named(request.study)


def study_named(name: str) -> Study:
    """Return the study of that name; a preset is a study of one variant. Raises UserError."""
    if name in studies.studies() or name not in presets.presets():
        if name not in studies.studies():
            raise unknown("study", name, [*studies.studies(), *presets.presets()])
        return studies.study(name)
    one = presets.preset(name)
    of_language = one.trainer == "language"
    profiles = language if of_language else control
    score = LANGUAGE_SCORE if of_language else {"margin": 0.05, "trainer": one.trainer}
    return Study(
        name=name,
        title=f"{name}, as it comes",
        claim=f"The defaults of {one.library}.",
        claim_source=f"ablations show {name}",
        baseline=name,
        variants={name: Variant(preset=name, summary=one.library)},
        profiles=profiles(quick=(name,), paper=(name,)),
        **score,
    )


def defaults(
    task: Task, definition: Definition, study: Study, variant: Variant, request: Request
) -> dict[str, Any]:
    """The settings that a variant has where neither the study nor a flag says anything.

    Those of the task; those of the variant's preset, or of the base that the request names, in
    their place where there is one, but for the structure where the geometry is common. Raises
    UserError for a preset of another trainer.
    """
    own = dict(task.hyperparameters.get(definition.name, {}))
    name = variant.preset or request.base
    if name is None:
        return own
    library = presets.preset(name)
    if library.trainer != definition.name:
        raise UserError(
            f"preset '{name}' is of the trainer '{library.trainer}', and '{study.name}' trains "
            f"with '{definition.name}'"
        )
    if _geometry(study, variant, request) == "own":
        # What no library has, such as how its model was taught before, is the task's.
        return {**{option: own[option] for option in definition.structure if option in own}} | (
            library.values()
        )
    return {
        **{option: own[option] for option in definition.structure if option in own},
        **{n: value for n, value in library.values().items() if n not in definition.structure},
    }


def _geometry(study: Study, variant: Variant, request: Request) -> str:
    return request.geometry or (study.geometry if variant.preset else "own")


def require_presets(study: Study, request: Request) -> None:
    """Raises UserError for a flag about presets where there are none, or where each variant has its
    own."""
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
