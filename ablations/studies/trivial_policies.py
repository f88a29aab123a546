"""The scores of doing nothing, and of doing anything."""

from ablations.studies.definition import Study, Variant, register
from ablations.studies.profiles import control, evidence

POLICIES = {
    "zero": Variant({"policy": "zero"}, summary="actions of 0"),
    "uniform": Variant({"policy": "uniform"}, summary="uniformly random actions"),
}

register(
    Study(
        name="trivial_policies",
        title="Policies that learn nothing",
        claim="Doing nothing is worth more than random actions.",
        claim_source="standing still is what a healthy reward pays for in Brax's environments",
        baseline="zero",
        variants=POLICIES,
        margin=0.05,
        metric="evaluation/return",
        trainer="trivial",
        profiles=control(quick=POLICIES, paper=POLICIES)
        | evidence(POLICIES, seeds=5, trained=False),
    )
)
