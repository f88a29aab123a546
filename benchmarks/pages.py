"""What the pages of measurements under results/reference have in common."""

from __future__ import annotations

from pathlib import Path

from ablations.engine.machine import cores, processor
from ablations.engine.provenance import of_checkout, versions
from ablations.errors import count


def measured_on() -> str:
    """Processor, cores, JAX and commit of this checkout, as one sentence."""
    found = of_checkout()
    commit = f", commit {found['commit'][:7]}" if found else ""
    changed = " and changes" if found.get("changed") else ""
    jax = f"jax {versions()['jax']}"
    return f"Measured on an {processor()}, {count(cores(), 'core')}, {jax}{commit}{changed}."


def write(page: Path, text: str) -> None:
    """Writes a page, and its folder where that is not there yet."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
