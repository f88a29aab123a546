"""Does clipping the value loss help, and does the reward scale decide its effect?"""

from dataclasses import replace

from ablations.core.plan import Settings
from ablations.studies.definition import Study, Variant, crossed
from ablations.studies.profiles import claims, control, evidence, introduction

CLIPS = {
    "none": Variant({"value_clip": "none"}, summary="Brax and TorchRL by default"),
    "pessimistic": Variant(
        {"value_clip": "pessimistic"}, summary="baselines, CleanRL, RSL-RL, TorchRL when set"
    ),
    "replace": Variant({"value_clip": "replace"}, summary="Stable-Baselines3 when set"),
}
SCALES = crossed(CLIPS, "none", reward_scale=(0.1, 10.0))
# As in CleanRL: rewards are divided by the std of the return, so the range 0.2 is a share of it.
RETURN_STD: Settings = {"reward_scaling": "leaking_return_std_per_environment", "reward_scale": 1.0}
DEPLOYED = {
    f"{name}@return_std": Variant(
        {**CLIPS[name].sets, **RETURN_STD}, versus="none@return_std", summary=CLIPS[name].summary
    )
    for name in ("none", "pessimistic")
}
GRID = crossed(CLIPS, "none", reward_scale=(0.1, 1.0, 10.0), learning_rate=(1e-4, 3e-4, 1e-3))
# At the task's learning rate and at three rates; and other ranges, in units of value
PLAIN = {name: replace(CLIPS[name], versus="none") for name in ("none", "pessimistic")}
RATES = crossed(PLAIN, "none", learning_rate=(3e-4, 1e-3, 3e-3))
RANGES = {
    f"pessimistic@value_clip_range={value_clip_range:g}": Variant(
        {**CLIPS["pessimistic"].sets, "value_clip_range": value_clip_range},
        versus="none",
        summary="libraries have 0.2",
    )
    for value_clip_range in (0.02, 2.0)
}

STUDY = Study(
    name="value_clipping",
    title="Value-loss clipping",
    claim=(
        "Clipping the value loss around the value at rollout stabilises learning. Its range, "
        "0.2, is in units of value, so the reward scale decides whether it bites; CleanRL "
        "deploys it on rewards divided by the running std of their return."
    ),
    claim_source=(
        "openai/baselines ppo2; doubted by Engstrom et al. 2020 and Andrychowicz et al. 2021"
    ),
    baseline="none@reward_scale=0.1",
    variants=SCALES | DEPLOYED | GRID | PLAIN | RATES | RANGES,
    profiles=control(quick=SCALES | DEPLOYED, paper=GRID | DEPLOYED)
    | introduction(PLAIN | DEPLOYED, ["cartpole"])
    | claims(PLAIN | RATES | RANGES)
    | evidence(DEPLOYED | PLAIN | RANGES, seeds=40),
)
