"""Colours, dashes and the appearance of verdicts: the one table that print and page draw from."""

from __future__ import annotations

import colorsys
from typing import NamedTuple

from ablations.core.verdict import Verdict
from ablations.records import Plan
from ablations.report.formats.numbers import verdict_class
from ablations.report.series import LINES_OF_A_PANEL, families


class Color(NamedTuple):
    """A colour in figures for print, and on the page in its light and its dark theme."""

    print: str
    light: str
    dark: str


class Style(NamedTuple):
    """A variant's colour, a name of `COLORS`, and its place in `DASHES`."""

    color: str
    dash: int


class VerdictStyle(NamedTuple):
    """Colour of a verdict; hollow where the amount is open; label: its name where room is short."""

    color: str
    hollow: bool = False
    label: str = ""


# v0 to v7: Okabe & Ito 2008, without the yellow that vanishes on white; v0 is the baseline.
COLORS = {
    "page": Color("#ffffff", "#ffffff", "#13161a"),
    "raised": Color("#ffffff", "#f6f7f9", "#1c2026"),
    "text": Color("#000000", "#16191d", "#e8eaed"),
    "quiet": Color("#444444", "#565d66", "#a4acb6"),
    "line": Color("#BBBBBB", "#dfe3e8", "#323840"),
    "link": Color("#0072B2", "#00558a", "#7cc0f2"),
    "grid": Color("#E6E6E6", "#e9ecef", "#262b32"),
    "focus": Color("#0072B2", "#0072b2", "#7cc0f2"),
    "faint": Color("#BBBBBB", "#b4bac2", "#59616b"),
    "stripe": Color("#F7F7F7", "#f6f7f9", "#1c2026"),
    "margin": Color("#EFEFEF", "rgba(0, 114, 178, 0.10)", "rgba(86, 180, 233, 0.14)"),
    "better": Color("#009E73", "#00684a", "#6fe0b8"),
    "better-back": Color("#ddf3ea", "#ddf3ea", "#10382b"),
    "worse": Color("#D55E00", "#a33a00", "#ffac80"),
    "worse-back": Color("#F2B98F", "#fbe6da", "#4a230c"),
    "equivalent": Color("#0072B2", "#00558a", "#8ecaf5"),
    "equivalent-back": Color("#9CCBE8", "#ddebf7", "#0f3350"),
    "undecided": Color("#7F7F7F", "#545b63", "#b6bec7"),
    "undecided-back": Color("#E4E4E4", "#eceff2", "#2b3138"),
    "unstable": Color("#CC79A7", "#8a1c5b", "#f3a6cf"),
    "unstable-back": Color("#E9BFD6", "#f8e1ee", "#461531"),
    "v0": Color("#000000", "#000000", "#f4f4f4"),
    "v1": Color("#0072B2", "#0072b2", "#56b4e9"),
    "v2": Color("#D55E00", "#d55e00", "#ff8a45"),
    "v3": Color("#009E73", "#009e73", "#2fc796"),
    "v4": Color("#CC79A7", "#cc79a7", "#e3a2c8"),
    "v5": Color("#E69F00", "#e69f00", "#f2bb3f"),
    "v6": Color("#56B4E9", "#56b4e9", "#9bd6f7"),
    "v7": Color("#7F7F7F", "#7f7f7f", "#a0a6ad"),
    # Of a matrix: told apart by every colour vision.
    "down": Color("#D55E00", "#d55e00", "#ff8a45"),
    "up": Color("#0072B2", "#0072b2", "#56b4e9"),
    "on-down": Color("#FFFFFF", "#000000", "#000000"),
    "on-up": Color("#FFFFFF", "#ffffff", "#000000"),
}
# Lengths of strokes and gaps in widths of the line; () is solid.
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (5, 1.5),
    (1.2, 1.2),
    (5, 1.5, 1.2, 1.5),
    (8, 2),
    (3, 1),
)
UNDECIDED = VerdictStyle("undecided", hollow=True)
VERDICTS = {
    Verdict.BETTER: VerdictStyle("better"),
    Verdict.WORSE: VerdictStyle("worse"),
    Verdict.BETTER_UNDECIDED: VerdictStyle("better", True, "better (amount undecided)"),
    Verdict.WORSE_UNDECIDED: VerdictStyle("worse", True, "worse (amount undecided)"),
    Verdict.HIGHER: VerdictStyle("equivalent"),
    Verdict.LOWER: VerdictStyle("equivalent"),
    Verdict.HIGHER_UNDECIDED: VerdictStyle("equivalent", True, "higher (amount undecided)"),
    Verdict.LOWER_UNDECIDED: VerdictStyle("equivalent", True, "lower (amount undecided)"),
    Verdict.EQUIVALENT: VerdictStyle("equivalent"),
    Verdict.IDENTICAL: VerdictStyle("equivalent"),
    Verdict.UNSTABLE: VerdictStyle("unstable"),
    Verdict.UNSTABLE_BASELINE: VerdictStyle("unstable"),
    Verdict.UNSTABLE_REFERENCE: VerdictStyle("unstable"),
    Verdict.TASKS_DISAGREE: VerdictStyle("unstable"),
    Verdict.UNDECIDED: UNDECIDED,
}


def verdict_style(verdict: Verdict | None) -> VerdictStyle:
    """Return how a verdict looks; as undecided where there is none, or too few seeds for any."""
    return VERDICTS.get(verdict, UNDECIDED) if verdict else UNDECIDED


def variant_styles(plan: Plan) -> dict[str, Style]:
    """Map each variant to its style: its place in its family, the same in every figure."""
    return {
        variant: Style(f"v{place % LINES_OF_A_PANEL}", place % len(DASHES))
        for family in families(plan)
        for place, variant in enumerate(family.variants)
    }


def shade(place: int, count: int) -> str:
    """Return the colour of one of `count` lines: the palette, or hues in order if it is short."""
    if count <= LINES_OF_A_PANEL:
        return f"v{place}"
    hue = (270 - 220 * place / (count - 1)) / 360
    red, green, blue = colorsys.hls_to_rgb(hue, 0.5, 0.65)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def stylesheet() -> str:
    """Return the page's CSS variables of both themes, and those of each verdict."""
    light = _variables({name: color.light for name, color in COLORS.items()})
    dark = _variables({name: color.dark for name, color in COLORS.items()})
    verdicts = {"baseline": "equivalent"}
    verdicts |= {verdict_class(name): style.color for name, style in VERDICTS.items()}
    marked = ":is(.chip, .strip, .study-table .verdict)"
    return "\n".join(
        (
            f":root {{ color-scheme: light; {light} }}",
            f'@media screen {{ :root[data-theme="dark"] {{ color-scheme: dark; {dark} }} }}',
            "@media screen and (prefers-color-scheme: dark) { "
            f':root:not([data-theme="light"]) {{ color-scheme: dark; {dark} }} }}',
            f"{marked} {{ --ink: var(--undecided); --back: var(--undecided-back); }}",
            *(
                f"{marked}.{name} {{ --ink: var(--{color}); --back: var(--{color}-back); }}"
                for name, color in verdicts.items()
            ),
        )
    )


def _variables(colors: dict[str, str]) -> str:
    return " ".join(f"--{name}: {color};" for name, color in colors.items())
