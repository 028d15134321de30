"""Do two marked words of a text agree in number? {"text": "Dogs bark.", "first": 0, "second": 1, "agree": "yes"}"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boustro.tasks import Fields
from boustro.tasks.answers import InputAnswer, Label
from boustro.tasks.base import Task
from boustro.tasks.config import TextConfig
from boustro.tasks.data.named import RecordReader
from boustro.tasks.data.texts import whole_text
from boustro.tasks.inputs import RecordInputs
from boustro.tasks.render import Shown, as_mark
from boustro.types import Example, Sentence

KEYS = "text", "first", "second"
FIELDS = Fields(has=KEYS, gold={"agree": bool})


class AgreementConfig(TextConfig):
    labellings = ("class",)
    default_head = "mlp-pool"


@dataclass(frozen=True, slots=True)
class MarkedWords(Example):
    record: Mapping[str, Any]
    sentence: Sentence
    label: str | None = None
    where: str = ""

    @property
    def parts(self) -> tuple[Sentence]:
        return (self.sentence,)

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
    collect = staticmethod(RecordReader(what="text", make=mark_words, fields=FIELDS).read)
    inputs = RecordInputs(
        make=mark_words,
        given="a text with two words",
        example={"text": "Dogs bark.", "first": 0, "second": 1},
    )

    def shown(self, answer: InputAnswer[Any]) -> Shown:
        record, said = answer.input.record, self.result(answer)
        return Shown(record, record["text"], said=[as_mark(said.label, said.score)], cells=(said.label,))
