"""Mentions that vote, by hand; and a tagger whose answers do."""

import json
from pathlib import Path

import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.tasks.answers import Answer
from boustro.tasks.evidence import vote
from boustro.types import Entity, Sentence


def answered(text, tags, scores, document="d"):
    from boustro.metrics.spans import extract_spans

    words, tags = tuple(text.split()), tuple(tags.split())
    found = [Entity(e.label, e.start, e.end, score=scores[e.start]) for e in extract_spans(tags)]
    return Sentence(words, document=document), Answer(tags, tuple(scores), tuple(found))


def voted(*pairs):
    return vote([s for s, _ in pairs], [a for _, a in pairs])


def test_the_surer_mentions_win():
    pairs = [
        answered("Vellmar left", "B-PER O", [0.55, 0.9]),
        answered("in Vellmar", "O B-LOC", [0.9, 0.9]),
        answered("Vellmar slept", "O O", [0.6, 0.9]),
    ]
    found = voted(*pairs)
    assert [a.tags for a in found] == [("B-LOC", "O"), ("O", "B-LOC"), ("B-LOC", "O")]
    assert found[1] is pairs[1][1]  # unchanged
    assert found[0].entities[0].score == pytest.approx(0.3) and found[0].scores == (pytest.approx(0.3), 0.9)
    assert found[2].entities == (Entity("LOC", 0, 1, score=pytest.approx(0.3)),)


def test_places_without_an_entity_can_win():
    pairs = [answered("May came", "B-PER O", [0.5, 1]), *[answered("May is", "O O", [0.9, 1])] * 2]
    assert [a.tags for a in voted(*pairs)] == [("O", "O")] * 3


def test_case_documents_and_longer_names_keep_mentions_apart():
    other = answered("vellmar left", "O O", [0.1, 0.9])
    assert voted(answered("Vellmar left", "B-LOC O", [0.9, 0.9]), other)[1] is other[1]
    far = answered("Vellmar left", "O O", [0.1, 0.9], "e")
    assert voted(answered("Vellmar left", "B-LOC O", [0.9, 0.9]), far)[1] is far[1]
    alone = answered("Vellmar left", "O O", [0.1, 0.9], "")
    assert voted(answered("Vellmar left", "B-LOC O", [0.9, 0.9], ""), alone)[1] is alone[1]
    inside = answered("Bank of Vellmar", "B-ORG I-ORG I-ORG", [0.5, 0.5, 0.5])
    assert voted(answered("Vellmar left", "B-LOC O", [0.9, 0.9]), inside)[1] is inside[1]
    part = [answered("Port Lisse", "B-LOC I-LOC", [0.9, 0.9]), answered("Port Lisse", "O B-PER", [0.2, 0.9])]
    assert voted(*part)[1] is part[1][1]  # the name stands there, but something overlaps it


def test_names_of_several_words():
    pairs = [answered("Ada Brandt left", "B-PER I-PER O", [0.9] * 3), answered("Ada Brandt left", "O O O", [0.4] * 3)]
    found = voted(*pairs)
    assert [a.tags for a in found] == [("B-PER", "I-PER", "O")] * 2 and found[1].scores == (0.45, 0.45, 0.4)


NAMES = ["Ada", "Brandt", "Lisse", "Vellmar", "Okonkwo", "Calloway"]
DATA = [
    {"words": words.split(), "tags": tags.split(), "document": name}
    for name in NAMES
    for words, tags in ((f"In {name} it rained .", "O B-LOC O O O"), (f"{name} closes .", "B-LOC O O"))
]


@pytest.mark.parametrize("head", ["mlp", "span"])
def test_a_taggers_option_is_kept_and_can_be_changed(tiny_pair, head, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in DATA))
    how = ["--encoder", tiny_pair, "--head", head, "--epochs", "2", "--hidden", "16", "--share-evidence", "vote"]
    assert main(["fit", "--train", "train.jsonl", "--dev", "train.jsonl", "--out", "t", *how]) == 0
    tagger = boustro.Tagger.from_pretrained("t")
    assert tagger.config.share_evidence == "vote"
    sentences = tagger.read("train.jsonl")
    off, on = tagger.with_evidence("off").answer(sentences), tagger.answer(sentences)
    assert on == vote(sentences, off) and tagger.evaluate("train.jsonl") == tagger.score(sentences, on)
    capsys.readouterr()
    for value, answers in (("off", off), ("vote", on)):
        assert main(["evaluate", "t", "train.jsonl", "--share-evidence", value, "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["f1"] == tagger.score(sentences, answers).f1
    Path("texts.txt").write_text("In Vellmar it rained. Vellmar closes.\n")
    assert main(["predict", "t", "texts.txt", "--share-evidence", "off"]) == 0


def test_plain_labels_have_no_mentions(tiny_pair):
    words = [(["Ada", "left"], ["NOUN", "VERB"])]
    with pytest.raises(ValueError, match="leave out replace_mentions and share_evidence"):
        boustro.Tagger(tiny_pair, share_evidence="vote").fit(words, None, 1, "labels")
    made = boustro.Tagger(tiny_pair, hidden=8, epochs=1).fit(words, None, 1, "labels")
    with pytest.raises(ValueError, match="gives every word a label"):
        made.with_evidence("vote")
