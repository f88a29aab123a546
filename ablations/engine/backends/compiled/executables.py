"""Cache compiled programs on disk, so that they are neither traced nor compiled again.

JAX's own cache only saves the compilation; tracing takes two thirds of the time before the first
step. Here, each file contains a function of a program. Its name is a digest of the program, our
code, the libraries, JAX's settings and the processor. Unreadable files are ignored. There is no
cache with plugins, whose imports no digest covers, and on accelerators, where it is untested.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
from filelock import FileLock, Timeout
from jax.experimental import serialize_executable
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from ablations import plugins
from ablations.core.decode import Json
from ablations.core.files import digest_of_files
from ablations.engine.machine import processor
from ablations.engine.provenance import OUR_ROOT, versions
from ablations.records import digest, write_atomically
from ablations.trainers import Tree

OURS = ("ablations/trainers", "ablations/tasks", "ablations/engine", "variants")
THEIRS = ("brax", "flax", "optax")  # may be edited in place


class Compiled(NamedTuple):
    """A compiled function. about: shapes of its result. lasts: whether it can be cached."""

    function: jax.stages.Compiled
    about: Tree = None
    lasts: bool = True


def place(function: str, *identity: Json) -> Path | None:
    """Return the path of a cached executable, named by some values; None: it is not cached."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    if not folder or plugins.loaded() or [device.platform for device in jax.devices()] != ["cpu"]:
        return None
    return Path(folder) / f"{function}-{digest([*identity, _setting()])}.program"


def find_or_make(path: Path | None, make: Callable[[], Compiled]) -> Compiled:
    """Return the cached executable of a path, or make and cache it."""
    if path is None:
        return make()
    if (found := _find(path)) is not None:
        return found
    # Processes that work in other folders may share the cache.
    with _one_at_a_time(path):
        if (found := _find(path)) is not None:
            return found
        with _without_cache_of_jax():
            made = make()
        if made.lasts:
            _keep(path, made)
    return made


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Hold the lock of a cache file, if the file system has locks."""
    lock = FileLock(f"{path}.lock")
    with contextlib.suppress(OSError, NotImplementedError):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def by_turns(parts: Mapping[str, Callable[[], Tree]], locks: Path | None) -> None:
    """Run each part once, and last those that another process is running and will cache.

    locks: the shared folder of the parts' locks; None: no other process runs the parts.
    """
    left = dict(parts)
    for waits in (False, True):
        for name, part in list(left.items()):
            try:
                lock = FileLock(locks / f"{name}.lock").acquire(blocking=waits) if locks else None
            except Timeout:
                continue
            with lock or nullcontext():
                part()
            del left[name]


def _find(path: Path) -> Compiled | None:
    try:
        executable, about = pickle.loads(zlib.decompress(path.read_bytes()))
        _load_lapack()
        return Compiled(serialize_executable.deserialize_and_load(*executable), about)
    except Exception:  # missing, damaged, or of another jaxlib
        return None


@functools.cache
def _load_lapack() -> None:
    """Load LAPACK, as JAX does when it traces a program that calls it; else a program crashes."""
    jax.jit(jnp.linalg.qr).lower(jax.ShapeDtypeStruct((1, 1), jnp.float32))


def _keep(path: Path, made: Compiled) -> None:
    try:
        kept = pickle.dumps((serialize_executable.serialize(made.function), made.about))
        write_atomically(path, zlib.compress(kept, 1), lasting=False)
    except Exception:  # it contains a local class, or the disc is full
        return


@contextlib.contextmanager
def _without_cache_of_jax() -> Iterator[None]:
    """Turn JAX's cache off, because executables from that cache cannot be serialized."""
    reset_cache()
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
        reset_cache()


def _setting() -> dict[str, Json]:
    """Return everything that affects machine code besides the program."""
    device = jax.devices()[0]
    settings = {name: str(value) for name, value in sorted(jax.config.values.items())}
    return {
        "code": _code(),
        "versions": dict(versions()),
        "settings": {name: value for name, value in settings.items() if "cache" not in name},
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("XLA_", "JAX_", "ONEDNN_", "NPROC")) and "CACHE" not in name
        },
        "device": [device.device_kind, device.client.platform_version, processor()],
    }


@functools.cache
def _code() -> str:
    """Digest our files by content, and `THEIRS` by date."""
    ours = [path for folder in OURS for path in _files(OUR_ROOT / folder)]
    specs = filter(None, map(importlib.util.find_spec, THEIRS))
    folders = [folder for spec in specs for folder in spec.submodule_search_locations or ()]
    theirs = [path for folder in folders for path in _files(Path(folder))]
    dates = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in theirs]
    return digest([digest_of_files((path.relative_to(OUR_ROOT), path) for path in ours), dates])


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))
