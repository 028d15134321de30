"""What stands on both sides of a part left out, and what a bootstrap draws: documents and copies are kept together."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boustro
from boustro.metrics.significance import bootstrap, f1
from boustro.tasks import task_class
from boustro.tasks.estimate import KEY, said
from boustro.tasks.fitting import fit
from boustro.tasks.folds import drawn_together, kin, left_out
from boustro.tasks.plan import Examples
from boustro.text.duplicates import number_alike
from boustro.types import Sentence

LONG = "the ferry to Vellmar leaves at seven in the morning {} ."


def itself(sentence):
    return (sentence,)


def sentences(*texts, document=""):
    return [Sentence(tuple(text.split()), document=document) for text in texts]


def divided(examples, num_folds, key, seed=1):
    """How many values of `key` stand on both sides of some part."""
    parts = list(left_out(examples, num_folds, seed, itself))
    assert sorted(np.concatenate([left for _, left in parts]).tolist()) == list(range(len(examples)))
    assert all(sorted([*kept, *left]) == list(range(len(examples))) for kept, left in parts)
    sides = [({key(examples[n]) for n in kept}, {key(examples[n]) for n in left}) for kept, left in parts]
    return len(parts), sum(len(a & b) for a, b in sides)


def test_documents_stay_together_also_where_there_are_fewer_than_parts():
    own = [Sentence((f"w{n}", f"v{n}"), document=f"d{n % 3}") for n in range(18)]
    assert divided(own, 5, lambda s: s.document) == (3, 0)
    assert kin(own, itself).divided == ""
    alone = [Sentence(s.words, document="d") for s in own]
    assert len(list(left_out(alone, 5, 1, itself))) == 5
    assert kin(alone, itself).divided == "sentences of one document"
    ((kept, left),) = left_out(own + sentences(*(f"x{n} y{n}" for n in range(12))), 1, 1, itself)
    assert len(kept) + len(left) == 30 and len(left) == 6
    with pytest.raises(ValueError, match="1 training examples cannot be parted"):
        list(left_out(own[:1], 3, 1, itself))


@pytest.mark.parametrize("copy", [
    "{}", "{} !", "Well , {}", "THE FERRY"], ids=["equal", "punctuation", "a word more", "case"])  # fmt: skip
def test_a_copy_stands_on_the_same_side(copy):
    places = "Ada Bo Cy Di Ed Flo Gus Hal Ida Jo".split()
    texts = [f"{name} {name}1 went {name}2 to {name}3 {name}4" for name in places]
    copies = [text.upper() if copy == "THE FERRY" else copy.format(text) for text in texts]
    assert divided(sentences(*texts, *copies), 5, lambda s: next(w for w in s.words if w[-1] == "1").upper()) == (5, 0)
    documents = [s for n, t in enumerate(texts * 2) for s in sentences(t, "so what", document=f"d{n}")]
    assert len(set(kin(documents, itself).groups)) == 10  # whole documents are compared: "so what" joins none


@given(st.lists(st.lists(st.sampled_from("abcdefg"), min_size=0, max_size=12), min_size=1, max_size=12))
def test_alike_is_what_all_pairs_say(texts):
    def near(a, b):
        one, other = Counter(a), Counter(b)
        both = (one & other).total()
        return a == b or both >= 0.8 * (len(a) + len(b) - both)

    homes = list(range(len(texts)))
    for _ in texts:
        for a, one in enumerate(texts):
            for b, other in enumerate(texts):
                if near(one, other):
                    homes[b] = homes[a] = min(homes[a], homes[b])
    found = number_alike(texts, 0.8).tolist()
    assert [found.index(n) for n in found] == homes


def test_a_chain_of_texts_that_are_nearly_equal_is_divided_but_equal_ones_are_not():
    own = sentences(*(LONG.format(n) for n in range(10))) * 2
    assert divided(own, 5, lambda s: s.words) == (5, 0) and kin(own, itself).divided == "nearly equal texts"
    assert kin(sentences("a", "a", "a"), itself).divided == "equal texts"


def test_questions_of_one_context_and_pairs_of_one_text_stay_together():
    contexts = [f"w{n} v{n} left in May ." for n in range(3)]
    questions = [{"context": c, "question": f"{q} {n} ?", "answers": []} for n, c in enumerate(contexts)
                 for q in ("Who left", "When was it", "Why")]  # fmt: skip
    task = task_class("qa")
    assert kin(task.read(questions), task.shared).groups.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    relations = [{"text": c, "head": [0, 2], "tail": [3, 3 + k], "label": str(k)} for c in contexts for k in (1, 2)]
    task = task_class("relation")
    assert kin(task.read(relations), task.shared).groups.tolist() == [0, 0, 1, 1, 2, 2]


def test_random_labels_are_not_known_from_copies(tiny_pair):
    """Labels that nothing says: about half are right, and not nearly all because every text is there twice."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 500, 8)) for _ in range(30)]
    labels = ["ab"[n] for n in rng.integers(0, 2, 30)]
    how = {"epochs": 30, "hidden": 32, "lr": 1e-2, "cache": False}
    model = boustro.Classifier(tiny_pair, **how).fit(texts * 2, labels * 2, cross_validate=1e6)
    found = model.record[KEY]
    assert found["score"] < 75 and found["groups"] == 30 and found["examples"] == 60
    assert found["high"] - found["low"] > 25  # of 30 texts, not of 60


