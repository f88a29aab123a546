"""Are two samples per prompt enough, at an equal number of completions?"""

from ablations.studies.definition import Study, Variant
from ablations.studies.profiles import BATCH, LANGUAGE_SCORE, language

ADVANTAGES = {"grpo": "per_prompt", "reinforce_pp_baseline": "per_prompt_baseline_batch"}
VARIANTS = {
    f"{name}@samples={samples}": Variant(
        {"prompt_advantage": advantage, "samples_per_prompt": samples, "prompts": BATCH // samples},
        versus=f"{name}@samples=16",
        summary=f"{BATCH // samples} prompts with {samples} completions each",
    )
    for name, advantage in ADVANTAGES.items()
    for samples in (16, 8, 4, 2)
}
GRPO = tuple(name for name in VARIANTS if name.startswith("grpo"))

STUDY = Study(
    name="group_size",
    title="Samples per prompt at an equal number of completions",
    claim="GRPO with 2 samples per prompt is on par with 16, at an eighth of the completions.",
    claim_source="2-GRPO (one version: on par; another: 97.6% of the performance)",
    baseline="grpo@samples=16",
    variants=VARIANTS,
    profiles=language(
        quick=GRPO,
        paper=VARIANTS,
        tasks=("arithmetic",),
        claims=GRPO,
        judged=("grpo@samples=16", "grpo@samples=2"),
    ),
    **LANGUAGE_SCORE,
)
