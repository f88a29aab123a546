"""Do the reward of a wrong answer (0 or -1) and different scales of rewards matter?"""

from ablations.studies.definition import Study, register
from ablations.studies.profiles import LANGUAGE_SCORE, language
from ablations.studies.prompt_normalization import CHOICES

NAMES = ("grpo", "reinforce_pp", "dr_grpo", "none")
SCALES = ("arithmetic", "arithmetic_signed", "arithmetic_scales")

register(
    Study(
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
)
