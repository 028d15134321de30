"""Redaction of a chat: what of OpenAI's chat completions is text, in a request, a whole answer and a streamed one.

    conversation = Conversation(Checker(tagger))
    body = conversation.ask({"model": "m", "messages": [{"role": "user", "content": "Ada left."}]})   # "[PER_1] left."
    conversation.answer(answer)                    # a whole answer, with the request's names put back
    stream = Stream(conversation)
    for chunk in chunks:
        for safe in stream.take(chunk): ...        # any number of chunks for the client
    for safe in stream.end(): ...

Bodies are dicts as from JSON. A field of a request that is not known here and holds text is refused, one of an answer
is left out; what cannot be read (sound, images, log probabilities, half of a function's arguments) raises `Unchecked`.

A choice of a streamed answer has channels: its content, its refusal, its reasoning. Each is a text of its own, with a
redactor. Arguments of functions are JSON, in which letters may be escaped, so they are held until their choice ends,
and are then read whole; so is content that was asked for as JSON. The last words of every channel come with the end of
its choice. Source: the API reference of OpenAI, version 1; `reasoning_content` is what LiteLLM makes of reasoning.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from boustro.apps.live.masks import Masks, Restorer
from boustro.apps.live.redactor import Redactor
from boustro.apps.live.structured import (
    FIELD_NAME,
    BodyTexts,
    Checker,
    Rule,
    Slot,
    Unchecked,
    by_type,
    checked,
    filled,
    json_text,
    listed,
    nothing,
    numbers,
    plain,
    record,
    text_or_null,
    texts,
)

GROWING = ("arguments", "input")
"""What of a call of a function arrives in pieces."""
STRUCTURE = frozenset(["type", "required", "format", "$ref", "$schema", "additionalProperties"])
"""What a JSON schema says of its form; the rest of it is text."""
MOST_CHOICES = 128  # OpenAI's own limit of n; each choice holds a stream, so a server could be filled by more


def content(value: Any, reading: BodyTexts, place: str) -> Any:
    """Return a text, or a list of parts; a text that is an object or a list of JSON is read as such."""
    if isinstance(value, str):
        return reading.json(value, place, must=reading.wants_json) if value else value
    return CONTENT_PARTS(value, reading, place)


def schema(value: Any, reading: BodyTexts, place: str) -> Any:
    """Return a JSON schema: its form passes, its descriptions, defaults and choices are texts to check."""
    match value:
        case dict():
            copy = {}
            for name, one in value.items():
                is_form = name in STRUCTURE and not isinstance(one, dict)
                key = name if FIELD_NAME.fullmatch(name) else reading.text(name, place)
                copy[key] = (form if is_form else schema)(one, reading, place)
            return copy
        case list():
            return [schema(one, reading, place) for one in value]
        case str() if value:
            return reading.text(value, place)
    return value


def form(value: Any, reading: BodyTexts, place: str) -> Any:
    """Return the form that a schema names; a word that is no plain name is a text to check."""
    if isinstance(value, list):
        return [form(one, reading, place) for one in value]
    return value if not isinstance(value, str) or FIELD_NAME.fullmatch(value) else reading.text(value, place)


_PART: dict[str, Rule] = {"type": plain, "cache_control": plain}
CONTENT_PARTS = listed(
    by_type(
        {"text": record(_PART | {"text": text_or_null}), "refusal": record(_PART | {"refusal": text_or_null})}, "a part"
    )
)
CALLED = record({"name": plain, "arguments": json_text})
CALL: dict[str, Rule] = {"id": plain, "index": plain, "type": plain, "function": CALLED}
CALLS = listed(record(CALL | {"custom": record({"name": plain, "input": content})}))
SPOKEN_FIELDS: dict[str, Rule] = {
    "role": plain,
    "content": content,
    "refusal": text_or_null,
    "reasoning_content": text_or_null,
    "tool_calls": CALLS,
    "function_call": CALLED,
    "audio": nothing,
    "images": nothing,
}
MESSAGE = record(SPOKEN_FIELDS | {"name": text_or_null, "tool_call_id": plain, "cache_control": plain})
_NAMED: dict[str, Rule] = {"name": plain, "description": text_or_null}
FUNCTION = record(_NAMED | {"parameters": schema, "strict": plain})
TOOL = by_type(
    {
        "function": record({"type": plain, "function": FUNCTION, "cache_control": plain}),
        "custom": record({"type": plain, "custom": record(_NAMED | {"format": schema})}),
    },
    "a tool",
)
PLAINLY = (
    "model stream stream_options service_tier logit_bias tool_choice function_call reasoning_effort verbosity "
    "modalities thinking tags guardrails cache fallbacks allowed_openai_params litellm_session_id litellm_trace_id"
)
"""Fields of requests that hold numbers and short names."""
ASKED: dict[str, Rule] = {
    **dict.fromkeys(PLAINLY.split(), plain),
    **dict.fromkeys(("logprobs", "top_logprobs", "prompt_logprobs"), nothing),
    **dict.fromkeys(("metadata", "litellm_metadata"), lambda value, reading, place: value),  # LiteLLM's own
    **dict.fromkeys(("user", "safety_identifier", "prompt_cache_key"), text_or_null),
    "stop": texts,
    "tools": listed(TOOL),
    "functions": listed(FUNCTION),
    "response_format": record({"type": plain, "json_schema": record(_NAMED | {"schema": schema, "strict": plain})}),
    "prediction": record({"type": plain, "content": content}),
    "web_search_options": checked,
    "messages": listed(MESSAGE),
}
ENVELOPE: dict[str, Rule] = {
    **dict.fromkeys(("id", "object", "created", "model", "system_fingerprint", "service_tier"), plain),
    "usage": numbers,
}
CHOICE_FIELDS: dict[str, Rule] = {"index": plain, "finish_reason": plain, "logprobs": nothing}
COMPLETION = record(ENVELOPE | {"choices": listed(record(CHOICE_FIELDS | {"message": record(SPOKEN_FIELDS)}))})
CHUNK, CHUNK_DELTA = record(ENVELOPE), record(CHOICE_FIELDS | SPOKEN_FIELDS)


class Conversation:
    """A request and its answer: their masks, and the names that the client may see again.

    Nothing outlives it: the masks of a conversation come out the same in its next request, because that has the same
    texts in the same order.
    """

    def __init__(self, checker: Checker, most: int = 1_000_000) -> None:
        self.checker, self.most = checker, most
        self.masks = Masks(checker.tagger.types)
        self.names: Mapping[str, str] = {}
        """Put back in the answer."""
        self.wants_json = False
        self.left_out: set[str] = set()

    def ask(self, asked: dict[str, Any], passed: Collection[str] = (), put_back: bool = True) -> dict[str, Any]:
        """Return the fields of a request as they may pass; those named in `passed` do so unread. Raises `Unchecked`."""
        if "audio" in (asked.get("modalities") or ()):
            raise Unchecked("modalities", "asks for sound, which cannot be checked")
        form = asked.get("response_format")
        self.wants_json = isinstance(form, dict) and str(form.get("type")).startswith("json")
        reading = BodyTexts(passed)
        last = sorted(asked, key=lambda name: name == "messages")  # so that masks stay as a conversation grows
        tree = record(ASKED)({name: asked[name] for name in last}, reading, "")
        size = sum(len(slot.text) for slot in reading.slots)
        if size > self.most:
            raise Unchecked("", f"has {size:,} characters of text; {self.most:,} are checked at most")
        self.checker.regions(reading.slots)  # at once, so that each is known afterwards
        for slots in self._together(reading.slots, asked.get("messages") or (), put_back):
            self.checker.fill(slots, self.masks)
        self.names = dict(self.masks.names) if put_back else {}
        return filled(tree)

    @staticmethod
    def _together(slots: list[Slot], messages: Sequence[Any], put_back: bool) -> Iterator[list[Slot]]:
        """Yield the texts whose masks are all others than those of their names: a reader who saw no masks writes none.

        One who did repeats them from the first answer on, so from there on they are taken in the order of the texts.
        """
        heard = tuple(f"messages[{n}]" for n, one in enumerate(messages) if one.get("role") == "assistant")
        begun = next((n for n, slot in enumerate(slots) if slot.place.startswith(heard)), len(slots))
        begun = len(slots) if put_back else begun
        yield slots[:begun]
        yield from ([slot] for slot in slots[begun:])

    def answer(self, body: Any, rule: Rule = COMPLETION, place: str = "") -> Any:
        """Return an answer, or a part of one, as the client may have it. Raises `Unchecked`."""
        reading = BodyTexts(keep=False, wants_json=self.wants_json)
        tree = rule(body, reading, place)
        self.checker.fill(reading.slots, self.masks, self.names)
        self.left_out |= reading.left_out
        return filled(tree)


class Channel:
    """One text that arrives in chunks: redacted, and with names put back."""

    def __init__(self, redactor: Redactor, names: Mapping[str, str]) -> None:
        self.redactor, self._restorer = redactor, Restorer(names)

    def feed(self, chunk: str, last: bool) -> str:
        """Return the text that may be seen now that a chunk has come."""
        said = self.redactor.feed(chunk).text
        said += self.redactor.end().text if last else ""
        return self._restorer.feed(said) + (self._restorer.end() if last else "")


@dataclass
class Choice:
    """A choice of a streamed answer, as far as it has arrived."""

    channels: dict[str, Channel] = field(default_factory=dict)
    """Its texts: content, refusal, reasoning."""
    calls: list[dict[str, Any]] = field(default_factory=list)
    """Read when the choice ends, as `json` and `function` are: letters of JSON may be escaped."""
    function: dict[str, Any] = field(default_factory=dict)
    json: str = ""
    has_role: bool = False
    is_closed: bool = False
    """Whether the client has its end."""

    @property
    def held(self) -> int:
        """Characters that wait."""
        size = len(self.json) + sum(_size(call) for call in (*self.calls, self.function))
        return size + sum(channel.redactor.held for channel in self.channels.values())


class ChatStream:
    """A streamed answer: chunks in, chunks for the client out, of which every text has been checked."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.choices: dict[int, Choice] = {}
        self._envelope: dict[str, Any] = {}

    def take(self, chunk: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the chunks that the client may have after this one. Raises `Unchecked`."""
        given = chunk.get("choices") or []
        envelope = self.conversation.answer({n: v for n, v in chunk.items() if n != "choices"}, CHUNK)
        self._envelope = {name: value for name, value in envelope.items() if name != "usage"}
        made = [new for one in given for new in self._read(one)]
        held, most = sum(choice.held for choice in self.choices.values()), self.conversation.most
        if held > most:
            raise Unchecked("the answer", f"has more than {most:,} characters that would have to wait")
        if "usage" in envelope:
            made.append(envelope | {"choices": []})
        return made

    def end(self) -> list[dict[str, Any]]:
        """Return the rest of choices that had no end."""
        return [new for n, c in self.choices.items() if not c.is_closed for new in self._say(n, c, {}, None, last=True)]

    def _read(self, given: dict[str, Any]) -> Iterable[dict[str, Any]]:
        index = given.get("index", 0)
        if not isinstance(index, int) or not 0 <= index < MOST_CHOICES:
            raise Unchecked("choices", f"have no numbers below {MOST_CHOICES}")
        choice, place = self.choices.setdefault(index, Choice()), f"choices[{index}]"
        delta = dict(given.get("delta") or {})
        calls, function = delta.pop("tool_calls", None) or [], delta.pop("function_call", None) or {}
        said = {name: delta.pop(name) for name in ("content", "refusal", "reasoning_content") if delta.get(name)}
        if choice.is_closed and (calls or function or said):
            raise Unchecked(place, "goes on after its end")
        for name, value in said.items():
            if not isinstance(value, str):
                raise Unchecked(f"{place}.{name}", "is not a text")
        rest = self.conversation.answer(delta | {n: v for n, v in given.items() if n != "delta"}, CHUNK_DELTA, place)
        for call in calls:
            _merge(_call_of(choice.calls, call), call)
        _merge(choice.function, function)
        if self.conversation.wants_json:
            choice.json += said.pop("content", "")
        reason = rest.get("finish_reason") or None
        role = {} if choice.has_role or not rest.get("role") else {"role": rest["role"]}
        choice.has_role = choice.has_role or bool(role)
        return [] if choice.is_closed else self._say(index, choice, said, reason, last=reason is not None, **role)

    def _say(
        self, index: int, choice: Choice, said: dict[str, str], reason: str | None, last: bool, **delta: Any
    ) -> Iterable[dict[str, Any]]:
        """Yield a chunk of what the choice can say now, if that is anything."""
        for name in said:
            if name not in choice.channels:
                redactor = self.conversation.checker.redactor(self.conversation.masks)
                choice.channels[name] = Channel(redactor, self.conversation.names)
        for name, channel in choice.channels.items():
            if (last or name in said) and (released := channel.feed(said.get(name, ""), last)):
                delta[name] = released
        if last:
            whole: dict[str, Any] = {"content": choice.json} if choice.json else {}
            if choice.calls:
                whole["tool_calls"] = [_joined(call) | {"index": n} for n, call in enumerate(choice.calls)]
            if choice.function:
                whole["function_call"] = _joined(choice.function)
            delta |= self.conversation.answer(whole, CHUNK_DELTA, f"choices[{index}]")
            choice.calls, choice.function, choice.json, choice.is_closed = [], {}, "", True
        if delta or reason:
            yield self._envelope | {"choices": [{"index": index, "delta": delta, "finish_reason": reason}]}


def _call_of(calls: list[dict[str, Any]], piece: dict[str, Any]) -> dict[str, Any]:
    """Return the call that a piece belongs to. Another id begins another call, also under a number that there is
    already."""
    number = piece.get("index") or 0
    same = [call for call in calls if call["index"] == number]
    if not same or (piece.get("id") and same[-1].get("id") and piece["id"] != same[-1]["id"]):
        calls.append({"index": number})
        return calls[-1]
    return same[-1]


def _merge(call: dict[str, Any], piece: dict[str, Any]) -> None:
    """Add a piece of a call; an empty id or name says nothing new."""
    for name, value in piece.items():
        if isinstance(value, dict) and isinstance(call.setdefault(name, {}), dict):
            _merge(call[name], value)
        elif name in GROWING and isinstance(value, str):
            call.setdefault(name, []).append(value)
        elif value not in (None, "") or name not in call:
            call[name] = value


def _joined(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    return {n: "".join(v) if n in GROWING and isinstance(v, list) else _joined(v) for n, v in call.items()}


def _size(call: Any) -> int:
    if isinstance(call, dict):
        return sum(map(_size, call.values()))
    return sum(map(len, call)) if isinstance(call, list) else 0
