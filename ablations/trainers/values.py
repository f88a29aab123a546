"""Checks of users' settings: names of other libraries, and values by the type of their default.

This module works without the registry.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Mapping
from typing import TypeVar

from ablations.core.decode import Json
from ablations.errors import Note, UserError, unknown
from ablations.trainers.trainer import Option

T = TypeVar("T")


def number(name: str, value: Json, low: float, high: float) -> float:
    """Return a number within two inclusive bounds, or raise UserError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{name} must be a number, not {value!r}")
    if not low <= value <= high:
        raise UserError(f"{name}={value:g} is out of range: it goes from {low:g} to {high:g}")
    return float(value)


def count(name: str, value: Json, low: int) -> int:
    """Return an integer of at least `low`, or raise UserError."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} must be a whole number, not {value!r}")
    if value < low:
        raise UserError(f"{name} must be at least {low}, not {value}")
    return value


def option(name: str, value: Json, of: Option) -> Json:
    """Return a valid value of a static setting, or raise UserError."""
    value = like(name, value, of.default)
    if of.allowed is not None and value not in of.allowed:
        raise unknown(name, str(value), map(str, of.allowed))
    low, every = of.low, value if isinstance(value, list) else [value]
    if low is not None and any(isinstance(one, (int, float)) and one < low for one in every):
        raise UserError(f"{name} must be at least {of.low}, not {value}")
    return value


def like(name: str, value: Json, default: Json) -> Json:
    """Return a value of the default's type: bool, int, float, list of counts or text.

    Raises UserError for another type.
    """
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UserError(f"{name} must be true or false, not {value!r}")
        return value
    if isinstance(default, int):
        return count(name, value, 0)
    if isinstance(default, float):
        return number(name, value, -sys.float_info.max, sys.float_info.max)
    if isinstance(default, (list, tuple)):
        if not isinstance(value, (list, tuple)):
            raise UserError(f"{name} must be a list such as {list(default)}, not {value!r}")
        return [count(name, one, 1) for one in value]
    if not isinstance(value, str):
        raise UserError(f"{name} must be a text such as '{default}', not {value!r}")
    return value


# Names in CleanRL, SB3, Brax, RSL-RL, rejax, PureJaxRL, TorchRL and TRL that mean one setting.
FIELD_NAMES: Mapping[str, str] = {
    theirs: ours
    for ours, names in {
        "learning_rate": "lr",
        "discount": "gamma discounting",
        "gae_lambda": "lam lmbda",
        "entropy_coefficient": "ent_coef entropy_coef entropy_cost",
        "value_coefficient": "vf_coef value_loss_coef critic_coeff",
        "clip_epsilon": "clip clip_coef clip_eps clip_param clip_range clipping_epsilon cliprange",
        "value_clip_range": "clip_range_vf cliprange_value",
        "max_gradient_norm": "max_grad_norm",
        "adam_epsilon": "adam_eps",
        "unroll_length": "n_steps num_steps num_steps_per_env",
        "epochs": "n_epochs num_epochs num_learning_epochs num_ppo_epochs "
        "num_updates_per_batch update_epochs",
        "num_envs": "n_envs",
        "num_minibatches": "num_mini_batches",
        "activation": "activation_fn",
        "kl_coefficient": "beta kl_coef",
        "samples_per_prompt": "num_generations group_size",
        "perturbation_width": "rpo_alpha",
        "warmup_share": "warmup_ratio",
    }.items()
    for theirs in names.split()
}


def in_our_names(settings: Mapping[str, T], known: Collection[str]) -> dict[str, T]:
    """Translate other libraries' names of settings, with a note for each translation.

    known: the names of a trainer's settings, which are never translated. Raises UserError if a
        setting has two names.
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
