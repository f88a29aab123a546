"""Does the coefficient of the value loss matter, and when can it?"""

from ablations.studies.study import Profile, Study, Variant, register

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
        profiles={
            "smoke": Profile(
                tasks=("fast",), seeds=3, steps=20_000, points=5, evaluations=1, evaluation_envs=4
            ),
            "quick": Profile(
                tasks=("reacher", "hopper"),
                seeds=8,
                steps=400_000,
                task_settings={"reacher": {"episode_length": 100}},
            ),
            "paper": Profile(
                tasks=("reacher", "hopper", "walker2d", "halfcheetah", "ant", "humanoid"),
                seeds=20,
                points=100,
                evaluations=20,
                evaluation_envs=64,
            ),
        },
    )
)
