"""The files in which trainings write their curves: CSV, JSON lines, TensorBoard, NumPy, text."""

from ablations.logs.reading import Log, NoValue, find, latest, read

__all__ = ["Log", "NoValue", "find", "latest", "read"]
