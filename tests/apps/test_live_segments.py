"""Words of text that arrives in chunks are those of the whole text, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.live.stream import Characters, Segmenter, Word
from boustro.text.words import RULE, split_text, word_rule

PARTS = [*"aBn1中国あก.’'!?,-/:@&。\"”)(_ \n\r\u0301\u200d\U0001f469\U0001f3fb\U0001f1e6", "n't", "'s ", "U.S.", "Dr. "]
PARTS += ["...", "example.org", "I.", "A. B", "\x85", "\x1c", "\u200c", "'re", "  ", "1996-97", "Mr.", "did", "\u00ad"]
PARTS += ["+", "=", "aB3+/=" * 11, "x" * 127, "https://", "www.", "b.C", "?#%", "-x.org:80"]
RULES = st.sampled_from([1, RULE])
TEXTS = st.lists(st.sampled_from(PARTS), max_size=16).map("".join) | st.text(max_size=20)


def offline(text: str, rule: int) -> list[Word | None]:
    found = []
    with word_rule(rule):
        placed = split_text(text)
    for sentence, places in ((p.sentence, p.places) for p in placed):
        for n, (word, place, space) in enumerate(zip(sentence.words, places, sentence.spaces or (), strict=True)):
            found.append(Word(word, *place, space, n == 0))
        found.append(None)
    return found


def in_chunks(text: str, cuts: list[int], rule: int) -> list[Word | None]:
    characters, segmenter, found = Characters(), Segmenter(rule), []
    for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
        found += segmenter.feed(characters.feed(text[start:stop]))
    characters.end()
    return found + segmenter.end()


@given(TEXTS, st.lists(st.integers(0, 40), max_size=8), RULES)
def test_words_and_sentences_are_those_of_the_whole_text(text, cuts, rule):
    text = text.encode("utf-8", "ignore").decode()
    cuts = sorted(min(cut, len(text)) for cut in cuts)
    assert in_chunks(text, cuts, rule) == offline(text, rule)
    assert in_chunks(text, list(range(len(text))), rule) == offline(text, rule)


@given(TEXTS, TEXTS, RULES)
def test_what_was_given_out_stays(text, more, rule):
    text, more = (t.encode("utf-8", "ignore").decode() for t in (text, more))
    early = Segmenter(rule).feed(text)
    assert offline(text + more, rule)[: len(early)] == early


def test_a_character_cut_in_two_is_joined():
    characters = Characters()
    assert [characters.feed(chunk) for chunk in ("a\ud83d", "\ude00b")] == ["a", "\U0001f600b"]


@pytest.mark.parametrize("chunks", [["\ud83d", "x"], ["\ude00"], ["\ud83d"]])
def test_half_a_character_is_an_error(chunks):
    characters = Characters()
    with pytest.raises(ValueError, match="half a character"):
        for chunk in chunks:
            characters.feed(chunk)
        characters.end()


def test_a_word_without_an_end_is_an_error(monkeypatch):
    monkeypatch.setattr("boustro.apps.live.stream.MOST_WORD", 100)
    segmenter = Segmenter()
    with pytest.raises(ValueError, match="more than 100 characters"):
        for _ in range(30):
            segmenter.feed("abcdefg")


def test_what_is_certain_is_forgotten():
    segmenter = Segmenter()
    for _ in range(1000):
        segmenter.feed("Ada left Vellmar. 中国")
    assert len(segmenter._text) < 60 and len(segmenter._line) <= 2
