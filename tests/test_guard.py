"""`boustro guard` between the `openai` client and an upstream of our own: what passes, and how it is changed."""

import asyncio
import json
import random

import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")
pytest.importorskip("openai", reason="needs the openai client: pip install openai")

import httpx
import openai

from guarded import CHUNK, USAGE, FakeUpstream, delta, echo, finish, guarding, message, text
from test_redactor import MASKED, TEXT, chunked

SAID = "Ada Brandt and Okonkwo left Port Lisse: call +49 30 1234567 now."
SAFE = "[PER_1] and [PER_2] left [LOC_1]: call [PHONE_1] now."


@pytest.fixture(scope="module")
def running():
    with FakeUpstream().running() as made:
        yield made


@pytest.fixture
def upstream(running):
    running.asked.clear()
    running.act = echo
    return running


def client_of(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="k-1", max_retries=0, timeout=30)


@pytest.fixture(scope="module")
def guards(running):
    """guards(direction="answers", …) → a client of a guard with these options, one for all tests."""
    made, stops = {}, []

    def guard(**options) -> openai.OpenAI:
        key = repr(sorted(options.items()))
        if key not in made:
            stops.append(guarding(running.url, **options))
            made[key] = client_of(stops[-1].__enter__())
        return made[key]

    yield guard
    for stop in stops:
        stop.__exit__(None, None, None)


def chat(client, said=SAID, messages=None, **options):
    return client.chat.completions.create(
        model="m", messages=messages or [{"role": "user", "content": said}], **options
    )


def streamed(client, said=SAID, **options) -> str:
    return "".join(c.choices[0].delta.content or "" for c in chat(client, said, stream=True, **options) if c.choices)


def test_a_chat_is_masked_on_both_ways(upstream, guards):
    answer = chat(guards())
    assert answer.choices[0].message.content == SAFE and answer.choices[0].finish_reason == "stop"
    assert upstream.asked[0].body == {"messages": [{"role": "user", "content": SAFE}], "model": "m"}
    assert answer.usage.total_tokens == 12 and answer.usage.prompt_tokens_details.cached_tokens == 0
    assert streamed(guards()) == SAFE


def test_directions(upstream, guards):
    assert chat(guards(direction="answers")).choices[0].message.content == SAFE
    assert upstream.asked[-1].body["messages"][0]["content"] == SAID
    assert streamed(guards(direction="answers")) == SAFE

    async def say(asked):
        said = "[PER_1] knows Ada."
        await (asked.stream(delta(said), finish()) if asked.body.get("stream") else asked.answer(message(said)))

    upstream.act = say
    for one in ("Okonkwo?",):
        assert chat(guards(direction="prompts"), one).choices[0].message.content == "[PER_1] knows Ada."
        assert streamed(guards(direction="prompts"), one) == "[PER_1] knows Ada."
    assert upstream.asked[-1].body["messages"][0]["content"] == "[PER_1]?"
    assert streamed(guards(direction="prompts", put_back=True), "Okonkwo?") == "Okonkwo knows Ada."
    assert streamed(guards(put_back=True), "Okonkwo?") == "Okonkwo knows [PER_2]."


def test_the_client_gets_its_names_back_and_only_its_own(upstream, guards):
    client = guards(put_back=True)
    assert chat(client).choices[0].message.content == SAID and streamed(client) == SAID
    assert upstream.asked[-1].body["messages"][0]["content"] == SAFE

    async def say(asked):
        await asked.stream(*map(delta, "[PER_1] knows Élodie 🦬, [PER_2] and Ada"), finish())

    upstream.act = say
    assert streamed(client, "Ada?") == "Ada knows [PER_2], [PER_2] and Ada"


