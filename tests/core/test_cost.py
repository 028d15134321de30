"""What encoding costs is told before it is done, and a deep LM is read in four layers by default."""

import re

import pytest

from boustro import Tagger, load_encoder
from boustro.encoders.transformer import parse_layers

WORDS = ["Ada", "left", "Paris", "on", "Friday", "."]


@pytest.mark.parametrize(
    ("num_blocks", "layers"), [(4, (0, 1, 2, 3, 4)), (8, tuple(range(9))), (18, (5, 9, 14, 18)), (32, (8, 16, 24, 32))]
)
def test_four_layers_of_a_deep_lm_are_read_and_all_of_a_shallow_one(num_blocks, layers):
    assert parse_layers("auto", num_blocks) == layers


def test_a_slow_encoding_is_told_beforehand_with_its_time(tiny_lm, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("boustro.encoders.cache.SLOW", 1)
    encoder = load_encoder(str(tiny_lm("llama")), cache=tmp_path)
    capsys.readouterr()
    encoder.encode_all([WORDS, WORDS[:2]])
    told = capsys.readouterr().err
    assert re.search(r": about \d+ seconds \([\d,]+ words a second\), .* of 8 words, written to ", told), told
    encoder.encode_all([WORDS, WORDS[:2]])
    assert not capsys.readouterr().err, "nothing is computed again"


def test_a_training_tells_the_cost_once_for_both_lms_and_sets(tiny_pair, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("boustro.encoders.cache.SLOW", 1)
    train = [(WORDS, ["B-PER", *"OOOOO"]), (["Ada", "slept"], ["B-PER", "O"])]
    Tagger(tiny_pair, epochs=1, cache=tmp_path / "cache").fit(train, [(["Ada", "woke"], ["B-PER", "O"])])
    told = [line for line in capsys.readouterr().err.splitlines() if "of features" in line]
    assert len(told) == 1 and " of 10 words, written to " in told[0]
