"""The guardrail in LiteLLM's own proxy, between the `openai` client and an upstream that does as a test says.

pip install 'boustro[litellm]' && pytest tests/apps/test_litellm.py
"""

import contextlib
import json
import os
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks for one in the network as it is imported
pytest.importorskip("litellm", reason="needs litellm's proxy: pip install 'boustro[litellm]'")
pytest.importorskip("openai", reason="needs the openai client: pip install openai")

import httpx
import openai

from boustro.apps.live.redactor import Redactor
from test_redactor import chunked
from toy_tagger import ToyLive, ToyTagger

pytestmark = pytest.mark.slow
SECRET = "Okonkwo"
SAID = "Ada Brandt and Okonkwo left Port Lisse: call +49 30 1234567 now."
SAFE = "[PER_1] and [PER_2] left [LOC_1]: call +[PHONE_1] now."
MAKE = """
import time
from boustro.integrations.litellm import BoustroGuardrail
from toy_tagger import ToyLive, ToyTagger

def names(**options):
    return BoustroGuardrail(ToyTagger(), delay=2, live=ToyLive, **options)

def broken(**options):
    return BoustroGuardrail(ToyTagger(fails_at="Okonkwo"), delay=2, live=ToyLive, **options)

def late(**options):
    return BoustroGuardrail(ToyTagger(waits=lambda: time.sleep(1)), seconds=0.2, live=ToyLive, **options)
"""
GUARDRAILS = {
    "names": {"guardrail": "made.names"},
    "label": {"guardrail": "made.names", "write": "label", "labels": ["PER"]},
    "masks": {"guardrail": "made.names", "put_back": False},
    "answers": {"guardrail": "made.names", "mode": "post_call"},
    "broken": {"guardrail": "made.broken", "mode": "post_call"},
    "late": {"guardrail": "made.late"},
}
FOLDER = {"guardrail": "boustro.integrations.litellm.BoustroGuardrail", "delay": 1}
MODEL = {"model": "openai/m", "api_key": "k-1"}


