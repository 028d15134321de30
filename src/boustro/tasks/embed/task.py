"""SentenceEncoder: one vector for a text, from a frozen encoder.

    encoder = SentenceEncoder("starter", head="statistics").fit(my_texts)     # statistics of unlabelled texts
    encoder.encode(["Ada left.", "Ada went away."])                           # (2, width) float32
    SentenceEncoder("starter").fit("pairs.jsonl", dev="dev.jsonl")            # trained on scored pairs
    SentenceEncoder("starter").fit("neighbours:texts.txt")                    # on sentences that follow each other

Words are encoded one by one, as for every task, and pooled by the head; a text is read as a whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boustro.arrays import unit
from boustro.errors import shorten
from boustro.given import iterate
from boustro.heads.embedding import VectorHead
from boustro.heads.options import StatisticsOptions
from boustro.names import is_table
from boustro.options import Count, check_options
from boustro.progress import Progress
from boustro.tasks.answers import Answer, InputAnswer, InputPart
from boustro.tasks.base import Task
from boustro.tasks.data.texts import whole_text
from boustro.tasks.embed.data import EMPTY, Alone, read_vectors
from boustro.tasks.embed.labelling import UNKNOWN_TEXTS, ZERO_VECTORS, VectorAnswer, cosines
from boustro.tasks.inputs import TextInputs
from boustro.tasks.pairs import TextPair
from boustro.tasks.render import Shown
from boustro.types import short_score

ANY_TEXTS = ("a", "b")
"""What statistics are taken of that depend on no text."""


def as_one_alone(given: str, name: str) -> list[InputPart]:
    """Return the whole text as one example, without another text."""
    placed = whole_text(given, name)
    return [InputPart(Alone(placed.sentence, EMPTY, (given, "")), placed.places)]


class SentenceEncoder(Task[str, np.ndarray]):
    """A frozen encoder, and a head that makes one vector of the words of a text.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the table of words in the package.
        head: embedding, trained on pairs (the default), or statistics of texts.
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda, mps or auto, see `boustro.load_encoder`; by default the best available.
        options: Fields of `boustro.tasks.config.EmbedConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Examples:
        >>> encoder = boustro.SentenceEncoder("starter", head="statistics").fit(texts)
        >>> encoder.similarity("A ship left.", ["The boat sailed.", "It rains."])
    """

    name = "embed"
    formats = ("text", "jsonl")
    columns = ("vector",)
    inputs = TextInputs(split=as_one_alone)
    num_empty = num_unknown = 0
    """Texts that were encoded without a word, and without a word that a table of words knows."""

    collect = staticmethod(read_vectors)

    def _answer(self, examples: Sequence[TextPair], cached: bool = False) -> list[Answer]:
        """Answer examples as every task does, and count texts without a word, or without a known one."""
        self.num_empty += sum(not len(example.first) for example in examples)
        answers = super()._answer(examples, cached)
        if not is_table(self.plan.reader.spec):
            return answers
        unknown = self._unknown(examples, cached)
        self.num_unknown += len(unknown)
        for number in unknown:  # a transform would make the same vector of all of them
            answer = answers[number]
            assert isinstance(answer, VectorAnswer) and answer.vector is not None
            answers[number] = replace(answer, vector=np.zeros_like(answer.vector))
        return answers

    def _unknown(self, examples: Sequence[TextPair], cached: bool) -> set[int]:
        """Return the numbers of the examples with words whose first text has none that the table knows."""
        inputs, unknown = self.fitted.inputs(examples, cached), set()
        for number, example in enumerate(examples):
            rows = inputs.arrays(np.array([number]))[0][: len(example.first)]
            if len(rows) and not any(stream[rows].any() for stream in inputs.streams):
                unknown.add(number)
        return unknown

    def notices(self, cached: bool = False) -> dict[str, int]:
        counts = {ZERO_VECTORS: self.num_empty, UNKNOWN_TEXTS: self.num_unknown}
        return {**{what: count for what, count in counts.items() if count}, **super().notices(cached)}

    def _begin(self) -> None:
        """Statistics that depend on no text need no `fit`."""
        made = self.config.settled(self.plan, (), False).head_options
        raw = isinstance(made, StatisticsOptions) and made.transform == "raw" and made.text_pooling == "mean"
        if raw and not self.is_trained:
            self.fit(ANY_TEXTS)

    @property
    def width(self) -> int:
        """The width of a vector."""
        self._begin()
        head = self.fitted.head
        assert isinstance(head, VectorHead)
        return head.width

    def encode(
        self,
        sentences: str | Iterable[str],
        batch_size: Count = 1024,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
    ) -> Any:
        """Return the vectors of texts; the arguments are those of sentence-transformers.

        Args:
            sentences: A text, or any iterable of texts, each of any length.
            batch_size: Texts whose words are in memory at once.
            show_progress_bar: By default in a terminal.
            convert_to_numpy: An array; else a list of tensors.
            convert_to_tensor: One tensor instead.
            normalize_embeddings: Divide each vector by its length.

        Returns an array (texts, width), float32, rows in the order of the texts; (width,) for a single text. The
        vector of a text without words is zero. Raises `ValueError`, with the place, for what is not a string, and
        before `fit`.
        """
        check_options(SentenceEncoder.encode, {"batch_size": batch_size})
        single = isinstance(sentences, str)
        texts = [sentences] if single else list(iterate(sentences, "a text or several"))
        vectors = np.zeros((len(texts), self.width), np.float32)
        with Progress("embedding", "texts", total=len(texts), shown=show_progress_bar) as bar:
            for start in range(0, len(texts), batch_size):
                answers = self.answer_inputs(texts[start : start + batch_size], start + 1)
                for row, answer in enumerate(answers, start):
                    vectors[row] = self.result(answer)
                bar.update(len(answers))
        vectors = unit(vectors) if normalize_embeddings else vectors
        if convert_to_tensor or not convert_to_numpy:
            tensors = torch.from_numpy(vectors)
            return tensors[0] if single else tensors if convert_to_tensor else list(tensors)
        return vectors[0] if single else vectors

    def similarity(self, first: Any, second: Any) -> np.ndarray:
        """Return (n, m) cosines between texts, or between vectors that `encode` gave."""
        return cosines(self._vectors(first), self._vectors(second))

    def _vectors(self, given: Any) -> np.ndarray:
        if isinstance(given, Tensor):
            given = given.detach().cpu().numpy()
        if not isinstance(given, np.ndarray) or given.dtype.kind not in "fiu":
            given = self.encode([given] if isinstance(given, str) else given)
        return np.atleast_2d(given)

    def result(self, answer: InputAnswer[str]) -> np.ndarray:
        """Return (width,) the vector."""
        ((_, vector_answer),) = answer.parts
        assert isinstance(vector_answer, VectorAnswer) and vector_answer.vector is not None
        return vector_answer.vector

    def to_record(self, answer: InputAnswer[str]) -> dict[str, Any]:
        return {"vector": self.result(answer).tolist()}

    def empty_answer(self) -> None:
        """An empty text has a vector."""

    def shown(self, answer: InputAnswer[str]) -> Shown:
        return Shown({"text": answer.input}, cells=(" ".join(f"{x:.6g}" for x in self.result(answer).tolist()),))


@dataclass(frozen=True, slots=True)
class NearestTexts:
    """A query and the texts nearest to it: (cosine, row of the corpus from 1, text), the nearest first."""

    query: str
    texts: tuple[tuple[float, int, str], ...]

    def __str__(self) -> str:
        rows = "\n".join(f"{cosine:6.3f}  {row:>6}  {text}" for cosine, row, text in self.texts)
        return f"{self.query}\n{rows}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        texts = [{"cosine": short_score(cosine), "row": row, "text": text} for cosine, row, text in self.texts]
        return {"query": self.query, "texts": texts}


def nearest_texts(model: SentenceEncoder, texts: Sequence[str], queries: Sequence[str], top: int) -> list[NearestTexts]:
    """Return the `top` texts for each query; of equals the earlier. Texts without words are never found.

    Raises `ValueError` for a query without words, and for one without a word that a table of words knows.
    """
    for number, query in enumerate(queries, start=1):
        if not query.strip():
            raise ValueError(f"query {number} has no word; give a text with words")
    asked = model.encode(queries)
    if (unknown := np.flatnonzero(~asked.any(1))).size:
        query = shorten(queries[unknown[0]])
        raise ValueError(f"query {unknown[0] + 1}, {query}: the table knows none of its words; give others, or an LM")
    vectors = model.encode(texts)
    full = np.flatnonzero(vectors.any(1))
    results = []
    for query, scores in zip(queries, cosines(asked, vectors[full]), strict=True):
        best = [(float(scores[i]), int(full[i])) for i in np.argsort(-scores, kind="stable")[:top]]
        results.append(NearestTexts(query, tuple((cosine, row + 1, texts[row]) for cosine, row in best)))
    return results
