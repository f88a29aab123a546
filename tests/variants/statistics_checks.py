"""What variants/advantage_statistics.py must satisfy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from oracles import check_of, close


def grouped_samples(seed: int, B: int = 48) -> tuple[Any, Any]:
    """Five groups, among them a constant one (2), a single sample (3), and an empty one (4)."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 1, 2], B // 3)
    groups[5] = 3
    advantages = rng.normal(loc=[3.0, -40.0, 0.0, 1.0], scale=[1.0, 20.0, 1.0, 1.0], size=(B, 4))
    advantages = advantages[np.arange(B), groups]
    advantages[groups == 2] = 0.9
    order = rng.permutation(B)
    return jnp.asarray(advantages[order], jnp.float32), jnp.asarray(groups[order], jnp.int32)


@check_of("advantage_statistics")
def statistics_equal_loop(module: ModuleType) -> None:
    advantages, groups = grouped_samples(0)
    a, g = np.asarray(advantages, np.float64), np.asarray(groups)
    for ddof, epsilon in ((0, 1e-8), (1, 1e-8), (1, 0.1)):
        expected = {"none": a, "all": (a - a.mean()) / (a.std(ddof=ddof) + epsilon)}
        grouped = []
        for sample, group in zip(a, g, strict=True):
            peers = a[g == group]
            if len(peers) <= ddof or np.all(peers == peers[0]):
                grouped.append(0.0)
            else:
                grouped.append((sample - peers.mean()) / (peers.std(ddof=ddof) + epsilon))
        expected["per_group"] = np.asarray(grouped)
        for choice, numbers in expected.items():
            got = module.AXIS.apply(
                choice,
                advantages=advantages,
                groups=groups,
                num_groups=5,
                ddof=ddof,
                epsilon=epsilon,
            )
            close(got, numbers)


@check_of("advantage_statistics")
def constant_sets_give_exact_zeros(module: ModuleType) -> None:
    """Their mean is off by rounding, which a tiny epsilon would blow up to large advantages."""
    for constant in (0.9, -7.3, 1e6):
        for size in (3, 7, 48):
            advantages = jnp.full((size,), constant, jnp.float32)
            for choice in ("all", "per_group"):
                for ddof in (0, 1):
                    got = module.AXIS.apply(
                        choice,
                        advantages=advantages,
                        groups=jnp.zeros((size,), jnp.int32),
                        num_groups=2,
                        ddof=ddof,
                        epsilon=1e-9,
                    )
                    assert np.all(np.asarray(got) == 0), (choice, constant, size)


@check_of("advantage_statistics")
def too_small_sets_give_exact_zeros(module: ModuleType) -> None:
    for choice in ("all", "all_floored", "per_group"):
        for ddof in (1, 2):
            sizes = range(1, ddof + 1)
            for size in sizes:
                got = module.AXIS.apply(
                    choice,
                    advantages=jnp.arange(size, dtype=jnp.float32) + 2,
                    groups=jnp.zeros((size,), jnp.int32),
                    num_groups=1,
                    ddof=ddof,
                )
                assert np.all(np.asarray(got) == 0), (choice, ddof, size)
