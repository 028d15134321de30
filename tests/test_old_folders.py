"""Folders that earlier versions wrote: they open, answer as they did, and are written again as this version writes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import boustro
from boustro.heads.options import SpanOptions
from boustro.tasks.card import local_models, write_card
from boustro.tasks.saved import read_config

FOLDERS = Path(__file__).parent / "folders"


@pytest.mark.parametrize("name", ["tagger-0.1", "spans-0.1", "bioes-0.1"])
def test_a_tagger_of_version_0_1_answers_as_it_did(name, tmp_path):
    rows = [json.loads(line) for line in (FOLDERS / f"{name}.jsonl").read_text("utf-8").splitlines()]
    tagger = boustro.Tagger.from_pretrained(FOLDERS / name)
    tagger.save_pretrained(tmp_path / "again")
    saved = json.loads((tmp_path / "again/config.json").read_text("utf-8"))
    assert saved["task"] == "tag" and "inside" not in saved["config"] and "mix_lr" not in saved["config"]
    for opened in (tagger, boustro.Tagger.from_pretrained(tmp_path / "again")):
        for row, entities in zip(rows, opened.predict([row["text"] for row in rows]), strict=True):
            assert [e.to_dict() | {"score": None} for e in entities] == [e | {"score": None} for e in row["entities"]]
            assert [e.score for e in entities] == pytest.approx([e["score"] for e in row["entities"]], abs=2e-3)
    assert any(row["entities"] for row in rows)


def test_what_an_old_folder_was_made_with_is_kept():
    tagger = boustro.Tagger.from_pretrained(FOLDERS / "bioes-0.1")
    head = tagger.head_options
    assert (head.tag_scheme, head.hidden, head.crf) == ("bioes", 8, False)


def test_options_of_other_heads_that_an_old_folder_has_are_none():
    tagger = boustro.Tagger.from_pretrained(FOLDERS / "spans-0.1")
    assert "crf" in json.loads((FOLDERS / "spans-0.1/config.json").read_text("utf-8"))["config"]
    assert isinstance(tagger.head_options, SpanOptions) and tagger.head.options.max_span
    assert "crf" not in tagger.settings()


def test_cards_hub_and_spacy_read_old_folders_too(tmp_path):
    pytest.importorskip("spacy")
    from boustro.apps.integrations.spacy import TaggerComponent

    folder = shutil.copytree(FOLDERS / "tagger-0.1", tmp_path / "old")
    types = ("LOC", "MISC", "ORG", "PER")
    assert TaggerComponent(str(folder), None, None, "boustro").labels == types
    assert ", ".join(types) in write_card(folder, "ada/old").read_text("utf-8")
    assert local_models(read_config(folder)) == []


def test_a_sense_tagger_of_version_0_1_answers_as_it_did(tmp_path):
    row = json.loads((FOLDERS / "senses-0.1.jsonl").read_text("utf-8"))
    tagger = boustro.SenseTagger.from_pretrained(FOLDERS / "senses-0.1")
    tagger.save_pretrained(tmp_path / "again")
    for opened in (tagger, boustro.SenseTagger.from_pretrained(tmp_path / "again")):
        for sense, answer in zip(opened.predict(row), row["answers"], strict=True):
            assert (sense.key, sense.how) == (answer["key"], answer["how"])
            assert [key for key, _ in sense.ranked] == [key for key, _ in answer["ranked"]]
            assert [x for _, x in sense.ranked] == pytest.approx([x for _, x in answer["ranked"]], abs=2e-3)
        assert opened.record["held_out"]["occurrences"] == 4
    assert {answer["how"] for answer in row["answers"]} == {"centroid", "first sense", "none"}


def test_a_sentence_encoder_of_version_0_1_answers_as_it_did(tmp_path):
    rows = [json.loads(line) for line in (FOLDERS / "embed-0.1.jsonl").read_text("utf-8").splitlines()]
    encoder = boustro.SentenceEncoder.from_pretrained(FOLDERS / "embed-0.1")
    encoder.save_pretrained(tmp_path / "again")
    for opened in (encoder, boustro.SentenceEncoder.from_pretrained(tmp_path / "again")):
        vectors = opened.encode([row["text"] for row in rows])
        np.testing.assert_allclose(vectors[:, :8], [row["vector"] for row in rows], atol=2e-3)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [row["norm"] for row in rows], atol=2e-2)
    assert opened.head_options.text_pooling == "sif" and opened.config.pooling == "exit"
