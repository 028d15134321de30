"""`boustro guard` fails closed: where something cannot be checked, is broken or late, the client gets an error."""

# ruff: noqa: F811 (fixtures of another file)
import asyncio
import json
import socket
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")
pytest.importorskip("openai", reason="needs the openai client: pip install openai")

import httpx
import openai

from boustro.apps.serve.guard.options import GuardLimits, GuardOptions, check_upstream
from boustro.options import OptionError
from guarded import CHUNK, delta, finish, guarding, message
from test_guard import chat, client_of, guards, running, streamed, upstream  # noqa: F401 (fixtures)
from toy_tagger import ToyTagger

SECRET = "Okonkwo"


def error_of(raised) -> dict:
    """The body of an error in OpenAI's shape."""
    body = raised.value.body
    assert set(body) == {"message", "type", "param", "code"} and SECRET not in json.dumps(body), body
    return body


def said(content, **more) -> dict:
    """A request with one message."""
    return {"messages": [{"role": "user", "content": content, **more}]}


def called(arguments) -> dict:
    """A request with a call of a function."""
    return said(None, tool_calls=[{"function": {"name": "f", "arguments": arguments}}])


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (said([{"type": "image_url", "image_url": {"url": SECRET}}]), "messages[0].content[0]"),
        (said([{"type": "input_audio", "input_audio": {"data": "x"}}]), "messages[0].content[0]"),
        (said([{"type": "text", "text": "x", "note": SECRET}]), "messages[0].content[0]"),
        (said([SECRET]), "messages[0].content[0]"),
        (said({"text": SECRET}), "messages[0].content"),
        (said(7), "messages[0].content"),
        ({"messages": [{"role": SECRET + " said", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x", "thoughts": SECRET}]}, "messages[0]"),
        (called('{"a": "\\u004f'), "messages[0].tool_calls[0].function.arguments"),
        (called({"a": SECRET}), "messages[0].tool_calls[0].function.arguments"),
        ({"messages": [{"role": "assistant", "audio": {"id": "a", "data": SECRET}}]}, "messages[0]"),
        ({"messages": SECRET}, "messages"),
        ({"guided_regex": SECRET}, None),
        ({"documents": [{"title": SECRET}]}, None),
        ({"chat_template_kwargs": {"x": 1}}, None),
        ({"tools": [{"type": "browser", "browser": {"home": SECRET}}]}, "tools[0]"),
        ({"model": f"{SECRET} and others"}, "model"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"stream": "yes"}, "stream"),
        ({"n": 1000}, "n"),
        ({"n": 0}, "n"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_checked_is_refused(upstream, guards, asked, param):
    url = str(guards().base_url)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]} | asked
    answer = httpx.post(f"{url}chat/completions", json=body)
    error = answer.json()["error"]
    assert answer.status_code == 400 and (error["code"], error["param"]) == ("unchecked_request", param), error
    assert error["type"] == "invalid_request_error" and SECRET not in answer.text and not upstream.asked


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'"x"', 400),
        (b'{"n": NaN}', 400),
        (b'{"n": 1e999}', 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
    ],
)
def test_a_body_that_is_no_object_is_refused(upstream, guards, body, status):
    url = str(guards().base_url)
    answer = httpx.post(f"{url}chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status and not upstream.asked


def test_token_ids_are_no_text(upstream, guards):
    for prompt in ([1, 2, 3], [[1, 2], [3]], ["x", 3]):
        with pytest.raises(openai.BadRequestError, match="token ids"):
            guards().completions.create(model="m", prompt=prompt)
    assert not upstream.asked
    guards(pass_fields=("documents",))  # named fields pass
    chat(guards(pass_fields=("documents",)), "x", extra_body={"documents": [{"title": "Ada"}]})
    assert upstream.asked[-1].body["documents"] == [{"title": "Ada"}]


def test_of_two_fields_with_one_name_only_the_one_that_was_read_passes(upstream, guards):
    url = str(guards().base_url)
    messages = ['[{"role": "user", "content": "%s"}]' % said for said in ("Ada", "x")]  # noqa: UP031 (braces)
    two = f'{{"model": "m", "messages": {messages[0]}, "messages": {messages[1]}}}'
    httpx.post(f"{url}chat/completions", content=two, headers={"Content-Type": "application/json"})
    assert upstream.asked[-1].body["messages"] == [{"role": "user", "content": "x"}]
    chat(guards(), '{"a": "Ada", "a": "x"}')
    assert upstream.asked[-1].body["messages"][0]["content"] == '{"a": "[PER_1]", "a": "x"}'


@pytest.mark.parametrize("path", ["embeddings", "audio/speech", "responses", "files", "models/../files", "chat", ""])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_everything_else_is_refused(upstream, guards, path, method):
    url = str(guards().base_url)
    request = httpx.Request(method, f"{url}{path.replace('..', '%2e%2e')}", json={"input": SECRET})
    with httpx.Client() as client:
        answer = client.send(request)
    assert answer.status_code == 404 and answer.json()["error"]["code"] in ("not_passed", "not_found")
    assert not upstream.asked


BAD = {
    "logprobs": {"logprobs": {"content": [{"token": SECRET}]}},
    "audio": {"message": {"role": "assistant", "content": None, "audio": {"transcript": SECRET}}},
    "a part": {"message": {"role": "assistant", "content": [{"type": "image", "data": SECRET}]}},
    "an unknown field": {"message": {"role": "assistant", "content": "x", "thoughts": [SECRET]}},
    "a field beside": {"comment": {"by": SECRET}},
    "a name of a function": {"message": {"role": "assistant", "tool_calls": [{"function": {"name": f"{SECRET} x"}}]}},
    "half JSON": {"message": {"tool_calls": [{"function": {"name": "f", "arguments": '{"a": "\\u004fkonkwo'}}]}},
    "annotations": {"message": {"content": "x", "annotations": [{"type": "url_citation", "title": SECRET}]}},
    "finish": {"finish_reason": f"{SECRET} stopped"},
}


@pytest.mark.parametrize("name", BAD)
def test_an_answer_that_cannot_be_checked_is_not_passed_on(upstream, guards, name):
    async def say(asked):
        whole = message("x")
        whole["choices"][0] |= BAD[name]
        if not asked.body.get("stream"):
            return await asked.answer(whole)
        own = dict(whole["choices"][0])
        own["delta"] = own.pop("message")
        await asked.stream(CHUNK | {"choices": [own]})

    upstream.act = say
    for stream in (False, True):
        with pytest.raises(openai.APIError) as raised:
            streamed(guards(), "x") if stream else chat(guards(), "x")
        assert error_of(raised)["code"] == "unchecked_answer"


@pytest.mark.parametrize(
    "body",
    [b"", b"Okonkwo", b"[]", b"{}", b'{"choices": "Okonkwo"}', b'{"choices": [7]}', b'{"choices": []', b"\xff",
     json.dumps(message(SECRET) | {"choices": message("x")["choices"] * 2}).encode(),
     json.dumps(message(SECRET) | {"id": f"{SECRET} 1"}).encode(),
     json.dumps(message(SECRET) | {"note": SECRET}).encode(),
     json.dumps(message(SECRET) | {"usage": {"by": f"{SECRET} !"}}).encode()],
)  # fmt: skip
def test_an_answer_of_another_form_is_not_passed_on(upstream, guards, body):
    async def say(asked):
        await asked.answer(body)

    upstream.act = say
    with pytest.raises(openai.APIError) as raised:
        chat(guards(), "x")
    assert error_of(raised)["code"] == "unchecked_answer"
    with pytest.raises(openai.APIError) as raised:  # asked for as a stream
        streamed(guards(), "x")
    assert error_of(raised)["code"] == "unchecked_answer"


def test_fields_that_are_known_to_be_useless_are_left_out(upstream, guards):
    async def say(asked):
        more = {"obfuscation": "Okonkwo", "provider": SECRET, "timings": {"ms": 1}, "unknown": 3.5, "none": None}
        await asked.stream(delta("It rained.") | more, finish() | {"x_groq": {"id": SECRET}})

    upstream.act = say
    chunks = [*chat(guards(), "x", stream=True)]
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "It rained."
    assert SECRET not in repr(chunks) and "unknown" not in repr(chunks)


BROKEN = {
    "no JSON": (["{"], "unchecked_answer"),
    "no object": (["7"], "unchecked_answer"),
    "no choices": ([{"id": "x"}], "unchecked_answer"),
    "another choice": ([delta("x", index=1)], "unchecked_answer"),
    "a choice without a number": ([CHUNK | {"choices": [{"delta": {"content": SECRET}}]}], "unchecked_answer"),
    "a list of parts": ([delta([{"type": "text", "text": SECRET}])], "unchecked_answer"),
    "goes on": ([finish(), delta(SECRET)], "unchecked_answer"),
    "an error": ([{"error": {"message": f"{SECRET} is angry", "code": "overloaded", "type": "x"}}], "overloaded"),
    "an error that is a text": ([{"error": f"{SECRET} is angry"}], "upstream_error"),
    "the end": ([], "upstream_broken"),
    "half an event": ([], "upstream_broken"),
    "endless": (["x" * 1_100_000], "unchecked_answer"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_stream_ends_with_an_error_and_what_was_held_is_not_released(upstream, guards, name):
    events, code = BROKEN[name]

    async def say(asked):
        await asked.stream(delta("It rained on "), delta(SECRET), *events, done=False)
        if name == "half an event":
            await asked.send('data: {"choices": [')

    upstream.act = say
    seen = []
    with pytest.raises(openai.APIError) as raised:
        for chunk in chat(guards(), "x", stream=True):
            seen.append(chunk.choices[0].delta.content or "")
    assert error_of(raised)["code"] == code
    assert "It rained on ".startswith("".join(seen)) and (name != "an error" or "[PER_1] is angry" in str(raised.value))


def test_an_upstream_that_is_killed(upstream, guards):
    async def say(asked):
        if asked.body.get("stream"):
            await asked.stream(delta("It rained. "), delta(SECRET), done=False)
        asked.writer.transport.abort()

    upstream.act = say
    for ask in (chat, streamed):
        with pytest.raises(openai.APIError) as raised:
            ask(guards(), "x")
        assert error_of(raised)["code"] == "upstream_broken"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens
        here = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with guarding(here) as url, pytest.raises(openai.InternalServerError) as raised:
            chat(client_of(url), "x")
    assert error_of(raised)["code"] == "upstream_unreachable" and raised.value.status_code == 502


def test_errors_of_the_upstream_keep_their_status_and_their_message_is_checked(upstream, guards):
    async def say(asked):
        error = {"message": f"too many of {SECRET}", "type": "rate_limit", "param": None, "code": "rate_limit_exceeded"}
        await asked.answer({"error": error}, 429, retry_after="3")

    upstream.act = say
    for ask in (chat, streamed):
        with pytest.raises(openai.RateLimitError, match=r"too many of \[PER_1\]") as raised:
            ask(guards(), "x")
        assert error_of(raised)["code"] == "rate_limit_exceeded" and raised.value.response.headers["retry-after"] == "3"

    async def page(asked):
        await asked.start("text/html", 500)
        await asked.send(f"<html>{SECRET}")

    upstream.act = page
    with pytest.raises(openai.InternalServerError) as raised:
        chat(guards(), "x")
    assert error_of(raised)["message"] == "the upstream answered with an error (500)"

    async def elsewhere(asked):
        await asked.start("text/html", 302, location="http://127.0.0.1:1/")

    upstream.act = elsewhere
    with pytest.raises(openai.InternalServerError):
        chat(guards(), "x")

    async def compressed(asked):
        await asked.answer(message(SECRET), content_encoding="gzip")

    upstream.act = compressed
    with pytest.raises(openai.InternalServerError, match="compressed"):
        chat(guards(), "x")


def test_a_tagger_that_fails_or_contradicts_itself(upstream):
    with guarding(upstream.url, ToyTagger(fails_at=SECRET), direction="answers") as url:
        with pytest.raises(openai.InternalServerError) as raised:
            chat(client_of(url), SECRET)
        assert error_of(raised)["code"] == "tagger_failed" and raised.value.status_code == 503

        async def say(asked):
            await asked.stream(delta("It rained on and on "), delta(f"{SECRET} "), delta("in May "), finish())

        upstream.act = say
        with pytest.raises(openai.APIError) as raised:
            streamed(client_of(url), "x")
        assert error_of(raised)["code"] == "tagger_failed"
        assert chat(client_of(url), "x", stream=True).response.status_code == 200  # others go on


def test_a_tagger_that_is_too_slow(upstream):
    free = threading.Event()
    with guarding(upstream.url, ToyTagger(waits=lambda: free.wait(20)), GuardLimits(timeout=0.3)) as url:
        for ask in (chat, streamed):
            with pytest.raises(openai.InternalServerError) as raised:
                ask(client_of(url), SECRET)
            assert error_of(raised)["code"] == "tagger_timeout"
        free.set()
    assert not upstream.asked


def test_an_upstream_that_is_silent(upstream):
    async def say(asked):
        if asked.body.get("stream"):
            await asked.stream(delta("It rained. "), delta(SECRET), done=False)
        await asyncio.wait_for(asked.gone.wait(), 20)

    upstream.act = say
    with guarding(upstream.url, limits=GuardLimits(idle=0.4)) as url:
        for ask in (chat, streamed):
            with pytest.raises(openai.APIError) as raised:
                ask(client_of(url), "x")
            assert error_of(raised)["code"] == "upstream_timeout"
    wait_until(lambda: upstream.open == 0)


def wait_until(probe, seconds=20):
    end = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("stream", [True, False])
def test_when_the_client_goes_away_the_upstream_is_closed(upstream, guards, stream):
    closed = threading.Event()

    async def say(asked):
        if stream:
            await asked.stream(delta("It rained and rained and rained. "), done=False)
        await asyncio.wait_for(asked.gone.wait(), 20)
        closed.set()

    upstream.act = say
    if stream:
        answer = chat(guards(), "x", stream=True)
        next(iter(answer))
        answer.close()
    else:
        with pytest.raises(openai.APITimeoutError):
            chat(guards(), "x", timeout=0.5)
    assert closed.wait(20)


def test_a_client_that_takes_nothing_is_given_up_and_the_upstream_waits(upstream):
    sent = [0]
    closed = threading.Event()

    async def say(asked):
        await asked.start()
        try:
            while not asked.gone.is_set():
                await asked.events(*(delta("rain " * 200) for _ in range(10)), done=False)
                sent[0] += 10_000
        finally:
            closed.set()

    upstream.act = say
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]})
    with guarding(upstream.url, limits=GuardLimits(idle=1.0), direction="prompts") as url:
        host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
        with socket.create_connection((host, int(port))) as client:
            head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            assert closed.wait(30)  # the client is still there
    assert sent[0] < 40_000_000


