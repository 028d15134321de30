"""Text without spaces, from right to left and without capitals: words, sentences, alignment, pages, reports."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from boustro.tasks.render import word_entities
from boustro.text.alignment import guess_spaces
from boustro.text.words import LOWER, MARKS, RULE, UPPER, apart, join_words, split_text, word_pattern
from boustro.types import Entity

CHINESE = "艾达在利塞港工作。她坐7路Bus去上班！“今天下雨。”他说。"
ARABIC = "سافرت ليلى إلى ميناء ليسة. هل وصلت اليوم؟ نعم، وصلت مساءً."


def words_of(text):
    return [list(placed.sentence.words) for placed in split_text(text)]


def test_chinese_is_split_into_characters_and_sentences():
    assert words_of(CHINESE) == [
        [*"艾达在利塞港工作。"],
        [*"她坐", "7", "路", "Bus", *"去上班！"],
        [*"“今天下雨。”"],
        [*"他说。"],
    ]
    assert words_of("東京タワーへ行く。") == [["東", "京", "タワー", "へ", "行", "く", "。"]]
    for placed in split_text(CHINESE):
        assert tuple(CHINESE[slice(*place)] for place in placed.places) == placed.sentence.words


def test_arabic_sentences_end_without_capitals():
    assert [own[-1] for own in words_of(ARABIC)] == [".", "؟", "."] and words_of(ARABIC)[2][:2] == ["نعم", "،"]
    assert words_of("He left. then slept.") == [["He", "left", ".", "then", "slept", "."]]  # lower case goes on


def test_spaces_that_nobody_gave():
    assert guess_spaces([*"艾达在"]) == [True, False, False]
    assert guess_spaces(["她", "坐", "Bus", "去"]) == [True, False, True, True]
    assert guess_spaces(["نعم", "،", "وصلت"]) == [True, False, True]
    assert apart([*"利塞"]) == [True, False] and apart(["Ada", "."]) == [True, True]
    assert join_words([*"利塞港"]) == "利塞港" and join_words(["Port", "Lisse"]) == "Port Lisse"
    assert word_entities([*"在利塞"], [Entity("LOC", 1, 3)]) == ("在利塞", [Entity("LOC", 1, 3, "利塞")])
    assert word_entities(["Ada", "left"], [Entity("PER", 0, 1)]) == ("Ada left", [Entity("PER", 0, 3, "Ada")])


@given(st.text(st.characters(max_codepoint=127)), st.sampled_from([1, RULE]))
def test_a_text_of_ascii_has_the_words_that_it_has_beside_other_letters(text, rule):
    matches = [[m.span() for m in word_pattern(rule, in_ascii).finditer(text)] for in_ascii in (True, False)]
    assert matches[0] == matches[1]


def test_marks_and_capitals_are_those_of_unicode():
    """In the blocks that are looked at are all of them."""
    letters = [*map(chr, range(0x20000))]
    assert [*UPPER] == [*filter(str.isupper, letters)] and [*LOWER] == [*filter(str.islower, letters)]
    is_mark = re.compile(f"[{MARKS}]").fullmatch
    assert all(bool(is_mark(letter)) == unicodedata.category(letter).startswith("M") for letter in letters)
