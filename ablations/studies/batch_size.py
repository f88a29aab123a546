"""Is a statistic over the batch reliable when the batch has few prompts?"""

from ablations.studies.definition import Study, crossed, register
from ablations.studies.profiles import LANGUAGE_SCORE, language
from ablations.studies.prompt_normalization import CHOICES

COMPARED = {name: CHOICES[name] for name in ("grpo", "reinforce_pp", "reinforce_pp_baseline")}
VARIANTS = crossed(COMPARED, "grpo", prompts=(2, 16, 64))

register(
    Study(
        name="batch_size",
        title="Batch statistics over few prompts",
        claim="A statistic over the batch is unreliable where the batch has few prompts.",
        claim_source="why those who use statistics over the batch take large batches",
        baseline="grpo@prompts=2",
        variants=VARIANTS,
        settings={"samples_per_prompt": 4},
        profiles=language(quick=VARIANTS, paper=VARIANTS, tasks=("arithmetic",), claims=VARIANTS),
        **LANGUAGE_SCORE,
    )
)
