"""Tagger: entities in text, or a label for every word.

tagger = Tagger(encoder="starter", head="mlp").fit("train.conll", dev="dev.conll", seed=1)
tagger.predict("Jane Villanueva of United Airlines spoke.")   # [Entity("PER", 0, 15, ...), Entity("ORG", ...)]
"""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from boustro.choose import lazy
from boustro.given import as_sentence, as_sentences
from boustro.heads.decoding import LikelyWords
from boustro.names import NAMES, PACKAGED, is_shipped, packaged
from boustro.options import Recall, Share, check_options
from boustro.output import as_json
from boustro.store import Artefact
from boustro.tasks import TOOL_FORMATS, WORD_KEYS
from boustro.tasks.answers import Answer, Entities, InputAnswer, InputPart
from boustro.tasks.base import Task
from boustro.tasks.beside import Promises
from boustro.tasks.data import Data, load_data, read_data
from boustro.tasks.data.reading import DataOptions, Note
from boustro.tasks.inputs import TextInputs
from boustro.tasks.plan import Fitted, make_plan, untrained_record
from boustro.tasks.render import Shown, word_entities
from boustro.text.words import RULE, join_words, split_text
from boustro.types import Sentence, short_score

if TYPE_CHECKING:
    from boustro.tasks.recall import Lists, RecallPromise

ONE_BAR = "a recall and a threshold both say how unlikely an answer may be; give one of them"


def sentences_in(given: str | Sentence, name: str) -> Iterable[InputPart]:
    """Return the sentences of a text; words are one sentence, of its own document where it names one."""
    if isinstance(given, Sentence):
        return [InputPart(replace(given, document=given.document or name))] if len(given) else []
    return (InputPart(placed.sentence, placed.places) for placed in split_text(given, name))


class SentenceInputs(TextInputs):
    """Texts, and sentences that are split into words already."""

    def as_input(self, given: Any, place: str) -> str | Sentence:
        return as_sentence(given, place) if isinstance(given, Sentence) else super().as_input(given, place)

    def parse_value(self, value: Any, place: str) -> str | Sentence:
        """Return a text, a list of words, or an object with either."""
        if isinstance(value, Mapping):
            value = next((value[key] for key in WORD_KEYS if isinstance(value.get(key), list)), value)
        return as_sentence(value, place) if isinstance(value, list) else super().parse_value(value, place)

    def labelled(self, given: Any, label: Any, place: str) -> Any:
        return lazy("boustro.tasks.data.records:labelled_text")(given, label, place)


def of_names(kind: type["Tagger"], path: Artefact, encoder: str | None, **how: Any) -> Fitted:
    """Make a tagger of the kinds of names that a folder of `boustro lab names` knows: a linear head that reads nothing
    but the logarithms of the network's probabilities. `ValueError` where its names have no kinds."""

    from boustro.encoders.extended import NETWORK, NUM_PLACES
    from boustro.heads.bodies import PerWord
    from boustro.heads.factored import factored_tags
    from boustro.heads.registry import make_head
    from boustro.heads.tagging import TaggingHead
    from boustro.tasks.tagger.tags import NameLabelling

    with path.opened(NAMES, needs=(NETWORK, "config.json")):
        facts = path.config()
        kinds = list[str](facts["kinds"])
    if not kinds:
        raise ValueError(
            f"{path}: its names have no kinds; give boustro lab names the option --kinds, or train a tagger"
        )
    spec = encoder or next((name for name in PACKAGED if packaged(name).path == path.path), f"{NAMES}:{path}")
    plan = make_plan(kind, spec, "linear", layers="last", crf=False, **how)  # words have the network's probabilities
    plan = replace(plan, words=RULE if is_shipped(spec) else facts.get("words", 1))
    reader = plan.reader.encoder()
    labelling = NameLabelling("names", factored_tags(kinds))
    streams = [stream.shape for stream in reader.streams]
    head = make_head("linear", plan.head_options, streams, labelling.labels)
    tags, num_kinds = len(labelling.labels), len(kinds)
    weight = np.zeros((tags, sum(head.widths)), np.float32)
    place, kinds = np.split(np.eye(NUM_PLACES + num_kinds, dtype=np.float32), [NUM_PLACES])
    # log p(tag) = log p(place of the word in a name) + log p(kind), and the stream has both logarithms
    weight[0, -NUM_PLACES - num_kinds :] = place[0]
    weight[1:, -NUM_PLACES - num_kinds :] = np.repeat(place[1:], num_kinds, 0) + np.tile(kinds, (2, 1))
    assert isinstance(head, TaggingHead) and isinstance(head.body, PerWord)
    head.body.fill(weight, np.zeros(tags, np.float32))
    train = {"name": "names", "sentences": facts["record"]["sentences"], "fingerprint": facts["text"]}
    head.to(plan.device)
    return Fitted(plan, labelling, head, untrained_record(reader, head, train, {}))


