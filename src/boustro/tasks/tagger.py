"""Tagger: entities in text, or a label for every word.

tagger = Tagger(encoder="starter", head="mlp").fit("train.conll", dev="dev.conll", seed=1)
tagger.predict("Jane Villanueva of United Airlines spoke.")   # [Entity("PER", 0, 15, ...), Entity("ORG", ...)]
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from boustro.given import as_sentence
from boustro.tasks.answers import InputAnswer, Part
from boustro.tasks.base import Task
from boustro.tasks.data import Data, load_data, read_data
from boustro.tasks.data.conll import format_document
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.data.records import WORD_KEYS
from boustro.tasks.data.schemes import Scheme
from boustro.tasks.render import as_html, as_terminal, as_text, word_entities
from boustro.text.words import split_text
from boustro.types import Entity, Sentence


class Tagger(Task[str, list[Entity]]):
    """A frozen encoder and a trained head that finds entities, or labels every word.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: linear, mlp, block or bilstm label words; span finds nested entities. By default mlp.
        preset: "default", or "paper" for section 3.2 of the backward-LM paper.
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.TaggerConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Example:
        >>> tagger = boustro.Tagger(encoder="starter", head="mlp", epochs=10)
        >>> tagger.fit("train.conll", dev="dev.conll", seed=1)
        >>> tagger.evaluate("dev.conll").f1  # percent
        >>> tagger.predict("Jordan closed its border.")  # [Entity(label="LOC", start=0, end=6, text="Jordan", ...)]
        >>> tagger.save_pretrained("ner")
        >>> tagger = boustro.Tagger.from_pretrained("ner")
    """

    name = "tag"
    labellings = ("tags", "spans")
    formats = ("text", "jsonl", "conll", "html")

    @staticmethod
    def read(data: Data, scheme: Scheme = "auto") -> list[Sentence]:
        """See `boustro.read_data`."""
        return read_data(data, scheme)

    @staticmethod
    def read_counted(data: Data, options: DataOptions) -> tuple[list[Sentence], Mapping[str, int]]:
        labelled = load_data(data, options)
        return labelled.sentences, labelled.counts()

    @staticmethod
    def as_input(given: Any, place: str) -> str | Sentence:
        """A text, or a sentence that is split into words already."""
        return as_sentence(given, place) if isinstance(given, Sentence) else Task.as_input(given, place)

    @classmethod
    def parse_value(cls, value: Any, place: str) -> str | Sentence:
        """A text, a list of words, or an object with either."""
        if isinstance(value, Mapping):
            value = next((value[key] for key in WORD_KEYS if isinstance(value.get(key), list)), value)
        return as_sentence(value, place) if isinstance(value, list) else super().parse_value(value, place)

    @staticmethod
    def split(given: str | Sentence, name: str) -> Iterable[Part]:
        """The sentences of the text; words are one sentence, of its own document where it names one."""
        if isinstance(given, Sentence):
            return [Part(replace(given, document=given.document or name))] if len(given) else []
        return (Part(placed.sentence, placed.places) for placed in split_text(given, name))

    def result(self, answer: InputAnswer[str]) -> list[Entity]:
        """Entities over the characters of the text, in order; their scores are the geometric mean of their tags'.

        Of a sentence that was given as words, entities are over words.
        """
        if not isinstance(answer.input, Sentence):
            return answer.entities
        words, found = answer.input.words, [e for _, own in answer.parts for e in own.entities]
        return [replace(e, text=" ".join(words[e.start : e.end]), score=round(e.score or 0, 4)) for e in found]

    def to_record(self, answer: InputAnswer[str]) -> dict[str, Any]:
        entities = {"entities": [e.to_dict() for e in self.result(answer)]}
        if not isinstance(answer.input, Sentence):
            return entities
        return {"tags": [tag for _, own in answer.parts for tag in own.tags]} | entities

    def show(self, answer: InputAnswer[str], form: str, colour: bool = False) -> Any:
        words = answer.input.words if isinstance(answer.input, Sentence) else None
        if form == "jsonl":
            return ({"text": answer.input} if words is None else {"words": list(words)}) | self.to_record(answer)
        if form == "conll":
            return format_document([(part.example.words, own.tags) for part, own in answer.parts])
        found = self.result(answer)
        shown = (answer.input, found) if words is None else word_entities(words, found)
        if form == "html":
            return f"<p>{as_html(*shown)}</p>"
        return (as_terminal if colour else as_text)(*shown)

    def tag(self, sentences: Iterable[Sentence | Sequence[str]], cached: bool = False) -> list[tuple[str, ...]]:
        """BIO tags of sentences that are split into words already."""
        return [answer.tags for answer in self.answer(sentences, cached)]
