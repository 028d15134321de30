"""The case study: the paper's own examples, and counts that add up."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boustro.apps.studies.compare.cases import (
    ENTITY_GROUPS,
    MAX_BROKEN,
    MAX_FIXED,
    MAX_WORDS,
    OTHER_ENTITIES,
    Answers,
    case_study,
)
from boustro.apps.studies.compare.results import read_answers
from boustro.apps.studies.core.cells import Cell
from boustro.apps.studies.core.systems import System
from boustro.apps.studies.report.buckets import Training
from boustro.metrics.spans import extract_spans
from boustro.store import write_manifest
from boustro.types import Entity, Sentence

START, BEFORE_AND, AFTER_AND, UNSEEN, LONG = ENTITY_GROUPS
LOTTE = "Note - Lotte and Hyundai , Haitai and Samsung played two games"
TABLES = [  # tables 3 and 4 of the paper: words, reference, forward only, proposal
    ("Jones Medical completes acquisition .", "B-ORG I-ORG O O O", "B-PER I-ORG O O O", "B-ORG I-ORG O O O"),
    (
        LOTTE,
        "O O B-ORG O B-ORG O B-ORG O B-ORG O O O",
        "O O B-PER O B-ORG O O O B-ORG O O O",
        "O O B-ORG O B-ORG O B-MISC O B-ORG O O O",
    ),
]


def answers(words, gold, predicted, score=lambda i: 0.5):
    found = [extract_spans(tags) for tags in predicted]
    return Answers(words, [extract_spans(t) for t in gold], found, [[score(i)] * len(e) for i, e in enumerate(found)])


def study(rows, training=Training(), seeds=1, score=lambda i: 0.5):  # noqa: B008
    words, gold, first, second = ([tuple(text.split()) for text in column] for column in zip(*rows, strict=True))
    sentences = [Sentence(w, t, where=f"data/test.conll:{i}") for i, (w, t) in enumerate(zip(words, gold, strict=True))]
    sides = ([answers(words, gold, side, score)] * seeds for side in (first, second))
    groups = case_study(sentences, *sides, {}, training, ("forward", "pair"))
    return {g["title"]: g for g in groups}


def test_the_papers_examples_are_fixed_where_it_says_so():
    groups = study(TABLES)
    assert list(groups) == [*ENTITY_GROUPS, OTHER_ENTITIES]
    assert groups[START]["entities"] == 1 and groups[START]["fixed"] == 1 and groups[START]["recall"] == [0, 100]
    assert groups[BEFORE_AND]["entities"] == 2 and groups[BEFORE_AND]["recall"] == [0, 50]  # Lotte, not Haitai
    assert groups[AFTER_AND]["entities"] == 2 and groups[AFTER_AND]["recall"] == [100, 100]
    assert groups[UNSEEN]["entities"] == 5 and groups[UNSEEN]["fixed"] == 2 and groups[UNSEEN]["broken"] == 0
    assert groups[LONG]["entities"] == groups[OTHER_ENTITIES]["entities"] == 0
    (shown,) = groups[BEFORE_AND]["sentences"]
    assert shown["words"] == LOTTE.split() and shown["entity"] == ["ORG", 2, 3] and shown["kind"] == "fixed"
    assert shown["where"] == "test.conll:1" and shown["number"] == 2
    assert shown["answers"]["forward"][0] == ["PER", 2, 3, 0.5] and shown["answers"]["pair"][0][0] == "ORG"


def test_what_training_has_shown_is_not_unseen():
    training = Training.of([(["Lotte"], extract_spans(["B-PER"]))])
    assert study(TABLES, training)[UNSEEN]["entities"] == 4
    seen = Training.of([(row[0].split(), extract_spans(row[1].split())) for row in TABLES])
    groups = study([("so it was in Port Lisse", "O O O O B-LOC I-LOC", "O O O O O O", "O O O O B-LOC I-LOC")], seen)
    assert groups[UNSEEN]["fixed"] == 1 and groups[OTHER_ENTITIES]["entities"] == 0


def test_the_surest_sentences_come_first_and_none_comes_twice():
    rows = [(f"w{i} is here", "B-PER O O", "O O O", "B-PER O O") for i in range(8)]
    rows += [(f"x{i} is here", "B-PER O O", "B-PER O O", "O O O") for i in range(8)]
    rows += [("w7 is here " + "and so on " * MAX_WORDS, *(t + " O" * 3 * MAX_WORDS for t in rows[0][1:]))]
    groups = study(rows, score=lambda i: i / 100)
    twice = study([("he saw Ada , Bo", "O O B-PER O B-PER", "O O O O O", "O O B-PER O B-PER")])
    assert twice[UNSEEN]["fixed"] == 2 and sum(len(g["sentences"]) for g in twice.values()) == 1
    shown = [s for g in groups.values() for s in g["sentences"]]
    assert len({s["number"] for s in shown}) == len(shown)
    first = groups[START]["sentences"] or groups[UNSEEN]["sentences"]
    assert [s["kind"] for s in first] == ["fixed"] * MAX_FIXED + ["broken"] * MAX_BROKEN
    assert [s["score"] for s in first] == [0.07, 0.06, 0.05, 0.04, 0.03, 0.15, 0.14, 0.13]
    assert max(len(s["words"]) for s in shown) <= MAX_WORDS


TAGS = st.lists(st.sampled_from(["O", "B-PER", "I-PER", "B-LOC"]), min_size=6, max_size=6).map(" ".join)
ROWS = st.lists(st.tuples(st.sampled_from(["a b and c d e", "x & y , z w"]), TAGS, TAGS, TAGS), min_size=1, max_size=4)


@given(ROWS, st.integers(1, 3))
def test_fixed_minus_broken_is_the_change_of_recall(rows, seeds):
    for title, group in study(rows, seeds=seeds).items():
        assert group["num_seeds"] == seeds
        if group["entities"]:
            change = (group["recall"][1] - group["recall"][0]) / 100 * group["entities"] * seeds
            assert group["fixed"] - group["broken"] == pytest.approx(change), title


@given(ROWS)
def test_a_system_does_not_differ_from_itself(rows):
    same = [(words, gold, first, first) for words, gold, first, _ in rows]
    assert not any(g["fixed"] or g["broken"] or g["sentences"] for g in study(same).values())


def test_a_word_may_hold_what_other_programs_take_for_the_end_of_a_line(tmp_path):
    word = "a\x85b\u2028c\x1cd"
    row = {"words": [word], "entities": [["PER", 0, 1]], "scores": [0.5]}
    (tmp_path / "dev.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n")
    write_manifest(tmp_path, "cell")
    cell = Cell(System(("x",), "x", "mlp", {}), 1, "x, seed 1", tmp_path)
    answers = read_answers(cell, "dev", [(word,)], [[]])
    assert answers.predicted == [[Entity("PER", 0, 1)]]
