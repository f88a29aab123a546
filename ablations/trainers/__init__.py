"""Trainers: their specifications and registry. Importing this does not start JAX."""

from ablations.trainers.spec import (
    Composer,
    TrainerSpec,
    component,
    composer,
    number,
    number_default,
    register,
    static,
    trainer,
    trainers,
)
from ablations.trainers.trainer import Option, TracedConfig, Trainer, Tree
