"""The two frames that every plot of a report stands in: rows on one axis, and panels on the same axes.

Rows grow downwards with the number of systems. Every panel is a picture of its own, and the page puts as many side by
side as there is room for. What is drawn inside comes from the caller, as a function of the place. The key stands above
as text, which wraps.
"""

import html
from collections.abc import Callable, Sequence

from boustro.studies.report.svg import BOLD_LETTER, LETTER, WIDTH, Scale, path, picture, shorten, text

NAME, STRIP, GAP, MARGIN = 18, 18, 8, 10  # of a row: its name, what is drawn under it, and what parts it from the next
AXIS, HEAD, FOOT = 34, 22, 24  # around a panel


class Panel:
    """One panel's place in pixels, and its upright scale."""

    def __init__(self, left: float, top: float, right: float, bottom: float, marks: Sequence[float]) -> None:
        self.left, self.top, self.right, self.bottom = left, top, right, bottom
        self.scale = Scale(marks[0], marks[-1], bottom, top)


def frame_rows(
    title: str,
    named: Sequence[tuple[str, str]],
    marks: Sequence[float],
    draw: Callable[[int, float, Scale], str],
    axis: str,
    key: Sequence[tuple[str, str]] = (),
    strip: float = STRIP,
) -> str:
    """Rows on one axis, each a name and a value with a strip under them, `strip` pixels high, that `draw` fills."""
    scale = Scale(marks[0], marks[-1], MARGIN, WIDTH - MARGIN)
    height = NAME + strip + GAP
    bottom = height * len(named)
    parts = []
    for mark in marks:
        parts += [
            path([(scale(mark), height * i + NAME), (scale(mark), height * i + NAME + strip)], "g")
            for i in range(len(named))
        ]
        parts.append(text(scale(mark), bottom + 14, f"{mark:g}", "middle", "m"))
    for index, (name, value) in enumerate(named):
        top = height * index
        room = int((WIDTH - len(value) * LETTER) / LETTER) - 2
        parts += [text(0, top + 14, shorten(name, room)), text(WIDTH, top + 14, value, "end", "m")]
        parts.append(draw(index, top + NAME + strip / 2, scale))
    parts.append(text(WIDTH / 2, bottom + 30, axis, "middle", "m"))
    return _key(key) + picture(WIDTH, bottom + 36, title, *parts)


def frame_panels(
    title: str,
    names: Sequence[str],
    marks: Sequence[float],
    draw: Callable[[int, Panel], str],
    width: float = 300,
    height: float = 120,
    key: Sequence[tuple[str, str]] = (),
    foot: float = FOOT,
) -> str:
    """A picture a name on the same upright axis, `height` pixels high without its edges; `draw` fills one."""
    panels = []
    for index, name in enumerate(names):
        panel = Panel(AXIS, HEAD, width, HEAD + height, marks)
        parts = [text(panel.left, HEAD - 8, shorten(name, int((width - AXIS) / BOLD_LETTER)), style="b")]
        for mark in marks:
            y = panel.scale(mark)
            parts += [path([(panel.left, y), (panel.right, y)], "g"), text(AXIS - 6, y + 4, f"{mark:g}", "end", "m")]
        panels.append(picture(width, HEAD + height + foot, f"{title}: {name}", *parts, draw(index, panel)))
    return f'{_key(key)}<div class=panels style="--w:{width:g}px">{"".join(panels)}</div>'


def _key(key: Sequence[tuple[str, str]]) -> str:
    """Coloured dots and what they stand for."""
    if not key:
        return ""
    named = "".join(f'<span style="--c:var(--{style})">{html.escape(name)}</span>' for style, name in key)
    return f"<p class=legend>{named}</p>"
