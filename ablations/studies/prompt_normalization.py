"""Should a language model's advantages be normalised per prompt, or over the batch?

The variants only differ in the advantage: they have the same loss, reduction, and single step per
batch. The study language_defaults compares all defaults of the libraries.
"""

from pathlib import Path

from ablations.studies.definition import Study, Variant, crossed, register
from ablations.studies.profiles import LANGUAGE_SCORE, language
from ablations.studies.tuned import Tuning

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
        (
            "reinforce_pp",
            "batch",
            "REINFORCE++: standardised over all tokens of the batch",
        ),
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
RATES = crossed(
    {name: CHOICES[name] for name in ("grpo", "reinforce_pp", "reinforce_pp_baseline")},
    "grpo",
    learning_rate=(1e-4, 3e-4, 1e-3),
)
JUDGED = ("grpo", "reinforce_pp", "dr_grpo", "lite_ppo", "rloo")
CLAIMED = (*QUICK, "lite_ppo", *RATES)

register(
    Study(
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
)
