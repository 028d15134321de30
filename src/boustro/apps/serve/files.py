"""`/v1/predict/file`: JSON lines in, a JSON line out for each, in order, in constant memory.

    {"id": 7, "text": "Ada left."}      →  {"id": 7, "text": "Ada left.", "entities": [{"label": "PER", …}]}
    "Ada left."                         →  {"entities": […]}
    {"id": 8}                           →  {"error": {"code": "not_valid", "message": "line 3: no text …"}, "line": 3}

Of a body that is sent as text/plain every line is a text.

Many clients read only after they have sent all. Their answers would fill the connection, and then nobody would read
what they send; so answers that the client does not take yet go to a file on disk (`Spool`).
"""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from boustro.apps.serve.batcher import Full
from boustro.apps.serve.http import Refused, in_time
from boustro.apps.serve.middleware import JSON_LINES
from boustro.apps.serve.served import Served
from boustro.output import as_json

if TYPE_CHECKING:
    from boustro.apps.serve.app import Service

CHUNK_LINES = 64
CHUNK_CHARACTERS = 1 << 16
SPOOL_BYTES = 1 << 20  # in memory
READ_BYTES = 1 << 16


class Spool:
    """Bytes between a writer and a reader that may be far behind: in memory, then on disk."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 (closed by read)
        self._written, self._ended, self._news = 0, False, asyncio.Event()

    def write(self, data: bytes) -> None:
        """Append; at once, because the operating system keeps what the disk does not have yet."""
        self._file.seek(self._written)
        self._written += self._file.write(data)
        self._news.set()

    def end(self) -> None:
        """Nothing more comes."""
        self._ended = True
        self._news.set()

    async def read(self) -> AsyncIterator[bytes]:
        """All that is written, as it comes."""
        place = 0
        with self._file:
            while place < self._written or not self._ended:
                if place == self._written:
                    self._news.clear()
                    await self._news.wait()
                    continue
                self._file.seek(place)
                data = self._file.read(min(READ_BYTES, self._written - place))
                place += len(data)
                yield data


async def spooled(parts: AsyncIterator[bytes], refused: Callable[[Refused], bytes]) -> AsyncGenerator[bytes, None]:
    """The parts, made whether or not the reader keeps up; where one is refused, that is said, and they end."""
    spool = Spool()

    async def work() -> None:
        try:
            async for part in parts:
                spool.write(part)
        except Refused as error:
            spool.write(refused(error))
        finally:
            spool.end()

    job = asyncio.create_task(work())
    try:
        async for data in spool.read():
            yield data
        await job
    finally:
        job.cancel()


def answer_file(
    service: "Service",
    model: Served,
    body: AsyncIterator[bytes],
    shape: Callable[[Sequence[Any]], list[Any]],
    value_of: "ValueOf",
) -> AsyncIterator[bytes]:
    """The lines of answer to the lines of a body, read by `value_of`; `shape` is applied to outputs."""

    async def answers() -> AsyncIterator[bytes]:
        async for chunk in _chunks(body, 1024 * service.limits.body_kb, service.limits.timeout):
            yield "".join(await _answer(service, model, chunk, shape, value_of)).encode()

    return spooled(answers(), lambda error: (as_json(error.to_dict()) + "\n").encode())


async def _answer(
    service: "Service",
    model: Served,
    lines: Sequence[tuple[int, bytes]],
    shape: Callable[[Sequence[Any]], list[Any]],
    value_of: "ValueOf",
) -> list[str]:
    """A line of JSON for each line."""
    shown: list[dict[str, Any]] = []
    read: list[tuple[int, Any, int]] = []  # of those that are inputs: the place among `shown`, the input, its size
    for number, line in lines:
        try:
            value = value_of(line, number)
            read.append((len(shown), *service.read(model, value, f"line {number}")))
            shown.append(dict(value) if isinstance(value, dict) else {})
        except Refused as error:
            shown.append({**error.to_dict(), "line": number})
    inputs, sizes = [given for _, given, _ in read], [size for *_, size in read]
    outputs = await _outputs(service, model, inputs, sizes, shape)
    for (place, *_), output in zip(read, outputs, strict=True):
        shown[place] |= output
    return [as_json(record) + "\n" for record in shown]


async def _outputs(
    service: "Service",
    model: Served,
    inputs: Sequence[Any],
    sizes: Sequence[int],
    shape: Callable[[Sequence[Any]], list[Any]],
) -> list[Any]:
    """An output for each input, an error for one at which the model fails."""
    try:
        return shape(await _patiently(service, model, inputs, sizes))
    except Exception as error:
        if len(inputs) == 1:
            return [Refused(500, "internal", f"this is a bug of ours ({type(error).__name__})").to_dict()]
        single = [await _outputs(service, model, [g], [s], shape) for g, s in zip(inputs, sizes, strict=True)]
        return [output for outputs in single for output in outputs]


async def _patiently(service: "Service", model: Served, inputs: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """The answers; where too much waits, a file waits too, unlike a single request."""
    while True:
        try:
            return await service.batcher.answer(model, inputs, sizes)
        except Full:
            await asyncio.sleep(0.05)


ValueOf = Callable[[bytes, int], Any]
"""(line, its number) → the value on it; `Refused` for what is none."""


def json_of(line: bytes, number: int) -> Any:
    """The JSON value on a line."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "not_json", f"line {number}: not JSON ({error})") from None


def text_of(line: bytes, number: int) -> str:
    """The text on a line; JSON objects and lists are taken for a body of another kind."""
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise Refused(400, "not_text", f"line {number}: not UTF-8") from None
    if text[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(text)
            raise Refused(415, "not_text", f"line {number}: JSON in a body of text/plain; send it as {JSON_LINES[1]}")
    return text


async def _chunks(body: AsyncIterator[bytes], most: int, seconds: float) -> AsyncIterator[list[tuple[int, bytes]]]:
    """(number, line) of the lines that are not blank, some at a time; `Refused` for one larger than `most` bytes."""
    chunk: list[tuple[int, bytes]] = []
    size, numbers, rest = 0, count(1), b""
    async for data in _with_end(body, seconds):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > most or any(len(line) > most for line in lines):
            raise Refused(413, "too_large", f"line {next(numbers)}, or one soon after it, has more than {most:,} bytes")
        for line in lines:
            number = next(numbers)
            if line.strip():
                chunk.append((number, line))
                size += len(line)
            if len(chunk) >= CHUNK_LINES or size >= CHUNK_CHARACTERS:
                yield chunk
                chunk, size = [], 0
        if chunk:  # what has come is answered, whatever comes later
            yield chunk
            chunk, size = [], 0


async def _with_end(body: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The same, with a line break at the end, which a last line may lack; `Refused` where nothing comes for a while."""
    late = Refused(408, "slow_body", f"nothing came for {seconds:g} s; the rest is not read")
    async for data in in_time(aiter(body), seconds, late):
        yield data
    yield b"\n"
