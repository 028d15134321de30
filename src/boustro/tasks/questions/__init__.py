"""QuestionAnswerer: the words of a context that answer a question about it.

    answerer = QuestionAnswerer(encoder="starter").fit("train.jsonl", dev="dev.jsonl", seed=1)
    answerer.predict("Who painted it?", "Ada Brandt painted it in May.")   # SpanAnswer("Ada Brandt", 0, 10, 0.83, (…))

Question and context are read apart, so a context is encoded once for all its questions. Whatever the length of the
context, one softmax runs over all its spans.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, overload

from boustro.tasks import QUESTION_KEYS
from boustro.tasks.answers import InputAnswer, InputPart
from boustro.tasks.base import Task
from boustro.tasks.inputs import ObjectInputs
from boustro.tasks.questions.data import Question, as_question, read_questions
from boustro.tasks.render import Shown, shown_score
from boustro.types import NO_ANSWER, Entity, short_score

GivenQuestion = tuple[str, str] | Mapping[str, Any] | Question
"""(question, context), a dict with these keys, or a `Question`."""


@dataclass(frozen=True, slots=True)
class SpanAnswer:
    """`context[start:end]`, its probability, and the best spans in order; "" at 0 where there is no answer.

    As a text it is that of the context.
    """

    text: str
    start: int
    end: int
    score: float
    best: tuple["SpanAnswer", ...] = ()

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return its own fields, without the other spans, as JSON can hold them."""
        return {"answer": self.text, "start": self.start, "end": self.end, "score": short_score(self.score)}


def whole_context(given: Question, name: str) -> list[InputPart]:
    """Return the whole context as one example."""
    return [InputPart(given, given.places)]


class QuestionAnswerer(Task[Question, SpanAnswer]):
    """A frozen encoder and a trained head that finds the answer to a question in a context.

    Args:
        encoder: Spec of the encoder, see `boustro.load_encoder`; by default the pair in the package.
        head: answer.
        preset: "default".
        cache: Keep the features of training and development data on disk (a folder says where).
        device: cpu, cuda or mps; by default the best available.
        options: Fields of `boustro.QuestionConfig`, over the preset's.

    Raises `ValueError` for an unknown head, preset or option, and for a value outside its range.

    Examples:
        >>> answerer = boustro.QuestionAnswerer(encoder="starter")
        >>> answerer.fit("train.jsonl", dev="dev.jsonl", seed=1)
        >>> answerer.predict("Who painted it?", "Ada Brandt painted it in May.").text
    """

    name = "qa"
    columns = ("answer", "start", "end", "score", "best")
    inputs = ObjectInputs(
        split=whole_context,
        make=as_question,
        kind=Question,
        given="a question and its context",
        example={"question": "Who flew?", "context": "Ada Brandt flew to Port Lisse."},
        keys=QUESTION_KEYS[::-1],
        texts=QUESTION_KEYS[::-1],
        text_keys=(QUESTION_KEYS[::-1],),
    )

    collect = staticmethod(read_questions)

    @overload
    def predict(self, given: str, context: str) -> SpanAnswer: ...
    @overload
    def predict(self, given: GivenQuestion, context: None = None) -> SpanAnswer: ...
    @overload
    def predict(self, given: Iterable[GivenQuestion], context: None = None) -> list[SpanAnswer]: ...
    def predict(self, given: Any, context: str | None = None) -> SpanAnswer | list[SpanAnswer]:
        """Return the answer to a question, or to several.

        Args:
            given: A question; or a (question, context) pair, a dict with these keys, or any iterable of such.
            context: The context of a single question.

        Raises `ValueError`, with the place, for a question or context that is empty or no text.
        """
        inputs: Any = given if context is None else (given, context)
        return super().predict(inputs)

    def result(self, answer: InputAnswer[Question]) -> SpanAnswer:
        """Return the most probable span, or no answer."""
        ((_, raw_answer),) = answer.parts
        best = tuple(SpanAnswer(e.text, e.start, e.end, e.score or 0.0) for e in answer.entities)
        if raw_answer.tags == (NO_ANSWER,):
            return SpanAnswer("", 0, 0, min(1.0, best[0].score * math.exp(raw_answer.value or 0.0)), best)
        return SpanAnswer(best[0].text, best[0].start, best[0].end, best[0].score, best)

    def to_record(self, answer: InputAnswer[Question]) -> dict[str, Any]:
        result = self.result(answer)
        return {**result.to_dict(), "best": [span.to_dict() for span in result.best]}

    def shown(self, answer: InputAnswer[Question]) -> Shown:
        result, asked = self.result(answer), answer.input
        words = zip(asked.question.words, asked.question.spaces or (), strict=False)
        question = "".join(" " * space + word for word, space in words).strip()
        marks = [Entity("answer", result.start, result.end, result.text, result.score)] if result.text else []
        cells = (result.text or NO_ANSWER, shown_score(result.score))
        return Shown({"question": question}, asked.text, marks, title=question, cells=cells)