class Tagger(Task[str, Entities]):
    """A frozen encoder and a trained head that finds entities, or labels every word.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default `starter-large`.
        head: linear, mlp, block or bilstm label words; ridge is for a few dozen sentences; span finds nested entities.
            By default mlp; of 10 to 99 different sentences, without a development set, the better one of ridge and mlp.
        preset: "default", or "paper" for section 3.2 of the backward-LM paper.
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.TaggerConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Examples:
        >>> tagger = boustro.Tagger(encoder="starter", head="mlp", epochs=10)
        >>> tagger.fit(["Ada left Vellmar."], [[("Ada", "PER"), ("Vellmar", "LOC")]])
        >>> tagger.fit("train.conll", dev="dev.conll", seed=1)
        >>> tagger.evaluate("dev.conll").f1  # percent
        >>> tagger.predict("Jordan closed its border.")  # [Entity(label="LOC", start=0, end=6, text="Jordan", ...)]
        >>> tagger.save("ner")
        >>> tagger = boustro.load("ner")
    """

    _lists: "Lists | None" = None

    name = "tag"
    in_documents = True
    formats = ("text", "jsonl", "conll", "html", *TOOL_FORMATS)

    lenient = {"unlabelled": True}  # noqa: RUF012 (never changed)
    untrained = {NAMES: of_names}  # noqa: RUF012

    read = staticmethod(read_data)  # type: ignore[assignment]  # with options of its own

    @staticmethod
    def collect(data: Data, options: DataOptions, notes: list[Note]) -> list[Sentence]:
        loaded = load_data(data, options)
        notes += loaded.notes
        return loaded.sentences

    inputs = SentenceInputs(split=sentences_in, as_examples=as_sentences)

    @classmethod
    def from_labels(cls, labels: Iterable[Any] | Mapping[Any, str], *, device: str | None = None) -> Self:
        """Return a tagger that knows its types by their names alone; no entity is labelled.

            tagger = Tagger.from_labels({"politician": "", "party": "a political party", "law": "an act or a treaty"})
            tagger.predict("Ada Brandt leads the Liberals.")

        Args:
            labels: Names of types; a dict says what they mean, or "" where they say it. A name that says nothing, such
                as class_b, is never answered, and counted in `notices`. A string is read as `predict --types` reads it.
            device: As for `Tagger`.

        Entities are names in English, of persons, places, organisations and others, and nouns of types that have such,
        as diseases have; dates, amounts and clauses are not found, and counted in `notices`. Raises `ValueError` for no
        type, for two that are read alike, for names none of which says anything, and for more than 1,000 types or 100
        words of one.
        """
        from boustro.tasks.label_types import from_types

        return from_types(cls, labels, device)

    @property
    def promise(self) -> "RecallPromise | None":
        """Promise of recall; `None` after a training without a development set, and for plain labels."""
        return self.fitted.extras.get(Promises.name) if self.is_trained else None

    def with_recall(self, recall: Recall) -> Self:
        """Return a tagger whose answers are longer lists, on which an entity is with at least this probability.

        Args:
            recall: The probability, from 0.5 to 0.999; on average it is the share of all entities on the lists.

        An entity's score is then its probability; the entities of a list may overlap. See `tasks.recall` for what is
        promised, and when. Raises `ValueError` where it cannot be: without a development set in training, for a head
        without a CRF that is no span head, and where that set has too few entities.
        """
        from boustro.tasks.recall import Lists

        check_options(Tagger.with_recall, {"recall": recall})
        if self.threshold is not None:
            raise ValueError(ONE_BAR)
        return self.sharing(_lists=Lists(self.fitted, recall))

    @property
    def has_likely_words(self) -> bool:
        """Whether its words have probabilities of being in an entity, as `with_threshold` needs."""
        return bool(self.is_trained and self.types and "O" in self.fitted.head.labels) and (
            self.fitted.head.has_likely_words
        )

    def with_threshold(
        self, threshold: Share, labels: Collection[str] | None = None, names: Collection[str] = ()
    ) -> Self:
        """Return a tagger that answers every word that is in an entity with at least this probability, besides its best
        answer. A score stays what the words' tags are worth, and is low where a word is there for this alone.

        Args:
            threshold: The probability, from 0 to 1.
            labels: The entities that count, by default all.
            names: Those of them in which a number or a function word is only where the best answer has it there, beside
                another word.

        Raises `ValueError` for a tagger whose words have no such probabilities, and for one that promises a recall.
        """
        check_options(Tagger.with_threshold, {"threshold": threshold})
        if not self.has_likely_words:
            raise ValueError(
                f"a threshold is for taggers whose words have probabilities of being in an entity, and "
                f"{self!r} has none: its labels are no entities, or it finds them by their spans"
            )
        if self._lists is not None:
            raise ValueError(ONE_BAR)
        head = copy.copy(self.fitted.head)
        head.words = LikelyWords(float(threshold), None if labels is None else frozenset(labels), frozenset(names))
        return self.sharing(_fitted=replace(self.fitted, head=head))

    @property
    def threshold(self) -> float | None:
        """Probability that was given to `with_threshold`, or `None`."""
        words = self.fitted.head.words if self.has_likely_words else None
        return words and words.least

    def asking(self, recall: Recall | None = None, threshold: Share | None = None) -> Self:
        """Return the tagger `with_recall` or `with_threshold`, where that is asked for; `ValueError` for both."""
        if recall is not None and threshold is not None:
            raise ValueError(ONE_BAR)
        if threshold is not None:
            return self.with_threshold(threshold)
        return self if recall is None else self.with_recall(recall)

    @overload
    def predict(
        self, given: str | Sentence, recall: Recall | None = None, threshold: Share | None = None
    ) -> Entities: ...
    @overload
    def predict(
        self, given: Iterable[str | Sentence], recall: Recall | None = None, threshold: Share | None = None
    ) -> list[Entities]: ...
    def predict(
        self, given: Any, recall: Recall | None = None, threshold: Share | None = None
    ) -> Entities | list[Entities]:
        """Predict as `Task.predict`; with `recall`, as `with_recall`; with `threshold`, as `with_threshold`."""
        return super(Tagger, self.asking(recall, threshold)).predict(given)

    @property
    def recall(self) -> float | None:
        """Probability that was given to `with_recall`, or `None`."""
        return self._lists and self._lists.recall

    def _answer(self, examples: Sequence[Any], cached: bool = False) -> list[Answer]:
        """Answer by longer lists after `with_recall`."""
        if self._lists is None:
            return self.fitted.answer(examples, cached)
        return self._lists.answers(self.fitted, examples, cached)

    def notices(self, cached: bool = False) -> dict[str, int]:
        """Count the notices of `Task.notices`, and why a promise about recall may not hold."""
        return super().notices(cached) | (self._lists.notices() if self._lists else {})

    def result(self, answer: InputAnswer[str]) -> Entities:
        """Entities over the characters of the text, in order; their scores are the geometric mean of their tags'.

        Of a sentence that was given as words, entities are over words.
        """
        if not isinstance(answer.input, Sentence):
            return Entities(answer.entities, answer.input)
        words, entities = answer.input.words, [e for _, part_answer in answer.parts for e in part_answer.entities]
        entities = [replace(e, text=join_words(words[e.start : e.end]), score=short_score(e.score)) for e in entities]
        return Entities(entities, *word_entities(words, entities))

    def to_record(self, answer: InputAnswer[str]) -> dict[str, Any]:
        entities = {"entities": [e.to_dict() for e in self.result(answer)]}
        if not isinstance(answer.input, Sentence):
            return entities
        return {"tags": [tag for _, part_answer in answer.parts for tag in part_answer.tags]} | entities

    def empty_answer(self) -> None:
        """Its answer is no entity."""

    def shown(self, answer: InputAnswer[str]) -> Shown:
        result, words = self.result(answer), answer.input.words if isinstance(answer.input, Sentence) else None
        given = {"text": answer.input} if words is None else {"words": list(words)}
        tagged = [(part.example.words, part_answer.tags) for part, part_answer in answer.parts]
        return Shown(given, result.text, result.marked, tagged=tagged, is_document=words is None)

    @property
    def columns(self) -> tuple[str, ...]:
        """A column for each label, with the texts of its entities, and one for all of them with their places."""
        return (*self.types, "entities")

    def cells(self, answer: InputAnswer[str]) -> list[Any]:
        entities = self.result(answer)
        by_type = ["; ".join(" ".join(e.text.split()) for e in entities if e.label == label) for label in self.types]
        return [*by_type, as_json([e.to_dict() for e in entities])]

    def tag(self, sentences: Iterable[Sentence | Sequence[str]], cached: bool = False) -> list[tuple[str, ...]]:
        """BIO tags of sentences that are split into words already."""
        return [answer.tags for answer in self.answer(sentences, cached)]
