"""Entities by what their types are called: `Tagger.from_labels`, `predict --types` and `redact --types`."""

from collections import Counter

import numpy as np
import pytest

from boustro import Tagger, load
from boustro.encoders.transformer import TransformerEncoder
from boustro.heads.factored import kind_names
from boustro.store import Artefact
from boustro.tasks.label_types import DescribedStates, Nouns
from boustro.tasks.tagger.tags import NamedTypes
from boustro.types import Sentence

TYPES = {"politician": "", "party": "a political party", "law": "an act or a treaty", "city": ""}
TEXT = "Jonas Brandt led the Christian Liberal Party in Lisbon."


@pytest.fixture(scope="module")
def tagger():
    return Tagger.from_labels(TYPES)


def found(entities):
    return [(e.label, e.text) for e in entities]


def test_names_have_the_types_that_suit_them(tagger):
    assert tagger.types == sorted(TYPES)
    assert found(tagger.predict(TEXT)) == [
        ("politician", "Jonas Brandt"),
        ("party", "Christian Liberal Party"),
        ("city", "Lisbon"),
    ]
    assert found(tagger.predict("The Paris Agreement was signed."))[0] == ("law", "Paris Agreement")


def test_names_of_other_kinds_are_no_entities():
    alone = Tagger.from_labels(["city"])
    assert found(alone.predict(TEXT)) == [("city", "Lisbon")] and alone.types == ["city"]
    assert found(Tagger.from_labels(["PER", "MISC"]).predict(TEXT)) == [("PER", "Jonas Brandt")]


def test_names_of_a_kind_go_to_the_types_that_are_plainly_of_it():
    """A city is a place; nobody is an entity where there is only a city."""
    text = "She moved from Vienna to Oslo, Berlin, Madrid and Lima. Peter Novak met her in Tokyo."
    cities = ["Vienna", "Oslo", "Berlin", "Madrid", "Lima", "Tokyo"]
    found = Tagger.from_labels(["politician", "city"]).predict(text)
    assert [e.text for e in found if e.label == "city"] == cities
    assert [e.text for e in Tagger.from_labels(["city"]).predict(text)] == cities


def test_names_stay_whole_where_their_sides_have_other_types():
    found = Tagger.from_labels(["politician", "city"]).predict("The mayor, Pieter van der Merwe, spoke in Vellmar.")
    assert found[0].text == "Pieter van der Merwe"


def test_a_name_without_its_space_is_two_words():
    written, apart = (Tagger.from_labels(["person", name]) for name in ("politicalparty", "political party"))
    text = "Ada Brandt leads the Liberal Party."
    ((one, two), (other, same)) = written.predict(text), apart.predict(text)
    assert (one.label, other.label) == ("person", "person")
    assert two.label == "politicalparty" and same.label == "political party" and two.score == pytest.approx(same.score)


def test_few_labels_never_harm_what_types_are_called():
    labelled = {TEXT: [("Jonas Brandt", "politician"), ("Lisbon", "city")], "It rained.": []}
    model = Tagger().fit(list(labelled), list(labelled.values()))
    assert "what the types are called" in model.record["head_choice"] and model.record["types_by_name"] >= 50
    text = "Maria Okafor, the prime minister, flew to Oslo."
    assert model.predict(text) == Tagger.from_labels(["city", "politician"]).predict(text)
    asked = Tagger(head="ridge").fit(list(labelled), list(labelled.values()))
    assert "types_by_name" not in asked.record


def test_names_are_judged_on_what_the_training_has_read(monkeypatch):
    read, encode = Counter(), TransformerEncoder.read

    def counted(encoder, sentences):
        sentences = list(sentences)
        read[encoder.spec] += len(sentences)
        return encode(encoder, sentences)

    monkeypatch.setattr(TransformerEncoder, "read", counted)
    model = Tagger(cache=False).fit([TEXT, "It rained."], [[("Jonas Brandt", "politician"), ("Lisbon", "city")], []])
    assert "types_by_name" in model.record and read["starter-lm"] == 2 * 2  # to choose a head, and to train it


@pytest.mark.parametrize("names", [["T1", "class_b"], ["MISC"]])
def test_names_that_say_nothing_score_nothing(names):
    texts = [f"{who} saw {place}." for who, place in (("Ada", "Oslo"), ("Bo", "Lima"), ("Cy", "Rome"))]
    labelled = [[(text.split()[0], names[0]), (text.split()[2][:-1], names[-1])] for text in texts]
    record = Tagger(head="ridge").fit(texts, labelled, dev=(texts, labelled)).record
    assert record["dev_scores"] and "dev_names" not in record


