"""Trainers: their specifications and registry. Importing this does not start JAX."""

from ablations.trainers.spec import (
    TrainerSpec,
    component,
    composer,
    every_setting,
    number,
    number_default,
    register,
    static,
    trainer,
    trainers,
    unread,
)
from ablations.trainers.trainer import Option, TracedConfig, Trainer, Tree
