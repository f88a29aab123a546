"""When advantages and value targets are computed: a loop axis."""

from variants.registry import Axis

AXIS = Axis(
    "advantage_timing",
    summary="how old the critic is that advantages and value targets are computed with",
)

AXIS.declare(
    "iteration",
    formula="A, target from V(θ at rollout), once per batch",
    source="CleanRL, Stable-Baselines3, RSL-RL, OpenAI Baselines",
    summary="once, before the first gradient step on a batch",
)
AXIS.declare(
    "epoch",
    formula="A, target from V(θ at the start of each pass over the batch)",
    source="TorchRL (sota-implementations/ppo), SEED RL (split_with_advantage_recomputation)",
    summary="again before every pass over the batch, with the critic of that moment",
)
AXIS.declare(
    "minibatch",
    formula="A, target from V(θ now), for the segments of each minibatch",
    source="Brax (brax/training/agents/ppo/losses.py), SEED RL (batch_mode=shuffle)",
    summary="within every minibatch, with the critic that is being trained",
)
