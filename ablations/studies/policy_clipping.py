"""Clips of the policy ratio, where several steps are taken on a batch."""

from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import LANGUAGE_SCORE, language

LOSSES = {
    "clip": "PPO's clip of each token's ratio",
    "clip_higher": "DAPO: more room upwards",
    "dual_clip": "and a bound where the advantage is negative",
    "gspo": "GSPO: one ratio for a completion",
    "cispo": "CISPO: the weight is clipped, not the gradient",
    "clip_cov": "Clip-Cov: a few tokens of high covariance are left out",
    "none": "no clip",
}
VARIANTS = {
    **{name: Variant({"policy_loss": name}, summary=text) for name, text in LOSSES.items()},
    "gspo_narrow": Variant(
        {"policy_loss": "gspo", "clip_epsilon": 3e-4, "clip_epsilon_high": 4e-4},
        summary="GSPO within the range of its article",
    ),
}
QUICK = ("clip", "clip_higher", "gspo", "cispo", "clip_cov", "none")

STUDY = Study(
    name="policy_clipping",
    title="Clips of the policy ratio, at eight steps per batch",
    claim=(
        "GSPO, CISPO and Clip-Cov are each said to be stabler or better than PPO's clip, where "
        "several steps are taken on a batch."
    ),
    claim_source=(
        "Zheng et al. 2025 (GSPO); MiniMax 2025 (CISPO); Cui et al. 2025 (Clip-Cov); Yu et al. "
        "2025 (DAPO)"
    ),
    baseline="clip",
    variants=VARIANTS,
    settings={"num_minibatches": 4, "epochs": 2},
    profiles=language(
        quick=QUICK,
        paper=VARIANTS,
        tasks=("arithmetic",),
        claims=QUICK,
        judged=(*QUICK, "gspo_narrow"),
        judged_rate=3e-5,  # the best of three for PPO's clip, in validation
    ),
    **LANGUAGE_SCORE,
)
