"""PPO of seven libraries, each with its defaults, with equal budgets and networks."""

from ablations.studies.definition import Study, Variant, register
from ablations.studies.profiles import claims, control, evidence

LIBRARIES = {
    "brax": "Brax",
    "cleanrl": "CleanRL",
    "purejaxrl": "PureJaxRL",
    "rejax": "Rejax",
    "rsl_rl": "RSL-RL",
    "sb3": "Stable-Baselines3",
    "torchrl": "TorchRL",
}
DEFAULTS = {
    name: Variant(preset=name, summary=f"{library} as it comes")
    for name, library in LIBRARIES.items()
}

register(
    Study(
        name="library_defaults",
        title="Library defaults",
        claim=(
            "PPO is one algorithm, so libraries that agree on tasks, steps, environments, "
            "minibatches and networks should learn alike, whatever their defaults for the rest."
        ),
        claim_source=(
            "what comparisons of algorithms assume; doubted by Huang et al. 2022, The 37 "
            "Implementation Details of PPO"
        ),
        baseline="cleanrl",
        variants=DEFAULTS,
        margin=0.05,
        profiles=control(quick=DEFAULTS, paper=DEFAULTS)
        | claims(DEFAULTS, ("reacher", "inverted_double_pendulum", "hopper"))
        | evidence(DEFAULTS, seeds=40),
        geometry="common",
    )
)
