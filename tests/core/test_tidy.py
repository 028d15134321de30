"""White space around words, tags and labels is no part of them, and a blank one is an error, in every form."""

import json

import pandas
import pytest

from boustro.given import as_sentences
from boustro.tasks.data import load_data
from boustro.tasks.data.reading import PADDED, PADDED_TAGS
from boustro.tasks.sense.data import read_senses
from boustro.text.conllu import UD_COLUMNS
from boustro.types import Entity, Sentence


def conllu(words):
    cells = (dict.fromkeys(UD_COLUMNS, "_") | {"id": n, "form": w, "upos": "X"} for n, w in enumerate(words, start=1))
    return "".join("\t".join(map(str, row.values())) + "\n" for row in cells)


def frame(words):
    return pandas.DataFrame({"sentence_id": 1, "word": words, "tag": "O"})


def text(words):
    whole, tokens, place = " ".join(words), [], 0
    for word in words:
        tokens.append({"text": word, "start": place, "end": place + len(word)})
        place += len(word) + 1
    return [{"text": whole, "tokens": tokens, "spans": []}]


FORMS = {
    "columns": lambda words: ("a.conll", "".join(f"{w}\tO\n" for w in words)),
    "CoNLL-U": lambda words: ("a.conllu", conllu(words)),
    "JSON lines": lambda words: ("a.jsonl", json.dumps({"words": words, "tags": ["O"] * len(words)})),
    "JSON": lambda words: ("a.json", json.dumps([{"tokens": words, "entities": []}])),
    "frame of words": frame,
    "frame of sentences": lambda words: pandas.DataFrame({"words": [words], "tags": [["O"] * len(words)]}),
    "lists": lambda words: [(words, ["O"] * len(words))],
    "records": lambda words: [{"words": words, "tags": ["O"] * len(words)}],
    "tokens of a text": text,
    "Sentences": lambda words: [Sentence(tuple(words), ("O",) * len(words))],
}


@pytest.fixture
def given(tmp_path):
    def given(form, words):
        made = FORMS[form](words)
        if not isinstance(made, tuple):
            return made
        (tmp_path / made[0]).write_text(made[1], "utf-8")
        return tmp_path / made[0]

    return given


@pytest.mark.parametrize("form", FORMS)
def test_white_space_around_a_word_is_left_out_and_noted(form, given):
    labelled = load_data(given(form, ["Jordan ", "\u00a0left", "it all"]))
    assert [s.words for s in labelled.sentences] == [("Jordan", "left", "it all")]
    assert labelled.counts()[PADDED] == 2
    assert load_data(labelled.sentences).notes == []


@pytest.mark.parametrize("blank", ["", " ", "\u00a0"])
@pytest.mark.parametrize("form", FORMS)
def test_a_blank_word_is_an_error_with_its_place(form, blank, given):
    with pytest.raises(
        ValueError,
        match=r"word 2 is .*, which is blank; remove it|(:2|row 2 of the given table): expected a word and",
    ):
        load_data(given(form, ["Ada", blank, "left"]))


@pytest.mark.parametrize("words", [["Jordan "], ("Jordan ",), Sentence(("Jordan ",), spaces=(True,))])
def test_sentences_from_python_follow_the_same_rule(words):
    assert as_sentences([words])[0].words == ("Jordan",)
    with pytest.raises(ValueError, match=r"sentence 1, word 2 is '', which is blank; remove it"):
        as_sentences([["a", ""]])


def test_tags_and_labels_follow_the_same_rule():
    labelled = load_data([(["Ada", "left"], ["B-PER ", " O"])])
    assert labelled.sentences[0].tags == ("B-PER", "O") and labelled.counts() == {PADDED_TAGS: 1}
    entities = (Entity("PER ", 0, 1),)
    assert load_data([Sentence(("Ada",), entities=entities)]).sentences[0].tags == ("B-PER",)
    for wrong, what in ((None, r"is None, which is not a string \(a missing value\?\)"), ("", "is '', which is blank")):
        with pytest.raises(ValueError, match=rf"sentence 1 of the given data, tag 1 {what}"):
            load_data([(["Ada"], [wrong])])
        with pytest.raises(ValueError, match=rf"sentence 1 of the given data, the label of entity 1 {what}"):
            load_data([Sentence(("Ada",), entities=(Entity(wrong, 0, 1),))])


def test_sentences_with_senses_follow_the_same_rule():
    (sentence,) = read_senses([{"words": ["banks "], "senses": [[0, "bank", "n", []]]}]).sentences
    assert sentence.sentence.words == ("banks",)
