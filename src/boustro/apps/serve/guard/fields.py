"""Which fields of OpenAI's chat and text completions pass, and what each is. A field that is missing here is refused.

Source: the API reference of OpenAI, version 1 (chat completions, completions, models); `reasoning_content` and
`reasoning` are what vLLM, llama.cpp and DeepSeek add.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from boustro.apps.serve.guard.reading import (
    Reading,
    Rule,
    Unchecked,
    by_type,
    checked,
    json_text,
    listed,
    nothing,
    plain,
    record,
    schema,
    text,
    texts,
)


def content(value: Any, reading: Reading, place: str) -> Any:
    """A text, or a list of parts; a text that is an object or a list of JSON is read as such."""
    if isinstance(value, str):
        return reading.json(value, place, must=reading.wants_json) if value else value
    return PARTS(value, reading, place)


def prompt(value: Any, reading: Reading, place: str) -> Any:
    """A text or several; token ids are refused."""
    if isinstance(value, list) and not all(isinstance(one, str) for one in value):
        raise Unchecked(place, "holds token ids, which cannot be checked; send text")
    return texts(value, reading, place)


CALLED_FIELDS = ("tool_calls", "function_call")
"""Fields with calls of functions."""
PARTS = listed(
    by_type(
        {
            "text": record({"type": plain, "text": text}),
            "refusal": record({"type": plain, "refusal": text}),
        },
        "a part",
    )
)
CALLED = record({"name": plain, "arguments": json_text})
CALLS = listed(
    record(
        {
            "id": plain,
            "index": plain,
            "type": plain,
            "function": CALLED,
            "custom": record({"name": plain, "input": content}),
        }
    )
)
SPOKEN: dict[str, Rule] = {
    "role": plain,
    "content": content,
    "refusal": text,
    "reasoning": text,
    "reasoning_content": text,
    "tool_calls": CALLS,
    "function_call": CALLED,
}
FUNCTION = record({"name": plain, "description": text, "parameters": schema, "strict": plain})
TOOLS = listed(
    by_type(
        {
            "function": record({"type": plain, "function": FUNCTION}),
            "custom": record({"type": plain, "custom": record({"name": plain, "description": text, "format": schema})}),
        },
        "a tool",
    )
)
RESPONSE_FORMAT = record(
    {
        "type": plain,
        "json_schema": record({"name": plain, "description": text, "schema": schema, "strict": plain}),
    }
)
ASKED: dict[str, Rule] = {
    "model": plain,
    "stream": plain,
    "stream_options": plain,
    "stop": texts,
    "user": text,
    "safety_identifier": text,
    "prompt_cache_key": text,
    "metadata": checked,
    "service_tier": plain,
    "logit_bias": plain,
    "logprobs": nothing,
    "top_logprobs": nothing,
    "prompt_logprobs": nothing,
}
CHAT_REQUEST = record(
    ASKED
    | {
        "tools": TOOLS,
        "functions": listed(FUNCTION),
        "response_format": RESPONSE_FORMAT,
        "tool_choice": plain,
        "function_call": plain,
        "reasoning_effort": plain,
        "verbosity": plain,
        "modalities": plain,
        "web_search_options": checked,
        "prediction": record({"type": plain, "content": content}),
        "messages": listed(record({**SPOKEN, "name": text, "tool_call_id": plain})),
    }
)
TEXT_REQUEST = record(ASKED | {"prompt": prompt, "suffix": text})

ENVELOPE: dict[str, Rule] = {
    "id": plain,
    "object": plain,
    "created": plain,
    "model": plain,
    "system_fingerprint": plain,
    "service_tier": plain,
    "usage": plain,
}
CHOICE: dict[str, Rule] = {"index": plain, "finish_reason": plain, "logprobs": nothing}
MODEL: dict[str, Rule] = {"id": plain, "object": plain, "created": plain, "owned_by": plain}


@dataclass(frozen=True)
class Kind:
    """An endpoint: what a request and an answer have, and which fields of a streamed answer are text."""

    request: Rule
    answer: Rule
    streamed: tuple[str, ...]
    """Fields of a choice, or of its `delta`, that arrive piece by piece."""
    has_delta: bool


KINDS = {
    "chat/completions": Kind(
        CHAT_REQUEST,
        record({**ENVELOPE, "choices": listed(record({**CHOICE, "message": record(SPOKEN)}))}),
        ("content", "refusal", "reasoning", "reasoning_content", *CALLED_FIELDS),
        has_delta=True,
    ),
    "completions": Kind(
        TEXT_REQUEST,
        record({**ENVELOPE, "choices": listed(record({**CHOICE, "text": text}))}),
        ("text",),
        has_delta=False,
    ),
}
LONG = ("messages", "prompt")
"""What grows in a conversation; it is read after the other fields, so that their masks stay."""


def read_request(kind: Kind, body: Any, reading: Reading) -> Any:
    """The request as it may pass, with slots; raises `Unchecked`."""
    if not isinstance(body, dict):
        raise Unchecked("", "is not an object")
    return kind.request(dict(sorted(body.items(), key=lambda item: item[0] in LONG)), reading, "")


def known_texts(body: Any) -> Iterator[str]:
    """The texts of messages and prompts, whatever else there is: names in them have masks, also where they pass."""
    messages = body.get("messages", body.get("prompt"))
    for message in messages if isinstance(messages, list) else [messages]:
        own = message.get("content") if isinstance(message, dict) else message
        for part in own if isinstance(own, list) else [own]:
            said = part.get("text") if isinstance(part, dict) else part
            if isinstance(said, str):
                yield said


def read_models(given: Any, reading: Reading) -> Any:
    """A list of models, or one: their names, whatever else a server says of them. Raises `Unchecked`."""
    if isinstance(given, dict) and isinstance(given.get("data"), list):
        return {"object": "list", "data": [read_models(one, reading) for one in given["data"]]}
    if not isinstance(given, dict):
        raise Unchecked("", "is not an object")
    return record(MODEL)({name: given[name] for name in MODEL if name in given}, reading, "")
