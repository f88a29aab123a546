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


def some(curves: Curves, seeds: Sequence[int]) -> Curves:
    return Curves({seed: curves.runs[seed] for seed in seeds})


def independent(
    random: np.random.Generator, seeds: Sequence[int], *, final: float = 0.0, area: float = 0.0
) -> Curves:
    """Curves of a trainer that loses each score by itself. Both scores have a spread of about 1
    between seeds, with a correlation of one half; `final` and `area` are what they have lost."""
    steps = np.arange(1.0, 21.0)
    late, share = steps > 18, 0.075  # of the area, under the points that make the final score
    early_level, own = random.normal(size=(2, len(seeds), 1))
    level = np.where(late, 0.5 * early_level + np.sqrt(0.75) * own, early_level)
    lost = np.where(late, final, (area - share * final) / (1 - share))
    rows = 40 * (1 - np.exp(-steps / 4)) + level - lost
    return from_user(rows, steps=steps, seeds=seeds)
