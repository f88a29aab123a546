"""Settings of the language trainer: its axes, numbers and structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from ablations.core.plan import Settings
from ablations.trainers.definition import Definition
from ablations.trainers.rates import BETAS, Betas, complaints_of
from ablations.trainers.trainer import Composition, Option, Program, Trainer
from variants import Number

if TYPE_CHECKING:
    from ablations.trainers.language.trainer import Language

if TYPE_CHECKING:
    pass

AXES = {
    "prompt_advantage": "per_prompt",
    "reward_transform": "raw",
    "policy_loss": "clip",
    "policy_loss_reduction": "token_mean",
    "kl_placement": "none",
    "gradient_clip": "global_norm",
    "learning_rate_schedule": "constant",
    "advantage": "standard",
    "token_statistics": "standardised",
    "value_error": "squared",
    "value_clip": "none",
    "completion_unit": "prompts",
    "minibatch_order": "redrawn",
}

OF_THE_STEP = (
    "policy_loss",
    "policy_loss_reduction",
    "kl_placement",
    "gradient_clip",
    "learning_rate_schedule",
)

NUMBERS = {
    "learning_rate": Number(3e-4, 0.0, 1.0, "step size of Adam"),
    "adam_epsilon": Number(1e-8, 0.0, 1.0, "added to Adam's denominator"),
    "entropy_coefficient": Number(0.0, 0.0, 10.0, "factor on the mean entropy"),
    "value_coefficient": Number(0.5, 0.0, 1e6, "factor on the mean value loss"),
    "critic_rate_factor": Number(1.0, 0.0, 1e6, "the critic's learning rate over the policy's"),
    "temperature": Number(1.0, 1e-3, 1e3, "divides the logits, in sampling and in training"),
    "log_ratio_clip": Number(
        1e30,
        1e-6,
        1e30,
        "bound of log π - log π_old in policy_loss; verl's and OpenRLHF's 20",
        neutral=1e30,
    ),
}

# Of numbers that choices bring, and that trainers differ in. A step is a token.
DEFAULTS = {"discount": 1.0, "gae_lambda": 1.0, "max_gradient_norm": 1.0}

# What is read with a critic, and what without one.
CRITICS = {
    "advantage",
    "token_statistics",
    "value_error",
    "value_clip",
    "value_coefficient",
    "critic_rate_factor",
}
WITHOUT_CRITIC = {"prompt_advantage"}
OF_MINIBATCHES = {"completion_unit", "minibatch_order"}

STRUCTURE = {
    "prompts": Option(16, "prompts of a batch", low=1),
    "samples_per_prompt": Option(4, "completions of each prompt", low=1),
    "num_minibatches": Option(1, "gradient steps per pass over a batch", low=1),
    "epochs": Option(1, "passes over a batch", low=1),
    "critic": Option(
        "none",
        "whether a decoder of its own estimates values: advantages are then those of the axis "
        "advantage, over tokens, instead of prompt_advantage",
        ("none", "separate"),
    ),
    "layers": Option(2, "of the decoder", low=1),
    "width": Option(64, "of the decoder, a multiple of twice the heads", low=2),
    "heads": Option(4, "of attention", low=1),
    "mlp_width": Option(128, "of the hidden layer after attention", low=1),
    "warm_start_steps": Option(0, "supervised steps on right answers before training", low=0),
    **BETAS,
}


class Structure(Betas):
    """The options of `STRUCTURE`."""

    prompts: int
    samples_per_prompt: int
    num_minibatches: int
    epochs: int
    critic: str
    layers: int
    width: int
    heads: int
    mlp_width: int
    warm_start_steps: int


def unread(composition: Composition) -> dict[str, str]:
    """Return the axes, numbers and options that the trainer does not read, and why."""
    structure = composition.structure
    with_critic = structure["critic"] == "separate"
    reasons = dict.fromkeys(
        WITHOUT_CRITIC if with_critic else CRITICS,
        "a critic estimates advantages" if with_critic else "there is no critic",
    )
    if structure["num_minibatches"] == 1:
        reasons |= dict.fromkeys(OF_MINIBATCHES, "the batch is one minibatch")
    return reasons


def compose(**program: Unpack[Program[Settings, Structure]]) -> Language:
    """Compose the trainer of one task and one structure."""
    from ablations.trainers.language import composing

    return composing.compose(AXES, **program)


def make(**program: Unpack[Program[Settings, Structure]]) -> Trainer:
    """Return the composed program in the form that the engine runs."""
    from ablations.trainers.language import composing

    return composing.as_trainer(compose(**program))


def compiles(structure: Structure) -> tuple[str, ...]:
    """Return the axes whose choice is compiled in.

    Where one step is taken on a batch, studies are about the advantage and not about the loss, and
    the program without its other choices compiles sooner.
    """
    one_step = structure["num_minibatches"] == structure["epochs"] == 1
    return OF_THE_STEP if one_step else ()


def iteration_steps(structure: Structure) -> int:
    """Return the completions of one iteration, which the step of a curve counts."""
    return structure["prompts"] * structure["samples_per_prompt"]


def check(
    *, structure: Structure, settings: Settings, numbers: Mapping[str, float] | None = None
) -> list[str]:
    """Return complaints about settings that do not fit together, in words."""
    complaints = complaints_of(structure)
    width, heads = structure["width"], structure["heads"]
    if width % (2 * heads):
        complaints.append(
            f"width={width} is not a multiple of {2 * heads}, twice heads={heads}: each head turns "
            f"pairs of entries"
        )
    if "kinds" not in settings:
        complaints.append(
            "the task has no prompts, which the trainer 'language' needs: choose one such as "
            "addition"
        )
    return complaints


DEFINITION = Definition(
    name="language",
    summary="policy gradients on a decoder-only transformer, on tasks with checked answers",
    axes=AXES,
    neutral={"completion_unit": "prompts", "minibatch_order": "redrawn"},
    numbers=NUMBERS,
    defaults=DEFAULTS,
    structure=STRUCTURE,
    unread=unread,
    compiles=compiles,
    make=make,
    iteration_steps=iteration_steps,
    step_unit="completion",
    ranked_by=("evaluation/greedy_accuracy", "training/accuracy"),
    check=check,
    revision=3,
)
