"""Should a language model's advantages be normalised per prompt, or over the batch?

The learning rate of every choice was tuned by the rule in tests/benchmarks/tune_learning_rates.py,
with 16 prompts, on seeds that no profile reports; its records are
results/reference/prompt_normalization_rates.csv.
"""

from ablations.studies.definition import Profile, Study, Variant, crossed, register

CHOICES = {
    "grpo": Variant(
        {"prompt_advantage": "per_prompt", "learning_rate": 3e-4},
        summary="GRPO: minus the prompt's mean, divided by the prompt's std",
    ),
    "reinforce_pp": Variant(
        {"prompt_advantage": "batch", "learning_rate": 3e-4},
        summary="REINFORCE++: standardised over all tokens of the batch",
    ),
    "reinforce_pp_baseline": Variant(
        {"prompt_advantage": "per_prompt_baseline_batch", "learning_rate": 1e-4},
        summary="REINFORCE++-baseline: minus the prompt's mean, then standardised over the batch",
    ),
    "dr_grpo": Variant(
        {"prompt_advantage": "per_prompt_mean", "learning_rate": 3e-4},
        summary="Dr. GRPO: minus the prompt's mean, in units of reward",
    ),
    "rloo": Variant(
        {"prompt_advantage": "leave_one_out", "learning_rate": 3e-4},
        summary="RLOO: minus the mean of the prompt's other samples",
    ),
    "lite_ppo": Variant(
        {"prompt_advantage": "per_prompt_mean_batch_std", "learning_rate": 3e-4},
        summary="Lite PPO: minus the prompt's mean, divided by the std of all rewards",
    ),
    "batch_samples": Variant(
        {"prompt_advantage": "batch_samples", "learning_rate": 1e-4},
        summary="as articles describe REINFORCE++: standardised over the batch's samples",
    ),
    "none": Variant(
        {"prompt_advantage": "none", "learning_rate": 3e-4},
        summary="REINFORCE: the reward itself",
    ),
}
QUICK = ("grpo", "reinforce_pp", "reinforce_pp_baseline", "dr_grpo")
GRID = crossed(CHOICES, "grpo", prompts=(2, 16, 64))
BATCH = 16 * 4  # the completions of one iteration, and so what a step of the curve counts

register(
    Study(
        name="prompt_normalization",
        title="Per-prompt against batch normalisation",
        claim=(
            "GRPO normalises advantages per prompt, REINFORCE++ over the batch; the second is said "
            "to be more stable. With rewards of one scale they should agree; rewards of several "
            "scales, or small noise in groups that are otherwise equal, should part them."
        ),
        claim_source=(
            "Hu et al. 2025 (REINFORCE++); Shao et al. 2024 (GRPO); OpenRLHF issues 830 and 924"
        ),
        baseline="grpo",
        variants=CHOICES | GRID,
        margin=0.05,
        margin_in_metric=True,
        metric="evaluation/accuracy",
        trainer="language",
        settings={"samples_per_prompt": 4},
        profiles={
            "smoke": Profile(
                tasks=("addition_scales",),
                seeds=2,
                steps=BATCH * 20,
                points=4,
                evaluations=4,
                evaluation_envs=32,
                variants=QUICK,
                settings={"layers": 1, "width": 16, "heads": 2, "mlp_width": 16}
                | {"warm_start_steps": 20},
            ),
            "quick": Profile(
                tasks=("addition", "addition_scales", "addition_noise"),
                seeds=8,
                steps=BATCH * 200,
                points=20,
                evaluations=20,
                evaluation_envs=512,
                variants=QUICK,
            ),
            "paper": Profile(
                tasks=(
                    "addition",
                    "addition_signed",
                    "addition_scales",
                    "addition_noise",
                    "addition_few",
                    "mixture",
                    "sorting",
                    "reversal",
                    "countdown",
                ),
                seeds=20,
                points=50,
                evaluations=50,
                evaluation_envs=512,
                variants=tuple(GRID),
            ),
        },
    )
)
