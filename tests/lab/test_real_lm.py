"""A real LM, in the folder that `$BOUSTRO_REAL_LM` names: one whose tokenizer puts a start piece before a text.

make test-llm DIR=../gemma-3-270m
"""

import math

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from boustro import load_encoder
from boustro.encoders.transformer import BEYOND, PARAGRAPH
from boustro.lab.generation.writer import Writer
from boustro.types import Sentence

pytestmark = pytest.mark.real_lm


@pytest.fixture(autouse=True)
def fp32(monkeypatch):
    monkeypatch.setenv("BOUSTRO_BF16", "0")


def test_features_are_those_of_plain_transformers_in_every_layer(real_lm):
    encoder = load_encoder(real_lm, pooling="exit")
    words = PARAGRAPH.split()
    (row,) = encoder.rows([Sentence(words, spaces=[False, *[True] * (len(words) - 1)])])
    lm = AutoModelForCausalLM.from_pretrained(real_lm, dtype=torch.float32).eval()
    read = AutoTokenizer.from_pretrained(real_lm)(PARAGRAPH, return_tensors="pt")
    assert row.ids == read["input_ids"][0].tolist()
    with torch.no_grad():
        states = lm(**read, output_hidden_states=True).hidden_states
    wanted = torch.stack([state[0, torch.tensor(row.columns)] for state in states], 1).numpy()
    (vectors,) = next(encoder.encode([Sentence(words, spaces=[False, *[True] * (len(words) - 1)])]))
    found = vectors.astype(np.float32) * np.array(encoder.scales)[:, None]
    for layer in range(len(states)):
        np.testing.assert_allclose(
            found[:, layer], wanted[:, layer], rtol=1e-3, atol=1e-3 * np.abs(wanted[:, layer]).max()
        )
    assert not encoder.counts[BEYOND], "no value is out of range"


def test_its_perplexity_is_that_of_plain_transformers_and_far_lower_than_without_a_start_piece(real_lm):
    writer = Writer(real_lm)
    first, rest = PARAGRAPH.split(" ", 1)
    (found,) = writer.score([(first, " " + rest)])
    lm, num_pieces = writer.model.lm, len(writer.model.pieces(" " + rest))
    read = AutoTokenizer.from_pretrained(real_lm)(PARAGRAPH, return_tensors="pt")
    start = read["input_ids"].shape[1] - num_pieces

    def perplexity(ids: torch.Tensor) -> float:
        labels = ids.clone()
        labels[:, : ids.shape[1] - num_pieces] = -100
        with torch.no_grad():
            return math.exp(lm(ids, labels=labels).loss)

    assert math.exp(-found.log_prob / num_pieces) == pytest.approx(perplexity(read["input_ids"]), rel=3e-3), (
        "special pieces have no share of a score"
    )
    assert start > 1 and perplexity(read["input_ids"][:, 1:]) > 10 * perplexity(read["input_ids"])


def test_it_writes_without_going_in_circles(real_lm):
    (written,) = Writer(real_lm, length=12).write(["The capital of France is"])
    words = written.text.split()
    assert len(set(words)) > len(words) / 2
