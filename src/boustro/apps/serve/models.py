"""Trained folders behind the service, and the queue before the one thread that computes.

    batcher = Batcher(most_waiting=1_000_000, batch=8192)
    answers = await batcher.answer(model, inputs, sizes)        # in the order of the inputs

A task brings how an input is read from JSON and an output written (`tasks.base`), so a new task needs nothing here.
Nothing here imports torch before a folder is opened, so that a server says at once that it is starting.

A batch belongs to one model and takes an input from each of its requests in turn, until it has `batch` characters: a
request with a thousand inputs does not keep one with a single input waiting. There is no timer: an idle model starts at
once, and under load the batches fill while it computes. Inside a batch the encoder sorts by length
(`encoders.reading`). If a batch fails, its requests are computed one by one, so that only the faulty one fails. All
state is the event loop's; only `model.answer` runs in the thread.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from boustro.apps.runtime import load
from boustro.choose import lazy, suggestion
from boustro.store import Artefact
from boustro.tasks.answering import Answering, model_folder
from boustro.tasks.base import Task
from boustro.tasks.render import page_colours
from boustro.tasks.tagger import Tagger

MOST_ASKED = 32  # a client that sends a new threshold with each request must not fill the memory
FIRST_RATE = 10_000.0  # characters per second, before anything is measured


class Answered(NamedTuple):
    """An output for every input, as JSON can hold it, and the words that were read for them."""

    outputs: list[Any]
    words: int


class Served:
    """A trained folder of any task of `TASKS` behind the service."""

    labels: Sequence[str] = ()
    has_entities: bool = False
    """Whether its outputs have entities with scores, which `min_score` selects."""
    width: int | None = None
    """Of the vector that each output is, where outputs are vectors."""
    streams: bool = False
    """Whether it can tag a text as it arrives."""

    def __init__(self, name: str, model: Task[Any, Any], explains: bool = False) -> None:
        self.name, self.task, self.example = name, model.name, model.inputs.example
        self.model, self.labels, self.explains = model, model.types, explains
        self.width = getattr(model, "width", None)
        self._answering = Answering(model, lazy("boustro.apps.explain:explain") if explains else None)
        self.has_entities = model.is_trained and model.fitted.labelling.units.has_positions
        self.streams = isinstance(model, Tagger) and not model.fitted.head.is_exported
        self._asked: dict[tuple[float | None, float | None], Served] = {}
        self._explained: Served | None = None

    def parse(self, value: Any, place: str) -> Any:
        """Return the input that a JSON value stands for; `ValueError`, with the place, for what is none."""
        given = self._answering.parse(value, place)
        if self.explains:
            from boustro.apps.explain import refuse_many_words

            refuse_many_words(list(self.model.inputs.split(given, place)), self.model, place)
        return given

    @property
    def empty_answer(self) -> dict[str, Any] | None:
        """Return the answer to an empty text, as `Task.empty_answer` does."""
        return self.model.empty_answer()

    def answer(self, inputs: Sequence[Any]) -> Answered:
        """Answer each input."""
        answers = self._answering.answer(inputs)
        words = sum(len(part.example) for answer in answers for part, _ in answer.parts)
        return Answered(self._answering.outputs(answers), words)

    def asking(self, recall: float | None, threshold: float | None) -> "Served":
        """Return the model with a recall or a threshold at which it answers more entities, see `Tagger.asking`;
        `ValueError` where it cannot."""
        if recall is None and threshold is None:
            return self
        if not isinstance(self.model, Tagger):
            what = "recall" if threshold is None else "threshold"
            raise ValueError(f"{what} is for entities; {self.name} is a model of the task {self.task}")
        made = self._asked.get((recall, threshold)) or Served(self.name, self.model.asking(recall, threshold))
        if len(self._asked) < MOST_ASKED:  # requests with the same model are computed together
            self._asked[recall, threshold] = made
        return made

    def refuse_stream(self) -> None:
        """Raise `ValueError` for a model that needs the whole text."""
        if not isinstance(self.model, Tagger):
            raise ValueError(f"{self.name} is a model of the task {self.task}, which needs the whole text")
        self.model.fitted.refuse_exported("does not tag a text as it arrives")

    def live(self, delay: int | None, wait: int = 2) -> Any:
        """Return one text that is tagged as it arrives, see `Live`; `ValueError` where it cannot be."""
        self.refuse_stream()
        from boustro.apps.live.stream import Live

        return Live(self.model, delay, wait=wait)

    def with_explanation(self) -> "Served":
        """Return the model with outputs that say what decided them; `ValueError` where it cannot."""
        self.model.fitted.refuse_exported("does not say what decided its answers")
        self._explained = self._explained or Served(self.name, self.model, explains=True)
        return self._explained

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of `/v1/models`; the colours of labels are for the page."""
        chosen = page_colours(self.labels).items()
        said: dict[str, Any] = {"name": self.name, "task": self.task, "labels": list(self.labels)}
        said |= {} if self.width is None else {"width": self.width}
        said["colours"] = {label: colour.to_dict() for label, colour in chosen}
        layers = self.model.record.get("layer_weights", {})
        return said | {"example": self.example, "streams": self.streams, "layers": layers}


def open_model(name: str, folder: Artefact | Path, device: str | None = None, encoder: str | None = None) -> Served:
    """Load a folder; raises as the `from_pretrained` of its class."""
    return Served(name, load(folder, encoder=encoder, cache=False, device=device))


