"""SVG elements, written by hand: small, the same bytes on every machine, with colours from CSS variables.

    scale = Scale(0, 100, 40, 340)      # data 0…100 on pixels 40…340
    picture(360, 60, "One point", dots([(scale(88), 20)], "s0"))

Pictures have the width of a phone, so that their text is legible there; larger screens enlarge them. The variables
`--s0` … `--s9` colour the series and follow the reader's light or dark setting; `standalone` adds them to a picture
outside of a report. Text always has the colour of text.

There are two frames of plots: rows on one axis, and panels with the same axes. Rows grow downwards with the number of
systems. Every panel is a separate picture, and the page puts as many side by side as fit. The caller's function draws
the inside of row or panel number i. The legend is text above the plot: `key` maps names to colours.
"""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from boustro.tasks.render import COLOURS, INK, PAPER

WIDTH = 360
LETTER_WIDTH, BOLD_LETTER = 6.4, 7.1  # width in pixels of an average letter at 12 pixels
NUM_SERIES = len(COLOURS)  # colours that a page defines, light and dark (`variables`)
LIGHT = {"ink": INK[0], "muted": "#57606a", "paper": PAPER[0], "grid": "#d8dee4"}
LIGHT |= {f"s{n}": colour.light for n, colour in enumerate(COLOURS)}
DARK = {"ink": INK[1], "muted": "#a3acb6", "paper": PAPER[1], "grid": "#3a424b"}
DARK |= {f"s{n}": colour.dark for n, colour in enumerate(COLOURS)}
STYLE = (
    "svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg .m{fill:var(--muted)}svg .b{font-weight:650}"
    "svg .g{stroke:var(--grid);fill:none}svg .d{stroke:var(--muted);stroke-dasharray:3 3;fill:none}"
    + "".join(f"svg .s{i}{{fill:var(--s{i});stroke:var(--s{i})}}" for i in range(NUM_SERIES))
    + "svg .l{fill:none;stroke-width:1.6;stroke-linejoin:round}svg .t{fill:none;stroke-width:2;opacity:.45}"
    "svg .p{fill:none;stroke-linecap:round}svg .f{stroke:none;opacity:.3}svg .w{stroke:none}svg .h{fill:var(--muted)}"
)


def variables(colours: dict[str, str]) -> str:
    """CSS declarations of the colours."""
    return "".join(f"--{name}:{value};" for name, value in colours.items())


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map from data to pixels."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1) * (self.stop - self.start)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from at most `low` to at least `high`: (61.2, 88.9) → [60, 65, …, 90]."""
    span = (high - low) or 1.0
    size = 10 ** math.floor(math.log10(span / most))
    step = next(size * m for m in (1, 2, 5, 10) if span / (size * m) <= most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, max(last, first + 1) + 1)]


