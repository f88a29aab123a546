"""Runs `ablations` in forks of a process that has imported it: a process of its own for every
command, as a user's, without the seconds of CPU that its imports take.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from subprocess import CompletedProcess

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["imported"])


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> CompletedProcess[str]:
    """The outcome of `ablations ARGUMENTS` in a folder, as `subprocess.run` tells it."""
    started_with = os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
    forkserver.ensure_running()  # JAX reads it when it is imported: here there is none yet
    if started_with is not None:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = started_with
    with tempfile.TemporaryDirectory() as said:
        texts = Path(said) / "out", Path(said) / "err"
        process = _CONTEXT.Process(
            target=_main, args=(list(arguments), str(folder), dict(environment), *map(str, texts))
        )
        process.start()
        process.join(seconds)
        if process.exitcode is None:
            process.kill()
            raise TimeoutError(f"ablations {' '.join(arguments)}: {seconds} s")
        return CompletedProcess(
            list(arguments), process.exitcode, *(text.read_text() for text in texts)
        )


def _main(
    arguments: list[str], folder: str, environment: dict[str, str], out: str, err: str
) -> None:
    for path, descriptor in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, folder)
    sys.argv = ["ablations", *arguments]
    if cache := environment.get("JAX_COMPILATION_CACHE_DIR"):
        import jax

        jax.config.update("jax_compilation_cache_dir", cache)
    from ablations.cli import main

    sys.exit(main(arguments))
