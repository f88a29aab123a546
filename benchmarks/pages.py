"""Shared functions of the scripts that write pages under results/reference."""

from __future__ import annotations

from pathlib import Path

from ablations.engine.machine import cores, processor
from ablations.engine.provenance import of_checkout, versions
from ablations.errors import count


def measured_on() -> str:
    """Return one sentence with processor, cores, JAX and the commit of this checkout."""
    found = of_checkout()
    commit = f", commit {found['commit'][:7]}" if found else ""
    changed = " and changes" if found.get("changed") else ""
    jax = f"jax {versions()['jax']}"
    return f"Measured on an {processor()}, {count(cores(), 'core')}, {jax}{commit}{changed}."


def write(page: Path, text: str) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
