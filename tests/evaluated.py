"""Names of `synthetic` for tests that have not moved there."""

from synthetic import study

__all__ = ["study"]