def test_bounds(upstream):
    limits = GuardLimits(body_kb=1, answer_kb=1, characters=500, held=200)
    with guarding(upstream.url, limits=limits) as url:
        client = client_of(url)
        for said, status, code in (("x" * 2000, 413, "too_large"), ("x" * 600, 413, "too_large")):
            with pytest.raises(openai.APIStatusError) as raised:
                chat(client, said)
            assert (raised.value.status_code, error_of(raised)["code"]) == (status, code)

        async def large(asked):
            if asked.body.get("stream"):
                await asked.stream(delta("x" * 300), done=False)
                await asked.gone.wait()
            else:
                await asked.answer(message("x " * 1000))

        upstream.act = large
        with pytest.raises(openai.APIError) as raised:
            chat(client, "x")
        assert error_of(raised)["code"] == "upstream_too_large"
        with pytest.raises(openai.APIError) as raised:
            streamed(client, "x")
        assert error_of(raised)["code"] == "too_much_held"


def test_more_requests_at_once_than_may_be_are_told_to_come_back(upstream):
    async def slow(asked):
        await asked.stream(delta("rain " * 30), done=False)
        await asked.gone.wait()

    upstream.act = slow
    with guarding(upstream.url, limits=GuardLimits(requests=1)) as url:
        client = client_of(url)
        first = chat(client, "x", stream=True)
        next(iter(first))
        with pytest.raises(openai.RateLimitError) as raised:
            chat(client, "x")
        assert error_of(raised)["code"] == "too_many_requests"
        first.close()


def test_only_this_machine_may_ask_by_its_own_name(upstream, guards):
    url = str(guards().base_url)
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        answer = httpx.post(f"{url}chat/completions", json={}, headers=headers)
        assert answer.status_code == 403 and set(answer.json()["error"]) == {"code", "message", "type", "param"}
    assert not upstream.asked


def test_options_that_do_not_go_together():
    for options in ({"with_": "label"}, {"direction": "answers"}):
        with pytest.raises(OptionError, match="put-back"):
            GuardOptions(put_back=True, **options)
    for url in ("api.example.com", "ftp://x", "http://a:b@x/v1", "http://x/v1?a=b", "http://[x"):
        with pytest.raises(OptionError):
            check_upstream(url)
    assert check_upstream("https://api.example.com/v1/") == "https://api.example.com/v1"
