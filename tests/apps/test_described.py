"""`boustro doctor --encoder`: how an LM is read, and a warning where another start piece suits it better."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from architectures import FAMILIES, write_family
from boustro import load_encoder
from boustro.apps.cli import described
from boustro.apps.cli.described import FirstWords, advice, first_words
from boustro.apps.cli.main import main


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """An LM whose tokenizer begins texts with <s>."""
    return write_family(tmp_path_factory.mktemp("lm"), FAMILIES["llama 3"])


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))


def test_first_words_are_measured_on_the_states_of_plain_transformers_and_remembered(lm, monkeypatch):
    tokenizer, plain = AutoTokenizer.from_pretrained(lm), AutoModelForCausalLM.from_pretrained(lm, dtype=torch.float32)
    begin = tokenizer.bos_token_id
    encoder = load_encoder(str(lm), dtype="float32")
    texts = [[7, 8, 9], [8, 9]]
    for before in ([begin], []):
        for own, text in zip(encoder.states_after(before, texts), texts, strict=True):
            with torch.no_grad():
                read = plain(torch.tensor([[*before, *text]]), output_hidden_states=True).hidden_states
            wanted = torch.stack([read[layer][0, len(before) :] for layer in encoder.layers], 1)
            torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-4)
    found = first_words(encoder)
    assert found.keys() == {"none", *tokenizer.all_special_tokens}
    assert all(0 <= each.distance <= 2 and each.sink > 0 for each in found.values())
    monkeypatch.setattr(described, "_measure", lambda _: pytest.fail("measured again"))
    assert first_words(encoder) == found


def test_a_sink_at_the_first_position_is_seen(lm, monkeypatch):
    """An LM whose first position has a state of its own, whatever the piece, reads first words badly after nothing."""

    def states(ids, **_):
        own = torch.nn.functional.one_hot(ids, 600).float() + 0.1
        own[:, 0] = 50 * torch.ones(600)
        return [own] * 5

    encoder = load_encoder(str(lm), layers="last", dtype="float32")
    monkeypatch.setattr(encoder.body, "states", states)
    found = described._measure(encoder)
    assert found["none"].sink > 100 > 2 > found["<|begin_of_text|>"].sink
    assert found["none"].distance > 0.1 and found["<|begin_of_text|>"].distance < 0.01


FOUND = {"none": FirstWords(0.9, 140.0), "<|begin_of_text|>": FirstWords(0.3, 1.1)}


def test_a_clearly_better_start_piece_is_advised(lm, monkeypatch):
    encoder = load_encoder(str(lm), start_piece="none")
    monkeypatch.setattr(described, "_measure", lambda _: FOUND)
    (sentence,) = advice(encoder)
    assert "better after the start piece '<|begin_of_text|>' (0.30 off) than after 'none' (0.90 off)" in sentence
    assert sentence.endswith("give --start-piece '<|begin_of_text|>'")
    begun = load_encoder(str(lm), start_piece="bos")
    monkeypatch.setattr(described, "_measure", lambda _: FOUND | {"none": FirstWords(0.4, 2.0)})
    assert not advice(begun)


def test_doctor_says_how_an_encoder_reads(lm, capsys):
    assert main(["doctor", "--encoder", str(lm)]) == 0
    rows = dict(line.strip("| ").split(" | ", 1) for line in capsys.readouterr().out.splitlines() if " | " in line)
    assert rows["run-up"].startswith("Here is a sentence") and rows["start piece"] == "<|begin_of_text|>"
    assert rows["layers"] == "0, 1, 2, 3, 4"
    assert rows["bytes a word"] == f"{5 * 2 * 32 * 2:,}" and "words a second" in rows["speed"]
    assert rows.keys() >= {"first words after none", "first words after <|begin_of_text|>"}
    assert main(["doctor", "--encoder", "starter"]) == 0
    told = capsys.readouterr().out
    assert told.count("| encoder |") == 2 and "first words" not in told, "ours record how they were trained"


def test_fit_warns_likewise(lm, file, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(described, "_measure", lambda _: FOUND)
    train, out = file("train.txt", "Ada B-PER\nslept O\n"), tmp_path / "out"
    command = ["fit", "--train", str(train), "--out", str(out), "--encoder", str(lm), "--epochs", "1"]
    assert main([*command, "--start-piece", "none"]) == 0
    assert "give --start-piece '<|begin_of_text|>'" in capsys.readouterr().err
    assert json.loads((out / "config.json").read_text("utf-8"))["config"]["start_piece"] == "none"
