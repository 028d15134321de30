"""The labelling page's HTTP: who may ask, one page at a time, hostile bodies, and every step of a session."""

import json
import time

import pytest
from fastapi.testclient import TestClient

from boustro.apps.label import app as app_module
from boustro.apps.label.app import LabellingApp, _around
from boustro.apps.label.background import Background, SessionSource
from boustro.apps.serve.http import HttpOptions
from boustro.store import Artefact, claim
from boustro.types import Entity, Sentence
from labelling import answer, right, session_at

TOKEN = "secret"


class Client:
    """The page's requests."""

    def __init__(self, session, out_tagger=None, page="one"):
        source = SessionSource(encoder="starter")
        self.work = Background(session, source, out_tagger)  # not started: all sentences are ready
        self.app = LabellingApp(session, self.work)
        self.http = TestClient(self.app.make(HttpOptions(), TOKEN), base_url="http://127.0.0.1:8080")
        self.key = ""
        self.key = self.post("claim", page=page).json()["key"]

    def post(self, path, headers=None, **body):
        given = {"Authorization": f"Bearer {TOKEN}", "X-Boustro-Key": self.key, **(headers or {})}
        return self.http.post(f"/api/{path}", headers=given, json=body)


@pytest.fixture
def client(tmp_path):
    with session_at(tmp_path / "answers.jsonl") as session:
        yield Client(session)


def error(response, status):
    assert response.status_code == status, response.text
    return response.json()["error"]["code"]


def test_unsure_words_stand_among_their_neighbours_as_they_were_written():
    words = ("in", "Lisse", ",", "Ada", "left", "for", "good", ".")
    spaced = Sentence(words, spaces=(True, True, False, *[True] * 4, False))
    assert _around(spaced, 3, False) == {"before": "in Lisse, ", "word": "Ada", "after": " left for good"}
    assert _around(spaced, 2, False) == {"before": "in Lisse", "word": ",", "after": " Ada left for"}
    assert _around(spaced, 0, True) == {"before": "in Lisse, Ada left for good.", "word": "", "after": ""}
    assert _around(Sentence(words + words), 0, True)["before"].endswith("good .…")
    assert _around(Sentence(("在", "中", "国")), 1, False) == {"before": "在", "word": "中", "after": "国"}


def test_a_session_over_http(client, tmp_path):
    state = client.post("state").json()
    for _ in range(5):
        number = state["sentence"]["number"]
        entities = [{"start": e.start, "end": e.end, "label": e.label} for e in right(client.app.session, number)]
        state = client.post("answer", number=number, entities=entities, note="n").json()
    assert state["answered"] == 5 and state["can_undo"] and not state["can_redo"]
    assert client.post("undo").json()["answered"] == 4
    assert client.post("redo").json()["answered"] == 5
    assert client.post("back").json()["sentence"]["is"] == "answered"
    assert client.post("ahead").json()["sentence"]["is"] == "suggested"
    assert client.post("label", name="ORG").json()["labels"] == ["PER", "LOC", "ORG"]
    assert client.post("order", order="diverse").json()["order"] == "diverse"
    state = client.post("state").json()
    assert client.post("skip", number=state["sentence"]["number"]).json()["skipped"] == 1
    assert client.post("unskip").json()["skipped"] == 0
    panel = client.post("panel").json()
    assert panel["counts"] == {"PER": 5, "LOC": 5, "ORG": 0} and not panel["has_gold"]
    assert 1 <= len(panel["unsure"]) <= 6
    for row in panel["unsure"]:
        words = client.app.session.texts[row["number"]].sentence.words
        assert row["word"] in words and (row["before"] + row["word"] + row["after"]).strip() == " ".join(words)
    shown = client.post("show", number=panel["unsure"][0]["number"]).json()
    assert shown["sentence"]["number"] == panel["unsure"][0]["number"]
    assert "answers.conll" in client.post("export").json()["message"]
    assert (tmp_path / "answers.conll").read_text().count("B-PER") == 5
    assert error(client.post("compare"), 400) == "no_gold"


def test_files_of_others_beside_the_answers_are_kept(client, tmp_path):
    """The person's own file has the name that the button would choose; the button replaces only what it has written."""
    (tmp_path / "answers.conll").write_text("Ada\tB-PER\n")
    for _ in range(2):
        answer(client.app.session)
        assert "answers-2.conll" in client.post("export").json()["message"]
    assert (tmp_path / "answers.conll").read_text() == "Ada\tB-PER\n"
    assert (tmp_path / "answers-2.conll").read_text().count("B-PER") == 2
    with (tmp_path / "answers-2.conll").open("a") as edited:
        edited.write("edited\tO\n")
    assert "answers-3.conll" in client.post("export").json()["message"]
    (tmp_path / "answers-tagger").mkdir()  # by boustro fit, since the session began
    assert client.post("panel").json()["folder"] == str(tmp_path / "answers-tagger-2")


def test_the_page_trains_where_its_own_session_writes_at_the_end(tmp_path, tiny_lm):
    out = tmp_path / "ner"
    with session_at(tmp_path / "answers.jsonl") as session, claim(out, "tagger"):
        page = Client(session, out)
        page.work.source = SessionSource(encoder="starter", asked={"encoder": str(tiny_lm("llama"))}, cache=False)
        for count in (1, 2):
            answer(session)
            assert page.post("train").status_code == 200
            while (panel := page.post("panel").json())["training"]:
                time.sleep(0.05)
            trained = panel["trained"]
            assert panel["training_problem"] == "" and panel["folder"] == str(out)
            assert trained["answers"] == count and trained["score"] is None and "needs 10" in trained["why_not"]
    Artefact(out).check("tagger")


