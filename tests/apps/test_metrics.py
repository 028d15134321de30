"""Scores of labels, buckets of entities, and scores of generated text: by hand, against packages, and the controls."""

import sys
from collections import Counter
from functools import reduce
from math import exp, log
from operator import or_

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.meteor_score import single_meteor_score
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    matthews_corrcoef,
    precision_recall_fscore_support,
)
from sklearn.preprocessing import MultiLabelBinarizer

from boustro.apps.studies.report.buckets import DIMENSIONS, ELSEWHERE, START, Training, count_buckets
from boustro.lab.generation.metrics import (
    align,
    constant_text,
    distinct,
    lead,
    meteor,
    repetition,
    score_texts,
    split_words,
)
from boustro.metrics.labels import score_label_sets, score_labels, score_text_labels
from boustro.metrics.questions import score_answers
from boustro.metrics.relations import score_relations
from boustro.metrics.score import score_correlation
from boustro.metrics.spans import extract_spans, score_spans
from boustro.types import Entity

LABELS = ["NOUN", "VERB", "O", "B-x"]
pairs = st.lists(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1), min_size=1)


def test_scores_by_hand():
    score = score_labels([["DET", "NOUN"], ["VERB"]], [["DET", "VERB"], ["VERB"]], {"data": "x"})
    assert score.accuracy == pytest.approx(200 / 3)
    assert score.per_label["VERB"].precision == 50 and score.per_label["VERB"].recall == 100
    assert score.per_label["NOUN"].f1 == 0
    written = score.to_dict()
    assert "f1" not in written and (written["num_words"], written["num_sentences"]) == (3, 2)
    assert written["per_label"]["NOUN"] == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "num_words": 1}
    assert written["signature"] == {"metric": "accuracy", "data": "x"}
    assert score_labels([], []).accuracy == 0


def test_scores_of_texts_count_texts():
    score = score_text_labels(["sport", "news", "news"], ["sport", "sport", "news"], {"data": "x"})
    assert score.unit == "texts" and score.num_labelled == 3 and score.accuracy == pytest.approx(200 / 3)
    written = score.to_dict()
    assert written["num_texts"] == 3 and "num_words" not in written
    assert written["per_label"]["news"] == {
        "f1": pytest.approx(200 / 3),
        "precision": 100,
        "recall": 50,
        "num_texts": 2,
    }
    assert written["signature"] == {"metric": "accuracy", "data": "x"}
    with pytest.raises(ValueError, match="gold labels of 1 texts and predicted ones of 0"):
        score_text_labels(["sport"], [])


@given(pairs)
def test_scores_equal_scikit_learns(data):
    gold, predicted = ([[pair[side] for pair in row] for row in data] for side in (0, 1))
    score = score_labels(gold, predicted)
    flat_gold, flat_predicted = ([label for row in side for label in row] for side in (gold, predicted))
    assert score.accuracy == pytest.approx(100 * accuracy_score(flat_gold, flat_predicted))
    theirs = precision_recall_fscore_support(flat_gold, flat_predicted, labels=sorted(score.per_label), zero_division=0)
    ours = [(c.precision / 100, c.recall / 100, c.f1 / 100, c.gold) for _, c in sorted(score.per_label.items())]
    assert ours == [pytest.approx(row) for row in zip(*theirs, strict=True)]


@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1))
def test_scores_of_texts_equal_scikit_learns(pairs):
    gold, predicted = map(list, zip(*pairs, strict=True))
    score = score_text_labels(gold, predicted)
    written, names = score.to_dict(), sorted({*gold, *predicted})
    assert written["macro_f1"] == pytest.approx(100 * f1_score(gold, predicted, average="macro", zero_division=0))
    assert score.mcc == pytest.approx(100 * matthews_corrcoef(gold, predicted))
    assert ("mcc" in written) == (len(names) <= 2)
    table = [[score.confusion.get(a, {}).get(b, 0) for b in names] for a in names]
    assert table == confusion_matrix(gold, predicted, labels=names).tolist()


