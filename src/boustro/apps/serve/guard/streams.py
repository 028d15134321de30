"""A streamed answer: events of the upstream in, chunks for the client out, of which every text has been checked.

A choice has channels: its content, its refusal, its reasoning. Each is a text of its own, with a redactor. Arguments of
functions are JSON, in which letters may be escaped, so they are held until their choice ends, and are then read whole;
so is content that was asked for as JSON. The last words of every channel come with the end of its choice.

All of it runs in the tagger's thread (`Checker.run`), one call at a time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from boustro.apps.live.redactor import Redaction
from boustro.apps.serve.guard.conversation import Channel, Conversation
from boustro.apps.serve.guard.errors import upstream_error
from boustro.apps.serve.guard.fields import CALLED_FIELDS, CHOICE, ENVELOPE, SPOKEN, Kind
from boustro.apps.serve.guard.reading import Reading, Unchecked, filled, plain, read_json, record
from boustro.apps.serve.http import Refused

DONE = b"[DONE]"
GROWING = ("arguments", "input")
MOST_CALLS = 256
WHOLE = record(SPOKEN)


@dataclass
class Choice:
    """A choice, as far as it has arrived."""

    channels: dict[str, Channel] = field(default_factory=dict)
    arrived: dict[str, list[str]] = field(default_factory=dict)
    """Texts of the channels since the last chunk for the client."""
    calls: dict[str, dict[int, Any]] = field(default_factory=dict)
    """Read when the choice ends, as `json` is; what grows is a list of pieces."""
    json: list[str] = field(default_factory=list)
    size: int = 0
    """Characters in `calls` and `json`."""
    role: str | None = None
    has_role: bool = False
    """Whether the client knows it."""
    reason: str | None = None
    has_ended: bool = False
    is_closed: bool = False
    """Whether the client has its end."""

    @property
    def held(self) -> int:
        """Characters that wait."""
        return self.size + sum(channel.held for channel in self.channels.values())


class Stream:
    """The state of one streamed answer."""

    def __init__(self, conversation: Conversation, kind: Kind) -> None:
        self.conversation, self.kind = conversation, kind
        self.choices: dict[int, Choice] = {}
        self.is_done = False
        self._envelope: dict[str, Any] = {}

    def take(self, events: Iterable[bytes]) -> list[dict[str, Any]]:
        """Read events; the chunks that the client may have now.

        Raises `Unchecked` for an event that is not understood, and `Refused` for an error of the upstream and for text
        that is held beyond the limit.
        """
        chunks: list[dict[str, Any]] = []
        for event in events:
            if event.strip() == DONE:
                self.is_done = True
                for choice in self.choices.values():
                    choice.has_ended = True
                break
            chunks += self._read(read_json(event))
        chunks += self._released()
        most = self.conversation.limits.held
        if sum(choice.held for choice in self.choices.values()) > most:
            raise Refused(502, "too_much_held", f"more than {most:,} characters of the answer would have to wait")
        return chunks

    def _read(self, event: Any) -> list[dict[str, Any]]:
        if not isinstance(event, dict):
            raise Unchecked("an event of the stream", "is not an object")
        if event.get("error"):
            raise upstream_error(502, event, self.conversation)
        choices = event.get("choices")
        if not isinstance(choices, list):
            raise Unchecked("an event of the stream", "has no choices")
        rest = {name: value for name, value in event.items() if name != "choices"}
        envelope = record(ENVELOPE)(rest, self._reading(), "")
        before = [] if choices else self._released()
        self._envelope = envelope
        for choice in choices:
            self._read_choice(choice)
        return before if choices else [*before, envelope | {"choices": []}]  # the count of tokens

    def _reading(self) -> Reading:
        return self.conversation.reading_answer()

    def _read_choice(self, given: Any) -> None:
        index = given.get("index") if isinstance(given, dict) else None
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < self.conversation.num_choices:
            raise Unchecked("a choice", "has no number of one that was asked for")
        choice, place = self.choices.setdefault(index, Choice()), f"choices[{index}]"
        rest = dict(given)
        if self.kind.has_delta:
            delta = rest.pop("delta", None)
            if not isinstance(delta, dict):
                raise Unchecked(place, "has no delta")
            rest |= delta
        own = {name: rest.pop(name) for name in self.kind.streamed if name in rest}
        own = {name: value for name, value in own.items() if value}
        if choice.has_ended and own:
            raise Unchecked(place, "goes on after its end")
        plainly = record({**CHOICE, "role": plain})(rest, self._reading(), place)
        choice.role = plainly.get("role") or choice.role
        for name, value in own.items():
            self._add(choice, name, value, f"{place}.{name}")
        if plainly.get("finish_reason") is not None:
            choice.reason, choice.has_ended = plainly["finish_reason"], True

    def _add(self, choice: Choice, name: str, value: Any, place: str) -> None:
        if name in CALLED_FIELDS:
            choice.size += _add_calls(choice.calls.setdefault(name, {}), value, place)
        elif not isinstance(value, str):
            raise Unchecked(place, "is not a text")
        elif self.conversation.wants_json and name == "content":
            choice.json.append(value)
            choice.size += len(value)
        else:
            choice.arrived.setdefault(name, []).append(value)

    def _released(self) -> list[dict[str, Any]]:
        """A chunk for every choice that has something to say."""
        chunks = []
        for index, choice in self.choices.items():
            if choice.is_closed:
                continue
            place = f"choices[{index}]"
            delta, gone = self._from_channels(choice, place)
            if choice.has_ended:
                whole, more = self._from_whole(choice, place)
                delta, gone = delta | whole, gone + more
            if choice.role and not choice.has_role:
                delta, choice.has_role = {"role": choice.role} | delta, True
            if delta or choice.has_ended:
                own: dict[str, Any] = {"delta": delta} if self.kind.has_delta else {"text": "", **delta}
                own = {"index": index, **own, "logprobs": None, "finish_reason": choice.reason}
                chunks.append(self._envelope | {"choices": [own]} | self.conversation.told(gone))
            choice.is_closed = choice.has_ended
        return chunks

    def _from_channels(self, choice: Choice, place: str) -> tuple[dict[str, Any], list[tuple[str, Redaction]]]:
        """What the channels release, and what was left out."""
        found, gone = {}, []
        arrived, choice.arrived = choice.arrived, {}
        for name in arrived:
            if name not in choice.channels:
                choice.channels[name] = self.conversation.channel()
        for name in choice.channels if choice.has_ended else arrived:
            released = choice.channels[name].feed("".join(arrived.get(name, ())), last=choice.has_ended)
            found |= {name: released.text} if released.text else {}
            gone += [(f"{place}.{name}", redaction) for redaction in released.redactions]
        return found, gone

    def _from_whole(self, choice: Choice, place: str) -> tuple[dict[str, Any], list[tuple[str, Redaction]]]:
        """The same of what was held until the choice's end."""
        own: dict[str, Any] = {"content": "".join(choice.json)} if choice.json else {}
        for name, calls in choice.calls.items():
            joined = [_joined(call) for _, call in sorted(calls.items())]
            own[name] = joined if name == "tool_calls" else joined[0]
        choice.calls, choice.json, choice.size = {}, [], 0
        reading = self._reading()
        tree = WHOLE(own, reading, place)
        self.conversation.fill_answer(reading.slots)
        return filled(tree), [(slot.place, redaction) for slot in reading.slots for redaction in slot.redactions]


def _add_calls(calls: dict[int, Any], given: Any, place: str) -> int:
    """Add pieces of calls to those that are there; returns how many characters they have."""
    size = 0
    for number, piece in enumerate(given if isinstance(given, list) else [given]):
        if not isinstance(piece, dict):
            raise Unchecked(place, "is not an object")
        index = piece.get("index", number)
        if not isinstance(index, int) or not 0 <= index < MOST_CALLS:
            raise Unchecked(place, f"has no number below {MOST_CALLS}")
        size += _merge(calls.setdefault(index, {}), piece)
    return size


def _merge(call: dict[str, Any], piece: dict[str, Any]) -> int:
    """Add a piece of a call; returns how many characters it has."""
    size = 0
    for name, value in piece.items():
        size += len(str(value)) if not isinstance(value, dict) else 0
        if isinstance(value, dict) and isinstance(call.setdefault(name, {}), dict):
            size += _merge(call[name], value)
        elif name in GROWING and isinstance(value, str):
            call.setdefault(name, []).append(value)
        elif value is not None or name not in call:
            call[name] = value
    return size


def _joined(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    return {n: "".join(v) if n in GROWING and isinstance(v, list) else _joined(v) for n, v in call.items()}