def test_a_name_keeps_its_mask_through_a_conversation(upstream, guards):
    async def say(asked):
        await asked.answer(message("Élodie 🦬 knows Okonkwo."))

    upstream.act = say
    client, messages = guards(), [{"role": "user", "content": "Ada?"}]
    first = chat(client, messages=messages).choices[0].message
    assert first.content == "[PER_2] knows [PER_3]."
    messages += [first.model_dump(), {"role": "user", "content": "Is Okonkwo with Ada Brandt or Ada?"}]
    second = chat(client, messages=messages).choices[0].message.content
    sent = upstream.asked[-1].body["messages"]
    assert [one["content"] for one in sent] == [
        "[PER_1]?",
        "[PER_2] knows [PER_3].",
        "Is [PER_4] with [PER_5] or [PER_1]?",  # the guard does not keep whom [PER_3] stood for
    ]
    assert second == "[PER_6] knows [PER_4]."


def test_masks_are_the_same_every_time_where_only_answers_are_checked(upstream, guards):
    client, messages = guards(direction="answers"), [{"role": "user", "content": "Repeat: Ada, Okonkwo"}]
    first = chat(client, messages=messages).choices[0].message
    assert first.content == "Repeat: [PER_1], [PER_2]"
    messages += [first.model_dump(), {"role": "user", "content": "Repeat: Okonkwo, Élodie 🦬"}]
    assert chat(client, messages=messages).choices[0].message.content == "Repeat: [PER_2], [PER_3]"


def test_labels_and_what_is_written_instead(upstream, guards):
    client = guards(labels=("PER,PHONE",), with_="label")
    expected = "[PER] and [PER] left Port Lisse: call [PHONE] now."
    assert chat(client).choices[0].message.content == expected and streamed(client) == expected
    client = guards(with_="event", direction="answers")
    answer = chat(client)
    assert answer.choices[0].message.content == " and  left : call  now."
    assert answer.redactions == [
        {"place": "choices[0].message.content", "label": label, "at": at, "score": 0.9}
        for label, at in (("PER", 0), ("PER", 5), ("LOC", 11), ("PHONE", 18))
    ]
    chunks = [*chat(client, stream=True)]
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == " and  left : call  now."
    found = [r for c in chunks for r in c.redactions]
    assert [(r["place"], r["label"], r["at"]) for r in found][1:3] == [
        ("choices[0].content", "PER", 5),
        ("choices[0].content", "LOC", 11),
    ]


@pytest.mark.parametrize("cuts", [0, 3, 12, 60])
def test_any_chunks_give_the_same_text(upstream, guards, cuts):
    draw = random.Random(cuts)
    client = guards(direction="answers")

    async def say(asked):
        await asked.start()
        events = [delta(piece) for piece in chunked(TEXT, draw.choices(range(len(TEXT)), k=cuts))]
        data = "".join(f"data: {json.dumps(e)}\r\n\r\n" for e in [*events, finish()]).encode() + b"data: [DONE]\n\n"
        for a, b in zip([0, *places], [*places, len(data)], strict=True) if (places := cut(data)) else [(0, len(data))]:
            await asked.send(data[a:b])
            await asyncio.sleep(0)

    def cut(data):
        return sorted(draw.sample(range(1, len(data)), cuts))

    upstream.act = say
    for _ in range(3):
        assert streamed(client, "x") == MASKED


def test_half_characters_in_two_chunks(upstream, guards):
    async def say(asked):
        first, second = (json.dumps(delta(half)) for half in ("Élodie \ud83e", "\uddac left. \ud83e"))
        await asked.stream(first, second, finish())

    upstream.act = say
    assert streamed(guards(direction="answers"), "x") == "[PER_1] left. \ufffd"


def test_words_come_as_soon_as_they_are_safe(upstream, guards):
    seen = []

    async def say(asked):
        await asked.start()
        for word in ("Ada ", "left ", "on ", "Monday ", "with "):
            await asked.events(delta(word), done=False)
            await asyncio.sleep(0.2)
        await asked.events("not JSON", done=False)

    upstream.act = say
    with pytest.raises(openai.APIError, match="not JSON"):
        seen.extend(c.choices[0].delta.content for c in chat(guards(direction="answers"), "x", stream=True))
    assert "".join(seen) == "[PER_1] left on " and len(seen) >= 2


