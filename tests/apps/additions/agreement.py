"""Do two marked words of a text agree in number? {"text": "Dogs bark.", "first": 0, "second": 1, "agree": "yes"}"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boustro.tasks import Fields
from boustro.tasks.answers import InputAnswer, InputPart, Label
from boustro.tasks.base import Task
from boustro.tasks.config import TextConfig
from boustro.tasks.data.named import RecordReader
from boustro.tasks.data.texts import whole_text
from boustro.text.rows import parse_record
from boustro.types import Sentence

KEYS = "text", "first", "second"
FIELDS = Fields(has=KEYS, gold={"agree": bool})


class AgreementConfig(TextConfig):
    labellings = ("class",)
    default_head = "mlp-pool"


@dataclass(frozen=True, slots=True)
class MarkedWords:
    record: Mapping[str, Any]
    sentence: Sentence
    label: str | None = None
    where: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return self.sentence.words

    @property
    def marks(self) -> tuple[tuple[int, int], ...]:
        return tuple((self.record[key], self.record[key] + 1) for key in KEYS[1:])

    def __len__(self) -> int:
        return len(self.words)


def mark_words(given: Any, place: str, notes: Sequence[Any] = ()) -> MarkedWords:
    if isinstance(given, MarkedWords):  # read before
        return given
    if not isinstance(given, Mapping) or not all(key in given for key in KEYS):
        raise ValueError(f"{place}: expected an object with {', '.join(KEYS)}, got {given!r}")
    return MarkedWords(given, whole_text(given["text"]).sentence, given.get("agree"), place)


class Agreement(Task[Any, Label]):
    name = "agreement"
    formats = ("text", "jsonl")
    given = "a text with two words"
    example = {"text": "Dogs bark.", "first": 0, "second": 1}  # noqa: RUF012 (never changed)
    collect = staticmethod(RecordReader(what="text", make=mark_words, fields=FIELDS).read)
    as_input = staticmethod(mark_words)

    @staticmethod
    def parts(example: MarkedWords) -> tuple[Sentence, ...]:
        return (example.sentence,)

    @staticmethod
    def is_input(given: Any) -> bool:
        return isinstance(given, (Mapping, MarkedWords))

    @classmethod
    def parse_value(cls, value: Any, place: str) -> MarkedWords:
        return mark_words(value, place)

    @staticmethod
    def parse_line(line: str, place: str) -> MarkedWords:
        return mark_words(parse_record(line, place), place)

    @staticmethod
    def split(given: MarkedWords, name: str) -> Iterable[InputPart]:
        return [InputPart(given)]

    def result(self, answer: InputAnswer[Any]) -> Label:
        return Label.of(answer.parts[0][1])

    def to_record(self, answer: InputAnswer[Any]) -> dict[str, Any]:
        return self.result(answer).to_dict()

    def show(self, answer: InputAnswer[Any], form: str, colour: bool = False) -> Any:
        own = answer.input.record | self.to_record(answer)
        return own if form == "jsonl" else f"{own['label']}\t{own['text']}"
