"""Environments: the form of one, and adapters of other libraries' to it. Importing starts JAX."""

from ablations.environments.adapters import adapted
from ablations.environments.environment import (
    Actions,
    Box,
    Discrete,
    Environment,
    Observations,
    State,
    Step,
)

__all__ = [
    "Actions",
    "Box",
    "Discrete",
    "Environment",
    "Observations",
    "State",
    "Step",
    "adapted",
]