def test_several_choices_and_their_usage(upstream, guards):
    async def say(asked):
        if not asked.body.get("stream"):
            both = message("Ada and Okonkwo.")["choices"] + [message("Okonkwo.")["choices"][0] | {"index": 1}]
            return await asked.answer(message("") | {"choices": both})
        pieces = [delta(role="assistant"), delta(role="assistant", index=1)]
        pieces += [
            delta(a, index=i)
            for a, b in zip("Ada and Okonkwo.", "Okonkwo.  and so", strict=True)
            for i, a in ((0, a), (1, b))
        ]
        await asked.stream(*pieces, finish(1, "length"), finish(), CHUNK | {"choices": [], "usage": USAGE})

    upstream.act = say
    client = guards(direction="answers")
    found = chat(client, "x", n=2)
    assert [c.message.content for c in found.choices] == ["[PER_1] and [PER_2].", "[PER_2]."]
    chunks = [*chat(client, "x", n=2, stream=True, stream_options={"include_usage": True})]
    said = {0: "", 1: ""}
    for one in (c for chunk in chunks for c in chunk.choices):
        said[one.index] += one.delta.content or ""
    one, other = said[0].removesuffix(".").split(" and ")
    assert {one, other} == {"[PER_1]", "[PER_2]"} and said[1] == f"{other}.  and so"
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 12
    ends = [(c.index, c.finish_reason) for chunk in chunks for c in chunk.choices if c.finish_reason]
    assert sorted(ends) == [(0, "stop"), (1, "length")]
    roles = [c.index for chunk in chunks for c in chunk.choices if c.delta.role]
    assert sorted(roles) == [0, 1]


ARGUMENTS = json.dumps({"who": "Ada Brandt", "more": [{"phone": "+49 30 1234567", "n": 7, "ok": True}], "s": "Zürich"})
CALL = {"id": "call-1", "type": "function", "function": {"name": "mail", "arguments": ARGUMENTS}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "mail",
            "description": "Writes to Okonkwo",
            "parameters": {"type": "object", "properties": {"who": {"type": "string", "enum": ["Ada", "Li"]}}},
        },
    }
]


def test_calls_of_functions_and_their_results(upstream, guards):
    assert "\\u" in ARGUMENTS

    async def say(asked):
        if not asked.body.get("stream"):
            return await asked.answer(message(None, tool_calls=[CALL]))
        head = CALL | {"index": 0, "function": {"name": "mail", "arguments": ""}}
        pieces = [{"index": 0, "function": {"arguments": piece}} for piece in ARGUMENTS]
        second = {"index": 1, "id": "call-2", "type": "function", "function": {"name": "stop", "arguments": "{}"}}
        parts = [head, *pieces, second]
        await asked.stream(*(delta(tool_calls=[part]) for part in parts), finish(reason="tool_calls"))

    upstream.act = say
    client = guards()
    spoken = chat(client, "Ada!", tools=TOOLS).choices[0].message
    expected = {"who": "[PER_3]", "more": [{"phone": "[PHONE_1]", "n": 7, "ok": True}], "s": "[LOC_1]"}
    assert json.loads(spoken.tool_calls[0].function.arguments) == expected
    function = upstream.asked[-1].body["tools"][0]["function"]
    assert (function["name"], function["description"]) == ("mail", "Writes to [PER_1]")
    assert function["parameters"]["properties"] == {"who": {"type": "string", "enum": ["[PER_2]", "Li"]}}
    assert upstream.asked[-1].body["messages"][0]["content"] == "[PER_2]!"
    chunks = [c.choices[0].delta.tool_calls for c in chat(client, "Ada!", stream=True) if c.choices[0].delta.tool_calls]
    assert len(chunks) == 1
    found = [(c.index, c.id, c.function.name, json.loads(c.function.arguments)) for c in chunks[0]]
    expected = {"who": "[PER_2]", "more": [{"phone": "[PHONE_1]", "n": 7, "ok": True}], "s": "[LOC_1]"}
    assert found == [(0, "call-1", "mail", expected), (1, "call-2", "stop", {})]
    result = {"role": "tool", "tool_call_id": "call-1", "content": '{ "to": ["Ada"], "at": "Z\\u00fcrich", "n": 1.50 }'}
    chat(
        client, messages=[{"role": "user", "content": "Ada!"}, spoken.model_dump(), result, result | {"content": "{ }"}]
    )
    sent = upstream.asked[-1].body["messages"]
    assert sent[2]["content"] == '{"to":["[PER_1]"],"at":"[LOC_2]","n":1.5}' and sent[3]["content"] == "{ }"


