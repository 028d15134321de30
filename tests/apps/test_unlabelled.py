"""Training data in which some sentences have no labels: they are the context of the others, and nothing else. And
labelled sentences that are placed in the documents that they were taken from."""

import numpy as np
import pytest

import boustro
from boustro.apps.cli.commands import AROUND, NOT_FOUND, in_documents
from boustro.apps.cli.main import main
from boustro.apps.label.answers import SPANS
from boustro.apps.label.texts import read_to_label
from boustro.tasks.data import read_data
from boustro.tasks.data.reading import DEFAULT_OPTIONS
from boustro.tasks.fitting.training import UNREAD
from boustro.types import Sentence
from labelled import rows

WORDS = [
    ("Ada met Brandt .".split(), "B-PER O B-PER O".split()),
    ("Brandt sold umbrellas .".split(), None),
    ("Nobody reads the bulletin in Lisse .".split(), "O O O O O B-LOC O".split()),
    ("Vellmar closes on Mondays .".split(), None),
]
PARTLY = [{"words": w, "tags": t, "document": "first" if n < 3 else "second"} for n, (w, t) in enumerate(WORDS)]
LABELLED = [record for record in PARTLY if record["tags"]]
TEXTS = [
    {"text": "Ada left. It rained.", "entities": [[0, 3, "PER"]], "document": "d"},
    {"text": "She came back. Nobody knew.", "entities": None, "document": "d"},
]


def fit(tiny_pair, data, **options):
    return boustro.Tagger(tiny_pair, epochs=2, cache=False, **options).fit(data, seed=1)


@pytest.mark.parametrize(
    ("records", "known"),
    [
        (PARTLY, [True, False, True, False]),
        (TEXTS, [True, True, False, False]),
        ([{"tokens": ["a"], "ner_tags": ["B-PER"]}, {"tokens": ["b"], "ner_tags": None}], [True, False]),
        ([{"words": ["a"], "upos": ["NOUN"]}, {"words": ["b"], "tags": None}], [True, False]),
    ],
)
def test_null_means_that_nobody_labelled_it(records, known):
    with pytest.warns(UserWarning, match=rf"{known.count(False)} sentences without labels, read as context only"):
        sentences = read_data(records, unlabelled=True)
    assert [s.is_labelled for s in sentences] == known
    assert [(s.tags, s.entities) for s in sentences if not s.is_labelled] == [(None, None)] * known.count(False)


def test_no_entities_is_a_label():
    (sentence,) = read_data([{"text": "It rained.", "entities": []}])
    assert sentence.is_labelled and set(sentence.tags) == {"O"}


@pytest.mark.parametrize("read", [read_data, lambda data: boustro.Tagger.read(data)])
def test_elsewhere_it_is_refused(read):
    with pytest.raises(ValueError, match="sentence 2 of the given data: 4 words without labels, which only"):
        read(PARTLY)


def test_no_labels_at_all_are_refused():
    with pytest.raises(ValueError, match="the given data: no sentence has labels"):
        read_data([{"words": ["a"], "tags": None}], unlabelled=True)


@pytest.mark.filterwarnings("ignore:.*without labels, read as context")
def test_the_head_learns_from_what_an_lm_reads_around_the_labelled_sentences(tiny_pair):
    partly, whole, alone = (
        fit(tiny_pair, data) for data in (PARTLY, [(w, t or ["O"] * len(w)) for w, t in WORDS], LABELLED)
    )
    assert partly.types == ["LOC", "PER"]
    assert partly.record["train"]["sentences"] == 4 and partly.record["train"]["labelled"] == 2
    assert partly.record["losses"] != alone.record["losses"]  # the context is another one
    assert whole.record["train"].get("labelled") is None
    sentences = read_data(PARTLY, unlabelled=True)
    inputs = partly.inputs(sentences)
    kept = inputs.keep(np.array([0, 2]))
    for own, stream in zip(kept.streams, inputs.streams, strict=True):
        np.testing.assert_array_equal(own, np.concatenate([stream[:4], stream[8:15]]))
    assert kept.lengths.tolist() == [4, 7] and len(kept) == 2
    # The last document has no labels, so that it is not even encoded.
    assert partly.record["notices"][UNREAD] == 1
    assert fit(tiny_pair, PARTLY[:3]).record["losses"] == partly.record["losses"]


