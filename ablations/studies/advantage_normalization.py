"""Should advantages be normalised over the minibatch, the batch, each group, or not at all?"""

from ablations.studies.definition import Study, Variant, crossed
from ablations.studies.profiles import claims, control, evidence, introduction

NORMALIZERS = {
    "minibatch": Variant(
        {"advantage_statistics": "all", "advantage_scope": "minibatch"},
        summary="Brax, CleanRL, SB3, baselines",
    ),
    "none": Variant(
        {"advantage_statistics": "none", "advantage_scope": "minibatch"},
        summary="TorchRL by default",
    ),
    "batch": Variant(
        {"advantage_statistics": "all", "advantage_scope": "batch"}, summary="RSL-RL, Stoix"
    ),
    "per_group": Variant(
        {"advantage_statistics": "per_group", "advantage_scope": "batch"},
        summary="GRPO's idea on control: environments that share a reset are the group",
    ),
}
GRID = crossed(NORMALIZERS, "minibatch", num_envs=(64, 256), learning_rate=(3e-4, 1e-3))
RATES = crossed(NORMALIZERS, "minibatch", learning_rate=(3e-4, 1e-3, 3e-3))

STUDY = Study(
    name="advantage_normalization",
    title="Advantage normalisation",
    claim=(
        "Normalising advantages per minibatch is standard; normalising per group, as GRPO does "
        "per prompt, removes differences between groups that the batch statistic keeps."
    ),
    claim_source="Andrychowicz et al. 2021, section 3.5; Shao et al. 2024 (GRPO)",
    baseline="minibatch",
    variants=NORMALIZERS | GRID | RATES,
    profiles=control(quick=NORMALIZERS, paper=GRID, reset_group_size=8)
    | introduction(("minibatch", "none", "batch"), ["cartpole"])
    | claims(
        (*NORMALIZERS, *RATES),
        ("reacher", "inverted_double_pendulum", "hopper"),
        reset_group_size=8,
    )
    | evidence(("minibatch", "none", "batch"), seeds=40),
)