def test_names_are_put_back_into_arguments_as_json(upstream, guards):
    said = {"a": "[PER_1]"}

    async def say(asked):
        call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps(said)}}
        await asked.stream(delta(tool_calls=[call]), finish())

    upstream.act = say
    chunks = [c.choices[0].delta for c in chat(guards(put_back=True), "Élodie 🦬", stream=True)]
    assert json.loads(chunks[-1].tool_calls[0].function.arguments) == {"a": "Élodie 🦬"}


def test_content_that_is_json_is_read_value_by_value(upstream, guards):
    said = json.dumps({"name": "Élodie 🦬", "quote": 'May said: "Ada"', "ids": [1, 2.50]}, indent=1)
    assert "\\u" in said

    async def say(asked):
        if asked.body.get("stream"):
            await asked.stream(*map(delta, said), finish())
        else:
            await asked.answer(message(said))

    upstream.act = say
    expected = {"name": "[PER_1]", "quote": '[PER_2] said: "[PER_3]"', "ids": [1, 2.5]}
    client = guards(direction="answers")
    assert json.loads(chat(client, "x").choices[0].message.content) == expected
    parts = [*chat(client, "x", stream=True, response_format={"type": "json_object"})]
    assert [json.loads(p.choices[0].delta.content) for p in parts if p.choices[0].delta.content] == [expected]


def test_reasoning_and_refusals_are_texts_too(upstream, guards):
    async def say(asked):
        if asked.body.get("stream"):
            letters = [delta(reasoning_content=c) for c in "Ada asks"] + [delta(refusal=c) for c in "Not Okonkwo"]
            await asked.stream(*letters, delta("Hello Ada"), finish())
        else:
            await asked.answer(message("Hello Ada", refusal="Not Okonkwo", reasoning_content="Ada asks"))

    upstream.act = say
    client = guards(direction="answers")
    whole = chat(client, "x").choices[0].message
    assert (whole.content, whole.refusal, whole.reasoning_content) == ("Hello [PER_1]", "Not [PER_2]", "[PER_1] asks")
    said = {"content": "", "refusal": "", "reasoning_content": ""}
    for chunk in chat(client, "x", stream=True):
        for name in said:
            said[name] += getattr(chunk.choices[0].delta, name, None) or ""
    assert said == {"content": "Hello [PER_1]", "refusal": "Not [PER_2]", "reasoning_content": "[PER_1] asks"}


def test_text_completions(upstream, guards):
    client = guards()
    answer = client.completions.create(model="m", prompt=SAID, suffix="for Ada", max_tokens=9, stop=["Ada", "\n"])
    assert answer.choices[0].text == "[PER_2] and [PER_3] left [LOC_1]: call [PHONE_1] now."
    body = upstream.asked[-1].body
    assert (body["suffix"], body["stop"], body["max_tokens"]) == ("for [PER_1]", ["[PER_1]", "\n"], 9)
    chunks = [*client.completions.create(model="m", prompt=SAID, stream=True)]
    assert "".join(c.choices[0].text for c in chunks) == SAFE and chunks[-1].choices[0].finish_reason == "stop"

    async def say(asked):
        both = [text("Ada", "stop")["choices"][0], text("Li", "stop", 1)["choices"][0]]
        await asked.answer({"id": "t", "object": "text_completion", "created": 1, "model": "m", "choices": both})

    upstream.act = say
    both = client.completions.create(model="m", prompt=["Ada", "Okonkwo"]).choices
    assert [c.text for c in both] == ["[PER_1]", "Li"]