@pytest.mark.filterwarnings("ignore:.*without labels, read as context")
@pytest.mark.parametrize("options", [{"context": "sentence"}, {}])
def test_without_documents_it_is_not_read_and_counted(tiny_pair, options):
    partly = [Sentence(tuple(w), None if t is None else tuple(t), document="d" if options else "") for w, t in WORDS]
    tagger = fit(tiny_pair, partly, **options)
    assert tagger.record["notices"][UNREAD] == 2
    assert tagger.record["losses"] == fit(tiny_pair, [s for s in partly if s.is_labelled], **options).record["losses"]


@pytest.mark.filterwarnings("ignore:.*without labels, read as context")
def test_its_mentions_are_pooled_and_its_labels_are_never_left_out(tiny_pair):
    pooled = fit(tiny_pair, PARTLY, pool_mentions=True)
    assert pooled.record["losses"] != fit(tiny_pair, LABELLED, pool_mentions=True).record["losses"]
    assert fit(tiny_pair, PARTLY, calibrate=2).record["calibration"]["answers"] > 0


def test_from_the_command_line(tiny_pair, tmp_path, capsys):
    file = tmp_path / "partly.jsonl"
    file.write_text(rows(*PARTLY))
    how = ["--encoder", tiny_pair, "--epochs", "2", "--no-cache"]
    assert main(["fit", "--train", str(file), *how, "--out", str(tmp_path / "ner")]) == 0
    assert "2 sentences without labels, read as context only" in capsys.readouterr().err
    assert main(["check", str(file)]) == 0
    said = capsys.readouterr().out
    assert "2 sentences, 11 words, 2 documents" in said and "2 sentences without labels, read as context only" in said
    assert main(["evaluate", str(tmp_path / "ner"), str(file), "--no-cache"]) == 1
    assert f"{file}:2: 4 words without labels" in capsys.readouterr().err


DOCUMENTS = ["It rained. Ada  left. Nobody knew.", "Nothing here.", "Ada left. So did Brandt."]


def shown(sentences):
    return [(" ".join(s.words), s.tags, s.document) for s in sentences]


def test_a_labelled_sentence_is_put_into_the_first_document_that_has_it():
    ada = Sentence(("Ada", "left."), ("B-PER", "O"), document="mine", where="a.conll:3")
    found, counts = in_documents([ada], DOCUMENTS)
    assert shown(found) == [
        ("It rained .", None, "text 1"),
        ("Ada left.", ("B-PER", "O"), "text 1"),  # its own words
        ("Nobody knew .", None, "text 1"),
    ]
    assert counts == {AROUND: 2, NOT_FOUND: 0} and found[1].where == "a.conll:3"


def test_each_is_placed_once_and_none_is_lost():
    first, second = (Sentence(("Ada", "left", "."), (tag, "O", "O")) for tag in ("B-PER", "O"))
    other = Sentence(("Ada", "came", "."), ("B-PER", "O", "O"), document="d")
    found, counts = in_documents([first, other, second], DOCUMENTS)
    assert [s.tags and s.tags[0] for s in found] == [None, "B-PER", None, "O", None, "B-PER"]
    assert [s.document for s in found] == ["text 1"] * 3 + ["text 3"] * 2 + ["d"]
    assert counts == {AROUND: 3, NOT_FOUND: 1}


def test_documents_from_the_command_line(tiny_pair, tmp_path, capsys):
    train, texts = tmp_path / "train.jsonl", tmp_path / "texts.txt"
    train.write_text(rows({"words": ["Ada", "left", "."], "tags": ["B-PER", "O", "O"]}))
    texts.write_text("\n".join(DOCUMENTS))
    how = ["--train", str(train), "--documents", str(texts), "--encoder", tiny_pair, "--epochs", "1", "--no-cache"]
    assert main(["fit", *how, "--out", str(tmp_path / "ner")]) == 0
    said = capsys.readouterr().err
    assert f"2 {AROUND}" in said and NOT_FOUND not in said
    record = boustro.Tagger.from_pretrained(tmp_path / "ner").record
    assert record["train"]["sentences"] == 3 and record["train"]["labelled"] == 1
    assert main(["fit", "--task", "regress", *how, "--out", str(tmp_path / "topics")]) == 2
    assert "--documents is for taggers and for classifiers of texts" in capsys.readouterr().err


def test_a_sentence_without_labels_has_no_gold_on_the_labelling_page(tmp_path, capsys):
    file = tmp_path / "partly.jsonl"
    file.write_text(rows(*PARTLY))
    texts = read_to_label(file, "auto", DEFAULT_OPTIONS)
    assert [text.gold is None for text in texts] == [False, True, False, True]
    assert "context" not in capsys.readouterr().err
    with pytest.raises(ValueError, match="--train needs labelled sentences"):
        SPANS.examples(file, DEFAULT_OPTIONS)
