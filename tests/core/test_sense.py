"""Word sense disambiguation: reading, the scorer's rules, centroids against brute force, the task and its folders."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from boustro.arrays import unit
from boustro.heads.centroids import SENSE_FEATURES, SenseTargets, held_out_credit
from boustro.heads.inputs import Kinship
from boustro.heads.options import CentroidOptions
from boustro.heads.registry import make_head
from boustro.metrics.senses import count_senses
from boustro.tasks.fitting.training import begin_training, train_on_part
from boustro.tasks.plan import Examples
from boustro.tasks.sense.data import read_senses
from boustro.tasks.sense.examples import SenseSentence, Target, make_entry, read_wordnet
from boustro.tasks.sense.task import SenseTagger
from boustro.types import Sentence

RIVER, MONEY, SAIL = "bank%1:17:01::", "bank%1:14:00::", "sail%2:38:00::"
WORDS = {
    RIVER: ["we", "sat", "on", "the", "bank", "of", "the", "stream"],
    MONEY: ["the", "bank", "lent", "him", "gold"],
}
RECORDS = [
    *(
        {"words": words, "senses": [[words.index("bank"), "bank", "NN", [key]]], "document": f"d{n}"}
        for n in range(3)
        for key, words in WORDS.items()
    ),
    {"words": ["they", "sailed", "away"], "senses": [[1, "sail", "VBD", [SAIL]]], "document": "d9"},
    {"words": ["banks", "fell"], "senses": [[0, "bank", "NOUN", [MONEY]]], "document": "d9"},
]
XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en"><text id="d0">
<sentence id="d0.s0">
<wf lemma="the" pos="DET">The</wf>
<instance id="d0.s0.t0" lemma="bank" pos="NOUN">bank</instance>
<wf lemma="lend" pos="VERB">lent</wf>
<instance id="d0.s0.t1" lemma="ore" pos="NOUN">ore
  field</instance>
</sentence>
</text></corpus>
"""
GOLD = f"d0.s0.t0 {MONEY} {RIVER}\nd0.s0.t1 ore%1:27:00::\n"
INDEX = f"""ore%1:27:01:: 00000002 2 0
ore%1:27:00:: 00000001 1 5
{RIVER} 1 1 25
{MONEY} 2 2 20
old%5:00:00:past:00 3 1 0
"""


@pytest.fixture
def files(file, tmp_path):
    """Training data, a corpus with gold keys, and a WordNet."""
    file("train.jsonl", "\n".join(map(json.dumps, RECORDS)))
    file("c.data.xml", XML)
    file("c.gold.key.txt", GOLD)
    (tmp_path / "wordnet").mkdir()
    (tmp_path / "wordnet" / "index.sense").write_text(INDEX)
    return tmp_path


def java_scorer(gold: Mapping[str, Sequence[str]], answers: Mapping[str, Sequence[str]]) -> tuple[float, float, float]:
    """The rules of the framework's Scorer, sentence by sentence as its authors describe them."""
    right = wrong = 0.0
    for name, keys in answers.items():
        if name in gold and keys:
            hits = len([key for key in keys if key in gold[name]])
            right += hits / len(keys)
            wrong += (len(keys) - hits) / len(keys)
    precision, recall = right / (right + wrong) if right + wrong else 0.0, right / len(gold)
    return 100 * precision, 100 * recall, 100 * (2 * precision * recall / (precision + recall) if right else 0.0)


def test_scores_are_those_of_the_scorer_on_random_cases():
    chance = random.Random(4)
    for _ in range(300):
        names = [f"t{n}" for n in range(chance.randint(1, 12))]
        gold = {name: chance.sample("abcd", chance.randint(1, 3)) for name in names}
        answers = {
            name: chance.sample("abcd", chance.randint(0, 3)) for name in [*names, "other"] if chance.random() < 0.8
        }
        found = count_senses(gold, answers)
        assert (found.precision, found.recall, found.f1) == pytest.approx(java_scorer(gold, answers))


def test_no_answers_score_0_and_text_for_keys_is_refused():
    assert count_senses({"a": ["x"]}, {}).f1 == 0 == count_senses({}, {}).f1
    with pytest.raises(ValueError, match="give a list of keys"):
        count_senses({"a": ["x"]}, {"a": "x"})


