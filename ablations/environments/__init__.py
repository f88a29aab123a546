"""The interface of environments, and adapters for other libraries. Imports JAX."""

from ablations.environments.adapters import adapted as adapted
from ablations.environments.environment import Actions as Actions
from ablations.environments.environment import Box as Box
from ablations.environments.environment import Discrete as Discrete
from ablations.environments.environment import Environment as Environment
from ablations.environments.environment import Observations as Observations
from ablations.environments.environment import State as State
from ablations.environments.environment import Step as Step
