"""Scores of labels, relations and answers: by hand, against packages, and the controls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    matthews_corrcoef,
    precision_recall_fscore_support,
)
from sklearn.preprocessing import MultiLabelBinarizer

from boustro.metrics.labels import score_label_sets, score_labels, score_text_labels
from boustro.metrics.questions import score_answers
from boustro.metrics.relations import score_relations
from boustro.metrics.score import score_correlation
from boustro.metrics.spans import score_spans

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
