"""The service: the answers of `predict` over HTTP, its bounds, and its errors; models are in this process."""

import gzip
import json
import re
import threading
import time

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs boustro[serve]")

from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

import boustro
from boustro.apps.cli.main import main
from boustro.apps.serve.app import Service, make_service
from boustro.apps.serve.http import HttpOptions, ServeLimits
from boustro.apps.serve.models import find_model, name_folders, open_model
from boustro.tasks import TASKS, task_class
from labelled import DATA, INPUTS, longer
from served import JSON_INPUTS, Puppet, make_folders, plain, same

OWN = "http://127.0.0.1:8000"
TEXTS = ["Ada Brandt left Vellmar.", "", "Okonkwo 🦬 sold\u00a0boats in Lisse.", "שלום Ada"]
TEXTS += ["e\u0301 Ada\r\nIn Lisse it rained."]


@pytest.fixture(scope="module")
def folders(tiny_lm, tmp_path_factory):
    return make_folders(tmp_path_factory.mktemp("served"), str(tiny_lm("llama")))


@pytest.fixture(scope="module")
def client(folders):
    opened = {name: open_model(name, folder) for name, folder in folders.items()}
    with client_of(opened) as client:
        yield client


def client_of(models, http=HttpOptions(), **limits) -> TestClient:  # noqa: B008 (frozen)
    service = Service(lambda: {model.name: model for model in models.values()}, ServeLimits(**limits))
    client = TestClient(make_service(service, http), base_url=OWN, raise_server_exceptions=False)
    client.service = service  # type: ignore[attr-defined]

    class Ready:
        def __enter__(self):
            client.__enter__()
            while service.state == "starting" and service.failure is None:
                time.sleep(0.01)
            return client

        def __exit__(self, *error):
            client.__exit__(*error)

    return Ready()  # type: ignore[return-value]


def one(model=None, **limits):
    return client_of({"puppet": model or Puppet()}, **limits)


def ask(client, *inputs, path="/v1/predict", **rest):
    return client.post(path, json={"inputs": list(inputs), **rest})


def error(response) -> tuple[int, str]:
    assert response.headers["x-request-id"]
    body = response.json()["error"]
    assert body.keys() == {"code", "message", "type", "param"} and body["message"].strip()
    return response.status_code, body["code"]


@pytest.mark.parametrize("name", TASKS)
def test_every_task_answers_as_predict_does(name, client, folders):
    task = task_class(name).from_pretrained(folders[name], cache=False)
    answer = ask(client, JSON_INPUTS[name], JSON_INPUTS[name], model=name)
    assert answer.status_code == 200, answer.text
    expected = plain([task.to_record(a) for a in task.answer_inputs([INPUTS[name]] * 2)])
    assert answer.json() == {"model": name, "task": name, "outputs": expected}
    assert answer.json()["outputs"][0]


def test_offsets_are_code_points_and_every_input_has_its_output(client, folders):
    tagger = boustro.Tagger.from_pretrained(folders["tag"], cache=False)
    outputs = ask(client, *TEXTS, model="tag").json()["outputs"]
    assert same(outputs, [{"entities": [e.to_dict() for e in found]} for found in tagger.predict(TEXTS)])
    assert sum(len(output["entities"]) for output in outputs) > 2
    for text, output in zip(TEXTS, outputs, strict=True):
        assert all(e["text"] == text[e["start"] : e["end"]] for e in output["entities"])


def test_words_and_objects_are_inputs_too(client, folders):
    words = ["Ada", "Brandt", "left", "Vellmar", "."]
    inputs = [words, {"words": words}, {"tokens": words}, {"text": "Ada left."}, []]
    outputs = ask(client, *inputs, model="tag").json()["outputs"]
    tags = boustro.Tagger.from_pretrained(folders["tag"], cache=False).tag([words])[0]
    assert outputs[0] == outputs[1] == outputs[2] and outputs[0]["tags"] == list(tags)
    assert all(e["text"] == " ".join(words[e["start"] : e["end"]]) for e in outputs[0]["entities"])
    assert outputs[0]["entities"] and "tags" not in outputs[3] and outputs[4] == {"tags": [], "entities": []}


def test_vectors(client, folders):
    texts = ["Ada left.", "", "It rained."]
    vectors = ask(client, *texts, model="embed", path="/v1/embed").json()
    expected = boustro.SentenceEncoder.from_pretrained(folders["embed"]).encode(texts)
    np.testing.assert_allclose(vectors["vectors"], expected, atol=1e-3)
    assert vectors["width"] == expected.shape[1]
    units = ask(client, *texts, model="embed", path="/v1/embed", normalize=True).json()["vectors"]
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), [1, 0, 1], atol=1e-6)


