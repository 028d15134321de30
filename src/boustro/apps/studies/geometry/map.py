"""A map of a word's occurrences: two dimensions of their vectors, coloured by sense, the sentence on hover.

One HTML page with an inline picture and without scripts; equal input gives equal bytes. The projection is PCA
(scikit-learn).
"""

import html
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from boustro.apps.drawing import NUM_SERIES, Scale, picture, pixels
from boustro.apps.studies.report.page import stylesheet
from boustro.features.reader import distinct_sentences
from boustro.heads.transforms import TRANSFORMS
from boustro.store import write_file
from boustro.tasks.sense.data import read_senses
from boustro.tasks.sense.examples import Occurrence

if TYPE_CHECKING:
    from boustro.encoders.base import Encoder

SIZE, EDGE, RADIUS = 480, 16, 4
OTHER_SENSES = "other senses"


def find_occurrences(data: Path, word: str, most: int) -> list[Occurrence]:
    """Return the word's occurrences with a sense; `ValueError` where there are fewer than three."""
    lemma = word.lower().replace(" ", "_")
    asked = [o for o in read_senses(data).occurrences() if o.target and o.target.entry[0] == lemma][:most]
    if len(asked) < 3:
        raise ValueError(f"{data}: {word!r} is {len(asked)} times among the words with a sense; a map needs three")
    return asked


def draw_map(encoder: "Encoder", asked: Sequence[Occurrence], word: str, out: Path, transform: str) -> None:
    """Write the page."""
    sentences, parts = distinct_sentences(asked)
    features = encoder.encode_all(sentences)
    places = features.starts[parts[:, 0]] + np.array([o.target.word for o in asked if o.target], np.int64)
    x = np.concatenate([np.asarray(s[places], np.float32).reshape(len(asked), -1) for s in features.streams], axis=1)
    points = project(TRANSFORMS[transform].fit(x).apply(x))
    labels = [(o.keys or ("unknown sense",))[0] for o in asked]
    write_file(out, map_page(f"{word}: {len(asked)} occurrences", points, labels, list(map(in_context, asked))))


def project(vectors: np.ndarray) -> np.ndarray:
    """Return (n, 2) of `vectors` (n, d)."""
    from sklearn.decomposition import PCA

    return PCA(2, svd_solver="full").fit_transform(np.asarray(vectors, np.float64))


def in_context(occurrence: Occurrence) -> str:
    """Return the sentence of a word, the word between brackets."""
    place = occurrence.target.word if occurrence.target else -1
    return " ".join(f"[{word}]" if n == place else word for n, word in enumerate(occurrence.words))


def map_page(title: str, points: np.ndarray, labels: Sequence[str], sentences: Sequence[str]) -> str:
    """Return the HTML page; the most frequent labels have a colour each, the rest share one."""
    ranked = sorted(Counter(labels).items(), key=lambda pair: (-pair[1], pair[0]))
    shown = [label for label, _ in ranked[: NUM_SERIES if len(ranked) <= NUM_SERIES else NUM_SERIES - 1]]
    style = {label: f"s{min(place, len(shown))}" for place, (label, _) in enumerate(ranked)}
    (left, low), (right, high) = points.min(0), points.max(0)
    across, up = Scale(left, right, EDGE, SIZE - EDGE), Scale(low, high, SIZE - EDGE, EDGE)
    marks = [
        f'<circle class="{style[label]}" cx="{pixels(across(x))}" cy="{pixels(up(y))}" r="{RADIUS}" fill-opacity=".65">'
        f"<title>{html.escape(f'{label}: {sentence}')}</title></circle>"
        for (x, y), label, sentence in zip(points.tolist(), labels, sentences, strict=True)
    ]
    counts = {label: n for label, n in ranked if label in shown}
    if rest := sum(n for label, n in ranked if label not in shown):
        counts[OTHER_SENSES], style[OTHER_SENSES] = rest, f"s{len(shown)}"
    legend = "".join(
        f'<span style="--c:var(--{style[label]})">{html.escape(label)} ({n})</span>' for label, n in counts.items()
    )
    name = html.escape(title)
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{name}</title><style>{stylesheet([])}</style></head>\n<body><div class=page><main><h1>{name}</h1>"
        f"<p class=legend>{legend}</p><figure>{picture(SIZE, SIZE, title, *marks)}"
        "<figcaption>Point at a dot to read its sentence.</figcaption></figure></main></div></body></html>\n"
    )
