"""Folders that earlier versions wrote: they open, answer as they did, and are written again as this version writes."""

import json
import shutil
from pathlib import Path

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
    config, head = tagger.config, tagger.head_options
    assert (config.tag_scheme, config.mix_lr_multiplier, head.hidden, head.crf) == ("bioes", 5.0, 8, False)


def test_options_of_other_heads_that_an_old_folder_has_are_none():
    tagger = boustro.Tagger.from_pretrained(FOLDERS / "spans-0.1")
    assert "crf" in json.loads((FOLDERS / "spans-0.1/config.json").read_text("utf-8"))["config"]
    assert isinstance(tagger.head_options, SpanOptions) and tagger.head.options.max_span
    assert "crf" not in tagger.settings()


def test_cards_hub_and_spacy_read_old_folders_too(tmp_path):
    pytest.importorskip("spacy")
    from boustro.integrations.spacy import TaggerComponent

    folder = shutil.copytree(FOLDERS / "tagger-0.1", tmp_path / "old")
    types = ("LOC", "MISC", "ORG", "PER")
    assert TaggerComponent(str(folder), None, None, "boustro").labels == types
    assert ", ".join(types) in write_card(folder, "ada/old").read_text("utf-8")
    assert local_models(read_config(folder)) == []
