"""The jitted programs that a composition of variants becomes. Importing this starts no JAX."""

from ablations.trainers.trainer import (
    Definition,
    Option,
    Trainer,
    Variant,
    register,
    trainer,
    trainers,
)

__all__ = [
    "Definition",
    "Option",
    "Trainer",
    "Variant",
    "register",
    "trainer",
    "trainers",
]