@given(st.lists(st.tuples(*[st.sets(st.sampled_from(LABELS))] * 2), min_size=1))
def test_scores_of_label_sets_equal_scikit_learns(pairs):
    gold, predicted = map(list, zip(*pairs, strict=True))
    written = score_label_sets(gold, predicted, {"data": "x"}).to_dict()
    names = sorted(set().union(*gold, *predicted))
    if len(names) < 2:  # scikit-learn reads a single column as two classes
        assert written["f1"] == written["macro_f1"]
        return
    tables = [MultiLabelBinarizer(classes=names).fit_transform(side) for side in (gold, predicted)]
    for average, own in (("micro", written["f1"]), ("macro", written["macro_f1"])):
        assert own == pytest.approx(100 * f1_score(*tables, average=average, zero_division=0))
    assert written["exact_match"] == pytest.approx(100 * accuracy_score(*tables))
    assert written["num_labels"] == sum(map(len, gold)) and written["signature"]["data"] == "x"
    with pytest.raises(ValueError, match="texts and predicted ones of 0"):
        score_label_sets(gold, [])


def test_sequences_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="sentence 2: 1 gold labels and 2 predicted"):
        score_labels([["X"], ["X"]], [["X"], ["X", "X"]])
    with pytest.raises(ValueError, match="1 gold sentences and 0 predicted"):
        score_labels([["X"]], [])


TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
SENTENCES = st.lists(
    st.integers(1, 42).flatmap(
        lambda n: st.tuples(
            st.lists(st.sampled_from(["Ada", "Lisse", "Port", "said"]), min_size=n, max_size=n),
            *(st.lists(st.sampled_from(TAGS), min_size=n, max_size=n) for _ in range(3)),
        )
    ),
    min_size=1,
    max_size=3,
)


@given(SENTENCES)
def test_over_the_buckets_the_counts_add_up_to_the_whole(sentences):
    training = Training.of((words, extract_spans(shown)) for words, shown, _, _ in sentences[:2])
    words, _, gold, predicted = zip(*sentences, strict=True)
    whole = score_spans(gold, predicted).total
    sides = [[extract_spans(tags) for tags in side] for side in (gold, predicted)]
    for dimension in DIMENSIONS.values():
        counts = count_buckets(dimension, training, words, *sides)
        assert tuple(counts) == dimension.buckets
        for side in ("gold", "predicted", "correct"):
            assert sum(getattr(c, side) for c in counts.values()) == getattr(whole, side)


def place(name, entity, words, training=None):
    dimension = DIMENSIONS[name]
    return dimension.buckets[dimension.place(entity, words, training or Training())]


@pytest.mark.parametrize(
    ("name", "start", "end", "bucket"),
    [
        ("position", 0, 2, START),
        ("position", 1, 2, ELSEWHERE),
        ("before", 0, 1, "0"),
        ("before", 2, 3, "1–2"),
        ("before", 3, 4, "3–5"),
        ("before", 11, 12, "11+"),
        ("after", 11, 12, "0"),
        ("after", 10, 11, "1–2"),
        ("after", 0, 1, "11+"),
        ("length", 4, 5, "1"),
        ("length", 4, 7, "3"),
        ("length", 4, 10, "4+"),
        ("sentence", 0, 1, "10–19"),
    ],
)
def test_an_entity_of_a_sentence_of_twelve_words(name, start, end, bucket):
    assert place(name, Entity("PER", start, end), ["w"] * 12) == bucket


def test_what_training_has_shown_goes_by_the_exact_words_and_the_type():
    shown = [(["Port", "Lisse", "Jordan"], [Entity("LOC", 0, 2), Entity("PER", 2, 3)])] * 3
    training = Training.of(shown)
    words = ["Port", "Lisse", "and", "Lisse", "jordan", "Jordan"]
    for entity, seen, frequency in [
        (Entity("LOC", 0, 2), "seen with this type", "2–4"),
        (Entity("ORG", 0, 2), "seen with another type only", "0"),
        (Entity("LOC", 3, 4), "never seen", "0"),  # a part of what was seen
        (Entity("PER", 4, 5), "never seen", "0"),  # another case
        (Entity("PER", 5, 6), "seen with this type", "2–4"),
    ]:
        assert place("seen", entity, words, training) == seen
        assert place("frequency", entity, words, training) == frequency


def test_recall_goes_by_the_reference_and_precision_by_what_was_predicted():
    counts = count_buckets(
        DIMENSIONS["position"], Training(), [["w"] * 4], [[Entity("PER", 0, 1)]], [[Entity("PER", 1, 2)]]
    )
    assert (counts[START].gold, counts[START].predicted) == (1, 0)
    assert (counts[ELSEWHERE].gold, counts[ELSEWHERE].predicted) == (0, 1)


