"""The jitted programs that a composition of variants becomes. Importing this starts no JAX."""

from ablations.trainers.trainer import (
    Composer,
    Definition,
    Option,
    Trainer,
    Tree,
    Variant,
    composer,
    register,
    trainer,
    trainers,
)

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
