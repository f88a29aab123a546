"""The jitted programs that a composition of variants becomes. Importing this starts no JAX."""

from ablations.trainers.definition import (
    Composer,
    Definition,
    composer,
    register,
    trainer,
    trainers,
)
from ablations.trainers.trainer import Option, Trainer, Tree, Variant

__all__ = [
    "Composer",
    "Definition",
    "Option",
    "Trainer",
    "Tree",
    "Variant",
    "composer",
    "register",
    "trainer",
    "trainers",
]
