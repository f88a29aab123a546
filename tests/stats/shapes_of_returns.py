"""Shapes that returns take over seeds, as generators: (random, size) -> scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Generator = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]

SHAPES: Mapping[str, Generator] = {
    "normal": lambda random, size: random.normal(size=size),
    "skewed up": lambda random, size: np.exp(0.75 * random.normal(size=size)),
    "skewed down": lambda random, size: -random.exponential(size=size),
    "half collapse": lambda random, size: (
        np.where(random.random(size) < 0.5, 0.0, 3.0) + 0.5 * random.normal(size=size)
    ),
    "quarter collapse": lambda random, size: (
        np.where(random.random(size) < 0.25, -6.0, 0.0) + random.normal(size=size)
    ),
    "ceiling with atom": lambda random, size: np.minimum(random.normal(size=size), 0.5),
    "near ceiling": lambda random, size: random.beta(5, 1, size=size),
    "heavy tails": lambda random, size: random.standard_t(3, size=size),
}
