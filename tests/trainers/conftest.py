"""Compiled programs are kept between runs of the tests, and shared by the tests of a run."""

from __future__ import annotations

import jax
import pytest


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.cache is not None
    jax.config.update("jax_compilation_cache_dir", str(pytestconfig.cache.mkdir("jax")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
