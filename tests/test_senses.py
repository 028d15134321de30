"""Word sense disambiguation: reading, the scorer's rules, centroids against brute force, the tagger and its folder."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from boustro.cli.main import main
from boustro.heads.transforms import unit
from boustro.metrics.senses import count_senses
from boustro.tasks.senses.centroids import Centroids, group_occurrences, held_out_credit, make_centroids
from boustro.tasks.senses.examples import SenseSentence, Target
from boustro.tasks.senses.inventory import make_entry, read_wordnet
from boustro.tasks.senses.reading import read_senses
from boustro.tasks.senses.tagger import SenseTagger
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
def world(file, tmp_path):
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


def test_wordnet_is_read_in_the_order_of_sense_numbers(world):
    found = read_wordnet(world / "wordnet")
    assert found.senses("Ore", "NN") == ("ore%1:27:00::", "ore%1:27:01::")
    assert found.senses("old", "a") == ("old%5:00:00:past:00",) and found.senses("ore", "v") == ()
    assert found.fingerprint() == read_wordnet(world / "wordnet" / "index.sense").fingerprint()


def test_wordnet_that_is_none_is_refused(world, file):
    with pytest.raises(FileNotFoundError, match=r"index\.sense"):
        read_wordnet(world)
    with pytest.raises(ValueError, match=r"odd:2: not a line of index.sense"):
        read_wordnet(file("odd", "ore%1:27:00:: 1 1 5\nore 1 1 5\n"))
    with pytest.raises(ValueError, match="empty: no sense"):
        read_wordnet(file("empty", ""))
    assert make_entry("Take place", "VBD") == ("take_place", "VERB")
    with pytest.raises(ValueError, match="unknown part of speech 'DET'"):
        make_entry("the", "DET")


def test_xml_and_its_keys_are_read(world):
    data = read_senses(world / "c.data.xml")
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


def test_bad_keys_are_refused_and_missing_ones_counted(world, file):
    for content, message in (
        (GOLD + "d0.s0.t7 x\n", r"'d0.s0.t7' is no instance of"),
        ("d0.s0.t0\n", r"keys:1: 'd0.s0.t0' has no key"),
        (GOLD + GOLD, r"keys:3: 'd0.s0.t0' has keys above already"),
    ):
        with pytest.raises(ValueError, match=message):
            read_senses(world / "c.data.xml", file("keys", content))
    found = read_senses(world / "c.data.xml", file("keys", GOLD.splitlines()[0]))
    assert [*found.notices.values()] == [1]
    with pytest.raises(FileNotFoundError):
        read_senses(world / "no.xml")


def occurrences(seed: int = 0):
    """Vectors, entries, keys and documents of two words with three and two senses; some words have two keys."""
    chance = np.random.default_rng(seed)
    size = 60
    entries = [(("bank", "NOUN"), ("run", "VERB"))[n] for n in chance.integers(0, 2, size)]
    keys = [
        tuple({f"{e[0]}%{k}" for k in chance.integers(0, 3 if e[0] == "bank" else 2, 1 + n % 2)})
        for n, e in enumerate(entries)
    ]
    return unit(chance.normal(size=(size, 6)) + 1), entries, keys, chance.integers(0, 9, size)


def test_centroids_are_means_and_the_nearest_wins():
    vectors, entries, keys, _ = occurrences()
    found = make_centroids(vectors, group_occurrences(entries, keys))
    rows = [n for n, own in enumerate(keys) if "bank%1" in own]
    place = found.keys.index("bank%1")
    np.testing.assert_allclose(found.vectors[place], unit(vectors[rows].mean(0)), atol=1e-3)
    assert found.counts[place] == len(rows)
    (best, score), *rest = found.rank(found.vectors[place], ("bank", "NOUN"), 0.0)
    assert best == "bank%1" and score == pytest.approx(1, abs=1e-2) and len(rest) == 2
    assert found.rank(found.vectors[place], ("bank", "NOUN"), 1e6)[0][0] == found.most_frequent(("bank", "NOUN"))
    again = Centroids.from_dict(json.loads(json.dumps(found.to_dict())), found.vectors)
    assert again.rank(vectors[0], ("run", "VERB"), 0.1) == found.rank(vectors[0], ("run", "VERB"), 0.1)
    with pytest.raises(ValueError, match="for 5 senses"):
        Centroids.from_dict(found.to_dict(), found.vectors[1:])


@pytest.mark.parametrize("seed", range(3))
def test_leaving_out_a_document_is_training_without_it(seed):
    vectors, entries, keys, documents = occurrences(seed)
    priors = (0.0, 0.1, 0.5)
    credit, total = np.zeros(len(priors) + 1), 0
    for row, document in enumerate(documents):
        rest = [n for n in range(len(vectors)) if documents[n] != document]
        part = make_centroids(vectors[rest], group_occurrences([entries[n] for n in rest], [keys[n] for n in rest]))
        known = part.keys[slice(*part.entries.get(entries[row], (0, 0)))]
        if set(keys[row]) & set(known):
            total += 1
            ranked = [part.rank(vectors[row], entries[row], prior)[0][0] for prior in priors]
            credit += [key in keys[row] for key in (*ranked, part.most_frequent(entries[row]))]
    found, count = held_out_credit(vectors, group_occurrences(entries, keys), documents, priors)
    assert count == total > 30
    np.testing.assert_allclose(found, credit, atol=1)  # centroids are stored in float16


def test_the_most_frequent_sense_is_the_same_for_every_encoder():
    """Senses that are equally frequent without a document: the first by key, as in `Centroids.most_frequent`."""
    entries, keys = (
        [("bank", "NOUN")] * 6,
        [("bank%1",), ("bank%1",), ("bank%2",), ("bank%2",), ("bank%1",), ("bank%2",)],
    )
    grouped, documents = group_occurrences(entries, keys), np.array([0, 1, 2, 3, 4, 4])
    frequent = {held_out_credit(occurrences(seed)[0][:6], grouped, documents)[0][-1] for seed in range(8)}
    assert frequent == {1}  # only in document 4 are both equally frequent without it: bank%1 is right once


def test_fit_evaluate_save_open_agree(world, tiny_pair):
    tagger = SenseTagger(tiny_pair, wordnet=world / "wordnet").fit(world / "train.jsonl")
    assert tagger.record["senses"] == 3 and tagger.record["held_out"]["occurrences"] == 7
    score = tagger.evaluate(world / "c.data.xml")
    assert (score.value, score.coverage) == (100, 50)
    assert score.baselines == {"most frequent sense": 100, "WordNet's first sense": 100}
    sentence = SenseSentence(Sentence(tuple(WORDS[RIVER])), (Target(4, "Bank", "n"), Target(7, "stream", "NOUN")))
    assert tagger.predict([]) == []
    known, unknown = tagger.predict(sentence)
    assert (known.key, known.how, len(known.ranked)) == (RIVER, "centroid", 2)
    assert (unknown.key, unknown.how) == (None, "none")
    tagger.save_pretrained(world / "senses")
    again = SenseTagger.from_pretrained(world / "senses")
    assert again.predict([sentence, sentence]) == [[known, unknown]] * 2
    assert again.evaluate(world / "c.data.xml") == score
    card = (world / "senses/README.md").read_text("utf-8")
    assert card.startswith("---\nlibrary_name: boustro\n") and "boustro.SenseTagger.from_pretrained" in card
    assert "- lemmas and senses: 2 and 3" in card and "most frequent sense 0.0" not in card
    assert str(Path(tiny_pair.split("+")[0]).parent) not in card, "paths may be private"


def test_without_wordnet_an_unknown_lemma_has_no_answer(world, tiny_lm):
    tagger = SenseTagger(str(tiny_lm("llama")), prior=0.2, transform="whitened").fit(world / "train.jsonl")
    score = tagger.evaluate(world / "c.data.xml")
    assert (score.total.precision, score.total.recall) == (100, 50) and tagger.prior == 0.2
    assert [*score.baselines] == ["most frequent sense"]


def test_a_context_of_many_thousand_words_is_read_in_windows(world, tiny_pair):
    tagger = SenseTagger(tiny_pair).fit(world / "train.jsonl")
    long = SenseSentence(Sentence(("rain", "fell") * 10_000 + tuple(WORDS[MONEY])), (Target(20_001, "bank", "NOUN"),))
    assert tagger.predict(long)[0].key in (RIVER, MONEY)
    assert sum(tagger.reader.encoder().counts.values()) > 0


def test_what_cannot_be_learned_from_is_refused(world, tiny_lm):
    tagger = SenseTagger(str(tiny_lm("llama")))
    with pytest.raises(ValueError, match="not trained yet"):
        tagger.predict([SenseSentence(Sentence(("a",)), (Target(0, "a", "n"),))])
    (world / "c.gold.key.txt").unlink()
    with pytest.raises(ValueError, match=r"no word has a gold key; .*--keys"):
        tagger.fit(world / "c.data.xml")


def test_another_encoder_is_refused(world, tiny_lm):
    SenseTagger(str(tiny_lm("llama"))).fit(world / "train.jsonl").save_pretrained(world / "senses")
    with pytest.raises(ValueError, match="not the one that this folder was trained on"):
        SenseTagger.from_pretrained(world / "senses", encoder=str(tiny_lm("gpt2")))
    (world / "senses" / "senses.json").write_text("{}")
    with pytest.raises(ValueError, match=r"senses\.json"):
        SenseTagger.from_pretrained(world / "senses")


def test_the_command_line(world, tiny_pair, capsys):
    out, corpus = str(world / "out"), str(world / "c.data.xml")
    fit = ["wsd", "fit", str(world / "train.jsonl"), "--encoder", tiny_pair, "--out", out]
    assert main([*fit, "--wordnet", str(world / "wordnet"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["lemmas"] == 2
    assert main(["wsd", "evaluate", out, corpus, "--json", str(world / "scores.json")]) == 0
    shown = capsys.readouterr().out
    assert "50.0% of the words" in shown and "most frequent sense" in shown
    assert json.loads((world / "scores.json").read_text())["f1"] == 100
    assert main(["wsd", "predict", out, corpus]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first in (f"d0.s0.t0 {MONEY}", f"d0.s0.t0 {RIVER}") and second == "d0.s0.t1 ore%1:27:00::"
    assert main(["wsd", "predict", out, corpus, "--format", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1])["how"] == "first sense"
    assert main(fit) == 1 and "already holds a sense-tagger folder" in capsys.readouterr().err
    for wrong in (["wsd", "fit", corpus], ["wsd", "evaluate", out], ["wsd", "predict", out, corpus, "--out", out]):
        assert main(wrong) == 2


def test_a_folder_opens_and_agrees(world, tiny_pair, capsys):
    tagger = SenseTagger(tiny_pair).fit(world / "train.jsonl")
    tagger.save_pretrained(world / "senses")
    (own,) = tagger.predict(read_senses(world / "c.data.xml").sentences)
    assert main(["wsd", "predict", str(world / "senses"), str(world / "c.data.xml")]) == 0
    told = capsys.readouterr()
    assert told.out == f"d0.s0.t0 {own[0].key}\n" and "1 words without an answer" in told.err


@pytest.mark.shared_data
def test_the_shared_corpora_are_read(shared_data):
    data = read_senses(shared_data / "wsd" / "semeval2007" / "semeval2007.data.xml")
    assert len(data.targets()) == 455 and not +data.notices
