"""The jitted programs that a composition of variants becomes."""

from ablations.trainers import language_settings as _language  # registers  # noqa: F401
from ablations.trainers import ppo_settings as _ppo  # registers  # noqa: F401
from ablations.trainers.trainer import (
    Coefficient,
    Definition,
    Option,
    Trainer,
    Variant,
    register,
    trainer,
    trainers,
)

__all__ = [
    "Coefficient",
    "Definition",
    "Option",
    "Trainer",
    "Variant",
    "register",
    "trainer",
    "trainers",
]
