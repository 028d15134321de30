"""Questions about a context, and the places of their answers.

    {"context": "Ada left in May.", "question": "When?", "answers": [{"text": "in May", "start": 9}]}    JSON lines
    {"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": …}]}]}]}                SQuAD

`start` (or `answer_start`) counts characters, code points; where the answer stands there in UTF-16 units or bytes only,
it is converted and counted. A question without an answer has `answers: []` or, as in SQuAD 2.0, `is_impossible: true`.
An answer that does not stand at its offset is not learned from, is counted, and still counts as a gold answer; where
more than 5% do not, the file is refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, TypeAlias

from boustro.errors import say_found, shorten
from boustro.given import as_list, refuse_half_characters
from boustro.tasks import QUESTION_KEYS, TASKS
from boustro.tasks.data.named import RecordReader
from boustro.tasks.data.reading import DEFAULT_OPTIONS, DataOptions, Note, as_dict, missing_file, name_of
from boustro.tasks.data.texts import whole_text_once
from boustro.tasks.data.units import CODE_POINTS, CODECS, CONVERTED, as_rows, position, word_span
from boustro.text.files import DataFile
from boustro.text.words import Placed
from boustro.types import Example, Sentence

MOVED = "answers that do not stand at their offset, not learned from"
MOST_MOVED = 0.05  # of the answers: a few mistaken places are mended, many mean that places count other units
LISTED = 3  # enough to find the kind of mistake
QuestionData: TypeAlias = str | PathLike[str] | Iterable[Any]


@dataclass(frozen=True, slots=True)
class Question(Example):
    """A question, its context, and its gold answers where they are known.

    Attributes:
        question: The words of the question.
        context: The words of the context.
        text: The context as it was given.
        places: The half-open range of each word of the context in `text`, in characters.
        answers: The texts of the gold answers; () where there is no answer, `None` where nobody says.
        spans: Where gold answers stand, in words, each once.
        where: file:line, or the number of the record.
    """

    question: Sentence
    context: Sentence
    text: str = field(repr=False)
    places: tuple[tuple[int, int], ...] = field(repr=False)
    answers: tuple[str, ...] | None = None
    spans: tuple[tuple[int, int], ...] = ()
    where: str = ""

    @property
    def parts(self) -> tuple[Sentence, Sentence]:
        """The question and its context."""
        return self.question, self.context

    @property
    def shared(self) -> tuple[Sentence]:
        """The context, which other questions may have too."""
        return (self.context,)

    def __len__(self) -> int:
        return len(self.question) + len(self.context)

    def __str__(self) -> str:
        return self.text

    def passage(self, start: int, end: int) -> str:
        """Return the text of these words of the context, half-open."""
        return self.text[self.places[start][0] : self.places[end - 1][1]]


def read_questions(
    data: QuestionData, options: DataOptions = DEFAULT_OPTIONS, notes: list[Note] | None = None
) -> list[Question]:
    """Questions of a file of JSON lines or SQuAD's JSON, of dicts with the same keys, or of `Question`s; `notes` get
    every answer that was converted or does not stand at its offset.

    Raises `FileNotFoundError`, and `ValueError` with the place for a missing or empty field, and where more than 5% of
    the answers do not stand at their offset.
    """
    notes = [] if notes is None else notes
    questions = QUESTIONS.read(data, options, notes)
    total = sum(len(question.answers or ()) for question in questions)
    moved = [note for note in notes if note.what == MOVED]
    if len(moved) > MOST_MOVED * total:
        listed = "; ".join(map(str, moved[:LISTED])) + ("; …" if len(moved) > LISTED else "")
        raise ValueError(
            f"{name_of(data)}: {len(moved):,} of {total:,} {MOVED.partition(',')[0]}, more than {MOST_MOVED:.0%}; "
            f"offsets count characters (code points) from 0: {listed}"
        )
    return questions


def as_question(given: Any, place: str) -> Question:
    """Return a question with its context, from a dict or a pair of texts; `ValueError`, with the place, for anything
    else.

    Answers are not read.
    """
    if isinstance(given, Question):
        return given
    given = as_dict(given, QUESTION_KEYS[::-1])
    if not isinstance(given, Mapping):
        raise ValueError(f"{place}: expected an object with context and question, got {shorten(given)}")
    asked, context = (_text(given, key, place) for key in QUESTION_KEYS[::-1])
    return Question(asked.sentence, context.sentence, given["context"], context.places, where=place)


def _records(data: QuestionData, what: str, options: DataOptions, notes: list[Note]) -> Iterable[tuple[str, Any]]:
    if isinstance(data, (str, PathLike)):
        file = DataFile.of(data)
        if not file.path.is_file():
            raise missing_file(file.path, "questions are expected, as JSON lines or SQuAD's JSON")
        return unfold([(f"{file.path}:{n}", record) for n, record in file.open("json").numbered()], str(file.path))
    if isinstance(data, Mapping):
        return _flatten(data, "the given data") if "data" in data else [("the given data", data)]
    items = as_list(data, "a file of questions, or dicts with context, question and answers")
    return [(f"{what} {number} of the given data", item) for number, item in enumerate(items, start=1)]


def unfold(records: Sequence[tuple[str, Any]], name: str) -> Iterable[tuple[str, Any]]:
    """Return the (place, record) pairs of a file, or the questions of its only record, which is SQuAD's."""
    whole = records[0][1] if len(records) == 1 else None
    return _flatten(whole, name) if isinstance(whole, Mapping) and "data" in whole else records