def test_what_cannot_be_kept_apart_is_said():
    facts = {"metric": "F1", "score": 70.0, "low": 60.0, "high": 79.0, "examples": 60, "parts": 5, "groups": 3}
    facts |= {"curve": [[12, 40.0], [24, 58.0]], "gain": {"points": 0, "low": -1, "high": 1}}
    told = [*said(facts | {"divided": "sentences of one document"}, "sentences")]
    assert told[1].startswith("sentences of one document stood on both sides")
    assert told[2] == "the interval is a rough one: these are 3 documents or different texts"


def covered(documents, grouped, tries=300):
    """The share of 95% intervals with the truth, where sentences of a document are alike; `grouped` draws documents."""
    hits = 0
    for seed in range(tries):
        rng = np.random.default_rng(seed)
        hard = np.repeat(rng.beta(2, 2, documents), 10)  # of its sentences this share is right; 50% in the mean
        right = rng.random(len(hard)) < hard
        values = np.stack([np.ones_like(hard), np.ones_like(hard), right], 1)[None]
        groups = np.repeat(np.arange(documents), 10) if grouped else None
        (drawn,) = bootstrap(f1, [values], draws=200, seed=seed, groups=groups)
        low, high = np.quantile(drawn.resampled, [0.025, 0.975])
        hits += low <= 50 <= high
    return hits / tries


def test_intervals_draw_documents():
    assert covered(40, True) > 0.92 > 0.85 > covered(40, False)
    assert covered(12, True) > 0.88


def test_a_single_document_is_drawn_by_sentences():
    own = [Sentence((f"w{n}",), document="d") for n in range(9)]
    assert drawn_together(own, itself).tolist() == list(range(9))
    assert drawn_together([*own, Sentence(("x",), document="e")], itself).tolist() == [0] * 9 + [1]
    values = np.ones((1, 9, 3))
    alone, plain = (bootstrap(f1, [values], draws=3, groups=g)[0] for g in (np.zeros(9, np.int64), None))
    assert (alone.resampled == plain.resampled).all()


@pytest.mark.parametrize("documents", [False, True])
def test_a_part_left_out_is_not_in_the_memory(tiny_pair, documents):
    """It is read as a tagger that has learned the others reads it."""
    words = [["Ada", "left", f"w{n}"] for n in range(6)] + ["Vellmar saw Lisse fall".split()]
    words += [["Lisse", "saw", "Vellmar", "fall"], ["Lisse", "saw"]]  # the last is not labelled
    data = [Sentence(tuple(w), ("B-PER", *["O"] * (len(w) - 1)), document=f"d{min(n, 7)}" if documents else "")
            for n, w in enumerate(words)]  # fmt: skip
    data[-1] = replace(data[-1], tags=None)
    told, how = [], {"memory": True, "epochs": 1, "hidden": 8, "cache": False}
    plan = boustro.Tagger(tiny_pair, **how).plan
    fit(plan, Examples(train=data if documents else data[:-1]), 1, [lambda _, own, __: told.append(own) or {}])
    others = boustro.Tagger(tiny_pair, **how).fit(data[:6], seed=1)
    wanted = others.reader.read(data[6:]).streams
    (own,) = told
    for inputs, same in ((own.leaving_out(np.array([6, 7])).inputs, True), (own.inputs, False)):
        pairs = [(a[-8:], b[:8]) for a, b in zip(inputs.streams, wanted, strict=True)]
        assert all(np.allclose(a, b, atol=1e-3) for a, b in pairs) == same
