"""The details of `many_details_discrete`, at settings that pass validation on twenty seeds."""

from dataclasses import replace

from ablations.studies.definition import Study, fraction, register
from ablations.studies.few_actions import JUDGED_ON_TWENTY, few_actions_of_ppo
from ablations.studies.many_details_discrete import CHANGES

# The two tasks have different learning rates here, so this detail is relative to the task's own.
THIRD = {"a third of the learning rate": {"learning_rate": "x1/3"}}
VARIANTS = fraction(CHANGES | THIRD, size=128, doubled=True)
_PROFILES = few_actions_of_ppo(VARIANTS, seeds=(100, 101, 102), judged=JUDGED_ON_TWENTY)
_PROFILES["quick"] = replace(  # the first half, which takes minutes
    _PROFILES["quick"], seeds=2, variants=tuple(VARIANTS)[:128]
)

register(
    Study(
        name="many_details_validated",
        title="What matters in PPO on discrete actions, of 22 details at validated settings",
        claim="A detail can be judged by its mean effect over many settings of all the others.",
        claim_source="Andrychowicz et al. 2021, whose actions are continuous",
        baseline="baseline",
        variants=VARIANTS,
        margin=0.05,
        metric="evaluation/return",
        profiles=_PROFILES,
    )
)
