"""The plots of a report as SVG, each from a part of results.json.

One row per system: `score_dots`, `direction_dots`, `mistake_bars`. One small panel per system: `learning_curves`,
`layer_bars`, `reliability_panels`. One line per system: `context_lines`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from boustro.apps.drawing import (
    NUM_SERIES,
    WIDTH,
    Panel,
    Scale,
    box,
    boxes,
    dots,
    frame_panels,
    frame_rows,
    path,
    text_line,
    ticks,
)
from boustro.apps.studies.report.buckets import MISTAKES
from boustro.apps.studies.report.numbers import spread_text
from boustro.encoders.options import DEEP
from boustro.metrics.spans import SpanCounts

Colours = Mapping[str, str]  # name → s0 … s9


def score_dots(
    systems: Sequence[Mapping[str, Any]], judged: str, colours: Colours | None = None, metric: str = "F1"
) -> str:
    """Return one row per system: one dot per seed, and a vertical line at their mean."""
    values = [v for s in systems for v in s[judged]["values"]]
    styles = colours or colour_systems(systems)

    def draw(index: int, y: float, scale: Scale) -> str:
        values, style = systems[index][judged], styles[systems[index]["name"]]
        x, guide = (
            scale(values["mean"]),
            path([(scale.start, y), (scale.stop, y)], "g"),
        )  # no bar: may not start at 0
        every = dots([(scale(v), y) for v in values["values"]], style, 6)
        return guide + path([(x, y - 7), (x, y + 7)], f"l {style}") + every

    cells = [spread_text(s[judged]) for s in systems]
    named = [(s["name"], f"{c.text} {c.note}".rstrip()) for s, c in zip(systems, cells, strict=True)]
    title = f"{judged} {metric}: " + ", ".join(f"{s['name']} {s[judged]['mean']:.1f}" for s in systems)
    return frame_rows(title, named, ticks(min(values), max(values)), draw, f"{judged} {metric}, one dot per seed")


def direction_dots(systems: Sequence[Mapping[str, Any]], start: str, elsewhere: str) -> str:
    """Return one row per system: F1 of the entities that start a sentence, and of the others."""
    rows = [(s["name"], *(_f1(s["buckets"]["position"][b]) or 0.0 for b in (start, elsewhere))) for s in systems]
    values = [v for _, first, rest in rows for v in (first, rest)]

    def draw(index: int, y: float, scale: Scale) -> str:
        _, first, rest = rows[index]
        line = path([(scale(first), y), (scale(rest), y)], "t s0")
        return line + dots([(scale(rest), y)], "s0", 11) + dots([(scale(first), y)], "s1", 11)

    named = [(name, f"{first:.1f} | {rest:.1f}") for name, first, rest in rows]
    title = "F1 at the start of a sentence and elsewhere: " + ", ".join(f"{n} {v}" for n, v in named)
    key = {start: "s1", elsewhere: "s0"}
    return frame_rows(title, named, ticks(min(values), max(values)), draw, "F1", key)


def mistake_bars(systems: Sequence[Mapping[str, Any]]) -> str:
    """Return one row per system: a stacked bar of its mistakes by kind."""
    rows = [[s["errors"][kind] / s["num_seeds"] for kind in MISTAKES] for s in systems]

    def draw(index: int, y: float, scale: Scale) -> str:
        parts, position = [], 0.0
        for series, (kind, count) in enumerate(zip(MISTAKES, rows[index], strict=True)):
            width = scale(position + count) - scale(position)
            parts.append(box(scale(position), y - 8, width, 16, f"w s{series}", f"{kind}: {count:.1f}"))
            position += count
        return "".join(parts)

    named = [(s["name"], f"{sum(row):.0f}") for s, row in zip(systems, rows, strict=True)]
    title = "Mistakes by kind: " + ", ".join(f"{n} {v}" for n, v in named)
    marks = ticks(0, max(map(sum, rows)))
    return frame_rows(title, named, marks, draw, "entities, mean over seeds", colour_names(MISTAKES))


def context_lines(systems: Sequence[Mapping[str, Any]], dimensions: Mapping[str, str], colours: Colours) -> str:
    """Two panels: F1 by the number of words before the entity, and after it; one line per system."""
    series = [{d: [_f1(c) for c in s["buckets"][d].values()] for d in dimensions} for s in systems]
    values = [v for each in series for line in each.values() for v in line if v is not None]
    marks = ticks(min(values), max(values), 5)
    key = {s["name"]: colours[s["name"]] for s in systems}

    def draw(index: int, panel: Panel) -> str:
        name = list(dimensions)[index]
        buckets = list(systems[0]["buckets"][name])
        across = Scale(0, len(buckets) - 1, panel.left + 18, panel.right - 18)
        parts = [text_line(across(i), panel.bottom + 16, b, "middle", "m") for i, b in enumerate(buckets)]
        for style, each in zip(key.values(), series, strict=True):
            points = [(across(i), panel.scale(v)) for i, v in enumerate(each[name]) if v is not None]
            parts += [path(points, f"l {style}"), dots(points, style, 6)]
        return "".join(parts)

    return frame_panels("F1", list(dimensions.values()), marks, draw, WIDTH, 170, key)


def learning_curves(systems: Sequence[Mapping[str, Any]], colours: Colours) -> str:
    """Return one panel per system: the dev score after every epoch, one dot per seed, a line through their means."""
    values = [v for s in systems for curve in s["dev_curves"] for v in curve]
    longest = max(len(curve) for s in systems for curve in s["dev_curves"])

    def draw(index: int, panel: Panel) -> str:
        curves = systems[index]["dev_curves"]
        across = Scale(1, max(longest, 2), panel.left + 8, panel.right - 8)
        columns = [[c[epoch] for c in curves if epoch < len(c)] for epoch in range(max(map(len, curves), default=0))]
        line = [(across(e), panel.scale(sum(vs) / len(vs))) for e, vs in enumerate(columns, 1)]
        every = [(across(e), panel.scale(v)) for e, vs in enumerate(columns, 1) for v in vs]
        parts = [text_line(across(e), panel.bottom + 16, str(e), "middle", "m") for e in sorted({1, longest})]
        style = colours[systems[index]["name"]]
        return "".join([*parts, path(line, f"l {style}"), dots(every, style, 3.4)])

    title = "Dev score after every epoch, one dot per seed"
    return frame_panels(title, [s["name"] for s in systems], ticks(min(values), max(values), 4), draw)


def layer_bars(systems: Sequence[Mapping[str, Any]], colours: Colours) -> str:
    """Return one panel per system: the learned share of every layer, one colour per stream, one dot per seed."""
    shares = [v for s in systems for seeds in s["layer_weights"].values() for seed in seeds for v in seed]

    def draw(index: int, panel: Panel) -> str:
        streams = {n: seeds for n, seeds in systems[index]["layer_weights"].items() if len(seeds[0]) > 1}
        most = max(len(seeds[0]) for seeds in streams.values())
        step = (panel.right - panel.left - 8) / most
        wide = step * 0.8 / len(streams)
        labels = layer_names(systems[index]["layers"], most)
        parts = []
        for i in range(0, most, -(-most // 14)):
            parts.append(text_line(panel.left + 4 + step * (i + 0.5), panel.bottom + 16, labels[i], "middle", "m"))
        equal = panel.scale(1 / most)
        parts.append(path([(panel.left, equal), (panel.right, equal)], "d"))
        for number, (name, seeds) in enumerate(streams.items()):
            points = []
            for layer, values in enumerate(zip(*seeds, strict=True)):
                mean = sum(values) / len(values)
                x, y = panel.left + 4 + step * (layer + 0.1) + wide * number, panel.scale(mean)
                title = f"{name}, layer {labels[layer]}: {mean:.2f}"
                parts.append(box(x, y, wide * 0.92, panel.bottom - y, f"f {colours[name]}", title))
                points += [(x + wide * 0.46, panel.scale(v)) for v in values]
            parts.append(dots(points, colours[name], 4))
        return "".join(parts)

    key = {name: colours[name] for s in systems for name in s["layer_weights"]}
    title = "Learned share of every layer, one colour per language model"
    return frame_panels(title, [s["name"] for s in systems], ticks(0, max(shares), 4), draw, WIDTH, 150, key)


def reliability_panels(systems: Sequence[Mapping[str, Any]], colours: Colours) -> str:
    """Return one panel per system: the share of right answers by score, and their number (grey bars)."""

    def draw(index: int, panel: Panel) -> str:
        bins = systems[index]["calibration"]["bins"]
        across = Scale(0, 1, panel.left + 4, panel.right - 4)
        unit = 0.4 * (panel.bottom - panel.top) / max(max(b[2] for b in bins), 1)
        wide = across(0.1) - across(0) - 1
        parts = [path([(across(0), panel.scale(0)), (across(1), panel.scale(100))], "d")]
        parts.append(boxes([(across(b[0]), panel.bottom - unit * b[2], wide, unit * b[2]) for b in bins], "f h"))
        points = [(across(score), panel.scale(100 * right)) for _, _, count, score, right in bins if count]
        style = colours[systems[index]["name"]]
        parts += [path(points, f"l {style}"), dots(points, style, 6)]
        parts += [text_line(across(v), panel.bottom + 16, str(v), "middle", "m") for v in (0, 0.5, 1)]
        return "".join(parts)

    return frame_panels("Share of right answers by score", [s["name"] for s in systems], [0, 50, 100], draw)


def layer_names(layers: str, num_layers: int) -> list[str]:
    """Return the numbers of a stream's layers: 0 … n for all, and those that `layers` lists, or stands for,
    otherwise."""
    named = [part.strip() for part in (DEEP if layers == "auto" else layers).split(",")]
    return named if len(named) == num_layers else [str(n) for n in range(num_layers)]


def colour_systems(systems: Sequence[Mapping[str, Any]]) -> Colours:
    """Return one colour per system; with too many systems, one per encoder; with too many encoders, one for all."""
    kind = "name" if len(systems) <= NUM_SERIES else "encoder"
    colours = colour_names([s[kind] for s in systems])
    return {s["name"]: colours[s[kind]] for s in systems}


def colour_names(names: Sequence[str]) -> Colours:
    """Return one colour per name, in their order; one for all when there are more names than colours."""
    order = list(dict.fromkeys(names))
    return {name: f"s{i}" if len(order) <= NUM_SERIES else "s0" for i, name in enumerate(order)}


def _f1(counts: Sequence[int]) -> float | None:
    return SpanCounts(*counts).f1 if sum(counts) else None
