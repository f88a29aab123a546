"""The language trainer of one task and one structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

import jax

from ablations.core.plan import Settings
from ablations.tasks.language import puzzles
from ablations.trainers.language.completions import Special
from ablations.trainers.language.decoder import DecoderConfig, make_decoder
from ablations.trainers.language.trainer import Language
from ablations.trainers.language.warm_start import warm_start
from ablations.trainers.optimizer import Rule
from ablations.trainers.trainer import Program, Trainer, Tree

if TYPE_CHECKING:
    from ablations.trainers.language.settings import Structure


def compose(axes: Mapping[str, str], **program: Unpack[Program[Settings, Structure]]) -> Language:
    """Compose the trainer of one task and one structure. axes: with their defaults."""
    structure = program["structure"]
    problems = program["task"].made(program["settings"])
    config = DecoderConfig(
        vocabulary=len(puzzles.VOCABULARY),
        width=structure["width"],
        layers=structure["layers"],
        heads=structure["heads"],
        mlp_width=structure["mlp_width"],
    )
    special = Special(puzzles.PAD, puzzles.END)

    def start(seed: int) -> Tree:
        return warm_start(config, problems, special, structure["warm_start_steps"], seed)

    return Language(
        problems=problems,
        decoder=make_decoder(config),
        start=start,
        special=special,
        prompts=structure["prompts"],
        samples=structure["samples_per_prompt"],
        length=problems.mixture.response_length,
        num_minibatches=structure["num_minibatches"],
        epochs=structure["epochs"],
        critic=structure["critic"],
        updates_per_chunk=program["updates_per_chunk"],
        evaluation_prompts=program.get("evaluation_envs", 256),
        rule=Rule(beta1=structure["adam_beta1"], beta2=structure["adam_beta2"]),
        fixed={"completion_unit": axes["completion_unit"], **program.get("choices", {})},
    )


def as_trainer(language: Language) -> Trainer:
    """Return the composed program in the form that the engine runs."""
    return Trainer(
        init=language.init,
        chunk=language.chunk,
        evaluate=language.evaluate,
        policy=language.policy,
        steps_per_chunk=language.updates_per_chunk * language.prompts * language.samples,
        act=language.act,
        start=language.start,
        given=jax.eval_shape(language.decoder.init, jax.random.key(0)),
    )
