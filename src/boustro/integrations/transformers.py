"""Trained folders where code expects a pipeline of transformers: the same calls, and answers with the same keys.

    tag = pipeline("token-classification", "ner", aggregation_strategy="simple")
    tag("Ada left.")                                 # [{"entity_group": "PER", "score": 0.98, "word": "Ada", …}]
    pipeline("text-classification", "topics")("Ada left.")                    # [{"label": "news", "score": 0.9}]
    pipeline("question-answering", "answers")(question="Who left?", context="Ada left.")

A text gives its answer, a list gives a list, and a generator or a data set gives an iterator that holds one batch at a
time. Scores are Python's floats. Words are Boustro's, not pieces, so all strategies but "none" give the same entities:
those of `Tagger.predict`, which may be nested. Source: transformers 5, `transformers.pipelines`; its question answering
is that of transformers 4, because 5 has none.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, ClassVar

from boustro.choose import choose, suggestion, unknown
from boustro.given import as_list, as_sentence, iterate
from boustro.options import OptionError
from boustro.tasks import TASKS, task_class, task_of
from boustro.tasks.answers import InputAnswer, Label
from boustro.tasks.base import PREDICT_INPUTS, Task
from boustro.tasks.data.pairs import KEYS
from boustro.tasks.hub import download
from boustro.types import Sentence

STRATEGIES = ("none", "simple", "first", "average", "max")
VALUE = "LABEL_0"
"""The label of a number, as transformers names the only output of a regression."""
UNSET: Any = object()
Span = tuple[str, float, int, int]
"""A label, its score, and words [start, end)."""


class Pipeline(ABC):
    """What the pipelines share.

    Args:
        model: A trained folder, its name on the Hub, or an opened `Task`.
        batch_size: Inputs in memory at once; it does not change the answers.
        device, encoder, revision: See `Task.from_pretrained`; a number is a GPU, and -1 the CPU.
        options: Options of the call, for all calls.

    Raises `OptionError` for an unknown option or value, and what `Task.from_pretrained` raises.
    """

    task: ClassVar[str]
    known: ClassVar[tuple[str, ...]]
    """Options of a call."""

    def __init__(
        self,
        model: str | Path | Task[Any, Any],
        *,
        batch_size: int | None = None,
        device: Any = None,
        encoder: str | None = None,
        revision: str | None = None,
        **options: Any,
    ) -> None:
        self.model: Any = model
        if not isinstance(model, Task):
            folder = download(model, revision)
            place = device if device is None else _device(device)
            self.model = task_class(task_of(folder)).from_pretrained(folder, encoder=encoder, device=place)
        if self.task != _pipeline_of(self.model):
            suited = _pipeline_of(self.model)
            raise OptionError(f"a {type(self.model).__name__} is for the pipeline {suited}, not for {self.task}")
        self.batch_size, self.options = batch_size, self._checked(options)

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        """The answers for an input, or for several.

        Args:
            inputs: An input, a list, or any other iterable.
            batch_size: As for the constructor.
            options: See the class.

        Raises `ValueError`, with the place, for what is no input.
        """
        chosen = {**self.options, **self._checked(options)}
        single = self._is_input(inputs, chosen)
        items = (self._as_input(item, chosen) for item in iterate([inputs] if single else inputs, "texts"))
        answers = self.model.stream_answers(items, batch_size or self.batch_size or PREDICT_INPUTS)
        found: Iterator[Any] = (self._show(answer, **chosen) for answer in answers)
        if single:
            return next(found)
        return list(found) if isinstance(inputs, (list, tuple)) else found

    def predict(self, *inputs: Any, **options: Any) -> Any:
        """The same, under the name that scikit-learn uses."""
        return self(*inputs, **options)

    transform = predict

    @abstractmethod
    def _show(self, answer: InputAnswer[Any], **options: Any) -> Any:
        """An answer as transformers has it."""

    def _is_input(self, given: Any, options: Mapping[str, Any]) -> bool:
        return self.model.is_input(given)

    def _as_input(self, given: Any, options: Mapping[str, Any]) -> Any:
        return given

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        for name in options:
            if name not in self.known:
                raise OptionError(
                    f"{type(self).__name__} has no option {name!r}{suggestion(name, self.known)} "
                    f"(it has {', '.join(self.known)})"
                )
        return dict(options)


class TokenClassificationPipeline(Pipeline):
    """Entities, or the labels of words.

    Options: `aggregation_strategy`, "none" (a dict per word: entity, score, index, word, start, end; the default) or
    any other (a dict per entity: entity_group, score, word, start, end); `ignore_labels`, by default ["O"];
    `is_split_into_words`, with `delimiter`, for inputs that are lists of words.
    """

    task = "token-classification"
    known = ("aggregation_strategy", "ignore_labels", "is_split_into_words", "delimiter")

    def _is_input(self, given: Any, options: Mapping[str, Any]) -> bool:
        if not options.get("is_split_into_words"):
            return super()._is_input(given, options)
        words = isinstance(given, (list, tuple)) and all(isinstance(word, str) for word in given)
        return words or isinstance(given, Sentence)

    def _as_input(self, given: Any, options: Mapping[str, Any]) -> Any:
        return as_sentence(given, "a list of words") if options.get("is_split_into_words") else given

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        found = super()._checked(options)
        if (strategy := found.get("aggregation_strategy")) is not None:
            name = str(getattr(strategy, "value", strategy)).lower()  # transformers' own is an enumeration
            if name not in STRATEGIES:
                raise OptionError(unknown(name, STRATEGIES, "aggregation_strategy"))
            found["aggregation_strategy"] = name
        return found

    def _show(
        self,
        answer: InputAnswer[Any],
        aggregation_strategy: str | None = None,
        ignore_labels: Collection[str] | None = None,
        is_split_into_words: bool = False,
        delimiter: str | None = None,
    ) -> list[dict[str, Any]]:
        ignored = ("O",) if ignore_labels is None else ignore_labels
        between = " " if delimiter is None else delimiter
        text = between.join(answer.input.words) if isinstance(answer.input, Sentence) else answer.input
        found, index = [], 0
        for part, own in answer.parts:
            places = part.places or _places(part.example.words, len(between))
            words = [(tag, score, n, n + 1) for n, (tag, score) in enumerate(zip(own.tags, own.scores, strict=True))]
            if aggregation_strategy in (None, "none"):
                key, spans = "entity", words
            else:
                key, spans = "entity_group", [(e.label, e.score or 0.0, e.start, e.end) for e in own.entities]
                spans = sorted([*spans, *_outside(words, spans)], key=lambda span: (span[2], -span[3]))
            for label, score, first, end in spans:
                start, stop = places[first][0], places[end - 1][1]
                numbered = {"index": index + first} if key == "entity" else {}
                place = {"word": text[start:stop], "start": start, "end": stop}
                found += [{key: label, "score": score, **numbered, **place}] * (label not in ignored)
            index += len(words)
        return found


class TextClassificationPipeline(Pipeline):
    """The label of a text or of a pair of texts, or its number.

    An input is a text, or a dict with `text` and `text_pair`. Option: `top_k`, how many labels, the most probable
    first; `None` for all. Without it an answer is one dict with label and score, in a list where the input was a text.
    """

    task = "text-classification"
    known = ("top_k",)

    def __call__(self, inputs: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        found = super().__call__(inputs, batch_size=batch_size, **options)
        return [found] if isinstance(inputs, str) and "top_k" not in options else found

    def _is_input(self, given: Any, options: Mapping[str, Any]) -> bool:
        return isinstance(given, (str, Mapping))

    def _as_input(self, given: Any, options: Mapping[str, Any]) -> Any:
        if not isinstance(given, Mapping) or "text" not in given:
            return given
        pair = given.get("text_pair")
        return given["text"] if pair is None else dict(zip(KEYS[0], (given["text"], pair), strict=True))

    def _show(self, answer: InputAnswer[Any], top_k: int | None = UNSET) -> Any:
        result = self.model.result(answer)
        scores = result.probabilities if isinstance(result, Label) else {VALUE: result}
        ranked = [{"label": label, "score": scores[label]} for label in sorted(scores, key=lambda x: -scores[x])]
        return ranked[0] if top_k is UNSET else ranked[:top_k]


class QuestionAnsweringPipeline(Pipeline):
    """The words of a context that answer a question: score, start, end and answer.

    An input is a dict with `question` and `context`, or both are named. Options: `top_k`, how many answers (more than
    one give a list; the head keeps a few); `handle_impossible_answer`, whether "" may be the answer.
    """

    task = "question-answering"
    known = ("top_k", "handle_impossible_answer")

    def __call__(
        self,
        inputs: Any = None,
        *,
        question: Any = None,
        context: Any = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> Any:
        """As `Pipeline.__call__`; `question` and `context` are texts, or lists of as many."""
        if inputs is None:
            if question is None or context is None:
                raise ValueError("give a question and its context")
            inputs = {"question": question, "context": context}
            if not isinstance(question, str):
                questions = as_list(question, "questions")
                contexts = [context] * len(questions) if isinstance(context, str) else as_list(context, "contexts")
                inputs = [{"question": q, "context": c} for q, c in zip(questions, contexts, strict=True)]
        return super().__call__(inputs, batch_size=batch_size, **options)

    def _show(self, answer: InputAnswer[Any], top_k: int = 1, handle_impossible_answer: bool = False) -> Any:
        result = self.model.result(answer)
        best = list(result.best)
        if handle_impossible_answer and not result.text:
            best = [result, *best]
        ranked = [{"score": a.score, "start": a.start, "end": a.end, "answer": a.text} for a in best[:top_k]]
        return ranked[0] if top_k == 1 else ranked


PIPELINES: dict[str, Callable[..., Pipeline]] = {
    "token-classification": TokenClassificationPipeline,
    "ner": TokenClassificationPipeline,
    "text-classification": TextClassificationPipeline,
    "sentiment-analysis": TextClassificationPipeline,
    "question-answering": QuestionAnsweringPipeline,
}


def pipeline(task: str | None = None, model: Any = None, **options: Any) -> Any:
    """The pipeline of a task, as `transformers.pipeline` makes it.

    Args:
        task: One of `PIPELINES`; by default the one that suits the model.
        model: A trained folder, its name on the Hub, or an opened `Task`.
        options: See `Pipeline` and the pipeline's own class.

    Raises `ValueError` for an unknown task, and as `Pipeline`.
    """
    if model is None:
        raise OptionError("give a model: a folder that boustro fit wrote, its name on the Hub, or an opened task")
    if task is None:
        opened = model if isinstance(model, Task) else task_class(task_of(download(model, options.get("revision"))))
        task = _pipeline_of(opened)
    return choose(task, PIPELINES, "task")(model, **options)


def _pipeline_of(model: Any) -> str:
    """The name of the pipeline; that of a similarity, which transformers does not have, is text classification."""
    own = TASKS[model.name].pipeline
    return own if own in PIPELINES else "text-classification"


def _device(given: Any) -> str:
    if isinstance(given, int):
        return "cpu" if given < 0 else f"cuda:{given}"
    return str(given)


def _places(words: Sequence[str], between: int) -> tuple[tuple[int, int], ...]:
    """The half-open ranges of words that are joined."""
    ends = [end - between for end in accumulate(len(word) + between for word in words)]
    return tuple((end - len(word), end) for word, end in zip(words, ends, strict=True))


def _outside(words: Sequence[Span], entities: Sequence[Span]) -> Iterator[Span]:
    """Runs of words outside all entities, with their mean score."""
    inside = {n for _, _, start, end in entities for n in range(start, end)}
    for is_inside, run in groupby(words, key=lambda word: word[2] in inside):
        if not is_inside:
            own = list(run)
            yield "O", sum(score for _, score, _, _ in own) / len(own), own[0][2], own[-1][3]
