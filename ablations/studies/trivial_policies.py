"""The scores of untrained policies: zero actions and random actions."""

from dataclasses import replace

from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import control, evidence, introduction

POLICIES = {
    "zero": Variant({"policy": "zero"}, summary="actions of 0"),
    "uniform": Variant({"policy": "uniform"}, summary="uniformly random actions"),
}
QUICK = introduction(POLICIES, ("walker2d", "cartpole"))["quick"]

STUDY = Study(
    name="trivial_policies",
    title="Untrained policies",
    claim="Zero actions score higher than random actions.",
    claim_source="Brax's healthy reward rewards standing still",
    baseline="zero",
    variants=POLICIES,
    metric="evaluation/return",
    trainer="trivial",
    profiles=control(quick=POLICIES, paper=POLICIES)
    | {"quick": replace(QUICK, seeds=2)}
    | evidence(POLICIES, seeds=5, trained=False),
)