def test_wordnet_is_read_in_the_order_of_sense_numbers(files):
    found = read_wordnet(files / "wordnet")
    assert found.senses("Ore", "NN") == ("ore%1:27:00::", "ore%1:27:01::")
    assert found.senses("old", "a") == ("old%5:00:00:past:00",) and found.senses("ore", "v") == ()
    assert found.fingerprint() == read_wordnet(files / "wordnet" / "index.sense").fingerprint()


def test_wordnet_that_is_none_is_refused(files, file):
    with pytest.raises(FileNotFoundError, match=r"index\.sense"):
        read_wordnet(files)
    with pytest.raises(ValueError, match=r"odd:2: not a line of index.sense"):
        read_wordnet(file("odd", "ore%1:27:00:: 1 1 5\nore 1 1 5\n"))
    with pytest.raises(ValueError, match="empty: no sense"):
        read_wordnet(file("empty", ""))
    assert make_entry("Take place", "VBD") == ("take_place", "VERB")
    with pytest.raises(ValueError, match="unknown part of speech 'DET'"):
        make_entry("the", "DET")


def test_xml_and_its_keys_are_read(files):
    data = read_senses(files / "c.data.xml")
    (only,) = data.sentences
    assert only.sentence.words == ("The", "bank", "lent", "ore field") and only.sentence.document == "d0"
    assert only.sentence.where.endswith("c.data.xml:3")
    assert [(t.word, t.keys, t.name) for t in only.targets] == [
        (1, (MONEY, RIVER), "d0.s0.t0"),
        (3, ("ore%1:27:00::",), "d0.s0.t1"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xml", "", r"a.xml:1: malformed XML \(no element found"),
        ("a.xml", "<corpus>\n<text>\n</corpus>", r"a.xml:3: malformed XML \(mismatched tag"),
        ("a.xml", "<corpus></corpus>", "a.xml: no word whose sense is asked for"),
        ("a.xml", XML.replace(' lemma="bank"', ""), "a.xml:5: this <instance> has no lemma"),
        ("a.xml", XML.replace("d0.s0.t1", "d0.s0.t0"), "a.xml:7: a second instance"),
        ("a.xml", XML.replace('pos="NOUN"', 'pos="NUON"'), "a.xml:5: unknown part of speech 'NUON'"),
        ("a.xml", XML.replace(">bank<", "> <"), "a.xml:5: this <instance> has no text"),
        ("a.xml", "<corpus><wf>the</wf></corpus>", "a.xml:1: <wf> outside of a <sentence>"),
        ("a.jsonl", "", "a.jsonl: no labelled sentence"),
        ("a.jsonl", "{", "a.jsonl:1: not a JSON object"),
        ("a.jsonl", '{"words": []}', "a.jsonl:1: no list under words or tokens"),
        ("a.jsonl", '{"words": ["a"]}', "a.jsonl:1: no list under 'senses'"),
        ("a.jsonl", '{"words": ["a"], "senses": [[1, "a", "NN"]]}', "a.jsonl:1, sense 1: the word is 1; expected"),
        ("a.jsonl", '{"words": ["a"], "senses": [[0, "a"]]}', "a.jsonl:1, sense 1: expected the position"),
        ("a.jsonl", '{"words": ["a"], "senses": [[0, "a", "NN", "k"]]}', "sense 1: the keys are 'k'; expected a list"),
    ],
)
def test_bad_data_is_refused_with_its_place(file, name, content, message):
    with pytest.raises(ValueError, match=message):
        read_senses(file(name, content))


def test_bad_keys_are_refused_and_missing_ones_counted(files, file):
    for content, message in (
        (GOLD + "d0.s0.t7 x\n", r"'d0.s0.t7' is no instance of"),
        ("d0.s0.t0\n", r"keys:1: 'd0.s0.t0' has no key"),
        (GOLD + GOLD, r"keys:3: 'd0.s0.t0' has keys above already"),
    ):
        with pytest.raises(ValueError, match=message):
            read_senses(files / "c.data.xml", file("keys", content))
    found = read_senses(files / "c.data.xml", file("keys", GOLD.splitlines()[0]))
    assert [*found.notices.values()] == [1]
    with pytest.raises(FileNotFoundError):
        read_senses(files / "no.xml")


SENSES = (("bank%0", "bank%1", "bank%2"), ("run%0", "run%1"))


def occurrences(seed: int = 0):
    """Vectors of length 1, the number of the entry, the labels and the document of each; some have two labels."""
    chance = np.random.default_rng(seed)
    size = 60
    entries = chance.integers(0, 2, size)
    labels = [
        sorted({(0, 3)[e] + int(k) for k in chance.integers(0, len(SENSES[e]), 1 + n % 2)})
        for n, e in enumerate(entries)
    ]
    return unit(chance.normal(size=(size, 6)) + 1).astype(np.float32), entries, labels, chance.integers(0, 9, size)


def solved(vectors, entries, labels, documents, prior=None):
    """A head of centroids that learned from occurrences, without a transform; and what it reads of them."""
    options = CentroidOptions(transform="raw", prior=prior)
    head = make_head("centroids", options, [(1, 6)], sum(SENSES, ()), side=SENSE_FEATURES)
    candidates = np.array([(0, 3), (3, 5)], np.float32)[entries]
    read = torch.from_numpy(np.concatenate([vectors, candidates], 1)), torch.ones(len(vectors), dtype=torch.int64)
    occurring = [n for n, own in enumerate(labels) for _ in own]
    targets = SenseTargets(np.array(occurring), np.array([x for own in labels for x in own]))
    head.solve(head.pool(*read), targets, read[1], Kinship(documents))
    return head, read


def test_centroids_are_means_and_the_nearest_wins():
    vectors, entries, labels, documents = occurrences()
    head, _ = solved(vectors, entries, labels, documents, prior=0.0)
    rows = [n for n, own in enumerate(labels) if 1 in own]
    centroids = head.body.centroids.numpy()
    np.testing.assert_allclose(centroids[1], unit(vectors[rows].mean(0)), atol=1e-3)
    assert head.body.counts.tolist() == [sum(label in own for own in labels) for label in range(5)]
    words = torch.zeros(3, 8)  # a sentence of three words, the second is asked for
    words[1] = torch.tensor([*centroids[1].astype(float), 0, 3])
    (scores,) = head.predict(words, torch.tensor([3]))
    assert scores.argmax() == 1 and scores[1] == pytest.approx(1, abs=1e-2) and len(scores) == 3
    (none,) = head.predict(words[:1], torch.tensor([1]))
    assert len(none) == 0
    head.body.prior.fill_(1e6)
    assert head.predict(words, torch.tensor([3]))[0].argmax() == head.body.counts[:3].argmax()


@pytest.mark.parametrize("seed", range(3))
def test_leaving_out_a_document_is_training_without_it(seed):
    vectors, entries, labels, documents = occurrences(seed)
    priors = (0.0, 0.1, 0.5)
    credit, total = np.zeros(len(priors) + 1), 0
    for row, document in enumerate(documents):
        rest = [n for n in range(len(vectors)) if documents[n] != document]
        part, _ = solved(vectors[rest], entries[rest], [labels[n] for n in rest], documents[rest], prior=0.0)
        counts = part.body.counts.numpy()
        if not counts[labels[row]].any():
            continue
        total += 1
        start, stop = ((0, 3), (3, 5))[entries[row]]
        read = torch.tensor([[*vectors[row].tolist(), start, stop]])
        chosen = []
        for prior in priors:
            part.body.prior.fill_(prior)
            scores = np.where(counts[start:stop] > 0, part.predict(read, torch.tensor([1]))[0], -np.inf)
            chosen.append(start + scores.argmax())
        credit += [label in labels[row] for label in (*chosen, start + counts[start:stop].argmax())]
    found, count = held_out_credit(vectors, grouped(entries, labels), documents, priors)
    assert count == total > 30
    np.testing.assert_allclose(found, credit, atol=1)  # centroids are stored in float16


def grouped(entries, labels):
    """The rows of the senses of every entry."""
    rows = [np.array([n for n, own in enumerate(labels) if label in own], np.int64) for label in range(5)]
    return [rows[:3], rows[3:]]


def test_the_prior_is_chosen_on_the_documents_left_out():
    vectors, entries, labels, documents = occurrences()
    head, _ = solved(vectors, entries, labels, documents)
    facts = head.facts()
    best = max(facts["held_out"]["accuracy"].values())
    assert facts["held_out"]["accuracy"][str(facts["prior"])] == best
    assert solved(vectors, entries, labels, documents, prior=0.25)[0].facts() == {"prior": 0.25, "held_out": {}}


def test_the_most_frequent_sense_is_the_same_for_every_encoder():
    """Senses that are equally frequent without a document: the first by key, as in `SenseLabelling.most_frequent`."""
    rows, documents = [np.array([0, 1, 4]), np.array([2, 3, 5])], np.array([0, 1, 2, 3, 4, 4])
    frequent = {held_out_credit(occurrences(seed)[0][:6], [rows], documents)[0][-1] for seed in range(8)}
    assert frequent == {1}  # only in document 4 are both equally frequent without it: bank%1 is right once


def test_fit_evaluate_save_open_agree(files, tiny_pair):
    tagger = SenseTagger(tiny_pair, wordnet=str(files / "wordnet")).fit(files / "train.jsonl")
    assert len(tagger.fitted.labelling.labels) == 3 and tagger.record["held_out"]["occurrences"] == 4
    score = tagger.evaluate(files / "c.data.xml")
    assert (score.value, score.coverage) == (100, 50)
    assert score.baselines == {"most frequent sense": 100, "WordNet's first sense": 100}
    sentence = SenseSentence(Sentence(tuple(WORDS[RIVER])), (Target(4, "Bank", "n"), Target(7, "stream", "NOUN")))
    assert tagger.predict([]) == []
    known, unknown = tagger.predict(sentence)
    assert (known.key, known.how, len(known.ranked)) == (RIVER, "centroid", 2)
    assert (unknown.key, unknown.how) == (None, "none") and (str(known), str(unknown)) == (RIVER, "")
    tagger.save_pretrained(files / "senses")
    again = SenseTagger.from_pretrained(files / "senses")
    assert again.predict([sentence, sentence]) == [[known, unknown]] * 2
    assert again.evaluate(files / "c.data.xml") == score
    card = (files / "senses/README.md").read_text("utf-8")
    assert card.startswith("---\nlibrary_name: boustro\n") and "boustro.SenseTagger.from_pretrained" in card
    assert str(Path(tiny_pair.split("+")[0]).parent) not in card, "paths may be private"


def test_without_wordnet_an_unknown_lemma_has_no_answer(files, tiny_lm):
    tagger = SenseTagger(str(tiny_lm("llama")), prior=0.2, transform="whitened").fit(files / "train.jsonl")
    score = tagger.evaluate(files / "c.data.xml")
    assert (score.total.precision, score.total.recall) == (100, 50) and tagger.record["prior"] == 0.2
    assert [*score.baselines] == ["most frequent sense"]


def test_a_sense_that_is_left_out_is_no_answer(tiny_lm):
    """Else a word with one sense would be right in cross-validation wherever it was not learned."""
    model = SenseTagger(str(tiny_lm("llama")), cache=False)
    data = model.read(RECORDS)
    begun, given = begin_training(model.plan, Examples(train=data), 1)
    fitted = begun.fitted
    for key in (SAIL, MONEY):
        kept = np.flatnonzero([key not in example.keys for example in data])
        part = train_on_part(fitted, given, kept)
        answers = part.answers(part.head.outputs(given.inputs), data)
        assert not any(key in answer.tags for answer in answers) and all(answers[n].tags for n in kept)


def test_a_context_of_many_thousand_words_is_read_in_windows(files, tiny_pair):
    tagger = SenseTagger(tiny_pair).fit(files / "train.jsonl")
    long = SenseSentence(Sentence(("rain", "fell") * 10_000 + tuple(WORDS[MONEY])), (Target(20_001, "bank", "NOUN"),))
    assert tagger.predict(long)[0].key in (RIVER, MONEY)
    assert sum(tagger.plan.reader.encoder().counts.values()) > 0


def test_what_cannot_be_learned_from_is_refused(files, tiny_lm):
    tagger = SenseTagger(str(tiny_lm("llama")))
    with pytest.raises(ValueError, match="not trained yet"):
        tagger.predict([SenseSentence(Sentence(("a",)), (Target(0, "a", "n"),))])
    (files / "c.gold.key.txt").unlink()
    with pytest.raises(ValueError, match=r"no word has a gold key; .*CORPUS\.gold\.key"):
        tagger.fit(files / "c.data.xml")


def test_another_encoder_is_refused(files, tiny_lm):
    SenseTagger(str(tiny_lm("llama"))).fit(files / "train.jsonl").save_pretrained(files / "senses")
    with pytest.raises(ValueError, match="not the one that this head was trained on"):
        SenseTagger.from_pretrained(files / "senses", encoder=str(tiny_lm("gpt2")))
    (files / "senses" / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"config\.json holds 2 bytes"):
        SenseTagger.from_pretrained(files / "senses")


@pytest.mark.shared_data
def test_the_shared_corpora_are_read(shared_data):
    data = read_senses(shared_data / "wsd" / "semeval2007" / "semeval2007.data.xml")
    assert sum(bool(o.keys) for o in data.occurrences()) == 455 and not +data.notices
