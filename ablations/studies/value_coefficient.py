"""Does the coefficient of the value loss matter, and when can it?"""

from ablations.studies.profiles import CONTROL
from ablations.studies.study import Study, Variant, register

COUPLED = {"torso": "shared", "gradient_clip": "global_norm"}

register(
    Study(
        name="value_coefficient",
        title="Value-loss coefficient",
        claim=(
            "Brax halves its value loss twice: 0.25 on the squared error (SB3 0.5, RSL-RL 1.0). "
            "Adam does not care about a loss's scale, so it can matter only where policy and "
            "value are coupled: through a shared torso or a global-norm gradient clip."
        ),
        claim_source="brax/training/agents/ppo/losses.py, compute_ppo_loss; Kingma & Ba 2015",
        baseline="separate_0.25",
        variants={
            "separate_0.25": Variant(
                {"value_coefficient": 0.25}, summary="Brax, CleanRL, baselines"
            ),
            "separate_0.5": Variant({"value_coefficient": 0.5}, summary="SB3's coefficient"),
            "separate_1.0": Variant({"value_coefficient": 1.0}, summary="RSL-RL's coefficient"),
            "coupled_0.25": Variant(
                {"value_coefficient": 0.25, **COUPLED},
                versus="coupled_0.25",
                summary="shared torso and global-norm clip",
            ),
            "coupled_0.5": Variant({"value_coefficient": 0.5, **COUPLED}, versus="coupled_0.25"),
            "coupled_1.0": Variant({"value_coefficient": 1.0, **COUPLED}, versus="coupled_0.25"),
        },
        margin=0.05,
        profiles=CONTROL,
    )
)
