"""The files in which trainings write their curves: CSV, JSON lines, TensorBoard, NumPy, text."""

from ablations.logs.reading import EVENTS, Log, NoValue, find, latest, read, rows
from ablations.logs.tensorboard import Events

__all__ = ["EVENTS", "Events", "Log", "NoValue", "find", "latest", "read", "rows"]
