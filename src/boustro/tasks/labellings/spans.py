"""Entities as spans, which may be nested."""

from collections.abc import Sequence

from boustro.heads.inputs import Targets
from boustro.heads.options import HeadOptions
from boustro.heads.span.decoding import count_unreachable, propose_max_span
from boustro.metrics.spans import is_span_tag
from boustro.tasks.answers import Answer
from boustro.tasks.data.schemes import gold_entities
from boustro.tasks.labellings.entities import EntityLabelling
from boustro.types import Sentence


class SpanLabelling(EntityLabelling):
    """Entity types as labels; the tags of an answer are those of its outermost entities."""

    nested = True

    @classmethod
    def learn(cls, sentences: Sequence[Sentence], options: HeadOptions) -> "SpanLabelling":
        """The types of the training set in alphabetical order."""
        if not all(is_span_tag(tag) for s in sentences for tag in s.tags or ()):
            raise ValueError("a span head needs entities, and the training data have plain labels; use another head")
        return cls("spans", sorted({e.label for s in sentences for e in gold_entities(s)}))

    def targets(self, sentences: Sequence[Sentence]) -> Targets:
        gold = self.gold(sentences)
        return lambda numbers, _: [gold[n] for n in numbers]

    def longest(self, sentences: Sequence[Sentence]) -> int:
        return propose_max_span(self.gold(sentences))

    def unpredictable(self, train: Sequence[Sentence], dev: Sequence[Sentence], max_span: int) -> dict[str, int]:
        return super().unpredictable(train, dev, max_span) | dict(count_unreachable(self.gold(train), max_span))

    def read(self, output: list[tuple[int, int, int, float]], example: Sentence) -> Answer:
        return self.read_spans(output, example)