def test_everything_in_a_request_is_checked(upstream, guards):
    client = guards()
    parts = [{"type": "text", "text": "Ada"}, {"type": "text", "text": "It rained."}]
    messages = [
        {"role": "system", "content": "You serve Okonkwo."},
        {"role": "user", "name": "Ada", "content": parts},
    ]
    schema = {
        "type": "object",
        "title": "Ada's",
        "properties": {"Port Lisse": {"type": "integer"}},
        "required": ["Port Lisse"],
    }
    chat(
        client,
        messages=messages,
        user="+49 30 1234567",
        metadata={"for": "Zürich"},
        temperature=0.5,
        logit_bias={"50256": -100},
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
        tool_choice={"type": "function", "function": {"name": "f"}},
        extra_body={"top_k": 40, "min_p": None},
    )
    body = upstream.asked[-1].body
    assert not any(name in json.dumps(body, ensure_ascii=False) for name in ("Ada", "Okonkwo", "Zürich", "+49", "Port"))
    assert (body["temperature"], body["top_k"], body["logit_bias"]) == (0.5, 40, {"50256": -100})
    own = body["response_format"]["json_schema"]["schema"]
    assert own["type"] == "object" and [*own["properties"]] == own["required"]
    assert body["messages"][1]["content"][1] == {"type": "text", "text": "It rained."}


def test_models(upstream, guards):
    model = {"id": "org/m-1:free", "object": "model", "created": 7, "owned_by": "org", "description": "Made by Ada"}

    async def say(asked):
        await asked.answer({"object": "list", "data": [model]} if asked.path == "/v1/models" else model)

    upstream.act = say
    own = {name: model[name] for name in ("id", "object", "created", "owned_by")}
    assert [m.model_dump(exclude_unset=True) for m in guards().models.list()] == [own]
    assert (
        guards().models.retrieve("org/m-1").model_dump(exclude_unset=True) == own
        and upstream.asked[-1].path == "/v1/models/org/m-1"
    )


def test_headers_that_pass_and_that_do_not(upstream, guards, tmp_path):
    async def say(asked):
        own = {"x_request_id": "r-1", "x_ratelimit_remaining_requests": "7", "set_cookie": "a=Ada", "x_note": "Ada"}
        await asked.answer(message("x"), **own)

    upstream.act = say
    client = guards()
    headers = {"Cookie": "a=1", "X-Note": "Ada", "OpenAI-Organization": "o-1", "Connection": "close"}
    answer = client.chat.completions.with_raw_response.create(
        model="m", messages=[{"role": "user", "content": "x"}], extra_headers=headers
    )
    sent = upstream.asked[-1].headers
    assert (sent["authorization"], sent["openai-organization"]) == ("Bearer k-1", "o-1")
    assert not {"cookie", "x-note"} & set(sent) and not any(name.startswith("x-stainless") for name in sent)
    assert sent["user-agent"].startswith("boustro/") and sent["accept-encoding"] == "identity"
    assert answer.headers["x-ratelimit-remaining-requests"] == "7"
    assert "set-cookie" not in answer.headers and "x-note" not in answer.headers
    tokens, key = tmp_path / "tokens", tmp_path / "key"
    tokens.write_text("ours\n")
    key.write_text("theirs\n")
    with guarding(upstream.url, http={"token_file": tokens}, key_file=key) as url:
        with pytest.raises(openai.AuthenticationError):
            chat(client_of(url))
        chat(openai.OpenAI(base_url=url, api_key="ours", max_retries=0))
    assert upstream.asked[-1].headers["authorization"] == "Bearer theirs"


def test_no_text_is_logged(upstream, capfd):
    async def broken(asked):
        await asked.stream(delta("Okonkwo left "), {"strange": "Okonkwo"})

    with guarding(upstream.url, direction="answers") as url:
        chat(client_of(url))
        upstream.act = broken
        with pytest.raises(openai.APIError):
            streamed(client_of(url))
        httpx.post(f"{url}/Ada", json={"Ada": "Ada"})
    logged = capfd.readouterr().err
    assert logged.count('"path"') == 3 and '"code": "unchecked_answer"' in logged
    assert not any(word in logged for word in ("Ada", "Okonkwo", "Lisse", "PER", "strange"))
