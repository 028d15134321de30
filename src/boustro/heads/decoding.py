"""From scores of tags to the tags of sentences, their probabilities, and candidates; without torch.

A trained head and an exported one read their scores here. N words of a batch, end to end; S sentences, `lengths` (S,);
W words of a sentence; C tags.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boustro.heads.crf.decode import Chain, best_path, best_valid, posteriors, softmax
from boustro.heads.crf.tags import entity_forms
from boustro.heads.options import SequenceOptions
from boustro.heads.rows import sentence_starts
from boustro.heads.span.decoding import overlaps, overlaps_or_joins, resolve

if TYPE_CHECKING:
    from boustro.heads.crf.spans import Spans

LONGEST, LEAST = 12, 1e-5
"""Words and probability of a candidate."""


@dataclass(frozen=True)
class TagDecoder:
    """What is needed besides the scores: `chain` of a head with a CRF, and the temperature of its probabilities."""

    labels: tuple[str, ...]
    options: SequenceOptions
    chain: Chain | None
    temperature: float = 1.0

    def predict(self, scores: np.ndarray, lengths: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Per sentence the tag ids (W,) and their probabilities (W,), from scores (N, C); see `TaggingHead`."""
        if self.chain:
            probabilities = self._marginals(scores, lengths)
            if self.options.threshold is not None:
                return self._likely(scores, lengths, probabilities, self.options.threshold)
        else:
            probabilities = softmax(scores / np.float32(self.temperature))
        ids = self.best(scores, lengths)
        chosen = np.take_along_axis(probabilities, ids[:, None], 1)[:, 0]
        return per_sentence(ids, chosen, lengths)

    def best(self, scores: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(N,) the ids of the best sequence of tags, whatever the threshold."""
        if self.chain:
            return best_path(scores.astype(np.float64), lengths, self.chain)
        return best_valid(scores, lengths, self.labels) if self.options.decode == "valid" else scores.argmax(-1)

    def candidates(self, scores: np.ndarray, lengths: np.ndarray) -> list[Any]:
        """Per sentence (start, end, number of the type, probability) of every entity that is not very improbable.

        None without a CRF, since entities then have no probabilities.
        """
        return self._spans(scores, lengths, LEAST) if self.chain else [[] for _ in lengths]

    def _warm(self, scores: np.ndarray) -> tuple[np.ndarray, Chain]:
        assert self.chain is not None
        return scores.astype(np.float64) / self.temperature, self.chain.over(self.temperature)

    def _marginals(self, scores: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        words, chain = self._warm(scores)
        return posteriors(words, lengths, chain).astype(np.float32)

    def _spans(self, scores: np.ndarray, lengths: np.ndarray, least: float) -> "Spans":
        from boustro.heads.crf.spans import span_posteriors

        words, chain = self._warm(scores)
        return span_posteriors(
            words, lengths, chain, entity_forms(self.labels), self.options.max_span or LONGEST, least
        )

    def _likely(
        self, scores: np.ndarray, lengths: np.ndarray, probabilities: np.ndarray, least: float
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The tags of the entities that are probable enough; the words of an entity have its probability."""
        outside, forms = self.labels.index("O"), entity_forms(self.labels)
        conflict = overlaps_or_joins if forms[0].joined else overlaps
        ids, chosen = np.full(len(scores), outside), probabilities[:, outside].copy()
        found = self._spans(scores, lengths, least)
        for begin, spans in zip(sentence_starts(lengths).tolist(), found, strict=False):
            for start, end, kind, p in resolve(spans, conflict):
                ids[begin + start : begin + end] = forms[kind].tags(end - start)
                chosen[begin + start : begin + end] = p
        return per_sentence(ids, chosen, lengths)


def per_sentence(
    ids: np.ndarray, probabilities: np.ndarray, lengths: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The tag ids of each sentence, and their probabilities."""
    ends = np.cumsum(lengths)[:-1]
    return list(zip(np.split(ids, ends), np.split(probabilities, ends), strict=True))
