"""Does the coefficient of the value loss matter, and where?"""

from ablations.studies.definition import Study, Variant, crossed
from ablations.studies.profiles import claims, control, evidence, introduction

# Two ways in which policy and critic are coupled. The clip has most libraries' norm of 0.5.
COUPLED = {
    "shared": ({"torso": "shared"}, "shared torso"),
    "clipped": ({"gradient_clip": "global_norm"}, "global-norm clip"),
}
COEFFICIENTS = {
    f"{coefficient:g}": Variant({"value_coefficient": coefficient}, summary=summary)
    for coefficient, summary in {
        0.25: "Brax, CleanRL, baselines",
        0.5: "Stable-Baselines3",
        1.0: "RSL-RL",
    }.items()
}
EITHER = {
    **{f"separate_{name}": variant for name, variant in COEFFICIENTS.items()},
    **{
        f"{how}_{name}": Variant(
            {**COEFFICIENTS[name].sets, **sets}, versus=f"{how}_0.25", summary=summary
        )
        for how, (sets, summary) in COUPLED.items()
        for name in ("0.25", "0.5", "1")
    },
}
QUICK = tuple(name for name in EITHER if name not in ("shared_0.5", "clipped_0.5"))
CLAIMED = ("separate_0.25", "separate_0.5", "shared_0.25", "shared_0.5")
GRID = crossed(
    COEFFICIENTS, "0.25", torso=("separate", "shared"), gradient_clip=("none", "global_norm")
)

STUDY = Study(
    name="value_coefficient",
    title="Value-loss coefficient",
    claim=(
        "Brax halves its value loss twice: 0.25 on the squared error (SB3 0.5, RSL-RL 1.0). "
        "Adam does not care about a loss's scale, so it can matter only where policy and "
        "value are coupled: through a shared torso or a global-norm gradient clip."
    ),
    claim_source="brax/training/agents/ppo/losses.py, compute_ppo_loss; Kingma & Ba 2015",
    baseline="separate_0.25",
    variants=EITHER | GRID,
    profiles=control(quick=QUICK, paper=GRID)
    | introduction(("separate_0.25", "separate_1", "shared_0.25", "shared_1"), ["cartpole"])
    | claims(CLAIMED)
    | evidence(EITHER, seeds=40),
)
