"""The page of the service in Chromium: texts of all kinds, several models, a token, and no address but its own."""

import asyncio
import threading
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")

import uvicorn

from boustro.apps.serve.app import Service, make_service
from boustro.apps.serve.http import HttpOptions, ServeLimits, address_of, listen
from boustro.tasks.render import colours
from browser import needs_chromium, open_browser
from served import Puppet

pytestmark = needs_chromium
TEXT = "🦬 <b>Ada</b> של Port Lisse & <script>document.title = 'owned'</script>"
PLAIN = """(() => {
  const copy = $("text").cloneNode(true);
  copy.querySelectorAll("small").forEach(label => label.remove());
  return copy.textContent;
})()"""
NAMES = {"Ada": "PER", "Port Lisse": "LOC", "Lisse": "<i>NAME</i>", "Lisse & <script>": "CROSSES"}


def act(texts):
    """The names wherever they stand: one inside another, and one that crosses another."""
    if any(isinstance(text, dict) for text in texts):  # sentences of words
        return [{"tags": ["B-PER" if word == "Ada" else "O" for word in text["words"]]} for text in texts]
    places = [[(label, text.find(name), name) for name, label in NAMES.items() if name in text] for text in texts]
    score = lambda label: 0.9 if len(label) > 3 else 0.8  # noqa: E731
    found = [
        [{"label": n, "start": s, "end": s + len(t), "text": t, "score": score(n)} for n, s, t in own] for own in places
    ]
    return [{"entities": own} for own in found]


class Explaining(Puppet):
    """A puppet that also takes words, and says what decided its answers; `why` is that."""

    def __init__(self, name, act, why):
        super().__init__(name, act)
        self.why, self.explains = why, False

    def parse(self, value, place):
        return value

    def with_explanation(self):
        made = Explaining(self.name, lambda texts: [o | {"explained": self.why} for o in self.act(texts)], self.why)
        made.task = self.task
        return made

    def to_dict(self):
        return super().to_dict() | {"layers": {"left": [0.25, 0.75], "right": [0.5, 0.5]}}


ADA = {"label": "PER", "start": 0, "end": 3, "text": "Ada", "score": 0.8}
LISSE = {"label": "LOC", "start": 8, "end": 18, "text": "Port Lisse", "score": 0.8}
INNER = {"label": "<i>NAME</i>", "start": 13, "end": 18, "text": "Lisse", "score": 0.9}
SAW = {"label": "PER", "start": 4, "end": 7, "text": "saw", "score": 0.7}
STREAMS = [{"stream": "left", "entities": [ADA, LISSE, INNER]}, {"stream": "right", "entities": [ADA, INNER, SAW]}]
WORDS = [
    {"text": "<b>Ada</b>", "start": 0, "end": 10, "effect": 0.3},
    {"text": "left", "start": 11, "end": 15, "effect": -0.1},
]


