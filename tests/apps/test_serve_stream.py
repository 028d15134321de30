"""`/v1/live`: text that is tagged as it arrives, over a WebSocket and as the body of a POST, within bounds."""

import asyncio
import contextlib
import json
import threading
import time
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")
pytest.importorskip("websockets", reason="needs boustro[serve]")

import httpx
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from boustro import Tagger
from boustro.apps.live.stream import Live
from boustro.apps.serve.app import Service, make_service
from boustro.apps.serve.http import HttpOptions, ServeLimits, address_of, listen
from boustro.apps.serve.models import Served, open_model
from browser import needs_chromium, open_browser
from served import Puppet

PARTS = ["Ada Br", "andt left Vell", "mar . In Lis", "se it rained . Professor", " Calloway sold “boats” 👩‍👧 .\n"]
TEXT = "".join(PARTS)


def exported(folder):
    """A tagger whose head is said to be that of an export, which needs no graph to be refused."""
    model = open_model("graph", folder)
    model.model.fitted.head.is_exported = True
    return Served("graph", model.model)


@pytest.fixture(scope="module")
def served(tagger_folder):
    """served(http options, **limits) → the address of a service with a tagger and a model that cannot stream."""
    stops = []

    def serve(http=None, **limits):
        listening = HttpOptions(port=0, **(http or {}))
        models = {"ner": open_model("ner", tagger_folder), "topics": Puppet("topics")}
        models["graph"] = exported(tagger_folder)
        service = Service(lambda: models, ServeLimits(**limits))
        listener = listen(listening)
        server = uvicorn.Server(uvicorn.Config(make_service(service, listening), log_config=None, log_level="error"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
        thread.start()
        address = address_of(listener)
        while httpx.get(f"{address}/readyz").status_code != 200:
            time.sleep(0.05)
        stops.append((server, thread))
        return address

    yield serve
    for server, thread in stops:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def address(served):
    return served(idle=2.0, streams=2, stream_characters=500)


@contextlib.contextmanager
def socket(address, query="model=ner&delay=2", **how):
    place = address.replace("http", "ws") + f"/v1/live?{query}"
    with contextlib.suppress(ConnectionClosed), connect(place, **how) as found:
        yield found


def expected(tagger_folder, delay):
    live = Live(Tagger.from_pretrained(tagger_folder), delay)
    return [event.to_dict() for part in PARTS for event in live.feed(part)] + [e.to_dict() for e in live.end()]


def finals(events):
    return [(e["label"], e["start"], e["end"]) for e in events if e["kind"] == "final"]


@pytest.mark.parametrize("delay", ["2", "0", "all"])
def test_a_websocket_answers_every_part(address, tagger_folder, delay):
    events = []
    with socket(address, f"model=ner&delay={delay}") as found:
        for part in PARTS:
            found.send(part)
            answer = json.loads(found.recv())
            events += answer["events"]
            assert answer["safe"] <= answer["length"]
        found.send("")
        last = json.loads(found.recv())
        events += last["events"]
        assert last["end"] and last["safe"] == last["length"] == len(TEXT)
    assert finals(events) == finals(expected(tagger_folder, None if delay == "all" else int(delay)))


def test_a_post_is_answered_by_events_while_it_is_sent(address, tagger_folder):
    def body():
        for part in PARTS:
            data = part.encode()
            yield data[:3]  # also inside a character
            yield data[3:]

    headers = {"Content-Type": "text/plain; charset=utf-8"}
    reply = httpx.post(f"{address}/v1/live?model=ner&delay=2", content=body(), headers=headers)
    assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/event-stream")
    events = []
    for block in reply.text.strip().split("\n\n"):
        kind, data = block.split("\n")
        events.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert events[-1] == ("end", {"safe": len(TEXT), "length": len(TEXT)})
    told = [value for kind, value in events if kind in ("provisional", "revised", "final")]
    assert all(kind == value["kind"] for kind, value in events if "kind" in value)
    assert finals(told) == finals(expected(tagger_folder, 2))


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("model=nobody", 404, "no model"),
        ("model=ner&delay=few", 422, "numbers of words"),
        ("model=ner&delay=999", 422, "0 to 256"),
        ("model=topics", 400, "needs the whole text"),
        ("model=graph", 400, "an exported folder does not tag a text as it arrives; use the folder"),
    ],
)
def test_what_cannot_stream_is_one_sentence(address, query, status, message):
    with socket(address, query) as found:
        said = json.loads(found.recv())
    assert message in said["error"]["message"]
    reply = httpx.post(f"{address}/v1/live?{query}", content="Ada left.", headers={"Content-Type": "text/plain"})
    late = "delay=999" in query  # which is known when the stream begins
    assert message in reply.text and "error" in reply.text and reply.status_code == (200 if late else status)
    assert httpx.post(f"{address}/v1/live", json={"text": "Ada"}).status_code == 415