def test_min_score_leaves_out_entities(client):
    every = ask(client, *TEXTS, model="tag").json()["outputs"]
    scores = sorted(e["score"] for output in every for e in output["entities"])
    kept = ask(client, *TEXTS, model="tag", min_score=scores[1]).json()["outputs"]
    assert sum(len(output["entities"]) for output in kept) == len(scores) - scores.index(scores[1]) < len(scores)


def test_a_threshold_answers_unlikely_words_as_predict_does(client, folders):
    tagger = boustro.Tagger.from_pretrained(folders["tag"], cache=False)
    few, more = (ask(client, *TEXTS, model="tag", **how).json()["outputs"] for how in ({}, {"threshold": 1e-6}))
    assert same(more, [{"entities": [e.to_dict() for e in found]} for found in tagger.predict(TEXTS, threshold=1e-6)])
    words = [sum(len(e["text"].split()) for output in each for e in output["entities"]) for each in (few, more)]
    assert words[0] < words[1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{", (400, "not_json")),
        (b"", (422, "not_valid")),
        (b"\xff\xfe", (400, "not_json")),
        (b"[" * 100_000, (400, "not_json")),
        ({"inputs": []}, 200),
        ({"inputs": "Ada"}, (422, "not_valid")),
        ({"inputs": ["Ada"], "modle": "tag"}, (422, "not_valid")),
        ({"inputs": [7]}, (422, "not_valid")),
        ({"inputs": [["Ada", 7]]}, (422, "not_valid")),
        ({"inputs": [{"txt": "Ada"}]}, (422, "not_valid")),
        (b'{"model": "tag", "inputs": ["\\ud800"]}', (422, "not_valid")),
        (b'{"model": "\\ud800", "inputs": ["x"]}', (404, "unknown_model")),
        ({"inputs": ["Ada"], "model": "tga"}, (404, "unknown_model")),
        ({"inputs": ["Ada"], "model": None}, (400, "unknown_model")),
        ({"inputs": ["Ada"], "min_score": 2}, (422, "not_valid")),
        (b'{"model": "tag", "inputs": ["Ada"], "min_score": NaN}', (400, "not_json")),
        ({"inputs": ["Ada"], "model": "tag", "recall": 0.9}, (400, "no_recall")),
        ({"inputs": ["Ada"], "model": "classify", "recall": 0.9}, (400, "no_recall")),
        ({"inputs": ["Ada"], "model": "tag", "recall": 1}, (422, "not_valid")),
        ({"inputs": ["Ada"], "model": "classify", "min_score": 0.5}, (400, "no_min_score")),
        ({"inputs": ["Ada"], "model": "classify", "threshold": 0.5}, (400, "no_threshold")),
        ({"inputs": ["Ada"], "model": "tag", "threshold": 0.1, "recall": 0.9}, (400, "no_threshold")),
        ({"inputs": ["Ada"], "model": "tag", "threshold": 1.5}, (422, "not_valid")),
        ({"inputs": ["Ada"], "model": "qa"}, (422, "not_valid")),
        ({"inputs": ["Ada"], "model": "sense"}, (422, "not_valid")),
        ({"inputs": ["a" * 100_001]}, (413, "input_too_large")),
        ({"inputs": ["a"] * 1001}, (413, "too_many_inputs")),
        ({"inputs": ["a" * 99_000] * 11}, (413, "too_large")),
    ],
    ids=lambda value: str(value)[:50],
)
def test_bad_requests_are_refused_in_one_shape(body, expected, client):
    content = body if isinstance(body, bytes) else json.dumps({"model": "tag"} | body).encode()
    answer = client.post("/v1/predict", content=content, headers=JSON)
    assert answer.status_code == 200 if expected == 200 else error(answer) == expected


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"model": "tag",\n "inputs": [}', "the body is not JSON: expecting value (line 2, column 13)"),
        (b'{"inputs": ["Ada"], "inputs": ["x"]}', "the body is not JSON: the key 'inputs' comes twice"),
        (b'{"inputs": ["\xfc"]}', "the body is not JSON: byte 14 is not UTF-8"),
        (b"", "the body is empty; send a JSON object"),
    ],
)
def test_a_body_that_is_no_json_is_refused_with_its_place(body, message, client):
    assert message in client.post("/v1/predict", content=body, headers=JSON).json()["error"]["message"]