class NoSynonyms:
    """What nltk asks of WordNet."""

    @staticmethod
    def synsets(word: str) -> list:
        return []


WORDS = "ferries ferry leave leaves leaving seven harbour bulletin the a at wind winds".split()
different = st.lists(st.sampled_from(WORDS), unique=True, min_size=1, max_size=8)


@given(different, different)
def test_meteor_is_that_of_nltk_without_its_synonyms(ours, theirs):
    wanted = single_meteor_score(theirs, ours, wordnet=NoSynonyms())
    matches, chunks = align(ours, theirs)
    assert meteor(ours, theirs) >= wanted - 1e-9, "never more chunks than nltk finds"
    stems = {word.rstrip("s") for word in (*ours, *theirs)}
    if len(stems) == len({*ours, *theirs}):  # every word has one place to go
        assert meteor(ours, theirs) == pytest.approx(wanted)
    assert 0 <= chunks <= matches <= min(len(ours), len(theirs))


def test_alignment_by_hand():
    """Exact: the · ferry; by their stem: leaves. Two chunks, as `old` stands between."""
    assert align("the old ferry leaves".split(), "the ferry leaving".split()) == (3, 2)
    assert align("a b a b c".split(), "a b c".split()) == (3, 1), "the longest run first"
    assert align("leave leaves ferries".split(), "leaving ferries".split()) == (2, 1), "a stem beside what is matched"
    assert align([], ["a"]) == (0, 0)
    precision, recall = 3 / 4, 3 / 3
    f = 10 * precision * recall / (recall + 9 * precision)
    found = meteor("the old ferry leaves".split(), "the ferry leaving".split())
    assert found == pytest.approx(f * (1 - 0.5 * (2 / 3) ** 3))


def test_variety_and_repetition_by_hand():
    texts = [["a", "b", "b"], ["a", "b"]]
    assert distinct(texts, 1) == pytest.approx(100 * 2 / 5)
    assert distinct(texts, 2) == pytest.approx(100 * 2 / 3)
    assert repetition(texts) == pytest.approx(100 / 3)
    assert distinct([[]], 2) == repetition([["a"]]) == 0


def test_a_text_is_its_own_best_reference_and_the_best_reference_counts():
    texts = ["The ferry leaves at seven in the morning.", "Nobody reads the harbour bulletin any more."]
    found = score_texts(texts, texts)
    assert [found.rouge1, found.rouge2, found.rougeL, found.bleu] == pytest.approx([100.0] * 4)
    assert found.meteor > 99 and found.words == pytest.approx((9 + 8) / 2)
    several = score_texts(texts, [["It rained.", texts[0]], [texts[1]]])
    assert several.rouge1 == pytest.approx(100) and several.bleu == pytest.approx(100)
    swapped = score_texts(texts, texts[::-1])
    assert swapped.rouge1 < 40 and swapped.bleu < 10 and swapped.distinct1 == found.distinct1


def bleu_by_hand(texts: list[str], references: list[list[str]]) -> float:
    """Papineni et al. 2002 with lower-case words between spaces; of two nearest references the shorter one counts."""
    found, wanted, length, nearest = Counter(), Counter(), 0, 0
    for text, own in zip(texts, references, strict=True):
        words, golds = text.split(), [reference.split() for reference in own]
        length += len(words)
        nearest += min(map(len, golds), key=lambda size: (abs(size - len(words)), size))
        for size in range(1, 5):
            here, *there = (Counter(tuple(w[i : i + size]) for i in range(len(w) - size + 1)) for w in (words, *golds))
            wanted[size] += here.total()
            found[size] += (here & reduce(or_, there)).total()
    precision = sum(log(found[size] / wanted[size]) for size in range(1, 5)) / 4
    return 100 * exp(precision + min(0.0, 1 - nearest / length))


def test_bleu_of_texts_with_different_numbers_of_references_is_that_by_hand():
    """A reference that a text lacks has no length: a short text is no nearer to it than to those that it has."""
    texts = ["the old ferry leaves the port", "nobody reads the harbour bulletin"]
    several = ["the old ferry leaves the port of lisse at seven in the morning", "the ferry leaves the port at seven"]
    one = ["nobody reads the harbour bulletin any more since the port was closed to all ships of that kind"]
    references = [several, one]
    wanted = bleu_by_hand(texts, references)
    assert wanted < 60
    assert score_texts(texts, references).bleu == pytest.approx(wanted, abs=0.01)
    assert score_texts(texts[::-1], references[::-1]).bleu == pytest.approx(wanted, abs=0.01)


