"""Micro-batches across requests: one thread computes, and what waits meanwhile is computed together.

    batcher = Batcher(most_waiting=1_000_000, batch=8192)
    answers = await batcher.answer(model, inputs, sizes)        # in the order of the inputs

A batch belongs to one model and takes an input from each of its requests in turn, until it has `batch` characters: a
request with a thousand inputs does not keep one with a single input waiting. There is no timer: an idle model starts at
once, and under load the batches fill while it computes. Inside a batch the encoder sorts by length
(`encoders.reading`). If a batch fails, its requests are computed one by one, so that only the faulty one fails.

All state is the event loop's; only `model.answer` runs in the thread.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from boustro.apps.serve.served import Served

FIRST_RATE = 10_000.0  # characters per second, before anything is measured
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
        """The model's answers in the order of the inputs; `sizes` are their characters.

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
            except Exception:
                words = await self._ask_one_by_one(batch)
            for request, _ in batch:
                if len(request.answers) == len(request.inputs) and not request.done.done():
                    request.done.set_result(request.answers)
            seconds = time.monotonic() - started
            self.rate = 0.9 * self.rate + 0.1 * size / max(seconds, 1e-6)
            self.observe(model, len(batch), words, seconds)

    def _take(self) -> list[tuple[Waiting, int]]:
        """The next batch, of the model that has waited longest, as (request, number of the input)."""
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
