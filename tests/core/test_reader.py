"""boustro.features: each sentence of examples is encoded once, in its document, whatever an example consists of."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest

import boustro
from boustro.encoders.base import Identity
from boustro.encoders.options import ReadingOptions, Widening
from boustro.features.reader import Reader, distinct_sentences, within_memory
from boustro.heads.inputs import HeadInputs
from boustro.tasks.fitting.training import fit_head
from boustro.tasks.plan import Examples
from boustro.types import Sentence


class Marked(NamedTuple):
    """A place in a sentence."""

    sentence: Sentence
    place: int

    @property
    def parts(self) -> tuple[Sentence]:
        return (self.sentence,)


class Several(NamedTuple):
    """An example of some sentences."""

    parts: tuple[Sentence, ...]


def sentence(text: str, document: str = "") -> Sentence:
    return Sentence(tuple(text.split()), document=document)


def words_of(sentences: list[Sentence]) -> list[str]:
    return [" ".join(s.words) for s in sentences]


def test_a_sentence_that_stands_alone_is_the_same_where_its_words_and_spaces_are():
    asked = [Several((sentence(question), sentence("Ada left"))) for question in ("who left", "who won")]
    sentences, parts = distinct_sentences(asked)
    assert words_of(sentences) == ["who left", "Ada left", "who won"] and parts.tolist() == [[0, 1], [2, 1]]
    spaced = Sentence(("Ada", "left"), spaces=(False, False))
    assert len(distinct_sentences([Several((spaced,)), Several((sentence("Ada left"),))])[0]) == 2


def test_in_a_document_a_sentence_is_the_same_where_it_is_one_object():
    once, again = sentence("Ada left", "d"), sentence("Ada left", "d")
    given = [Marked(once, 0), Marked(once, 1), Marked(again, 0), Marked(once, 1)]
    sentences, parts = distinct_sentences(given)
    assert [s is own for s, own in zip(sentences, (once, again), strict=True)] == [True, True]
    assert parts[:, 0].tolist() == [0, 0, 1, 0]


def test_an_example_that_is_a_sentence_is_never_taken_for_another():
    one = sentence("Ada left")
    sentences, parts = distinct_sentences([one, one, sentence("Ada left")])
    assert len(sentences) == 3 and parts.tolist() == [[0], [1], [2]]
    assert distinct_sentences([])[1].shape == (0, 1)


def test_documents_stay_whole_in_memory_whatever_an_example_is(monkeypatch):
    monkeypatch.setattr("boustro.features.reader.MOST_FEATURE_BYTES", 2)
    a, b, alone = sentence("Ada left", "d"), sentence("She won", "d"), sentence("It rained")
    chunks = [*within_memory([Marked(a, 0), Marked(b, 0), Marked(alone, 0), Marked(alone, 1)], 1)]
    assert [len(chunk) for chunk in chunks] == [2, 1, 1]


@pytest.mark.parametrize("context", ["sentence", "document"])
def test_marked_places_of_a_sentence_are_read_as_the_sentence_is(tiny_pair, context):
    """A sentence with several marked places is no document of its own copies."""
    documents = [sentence("Ada left .", "d"), sentence("She won .", "d"), sentence("Ada left .", "d")]
    reading = ReadingOptions(context=context, dtype="float32")
    plain = Reader(tiny_pair, reading, cache=False, widening=Widening(mentions=True))
    marked = Reader(tiny_pair, reading, cache=False, widening=Widening(mentions=True))
    wanted, found = plain.read(documents), marked.read([Marked(s, n) for s in documents for n in range(3)])
    assert len(found) == 9 and found.parts[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    for one, other in zip(wanted.streams, found.streams, strict=True):
        np.testing.assert_array_equal(one, other)
    first, third = (wanted.streams[0][rows] for rows in (slice(0, 3), slice(6, 9)))
    assert np.array_equal(first, third) == (context == "sentence")


def test_what_is_kept_of_examples_is_a_copy_of_their_own_sentences():
    streams = [np.arange(9.0).reshape(9, 1, 1)]
    inputs = HeadInputs(streams, np.array([2, 3, 4]), np.array([[0, 1], [2, 1], [0, 2]]))
    kept = inputs.keep(np.array([1]))
    assert kept.streams[0].ravel().tolist() == [2, 3, 4, 5, 6, 7, 8] and kept.parts.tolist() == [[1, 0]]
    batch = kept.batch(np.array([0]))
    np.testing.assert_array_equal(kept.streams[0][batch.rows], streams[0][inputs.batch(np.array([1])).rows])


def test_readers_share_the_lms_and_refuse_others(tiny_pair, tiny_lm):
    reader = Reader(tiny_pair, ReadingOptions(context="document"), cache=False)
    with_letters = Reader(tiny_pair, ReadingOptions(), cache=False, widening=Widening(spelling=True))
    identity = reader.encoder().identity().to_dict()
    known, copied = reader.of_weights(identity), pickle.loads(pickle.dumps(reader))
    assert known.encoder().parts[0] is reader.encoder().parts[0] and not copied.is_open
    assert reader.alone().reading.context == "sentence" and reader.reading.context == "document"
    assert reader.alone().alone().reading == reader.alone().reading
    assert len(with_letters.encoder().streams) == 1 + len(reader.encoder().streams)
    other = Reader(str(tiny_lm("gpt2")), ReadingOptions(), cache=False).of_weights(identity)
    with pytest.raises(ValueError, match="not the one that this head was trained on"):
        other.encoder()
    assert other.of_weights(None).encoder().streams


def test_fitting_changes_nothing_that_is_given(tiny_pair):
    data = boustro.Tagger.read([(["Ada", "left"], ["B-PER", "O"]), (["Lisse", "won"], ["B-LOC", "O"])] * 3)
    tagger = boustro.Tagger(tiny_pair, epochs=1, memory=True, cache=False)
    plan, given = tagger.plan, Examples(train=data, dev=data)
    first, second = (fit_head(plan, given, seed=1) for _ in range(2))
    assert tagger.plan is plan and not tagger.is_trained and plan.reader.memory is None
    assert plan.config.context == "document" and first.plan.config.context == "sentence"
    assert first.plan.reader.memory is not None and given.train is data
    assert first.head is not second.head and first.record["losses"] == second.record["losses"]
    tagger.fitted = first
    assert tagger.types == ["LOC", "PER"] and tagger.record is first.record and tagger.plan is first.plan
    with pytest.raises(ValueError, match="not trained yet"):
        assert boustro.Tagger(tiny_pair).fitted


def test_an_identity_as_a_dict_has_what_folders_and_caches_of_before_have(tiny_pair):
    """The names under which folders of version 0.1 hold it, and nothing for what an encoder does not have."""
    joined = Reader(tiny_pair, ReadingOptions(), cache=False, widening=Widening(spelling=True)).encoder().identity()
    found = joined.to_dict()
    assert found.keys() == {"parts", "spelling"} and len(found["parts"]) == len(joined.lms) == 2
    common = {"weights", "vocabulary", "pooling", "context", "direction", "tokenizer", "frame", "layers", "spacing"}
    assert all(part.keys() == common | {"window", "dtype"} for part in found["parts"])
    alone = Identity(weights="w", vocabulary="v", pooling="mean")
    assert alone.to_dict() == {"weights": "w", "vocabulary": "v", "pooling": "mean"}
    assert alone.with_facts(copies=2).to_dict()["copies"] == 2 and alone.rest == {}
