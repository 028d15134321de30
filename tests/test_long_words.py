"""Training a tokenizer on very long words: cut, counted and reported; its time grows with the text, not its square."""

import random
import time
from collections import Counter

import pytest

from boustro.text.shards import Shards, tokenize
from boustro.text.tokenizers import CUT, LONGEST_WORD, TO_WORDS, cut_long_words, load_tokenizer, train_tokenizer
from conftest import SENTENCES

LONG = 3 * LONGEST_WORD + 7


def random_dna(num_letters: int) -> str:
    return "".join(random.Random(0).choices("ACGT", k=num_letters))


@pytest.mark.parametrize("unit", ["x", "ж", "日", "क", "é", "=", " ", "\n", "🙂"])
def test_no_part_has_a_longer_word_and_nothing_is_lost(unit):
    """Letters of one to four bytes, signs, spaces and line ends; before and after them are other words."""
    text, counts = f"Ada sold {unit * LONG} boats. {unit * LONG}", Counter()
    parts = list(cut_long_words([text, "Nobody reads."], counts))
    assert "".join(parts) == text + "Nobody reads." and parts[-1] == "Nobody reads."
    words = [word for part in parts for word, _ in TO_WORDS.pre_tokenize_str(part)]
    assert max(map(len, words)) == LONGEST_WORD and counts == {CUT: 2}


@pytest.mark.parametrize("length", [LONGEST_WORD - 1, LONGEST_WORD])
def test_what_is_not_longer_is_not_touched(length):
    counts = Counter()
    texts = ["x" * length, "日，" * LONG, "12345678" * LONG, " ".join(["word"] * LONG)]
    assert list(cut_long_words(texts, counts)) == texts and not counts


def test_the_tokenizer_of_ordinary_text_is_the_same(monkeypatch):
    trained = train_tokenizer(SENTENCES, 400).to_str()
    monkeypatch.setattr("boustro.text.tokenizers.cut_long_words", lambda documents, counts: documents)
    assert train_tokenizer(SENTENCES, 400).to_str() == trained


def test_a_sequence_of_letters_is_trained_on_in_time_that_grows_with_its_length(tmp_path, capsys):
    """300,000 letters took half a minute and four times as many sixteen times as long."""
    (tmp_path / "dna.txt").write_text(dna := random_dna(300_000))
    begun = time.monotonic()
    tokenize((str(tmp_path / "dna.txt"),), tmp_path / "shards", train_tokenizer=1000, workers=1)
    assert time.monotonic() - begun < 15
    assert f"; 1 {CUT}" in capsys.readouterr().out
    shards = Shards.open(tmp_path / "shards")
    pieces = shards.pieces[0][:-1].tolist()
    assert load_tokenizer(shards.tokenizer_path).decode(pieces) == dna and len(pieces) < len(dna) / 3


def test_nothing_is_reported_where_nothing_is_cut(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n\n".join(SENTENCES))
    tokenize((str(tmp_path / "a.txt"),), tmp_path / "shards", train_tokenizer=300, workers=1)
    assert "cut" not in capsys.readouterr().out
