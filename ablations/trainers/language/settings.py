"""What one can set on the language trainer: its axes, coefficients and structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.tasks.task import Task
from ablations.trainers.trainer import Coefficient, Definition, Option, Trainer, register

AXES = {
    "prompt_advantage": "per_prompt",
    "reward_transform": "raw",
    "policy_loss": "clip",
    "policy_loss_reduction": "token_mean",
    "kl_placement": "none",
    "gradient_clip": "global_norm",
    "learning_rate_schedule": "constant",
    "advantage": "standard",
    "value_error": "squared",
    "value_clip": "none",
}

COEFFICIENTS = {
    "learning_rate": Coefficient(3e-4, 0.0, 1.0, "step size of Adam"),
    "desired_kl": Coefficient(
        0.01, 1e-8, 1e3, "divergence per batch that learning_rate_schedule=adaptive_kl aims at"
    ),
    "adam_epsilon": Coefficient(1e-8, 0.0, 1.0, "added to Adam's denominator"),
    "max_gradient_norm": Coefficient(
        1.0, 0.0, 1e6, "limit of gradient_clip, of the whole gradient or of each entry"
    ),
    "reward_clip": Coefficient(10.0, 1e-6, 1e6, "bound of reward_transform=clipped"),
    "advantage_clip": Coefficient(
        1e6, 1e-6, 1e6, "bound of a sample's advantage before KL and token statistics"
    ),
    "clip_epsilon": Coefficient(0.2, 0.0, 10.0, "ε of the clipped policy ratio"),
    "clip_epsilon_high": Coefficient(0.28, 0.0, 10.0, "its upper ε for the choices with two"),
    "dual_clip": Coefficient(3.0, 1.0, 1e6, "c of policy_loss=dual_clip"),
    "penalty_coefficient": Coefficient(
        1.0, 0.0, 1e6, "β of policy_loss=kl_penalty, against the policy that sampled"
    ),
    "kl_coefficient": Coefficient(
        0.01, 0.0, 1e6, "β of kl_placement, against the reference policy"
    ),
    "entropy_coefficient": Coefficient(0.0, 0.0, 10.0, "factor on the mean entropy"),
    "discount": Coefficient(1.0, 0.0, 1.0, "per token, with a critic"),
    "lambda_": Coefficient(1.0, 0.0, 1.0, "of the advantage estimate, with a critic"),
    "value_coefficient": Coefficient(0.5, 0.0, 1e6, "factor on the mean value loss"),
    "value_clip_range": Coefficient(0.2, 0.0, 1e6, "ε of value_clip, in units of reward"),
    "error_scale": Coefficient(1.0, 1e-6, 1e6, "δ of value_error=huber, β of smooth_l1"),
}

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
    # A model that is read from a folder brings its own numbers instead of these five.
    "layers": Option(2, "of the decoder", low=1),
    "width": Option(64, "of the decoder, a multiple of twice the heads", low=2),
    "heads": Option(4, "of attention", low=1),
    "mlp_width": Option(128, "of the hidden layer after attention", low=1),
    "warm_start_steps": Option(0, "supervised steps on right answers before training", low=0),
}


def make(
    *,
    task: Task,
    settings: Mapping[str, Any],
    structure: Mapping[str, Any],
    updates_per_chunk: int,
    evaluation_envs: int = 256,
    choices: Mapping[str, str] | None = None,
) -> Trainer:
    """The composed program in the form that the engine runs; see `Definition.make`."""
    language = compose(
        task=task,
        settings=settings,
        structure=structure,
        updates_per_chunk=updates_per_chunk,
        evaluation_envs=evaluation_envs,
        choices=choices,
    )
    return Trainer(
        init=language.init,
        chunk=language.chunk,
        evaluate=language.evaluate,
        policy=language.policy,
        steps_per_chunk=updates_per_chunk * iteration_steps(structure),
        act=language.act,
    )


def compose(
    *,
    task: Task,
    settings: Mapping[str, Any],
    structure: Mapping[str, Any],
    updates_per_chunk: int,
    evaluation_envs: int = 256,
    choices: Mapping[str, str] | None = None,
) -> Any:
    """The trainer of one task and one structure. Its warm start is made here, if it is not kept."""
    from ablations.trainers.language.decoder import make_decoder
    from ablations.trainers.language.trainer import Language

    start = _pretrained if "model" in settings else _taught
    problems, config, reference, special, length = start(task.make(settings), structure)
    return Language(
        problems=problems,
        decoder=make_decoder(config),
        reference=reference,
        special=special,
        prompts=structure["prompts"],
        samples=structure["samples_per_prompt"],
        length=length,
        num_minibatches=structure["num_minibatches"],
        epochs=structure["epochs"],
        critic=structure["critic"],
        updates_per_chunk=updates_per_chunk,
        evaluation_prompts=evaluation_envs,
        fixed=dict(choices or {}),
    )


def _taught(problems: Any, structure: Mapping[str, Any]) -> tuple[Any, ...]:
    """A small decoder for the generated problems: (problems, its config, parameters, special
    tokens, the longest response)."""
    from ablations.tasks.language import puzzles
    from ablations.trainers.language.completions import Special
    from ablations.trainers.language.decoder import DecoderConfig
    from ablations.trainers.language.warm_start import warm_start

    config = DecoderConfig(
        vocabulary=len(puzzles.VOCABULARY),
        width=structure["width"],
        layers=structure["layers"],
        heads=structure["heads"],
        kv_heads=structure["heads"],
        head_width=structure["width"] // structure["heads"],
        mlp_width=structure["mlp_width"],
    )
    special = Special(puzzles.PAD, puzzles.END)
    reference = warm_start(config, problems, special, structure["warm_start_steps"])
    return problems, config, reference, special, puzzles.RESPONSE_LENGTH


def _pretrained(problems: Any, structure: Mapping[str, Any]) -> tuple[Any, ...]:
    """The model of a folder, and problems in its tokens; as `_taught`."""
    from ablations.trainers.language import pretrained
    from ablations.trainers.language.completions import Special

    config = pretrained.read_config(problems.model)
    tokens = pretrained.read_tokens(problems.model, config)
    return (
        problems.encoded(tokens, config.vocabulary),
        config,
        pretrained.read_parameters(problems.model, config),
        Special(tokens.pad, tokens.end),
        problems.response_length,
    )


def iteration_steps(structure: Mapping[str, Any]) -> int:
    """Completions of one iteration: what the step of a curve counts."""
    return structure["prompts"] * structure["samples_per_prompt"]


def check(
    *,
    structure: Mapping[str, Any],
    settings: Mapping[str, Any],
    coefficients: Mapping[str, float] | None = None,
) -> list[str]:
    """What does not fit together, in words."""
    complaints = []
    prompts, minibatches = structure["prompts"], structure["num_minibatches"]
    if prompts % minibatches:
        complaints.append(f"prompts={prompts} is not divisible by num_minibatches={minibatches}")
    width, heads = structure["width"], structure["heads"]
    if width % (2 * heads):
        complaints.append(
            f"width={width} is not a multiple of {2 * heads}, twice heads={heads}: each head turns "
            f"pairs of entries"
        )
    if not {"kinds", "model"} & settings.keys():
        complaints.append(
            "the task has no prompts, which the trainer 'language' needs: choose one such as "
            "addition"
        )
    return complaints


LANGUAGE_DEFINITION = register(
    Definition(
        name="language",
        summary="policy gradients on a decoder-only transformer, on tasks with checked answers",
        axes=AXES,
        coefficients=COEFFICIENTS,
        structure=STRUCTURE,
        make=make,
        iteration_steps=iteration_steps,
        check=check,
    )
)
