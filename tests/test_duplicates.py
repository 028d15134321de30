"""boustro.text.duplicates: near-duplicates are left out, the first stays, and what is alike is what is said."""

import sys

import numpy as np
import pytest

from boustro.apps.cli.main import main
from boustro.text.duplicates import RUNS_AT_ONCE, NearDuplicates

WORDS = [f"word{number}" for number in range(500)]


def document(seed: int, num_words: int = 200) -> list[str]:
    return [*np.random.default_rng(seed).choice(WORDS, num_words)]


def changed(words: list[str], last: int) -> str:
    """Its last words are others: of n - 4 runs of five, `last` differ on either side."""
    return " ".join([*words[: len(words) - last], *document(999, last)])


def left(threshold: float, *documents: str) -> list[str]:
    sieve = NearDuplicates(threshold)
    kept = list(sieve.filter(documents))
    assert len(kept) + sieve.left_out == len(documents)
    return kept


def test_the_first_of_near_duplicates_stays_and_others_keep_their_order():
    one, other = document(1), document(2)
    texts = [" ".join(one), changed(one, 5), " ".join(other), changed(other, 5), changed(one, 8)]
    assert left(0.8, *texts) == [texts[0], texts[2]]


@pytest.mark.parametrize(("last", "alike"), [(10, True), (35, False)])
def test_similarity_is_the_share_of_common_runs_of_words(last, alike):
    """196 runs: with 10 others the similarity is 186 / 206 = 0.90, with 35 it is 161 / 231 = 0.70."""
    words = document(3)
    assert len(left(0.8, " ".join(words), changed(words, last))) == (1 if alike else 2)


def test_case_and_punctuation_do_not_count():
    words = document(4)
    assert len(left(1.0, " ".join(words), ", ".join(words).title() + "!")) == 1


def test_short_texts_are_alike_when_they_are_the_same():
    assert left(0.5, "A bell.", "a bell", "A bell rang.", "…", "…") == ["A bell.", "A bell rang.", "…"]


def test_a_long_document_is_read_to_its_end():
    words = document(5, RUNS_AT_ONCE + 4000)
    half = " ".join(words[: len(words) // 2])
    assert len(left(0.8, " ".join(words), half, " ".join(words))) == 2


def test_the_command_says_how_many_it_left_out(tmp_path, tiny_tokenizer, capsys):
    one, other = " ".join(document(6)), " ".join(document(7))
    (tmp_path / "text.txt").write_text("\n\n".join([one, other, one, one]))
    words = ["tokenize", str(tmp_path / "text.txt"), "--tokenizer", str(tiny_tokenizer), "--workers", "1", "--out"]
    assert main([*words, str(tmp_path / "all")]) == 0
    assert "4 documents" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "few"), "--near-duplicates", "0.8"]) == 0
    said = capsys.readouterr().out
    assert "2 documents" in said and "2 near-duplicates left out" in said


@pytest.mark.parametrize("threshold", [0.0, 1.5])
def test_a_similarity_outside_its_bounds_is_refused(threshold):
    with pytest.raises(ValueError, match=f"above 0 and at most 1, not {threshold}"):
        NearDuplicates(threshold)


def test_without_datasketch_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(ImportError, match=r"pip install 'boustro\[dedup\]'"):
        NearDuplicates(0.8)
