"""What workers are told. Plain data, so that whoever gives or looks up an order starts no JAX."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CANNOT_WRITE = 74  # a worker's exit code (EX_IOERR): another worker would not fare better


@dataclass(frozen=True)
class Keeping:
    """What is saved of cells on their way. None of it changes a result.

    minutes, steps: how often a cell's whole state is saved; None: not by that measure. checkpoints:
    how many of those stay, besides the best. snapshots: how many policies of a cell are kept,
    evenly spaced, besides the best; 0: none at all.
    """

    minutes: float | None = 1.0
    steps: int | None = None
    checkpoints: int = 2
    snapshots: int = 4


@dataclass(frozen=True)
class Order:
    """What a worker is told. Nothing but the cells decides a result.

    cells: {"hash", "config"} each. metric: what the progress display shows, and what the best
    policy is best at where nothing is evaluated.
    """

    run: str
    results: str
    cells: tuple[Mapping[str, Any], ...]
    plugins: tuple[str, ...] = ()
    lanes: int = 1
    accelerator: bool = False
    metric: str = "training/return"
    keeping: Keeping = field(default_factory=Keeping)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    patient: bool = True

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, path: Path) -> Order:
        fields = json.loads(path.read_text())
        return cls(
            **fields
            | {
                "cells": tuple(fields["cells"]),
                "plugins": tuple(fields["plugins"]),
                "keeping": Keeping(**fields["keeping"]),
            }
        )
