"""Do the weights of tokens in the loss matter, and the divergence from the reference?"""

from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import LANGUAGE_SCORE, language

VARIANTS = {
    "grpo": Variant(summary="a mean over tokens, and no divergence from the reference"),
    "sequence_mean": Variant(
        {"policy_loss_reduction": "sequence_mean"}, summary="every completion weighs the same"
    ),
    "constant_length": Variant(
        {"policy_loss_reduction": "constant_length"}, summary="Dr. GRPO: divided by a constant"
    ),
    **{
        f"kl_{placement}": Variant(
            {"kl_placement": placement, "kl_coefficient": 0.04}, summary=summary
        )
        for placement, summary in (
            ("loss_k3", "GRPO's own: k3 in the loss"),
            ("loss_k2", "k2 in the loss"),
            ("loss_k1", "k1 in the loss, whose mean gradient is 0"),
            ("reward_k1", "k1 as a price of each token"),
        )
    },
}

STUDY = Study(
    name="loss_details",
    title="Reductions of the loss, and estimators of the divergence",
    claim=(
        "A mean over completions favours short ones, a penalty for leaving the reference is "
        "not needed, and its estimator and its place matter."
    ),
    claim_source=(
        "Yu et al. 2025 (DAPO); Liu et al. 2025 (Dr. GRPO); Shao et al. 2024 (GRPO); verl, "
        "issue 593"
    ),
    baseline="grpo",
    variants=VARIANTS,
    settings={"samples_per_prompt": 4},
    profiles=language(quick=VARIANTS, paper=VARIANTS, tasks=("arithmetic",), judged=VARIANTS),
    **LANGUAGE_SCORE,
)
