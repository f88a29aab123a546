"""What all figures share: colours, fonts, how variants are told apart, how files are written.

Same records, same bytes for SVG: fixed ids, no date. Text stays text.
"""

from __future__ import annotations

import os
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from ablations.records import Plan
from ablations.report.series import groups

FORMATS = ("svg", "png", "pdf")

# Okabe & Ito 2008, without the yellow that vanishes on white; black is the baseline.
COLORS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)), (0, (3, 1)))
VERDICT_COLORS = {
    "better": "#009E73",
    "worse": "#D55E00",
    "better, by an undecided amount": "#009E73",
    "worse, by an undecided amount": "#D55E00",
    "higher": "#0072B2",
    "lower": "#0072B2",
    "equivalent": "#0072B2",
    "identical": "#0072B2",
    "unstable": "#CC79A7",
    "unstable baseline": "#CC79A7",
    "tasks disagree": "#CC79A7",
}
UNDECIDED = "#7F7F7F"

_STYLE: dict[str, Any] = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "rl-ablations",
    "pdf.fonttype": 42,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "#444444",
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "savefig.dpi": 200,
}
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def appearances(plan: Plan) -> dict[str, tuple[str, Any]]:
    """variant -> colour and dashes: its place in its group, the same in every figure."""
    return {
        variant: (COLORS[place % len(COLORS)], DASHES[place % len(DASHES)])
        for group in groups(plan)
        for place, variant in enumerate(group)
    }


def footnote(drawn: Figure, text: str) -> None:
    """A line under the figure, broken where the figure is too narrow for it."""
    width = drawn.get_size_inches()[0]
    lines = textwrap.wrap(text, int(width * 17.5), break_long_words=False)
    drawn.supxlabel("\n".join(lines), fontsize=8, color="#666666")


def title(drawn: Figure, text: str) -> None:
    """The figure's title, broken where the figure is too narrow for it."""
    width = drawn.get_size_inches()[0]
    lines = textwrap.wrap(text, int(width * 10.5), break_long_words=False)
    drawn.suptitle("\n".join(lines), fontsize=11, fontweight="bold")


def dress(panel: Any) -> None:
    import seaborn

    seaborn.despine(ax=panel)
    panel.grid(visible=True)
    panel.set_axisbelow(True)


@contextmanager
def style() -> Iterator[None]:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)  # type: ignore[arg-type]
        yield


def save(drawn: Figure, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """Writes a figure in each format, each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for format in formats:
        path = folder / f"{stem}.{format}"
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
        os.close(handle)
        try:
            drawn.savefig(temporary, format=format, metadata=METADATA[format])
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        written.append(path)
    return written
