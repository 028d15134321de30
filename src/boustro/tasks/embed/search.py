"""The texts of a corpus that are nearest to queries, by the cosine of their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from boustro.tasks.embed.task import SentenceEncoder
from boustro.tasks.labellings.vectors import cosines


@dataclass(frozen=True, slots=True)
class Found:
    """A query and the texts nearest to it: (cosine, row of the corpus from 1, text), the nearest first."""

    query: str
    texts: tuple[tuple[float, int, str], ...]

    def __str__(self) -> str:
        rows = "\n".join(f"{cosine:6.3f}  {row:>6}  {text}" for cosine, row, text in self.texts)
        return f"{self.query}\n{rows}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        texts = [{"cosine": round(cosine, 4), "row": row, "text": text} for cosine, row, text in self.texts]
        return {"query": self.query, "texts": texts}


def nearest_texts(model: SentenceEncoder, texts: Sequence[str], queries: Sequence[str], top: int) -> list[Found]:
    """The `top` texts for each query; of equals the earlier. Texts without words are never found.

    Raises `ValueError` for a query without words.
    """
    for number, query in enumerate(queries, start=1):
        if not query.strip():
            raise ValueError(f"query {number} has no word; give a text with words")
    vectors, asked = model.encode(texts), model.encode(queries)
    full = np.flatnonzero(vectors.any(1))
    found = []
    for query, scores in zip(queries, cosines(asked, vectors[full]), strict=True):
        best = [(float(scores[i]), int(full[i])) for i in np.argsort(-scores, kind="stable")[:top]]
        found.append(Found(query, tuple((cosine, row + 1, texts[row]) for cosine, row in best)))
    return found