class Upstream(socketserver.ThreadingTCPServer):
    """A server on a free port: `say(body)` gives the bytes of an answer, piece by piece; `asked` are the bodies."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        upstream = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = [*iter(lambda: self.rfile.readline().strip().lower(), b"")]
                size = sum(int(line.split(b":")[1]) for line in head if line.startswith(b"content-length"))
                if not size:  # a connection that LiteLLM opens and drops
                    return
                upstream.asked.append(json.loads(self.rfile.read(size)))
                with contextlib.suppress(ConnectionError):
                    for part in upstream.say(upstream.asked[-1]):
                        self.wfile.write(part)

        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.say = [], echo


def free_port() -> int:
    with socketserver.TCPServer(("127.0.0.1", 0), None) as made:  # pyright: ignore
        return made.server_address[1]


def head(kind="text/event-stream", status=200) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode()


def events(*given, done=b"data: [DONE]\n\n"):
    """A streamed answer: every event in a piece of its own; bytes are sent as they are."""
    yield head()
    for event in given:
        yield event if isinstance(event, bytes) else f"data: {json.dumps(event)}\n\n".encode()
    yield done


def whole(message, status=200, **choice):
    """A whole answer."""
    own = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop", **choice}
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    body = {"id": "c-1", "object": "chat.completion", "created": 7, "model": "m", "choices": [own], "usage": usage}
    yield head("application/json", status) + json.dumps(body).encode()


def chunk(delta, reason=None, **choice) -> dict:
    own = {"index": 0, "delta": delta, "finish_reason": reason, **choice}
    return {"id": "c-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [own]}


def letters(said, reason="stop"):
    return [*(chunk({"content": letter}) for letter in said), chunk({}, reason)]


def echo(body):
    """Say the last message again: letter by letter where it is streamed."""
    said = body["messages"][-1]["content"]
    return events(*letters(said)) if body.get("stream") else whole({"content": said})


@pytest.fixture(scope="module")
def proxy(tmp_path_factory, tagger_folder):
    """An upstream, and a client of LiteLLM's proxy before it."""
    folder, here = tmp_path_factory.mktemp("litellm"), Path(__file__).parent
    with Upstream() as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        base = {**MODEL, "api_base": f"http://127.0.0.1:{upstream.server_address[1]}/v1"}
        models = {"m": base, "guarded": {**base, "guardrails": ["names"]}}
        config = {
            "model_list": [{"model_name": name, "litellm_params": params} for name, params in models.items()],
            "guardrails": [
                {"guardrail_name": name, "litellm_params": {"mode": ["pre_call", "post_call"], **params}}
                for name, params in (GUARDRAILS | {"folder": {**FOLDER, "tagger": str(tagger_folder)}}).items()
            ],
            "general_settings": {"master_key": "sk-" + "1234567890abcdef" * 2},
            "litellm_settings": {"num_retries": 0, "telemetry": False},
        }
        (folder / "config.yaml").write_text(json.dumps(config))
        (folder / "made.py").write_text(MAKE)
        port, log = free_port(), folder / "log"
        own = {"PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
        command = [sys.executable, "-c", "from litellm import run_server; run_server()"]
        command += ["--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
        with log.open("w") as out:
            running = subprocess.Popen(command, cwd=folder, env=os.environ | own, stdout=out, stderr=out)
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(600):
                with contextlib.suppress(httpx.HTTPError):
                    if httpx.get(f"{address}/health/liveliness", timeout=5).status_code == 200:
                        break
                assert running.poll() is None, log.read_text()[-3000:]
                time.sleep(0.2)
            key = config["general_settings"]["master_key"]
            client = openai.OpenAI(base_url=f"{address}/v1", api_key=key, max_retries=0, timeout=60)
            yield upstream, client, log
        finally:
            running.terminate()
            running.wait(20)
            upstream.shutdown()


@pytest.fixture
def upstream(proxy):
    proxy[0].asked.clear()
    proxy[0].say = echo
    return proxy[0]


@pytest.fixture
def chat(proxy):
    """chat(said, stream, guardrail, …) → the content of the answer, or its chunks' deltas."""

    def ask(said="x", stream=False, guardrail="names", messages=None, model="m", extra_body=None, **options):
        own = {"guardrails": [guardrail]} if guardrail else {}
        answer = proxy[1].chat.completions.create(
            model=model,
            messages=messages or [{"role": "user", "content": said}],
            stream=stream,
            extra_body=own | (extra_body or {}),
            **options,
        )
        if not stream:
            return answer.choices[0].message
        return [one.choices[0].delta for one in answer if one.choices]

    return ask


def said(deltas, name="content") -> str:
    return "".join(getattr(delta, name, None) or "" for delta in deltas)


@pytest.mark.parametrize("model", ["m", "guarded"])
def test_prompts_are_masked_and_names_come_back(upstream, chat, model):
    guardrail = "names" if model == "m" else None
    assert chat(SAID, guardrail=guardrail, model=model).content == SAID
    assert said(chat(SAID, True, guardrail, model=model)) == SAID
    assert [one["messages"][0]["content"] for one in upstream.asked] == [SAFE, SAFE]
    upstream.say = lambda body: events(*letters("[PER_1] knows Élodie 🦬 and [PER_2]"))
    assert said(chat("Ada?", True, guardrail, model=model)) == "Ada knows [PER_3] 🦬 and [PER_2]"


def test_other_ways_to_write(upstream, chat):
    assert chat(SAID, guardrail="masks").content == SAFE == said(chat(SAID, True, "masks"))
    expected = "[PER] and [PER] left Port Lisse: call +49 30 1234567 now."
    assert chat(SAID, guardrail="label").content == expected == said(chat(SAID, True, "label"))
    assert chat(SAID, guardrail="answers").content == SAFE == said(chat(SAID, True, "answers"))
    assert upstream.asked[-1]["messages"][0]["content"] == SAID


def test_a_taggers_folder_and_counts_of_tokens(upstream, proxy, chat):
    said_ = "Ada said boats cost 3 million . In Vellmar it rained . Professor Okonkwo Calloway sold umbrellas ."
    assert chat(said_, guardrail="folder").content == said_ == said(chat(said_, True, "folder"))
    assert upstream.asked[0]["messages"] == upstream.asked[1]["messages"]
    masked = upstream.asked[0]["messages"][0]["content"]
    assert "[PER_1] said" in masked and "In [LOC_1] it" in masked
    answer = proxy[1].chat.completions.create(
        model="m", messages=[{"role": "user", "content": "x"}], extra_body={"guardrails": ["names"]}
    )
    assert (answer.id, answer.usage.total_tokens) == ("c-1", 12)


def test_everything_of_a_request_reaches_the_upstream_masked(upstream, chat):
    tools = [{"type": "function", "function": {"name": "f", "description": SECRET, "parameters": {"type": "object"}}}]
    nested = json.dumps({"a": json.dumps({"b": "Zürich"})})
    messages = [{"role": "system", "content": SECRET}, {"role": "user", "content": nested, "name": "Ada"}]
    chat(messages=messages, tools=tools, user=SECRET, stop=["Ada"], temperature=0.5, metadata={"note": SECRET})
    (body,) = upstream.asked
    assert not any(name in json.dumps(body) for name in ("Ada", SECRET, "fcrich")) and body["temperature"] == 0.5


def tool(index, arguments, **more) -> dict:
    return chunk(
        {"tool_calls": [{"index": index, "function": {"arguments": arguments, **more.pop("function", {})}, **more}]}
    )


CALLED = [{"type": "function", "id": "c-1", "function": {"name": "f"}}, {"id": "c-2", "function": {"name": "g"}}]
SHAPES = {
    "later pieces with empty ids": [
        tool(0, "", **CALLED[0]), tool(0, '{"a":', id="", function={"name": ""}), tool(0, '"Ada"}', id="")],
    "two calls under one number": [tool(0, '{"a":"Ada"}', **CALLED[0]), tool(0, "{}", **CALLED[1])],
    "chunks without a delta": [{**chunk({}), "choices": [{"index": 0}]}, *letters("Ada left")],
    "chunks without choices": [
        {**chunk({}), "choices": [], "prompt_filter_results": [{"index": 0}]}, *letters("Ada left")],
    "heartbeats": [b": ping\n\n", *letters("Ada left"), b": ping\n\n"],
    "CR LF": [f"data: {json.dumps(one)}\r\n\r\n".encode() for one in letters("Ada left")],
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_streams(upstream, chat, name):
    upstream.say = lambda body: events(*SHAPES[name], done=b"data: [DONE]")
    deltas = chat("x", True)
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    if calls:
        first = calls[0]
        assert (first.id, first.function.name, json.loads(first.function.arguments)) == ("c-1", "f", {"a": "[PER_1]"})
        assert [(c.index, c.id, c.function.name) for c in calls[1:]] in ([], [(1, "c-2", "g")])
        assert len(calls) == 1 + (name == "two calls under one number")
    else:
        assert said(deltas) == "[PER_1] left" and SECRET not in repr(deltas)


def test_counts_of_tokens_pass_where_they_are_asked_for(upstream, proxy):
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    upstream.say = lambda body: events(*letters("Ada"), {**chunk({}), "choices": [], "usage": usage})
    for own in ({}, {"stream_options": {"include_usage": True}}):
        options = {"extra_body": {"guardrails": ["names"]}, "stream": True, **own}
        chunks = [*proxy[1].chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], **options)]
        assert [c.usage.total_tokens for c in chunks if c.usage] == ([12] if own else [])
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "[PER_1]"


BAD = {
    "a call that cannot be read": {
        "tool_calls": [{"index": 0, "function": {"name": "f", "arguments": '{"a": "\\u004f'}}]},
    "sound": {"audio": {"id": "a", "data": SECRET, "transcript": SECRET, "expires_at": 1}},
    "images": {"images": [{"type": "image_url", "index": 0, "image_url": {"url": SECRET}}]},
    "log probabilities": {"content": "x"},
}  # fmt: skip


@pytest.mark.parametrize(("name", "stream"), [(name, n % 2 == 0) for n, name in enumerate(BAD)])
def test_an_answer_that_cannot_be_checked_ends_with_an_error(upstream, chat, name, stream):
    token = {"token": SECRET, "logprob": -1.0, "bytes": None, "top_logprobs": []}
    more = {"logprobs": {"content": [token]}} if name == "log probabilities" else {}
    streamed = [chunk({"content": f"It rained on {SECRET}"}), chunk(BAD[name], **more), chunk({}, "stop")]
    upstream.say = lambda body: events(*streamed) if stream else whole({"content": "x"} | BAD[name], **more)
    seen = []
    with pytest.raises(openai.APIError) as raised:
        seen += chat("x", stream)
    assert SECRET not in str(raised.value.body) and raised.value.body["code"] == "502", raised.value.body


@pytest.mark.parametrize(("guardrail", "stream"), [("broken", True), ("late", True), ("late", False)])
def test_a_tagger_that_fails_or_is_late(upstream, chat, proxy, guardrail, stream):
    upstream.say = lambda body: (
        events(*letters(f"It rained on and on {SECRET} in May ")) if stream else whole({"content": SECRET})
    )
    seen = []
    with pytest.raises(openai.APIError) as raised:
        for delta in chat("x", stream, guardrail):
            seen.append(delta.content or "")
    assert raised.value.body["code"] == "503" and SECRET not in str(raised.value.body)
    assert "It rained on and on ".startswith("".join(seen))
    assert SECRET not in proxy[2].read_text(errors="replace")


def test_an_upstream_that_breaks_off(upstream, chat):
    """What is held is not released."""
    error = {"error": {"message": "overloaded", "type": "server_error", "code": 503}}
    for last in (error, b"data: {not JSON\n\n"):
        upstream.say = lambda body, last=last: events(chunk({"content": "It rained on and on Ada"}), last, done=b"")
        seen = []
        with pytest.raises(openai.APIError):
            for delta in chat("x", True, "answers"):
                seen.append(delta.content or "")
        assert "It rained on and on ".startswith("".join(seen))


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": SECRET}}]}]},
         "messages[0].content[0]"),
        ({"documents": [{"title": SECRET}]}, None),
        ({"logprobs": True}, "logprobs"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_checked_is_refused(upstream, chat, asked, param):
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as raised:
            chat("x", stream, extra_body={"guardrails": ["names"]} | asked)
        assert raised.value.body["param"] in (param, "None") and SECRET not in str(raised.value.body)
    assert not upstream.asked


@pytest.mark.parametrize("path", ["completions", "responses", "embeddings", "messages", "moderations"])
def test_other_routes_are_refused(upstream, proxy, path):
    body = {"model": "m", "guardrails": ["names"], "prompt": SECRET, "input": SECRET, "max_tokens": 5}
    body |= {"messages": [{"role": "user", "content": SECRET}]} if path == "messages" else {}
    answer = httpx.post(f"{proxy[1].base_url}{path}", json=body, timeout=30,
                        headers={"Authorization": f"Bearer {proxy[1].api_key}"})  # fmt: skip
    assert answer.status_code == 400 and "only chat completions" in answer.text and not upstream.asked


def test_many_at_once(upstream, chat):
    """Every client sees its own names, whatever the chunks; one in three upstreams breaks off."""
    people = [f"Ada {n} and Okonkwo met {name} in May" for n in range(24) for name in ("Élodie 🦬", "Zürich", "Ada")]
    redacted = {}
    for said_ in people:
        redactor = Redactor(ToyTagger(), 2, live=ToyLive)
        redacted[said_] = redactor.feed(said_).text + redactor.end().text
    upstream.say = lambda body: events(
        *(chunk({"content": part}) for part in chunked(body["messages"][-1]["content"], [3, 9, 14, 20])),
        chunk({}, "stop") if len(body["messages"][-1]["content"]) % 3 else {"error": {"message": "no", "code": 500}},
    )  # fmt: skip
    found, lock = {}, threading.Lock()

    def ask(one):
        parts = []
        with contextlib.suppress(openai.APIError):
            for delta in chat(one, True):
                parts.append(delta.content or "")
        with lock:
            found[one] = "".join(parts)

    threads = [threading.Thread(target=ask, args=[one]) for one in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {*found} == {*people} and any(found[one] == one for one in people)
    assert all(one.startswith(found[one]) for one in people)
    assert {body["messages"][0]["content"] for body in upstream.asked} == {*redacted.values()}


def test_options_that_there_are_not():
    from boustro.integrations.litellm import BoustroGuardrail

    from boustro.options import OptionError

    for own, message in (({"lables": ["PER"]}, "did you mean 'labels'"), ({"write": "event"}, "mask or label")):
        with pytest.raises(OptionError, match=message):
            BoustroGuardrail(ToyTagger(), guardrail_name="x", **own)
    with pytest.raises(ValueError, match="during_call"):
        BoustroGuardrail(ToyTagger(), guardrail_name="x", event_hook="during_call")
    with pytest.raises(TypeError, match="subclass"):
        type("Own", (BoustroGuardrail,), {})
