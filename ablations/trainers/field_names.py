"""Names of the field for settings that have another name here."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import TypeVar

from ablations.errors import Note, UserError

T = TypeVar("T")

# Of CleanRL, SB3, Brax, RSL-RL, rejax, PureJaxRL, TorchRL and TRL, where one name is one setting.
FIELD_NAMES: Mapping[str, str] = {
    "lr": "learning_rate",
    "gamma": "discount",
    "discounting": "discount",
    "lam": "gae_lambda",
    "lmbda": "gae_lambda",
    "ent_coef": "entropy_coefficient",
    "entropy_coef": "entropy_coefficient",
    "entropy_cost": "entropy_coefficient",
    "vf_coef": "value_coefficient",
    "value_loss_coef": "value_coefficient",
    "critic_coeff": "value_coefficient",
    "clip": "clip_epsilon",
    "clip_coef": "clip_epsilon",
    "clip_eps": "clip_epsilon",
    "clip_param": "clip_epsilon",
    "clip_range": "clip_epsilon",
    "clipping_epsilon": "clip_epsilon",
    "cliprange": "clip_epsilon",
    "clip_range_vf": "value_clip_range",
    "cliprange_value": "value_clip_range",
    "max_grad_norm": "max_gradient_norm",
    "adam_eps": "adam_epsilon",
    "n_steps": "unroll_length",
    "num_steps": "unroll_length",
    "num_steps_per_env": "unroll_length",
    "n_epochs": "epochs",
    "num_epochs": "epochs",
    "num_learning_epochs": "epochs",
    "num_ppo_epochs": "epochs",
    "num_updates_per_batch": "epochs",
    "update_epochs": "epochs",
    "n_envs": "num_envs",
    "num_mini_batches": "num_minibatches",
    "activation_fn": "activation",
    "beta": "kl_coefficient",
    "kl_coef": "kl_coefficient",
    "num_generations": "samples_per_prompt",
    "rpo_alpha": "perturbation_width",
    "warmup_ratio": "warmup_share",
}


def in_our_names(settings: Mapping[str, T], known: Collection[str]) -> dict[str, T]:
    """Return settings by the names that they have here, and note each that has another.

    Args:
        settings: name -> anything.
        known: the names that a trainer has. A name among them means itself.

    Raises:
        UserError: two names of one setting.
    """
    named: dict[str, T] = {}
    for name, value in settings.items():
        ours = FIELD_NAMES.get(name, name)
        ours = ours if name not in known and ours in known else name
        if ours in named:
            alias = next(one for one in (name, *settings) if FIELD_NAMES.get(one) == ours)
            raise UserError(f"{alias} is {ours} here: it is given twice, leave one of them out")
        if ours != name:
            warnings.warn(Note(f"{name} is {ours} here"), stacklevel=2)
        named[ours] = value
    return named
