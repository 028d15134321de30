"""RelationClassifier: the relation between two marked places of a text, such as two entities.

    classifier = RelationClassifier(encoder="starter").fit("train.jsonl", dev="dev.jsonl", seed=1)
    classifier.predict({"text": "Rain caused the flood.", "head": [0, 4], "tail": [16, 21]})
    # Label("Cause-Effect(e1,e2)", 0.93, {…})

The text is encoded once, without its marks, however many pairs of places are asked about; the head reads the places.

What is read:

    {"text": "Rain caused the flood.", "head": [0, 4], "tail": [16, 21], "label": "Cause-Effect(e1,e2)"}    JSON lines
    ("Rain caused the flood.", (0, 4), (16, 21), "Cause-Effect(e1,e2)")                                     Python

`head` and `tail` are half-open ranges of characters, in the unit that the file proves (`data.units`); in a label such
as Cause-Effect(e1,e2), e1 is the head and e2 the tail. A place that begins or ends inside a word is widened to whole
words and counted; so are places that overlap, which are read as they are. Refused, with file:line, are places outside
the text or without a word, and a head and a tail that are the same words. Several records may share a text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from boustro.errors import say_found, shorten
from boustro.given import as_text
from boustro.metrics.relations import RelationScore, is_no_relation, macro_f1, relation_counts, score_relations
from boustro.tasks import LABEL_KEY, RELATION_KEYS, TASKS
from boustro.tasks.answers import Answer, InputAnswer, Label
from boustro.tasks.base import Task
from boustro.tasks.data.named import RecordReader
from boustro.tasks.data.reading import GoldFault, Note, as_dict, document_of
from boustro.tasks.data.texts import is_label, tidy_label, whole_text_once
from boustro.tasks.data.units import OFFSETS, OffsetUnit, Span, convert, to_words
from boustro.tasks.inputs import RecordInputs
from boustro.tasks.labellings.texts import LabelUnits, MarkedLabelling
from boustro.tasks.render import Shown, as_mark, shown_score
from boustro.text.words import Placed
from boustro.types import Entity, Example, Sentence

PLACES = RELATION_KEYS[1:]
OVERLAPPING = "examples whose head and tail overlap"
WordBounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MarkedText(Example):
    """A text with two marked places, and the relation between them where it is known.

    Attributes:
        sentence: All words of the text.
        head, tail: The half-open ranges of their words.
        text: The text as it was given.
        places: The half-open range of each word in `text`, in characters.
        label: The relation, with its direction where it has one.
        where: file:line, or the number of the record.
    """

    sentence: Sentence
    head: WordBounds
    tail: WordBounds
    text: str = field(repr=False)
    places: tuple[tuple[int, int], ...] = field(repr=False)
    label: str | None = None
    where: str = ""

    @property
    def parts(self) -> tuple[Sentence]:
        """The text alone."""
        return (self.sentence,)

    @property
    def words(self) -> tuple[str, ...]:
        """All words of the text."""
        return self.sentence.words

    @property
    def marks(self) -> tuple[WordBounds, WordBounds]:
        """Head and tail."""
        return self.head, self.tail

    def __len__(self) -> int:
        return len(self.sentence)

    def without_each(self) -> Iterator["MarkedText | None"]:
        """For each word the example without it; `None` for the words of head and tail."""
        marked = {word for start, end in self.marks for word in range(start, end)}
        words = enumerate(self.sentence.without_each())
        return (None if i in marked else self._without(i, rest) for i, rest in words)

    def _without(self, word: int, rest: Sentence) -> "MarkedText":
        head, tail = ((start - (start > word), end - (end > word)) for start, end in self.marks)
        return replace(self, sentence=rest, head=head, tail=tail, places=self.places[:word] + self.places[word + 1 :])

    def marked(self) -> tuple[str, str]:
        """Return the text of the head and of the tail, as it was given."""
        texts = [self.text[self.places[start][0] : self.places[end - 1][1]] for start, end in self.marks]
        return texts[0], texts[1]


def mark_text(record: Any, where: str, notes: list[Note] | None = None) -> MarkedText:
    """Return a text with its two places, without a label, from a dict or a tuple; `ValueError`, with the place, for
    others."""
    if isinstance(record, MarkedText):
        return record
    record, noted = as_dict(record, *OFFSETS["relation"].tuples), [] if notes is None else notes
    if not isinstance(record, Mapping):
        raise ValueError(f"{where}: expected an object with {', '.join(RELATION_KEYS)}, got {shorten(record)}")
    if missing := [key for key in RELATION_KEYS if key not in record]:
        raise ValueError(f"{where}: no {missing[0]} under {missing[0]!r} ({say_found(record)})")
    text = as_text(record[RELATION_KEYS[0]], f"{where}: the text")
    spans, placed = [_span(record, key, where) for key in PLACES], whole_text_once(text, document_of(record))
    head, tail = (_words(span, text, placed, where, noted) for span in convert(spans, text, OffsetUnit(), where, []))
    if head == tail:
        shown = shorten(" ".join(placed.sentence.words[slice(*head)]))
        raise ValueError(f"{where}: head and tail are the same words, {shown}; a relation is between two places")
    if head[0] < tail[1] and tail[0] < head[1]:
        noted.append(Note(OVERLAPPING, where))
    return MarkedText(placed.sentence, head, tail, text, placed.places, where=where)


def _labelled(record: Any, where: str, notes: list[Note]) -> MarkedText:
    example = mark_text(record, where, notes)
    label = record.get(LABEL_KEY) if isinstance(record, Mapping) else example.label
    if not is_label(label):
        raise GoldFault(where, "label", (LABEL_KEY,), label, "the name of a relation")
    return replace(example, label=tidy_label(label, where, notes))


def _span(record: Mapping[str, Any], key: str, where: str) -> Span:
    """Return the place under a key, in any unit."""
    place: Any = record[key]
    if isinstance(place, Mapping):
        place = [place.get("start"), place.get("end")]
    if not isinstance(place, (list, tuple)) or [type(part) for part in place] != [int, int]:
        raise ValueError(f"{where}: {key} is {shorten(place)}; expected [start, end), two numbers of characters")
    return Span(key, place[0], place[1])


def _words(span: Span, text: str, placed: Placed, where: str, notes: list[Note]) -> WordBounds:
    (entity,) = to_words([span], placed.places, text, where, notes)
    return entity.start, entity.end


read_relations = RecordReader(
    what="relation", make=_labelled, fields=TASKS["relation"].suits, offsets=OFFSETS["relation"], leaves_out=True
).read


TAKEN = "examples have a label that is taken for no relation (no_relation_label names another)"
NONE_TAKEN = "examples, and no label of theirs is taken for no relation (no_relation_label names one)"


class RelationUnits(LabelUnits):
    """One label per pair of places, counted by its relation."""

    metric, credit, label = "macro F1", "accuracy", "relation"
    rules = (("metric", "macro F1 of relations, SemEval-2010 task 8"),)
    has_values = True
    statistic = staticmethod(macro_f1)

    def __init__(self, no_relation: str | None = None) -> None:
        self.no_relation = no_relation

    def values(self, examples: Sequence[MarkedText], answers: Sequence[Answer]) -> np.ndarray:
        """Return (N, 3 R), see `metrics.relations.relation_counts`."""
        gold = [str(example.label) for example in examples]
        return relation_counts(gold, [answer.tags[0] for answer in answers], self.no_relation)

    def credits(self, values: np.ndarray) -> np.ndarray:
        return super().credits(values.reshape(len(values), 3, -1).sum(2))


class RelationLabelling(MarkedLabelling):
    """One label per pair of places; scored by the macro F1 of the relations, see `metrics.relations`.

    Attributes:
        no_relation: The label of pairs without a relation, where it is named.
    """

    scheme_name = "relation"
    units = RelationUnits()

    def __init__(self, scheme: Any, labels: Sequence[str], no_relation: str | None = None) -> None:
        super().__init__(scheme, labels)
        self.no_relation, self.units = no_relation, RelationUnits(no_relation)

    def for_config(self, config: Any) -> "RelationLabelling":
        """With the label of pairs without a relation; `ValueError` for one that the training set lacks."""
        if (no_relation := config.no_relation_label) is None:
            return self
        if no_relation not in self.labels:
            raise ValueError(
                f"no example has the no_relation_label {no_relation!r}; there are {', '.join(self.labels)}"
            )
        made = RelationLabelling(self.scheme, self.labels, no_relation)
        made.weights, made.values = self.weights, self.values
        return made

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | ({} if self.no_relation is None else {"no_relation": self.no_relation})

    def unpredictable(self, train: Sequence[Any], dev: Sequence[Any], max_span: int) -> dict[str, int]:
        without = [label for label in self.gold_labels(train) if is_no_relation(label, self.no_relation)]
        counts = {f"{TAKEN}: {', '.join(sorted(set(without)))}": len(without)} if without else {NONE_TAKEN: len(train)}
        return super().unpredictable(train, dev, max_span) | counts

    def score(
        self, examples: Sequence[MarkedText], answers: Sequence[Answer], signature: dict[str, str]
    ) -> RelationScore:
        labels = [answer.tags[0] for answer in answers]
        return score_relations(self.gold_labels(examples), labels, signature, self.no_relation)


class RelationClassifier(Task[Any, Label]):
    """A frozen encoder and a trained head that names the relation between two marked places of a text.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: relation.
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.RelationConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Examples:
        >>> rain = {"text": "Rain caused the flood.", "head": [0, 4], "tail": [16, 21]}
        >>> other = {"text": "The flood followed rain.", "head": [4, 9], "tail": [19, 23]}
        >>> train = [rain | {"label": "Cause-Effect(e1,e2)"}, other | {"label": "Cause-Effect(e2,e1)"}]
        >>> boustro.RelationClassifier().fit(train).predict(rain).label
    """

    name = "relation"
    collect = staticmethod(read_relations)
    leaves_words_out = True
    inputs = RecordInputs(
        make=mark_text,
        given="a text with head and tail",
        example={"text": "Ada Brandt flew to Port Lisse.", "head": [0, 10], "tail": [19, 29]},
        offsets=OFFSETS["relation"],
        keys=RELATION_KEYS,
    )

    def shown(self, answer: InputAnswer[Any]) -> Shown:
        relation, (record, example) = self.result(answer), answer.input
        ends = [(example.places[start][0], example.places[end - 1][1]) for start, end in example.marks]
        marks = [Entity(name, start, end) for name, (start, end) in zip(PLACES, ends, strict=True)]
        said, cells = [as_mark(relation.label, relation.score)], (relation.label, shown_score(relation.score))
        return Shown(record, example.text, marks, said, cells=cells)
