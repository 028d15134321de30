"""The pages and the service under a path that a proxy before them takes away: `https://host/tools/boustro/`.

The scripts of the pages run in Node, over elements that take whatever they are told.
"""

import asyncio
import contextlib
import re
import threading
import time
from urllib.parse import quote

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")

import uvicorn

from boustro.apps.label.app import LabellingApp
from boustro.apps.label.background import Background, SessionSource
from boustro.apps.serve.app import Service, make_service
from boustro.apps.serve.http import HttpOptions, ServeLimits, address_of, listen
from javascript import needs_node, run_js
from labelling import session_at
from served import Puppet

PREFIX = "/tools/boustro"
ODD = "a b/c%41?d#é 文"
"""A name of a model that an address must not hold as it is."""
TEXT = "Ada is 100% sure."  # "% s" is no escape
BROWSER = """
const {script, path, hash, then} = given;
const vm = await import("node:vm");
const element = () => {
  const kept = {value: "", hidden: true, checked: false, textContent: "", files: [], then: undefined};
  kept[Symbol.iterator] = function* () {};
  kept[Symbol.toPrimitive] = () => "";
  const get = (_, name) => name in kept ? kept[name] : (kept[name] = element());
  const set = (_, name, value) => { kept[name] = value; return true; };
  return new Proxy(function () {}, {get, set, apply: element, construct: element});
};
const elements = {}, asked = [];
for (const [id, value] of Object.entries(given.values)) (elements[id] = element()).value = value;
const real = fetch;
globalThis.location = new URL(path + hash, given.address);
globalThis.history = {replaceState: (_, __, to) => { globalThis.location = new URL(to, location.href); }};
globalThis.document = new Proxy({}, {get: (_, name) => name === "getElementById"
  ? id => elements[id] = elements[id] || element() : element()});
globalThis.window = globalThis; globalThis.addEventListener = () => {}; globalThis.sessionStorage = element();
globalThis.sessionStorage.getItem = () => null;
globalThis.fetch = (to, how) => { asked.push(new URL(to, location.href).href); return real(asked.at(-1), how); };
globalThis.WebSocket = class { constructor(to) { asked.push(to); } };
vm.runInThisContext(script);
const until = Date.now() + 30000;
while (!vm.runInThisContext(then.ready)) {
  if (Date.now() > until) throw new Error("not ready: " + elements.problem?.textContent + " " + asked);
  await new Promise(done => setTimeout(done, 20));
}
const found = await vm.runInThisContext(then.found);
process.stdout.write(JSON.stringify({asked, found}));
process.exit(0);
"""


class Proxy:
    """Takes the prefix from the path, as `proxy_pass http://127.0.0.1:8000/` of nginx does; all else is not ours."""

    def __init__(self, app):
        self.app, self.strays = app, []

    async def __call__(self, scope, receive, send):
        if scope["type"] in ("http", "websocket"):
            if not scope["path"].startswith(f"{PREFIX}/"):
                self.strays.append(scope["path"])
            path = scope["path"].removeprefix(PREFIX) or "/"
            scope = scope | {"path": path, "raw_path": path.encode()}
        await self.app(scope, receive, send)


@contextlib.contextmanager
def proxied(make):
    """The address of an app behind a proxy, and the proxy."""
    http = HttpOptions(port=0)
    proxy, listener = Proxy(make(http)), listen(http)
    server = uvicorn.Server(uvicorn.Config(proxy, log_config=None, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        yield address_of(listener), proxy
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def service():
    served = Puppet(ODD)
    served.streams = True
    started = Service(lambda: {ODD: served}, ServeLimits())
    with proxied(lambda http: make_service(started, http)) as (address, proxy):
        while started.state != "ready":
            time.sleep(0.01)
        yield address, proxy


def run_page(address, path, ready, found, **values):
    """What a page found, opened by a path with a hash, once it is ready; `values` are those of its elements."""
    html = httpx.get(f"{address}{PREFIX}/").text
    assert not re.search(r"""(href|src|action)=["']?/""", html)
    script, (path, hash) = re.search(r"<script>(.*)</script>", html, re.S)[1], path.split("#")
    given = {"script": script, "address": address, "path": path, "hash": f"#{hash}", "values": values}
    return run_js(BROWSER, given | {"then": {"ready": ready, "found": found}})


@needs_node
@pytest.mark.parametrize("path", [f"{PREFIX}/#{quote(TEXT)}", f"{PREFIX}#{TEXT}"])
def test_the_page_of_the_service_asks_under_its_own_path(service, path):
    address, proxy = service
    done = run_page(address, path, "answer", "begin(), [answer.said, curl(), location.pathname]", model=ODD)
    assert [one.partition("?")[0].rpartition(f"{PREFIX}/v1/")[2] for one in done["asked"]] == [
        *("models", "predict", "live")
    ]
    said, command, place = done["found"]
    assert said == TEXT
    assert command.startswith(f"curl {address}{PREFIX}/v1/predict -H") and place == f"{PREFIX}/"
    socket = done["asked"][-1]
    assert socket.startswith(address.replace("http", "ws"))
    assert httpx.URL(socket.replace("ws", "http")).params["model"] == ODD
    assert not proxy.strays


@needs_node
def test_the_page_for_labelling_asks_under_its_own_path(tmp_path):
    with session_at(tmp_path / "answers.jsonl") as session:
        app = LabellingApp(session, Background(session, SessionSource(encoder="starter")))
        with proxied(lambda http: app.make(http, "secret")) as (address, proxy):
            done = run_page(address, f"{PREFIX}#secret", "key", "location.href")
    assert done["found"] == f"{address}{PREFIX}/"  # without the token
    assert done["asked"][0] == f"{address}{PREFIX}/api/claim" and not proxy.strays


@pytest.mark.parametrize("path", ["/v1/predict/", "/v1/models/", "/livez/"])
def test_nothing_leads_out_of_the_path(service, path):
    address, _ = service
    assert httpx.get(f"{address}{PREFIX}{path}", follow_redirects=False).status_code == 404
    described = httpx.get(f"{address}{PREFIX}/openapi.json")
    assert described.url.join(described.json()["servers"][0]["url"]).path == f"{PREFIX}/"


@pytest.mark.parametrize("way", ["query", "body"])
def test_a_model_of_an_odd_name_is_asked_by_it(service, way):
    address, _ = service
    if way == "body":
        answer = httpx.post(f"{address}{PREFIX}/v1/predict", json={"model": ODD, "inputs": ["x"]})
        assert answer.json()["model"] == ODD
    else:
        headers = {"Content-Type": "text/plain"}
        answer = httpx.post(f"{address}{PREFIX}/v1/live", params={"model": ODD}, content="x", headers=headers)
        assert answer.status_code != 404 and "there is no model" not in answer.text