def pixels(value: float) -> str:
    """Return a pixel position, with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def text_line(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    """Return a line of text; `style` is m (muted) or b (bold)."""
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    kind = f' class="{style}"' if style else ""
    return f'<text x="{pixels(x)}" y="{pixels(y)}"{where}{kind}>{html.escape(words)}</text>'


def path(points: Sequence[tuple[float, float]], style: str) -> str:
    """Return a line through points; empty for none."""
    if not points:
        return ""
    return f'<path class="{style}" d="M{"L".join(f"{pixels(x)} {pixels(y)}" for x, y in points)}"/>'


def dots(points: Sequence[tuple[float, float]], style: str, size: float = 5) -> str:
    """Many dots as one path: lines of length 0 with round ends."""
    drawn = "".join(f"M{pixels(x)} {pixels(y)}h0" for x, y in points)
    return f'<path class="p {style}" stroke-width="{pixels(size)}" d="{drawn}"/>' if points else ""


def box(x: float, y: float, width: float, height: float, style: str, title: str = "") -> str:
    """Return a filled rectangle; `title` is shown when the pointer is on it."""
    inner = f"><title>{html.escape(title)}</title></rect>" if title else "/>"
    place = f'x="{pixels(x)}" y="{pixels(y)}" width="{pixels(max(width, 0))}" height="{pixels(max(height, 0))}"'
    return f'<rect class="{style}" {place}{inner}'


def boxes(places: Sequence[tuple[float, float, float, float]], style: str) -> str:
    """Many rectangles (x, y, width, height) as one path."""
    drawn = "".join(f"M{pixels(x)} {pixels(y)}h{pixels(w)}v{pixels(h)}h{pixels(-w)}z" for x, y, w, h in places)
    return f'<path class="{style}" d="{drawn}"/>'


def shorten_name(words: str, most: int) -> str:
    """Return the beginning and the end of a long name."""
    return words if len(words) <= most else f"{words[: most // 2]}…{words[len(words) - (most - most // 2 - 1) :]}"


def picture(width: float, height: float, title: str, *parts: str) -> str:
    """Return the parts as one picture, with a title for screen readers."""
    size = f'width="{pixels(width)}" height="{pixels(height)}" viewBox="0 0 {pixels(width)} {pixels(height)}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        f"<title>{html.escape(title)}</title>{''.join(parts)}</svg>"
    )


def standalone(svg: str) -> str:
    """Return a picture as a separate file, legible on light and dark pages."""
    style = f"svg{{{variables(LIGHT)}}}@media(prefers-color-scheme:dark){{svg{{{variables(DARK)}}}}}{STYLE}"
    head, end, rest = svg.partition("</title>")
    return f"{head}{end}<style>{style}</style>{rest}\n"


NAME, STRIP, ROW_GAP, MARGIN = 18, 18, 8, 10  # of a row: its name, its plot, the gap to the next row, the sides
AXIS, CAPTION, FOOT = 34, 22, 24  # around a panel
NO_LEGEND: Mapping[str, str] = {}


class Panel:
    """One panel's edges in pixels, and its vertical scale."""

    def __init__(self, left: float, top: float, right: float, bottom: float, marks: Sequence[float]) -> None:
        self.left, self.top, self.right, self.bottom = left, top, right, bottom
        self.scale = Scale(marks[0], marks[-1], bottom, top)

    def grid(self, marks: Sequence[float]) -> list[str]:
        """Return a line across the panel at each mark, and the mark beside it."""
        parts = []
        for mark in marks:
            y = self.scale(mark)
            parts += [path([(self.left, y), (self.right, y)], "g"), text_line(AXIS - 6, y + 4, f"{mark:g}", "end", "m")]
        return parts


def frame_rows(
    title: str,
    named: Sequence[tuple[str, str]],
    marks: Sequence[float],
    draw: Callable[[int, float, Scale], str],
    axis: str,
    key: Mapping[str, str] = NO_LEGEND,
    strip: float = STRIP,
) -> str:
    """Rows on one axis: each a name and a value, above a strip `strip` pixels high that `draw` fills."""
    scale = Scale(marks[0], marks[-1], MARGIN, WIDTH - MARGIN)
    height = NAME + strip + ROW_GAP
    bottom = height * len(named)
    parts = []
    for mark in marks:
        for top in (height * i for i in range(len(named))):
            parts.append(path([(scale(mark), top + NAME), (scale(mark), top + NAME + strip)], "g"))
        parts.append(text_line(scale(mark), bottom + 14, f"{mark:g}", "middle", "m"))
    for index, (name, value) in enumerate(named):
        top = height * index
        room = int((WIDTH - len(value) * LETTER_WIDTH) / LETTER_WIDTH) - 2
        parts += [text_line(0, top + 14, shorten_name(name, room)), text_line(WIDTH, top + 14, value, "end", "m")]
        parts.append(draw(index, top + NAME + strip / 2, scale))
    parts.append(text_line(WIDTH / 2, bottom + 30, axis, "middle", "m"))
    return _legend(key) + picture(WIDTH, bottom + 36, title, *parts)


def frame_panels(
    title: str,
    names: Sequence[str],
    marks: Sequence[float],
    draw: Callable[[int, Panel], str],
    width: float = 300,
    height: float = 120,
    key: Mapping[str, str] = NO_LEGEND,
    foot: float = FOOT,
) -> str:
    """Return one picture per name, all with the same vertical axis, `height` pixels high; `draw` fills the inside."""
    panels = []
    for index, name in enumerate(names):
        panel = Panel(AXIS, CAPTION, width, CAPTION + height, marks)
        parts = [text_line(panel.left, CAPTION - 8, shorten_name(name, int((width - AXIS) / BOLD_LETTER)), style="b")]
        parts += panel.grid(marks)
        panels.append(picture(width, CAPTION + height + foot, f"{title}: {name}", *parts, draw(index, panel)))
    return f'{_legend(key)}<div class=panels style="--w:{width:g}px">{"".join(panels)}</div>'


def _legend(key: Mapping[str, str]) -> str:
    named = "".join(f'<span style="--c:var(--{style})">{html.escape(name)}</span>' for name, style in key.items())
    return f"<p class=legend>{named}</p>" if key else ""