@pytest.fixture(scope="module")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture
def served():
    """served(http) → the address of a service with two puppets."""
    stops = []

    def serve(**options) -> str:
        topics = {"probabilities": {"a": 0.75, "b": 0.25}}
        first = Explaining("names", act, {"streams": STREAMS})
        second = Explaining("topics", lambda texts: [topics] * len(texts), {"words": WORDS})
        first.labels, second.task = [*NAMES.values()], "classify"
        http = HttpOptions(port=0, **options)
        service = Service(lambda: {"names": first, "topics": second}, ServeLimits())
        listener = listen(http)
        server = uvicorn.Server(uvicorn.Config(make_service(service, http), log_config=None, log_level="error"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
        address = address_of(listener)
        thread.start()
        stops.append((server, thread))
        return address

    yield serve
    for server, thread in stops:
        server.should_exit = True
        thread.join(20)


def open_page(browser, address, **how):
    page = browser.open(address, **how)
    page.wait("document.readyState === 'complete'")
    return page


def test_entities_stand_where_they_are_and_texts_stay_texts(browser, served):
    address = served()
    page = open_page(browser, f"{address}/#{quote(TEXT)}", width=390)
    page.wait("!document.querySelector('#text').hidden")
    assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    line = page.run("getComputedStyle(document.querySelector('#text mark')).borderBottom")
    assert line == "3px solid rgb(18, 14, 150)" and colours("PER").light == "#120e96"
    marks = page.run("[...document.querySelectorAll('#text mark')].map(m => m.textContent)")
    assert marks == ["AdaPER", "Port Lisse<i>NAME</i>LOC", "Lisse<i>NAME</i>"]
    assert page.run("document.querySelectorAll('#text mark mark').length") == 1
    shown = page.run(PLAIN)
    assert shown == TEXT and page.run("document.title") != "owned"
    assert page.run("document.querySelectorAll('#text b, #text script, #text i').length") == 0
    assert page.run("document.querySelectorAll('#rows tr').length") == 5
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    page.run("$('least').value = 0.85; $('least').dispatchEvent(new Event('input'))")
    assert page.run("[...document.querySelectorAll('#text mark')].map(m => m.textContent)") == [
        "Lisse<i>NAME</i> & <script>CROSSES",  # nothing is left that it crosses
        "Lisse<i>NAME</i>",
    ]
    assert "'inputs'" not in page.run("curl()") and "/v1/predict" in page.run("curl()")
    page.run("$('model').value = 'topics'; $('model').dispatchEvent(new Event('change')); go()")
    page.wait("document.querySelectorAll('#rows tr').length === 3")
    assert "0.750" in page.text("#rows")
    assert all(place.startswith(address) for place in page.addresses())


def test_what_decided_an_answer_stands_beside_it(browser, served):
    page = open_page(browser, served())
    page.wait("models.length === 2")
    page.run("$('why').checked = true; $('input').value = 'Ada saw Port Lisse'; go()")
    page.wait("!$('sides').hidden")
    titles = page.run("[...document.querySelectorAll('.side h2')].map(title => title.textContent)")
    assert titles == ["only left: the same", "only right: 1 missed, 1 more"]
    assert page.run("[...document.querySelectorAll('.side mark.differs')].map(m => m.textContent)") == ["sawPER"]
    assert "75%" in page.text("#layers")
    page.run("$('model').value = 'topics'; choose(); go()")
    page.wait("document.querySelectorAll('.side .word').length === 2")
    assert page.run("document.querySelectorAll('.side b').length") == 0
    assert "red" in page.text("#legend") and page.run("document.documentElement.scrollWidth <= innerWidth")


def test_a_file_with_gold_tags_becomes_a_table(browser, served):
    page = open_page(browser, served())
    page.wait("models.length === 2")
    assert page.run("tagged('Vitamin B-12') === null && tagged('Ada left\\nthe I-land club') === null")
    page.run("$('input').value = 'Ada NNP B-PER\\nleft VBD O\\n\\nLisse NNP B-LOC\\n'; go()")
    page.wait("!$('conll').hidden")
    differing = page.run("[...document.querySelectorAll('#rows tr.differs td')].map(cell => cell.textContent)")
    assert differing == ["Lisse", "B-LOC", "O"]
    assert page.text("#legend") == "3 words, 1 with another tag"


def test_a_file_of_rows_is_not_taken_for_one_text(browser, served):
    page = open_page(browser, served())
    page.wait("models.length === 2")
    page.run("""window.give = (text, name) => {
        const held = new DataTransfer();
        held.items.add(new File([text], name));
        $('file').files = held.files;
        $('file').dispatchEvent(new Event('change'));
    }; $('input').value = 'before'; give('id,text\\n1,Ada left.\\n', 'messages.csv')""")
    page.wait("!$('problem').hidden || $('input').value !== 'before'")
    assert page.text("#problem") == (
        "messages.csv has a text in each row, and this page reads one text: "
        "boustro predict names messages.csv --out answers.csv answers every row."
    )
    assert page.run("$('input').value") == "before"
    page.run("give('Ada B-PER\\nleft O\\n', 'tags.tsv')")
    page.wait("$('input').value === 'Ada B-PER\\nleft O\\n' && $('problem').hidden")


def test_a_token_is_asked_for(browser, served, tmp_path):
    (tmp_path / "token").write_text("sesame")
    page = open_page(browser, served(token_file=tmp_path / "token"), dark=True)
    page.wait("!$('locked').hidden")
    assert "token" in page.text("#problem")
    page.run("$('token').value = 'sesame'; $('token').dispatchEvent(new Event('change'))")
    page.wait("models.length === 2")
    page.run("go()")
    page.wait("answer !== null")
    assert page.run("$('problem').hidden")