def test_no_score_depends_on_how_many_references_other_texts_have():
    """ROUGE, METEOR, variety: a text with one reference beside a text with three scores as it does beside itself."""
    text, gold = "the old ferry leaves", "the old ferry leaves the port at seven in the morning"
    alone = score_texts([text], [[gold]]).to_dict()
    beside = score_texts([text, text], [[gold], [gold, gold, gold]]).to_dict()
    same = ("rouge1", "rouge2", "rougeL", "bleu", "meteor", "words")
    assert {name: beside[name] for name in same} == {name: alone[name] for name in same}


def test_rouge_by_hand():
    """Two of three words, and of four: P = 2/3, R = 2/4. One pair of words of two and three."""
    found = score_texts(["the ferry sank"], ["the ferry leaves now"])
    assert found.rouge1 == pytest.approx(100 * 2 * 2 / 7) and found.rouge2 == pytest.approx(100 * 2 * 1 / 5)


def test_words_and_the_lead():
    assert split_words("It's 3.5!") == ["it", "'", "s", "3", ".", "5", "!"]
    assert lead("The ferry left. Nobody came! Why?") == "The ferry left."
    assert lead("The ferry left. Nobody came! Why?", 2) == "The ferry left. Nobody came!"
    assert lead(" no end") == "no end"


def test_the_constant_text_is_the_most_typical():
    training = ["we propose a new method", "we propose a method for ferries", "it rained", "a new method"]
    assert constant_text(training) == "we propose a new method"
    with pytest.raises(ValueError, match="no training target"):
        constant_text([])


@pytest.mark.parametrize(
    ("predicted", "references", "message"),
    [
        (["a"], [], "1 texts, but references of 0"),
        ([], [], "there must be a text"),
        (["a"], [[]], "every text needs at least one reference"),
        (["a", "b"], ["a", ["b", " "]], "text 2 has an empty reference; remove the reference"),
    ],
)
def test_what_cannot_be_scored_is_refused(predicted, references, message):
    with pytest.raises(ValueError, match=message):
        score_texts(predicted, references)


def test_a_missing_package_is_named_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ImportError, match=r"need sacrebleu; install it with: pip install 'boustro\[generation\]'"):
        score_texts(["a"], ["a"])


SPANS = score_spans([["B-PER", "O", "B-<b>"]], [["B-PER", "O", "O"]])
TOPICS = score_text_labels(["a", "b", "c"], ["a", "b", "b"])


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (SPANS, "F1 66.7 (precision 100, recall 50.0)"),
        (TOPICS, "accuracy 66.7 (macro F1 55.6)"),
        (score_labels([["a", "b"]], [["b", "a"]]), "accuracy 0"),
        (
            score_label_sets([{"a"}, {"b"}], [{"a", "b"}, {"b"}]),
            "micro F1 80.0 (precision 66.7, recall 100, macro F1 83.3, exact match 50.0)",
        ),
        (score_correlation([1, 2, 3], [10, 20, 90]), "Spearman 100 (Pearson 91.8)"),
        (score_answers([["Ada"]], ["ada"]), "F1 100 (exact match 100)"),
        (
            score_relations(["r(e1,e2)"], ["r(e1,e2)"]),
            "macro F1 100 (precision 100, recall 100, micro F1 100, right labels 100)",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_score_shows_its_main_figure_first(score, shown):
    assert repr(score) == shown


def test_a_score_is_printed_as_a_table_and_is_one_in_a_notebook():
    table = """\
type  precision  recall      F1  entities
<b>        0.00    0.00    0.00         1
PER      100.00  100.00  100.00         1
all      100.00   50.00   66.67         2"""
    assert str(SPANS) == table
    html = SPANS._repr_html_()
    assert html.startswith("<table><tr><th>type</th><th>precision</th>") and html.count("<tr>") == 4
    assert "<td>&lt;b&gt;</td><td>0.00</td>" in html and html.endswith("<td>2</td></tr></table>")
