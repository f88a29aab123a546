"""Small programs too are kept between runs of the tests."""

from __future__ import annotations

import jax

jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
