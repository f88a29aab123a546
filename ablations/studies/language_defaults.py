"""Library defaults of the training of language models."""

from pathlib import Path

from ablations.studies.definition import Study, Tuning, Variant
from ablations.studies.profiles import LANGUAGE_SCORE, language

TUNING = Tuning(
    "learning_rate",
    (1e-4, 3e-4, 1e-3),
    Path(__file__).with_name("rates") / "language_defaults.json",
)
PRESETS = {
    "trl_grpo": "TRL's GRPO",
    "trl_dr_grpo": "TRL's Dr. GRPO",
    "trl_rloo": "TRL's RLOO",
    "verl_grpo": "verl's GRPO",
    "openrlhf_reinforce_pp": "OpenRLHF's REINFORCE++",
    "openrlhf_reinforce_pp_baseline": "OpenRLHF's REINFORCE++-baseline",
    "lite_ppo": "Lite PPO",
}
DEFAULTS = {
    name: Variant(preset=name, summary=f"{library} as it comes", tuned=TUNING.of(name))
    for name, library in PRESETS.items()
}

STUDY = Study(
    name="language_defaults",
    title="Library defaults on language",
    claim=(
        "GRPO, Dr. GRPO, RLOO, REINFORCE++ and Lite PPO differ in more than the advantage: in "
        "the loss, its reduction and the divergence from the reference. With equal prompts, "
        "samples and steps per batch, each whole should learn alike."
    ),
    claim_source="what comparisons of these names take for granted",
    baseline="trl_grpo",
    variants=DEFAULTS,
    # With four steps per batch, ratios differ from 1 and clips have an effect.
    settings={"num_minibatches": 4},
    profiles=language(quick=DEFAULTS, paper=DEFAULTS, claims=DEFAULTS),
    geometry="common",
    tuning=TUNING,
    **LANGUAGE_SCORE,
)