def test_what_streams_is_said(address):
    said = httpx.get(f"{address}/v1/models").json()["models"]
    assert {model["name"]: model["streams"] for model in said} == {"ner": True, "topics": False, "graph": False}


def test_an_unforeseen_error_is_an_event(address, monkeypatch, capfd):
    def fail(live, chunk):
        raise RuntimeError("secret text")

    monkeypatch.setattr(Live, "feed", fail)
    reply = httpx.post(f"{address}/v1/live?model=ner", content="Ada left.", headers={"Content-Type": "text/plain"})
    assert reply.text.startswith("event: error\n") and "internal error (RuntimeError)" in reply.text
    with socket(address, "model=ner") as found:
        found.send("Ada left.")
        assert json.loads(found.recv())["error"]["code"] == "internal"
        with pytest.raises(ConnectionClosed):
            found.recv()
    assert "secret" not in reply.text + capfd.readouterr().err


def test_bounds_of_length_idle_time_and_streams(address):
    with socket(address) as found:
        found.send("Ada " * 200)
        said = json.loads(found.recv())
    assert said["error"]["code"] == "stream_too_long"
    with socket(address) as first, socket(address) as second:
        for one in (first, second):
            one.send("Ada left. ")
            one.recv()
        with socket(address) as third:
            assert json.loads(third.recv())["error"]["code"] == "too_many_streams"
        reply = httpx.post(f"{address}/v1/live?model=ner", content="Ada", headers={"Content-Type": "text/plain"})
        assert reply.status_code == 429
        assert json.loads(first.recv(timeout=10))["error"]["code"] == "idle"
    with socket(address) as found:  # places are free again
        found.send(b"bytes")
        said = json.loads(found.recv())
    assert said["error"]["code"] == "not_text"


def test_a_client_that_goes_away_frees_its_place(address):
    for _ in range(5):
        with socket(address) as found:
            found.send("Ada left. ")
            found.recv()
    for _ in range(100):
        with socket(address) as found:
            found.send("Ada left. ")
            if "error" not in json.loads(found.recv()):
                return
        time.sleep(0.1)
    raise AssertionError("places stay taken")


def test_other_origins_and_clients_without_the_token_are_refused(served, file):
    locked = served({"token_file": file("tokens", "s3/cr=et\n")})
    with pytest.raises(InvalidStatus) as error, socket(locked):
        pass
    assert error.value.response.status_code == 401
    with pytest.raises(InvalidStatus) as error, socket(locked, origin="https://elsewhere.example"):
        pass
    assert error.value.response.status_code == 403
    given: list[dict[str, Any]] = [
        {"additional_headers": {"Authorization": "Bearer s3/cr=et"}},
        {"subprotocols": ["boustro", "bearer." + b"s3/cr=et".hex()]},
    ]
    for how in given:
        with socket(locked, **how) as found:
            found.send("Ada left Vellmar . ")
            assert "events" in json.loads(found.recv())


@needs_chromium
def test_the_page_tags_while_one_types(address):
    with open_browser() as browser:
        page = browser.open(address, width=600)
        page.wait("document.readyState === 'complete'")
        page.wait("models.length === 3")
        page.run("$('model').value = 'ner'; choose(); $('input').value = ''; $('typing').checked = true")
        for part in ("Professor Bran", "dt Calloway sold umbrellas . In Lisse it rai", "ned . Nobody reads it . "):
            page.run(f"$('input').value += {json.dumps(part)}; $('input').dispatchEvent(new Event('input'))")
        page.wait("document.querySelectorAll('#text mark:not(.open)').length >= 1")
        assert "Lisse" in page.text("#text")
        page.run("$('input').value = 'In Lisse it rained .'; $('input').dispatchEvent(new Event('input'))")
        page.wait("document.querySelectorAll('#text mark').length >= 1 && $('text').textContent.startsWith('In')")
        assert page.run("$('problem').hidden")
