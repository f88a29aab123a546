"""Does clipping the value loss help, and does the reward scale decide whether it bites?"""

from ablations.studies.definition import Study, Variant, crossed, register
from ablations.studies.profiles import control

CLIPS = {
    "none": Variant({"value_clip": "none"}, summary="Brax and TorchRL by default"),
    "pessimistic": Variant(
        {"value_clip": "pessimistic"}, summary="baselines, CleanRL, RSL-RL, TorchRL when set"
    ),
    "replace": Variant({"value_clip": "replace"}, summary="Stable-Baselines3 when set"),
}
SCALES = crossed(CLIPS, "none", reward_scale=(0.1, 10.0))
GRID = crossed(CLIPS, "none", reward_scale=(0.1, 1.0, 10.0), learning_rate=(1e-4, 3e-4, 1e-3))

register(
    Study(
        name="value_clipping",
        title="Value-loss clipping",
        claim=(
            "Clipping the value loss around the value at rollout stabilises learning. Its range, "
            "0.2, is in units of value, so the reward scale decides whether it bites."
        ),
        claim_source=(
            "openai/baselines ppo2; doubted by Engstrom et al. 2020 and Andrychowicz et al. 2021"
        ),
        baseline="none@reward_scale=0.1",
        variants=SCALES | GRID,
        margin=0.05,
        profiles=control(quick=SCALES, paper=GRID),
    )
)