def test_who_may_ask(client):
    for headers, status, code in (
        ({"Authorization": ""}, 401, "token"),
        ({"Authorization": "Bearer other"}, 401, "token"),
        ({"Host": "evil.example", "Authorization": ""}, 401, "token"),
        ({"Origin": "http://evil.example"}, 403, "origin"),
        ({"Origin": "null"}, 403, "origin"),
        ({"Origin": "http://127.0.0.1:9999"}, 403, "origin"),
        ({"X-Boustro-Key": ""}, 409, "other_page"),
        ({"X-Boustro-Key": "é".encode()}, 409, "other_page"),
    ):
        assert error(client.post("undo", headers=headers), status) == code, headers
    assert client.post("state", headers={"Origin": "http://127.0.0.1:8080"}).status_code == 200
    behind = {"Host": "tools.example", "Origin": "https://tools.example"}  # a proxy
    assert client.post("state", headers=behind).status_code == 200
    page = client.http.get("/", headers=behind)
    assert TOKEN not in page.text and "default-src 'none'" in page.headers["content-security-policy"]
    assert client.http.get("/openapi.json", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 404


def test_a_second_page_is_refused_until_it_insists_or_the_first_is_gone(client, monkeypatch):
    assert error(client.post("claim", page="two"), 409) == "other_page"
    first = client.key
    client.key = client.post("claim", page="two", insist=True).json()["key"]
    assert client.post("state").status_code == 200
    assert error(client.post("state", headers={"X-Boustro-Key": first}), 409) == "other_page"
    assert client.post("claim", page="two").status_code == 200  # the same tab, loaded again
    now = time.monotonic()
    monkeypatch.setattr(app_module.time, "monotonic", lambda: now + app_module.ALIVE_SECONDS + 1)
    assert client.post("claim", page="three").status_code == 200


ENTITY = {"start": 0, "end": 1, "label": "PER"}


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        ("answer", {}, 422),
        ("answer", {"number": 1.0, "entities": []}, 422),
        ("answer", {"number": True, "entities": []}, 422),
        ("answer", {"number": "current"}, 422),
        ("answer", {"number": "current", "entities": {}}, 422),
        ("answer", {"number": "current", "entities": [None]}, 422),
        ("answer", {"number": "current", "entities": [{**ENTITY, "end": 99}]}, 400),
        ("answer", {"number": "current", "entities": [{**ENTITY, "start": -1}]}, 400),
        ("answer", {"number": "current", "entities": [{**ENTITY, "label": "x"}]}, 400),
        ("answer", {"number": "current", "entities": [{**ENTITY, "end": 10**30}]}, 400),
        ("answer", {"number": "current", "entities": [], "note": 7}, 422),
        ("answer", {"number": "current", "entities": [], "note": "\ud800"}, 422),
        ("answer", {"number": 99, "entities": []}, 409),
        ("show", {"number": 10**9}, 400),
        ("label", {"name": "O"}, 400),
        ("label", {"name": "\ud800"}, 422),
        ("order", {"order": "best"}, 400),
        ("undo", {}, 400),
        ("nothing", {}, 404),
        ("finish/x", {}, 404),
    ],
)
def test_hostile_bodies_change_nothing(client, name, body, status):
    before = client.post("state").json()
    if body.get("number") == "current":
        body = {**body, "number": before["sentence"]["number"]}
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Boustro-Key": client.key}
    response = client.http.post(f"/api/{name}", headers=headers, content=json.dumps(body))
    assert response.status_code == status and response.json()["error"]["message"]
    assert client.post("state").json() == before


@pytest.mark.parametrize(
    ("content", "status"), [(b"{", 400), (b"[]", 422), (b"[" * 50_000, 400), (b" " * 2**20 + b" ", 413)]
)
def test_bodies_that_are_no_objects(client, content, status):
    headers = {"Authorization": f"Bearer {TOKEN}", "X-Boustro-Key": client.key}
    assert client.http.post("/api/undo", headers=headers, content=content).status_code == status


def test_compare_with_gold(tmp_path):
    with session_at(tmp_path / "answers.jsonl") as session:
        session.texts = [type(t)(t.sentence, tuple(right(session, n))) for n, t in enumerate(session.texts)]
        client = Client(session)
        for _ in range(7):
            answer(session)
        number = session.current
        session.answer(number, [Entity("LOC", 0, 1)])
        found = client.post("compare").json()
        assert found["num_different"] == 1 and found["different"][0]["number"] == number
        words = session.texts[number].sentence.words
        assert found["different"][0]["only_answer"] == [f"{words[0]} (LOC)"]
        assert found["answers"]["sentences"] == 8 and found["answers"]["precision"] < 100
        assert found["tagger"]["sentences"] == 4 and found["tagger"]["f1"] > 80
        assert client.post("panel").json()["has_gold"]


def test_a_full_disk_is_said_and_nothing_is_lost(client, monkeypatch):
    from boustro.apps.label import answers

    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(answers, "write_file", full)
    number = client.post("state").json()["sentence"]["number"]
    assert error(client.post("answer", number=number, entities=[]), 507) == "disk"
    monkeypatch.undo()
    assert client.post("answer", number=number, entities=[]).json()["answered"] == 1
