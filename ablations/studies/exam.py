"""The runs of `ablations validate`: the baseline, and every library's preset."""

from ablations.studies.definition import Study, Variant, register
from ablations.studies.library_defaults import DEFAULTS
from ablations.studies.profiles import control, evidence

CANDIDATES = {"baseline": Variant({}, summary="the task's own settings"), **DEFAULTS}

register(
    Study(
        name="exam",
        title="Validation of tasks",
        claim="A detail can only be judged on a task that the baseline learns.",
        claim_source="docs/evidence.md",
        baseline="baseline",
        variants=CANDIDATES,
        margin=0.05,
        metric="evaluation/return",
        profiles=control(quick=("baseline",), paper=CANDIDATES) | evidence(CANDIDATES, seeds=5),
        geometry="common",
    )
)
