"""Scores of texts that an LM writes, by hand and against the packages that others use."""

import sys
from collections import Counter
from functools import reduce
from math import exp, log
from operator import or_

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.meteor_score import single_meteor_score

from boustro.lab.generation.metrics import (
    align,
    constant_text,
    distinct_runs,
    lead_sentences,
    meteor,
    repetition,
    score_texts,
    split_words,
)


class NoSynonyms:
    """What nltk asks of WordNet."""

    @staticmethod
    def synsets(word: str) -> list:
        return []


WORDS = "ferries ferry leave leaves leaving seven harbour bulletin the a at wind winds".split()
different = st.lists(st.sampled_from(WORDS), unique=True, min_size=1, max_size=8)


@given(different, different)
def test_meteor_is_that_of_nltk_without_its_synonyms(ours, theirs):
    wanted = single_meteor_score(theirs, ours, wordnet=NoSynonyms())
    matches, chunks = align(ours, theirs)
    assert meteor(ours, theirs) >= wanted - 1e-9, "never more chunks than nltk finds"
    stems = {word.rstrip("s") for word in (*ours, *theirs)}
    if len(stems) == len({*ours, *theirs}):  # every word has one place to go
        assert meteor(ours, theirs) == pytest.approx(wanted)
    assert 0 <= chunks <= matches <= min(len(ours), len(theirs))


def test_alignment_by_hand():
    """Exact: the · ferry; by their stem: leaves. Two chunks, as `old` stands between."""
    assert align("the old ferry leaves".split(), "the ferry leaving".split()) == (3, 2)
    assert align("a b a b c".split(), "a b c".split()) == (3, 1), "the longest run first"
    assert align("leave leaves ferries".split(), "leaving ferries".split()) == (2, 1), "a stem beside what is matched"
    assert align([], ["a"]) == (0, 0)
    precision, recall = 3 / 4, 3 / 3
    f = 10 * precision * recall / (recall + 9 * precision)
    found = meteor("the old ferry leaves".split(), "the ferry leaving".split())
    assert found == pytest.approx(f * (1 - 0.5 * (2 / 3) ** 3))


def test_variety_and_repetition_by_hand():
    texts = [["a", "b", "b"], ["a", "b"]]
    assert distinct_runs(texts, 1) == pytest.approx(100 * 2 / 5)
    assert distinct_runs(texts, 2) == pytest.approx(100 * 2 / 3)
    assert repetition(texts) == pytest.approx(100 / 3)
    assert distinct_runs([[]], 2) == repetition([["a"]]) == 0


def test_a_text_is_its_own_best_reference_and_the_best_reference_counts():
    texts = ["The ferry leaves at seven in the morning.", "Nobody reads the harbour bulletin any more."]
    found = score_texts(texts, texts)
    assert [found.rouge1, found.rouge2, found.rougeL, found.bleu] == pytest.approx([100.0] * 4)
    assert found.meteor > 99 and found.words == pytest.approx((9 + 8) / 2)
    several = score_texts(texts, [["It rained.", texts[0]], [texts[1]]])
    assert several.rouge1 == pytest.approx(100) and several.bleu == pytest.approx(100)
    swapped = score_texts(texts, texts[::-1])
    assert swapped.rouge1 < 40 and swapped.bleu < 10 and swapped.distinct1 == found.distinct1


def bleu_by_hand(texts: list[str], references: list[list[str]]) -> float:
    """Papineni et al. 2002 with lower-case words between spaces; of two nearest references the shorter one counts."""
    found, wanted, length, nearest = Counter(), Counter(), 0, 0
    for text, own in zip(texts, references, strict=True):
        words, golds = text.split(), [reference.split() for reference in own]
        length += len(words)
        nearest += min(map(len, golds), key=lambda size: (abs(size - len(words)), size))
        for size in range(1, 5):
            here, *there = (Counter(tuple(w[i : i + size]) for i in range(len(w) - size + 1)) for w in (words, *golds))
            wanted[size] += here.total()
            found[size] += (here & reduce(or_, there)).total()
    precision = sum(log(found[size] / wanted[size]) for size in range(1, 5)) / 4
    return 100 * exp(precision + min(0.0, 1 - nearest / length))


def test_bleu_of_texts_with_different_numbers_of_references_is_that_by_hand():
    """A reference that a text lacks has no length: a short text is no nearer to it than to those that it has."""
    texts = ["the old ferry leaves the port", "nobody reads the harbour bulletin"]
    several = ["the old ferry leaves the port of lisse at seven in the morning", "the ferry leaves the port at seven"]
    one = ["nobody reads the harbour bulletin any more since the port was closed to all ships of that kind"]
    references = [several, one]
    wanted = bleu_by_hand(texts, references)
    assert wanted < 60
    assert score_texts(texts, references).bleu == pytest.approx(wanted, abs=0.01)
    assert score_texts(texts[::-1], references[::-1]).bleu == pytest.approx(wanted, abs=0.01)


def test_no_score_depends_on_how_many_references_other_texts_have():
    """ROUGE, METEOR, variety: a text with one reference beside a text with three scores as it does beside itself."""
    text, gold = "the old ferry leaves", "the old ferry leaves the port at seven in the morning"
    alone = score_texts([text], [[gold]]).to_dict()
    beside = score_texts([text, text], [[gold], [gold, gold, gold]]).to_dict()
    same = ("rouge1", "rouge2", "rougeL", "bleu", "meteor", "words")
    assert {name: beside[name] for name in same} == {name: alone[name] for name in same}


def test_rouge_by_hand():
    """Two of three words, and of four: P = 2/3, R = 2/4. One pair of words of two and three."""
    found = score_texts(["the ferry sank"], ["the ferry leaves now"])
    assert found.rouge1 == pytest.approx(100 * 2 * 2 / 7) and found.rouge2 == pytest.approx(100 * 2 * 1 / 5)


def test_words_and_the_lead():
    assert split_words("It's 3.5!") == ["it", "'", "s", "3", ".", "5", "!"]
    assert lead_sentences("The ferry left. Nobody came! Why?") == "The ferry left."
    assert lead_sentences("The ferry left. Nobody came! Why?", 2) == "The ferry left. Nobody came!"
    assert lead_sentences(" no end") == "no end"


def test_the_constant_text_is_the_most_typical():
    training = ["we propose a new method", "we propose a method for ferries", "it rained", "a new method"]
    assert constant_text(training) == "we propose a new method"
    with pytest.raises(ValueError, match="no training target"):
        constant_text([])


@pytest.mark.parametrize(
    ("predicted", "references", "message"),
    [
        (["a"], [], "1 texts, but references of 0"),
        ([], [], "there must be a text"),
        (["a"], [[]], "every text needs at least one reference"),
        (["a", "b"], ["a", ["b", " "]], "text 2 has an empty reference; remove the reference"),
    ],
)
def test_what_cannot_be_scored_is_refused(predicted, references, message):
    with pytest.raises(ValueError, match=message):
        score_texts(predicted, references)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"need sacrebleu; install it with: pip install 'boustro\[generation\]'"):
        score_texts(["a"], ["a"])
