"""The runs of a task's entrance exam: the baseline, and every library's preset."""

from ablations.studies.definition import Study, Variant, register
from ablations.studies.library_defaults import DEFAULTS
from ablations.studies.profiles import control, evidence

CANDIDATES = {"baseline": Variant({}, summary="the task's own settings"), **DEFAULTS}

register(
    Study(
        name="exam",
        title="Entrance exam of tasks",
        claim="A task can judge a detail only where the baseline learns it.",
        claim_source="docs/evidence.md",
        baseline="baseline",
        variants=CANDIDATES,
        margin=0.05,
        metric="evaluation/return",
        profiles=control(quick=("baseline",), paper=CANDIDATES) | evidence(CANDIDATES, seeds=5),
        geometry="common",
    )
)