def name_folders(given: Sequence[str]) -> dict[str, Artefact]:
    """Return folders by name: `["ner", "en=models/ner"]` → `{"ner": Artefact("ner"), "en": Artefact("models/ner")}`

    Raises `FileNotFoundError` and `ValueError` for what is no folder with a model, and for two of one name.
    """
    folders: dict[str, Artefact] = {}
    for word in given:
        name, equals, path = word.partition("=")
        folder = Path(path if equals and not Path(word).exists() else word)
        name = name if folder != Path(word) else folder.resolve().name
        if name in folders:
            raise ValueError(f"two models are named {name}; name one of them otherwise: NAME={folder}")
        folders[name] = model_folder(str(folder))
    return folders


def find_model(models: Mapping[str, Served], name: str | None) -> Served:
    """Return the model of a name, or the only one; `ValueError` for an unknown name, and for none where there are
    several."""
    if name is None and len(models) == 1:
        return next(iter(models.values()))
    if name is None:
        raise ValueError(f"name one of the models: {', '.join(models)}")
    if name not in models:
        raise ValueError(f"there is no model {name!r}; there are {', '.join(models)}{suggestion(name, models)}")
    return models[name]


Observe = Callable[[Served, int, int, float], None]


class Full(Exception):
    """Too much is waiting; `seconds` is about how long the model needs for it."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too much is waiting; come back in {seconds} s")
        self.seconds = seconds


@dataclass(eq=False, slots=True)
class Waiting:
    """The inputs of one request and their sizes; the first `taken` are computed or being computed."""

    model: Served
    inputs: Sequence[Any]
    sizes: Sequence[int]
    done: "asyncio.Future[list[Any]]"
    answers: list[Any] = field(default_factory=list)
    taken: int = 0

    @property
    def is_open(self) -> bool:
        """Whether an input is left and somebody still waits for the answers."""
        return self.taken < len(self.inputs) and not self.done.done()


class Batcher:
    """A bounded queue before one thread.

    Args:
        most_waiting: Characters that may wait; a request that finds as many raises `Full`.
        batch: Characters that a model is given at once.
        observe: Told of every batch: its model, inputs, words and seconds.
    """

    def __init__(self, most_waiting: int, batch: int, observe: Observe = lambda *_: None) -> None:
        self.most_waiting, self.batch, self.observe = most_waiting, batch, observe
        self.queue: deque[Waiting] = deque()
        self.waiting, self.rate = 0, FIRST_RATE
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._work: asyncio.Task[None] | None = None

    async def answer(self, model: Served, inputs: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """Return the model's answers in the order of the inputs; `sizes` are their characters.

        If the caller is cancelled, what is not computed yet is left out. Raises `Full`, and what the model raises.
        """
        if self.waiting >= self.most_waiting:
            raise Full(ceil(self.waiting / self.rate))
        mine = Waiting(model, inputs, sizes, asyncio.get_running_loop().create_future())
        if not inputs:
            return []
        self.queue.append(mine)
        self.waiting += sum(sizes)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._compute())
        try:
            return await mine.done
        finally:
            self.waiting -= sum(sizes[mine.taken :])  # nothing, unless it was cancelled or has failed

    async def _compute(self) -> None:
        while batch := self._take():
            model, started = batch[0][0].model, time.monotonic()
            size = sum(request.sizes[number] for request, number in batch)
            try:
                words = await self._ask(batch)
            except Exception:  # one bad input must not refuse the others of its batch
                words = await self._ask_one_by_one(batch)
            for request, _ in batch:
                if len(request.answers) == len(request.inputs) and not request.done.done():
                    request.done.set_result(request.answers)
            seconds = time.monotonic() - started
            # a moving mean: one slow batch must not make the next requests look hopeless
            self.rate = 0.9 * self.rate + 0.1 * size / max(seconds, 1e-6)
            self.observe(model, len(batch), words, seconds)

    def _take(self) -> list[tuple[Waiting, int]]:
        """Return the next batch, of the model that has waited longest, as (request, number of the input)."""
        self.queue = deque(request for request in self.queue if request.is_open)
        if not self.queue:
            return []
        model, size, batch = self.queue[0].model, 0, []
        turns = deque(request for request in self.queue if request.model is model)
        while turns and size < self.batch:
            request = turns.popleft()
            batch.append((request, request.taken))
            size += request.sizes[request.taken]
            request.taken += 1
            if request.is_open:
                turns.append(request)
        self.waiting -= size
        others = [request for request in self.queue if request.model is not model]
        self.queue = deque([*others, *turns])
        return batch

    async def _ask(self, batch: Sequence[tuple[Waiting, int]]) -> int:
        """Give each request its answers; returns the words that were read."""
        inputs = [request.inputs[number] for request, number in batch]
        asked = asyncio.get_running_loop().run_in_executor(self.thread, batch[0][0].model.answer, inputs)
        answered = await asked
        for (request, _), output in zip(batch, answered.outputs, strict=True):
            request.answers.append(output)
        return answered.words

    async def _ask_one_by_one(self, batch: Sequence[tuple[Waiting, int]]) -> int:
        words = 0
        for request in dict.fromkeys(request for request, _ in batch):
            try:
                words += await self._ask([(other, number) for other, number in batch if other is request])
            except Exception as error:
                if not request.done.done():
                    request.done.set_exception(error)
        return words
