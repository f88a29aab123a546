"""How much compute the control studies take. They share it, and so share their cells."""

from ablations.studies.study import Profile

# `quick` needs both kinds of end: reacher never terminates and is truncated at every 50 steps;
# hopper falls at first, then reaches the truncation that comes with every 200 steps.
CONTROL = {
    "smoke": Profile(
        tasks=("fast",), seeds=3, steps=20_000, points=5, evaluations=1, evaluation_envs=4
    ),
    "quick": Profile(
        tasks=("reacher", "hopper"),
        seeds=8,
        task_settings={
            "reacher": {"steps": 200_000, "episode_length": 50},
            "hopper": {"steps": 300_000, "episode_length": 200},
        },
    ),
    "paper": Profile(
        tasks=("reacher", "hopper", "walker2d", "halfcheetah", "ant", "humanoid"),
        seeds=20,
        points=100,
        evaluations=20,
        evaluation_envs=64,
    ),
}
