"""Shares and bounds as they are typed."""

from __future__ import annotations

import argparse
import math


def share(text: str) -> float:
    """Parse a rate such as 5% or 0.05."""
    if not 0 < (value := _number(text)) < 0.5:
        raise argparse.ArgumentTypeError(f"a rate is such as 5% or 0.05, not '{text}'")
    return value


def chance(text: str) -> float:
    """Parse a chance below 50%, such as 10%, 0.1 or 0."""
    if not 0 <= (value := _number(text)) < 0.5:
        raise argparse.ArgumentTypeError(f"a chance is such as 10%, below 50%, not '{text}'")
    return value


def some_minutes(text: str) -> float:
    """Parse a positive number of minutes."""
    if text.endswith("%") or not 0 < (value := _number(text)) < 1e6:
        raise argparse.ArgumentTypeError(f"minutes are a positive number, not '{text}'")
    return value


def _number(text: str) -> float:
    """Parse 0.05 or 5%; NaN for what is no number."""
    try:
        return float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return math.nan
