"""The files in which trainings write their curves: CSV, JSON lines, TensorBoard, NumPy, text."""

from ablations.logs.reading import Log, NoValue, find, latest, read
from ablations.logs.tensorboard import Events

__all__ = ["Events", "Log", "NoValue", "find", "latest", "read"]