def test_a_folder_answers_as_what_was_saved(tagger, tmp_path):
    tagger.save(tmp_path / "types")
    opened = Tagger.from_pretrained(tmp_path / "types")
    assert opened.predict(TEXT) == tagger.predict(TEXT) and opened.types == tagger.types
    assert {e.label for e in opened.predict(TEXT, threshold=0.01)} <= set(TYPES)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([], "give one at least"),
        (["a", "3"], "say nothing of what they mean"),
        (["law", "law"], "given twice"),
        ({"law": 3}, "not a string"),
    ],
)
def test_types_that_cannot_be_read_are_refused(labels, said):
    with pytest.raises(ValueError, match=said):
        Tagger.from_labels(labels)


def test_a_name_goes_on_to_the_noun_of_its_type():
    labelling = NamedTypes("named", ["O", "B-election", "B-PLACE", "I-election", "I-PLACE"], ["PLACE"])
    words = ("The", "1952", "Vellmar", "general", "elections", "in", "Lisse")
    ids, scores = np.array([0, 0, 2, 0, 0, 0, 2]), np.full(7, 0.9)
    assert [(e.label, e.start, e.end) for e in labelling.read((ids, scores), Sentence(words)).entities] == [
        ("election", 1, 5)
    ]


@pytest.mark.parametrize("labels", [["person", "PER"], "LOC,GPE", ["OTHER", "MISC"], {"people": "", "PERSON": ""}])
def test_two_types_of_one_kind_are_read_alike(labels):
    with pytest.raises(ValueError, match="are read alike; describe one"):
        Tagger.from_labels(labels)


def test_a_company_is_narrower_than_an_organisation():
    assert kind_names("company") == ("company",) and "ORG" in kind_names("organisation")


def test_nouns_are_found_where_a_type_has_such():
    tagger = Tagger.from_labels(["disease", "drug", "city"])
    text = "Chronic renal failure and asthma are diseases; she took aspirin in Vienna."
    assert found(tagger.predict(text)) == [
        ("disease", "renal failure"),
        ("disease", "asthma"),
        ("drug", "aspirin"),
        ("city", "Vienna"),
    ]
    assert found(Tagger.from_labels(["politician", "city"]).predict("The mayor of a city met a poet.")) == []


def test_nouns_are_found_by_a_folder_too(tmp_path):
    tagger, text = Tagger.from_labels(["instrument", "person"]), "She plays the violin."
    tagger.save(tmp_path / "model")
    assert found(load(tmp_path / "model").predict(text)) == found(tagger.predict(text)) == [("instrument", "violin")]


def test_writers_are_no_mere_persons():
    tagger = Tagger.from_labels(["person", "writer"])
    assert found(tagger.predict("The novels of Virginia Woolf were read by all.")) == [("writer", "Virginia Woolf")]
    assert found(tagger.predict("My neighbour Tom Baker called.")) == [("person", "Tom Baker")]


def test_types_that_no_name_tells_are_counted():
    notices = Tagger.from_labels(["price", "opening hours", "dish"]).record["notices"]
    assert notices == {
        "types of amounts, times or clauses, which no name and no noun tells; label examples of them: opening "
        "hours, price": 2
    }


def test_nouns_of_a_type_are_those_that_its_groups_tell():
    """Groups of nouns that are of the first type, of others, and of none; the second has names of its own."""
    rng = np.random.default_rng(2)
    said = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    states = 3 * said + rng.normal(size=(8, 8)) / 10
    centre = states.mean(0)
    nouns = Nouns(np.full(8, 1 / 8), centre, states - centre, said, np.eye(8) / 1000)
    weight, bias = nouns.scores_of(said[:2], np.array([0.9, 0.1]))
    assert weight.shape == (1, 8) and (states @ weight[0] + bias[0] > 0).tolist() == [True] + 7 * [False]


def test_rounding_to_bytes_does_no_harm_near_the_mean(tmp_path):
    rng = np.random.default_rng(1)
    mean = 1000 * rng.normal(size=30).astype(np.float32)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    nouns = Nouns(draw(4), draw(8), draw(4, 8), draw(4, 8), draw(8, 8))
    states = DescribedStates(draw(8, 30), draw(8), draw(31), draw(9), draw(9), nouns)
    states.save(tmp_path / "states", mean, {})
    opened = DescribedStates.load(Artefact(tmp_path / "states"))
    x = mean + rng.normal(size=30).astype(np.float32)
    assert np.allclose(opened.map @ x + opened.bias, states.map @ x + states.bias, atol=0.1)
    assert np.allclose(opened.nouns.said, nouns.said, atol=0.02) and np.array_equal(opened.nominal, states.nominal)
    (tmp_path / "states" / "states.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="states"):
        DescribedStates.load(Artefact(tmp_path / "states"))
