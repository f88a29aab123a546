from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from one_node import Cluster, missing


@pytest.fixture(scope="session", autouse=True)
def _require_slurm() -> None:
    if programs := missing():
        line = f"no {', '.join(programs)}: apt-get install slurm-wlm munge"
        if os.environ.get("REQUIRE_SLURM") == "1":
            pytest.fail(line)
        pytest.skip(line)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Cluster]]:
    """Starts real ones; ended after the module."""
    running = []

    def start(**settings: Any) -> Cluster:
        one = Cluster(tmp_path_factory.mktemp("slurm"), **settings)
        running.append(one)
        return one.start()

    yield start
    for one in running:
        one.stop()


@pytest.fixture(scope="module")
def slurm(clusters: Callable[..., Cluster]) -> Cluster:
    return clusters()


class Sweep:
    """`ablations` in an empty folder, and a Slurm that it submits to."""

    def __init__(self, shell: Any, cluster: Cluster):
        self.shell = shell
        self.cluster = cluster
        self.results: Path = shell.results
        own = {"XDG_CACHE_HOME": str(shell.folder / "cache")}
        shell.environment = cluster.environment | shell.toys | own

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.shell(*arguments, code=code)

    def private(self, part: str) -> Path:
        return self.shell.folder / "cache" / "rl-ablations" / part

    def submit(self, *arguments: str) -> str:
        """Four cells of 30 seconds, or none once they hurry, with a checkpoint every tenth."""
        pairs = zip(HELD[::2], HELD[1::2], strict=True)
        held = [word for pair in pairs if pair[0] not in arguments for word in pair]
        return self("run", "toy_held", *held, "--cluster", "slurm", *arguments).stdout

    def ask(self, *command: str) -> str:
        return self.cluster.ask(*command)

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """Meanwhile jobs are taken, and none starts."""
        self.ask("scontrol", "update", "PartitionName=main", "State=DOWN")
        try:
            yield
        finally:
            self.ask("scontrol", "update", "PartitionName=main", "State=UP")

    def jobs(self) -> list[str]:
        """Slurm's ids of those of this folder that wait or run: the cluster is shared, and a job of
        an earlier test may end late."""
        lines = self.ask("squeue", "-h", "-r", "-O", "JobArrayID:64,StdOut:4096").splitlines()
        return [line.split()[0] for line in lines if f"{self.shell.folder}/" in line]

    def rows(self) -> list[dict[str, Any]]:
        return json.loads(self("status", "--format", "json").stdout)

    def beats(self) -> dict[str, dict[str, Any]]:
        """The heartbeats of the cells that are training."""
        found = {}
        for path in self.results.glob("work/*/heartbeat.json"):
            try:
                beat = json.loads(path.read_text())
            except (FileNotFoundError, ValueError):
                continue
            if beat["phase"] == "training":
                found[path.parent.name] = beat
        return found

    def until(self, ready: Callable[[], Any], what: str, seconds: float = 600) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if value := ready():
                return value
            time.sleep(0.1)
        logs = [path.read_text(errors="replace") for path in self.results.glob("work/logs/*")]
        queue = self.ask("squeue", "-t", "all")
        raise AssertionError("\n".join([f"waited {seconds} s for {what}", queue, *logs]))

    def trains(self) -> dict[str, dict[str, Any]]:
        """Waits until cells have checkpoints and are on their way."""

        def on_their_way() -> dict[str, dict[str, Any]]:
            kept = {path.parents[1].name for path in self.results.glob("work/*/checkpoints/[0-9]*")}
            return {cell: beat for cell, beat in self.beats().items() if cell in kept}

        return self.until(on_their_way, "a checkpoint")

    def finished(self, cells: int = 4) -> dict[str, bytes]:
        """Waits until every cell, in a hurry, has a record; returns their curves."""
        self.shell.hurry()
        self.until(
            lambda: len(list(self.results.glob("cells/[!.]*/record.json"))) == cells, "the end"
        )
        return self.shell.curves()

    def records(self) -> list[dict[str, Any]]:
        paths = sorted(self.results.glob("cells/[!.]*/record.json"))
        return [json.loads(path.read_text()) for path in paths]


HELD = ("--seeds", "2", "--steps", "600", "--checkpoint-steps", "60", "--set", "points=30")


@pytest.fixture(scope="session")
def undisturbed(shells: Any) -> dict[str, bytes]:
    """The curves of what `Sweep.submit` computes, from processes of this machine."""
    one = shells()
    one.hurry()
    one("run", "toy_held", "--quiet", *HELD)
    return one.curves()


@pytest.fixture(scope="module")
def sweeps(shells: Any, clusters: Callable[..., Cluster]) -> Callable[..., Sweep]:
    """In a new folder, on a new cluster with these settings."""
    return lambda **settings: Sweep(shells(), clusters(**settings))


@pytest.fixture
def sweep(shells: Any, slurm: Cluster) -> Iterator[Sweep]:
    yield Sweep(shells(), slurm)
    slurm.ask("scancel", "--user", str(os.getuid()))