def test_messages_say_where_and_what_to_do(client):
    message = ask(client, "Ada", ["x", 7], model="tag").json()["error"]["message"]
    assert message == "input 2, word 2 is 7, which is not a string"
    assert "did you mean 'tag'" in ask(client, "Ada", model="tagg").json()["error"]["message"]
    assert "gives no vectors" in ask(client, "Ada", model="tag", path="/v1/embed").json()["error"]["message"]
    plain = client.post("/v1/predict", content=b"inputs=x", headers={"content-type": "text/plain"})
    assert error(plain) == (415, "not_json")
    assert error(client.get("/v1/predict")) == (405, "method_not_allowed")
    assert error(client.get("/v2")) == (404, "not_found")


def test_a_request_keeps_its_id(client):
    assert client.get("/livez", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert client.get("/livez", headers={"x-request-id": "a b\x7f"}).headers["x-request-id"] != "a b\x7f"


def open_requests(client):
    return client.service.figures.open._value.get()


@pytest.mark.parametrize(
    ("limits", "inputs", "is_full", "code"),
    [
        ({"requests": 2, "waiting": 10}, ["a" * 9], lambda client: open_requests(client) == 2, "too_many_requests"),
        (
            {"waiting": 5, "batch": 1},
            ["a" * 6, "b" * 6],
            lambda client: client.service.batcher.waiting >= 6,
            "queue_full",
        ),
    ],
)
def test_too_much_at_once_is_told_to_come_back(limits, inputs, is_full, code):
    go_on, answers = threading.Event(), []

    def act(inputs):
        go_on.wait(30)
        return [{"entities": []} for _ in inputs]

    model = Puppet()
    with one(model, **limits) as client:
        model.act = act
        threads = [threading.Thread(target=lambda: answers.append(ask(client, *inputs).status_code)) for _ in range(2)]
        for thread in threads:
            thread.start()
        while not is_full(client):
            time.sleep(0.01)
        refused = ask(client, "b")
        assert error(refused) == (429, code) and int(refused.headers["retry-after"]) >= 1
        assert client.get("/readyz").status_code == 200  # what does not compute is always answered
        go_on.set()
        for thread in threads:
            thread.join()
        assert answers.count(200) >= limits.get("requests", 1) and ask(client, "b").status_code == 200


def test_what_takes_too_long_is_given_up_and_a_failure_is_said(capfd):
    def act(inputs):
        if "fail" in inputs:
            raise RuntimeError("secret text")
        time.sleep(0.6 if "slow" in inputs else 0)
        return [{"entities": []} for _ in inputs]

    with one(Puppet(act=act), timeout=0.2) as client:
        assert error(ask(client, "slow")) == (504, "timeout")
        time.sleep(0.5)
        failed = ask(client, "fail")
        assert error(failed) == (500, "internal") and "secret" not in failed.text
        logged = json.loads(capfd.readouterr().err.splitlines()[-1])
        assert (logged["status"], logged["error"]) == (500, "RuntimeError") and "act" in logged["trace"][-1]
        assert "secret" not in str(logged)
        assert ask(client, "quick").status_code == 200


def test_before_the_models_are_open_and_after_the_end_it_says_so():
    go_on = threading.Event()

    def open_models():
        go_on.wait(30)
        return {"puppet": Puppet()}

    service = Service(open_models, ServeLimits())
    with TestClient(make_service(service, HttpOptions()), base_url=OWN) as client:
        for path in ("/readyz", "/health"):
            assert (client.get(path).status_code, client.get(path).json()) == (503, {"status": "starting"})
        assert client.get("/livez").status_code == 200
        refused = ask(client, "a")
        assert error(refused) == (503, "starting") and refused.headers["retry-after"]
        assert error(client.get("/v1/models")) == (503, "starting")
        go_on.set()
        while client.get("/readyz").status_code != 200:
            time.sleep(0.01)
        assert ask(client, "a").status_code == 200
        service.stop()
        assert error(ask(client, "a")) == (503, "stopping") and client.get("/readyz").status_code == 503


def test_a_token_guards_what_computes(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("open sesame")
    with client_of({"puppet": Puppet()}, HttpOptions(token_file=file)) as client:
        for path in ("/v1/models", "/metrics"):
            assert error(client.get(path)) == (401, "token")
        for path in ("/v1/predict", "/v1/embed"):
            assert error(client.post(path, content=b"x" * 10_000_000)) == (401, "token")  # and not 413: nothing is read
        for path in ("/", "/livez", "/readyz", "/openapi.json"):
            assert client.get(path).status_code == 200
        bearer = {"authorization": "Bearer open sesame"}
        assert client.post("/v1/predict", json={"inputs": ["a"]}, headers=bearer).status_code == 200


def test_figures(client):
    ask(client, "Ada left.", "It rained.", model="tag")
    said = client.get("/metrics").text
    for name in "requests_total request_seconds_bucket waiting_characters open_requests batch_inputs_count".split():
        assert f"boustro_{name}" in said
    words = float(re.search(r'boustro_words_total\{model="tag"\} (\S+)', said)[1])
    ask(client, "Ada left.", model="tag")
    assert f'boustro_words_total{{model="tag"}} {words + 3}' in client.get("/metrics").text
    client.get("/made/up/path")
    assert "made" not in client.get("/metrics").text


def test_the_log_has_no_texts(client, capfd):
    ask(client, "Xyzzy left.", model="tag")
    ask(client, ["Xyzzy", 7], model="tag")
    logged = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert [(line["path"], line["status"]) for line in logged] == [("/v1/predict", 200), ("/v1/predict", 422)]
    assert logged[0]["inputs"] == 1 and logged[0]["model"] == "tag" and "Xyzzy" not in str(logged)


def test_pages_need_nothing_from_elsewhere(client):
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not any(word in page.text for word in ("http://", "https://", "src=", "@import", "innerHTML"))
    described = client.get("/openapi.json").json()["paths"]
    paths = "/v1/predict /v1/live /v1/embed /v1/models /livez /readyz /metrics"
    assert {*paths.split()} == described.keys()
    assert client.get("/docs").status_code == 404


def test_an_output_says_what_decided_it(client, folders):
    tasks = [model for model in client.get("/v1/models").json()["models"] if "layers" in model]
    assert {model["task"] for model in tasks} == {*TASKS}
    for model in tasks:
        given = {"model": model["name"]}
        plain, explained = (
            ask(client, model["example"], **given, explain=why).json()["outputs"][0] for why in (False, True)
        )
        why = explained.pop("explained")
        assert same(explained, plain)
        assert ("words" in why) == (model["task"] not in ("tag", "qa", "sense", "embed"))
    refused = ask(client, "long " * 501, model="classify", explain=True)
    assert refused.status_code == 422 and "input 1 has 501 words" in refused.text


@pytest.mark.parametrize("given", ["", " ", "\n"])
def test_an_empty_text_is_answered_and_explained(given, client):
    """By every task that takes one: alone, beside others, and as a vector."""
    empty = {"tag": [given, [], {"text": given}], "classify": [given], "regress": [given]}
    empty |= {key: [[given, given], [given, "Ada left."], ["Ada left.", given]] for key in ("pair", "similarity")}
    for name, inputs in empty.items():
        for asked in (inputs, inputs[:1]):
            answer = ask(client, *asked, model=name, explain=True)
            assert answer.status_code == 200 and len(answer.json()["outputs"]) == len(asked), answer.text
            assert all("explained" in output for output in answer.json()["outputs"])
    assert ask(client, given, "Ada left.", model="embed", path="/v1/embed").status_code == 200
    refused = ask(client, {"question": given, "context": "Ada left."}, model="qa", explain=True)
    assert refused.status_code == 422 and "the question is empty" in refused.text


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/embed"])
def test_a_compressed_body_is_refused_by_its_encoding(path, client):
    content = gzip.compress(b'{"inputs": ["Ada left."], "model": "tag"}')
    for encoding in ("gzip", "br", "GZIP, identity"):
        headers = {"content-type": "application/json", "content-encoding": encoding}
        answer = client.post(path, content=content, headers=headers)
        assert error(answer) == (415, "encoded") and f"encoded as {encoding}," in answer.text
        assert answer.headers["accept-encoding"] == "identity"
    plain = {"content-type": "application/json", "content-encoding": "identity"}
    assert client.post(path, content=b'"Ada"', headers=plain).status_code in (200, 422)


def test_what_is_served(client):
    served = {model["name"]: model for model in client.get("/v1/models").json()["models"]}
    assert served["tag"]["labels"] == ["LOC", "PER"] == list(served["tag"]["colours"])
    for name, model in served.items():
        path = "/v1/embed" if name == "embed" else "/v1/predict"
        assert ask(client, model["example"], model=name, path=path).status_code == 200


def test_folders_have_names(folders, tmp_path):
    found = name_folders([str(folders["tag"]), f"other={folders['tag']}"])
    assert {name: folder.path for name, folder in found.items()} == {"tag": folders["tag"], "other": folders["tag"]}
    with pytest.raises(ValueError, match="two models are named tag"):
        name_folders([str(folders["tag"]), str(folders["tag"])])
    with pytest.raises(FileNotFoundError, match="no such folder"):
        name_folders([str(tmp_path / "nowhere")])
    with pytest.raises(ValueError, match="not one of the folders that can be served: tagger"):
        name_folders([str(tmp_path)])
    with pytest.raises(ValueError, match="name one of the models: a, b"):
        find_model({"a": Puppet(), "b": Puppet()}, None)


def test_a_folder_that_cannot_be_opened_ends_the_command(folders, tmp_path, capsys):
    import shutil

    broken = shutil.copytree(folders["tag"], tmp_path / "broken")
    (broken / "head.safetensors").unlink()
    assert main(["serve", str(broken), "--port", "0"]) == 1
    assert "head.safetensors is missing" in capsys.readouterr().err.splitlines()[-1]
    assert main(["serve", "--port", "0"]) == 2


TEXT = st.text(st.characters(), max_size=60)
KEYS = st.sampled_from("text words question context sentence1 sentence2 senses start1 a".split()) | st.text(max_size=3)
PLAIN = st.none() | st.booleans() | st.floats() | st.integers() | TEXT
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
SENSED = {"words": st.lists(TEXT, max_size=4), "senses": st.lists(st.tuples(st.integers(-1, 5), TEXT, TEXT))}
MARKS = {"start1": st.integers(-1, 9), "end1": st.integers(), "start2": st.integers(), "end2": st.integers()}
LIKELY = (
    TEXT
    | st.lists(TEXT, max_size=5)
    | st.fixed_dictionaries({"question": TEXT, "context": TEXT})
    | st.fixed_dictionaries(SENSED)
    | st.fixed_dictionaries({"sentence1": TEXT, "sentence2": TEXT}, optional=MARKS)
)
FURTHER = {
    "model": st.sampled_from([*TASKS, "x"]) | VALUES,
    "min_score": st.floats(0, 1) | VALUES,
    "recall": VALUES,
    "explain": st.booleans() | VALUES,
    "normalize": st.booleans() | VALUES,
    "other": VALUES,
}
BODIES = st.fixed_dictionaries({"inputs": st.lists(LIKELY | VALUES, max_size=4) | VALUES}, optional=FURTHER)


@given(
    path=st.sampled_from(["/v1/predict", "/v1/embed"]),
    body=BODIES | VALUES | st.binary(max_size=200),
    model=st.sampled_from([*TASKS]),
    cut=st.integers(0, 400) | st.none(),
)
def test_no_body_is_too_odd(client, path, body, model, cut):
    """Whatever comes is answered, and never by a failure of ours."""
    if isinstance(body, dict) and "model" not in body:
        body = {**body, "model": model}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()[:cut]
    answer = client.post(path, content=content, headers=JSON)
    assert answer.status_code < 500, (content, answer.text)
    assert '"internal"' not in answer.text, (content, answer.text)
    if answer.status_code >= 400:
        error(answer)
    else:
        outputs = answer.json().get("outputs", answer.json().get("vectors"))
        assert len(outputs) == len(body["inputs"])


def test_a_recall_asked_for_gives_longer_lists(tiny_lm, tmp_path):
    dev = [*longer(DATA), *longer(longer(DATA))]  # a promise of 0.95 needs 19 entities
    tagger = boustro.Tagger(str(tiny_lm("llama")), hidden=16, epochs=2, cache=False).fit(DATA, dev, seed=1)
    tagger.save_pretrained(tmp_path / "t")
    texts = [" ".join(words) for words, _ in DATA[:8]]
    with client_of({"t": open_model("t", tmp_path / "t")}) as client:
        for recall in (0.6, 0.95, 0.6):
            found = [[e["text"] for e in o["entities"]] for o in ask(client, *texts, recall=recall).json()["outputs"]]
            assert found == [[e.text for e in own] for own in tagger.predict(texts, recall=recall)]
        assert sum(map(len, found)) > 0
