"""The files in which trainings write their curves: CSV, JSON lines, TensorBoard, NumPy, text."""

from ablations.logs.reading import EVENTS, Log, NoValueError, find, latest, read, rows
from ablations.logs.tensorboard import Events

__all__ = ["EVENTS", "Events", "Log", "NoValueError", "find", "latest", "read", "rows"]
