"""What both web apps share: the guard, the shape of errors, and a server that starts and stops cleanly."""

import logging
import os
import signal
import socket
import sys
import threading
import time

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")

from starlette.testclient import TestClient

from boustro.apps.serve.http import HttpOptions, Refused, listen, make_app, require_serve, run_app
from boustro.options import OptionError

OWN = "http://127.0.0.1:8000"


def client_of(**options) -> TestClient:
    app = make_app("a test", HttpOptions(**options), open_paths={"/open"})

    @app.get("/x")
    @app.get("/open")
    async def x():
        return {"fine": True}

    @app.get("/refused")
    async def refused():
        raise Refused(429, "queue_full", "too much is waiting \ud800", Retry_After="2")

    @app.get("/broken")
    async def broken():
        raise KeyError("x")

    @app.post("/body")
    async def body(numbers: list[int]):
        return numbers

    return TestClient(app, base_url=OWN, raise_server_exceptions=False)


def error(response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000"])
def test_a_loopback_server_answers_to_its_names(host):
    assert client_of().get("/x", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", "[", "a]b"])
def test_other_hosts_are_refused(host):
    assert error(client_of().get("/x", headers={"host": host})) == (403, "host")


def test_further_hosts_can_be_allowed_and_all_addresses_take_any():
    assert client_of(allow_hosts=("tagger.local",)).get("/x", headers={"host": "Tagger.local:80"}).status_code == 200
    assert client_of(allow_hosts=("*",)).get("/x", headers={"host": "anything.example"}).status_code == 200
    assert client_of(host="0.0.0.0").get("/x", headers={"host": "anything.example"}).status_code == 200
    only = client_of(host="0.0.0.0", allow_hosts=("tagger.local",))
    assert error(only.get("/x", headers={"host": "anything.example"})) == (403, "host")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:9000", "http://[", "127.0.0.1:8000"]
)
def test_pages_of_other_origins_are_refused(origin):
    assert error(client_of().get("/x", headers={"origin": origin})) == (403, "origin")


def test_own_pages_and_allowed_origins_may_ask():
    assert client_of().get("/x", headers={"origin": OWN}).status_code == 200
    friend = "https://friend.example"
    answer = client_of(allow_origins=(friend,)).get("/x", headers={"origin": friend})
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == friend


def test_a_token_is_needed_except_on_open_paths(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("first\n\n second \n")
    client = client_of(token_file=file)
    for value in (None, "Bearer", "Bearer wrong", "Basic first", "first", "Bearer first second"):
        answer = client.get("/x", headers={"authorization": value} if value else {})
        assert error(answer) == (401, "token") and answer.headers["www-authenticate"] == "Bearer"
    for token in ("first", "second"):
        assert client.get("/x", headers={"authorization": f"bearer {token}"}).status_code == 200
    assert client.get("/open").status_code == 200


def test_a_file_without_a_usable_token_is_refused(tmp_path):
    file = tmp_path / "tokens"
    for content, said in ((b"\n", "no token"), ("gehëim".encode(), "ASCII")):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=said):
            client_of(token_file=file)


def test_head_is_get_without_its_body():
    client = client_of()
    for path in ("/open", "/nowhere"):
        asked, whole = client.head(path), client.get(path)
        assert (asked.status_code, asked.headers, asked.content) == (whole.status_code, whole.headers, b"")


def test_errors_have_one_shape():
    client = client_of()
    answer = client.get("/refused")
    said = {"code": "queue_full", "message": "too much is waiting \\ud800", "type": "rate_limit_error", "param": None}
    assert answer.json() == {"error": said}
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert error(client.get("/nowhere")) == (404, "not_found")
    assert error(client.delete("/x")) == (405, "method_not_allowed")
    assert error(client.get("/broken")) == (500, "internal")
    assert error(client.post("/body", content=b"{", headers={"content-type": "application/json"})) == (400, "not_json")
    wrong = client.post("/body", json=[1, "x"])
    assert error(wrong) == (422, "not_valid") and wrong.json()["error"]["message"].startswith("1: ")


def test_a_taken_port_is_named(monkeypatch):
    with listen(HttpOptions(port=0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}: another program listens there; choose another --port"):
            listen(HttpOptions(port=port))
    elsewhere = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("203.0.113.7", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: elsewhere)
    with pytest.raises(OSError, match="choose another --host"):
        listen(HttpOptions(host="203.0.113.7", port=0))
    with pytest.raises(OptionError, match="port must be"):
        HttpOptions(port=70_000)


def test_a_missing_package_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"x needs uvicorn; install it with: pip install 'boustro\[serve\]'"):
        require_serve("x")


def test_a_second_signal_ends_the_server_at_once_and_without_a_traceback(caplog):
    def stop():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)

    stopping = threading.Timer(1, stop)
    stopping.start()
    run_app(make_app("a test", HttpOptions()), HttpOptions(), listen(HttpOptions(port=0)))
    stopping.join()
    assert not caplog.records


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_after_its_last_answer(sig, capfd):
    app, told = make_app("a test", HttpOptions()), []
    reached = threading.Event()

    @app.get("/slow")
    def slow():
        reached.set()
        time.sleep(0.5)
        return "done"

    listener = listen(HttpOptions(port=0))
    address, answers = f"http://127.0.0.1:{listener.getsockname()[1]}", []

    def ask():
        answers.append(httpx.get(f"{address}/slow", timeout=30).json())

    def stop():
        reached.wait(30)
        os.kill(os.getpid(), sig)

    threads = [threading.Thread(target=work) for work in (ask, stop)]
    for thread in threads:
        thread.start()
    closed = logging.StreamHandler()
    closed.close = lambda: pytest.fail("a handler of the program is closed")
    run_app(app, HttpOptions(), listener, stopping=lambda: told.append(sig))
    del closed.close
    for thread in threads:
        thread.join()
    assert (answers, told) == (["done"], [sig])
    assert address in capfd.readouterr().err
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(address.rsplit(":", 1)[1]))) != 0
