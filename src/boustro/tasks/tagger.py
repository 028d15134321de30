"""Tagger: entities in text, or a label for every word.

tagger = Tagger(encoder="starter", head="mlp").fit("train.conll", dev="dev.conll", seed=1)
tagger.predict("Jane Villanueva of United Airlines spoke.")   # [Entity("PER", 0, 15, ...), Entity("ORG", ...)]
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from boustro.tasks.answers import InputAnswer, Part
from boustro.tasks.base import Task
from boustro.tasks.data import Data, load_data, read_data
from boustro.tasks.data.conll import format_document
from boustro.tasks.data.reading import DataOptions
from boustro.tasks.data.schemes import Scheme
from boustro.tasks.render import as_html, as_terminal, as_text
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
    def split(given: str, name: str) -> Iterable[Part]:
        """The sentences of the text."""
        return (Part(placed.sentence, placed.places) for placed in split_text(given, name))

    def result(self, answer: InputAnswer[str]) -> list[Entity]:
        """Entities over the characters of the text, in order; their scores are the geometric mean of their tags'."""
        return answer.entities

    def show(self, answer: InputAnswer[str], form: str, colour: bool = False) -> Any:
        if form == "jsonl":
            return {"text": answer.input, "entities": [e.to_dict() for e in answer.entities]}
        if form == "conll":
            return format_document([(part.example.words, own.tags) for part, own in answer.parts])
        if form == "html":
            return f"<p>{as_html(answer.input, answer.entities)}</p>"
        return (as_terminal if colour else as_text)(answer.input, answer.entities)

    def tag(self, sentences: Iterable[Sentence | Sequence[str]], cached: bool = False) -> list[tuple[str, ...]]:
        """BIO tags of sentences that are split into words already."""
        return [answer.tags for answer in self.answer(sentences, cached)]
