"""RelationClassifier: the relation between two marked places of a text, such as two entities.

    classifier = RelationClassifier(encoder="starter").fit("train.jsonl", dev="dev.jsonl", seed=1)
    classifier.predict({"text": "Rain caused the flood.", "head": [0, 4], "tail": [16, 21]})
    # Label("Cause-Effect(e1,e2)", 0.93, {…})

The text is encoded once, without its marks, however many pairs of places are asked about; the head reads the places.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from boustro.tasks import RELATION_KEYS
from boustro.tasks.answers import InputAnswer, InputPart, Label
from boustro.tasks.base import Task
from boustro.tasks.beside import Thresholds, temperature_of
from boustro.tasks.config import RelationConfig
from boustro.tasks.data.relations import OFFSETS, PLACES, MarkedText, mark_text, read_relations
from boustro.tasks.plan import Companion
from boustro.tasks.render import as_html, as_terminal, in_brackets
from boustro.text.rows import parse_record
from boustro.types import Entity, Sentence

GivenPair = tuple[str, tuple[int, int], tuple[int, int]] | Mapping[str, Any]
"""(text, head, tail), or a dict with these keys."""


class AskedPlaces(NamedTuple):
    """A text with two places as it was given, with all its keys, and as an example."""

    record: Mapping[str, Any]
    example: MarkedText


class RelationClassifier(Task[GivenPair, Label]):
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
    collect, offsets = staticmethod(read_relations), OFFSETS
    given = "a text with head and tail"
    example = {"text": "Ada Brandt flew to Port Lisse.", "head": [0, 10], "tail": [19, 29]}  # noqa: RUF012 (never changed)

    @staticmethod
    def parts(example: MarkedText) -> tuple[Sentence, ...]:
        return (example.sentence,)

    @staticmethod
    def companions(config: RelationConfig) -> tuple[Companion, ...]:
        return (*temperature_of(config), Thresholds())

    @staticmethod
    def without_each(example: MarkedText) -> Iterator[Any]:
        return example.without_each()

    @staticmethod
    def is_input(given: Any) -> bool:
        text = isinstance(given, tuple) and len(given) == len(RELATION_KEYS) and isinstance(given[0], str)
        return text or isinstance(given, (Mapping, AskedPlaces))

    @staticmethod
    def as_input(given: Any, place: str) -> AskedPlaces:
        if isinstance(given, AskedPlaces):
            return given
        example = mark_text(OFFSETS.convert(given, OFFSETS.unit([given]), place, []), place)
        return AskedPlaces(
            given if isinstance(given, Mapping) else dict(zip(RELATION_KEYS, given, strict=False)), example
        )

    @classmethod
    def parse_value(cls, value: Any, place: str) -> AskedPlaces:
        return cls.as_input(value, place)

    @classmethod
    def parse_line(cls, line: str, place: str) -> AskedPlaces:
        """A JSON object with text, head and tail."""
        return cls.as_input(parse_record(line, place), place)

    @staticmethod
    def split(given: AskedPlaces, name: str) -> Iterable[InputPart]:
        """The whole text as one example."""
        return [InputPart(given.example, given.example.places)]

    def result(self, answer: InputAnswer[Any]) -> Label:
        """The most probable relation."""
        return Label.of(answer.parts[0][1])

    def to_record(self, answer: InputAnswer[Any]) -> dict[str, Any]:
        return self.result(answer).to_dict()

    def show(self, answer: InputAnswer[Any], form: str, colour: bool = False) -> Any:
        relation, (record, example) = self.result(answer), answer.input
        if form == "jsonl":
            return dict(record) | self.to_record(answer)
        ends = [(example.places[start][0], example.places[end - 1][1]) for start, end in example.marks]
        marked = [Entity(name, start, end) for name, (start, end) in zip(PLACES, ends, strict=True)]
        if form == "html":
            label = as_html(relation.label, [Entity(relation.label, 0, len(relation.label), score=relation.score)])
            return f"<p dir=auto>{label} {as_html(example.text, marked)}</p>"
        if colour:
            return as_terminal(example.text, marked).append(f"  {relation.label}", style="bold")
        return f"{relation.label}\t{relation.score:.2f}\t{in_brackets(example.text, marked)}"
