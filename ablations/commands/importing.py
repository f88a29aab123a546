"""The command `import`."""

from ablations.io.imports import import_runs

__all__ = ["import_runs"]
