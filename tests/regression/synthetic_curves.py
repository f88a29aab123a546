"""Curves of a made-up trainer, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ablations.regression.curves import Curves, from_user

STEPS = 500 * np.arange(1, 21)


def array(seeds: Sequence[int], loss: float = 0.0, stream: int = 0) -> np.ndarray:
    """Returns `[seeds, 20]`, each row from its seed alone: from 0 up to about 40, a lasting spread
    of 1 between seeds and noise of 0.5; `loss` off the end. stream: other code, other numbers."""
    rows = []
    for seed in seeds:
        random = np.random.default_rng([stream, seed])
        level = random.normal()
        rise = (40 - loss) * (1 - np.exp(-np.arange(1, 21) / 5))
        rows.append(rise + level + 0.5 * random.normal(size=20))
    return np.array(rows)


def made(seeds: Sequence[int], loss: float = 0.0, stream: int = 0) -> Curves:
    return from_user(array(seeds, loss, stream), steps=STEPS, seeds=seeds)
