"""Plots as inline SVG, the same bytes for the same numbers, legible on light and dark pages."""

import io
import re
from collections.abc import Sequence
from typing import Any

PALETTE = ("#3b7dd8", "#d9722e", "#2f9e6e", "#a259c4", "#c23f5f", "#8a7a2f", "#4aa3b5", "#777777")


def f1_bars(systems: Sequence[dict[str, Any]], judged: str) -> str:
    """A bar a system for its mean F1, every seed a dot."""
    height = 0.55 * len(systems) + 0.9
    figure, axes = _figure(7.2, height)
    names = [_short(s["name"]) for s in systems]
    means = [s[judged]["mean"] for s in systems]
    places = range(len(systems))
    axes.barh(places, means, color=[PALETTE[i % len(PALETTE)] for i in places], height=0.55, alpha=0.75)
    for place, system in zip(places, systems, strict=True):
        values = system[judged]["values"]
        axes.plot(values, [place] * len(values), "o", color="#000000", markersize=3, alpha=0.7)
        axes.annotate(
            f"{system[judged]['mean']:.1f}", (max(values), place), (6, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(list(places), names)
    axes.invert_yaxis()
    axes.set_xlim(0, min(100, max(means) * 1.15 + 1))
    axes.set_xlabel(f"{judged} F1 (entity level, percent); a dot is a seed")
    return _svg(figure, f"Bars of {judged} F1: " + ", ".join(f"{n} {m:.1f}" for n, m in zip(names, means, strict=True)))


def learning_curves(systems: Sequence[dict[str, Any]]) -> str:
    """Dev F1 after every epoch, a line a seed."""
    figure, axes = _figure(7.2, 3.2)
    for index, system in enumerate(systems):
        for number, curve in enumerate(system["dev_curves"]):
            label = _short(system["name"]) if number == 0 else None
            axes.plot(
                range(1, len(curve) + 1), curve, color=PALETTE[index % len(PALETTE)], alpha=0.8, label=label, lw=1.4
            )
    axes.set_xlabel("epoch")
    axes.set_ylabel("dev F1")
    axes.legend(frameon=False, fontsize=9, labelcolor="#808080")
    return _svg(figure, "Dev F1 after every epoch, a line for every seed")


def layer_bars(weights: dict[str, list[float]]) -> str:
    """The learned share of every layer, a group a stream."""
    figure, axes = _figure(7.2, 2.6)
    for index, (name, shares) in enumerate(weights.items()):
        offsets = [layer + index * 0.8 / len(weights) for layer in range(len(shares))]
        axes.bar(offsets, shares, width=0.75 / len(weights), color=PALETTE[index % len(PALETTE)], label=_short(name))
    most = max(len(shares) for shares in weights.values())
    axes.set_xticks([n + 0.4 - 0.4 / len(weights) for n in range(most)], [str(n) for n in range(most)])
    axes.set_xlabel("layer (0 = embeddings)")
    axes.set_ylabel("share")
    axes.legend(frameon=False, fontsize=9, labelcolor="#808080")
    return _svg(figure, "Learned share of every layer, for each language model")


def _short(name: str, most: int = 40) -> str:
    """A long path by its beginning and end."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}"


def _figure(width: float, height: float):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update(
        {"svg.hashsalt": "boustro", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10}
    )
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure, title: str) -> str:
    import html

    from matplotlib import pyplot as plt

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(width|height)="[\d.]+pt"', "", svg, count=2)
    svg = svg.replace("#000000", "currentColor").replace("font: 10px", "fill: currentColor; font: 10px")
    svg = re.sub(r'style="font: ', 'style="fill: currentColor; font: ', svg)
    return svg.replace(">", f' role="img"><title>{html.escape(title)}</title>', 1)
