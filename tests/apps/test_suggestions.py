"""Suggestions for Label Studio and Argilla, written by the command: whole, resumed, and of no text."""

import json

import pytest

import boustro
from annotated import found
from boustro.apps.cli.main import main
from boustro.tasks.data.annotations import TOOLS
from labelled import rows


@pytest.fixture(scope="module")
def tagger(tagger_folder):
    return boustro.Tagger.from_pretrained(tagger_folder), tagger_folder


LINES = ["🚀 In Vellmar it rained.", "Nobody reads.", "Professor Ada Calloway sold umbrellas."]


def accepted(suggestion):
    """The record after an annotator has accepted what was suggested."""
    if "data" in suggestion:
        keys, found = ("from_name", "to_name", "type", "value"), suggestion["predictions"][0]["result"]
        results = [{key: part[key] for key in keys} for part in found]
        return {"data": suggestion["data"], "annotations": [{"result": results}]}
    answers = {name: [{"value": own["value"], "user_id": "1"}] for name, own in suggestion["suggestions"].items()}
    return suggestion | {"responses": answers or {"entities": [{"value": [], "user_id": "1"}]}}


@pytest.mark.parametrize("form", TOOLS)
def test_accepted_suggestions_are_what_the_tagger_said(form, tagger, file, tmp_path, capsys):
    model, folder = tagger
    texts = file("t.jsonl", rows(*({"text": text, "id": n} for n, text in enumerate(LINES))))
    out = tmp_path / "suggested.json"
    assert main(["predict", str(folder), str(texts), "--format", form, "--out", str(out)]) == 0
    assert main(["predict", str(folder), str(texts), "--format", form]) == 0
    suggested = json.loads(out.read_text("utf-8"))
    assert capsys.readouterr().out == out.read_text("utf-8") and len(suggested) == 3
    expected = [(e.label, e.text) for text in LINES for e in model.predict(text)]
    assert found([accepted(one) for one in suggested]) == (expected, {}) and len(expected) >= 2
    ids = [one["data"]["id"] if form == "labelstudio" else int(one["id"]) for one in suggested]
    assert ids == [0, 1, 2]


@pytest.mark.parametrize("form", TOOLS)
def test_a_suggesting_run_resumes_to_the_same_bytes(form, tagger, file, tmp_path, monkeypatch):
    from boustro.apps.batch import growing, predict

    _, folder = tagger
    texts = file("t.txt", "\n".join(LINES) + "\n")
    monkeypatch.setattr(predict, "ROWS", 1)
    monkeypatch.setattr(growing, "SAVE_SECONDS", 0.0)
    command = ["predict", str(folder), str(texts), "--format", form, "--out"]
    assert main([*command, str(tmp_path / "whole.json")]) == 0
    save, saved = growing.Growing.save, []

    def stop(self):
        save(self)
        saved.append(1)
        if len(saved) == stops:
            raise RuntimeError("killed")

    for stops in range(1, 6):
        saved.clear()
        out = str(tmp_path / f"{stops}.json")
        with monkeypatch.context() as patch:
            patch.setattr(growing.Growing, "save", stop)
            main([*command, out])
        assert len(saved) == stops
        assert main([*command, out, "--resume"]) == 0
        assert (tmp_path / f"{stops}.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


@pytest.mark.parametrize("form", TOOLS)
def test_no_text_and_no_answer_are_json_too(form, tagger, file, tmp_path):
    _, folder = tagger
    out = tmp_path / "empty.json"
    assert main(["predict", str(folder), str(file("t.txt", "")), "--format", form, "--out", str(out)]) == 0
    assert json.loads(out.read_text("utf-8")) == []
