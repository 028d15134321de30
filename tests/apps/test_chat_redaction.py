"""Redaction of JSON, of requests for a chat, and of whole and streamed answers."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.live.chat import ChatStream, Conversation
from boustro.apps.live.masks import Masks
from boustro.apps.live.structured import Checker, Unchecked, unescaped
from test_redactor import MASKED, TEXT, chunked
from toy_tagger import NAMES, ToyLive, ToyTagger

SECRET = "Okonkwo"
NESTED = json.dumps({"b": json.dumps(["Zürich"]), "Ada": json.dumps("Zürich")})


def conversation(**options) -> Conversation:
    return Conversation(Checker(ToyTagger(**options), delay=2, live=ToyLive), most=20_000)


def user(said, **more) -> dict:
    """A request with one message."""
    return {"messages": [{"role": "user", "content": said, **more}]}


def called(arguments) -> dict:
    return user(None, tool_calls=[{"function": {"name": "f", "arguments": arguments}}])


def chunk(delta, reason=None, index=0, **more) -> dict:
    return {"id": "c-1", "model": "m", "choices": [{"index": index, "delta": delta, "finish_reason": reason}], **more}


def stream(*chunks, asked=None, **options) -> list[dict]:
    """The deltas, with their index and reason, that the client gets."""
    talk = conversation(**options)
    talk.ask(asked or user("x"))
    made = ChatStream(talk)
    bodies = [body for one in chunks for body in made.take(one)] + made.end()
    return [own["delta"] | {"reason": own["finish_reason"], "n": own["index"]} for b in bodies for own in b["choices"]]


def said(deltas, name="content") -> str:
    return "".join(delta.get(name, "") for delta in deltas)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps({"to": "Zürich", "n": 1.50}), {"to": "[LOC_1]", "n": 1.5}),
        (json.dumps({"a": NESTED}), {"a": '{"b": "[\\"[LOC_1]\\"]", "[PER_1]": "\\"[LOC_1]\\""}'}),
        (json.dumps(json.dumps(json.dumps({"to": "Zürich"}))), '"{\\"to\\": \\"[LOC_1]\\"}"'),
        ('{"log": "at {\\"Z\\\\u00fcrich: 1"}', {"log": 'at {"[LOC_1]: 1'}),  # not complete, but its escapes are read
        ('{"Ada": 1, "Okonkwo": 2, "Ada Brandt": 3}', {"[PER_1]": 1, "[PER_2]": 2, "[PER_3]": 3}),
        ('{"+49 30 1234567": 0, "n": {"phone": 7}}', {"+[PHONE_1]": 0, "n": {"phone": 7}}),
    ],
)
def test_json_is_read_to_any_depth(text, expected):
    assert json.loads(Checker(ToyTagger()).json(text, Masks(ToyTagger.types))) == expected


def test_two_names_as_keys_stay_two():
    masks, checker = Masks(ToyTagger.types), Checker(ToyTagger(), write="label")
    made = json.loads(checker.json('{"Ada": 1, "Okonkwo": 2, "[PER]": 3, "x": {"Ada": 4}}', masks))
    assert [*made.values()] == [1, 2, 3, {"[PER]": 4}] and SECRET not in made and "Ada" not in made


@given(st.text(), st.integers(1, 3))
def test_escapes_are_read_as_letters_at_their_places(text, slashes):
    """A text, its letters escaped by any number of backslashes: every letter stands where its escape does."""
    units = [text[i].encode("utf-16-be", "surrogatepass") for i in range(len(text))]
    escaped = ["".join("\\" * slashes + f"\\u{u[i : i + 2].hex()}" for i in range(0, len(u), 2)) for u in units]
    whole = "".join(escaped)
    found, places = unescaped(f"x{whole}y")
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert found == f"x{text}y"
    assert places == [0, *(1 + sum(map(len, escaped[:n])) for n in range(len(text) + 1)), len(whole) + 2]


@pytest.mark.parametrize("text", ["Z\\u00fcrich", "Z\\\\u00fcrich", "\\u005a\\u00fcrich"])
def test_a_text_with_escapes_is_read(text):
    assert conversation().ask(user(f"in {text}!"))["messages"][0]["content"] == "in [LOC_1]!"


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        (user([{"type": "image_url", "image_url": {"url": SECRET}}]), "messages[0].content[0]"),
        (user([{"type": "text", "text": "x", "image_url": SECRET}]), "messages[0].content[0]"),
        (user([SECRET]), "messages[0].content[0]"),
        (user({"text": SECRET}), "messages[0].content"),
        (user("x", thoughts=SECRET), "messages[0]"),
        (user("x", audio={"id": "a"}), "messages[0].audio"),
        ({"messages": [{"role": SECRET + " said", "content": "x"}]}, "messages[0].role"),
        (called('{"a": "\\u004f'), "messages[0].tool_calls[0].function.arguments"),
        (called({"a": SECRET}), "messages[0].tool_calls[0].function.arguments"),
        ({"messages": SECRET}, "messages"),
        ({"documents": [{"title": SECRET}]}, ""),
        ({"tools": [{"type": "browser", "browser": {"home": SECRET}}]}, "tools[0]"),
        ({"model": f"{SECRET} and others"}, "model"),
        ({"logprobs": True}, "logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        (user('{"a": ' + "[" * 5000 + "]" * 5000 + "}") | {"x": {"y": SECRET}}, ""),
        (user("x" * 20_001), ""),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_checked_is_refused(asked, place):
    with pytest.raises(Unchecked) as raised:
        conversation().ask(user("x") | asked)
    assert raised.value.place == place and SECRET not in str(raised.value)


def test_everything_in_a_request_is_checked():
    properties = {"Port Lisse": {"type": "string"}, "who": {"enum": ["Ada"]}}
    schema = {"type": "object", "title": "Ada's", "properties": properties, "required": ["Port Lisse"]}
    function = {"name": "mail", "description": "Writes to Okonkwo", "parameters": schema}
    asked = {
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "You serve Okonkwo.", "cache_control": None}]},
            {"role": "user", "name": "Ada", "content": "It rained."},
            called(json.dumps({"who": "Zürich"}))["messages"][0],
            {"role": "tool", "tool_call_id": "c-1", "content": NESTED},
        ],
        "stop": ["Ada"],
        "user": "+49 30 1234567",
        "tools": [{"type": "function", "function": function}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
        **{"temperature": 0.5, "thinking": {"type": "enabled", "budget_tokens": 9}, "metadata": {"session": "s"}},
    }
    body = conversation().ask(asked)
    sent = json.dumps(body, ensure_ascii=False)
    assert not any(name in sent for name in (*NAMES, "fcrich", "+49")) and body["temperature"] == 0.5
    own = body["tools"][0]["function"]["parameters"]
    assert own["required"] == [next(iter(own["properties"]))] and body["thinking"] == asked["thinking"]
    assert conversation().ask(user("x") | {"documents": [SECRET]}, passed=["documents"])["documents"] == [SECRET]


@pytest.mark.parametrize(
    ("put_back", "expected"),
    [
        (True, ["[PER_3] met [PER_1].", "[PER_2] flew.", "Where is [PER_1]? And [PER_4]?"]),
        (False, ["[PER_2] met [PER_1].", "[PER_2] flew.", "Where is [PER_1]? And [PER_3]?"]),
    ],
)
def test_a_mask_in_a_request_is_taken_but_for_those_that_a_reader_of_masks_repeats(put_back, expected):
    said = ["Ada met [PER_1].", "[PER_2] flew.", "Where is [PER_1]? And Okonkwo?"]
    messages = [{"role": role, "content": one} for role, one in zip(("user", "assistant", "user"), said, strict=True)]
    made = conversation().ask({"messages": messages}, put_back=put_back)
    assert [one["content"] for one in made["messages"]] == expected


def test_a_whole_answer_and_its_names():
    talk = conversation()
    talk.ask(user("Okonkwo?"))
    arguments = '{"a": "[PER_1]", "b": "Ada", "words": ["[PER_1]", "met", "(Ada)", "[PER_1]"]}'
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    spoken = {"role": "assistant", "content": "[PER_1] knows Ada.", "tool_calls": [call], "annotations": [SECRET]}
    answer = talk.answer({"id": "x", "choices": [{"index": 0, "message": spoken}], "usage": {"n": 3, "by": SECRET}})
    made = answer["choices"][0]["message"]
    assert made["content"] == "Okonkwo knows [PER_2]." and answer["usage"] == {"n": 3}
    names = {"a": "Okonkwo", "b": "[PER_2]", "words": ["Okonkwo", "met", "([PER_2])", "Okonkwo"]}
    assert json.loads(made["tool_calls"][0]["function"]["arguments"]) == names
    assert "annotations" not in made and talk.left_out == {"annotations"}


@pytest.mark.parametrize("cuts", [0, 3, 12, 60])
def test_any_chunks_give_the_same_text(cuts):
    draw = random.Random(cuts)
    for _ in range(3):
        pieces = chunked(TEXT, draw.choices(range(len(TEXT)), k=cuts))
        assert said(stream(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"))) == MASKED


def test_texts_of_a_stream_are_apart_and_its_names_come_back():
    texts = {"content": "[PER_1] and Ada", "reasoning_content": "Ada asks", "refusal": "Not Okonkwo"}
    letters = [chunk({name: letter}, index=i) for i, (name, text) in enumerate(texts.items()) for letter in text]
    made = stream(chunk({"role": "assistant", "content": ""}), *letters, *(chunk({}, "stop", i) for i in range(3)),
                  asked=user("Okonkwo?"))  # fmt: skip
    assert said(made) == "Okonkwo and [PER_2]" and said(made, "refusal") == "Not Okonkwo"
    assert said(made, "reasoning_content") == "[PER_2] asks" and said(made, "role") == "assistant"
    assert sorted(d["n"] for d in made if d["reason"]) == [0, 1, 2]


def piece(index=0, name=None, arguments=None, **more) -> dict:
    return chunk({"tool_calls": [{"index": index, "function": {"name": name, "arguments": arguments}, **more}]})


@pytest.mark.parametrize(
    "pieces",
    [
        [piece(0, "f", "", id="c-1"), piece(0, "", '{"a":"A'), piece(0, None, 'da"}'), piece(1, "g", "{}", id="c-2")],
        [piece(0, "f", '{"a":', id="c-1"), piece(0, "", '"Ada"}', id=""), piece(1, "g", "{}", id="c-2"), piece(1)],
        [piece(0, "f", '{"a":"Ada"}', id="c-1"), piece(0, "g", "{}", id="c-2")],  # two under one number
        [piece(None, "f", '{"a":"Ada"}', id="c-1"), piece(0, None, None), piece(None, "g", "{}", id="c-2")],
    ],
)  # fmt: skip
@pytest.mark.parametrize("ends", [True, False])
def test_calls_in_pieces(pieces, ends):
    made = stream(*pieces, *([chunk({}, "tool_calls"), chunk({}, "")] if ends else []))
    (calls,) = [delta["tool_calls"] for delta in made if "tool_calls" in delta]
    found = [(c["index"], c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]
    assert found == [(0, "c-1", "f", {"a": "[PER_1]"}), (1, "c-2", "g", {})]


def test_content_that_was_asked_for_as_json_is_held_and_read():
    text = json.dumps({"name": "Élodie 🦬", "ids": [1, 2.50]})
    asked = user("x") | {"response_format": {"type": "json_object"}}
    made = stream(*(chunk({"content": letter}) for letter in text), chunk({}, "stop"), asked=asked)
    assert [json.loads(d["content"]) for d in made if d.get("content")] == [{"name": "[PER_1] 🦬", "ids": [1, 2.5]}]


@pytest.mark.parametrize(
    "bad",
    [
        chunk({"content": [{"type": "text", "text": SECRET}]}),
        chunk({"audio": {"data": SECRET}}),
        chunk({"images": [{"url": SECRET}]}),
        chunk({"content": "x"}) | {"choices": [{"index": 0, "delta": {}, "logprobs": {"content": [SECRET]}}]},
        chunk({}, f"{SECRET} stopped"),
        chunk({"content": "x"}, index=1000),
        chunk({"content": "x" * 20_001}),
        piece(0, f"{SECRET} x", "{}"),
        piece(0, "f", '{"a": "\\u004fkonkwo'),
    ],
)
def test_what_cannot_be_checked_ends_a_stream(bad):
    with pytest.raises(Unchecked) as raised:
        stream(chunk({"content": "It rained on "}), chunk({"content": SECRET}), bad, chunk({}, "stop"))
    assert SECRET not in str(raised.value)
    with pytest.raises(Unchecked, match="goes on after its end"):
        stream(chunk({}, "stop"), chunk({"content": SECRET}))


@pytest.mark.parametrize(
    ("message", "choice"),
    [
        ({"audio": {"id": "a", "data": SECRET}}, {}),
        ({"images": [{"type": "image_url", "image_url": {"url": SECRET}}]}, {}),
        ({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": '{"a": "\\u004f'}}]}, {}),
        ({}, {"logprobs": {"content": [{"token": SECRET}]}}),
    ],
)
def test_a_whole_answer_that_cannot_be_checked_is_refused(message, choice):
    spoken = {"role": "assistant", "content": "x", **message}
    with pytest.raises(Unchecked) as raised:
        conversation().answer({"id": "x", "choices": [{"index": 0, "message": spoken, **choice}]})
    assert SECRET not in str(raised.value)


def test_counts_of_tokens_come_last_and_unknown_fields_go():
    talk = conversation()
    made = ChatStream(talk)
    made.take({"choices": [{"index": 0}]})  # no delta
    made.take(chunk({"content": "Ada", "thoughts": SECRET, "provider": SECRET}, "stop"))
    (told,) = made.take({"id": "c-1", "usage": {"total_tokens": 3}, "by": SECRET})
    assert told == {"id": "c-1", "usage": {"total_tokens": 3}, "choices": []}
    assert talk.left_out == {"thoughts", "provider", "by"} and made.end() == []
