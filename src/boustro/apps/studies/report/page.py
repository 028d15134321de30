"""The HTML page of a report: its style, its table of contents, its sections, and the results as JSON.

It loads no script, font or image from anywhere. Light or dark follows the reader's setting; all text has a contrast
of at least 4.5 : 1.
"""

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from boustro.apps.drawing import DARK, LIGHT, STYLE, variables
from boustro.apps.studies.report.blocks import Section, to_html
from boustro.tasks.render import css

PAGE_LIGHT = {"soft": "#f3f5f8", "bar": "#d6e6f7", "good": "#17693f", "bad": "#a8321c", "link": "#1f5fa8"}
PAGE_DARK = {"soft": "#1e2329", "bar": "#1f3b57", "good": "#6fd39b", "bad": "#ff9d85", "link": "#7db8f2"}
RULES = """
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:1rem}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.6 system-ui,sans-serif}
.page{max-width:78rem;margin:0 auto;padding:2rem 1.2rem 5rem;display:grid;gap:0 3rem}
nav{font-size:.88rem;margin-top:2rem;order:1}nav ol{list-style:none;padding:0;margin:0;columns:10rem}
nav li{padding:.12rem 0}
nav a{color:var(--muted);text-decoration:none}nav a:hover{color:var(--link);text-decoration:underline}
@media(min-width:70rem){.page{grid-template-columns:11rem minmax(0,1fr)}
nav{order:0;margin-top:0;position:sticky;top:2rem;align-self:start;padding-top:.6rem}nav ol{columns:auto}}
main{min-width:0}a{color:var(--link)}
h1{font-size:1.75rem;line-height:1.25;margin:0 0 .8rem}
h2{font-size:1.25rem;margin:3rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--grid)}
p{max-width:46rem;margin:.6rem 0}
.verdict,.key{border-left:4px solid var(--s0);background:var(--soft);padding:.7rem 1.1rem;border-radius:0 .4rem .4rem 0}
.verdict{font-size:1.15rem;line-height:1.5}.note{color:var(--muted);font-size:.9rem}
.stamp{border:2px solid var(--bad);color:var(--bad);border-radius:.4rem;padding:.4rem 1rem;font-weight:650}
.scroll{overflow-x:auto;margin:1rem 0;background:
linear-gradient(270deg,var(--paper) 40%,transparent) 100% 0/2.5rem 100% no-repeat local,
linear-gradient(270deg,var(--grid),transparent) 100% 0/.9rem 100% no-repeat scroll}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}
caption{text-align:left;color:var(--muted);font-size:.86rem;line-height:1.45;padding-bottom:.4rem}
caption{position:sticky;left:0;max-width:min(52rem,100vw - 3.6rem)}
th,td{padding:.28rem .45rem;text-align:right;border-bottom:1px solid var(--grid);vertical-align:baseline}
td{white-space:nowrap}
thead th{color:var(--muted);font-weight:600;font-size:.84rem;vertical-align:bottom;line-height:1.3}
th:first-child{text-align:left;position:sticky;left:0;background:var(--paper);font-weight:500;max-width:22rem}
tr.best th,tr.best td{font-weight:680;background:var(--soft)}
td small{color:var(--muted);font-weight:400}td.good small,td.bad small{color:inherit}
.better small{color:var(--good)}.worse small{color:var(--bad)}
.good{color:var(--good)}.bad{color:var(--bad)}
td.bar{background:linear-gradient(90deg,var(--s0) calc(var(--v)*100%),var(--soft) 0) 0 100%/100% 3px no-repeat}
td.heat{background:color-mix(in srgb,var(--bar) calc(var(--v)*100%),transparent)}
th.short{white-space:nowrap}
figure{margin:1.2rem 0}svg{display:block;width:100%;max-width:30rem;height:auto}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,var(--w)),1fr));gap:.8rem 1rem}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1.1rem;font-size:.84rem;margin:.2rem 0 .5rem;max-width:none}
.legend span{overflow-wrap:anywhere}
.legend span::before{content:"";display:inline-block;border:.33em solid var(--c);border-radius:50%;margin-right:.45em}
figcaption{color:var(--muted);font-size:.86rem;margin-top:.3rem;max-width:46rem}
pre{font:.86rem/1.5 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
pre{background:var(--soft);padding:.7rem 1rem;border-radius:.4rem}
details{margin:.8rem 0}summary{cursor:pointer;color:var(--link);padding:.15rem 0}
.example{border:1px solid var(--grid);border-radius:.5rem;padding:.5rem 1rem;margin:.7rem 0;max-width:64rem}
.example p{color:var(--muted);font-size:.86rem;margin:.1rem 0 .3rem}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:.1rem 1rem;margin:0}
dt{color:var(--muted);font-size:.86rem;line-height:1.95;max-width:14rem;overflow-wrap:anywhere}dd{margin:0;line-height:1.95}
@media(max-width:40rem){dl{grid-template-columns:1fr}dt{max-width:none}
table{width:max-content}thead th{max-width:8rem}
th:first-child,th.short:first-child{white-space:normal;overflow-wrap:anywhere;max-width:9.5rem}}
mark.wrong{outline:1.5px dashed var(--bad);outline-offset:-1px}mark small,.missed small{white-space:nowrap}
.missed{border-bottom:2px dotted var(--bad)}.missed small{font-weight:700;font-size:.75em;color:var(--bad)}
dd mark{-webkit-box-decoration-break:clone;box-decoration-break:clone;margin:0 .08em}
@media print{nav{display:none}.page{display:block}}
"""


def stylesheet(labels: Sequence[str]) -> str:
    """Return all CSS rules, with a colour for every label."""
    light, dark = variables({**LIGHT, **PAGE_LIGHT}), variables({**DARK, **PAGE_DARK})
    root = f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f"{root}{RULES.strip()}{STYLE}{css(labels)}".replace("\n", "")


def render_page(
    results: Mapping[str, Any], told: tuple[str, str], sections: Sequence[Section], labels: Sequence[str]
) -> str:
    """Return the whole page; it begins with the result in plain words, and with its statistics."""
    summary, verdict = map(html.escape, told)
    title = html.escape(results["title"])
    contents = "".join(f"<li><a href=#{s.key}>{html.escape(s.title)}</a></li>" for s in sections)
    stamp = f"<p class=stamp>Incomplete: {html.escape(results['stamp'])}</p>" if results["stamp"] else ""
    figures = json.dumps(results, ensure_ascii=False).replace("<", "\\u003c")
    body = []
    for section in sections:
        heading, inner = html.escape(section.title), "\n".join(map(to_html, section.blocks))
        body.append(f"<section id={section.key} aria-label='{heading}'><h2>{heading}</h2>\n{inner}</section>\n")
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{title}</title><style>{stylesheet(labels)}</style></head>\n<body><div class=page>"
        f"<nav aria-label=Contents><ol>{contents}</ol></nav>\n<main><h1>{title}</h1>{stamp}"
        f"<p class=verdict>{summary}</p>\n<p class=note>{verdict}</p>\n{''.join(body)}"
        f"</main></div>\n<script type='application/json' id=results>{figures}</script></body></html>\n"
    )
