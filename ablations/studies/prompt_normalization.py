"""Should a language model's advantages be normalised per prompt, or over the batch?

The variants only differ in the advantage: they have the same loss, reduction, and single step per
batch. The study language_defaults compares all defaults of the libraries. Three further studies
compare the variants with batches of few prompts, on few prompts, and at other scales of rewards.
"""

from pathlib import Path

from ablations.studies.definition import Study, Tuning, Variant, crossed
from ablations.studies.profiles import LANGUAGE_SCORE, language

TUNING = Tuning(
    "learning_rate",
    (1e-4, 3e-4, 1e-3),
    Path(__file__).with_name("rates") / "prompt_normalization.json",
)


def choice(name: str, advantage: str, summary: str) -> Variant:
    """Return a variant with a choice of prompt_advantage, and the learning rate tuned for it."""
    return Variant({"prompt_advantage": advantage}, summary=summary, tuned=TUNING.of(name))


CHOICES = {
    name: choice(name, advantage, summary)
    for name, advantage, summary in (
        ("grpo", "per_prompt", "GRPO: minus the prompt's mean, divided by the prompt's std"),
        ("reinforce_pp", "batch", "REINFORCE++: standardised over all tokens of the batch"),
        (
            "reinforce_pp_baseline",
            "per_prompt_baseline_batch",
            "REINFORCE++-baseline: minus the prompt's mean, then standardised over the batch",
        ),
        ("dr_grpo", "per_prompt_mean", "Dr. GRPO: minus the prompt's mean, in units of reward"),
        ("none", "none", "REINFORCE: the reward itself"),
        ("rloo", "leave_one_out", "RLOO: minus the mean of the prompt's other samples"),
        (
            "lite_ppo",
            "per_prompt_mean_batch_std",
            "Lite PPO: minus the prompt's mean, divided by the std of all rewards",
        ),
        (
            "batch_samples",
            "batch_samples",
            "as articles describe REINFORCE++: standardised over the batch's samples",
        ),
        ("remax", "greedy", "ReMax: minus the reward of the prompt's greedy completion"),
    )
}
QUICK = ("grpo", "reinforce_pp", "reinforce_pp_baseline", "dr_grpo", "none")
GRID = crossed(CHOICES, "grpo", prompts=(2, 16, 64))
# GRPO against REINFORCE++ at three shared learning rates
COMPARED = {name: CHOICES[name] for name in ("grpo", "reinforce_pp", "reinforce_pp_baseline")}
RATES = crossed(COMPARED, "grpo", learning_rate=(1e-4, 3e-4, 1e-3))
JUDGED = ("grpo", "reinforce_pp", "dr_grpo", "lite_ppo", "rloo")
CLAIMED = (*QUICK, "lite_ppo", *RATES)

PROMPT_NORMALIZATION = Study(
    name="prompt_normalization",
    title="Per-prompt against batch normalisation",
    claim=(
        "GRPO normalises advantages per prompt, REINFORCE++ over the batch; the second is said "
        "to be more stable. With rewards of one scale they should agree; rewards of several "
        "scales should part them."
    ),
    claim_source=(
        "Hu et al. 2025 (REINFORCE++); Shao et al. 2024 (GRPO); OpenRLHF issues 830 and 924"
    ),
    baseline="grpo",
    variants=CHOICES | GRID | RATES,
    settings={"samples_per_prompt": 4},
    profiles=language(quick=QUICK, paper=GRID, claims=CLAIMED, judged=JUDGED),
    tuning=TUNING,
    **LANGUAGE_SCORE,
)

SIZES = crossed(COMPARED, "grpo", prompts=(2, 16, 64))

BATCH_SIZE = Study(
    name="batch_size",
    title="Batch statistics over few prompts",
    claim="A statistic over the batch is unreliable where the batch has few prompts.",
    claim_source="why those who use statistics over the batch take large batches",
    baseline="grpo@prompts=2",
    variants=SIZES,
    settings={"samples_per_prompt": 4},
    profiles=language(quick=SIZES, paper=SIZES, tasks=("arithmetic",), claims=SIZES),
    **LANGUAGE_SCORE,
)

FEW = ("grpo", "reinforce_pp", "reinforce_pp_baseline", "dr_grpo")

FEW_PROMPTS = Study(
    name="few_prompts",
    title="Thirty prompts, trained to saturation, judged by others",
    claim=(
        "GRPO fits the prompts that it is trained on and fails on new ones; REINFORCE++ keeps "
        "what it knew."
    ),
    claim_source="Hu et al. 2025 (REINFORCE++): GRPO 95.0 on 30 prompts and 0.0 on new ones",
    baseline="grpo",
    variants={name: CHOICES[name] for name in FEW},
    settings={"samples_per_prompt": 4},
    profiles=language(
        quick=FEW,
        paper=FEW,
        tasks=("arithmetic_few",),
        paper_tasks=("arithmetic_few", "addition_few"),
        iterations=1200,
        claims=FEW,
    ),
    **LANGUAGE_SCORE,
)

NAMES = ("grpo", "reinforce_pp", "dr_grpo", "none")
SCALES = ("arithmetic", "arithmetic_signed", "arithmetic_scales")

REWARD_SCALE = Study(
    name="reward_scale",
    title="Rewards of 0 and 1, of -1 and 1, and of several scales",
    claim=(
        "Dropping the std helps where rewards are concentrated; a normalised advantage does "
        "not depend on the reward's unit, one in units of reward does."
    ),
    claim_source="Liu et al. 2025 (Tricks or Traps); Liu et al. 2025 (Dr. GRPO)",
    baseline="grpo",
    variants={name: CHOICES[name] for name in NAMES},
    settings={"samples_per_prompt": 4},
    profiles=language(quick=NAMES, paper=NAMES, tasks=SCALES, paper_tasks=SCALES, claims=NAMES),
    **LANGUAGE_SCORE,
)
