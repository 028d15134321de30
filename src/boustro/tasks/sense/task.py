"""SenseTagger: sense-tagged text in, the nearest centroid of a sense out.

    tagger = SenseTagger("starter", wordnet="/usr/share/wordnet").fit("semcor.jsonl.xz")
    tagger.evaluate("semeval2007.data.xml").value            # F1
    tagger.predict(SenseSentence(Sentence(("the", "bank", "rose")), (Target(1, "bank", "NOUN"),)))

An example is a word in its sentence; an input is a sentence with the words that are asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from boustro.errors import shorten
from boustro.tasks.answers import Answer, InputAnswer, InputPart
from boustro.tasks.base import Task
from boustro.tasks.data.reading import DataOptions, Note
from boustro.tasks.inputs import ObjectInputs
from boustro.tasks.render import Shown
from boustro.tasks.sense.data import read_senses, sense_sentence
from boustro.tasks.sense.examples import Occurrence, SenseSentence, Target
from boustro.tasks.sense.labelling import How, SenseAnswer


@dataclass(frozen=True, slots=True)
class Sense:
    """The answer for one target.

    `how` says where the key is from: the nearest centroid, or WordNet's first sense; for "none" there is no key.
    `ranked` are the senses that were compared, with their scores, the best first. As a text it is the key.
    """

    target: Target
    key: str | None
    how: How
    ranked: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, example: Occurrence, answer: Answer) -> "Sense":
        """Return the answer for an example with a target."""
        assert example.target is not None and isinstance(answer, SenseAnswer)
        return cls(example.target, next(iter(answer.tags), None), answer.how, answer.ranked)

    def __str__(self) -> str:
        return self.key or ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        t = self.target
        named = {"name": t.name} if t.name else {}
        place = {"word": t.word, "lemma": t.lemma, "pos": t.pos}
        return {**named, **place, "key": self.key, "how": self.how, "ranked": self.ranked}


def asked_sentence(given: Any, place: str) -> SenseSentence:
    """Return a sentence with words that are asked for; `ValueError`, with the place, for anything else."""
    sentence = sense_sentence(given, place)
    if not sentence.targets:
        raise ValueError(f"{place}: no word whose sense is asked for")
    return sentence


def asked_words(given: SenseSentence, name: str) -> list[InputPart]:
    """Return an example for each word that is asked for."""
    return [InputPart(Occurrence(given.sentence, target)) for target in given.targets]


class SenseInputs(ObjectInputs):
    """Sentences with words that are asked for."""

    def parse_value(self, value: Any, place: str) -> SenseSentence:
        if not isinstance(value, Mapping):
            raise ValueError(f"{place}: expected an object with words and senses, got {shorten(value)}")
        return super().parse_value(value, place)


class SenseTagger(Task[SenseSentence, list[Sense]]):
    """An encoder, and centroids of senses.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: centroids.
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.tasks.config.SenseConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.
    """

    name = "sense"
    formats = ("text", "jsonl")
    columns = ("senses",)
    inputs = SenseInputs(
        split=asked_words,
        make=asked_sentence,
        kind=SenseSentence,
        given="a sentence with the words that are asked for",
        example={"words": ["the", "bank", "rose"], "senses": [[1, "bank", "NOUN"]]},
        text_keys=(),
    )

    @staticmethod
    def read(data: Any, keys: str | Path | None = None) -> list[Occurrence]:
        """Read labelled data by `tasks.sense.data.read_senses`; examples that were read are returned as they are."""
        if isinstance(data, list) and data and all(isinstance(item, Occurrence) for item in data):
            return data
        return read_senses(data, keys).occurrences()

    @staticmethod
    def collect(data: Any, options: DataOptions, notes: list[Note]) -> list[Occurrence]:
        read = read_senses(data, options=options)
        notes += [Note(what, str(data)) for what in read.notices.elements()]
        return read.occurrences()

    def result(self, answer: InputAnswer[SenseSentence]) -> list[Sense]:
        """Return the sense of each word that is asked for."""
        return [Sense.of(part.example, part_answer) for part, part_answer in answer.parts]

    def to_record(self, answer: InputAnswer[SenseSentence]) -> dict[str, Any]:
        return {"senses": [sense.to_dict() for sense in self.result(answer)]}

    def shown(self, answer: InputAnswer[SenseSentence]) -> Shown:
        """Return a line for each word: its id, or its position in the sentence, and its key."""
        lines = (f"{s.target.name or s.target.word} {s.key or '(no sense)'}" for s in self.result(answer))
        return Shown({"words": list(answer.input.sentence.words)}, cells=("\n".join(lines),))
