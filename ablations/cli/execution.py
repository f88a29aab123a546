"""The flags of what runs cells: where they run, and what is saved on the way."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablations.cli.arguments import add_flags, minutes, natural, positive
from ablations.errors import UserError
from ablations.sweep.job import CheckpointPolicy
from ablations.sweep.slurm.cluster import Cluster, read_cluster

_CLUSTER = (
    *("partition", "time", "cpus", "gpus", "memory", "account", "qos", "constraint"),
    *("at_once", "job_minutes", "setup"),
)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `cluster` reads."""
    group = parser.add_argument_group("where it runs")
    add_flags(
        group,
        {
            "--cluster local|debug|slurm|FILE.toml": "processes on this machine (default), this "
            "process, or jobs of Slurm, whose settings "
            "may come from a file; the flags below win over it"
        },
        default="local",
    )
    add_flags(
        group,
        {
            "--lanes N": "cells per accelerator program",
            "--threads N": "of each command of a study file; default: its share of the cores",
            "--cpus N": "cores of a job; default: 4",
            "--at-once N": "jobs of an array side by side; default: 256",
        },
        type=positive,
    )
    add_flags(
        group,
        {
            "--partition P": None,
            "--time T": "limit of a job, such as 90 or 1-12:00:00",
            "--gpus N": "of a job, or TYPE:N such as a100:2; default: none",
            "--memory M": "of a job, such as 16G; default: as measured; none: not asked for",
            "--account A": None,
            "--qos Q": None,
            "--constraint C": None,
        },
    )
    add_flags(
        group,
        {"--job-minutes N": "how long a job should take; default: 30; 0: one cell per worker"},
        type=natural,
    )
    add_flags(group, {"--setup LINE": "of shell, before the job; repeatable"}, action="append")


def cluster(options: argparse.Namespace) -> Cluster | None:
    """Return what `--cluster` and its flags ask for; None: this machine."""
    flags: Mapping[str, Any] = {name: getattr(options, name) for name in _CLUSTER}
    if options.cluster in ("local", "debug"):
        given = [name for name, value in flags.items() if value is not None]
        if given:
            flag = "--" + given[0].replace("_", "-")
            raise UserError(f"{flag} is for --cluster slurm: here there are --workers and --lanes")
        return None
    path = None if options.cluster == "slurm" else Path(options.cluster)
    return read_cluster(path, {**flags, "lanes": options.lanes, "threads": options.threads})


def add_keeping(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `keeping` reads."""
    group = parser.add_argument_group("what is saved on the way (changes no result)")
    add_flags(
        group,
        {
            "--checkpoint-minutes M": "how often a running cell's whole state is saved; default: "
            "1; 0: not by time"
        },
        type=minutes,
        default=1.0,
    )
    add_flags(group, {"--checkpoint-steps N": "or by its environment steps"}, type=positive)
    add_flags(
        group,
        {
            "--keep-checkpoints N": "how many of those stay until the cell is done, besides the "
            "best; default: 2"
        },
        type=positive,
        default=2,
    )
    add_flags(
        group,
        {
            "--keep-policies N": "policies kept for good, evenly spaced, besides the best; "
            "default: 4; 0: none"
        },
        type=natural,
        default=4,
    )


def keeping(options: argparse.Namespace) -> CheckpointPolicy:
    """Return what is saved while cells run."""
    return CheckpointPolicy(
        minutes=options.checkpoint_minutes,
        steps=options.checkpoint_steps,
        checkpoints=options.keep_checkpoints,
        snapshots=options.keep_policies,
    )
