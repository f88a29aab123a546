"""Where text ends up in a figure: measured while it is drawn."""

from __future__ import annotations

from itertools import combinations
from unittest import mock

from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure


def drawn_texts(figure: Figure) -> list[tuple[str, float, float, float, float]]:
    """Return each line of text that is drawn, with its left, upper, right and lower edge."""
    texts = []
    draw = RendererAgg.draw_text

    def record(self, gc, x, y, s, prop, angle, *further, **options):
        width, height, below = self.get_text_width_height_descent(s, prop, False)
        box = (x, y - height + below, x + width, y + below)
        if angle:
            box = (x - height + below, y - width, x + below, y)
        texts.append((s, *box))
        return draw(self, gc, x, y, s, prop, angle, *further, **options)

    with mock.patch.object(RendererAgg, "draw_text", record):
        FigureCanvasAgg(figure).draw()
    return [text for text in texts if text[0].strip()]


def faults(figure: Figure) -> list[str]:
    """Return the texts that leave the figure, and the pairs that cover each other."""
    texts = drawn_texts(figure)
    width, height = figure.get_size_inches() * figure.dpi
    cut = [
        f"{s!r} is cut"
        for s, left, upper, right, lower in texts
        if left < -1 or upper < -1 or right > width + 1 or lower > height + 1
    ]
    return cut + [
        f"{a[0]!r} covers {b[0]!r}"
        for a, b in combinations(texts, 2)
        if min(a[3], b[3]) - max(a[1], b[1]) > 1 and min(a[4], b[4]) - max(a[2], b[2]) > 1
    ]
