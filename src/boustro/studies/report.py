"""A study as one HTML file and as Markdown; both are made from its results alone.

The HTML needs no network and no JavaScript, follows the reader's light or dark setting, and carries its
figures as JSON. The same study gives the same bytes.
"""

import html
import json
from collections.abc import Sequence
from typing import Any

from boustro.metrics.spans import extract_spans
from boustro.studies.charts import f1_bars, layer_bars, learning_curves
from boustro.tasks.render import as_html, css, word_entities
from boustro.types import Entity

MAX_EXAMPLES = 24
MADE_BY = ("config", "data", "signature", "versions")

STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:16px/1.6 system-ui,sans-serif;max-width:60rem;margin:2.5rem auto;padding:0 1.2rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.4rem}
.verdict{font-size:1.12rem;border-left:4px solid #3b7dd8;padding:.5rem 1rem;background:var(--soft)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin:.6rem 0}
caption{text-align:left;color:inherit;opacity:.75;padding-bottom:.3rem}
th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}tr.best td{font-weight:650}
svg{width:100%;height:auto;max-width:46rem}code,pre{font:.88em ui-monospace,monospace}
pre{white-space:pre-wrap;background:var(--soft);padding:.7rem 1rem;border-radius:.4rem}
.example{border:1px solid var(--line);border-radius:.5rem;padding:.4rem 1rem;margin:.8rem 0}
td{white-space:nowrap}.example p{margin:.35rem 0;line-height:1.9;display:flex;gap:.8rem}
.who{flex:0 0 9.5rem;opacity:.75;font-size:.85rem;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
"""


def verdict(results: dict[str, Any]) -> str:
    """One sentence: what is best, by how much, and whether that is reliable."""
    judged, systems = results["judged_on"], results["systems"]
    ranked = sorted(systems, key=lambda s: -s[judged]["mean"])
    best = ranked[0]
    opening = f"{best['name']} reaches {best[judged]['mean']:.1f} {judged} F1"
    seeds = f"mean of {results['seeds']} seed{'s' if results['seeds'] > 1 else ''}"
    if len(ranked) == 1:
        return f"{opening} ({seeds})."
    second = ranked[1]
    gap = second["to_best"]
    interval = f"95% interval {gap['low']:.1f} to {gap['high']:.1f}"
    if gap["low"] <= 0:
        return (
            f"{opening} ({seeds}); no reliable difference to {second['name']} ({gap['points']:.1f} points, {interval})."
        )
    return f"{opening} ({seeds}), {gap['points']:.1f} points above {second['name']} ({interval})."


def render_markdown(study: dict[str, Any]) -> str:
    """The verdict and the tables."""
    results = study["results"]
    judged = [name for name in ("dev", "test") if name in results["systems"][0]]
    head = ["encoder", "head", *(f"{name} F1" for name in judged), "behind the best (95%)", "LM", "head", "training"]
    lines = [f"# {results['title']}", "", verdict(results), "", f"    {results['command']}", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * 2 + "---:|" * (len(head) - 2)]
    lines += ["| " + " | ".join(row) + " |" for row in _rows(results)]
    return "\n".join(lines) + "\n"


def render_html(study: dict[str, Any], more: str = "") -> str:
    """The whole report; `more` is put before the appendix."""
    results = study["results"]
    labels = sorted({label for s in results["systems"] for label in s["per_type"]})
    data = " · ".join(f"{name}: {d['sentences']:,} sentences" for name, d in results["data"].items())
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width,initial-scale=1'>",
        f"<title>{html.escape(results['title'])}</title><style>{STYLE}{css(labels)}</style></head><body>",
        f"<h1>{html.escape(results['title'])}</h1><p class=verdict>{html.escape(verdict(results))}</p>",
        f"<p>{html.escape(data)} · entity-level F1 by conlleval's rules</p>",
        f"<pre>{html.escape(results['command'])}</pre>",
        "<h2>Scores</h2>",
        _table(results),
        f1_bars(results["systems"], results["judged_on"]),
        "<h2>By type</h2>",
        _per_type_table(results, labels),
        "<h2>Where the taggers differ</h2>",
        _examples(results, study["predictions"]),
        more,
        "<h2>Learned layer weights</h2>",
        *(
            f"<h3>{html.escape(s['name'])}</h3>{layer_bars(s['layer_weights'])}"
            for s in results["systems"]
            if s["name"] == results["best"] and any(len(w) > 1 for w in s["layer_weights"].values())
        ),
        "<h2>Learning curves</h2>",
        learning_curves(results["systems"]),
        "<h2>How this was made</h2>",
        f"<pre>{html.escape(json.dumps({k: results[k] for k in MADE_BY}, indent=1))}</pre>",
        _notices(results),
        f"<script type='application/json' id=results>{json.dumps(results).replace('</', '<' + chr(92) + '/')}</script>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _rows(results: dict[str, Any]) -> list[list[str]]:
    rows = []
    for s in results["systems"]:
        gap = s["to_best"]
        rows.append(
            [
                s["encoder"],
                s["head"],
                *(f"{s[name]['mean']:.2f} ± {s[name]['sd']:.2f}" for name in ("dev", "test") if name in s),
                "" if s["name"] == results["best"] else f"{gap['points']:.1f} ({gap['low']:.1f} to {gap['high']:.1f})",
                f"{s['encoder_parameters'] / 1e6:.1f}M",
                f"{s['head_parameters'] / 1e6:.2f}M",
                f"{s['train_seconds']['mean']:.0f} s",
            ]
        )
    return rows


def _table(results: dict[str, Any]) -> str:
    judged = [name for name in ("dev", "test") if name in results["systems"][0]]
    heads = [
        "encoder",
        "head",
        *(f"{n} F1" for n in judged),
        "behind the best (95%)",
        "LM parameters",
        "head",
        "training",
    ]
    body = "".join(
        f"<tr{' class=best' if s['name'] == results['best'] else ''}>"
        + "".join(f"<td>{html.escape(c)}</td>" for c in row)
        for s, row in zip(results["systems"], _rows(results), strict=True)
    )
    caption = (
        f"Mean ± standard deviation over {results['seeds']} seeds; differences by a paired bootstrap over sentences"
    )
    return _html_table(caption, heads, body)


def _per_type_table(results: dict[str, Any], labels: Sequence[str]) -> str:
    heads = ["type", "entities", *(s["name"] for s in results["systems"])]
    body = ""
    for label in labels:
        rows = [s["per_type"].get(label) for s in results["systems"]]
        count = next((int(r["num_entities"]) for r in rows if r), 0)
        cells = "".join(
            f"<td title='precision {r['precision']:.1f}, recall {r['recall']:.1f}'>{r['f1']:.1f}</td>"
            if r
            else "<td>0.0</td>"
            for r in rows
        )
        body += f"<tr><td>{html.escape(label)}</td><td>{count:,}</td>{cells}"
    return _html_table(f"{results['judged_on']} F1 by entity type, mean over seeds", heads, body)


def _html_table(caption: str, heads: Sequence[str], body: str) -> str:
    head = "".join(f"<th scope=col>{html.escape(h)}</th>" for h in heads)
    return f"<div class=scroll><table><caption>{html.escape(caption)}</caption><tr>{head}</tr>{body}</table></div>"


def _examples(results: dict[str, Any], predictions: list[list[dict[str, Any]]]) -> str:
    """Sentences that the best system has right and another has not, entities at the start first."""
    names = [s["name"] for s in results["systems"]]
    best = names.index(results["best"])
    found = []
    for index, row in enumerate(predictions[best]):
        tags = [p[index]["predicted"] for p in predictions]
        gold = set(extract_spans(row["gold"]))
        wrong = [len(gold ^ set(extract_spans(t))) for t in tags]
        if sum(wrong) - wrong[best] > 0 and len(row["words"]) <= 40:
            starts = any(e.start == 0 for e in gold)
            found.append((wrong[best], not starts, -(sum(wrong)), index, tags))
    right = sum(not f[0] for f in found)
    if not found:
        return "<p>The taggers agree everywhere.</p>"
    shown = []
    for _, _, _, index, tags in sorted(found)[:MAX_EXAMPLES]:
        row = predictions[best][index]
        lines = [("reference", row["gold"]), *zip(names, tags, strict=True)]
        body = "".join(
            f"<p><span class=who>{html.escape(who)}{_mark(row['gold'], t) if who != 'reference' else ''}</span>"
            f"<span>{_sentence(row['words'], t)}</span></p>"
            for who, t in lines
        )
        shown.append(f"<div class=example>{body}</div>")
    intro = (
        f"<p>In {right:,} of {len(predictions[best]):,} sentences {html.escape(names[best])} is right where another "
        f"tagger is not; here are {len(shown)} (first seed), those that begin with an entity first.</p>"
    )
    return intro + "".join(shown)


def _mark(gold: Sequence[str], tags: Sequence[str]) -> str:
    return " ✓" if extract_spans(gold) == extract_spans(tags) else " ✗"


def _sentence(words: Sequence[str], tags: Sequence[str]) -> str:
    spans = [Entity(s.label, s.start, s.end) for s in extract_spans(tags)]
    return as_html(*word_entities(words, spans))


def _notices(results: dict[str, Any]) -> str:
    notes = [f"{s['name']}: {count:,} {what}" for s in results["systems"] for what, count in s["notices"].items()]
    return "".join(f"<p>Note: {html.escape(note)}</p>" for note in notes)