def _flatten(whole: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any]]:
    """SQuAD's articles of paragraphs of questions, question by question."""
    for a, article in enumerate(_items(whole, "data", name), start=1):
        place = f"{name}:article {a}"
        for p, paragraph in enumerate(_items(article, "paragraphs", place), start=1):
            within = f"{place}, paragraph {p}"
            for number, item in enumerate(_items(paragraph, "qas", within), start=1):
                where = f"{within}, question {number}"
                if not isinstance(item, Mapping):
                    raise ValueError(f"{where}: expected an object, got {shorten(item)}")
                yield where, {"context": paragraph.get("context"), **item}


def _items(record: Any, key: str, where: str) -> Sequence[Any]:
    items = record.get(key) if isinstance(record, Mapping) else None
    if not isinstance(items, list):
        raise ValueError(f"{where}: expected an object with a list under {key!r}, got {shorten(record)}")
    return items


def _with_answers(record: Any, where: str, notes: list[Note]) -> Question:
    if isinstance(record, (list, tuple)):
        raise ValueError(f"{where}: expected an object with context, question and answers, got {shorten(record)}")
    question = as_question(record, where)
    given = [] if record.get("is_impossible") is True else as_rows(record.get("answers"))
    if not isinstance(given, list):
        raise ValueError(f"{where}: no answers under 'answers' ({say_found(record)}); [] is no answer")
    text, answers, spans = question.text, [], []
    for item in given:
        answer, start = _answer(item, where)
        answers.append(answer)
        unit, place = _standing(text, answer, start)
        there = text[place : place + len(answer)]
        if there == answer and (span := word_span(question.places, place, place + len(answer))):
            spans.append(span)
            if place != start:
                notes.append(Note(CONVERTED.format(unit), where, f"{answer!r} at {start} in {unit} is at {place}"))
        else:
            moved = f"the answer {answer!r} does not stand at {start}, where the text is {shorten(there)}"
            notes.append(Note(MOVED, where, moved))
    return replace(question, answers=tuple(answers), spans=tuple(dict.fromkeys(spans)))


def _standing(text: str, answer: str, start: int) -> tuple[str, int]:
    """Return the unit in which an answer stands at its offset, and where that is; code points where it stands in
    none."""
    places = ((unit, position(text, start, unit)) for unit in CODECS)
    stands = ((unit, place) for unit, place in places if place is not None and text.startswith(answer, place))
    return next(stands, (CODE_POINTS, start))


def _answer(item: Any, where: str) -> tuple[str, int]:
    """Return the text of an answer without white space around it, and its start."""
    start = item.get("start", item.get("answer_start")) if isinstance(item, Mapping) else None
    text = item.get("text") if isinstance(item, Mapping) else None
    if not isinstance(text, str) or not text.strip() or isinstance(start, bool) or not isinstance(start, int):
        raise ValueError(f"{where}: an answer is an object with text and start, got {shorten(item)}")
    if start < 0:
        raise ValueError(f"{where}: the answer {text!r} starts at {start}; offsets count characters from 0")
    return text.strip(), start + len(text) - len(text.lstrip())


def _text(record: Mapping[str, Any], key: str, where: str) -> Placed:
    text = record.get(key)
    if not isinstance(text, str):
        raise ValueError(f"{where}: no text under {key!r} ({say_found(record)})")
    refuse_half_characters(text, f"{where}: the {key}")
    placed = whole_text_once(text)
    if not placed.places:
        raise ValueError(f"{where}: the {key} is empty; expected a text with words")
    return placed


QUESTIONS = RecordReader(
    what="question",
    make=_with_answers,
    fields=TASKS["qa"].suits,
    kind=Question,
    rows=_records,
    has_columns=False,
    nothing="no questions; expected objects with context, question and answers",
)
