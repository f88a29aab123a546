"""Define job specifications: plain data, so that writing or reading one starts no JAX."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ablations.core.decode import Part, encode
from ablations.core.files import read_json
from ablations.core.record import Checkout
from ablations.records import write_atomically
from ablations.sweep.backends import Backend
from ablations.sweep.cell import Cell, backend_of_all
from ablations.sweep.claims import published

CANNOT_GO_ON = 74  # a worker's exit code (EX_IOERR): another worker would not fare better
NO_ROOM_HINT = "make room or give another --results; what is done is safe"
STOP_SECONDS = 5.0


class Keeping(Part, frozen=True):
    """The checkpoint policy: how often runs are saved, and how much stays. It changes no result.

    minutes, steps: how often the whole state of a run is saved; None: not by that measure.
    checkpoints: how many of those stay, besides the best. snapshots: how many policies of a run are
    kept, evenly spaced, besides the best; 0: none at all.
    """

    minutes: float | None = 1.0
    steps: int | None = None
    checkpoints: int = 2
    snapshots: int = 4


class Order(Part, frozen=True):
    """A job specification, one file. Nothing but the cells decides a result.

    run: its name, in logs and claims. results: where records go. workers: processes. lanes:
    parallel runs in each. threads: of each command, as a flag asks; None: its share of the cores.
    waits: workers stay until every run has a record, also those that others compute; else they
    end when no run is left that nobody computes. stop_seconds: the time that workers have to save
    their state when they are asked to end.
    """

    run: str
    results: str
    cells: tuple[Cell, ...]
    workers: int = 1
    lanes: int = 1
    accelerator: bool = False
    threads: int | None = None
    waits: bool = True
    stop_seconds: float = STOP_SECONDS
    plugins: tuple[str, ...] = ()
    keeping: Keeping = Keeping()
    provenance: Checkout = msgspec.field(default_factory=Checkout)

    @property
    def backend(self) -> Backend:
        """Return the backend of its cells."""
        return backend_of_all(self.cells)

    @property
    def left(self) -> tuple[Cell, ...]:
        """Return its cells that have no record yet."""
        results = Path(self.results)
        return tuple(cell for cell in self.cells if not published(results, cell.hash))

    def stop(self, reason: str) -> None:
        """Let no worker begin another run. reason: in a line, for people."""
        write_atomically(self._stop, reason)

    @property
    def stopped(self) -> str | None:
        """Return why its remaining cells are not to be begun; None where they are."""
        try:
            reason = self._stop.read_text()
        except FileNotFoundError:
            return None
        return reason if self.left else None

    def close(self) -> None:
        """Delete the stop file that workers share."""
        self._stop.unlink(missing_ok=True)

    @property
    def _stop(self) -> Path:
        return Path(self.results) / "work" / "orders" / f"{self.run}.stopped"

    def write(self, path: Path) -> Path:
        """Write the order as JSON; return the path."""
        write_atomically(path, encode(self))
        return path

    @classmethod
    def read(cls, path: Path) -> Order:
        """Read a job specification.

        Raises:
            Foreign: the file is damaged.
        """
        return read_json(path, cls)
