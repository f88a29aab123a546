"""The jitted programs that a composition of variants becomes."""

from ablations.trainers.control import settings as _ppo  # registers  # noqa: F401
from ablations.trainers.language import settings as _language  # registers  # noqa: F401
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
