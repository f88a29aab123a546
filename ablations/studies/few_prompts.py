"""Does GRPO overfit 30 prompts that it is trained on to saturation?"""

from ablations.studies.definition import Study, register
from ablations.studies.profiles import LANGUAGE_SCORE, language
from ablations.studies.prompt_normalization import CHOICES

NAMES = ("grpo", "reinforce_pp", "reinforce_pp_baseline", "dr_grpo")

register(
    Study(
        name="few_prompts",
        title="Thirty prompts, trained to saturation, judged by others",
        claim=(
            "GRPO fits the prompts that it is trained on and fails on new ones; REINFORCE++ keeps "
            "what it knew."
        ),
        claim_source="Hu et al. 2025 (REINFORCE++): GRPO 95.0 on 30 prompts and 0.0 on new ones",
        baseline="grpo",
        variants={name: CHOICES[name] for name in NAMES},
        settings={"samples_per_prompt": 4},
        profiles=language(
            quick=NAMES,
            paper=NAMES,
            tasks=("arithmetic_few",),
            paper_tasks=("arithmetic_few", "addition_few"),
            iterations=1200,
            claims=NAMES,
        ),
        **LANGUAGE_SCORE,
    )
)
