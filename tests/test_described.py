"""`boustro doctor --encoder`: how an LM is read, and a warning where another start piece suits it better."""

import json
import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from boustro import load_encoder
from boustro.apps.cli.main import main
from boustro.encoders import described
from boustro.encoders.described import advice, perplexities
from boustro.encoders.transformer import PARAGRAPH
from test_start import FAMILIES, write_family


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """An LM whose tokenizer begins texts with <s>."""
    return write_family(tmp_path_factory.mktemp("lm"), FAMILIES["llama 3"])


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))


def test_perplexities_are_those_of_plain_transformers_and_remembered(lm, monkeypatch):
    tokenizer, plain = AutoTokenizer.from_pretrained(lm), AutoModelForCausalLM.from_pretrained(lm, dtype=torch.float32)
    begin, end = tokenizer.bos_token, tokenizer.eos_token
    ids = tokenizer(PARAGRAPH, return_tensors="pt")["input_ids"]
    labels = ids.clone()
    labels[:, :2] = -100
    with torch.no_grad():
        wanted = math.exp(plain(ids, labels=labels).loss)
    encoder = load_encoder(str(lm))
    found = perplexities(encoder)
    assert found.keys() == {begin, "none", end} and found[begin] == pytest.approx(wanted, rel=1e-3)
    monkeypatch.setattr(described, "_measure", lambda _: pytest.fail("measured again"))
    assert perplexities(encoder) == found


def test_a_clearly_better_start_piece_is_advised(lm, monkeypatch):
    encoder = load_encoder(str(lm), start_piece="none")
    monkeypatch.setattr(described, "_measure", lambda _: {"none": 11139.0, "<|begin_of_text|>": 26.0})
    (sentence,) = advice(encoder)
    assert "far better after the start piece '<|begin_of_text|>' (perplexity 26) than after 'none' (11,139)" in sentence
    assert sentence.endswith("give --start-piece '<|begin_of_text|>'")
    begun = load_encoder(str(lm), start_piece="bos")
    monkeypatch.setattr(described, "_measure", lambda _: {"none": 30.0, "<|begin_of_text|>": 26.0})
    assert not advice(begun)


def test_doctor_says_how_an_encoder_reads(lm, capsys):
    assert main(["doctor", "--encoder", str(lm)]) == 0
    rows = dict(line.strip("| ").split(" | ", 1) for line in capsys.readouterr().out.splitlines() if " | " in line)
    assert rows["start piece"] == "<|begin_of_text|>" and rows["layers"] == "0, 1, 2, 3, 4"
    assert rows["bytes a word"] == f"{5 * 2 * 32 * 2:,}" and "words a second" in rows["speed"]
    assert rows["perplexity of a paragraph"].count("(") == 3
    assert main(["doctor", "--encoder", "starter"]) == 0
    told = capsys.readouterr().out
    assert told.count("| encoder |") == 2 and "perplexity" not in told, "ours record how they were trained"


def test_fit_warns_likewise(lm, file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(described, "_measure", lambda _: {"none": 11139.0, "<|begin_of_text|>": 26.0})
    train, out = file("train.txt", "Ada B-PER\nslept O\n"), tmp_path / "out"
    command = ["fit", "--train", str(train), "--out", str(out), "--encoder", str(lm), "--epochs", "1"]
    assert main([*command, "--start-piece", "none"]) == 0
    assert "give --start-piece '<|begin_of_text|>'" in capsys.readouterr().err
    assert json.loads((out / "config.json").read_text("utf-8"))["config"]["start_piece"] == "none"
