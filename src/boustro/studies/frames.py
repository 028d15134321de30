"""The two frames that every plot of a report stands in: rows on one axis, and panels on the same axes.

Both grow downwards with the number of systems, so that 24 are as legible as three. What is drawn inside
comes from the caller, as a function of the place.
"""

from collections.abc import Callable, Sequence

from boustro.studies.svg import BOLD_LETTER, LETTER, WIDTH, Scale, dots, path, picture, shorten, text

ROW, TOP, MOST_LETTERS = 24, 26, 46


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
) -> str:
    """Rows, each with a name and a value, on one axis; `draw` fills a row."""
    names = [shorten(name, MOST_LETTERS) for name, _ in named]
    left = max(map(len, names)) * LETTER + 12
    right = WIDTH - max(len(value) for _, value in named) * LETTER - 14
    scale = Scale(marks[0], marks[-1], left, right)
    top = TOP if key else 8
    bottom = top + ROW * len(named)
    parts = _key(key, left) if key else []
    for mark in marks:
        parts.append(path([(scale(mark), top), (scale(mark), bottom)], "g"))
        parts.append(text(scale(mark), bottom + 16, f"{mark:g}", "middle", "m"))
    for index, (name, (_, value)) in enumerate(zip(names, named, strict=True)):
        y = top + ROW * (index + 0.5)
        parts += [text(left - 10, y + 4, name, "end"), draw(index, y, scale), text(WIDTH, y + 4, value, "end")]
    parts.append(text((left + right) / 2, bottom + 34, axis, "middle", "m"))
    return picture(WIDTH, bottom + 40, title, *parts)


def frame_panels(
    title: str,
    names: Sequence[str],
    marks: Sequence[float],
    draw: Callable[[int, Panel], str],
    columns: int = 3,
    height: float = 120,
    key: Sequence[tuple[str, str]] = (),
) -> str:
    """Panels side by side on the same upright axis; `draw` fills one."""
    margin, gap = 34.0, 16.0
    wide = (WIDTH - margin - gap * (columns - 1)) / columns
    head = TOP if key else 0
    parts = _key(key, margin) if key else []
    num_rows = -(-len(names) // columns)
    for index, name in enumerate(names):
        row, column = divmod(index, columns)
        left, top = margin + column * (wide + gap), head + row * (height + 46) + 22
        panel = Panel(left, top, left + wide, top + height, marks)
        parts.append(text(left, top - 8, shorten(name, int(wide / BOLD_LETTER)), style="b"))
        for mark in marks:
            y = panel.scale(mark)
            parts.append(path([(left, y), (left + wide, y)], "g"))
            if column == 0:
                parts.append(text(left - 6, y + 4, f"{mark:g}", "end", "m"))
        parts.append(draw(index, panel))
    return picture(WIDTH, head + num_rows * (height + 46), title, *parts)


def _key(key: Sequence[tuple[str, str]], left: float) -> list[str]:
    """A row of coloured dots and what they stand for."""
    parts, room = [], (WIDTH - left) / len(key)
    for index, (style, name) in enumerate(key):
        x = left + sum(min(room, len(n) * LETTER + 34) for _, n in key[:index])
        parts += [dots([(x + 5, 10)], style, 10), text(x + 15, 14, shorten(name, int((room - 24) / LETTER)))]
    return parts
