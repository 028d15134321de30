"""The two frames of plots: rows on one axis, and panels with the same axes.

Rows grow downwards with the number of systems. Every panel is a separate picture, and the page puts as many side by
side as fit. The caller's function draws the inside of row or panel number i. The legend is text above the plot: `key`
maps names to colours.
"""

import html
from collections.abc import Callable, Mapping, Sequence

from boustro.drawing.svg import BOLD_LETTER, LETTER, WIDTH, Scale, path, picture, shorten, text

NAME, STRIP, GAP, MARGIN = 18, 18, 8, 10  # of a row: its name, its plot, the gap to the next row, the sides
AXIS, HEAD, FOOT = 34, 22, 24  # around a panel
NO_KEY: Mapping[str, str] = {}


class Panel:
    """One panel's edges in pixels, and its vertical scale."""

    def __init__(self, left: float, top: float, right: float, bottom: float, marks: Sequence[float]) -> None:
        self.left, self.top, self.right, self.bottom = left, top, right, bottom
        self.scale = Scale(marks[0], marks[-1], bottom, top)

    def grid(self, marks: Sequence[float]) -> list[str]:
        """A line across the panel at each mark, and the mark beside it."""
        parts = []
        for mark in marks:
            y = self.scale(mark)
            parts += [path([(self.left, y), (self.right, y)], "g"), text(AXIS - 6, y + 4, f"{mark:g}", "end", "m")]
        return parts


def frame_rows(
    title: str,
    named: Sequence[tuple[str, str]],
    marks: Sequence[float],
    draw: Callable[[int, float, Scale], str],
    axis: str,
    key: Mapping[str, str] = NO_KEY,
    strip: float = STRIP,
) -> str:
    """Rows on one axis: each a name and a value, above a strip `strip` pixels high that `draw` fills."""
    scale = Scale(marks[0], marks[-1], MARGIN, WIDTH - MARGIN)
    height = NAME + strip + GAP
    bottom = height * len(named)
    parts = []
    for mark in marks:
        for top in (height * i for i in range(len(named))):
            parts.append(path([(scale(mark), top + NAME), (scale(mark), top + NAME + strip)], "g"))
        parts.append(text(scale(mark), bottom + 14, f"{mark:g}", "middle", "m"))
    for index, (name, value) in enumerate(named):
        top = height * index
        room = int((WIDTH - len(value) * LETTER) / LETTER) - 2
        parts += [text(0, top + 14, shorten(name, room)), text(WIDTH, top + 14, value, "end", "m")]
        parts.append(draw(index, top + NAME + strip / 2, scale))
    parts.append(text(WIDTH / 2, bottom + 30, axis, "middle", "m"))
    return _legend(key) + picture(WIDTH, bottom + 36, title, *parts)


def frame_panels(
    title: str,
    names: Sequence[str],
    marks: Sequence[float],
    draw: Callable[[int, Panel], str],
    width: float = 300,
    height: float = 120,
    key: Mapping[str, str] = NO_KEY,
    foot: float = FOOT,
) -> str:
    """One picture per name, all with the same vertical axis, `height` pixels high; `draw` fills the inside."""
    panels = []
    for index, name in enumerate(names):
        panel = Panel(AXIS, HEAD, width, HEAD + height, marks)
        parts = [text(panel.left, HEAD - 8, shorten(name, int((width - AXIS) / BOLD_LETTER)), style="b")]
        parts += panel.grid(marks)
        panels.append(picture(width, HEAD + height + foot, f"{title}: {name}", *parts, draw(index, panel)))
    return f'{_legend(key)}<div class=panels style="--w:{width:g}px">{"".join(panels)}</div>'


def _legend(key: Mapping[str, str]) -> str:
    named = "".join(f'<span style="--c:var(--{style})">{html.escape(name)}</span>' for name, style in key.items())
    return f"<p class=legend>{named}</p>" if key else ""
