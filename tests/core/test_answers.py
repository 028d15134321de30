"""What a head learns and answers: every tag scheme gives back the entities that went in."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boustro.heads.base import LayerConcat
from boustro.heads.options import SequenceOptions, SpanOptions, TagOptions
from boustro.metrics.spans import extract_spans
from boustro.tasks.data.schemes import encode_tags, entities_to_bio, tags_to_entities
from boustro.tasks.labellings import make_labelling, open_labelling
from boustro.tasks.tagger.entities import SpanLabelling
from boustro.tasks.tagger.tags import TagLabelling
from boustro.types import Entity, Sentence


@st.composite
def tagged(draw) -> Sentence:
    """A sentence with entities that do not overlap."""
    entities, position = [], draw(st.integers(0, 2))
    for _ in range(draw(st.integers(0, 4))):
        end = position + draw(st.integers(1, 3))
        entities.append(Entity(draw(st.sampled_from(["PER", "LOC", "X-Y"])), position, end))
        position = end + draw(st.integers(0, 2))
    words = position + draw(st.integers(0, 2))
    return Sentence(("w",) * words, entities_to_bio(entities, words))


@given(st.lists(tagged(), min_size=1, max_size=5), st.sampled_from(["bio", "bioes"]))
def test_what_a_perfect_tagging_head_answers_is_the_reference(sentences, scheme):
    labelling = TagLabelling.learn(sentences, TagOptions(tag_scheme=scheme))
    rows = np.cumsum([0, *map(len, sentences)])
    targets = labelling.targets(sentences)
    again = open_labelling(**labelling.to_dict())
    for number, sentence in enumerate(sentences):
        ids = targets(np.array([number]), torch.arange(rows[number], rows[number + 1])).numpy()
        answer = again.read((ids, np.full(len(ids), 0.5)), sentence)
        assert answer.tags == sentence.tags
        assert [(e.label, e.start, e.end) for e in answer.entities] == [
            (e.label, e.start, e.end) for e in extract_spans(sentence.tags)
        ]
        assert all(e.score == pytest.approx(0.5) for e in answer.entities)


@given(tagged())
def test_io_loses_nothing_but_the_border_between_neighbours_of_one_type(sentence):
    entities = extract_spans(sentence.tags)
    merged = list(tags_to_entities(encode_tags(entities, len(sentence), "io"), "io"))
    touching = any(a.end == b.start and a.label == b.label for a, b in itertools.pairwise(entities))
    assert (merged == entities) != touching


@given(st.lists(tagged(), min_size=1, max_size=5))
def test_what_a_perfect_span_head_answers_is_the_reference(sentences):
    labelling = SpanLabelling.learn(sentences, SpanOptions())
    gold = labelling.targets(sentences)(np.arange(len(sentences)), torch.zeros(0))
    for sentence, spans in zip(sentences, gold, strict=True):
        answer = labelling.read([(*span, 0.9) for span in reversed(spans)], sentence)
        assert answer.tags == sentence.tags


def test_of_nested_entities_the_tags_show_the_outermost():
    labelling = SpanLabelling("spans", ["LOC", "ORG"])
    answer = labelling.read([(2, 3, 0, 0.7), (0, 3, 1, 0.9)], Sentence(("w",) * 4))  # [University of [Vellmar]] won
    assert [(e.label, e.start, e.end, e.score) for e in answer.entities] == [("ORG", 0, 3, 0.9), ("LOC", 2, 3, 0.7)]
    assert answer.tags == ("B-ORG", "I-ORG", "I-ORG", "O")
    assert answer.scores == (0.9, 0.9, 0.9, 1.0)


def test_tags_that_are_no_spans_come_back_as_they_stand():
    sentences = [Sentence(("Ada", "sold", "it"), ("PROPN", "VERB", "PRON"))]
    labelling = make_labelling("mlp", sentences, SequenceOptions())
    assert labelling.labels == labelling.types == ("PRON", "PROPN", "VERB")
    answer = labelling.read((np.array([1, 2, 0]), np.ones(3)), Sentence(("w",) * 3))
    assert answer.tags == sentences[0].tags
    assert [(e.label, e.start, e.end) for e in answer.entities] == [("PROPN", 0, 1), ("VERB", 1, 2), ("PRON", 2, 3)]


def test_an_entity_is_as_sure_as_its_words_together():
    answer = TagLabelling("bio", ["O", "B-PER", "I-PER"]).read(
        (np.array([1, 2, 0]), np.array([0.9, 0.4, 1])), Sentence(("w",) * 3)
    )
    assert answer.entities[0].score == pytest.approx(0.6)


def test_layers_may_stand_side_by_side():
    concat, x = LayerConcat(2, 3), torch.randn(5, 2, 3)
    concat.fit(x.numpy())
    standard = (x - x.mean(0)) / x.std(0, correction=0)
    torch.testing.assert_close(concat(x), standard.reshape(5, 6))
    assert concat.width == 6 and not list(concat.parameters())


@pytest.mark.parametrize(
    ("scheme", "labels", "types"),
    [
        ("bio", ["O", "B-person-actor", "I-person-actor", "B-LOC"], ["LOC", "person-actor"]),
        ("bioes", ["O", "B-person-actor", "E-person-actor", "S-LOC"], ["LOC", "person-actor"]),
        ("io", ["O", "person-actor", "person-director", "I-beam"], ["I-beam", "person-actor", "person-director"]),
        ("spans", ["person-actor", "person-director"], ["person-actor", "person-director"]),
        ("labels", ["B-side", "NOUN", "O", "PRON-rel"], ["B-side", "NOUN", "O", "PRON-rel"]),
    ],
)
def test_a_type_keeps_its_hyphens(scheme, labels, types):
    assert list(open_labelling(scheme, labels).types) == types
