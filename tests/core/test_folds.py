"""What stands on both sides of a part left out, what few-shot draws hold, and estimates without a development set."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import boustro
from boustro.heads.registry import head_kind
from boustro.metrics.significance import bootstrap, f1, interval, interval_text, signed
from boustro.tasks import task_class
from boustro.tasks.answers import Answer
from boustro.tasks.fitting import choice as choosing
from boustro.tasks.fitting import estimate as estimating
from boustro.tasks.fitting.choice import choose_head
from boustro.tasks.fitting.estimate import CHOICE, KEY, format_estimate
from boustro.tasks.fitting.training import COPIES, LEARNED, begin_training, fit_head, train_on_part, train_on_parts
from boustro.tasks.folds import drawn_together, kin, left_out, num_different
from boustro.tasks.plan import Examples
from boustro.text.duplicates import number_alike
from boustro.types import Entity, Sentence

LONG = "the ferry to Vellmar leaves at seven in the morning {} ."


def sentences(*texts, document=""):
    return [Sentence(tuple(text.split()), document=document) for text in texts]


def divided(examples, num_folds, key, seed=1):
    """How many values of `key` stand on both sides of some part."""
    parts = list(left_out(kin(examples), num_folds, seed))
    assert sorted(np.concatenate([left for _, left in parts]).tolist()) == list(range(len(examples)))
    assert all(sorted([*kept, *left]) == list(range(len(examples))) for kept, left in parts)
    sides = [({key(examples[n]) for n in kept}, {key(examples[n]) for n in left}) for kept, left in parts]
    return len(parts), sum(len(a & b) for a, b in sides)


def test_documents_stay_together_also_where_there_are_fewer_than_parts():
    own = [Sentence((f"w{n}", f"v{n}"), document=f"d{n % 3}") for n in range(18)]
    assert divided(own, 5, lambda s: s.document) == (3, 0)
    assert kin(own).divided == ""
    alone = [Sentence(s.words, document="d") for s in own]
    assert len(list(left_out(kin(alone), 5, 1))) == 5
    assert kin(alone).divided == "sentences of one document"
    ((kept, left),) = left_out(kin(own + sentences(*(f"x{n} y{n}" for n in range(12)))), 1, 1)
    assert len(kept) + len(left) == 30 and len(left) == 6
    with pytest.raises(ValueError, match="1 training example cannot be parted"):
        list(left_out(kin(own[:1]), 3, 1))


@pytest.mark.parametrize("copy", [
    "{}", "{} !", "Well , {}", "THE FERRY"], ids=["equal", "punctuation", "a word more", "case"])  # fmt: skip
def test_a_copy_stands_on_the_same_side(copy):
    places = "Ada Bo Cy Di Ed Flo Gus Hal Ida Jo".split()
    texts = [f"{name} {name}1 went {name}2 to {name}3 {name}4" for name in places]
    copies = [text.upper() if copy == "THE FERRY" else copy.format(text) for text in texts]
    assert divided(sentences(*texts, *copies), 5, lambda s: next(w for w in s.words if w[-1] == "1").upper()) == (5, 0)
    documents = [s for n, t in enumerate(texts * 2) for s in sentences(t, "so what", document=f"d{n}")]
    assert len(set(kin(documents).groups)) == 10  # whole documents are compared: "so what" joins none


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
    marked = [["दान"], ["दीन"], ["re\u0301sume\u0301", "!"], ["Résumé"]]  # vowel signs and accents are of their letters
    assert number_alike(marked, 0.8).tolist() == [0, 1, 2, 2]


def test_a_chain_of_texts_that_are_nearly_equal_is_divided_but_equal_ones_are_not():
    own = sentences(*(LONG.format(n) for n in range(10))) * 2
    assert divided(own, 5, lambda s: s.words) == (5, 0) and kin(own).divided == "nearly equal texts"
    assert kin(sentences("a", "a", "a")).divided == "equal texts"


def test_questions_of_one_context_and_pairs_of_one_text_stay_together():
    contexts = [f"w{n} v{n} left in May ." for n in range(3)]
    questions = [{"context": c, "question": f"{q} {n} ?", "answers": []} for n, c in enumerate(contexts)
                 for q in ("Who left", "When was it", "Why")]  # fmt: skip
    task = task_class("qa")
    assert kin(task.read(questions)).groups.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    pairs = [{"sentence1": c, "sentence2": f"{q} {n} ?", "label": str(n)} for n, c in enumerate(contexts)
             for q in ("Who left", "When was it")]  # fmt: skip
    pairs += [{"sentence1": "Nobody came at all .", "sentence2": "Who left 0 ?", "label": "1"}]
    task = task_class("pair")
    assert kin(task.read(pairs)).groups.tolist() == [0, 0, 1, 1, 2, 2, 0]
    relations = [{"text": c, "head": [0, 2], "tail": [3, 3 + k], "label": str(k)} for c in contexts for k in (1, 2)]
    task = task_class("relation")
    assert kin(task.read(relations)).groups.tolist() == [0, 0, 1, 1, 2, 2]


def numbered(rng, count, words=8):
    return [" ".join(f"w{n}" for n in rng.integers(0, 500, words)) for _ in range(count)]


@pytest.mark.parametrize("documents", ["two", "many"])
def test_a_text_of_several_documents_stands_on_one_side(documents):
    """Also where what it joins is all that there is: then documents are divided, which is said."""
    rng = np.random.default_rng(1)
    texts = numbered(rng, 20) * 2
    order = [*range(20), *rng.permutation(20) + 20]
    names = [n // 20 if documents == "two" else n % 8 for n in range(40)]
    own = [replace(sentences(texts[n])[0], document=f"d{name}") for n, name in zip(order, names, strict=True)]
    assert divided(own, 5, lambda s: s.words) == (5, 0) and kin(own).divided == "sentences of one document"
    assert len(set(drawn_together(own))) == 20


def test_what_stands_in_many_documents_joins_none_but_is_not_learned_either():
    own = [
        s
        for n, text in enumerate(numbered(np.random.default_rng(1), 60))
        for s in sentences(text, document=f"d{n // 6}")
    ]
    own += [s for n in range(10) for s in sentences("Results of the day", document=f"d{n}")]
    found = kin(own)
    assert found.divided == "" and len(set(found.groups)) == 10
    for kept, left in left_out(found, 5, 1):
        sides = [{(s.words, s.document) for s in (own[n] for n in side)} for side in (kept, left)]
        assert not {words for words, _ in sides[0]} & {words for words, _ in sides[1]}
        assert len(left) == 14 and len(kept) == 48 and not {d for _, d in sides[0]} & {d for _, d in sides[1]}
    few = replace(own[0], document="d1"), replace(own[6], document="d0")
    assert len(set(kin([*own[:60], *few]).groups)) == 9  # two of ten that share texts are one


def test_random_labels_are_not_known_from_copies(tiny_pair):
    """Labels that nothing says: about half are right, and not nearly all because every text is there twice."""
    rng = np.random.default_rng(0)
    texts = numbered(rng, 30)
    labels = ["ab"[n] for n in rng.integers(0, 2, 30)]
    model = boustro.Classifier(tiny_pair, "ridge-pool", cache=False).fit(texts * 2, labels * 2, cross_validate=1e6)
    found = model.record[KEY]
    assert found["score"] < 75 and found["groups"] == 30 and found["examples"] == 30
    assert found["high"] - found["low"] > 25  # of 30 texts, not of 60


@pytest.mark.parametrize("head", ["linear", "bilstm", "ridge"])
def test_the_head_of_a_part_is_that_of_the_part_alone(tiny_pair, head):
    """Nothing of it is computed from what is left out: no mean, no scale, no strength."""
    how = {"cache": False, **({"epochs": 2} if head != "ridge" else {})}
    words = numbered(np.random.default_rng(3), 14, 5)
    data = [
        Sentence(tuple(w.split()), ("B-A", "O", "B-B", "O", "O"), document=f"d{n // 3}") for n, w in enumerate(words)
    ]
    plan, kept = boustro.Tagger(tiny_pair, head, **how).plan.reading_alone(), np.array([1, 2, 4, 7, 9, 12])
    begun, given = begin_training(plan, Examples(train=data), 1)
    fitted = begun.fitted
    (part, again) = train_on_parts(fitted, [(given, kept), (given, kept)])
    own = fit_head(plan, Examples(train=[data[n] for n in kept]), 1).head
    for name, value in own.state_dict().items():
        assert torch.allclose(part.head.state_dict()[name], value, atol=1e-5), name
        assert torch.allclose(again.head.state_dict()[name], value, atol=1e-5), name
    mean = fit_head(plan, Examples(train=data), 1).head.mixes[0].mean
    assert not torch.allclose(part.head.mixes[0].mean, mean, atol=1e-5)


def rare(n, text):
    return {"label": "ab"[n % 7 == 0]}


def number(n, text):
    return {"score": float(n * n)}


def long(n, text):
    return {"entities": [{"label": "X", "start": 0, "end": len(" ".join(text.split()[: 1 + n // 2]))}]}


@pytest.mark.parametrize(
    ("task", "head", "labels", "options"),
    [
        ("classify", "mlp-pool", rare, {"class_weights": "balanced", "words": False}),
        ("regress", "score-pool", number, {}),
        ("tag", "span", long, {}),
    ],
)
def test_what_is_left_out_tells_nothing_of_its_labels(tiny_pair, task, head, labels, options):
    """The weights of labels, the mean and the deviation of numbers and the longest span are those of the part."""
    texts, kept = numbered(np.random.default_rng(3), 14), np.arange(10)
    kind = task_class(task)
    data = kind.read([{"text": text, **labels(n, text)} for n, text in enumerate(texts)])
    plan = kind(tiny_pair, head, epochs=2, hidden=8, cache=False, **options).plan
    begun, given = begin_training(plan, Examples(train=data), 1)
    fitted = begun.fitted
    own = fit_head(plan, Examples(train=[data[n] for n in kept]), 1)
    for part in (*train_on_parts(fitted, [(given, kept)]), train_on_part(fitted, given, kept)):
        assert part.head.options == own.head.options
        for name, value in own.head.state_dict().items():
            assert torch.allclose(part.head.state_dict()[name], value, atol=1e-5, equal_nan=True), name
        left = given.inputs.select(np.arange(10, 14))
        answers = [part.answers(part.head.outputs(left), data[10:]), own.answers(own.head.outputs(left), data[10:])]
        values = [[answer.value or answer.scores for answer in some] for some in answers]
        assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(*values, strict=True))


def test_nothing_is_chosen_or_promised_by_dev_texts_that_were_learned(tiny_pair):
    texts = numbered(np.random.default_rng(3), 20)
    rows = [{"text": text, "entities": [{"label": "X", "start": 0, "end": text.find(" ")}]} for text in texts]
    train, copies, new = rows[:12], [row | {"text": row["text"].upper() + " !"} for row in rows[:6]], rows[12:]
    how = {"encoder": tiny_pair, "epochs": 1, "cache": False}
    told, alone = (boustro.Tagger(head="linear", **how).fit(train, dev=dev) for dev in ([*copies, *new], new))
    promises = [model.fitted.extras["promise"] for model in (told, alone)]
    np.testing.assert_allclose(*(promise.probabilities for promise in promises), rtol=1e-5)
    assert promises[0].unsure == pytest.approx(promises[1].unsure) and len(promises[0].probabilities) == 8
    assert [model.record["notices"].get(LEARNED) for model in (told, alone)] == [6, None]
    assert told.record["dev"]["sentences"] == 14  # the score is that of all
    known = boustro.Tagger(head="linear", **how).fit(train, dev=copies)
    with pytest.raises(ValueError, match="no recall can be promised"):
        known.predict("Ada left.", recall=0.5)
    sets = [{"text": text, "labels": ["ab"[n % 2], "c"]} for n, text in enumerate(texts)]
    told, alone = (boustro.Classifier(**how).fit(sets[:12], dev=dev) for dev in (sets[6:], sets[12:]))
    assert told.fitted.labelling.threshold == pytest.approx(alone.fitted.labelling.threshold, rel=1e-5) != 0.5


def test_what_lda_chooses_by_has_no_copy_of_what_it_learned(tiny_pair):
    rng = np.random.default_rng(0)
    texts, labels = numbered(rng, 20) * 3, ["abc"[n] for n in rng.integers(0, 3, 20)] * 3
    model = boustro.Classifier(tiny_pair, "lda-pool", cache=False).fit(texts, labels)
    tried = model.fitted.head.tried
    assert len(tried) > 3 and not any({n % 20 for n in kept} & {n % 20 for n in left} for kept, left, _ in tried)
    sure = model.predict_proba(numbered(rng, 40)).max(1).mean()
    assert sure < 0.55  # of three labels that nothing says


def test_what_cannot_be_kept_apart_is_said():
    facts = {"metric": "F1", "score": 70.0, "low": 60.0, "high": 79.0, "examples": 60, "parts": 5, "groups": 3}
    facts |= {"curve": [[12, 40.0], [24, 58.0]], "gain": {"points": 0, "low": -1, "high": 1}}
    told = [*format_estimate(facts | {"divided": "sentences of one document"}, "sentences")]
    assert told[1].startswith("sentences of one document stood on both sides")
    assert "70.0 (about 60 to 79: 3 different texts or documents tell no more) on 60 sentences" in told[0]
    assert "interval" not in " ".join(told) and told[-1].endswith("(from 12 to 24 sentences: 0.0 points)")


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
        low, high = interval(drawn)
        hits += low <= 50 <= high
    return hits / tries


def test_intervals_draw_documents():
    assert 0.93 <= covered(40, True) <= 0.975 and covered(40, False) < 0.85
    assert all(0.93 <= covered(count, True) <= 0.975 for count in (8, 15))


@pytest.mark.parametrize(("count", "share"), [(12, 0.9), (12, 0.98), (40, 0.95)])
def test_intervals_of_accuracy_near_100_cover(count, share):
    """By all numbers of right answers, each with its probability; what is never wrong is not surely right."""
    found = 0.0
    for right in range(count + 1):
        values = np.stack([np.ones(count), np.ones(count), np.arange(count) < right], 1)[None]
        low, high = interval(bootstrap(f1, [values], draws=400)[0])
        found += binom.pmf(right, count, share) * (low <= 100 * share <= high)
    assert found > 0.93 and low < 100 * 0.025 ** (1 / count) + 5 and high == 100


@pytest.mark.parametrize("task", ["classify", "regress", "relation"])
def test_records_that_name_their_document_stay_with_it(task):
    """As those of taggers; CSV files name it in a column."""
    made = {"score": 1.5} if task == "regress" else {"label": "x"}
    made |= {"head": [0, 1], "tail": [2, 4]} if task == "relation" else {}
    names = ["a", "a", "b", "b", 7, 7, None, None]
    records = [{"text": f"{'klmnopqr'[n]} x{n} y{n}", "document": name, **made} for n, name in enumerate(names)]
    read = task_class(task).read(records)
    assert kin(read).groups.tolist() == [0, 0, 1, 1, 2, 2, 3, 4]
    assert drawn_together(read).tolist() == [0, 0, 1, 1, 2, 2, 3, 4]


def test_a_single_document_is_drawn_by_sentences():
    own = [Sentence((f"w{n}",), document="d") for n in range(9)]
    assert drawn_together(own).tolist() == list(range(9))
    assert drawn_together([*own, Sentence(("x",), document="e")]).tolist() == [0] * 9 + [1]
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
    fit_head(plan, Examples(train=data if documents else data[:-1]), 1, [lambda _, own, __: told.append(own) or {}])
    others = boustro.Tagger(tiny_pair, **how).fit(data[:6], seed=1)
    wanted = others.plan.reader.read(data[6:]).streams
    (own,) = told
    for inputs, same in ((own.learning(np.arange(6)).inputs, True), (own.inputs, False)):
        pairs = [(a[-8:], b[:8]) for a, b in zip(inputs.streams, wanted, strict=True)]
        assert all(np.allclose(a, b, atol=1e-3) for a, b in pairs) == same


TEXTS = [f"{text} {own}." for own in ("early", "late", "again", "in May")
         for text in ("Ada left Vellmar", "It rained", "Ada saw Brandt", "Vellmar fell")]  # fmt: skip
NAMES = [[("Ada", "PER"), ("Vellmar", "LOC")], [], [("Ada", "PER"), ("Brandt", "PER")], [("Vellmar", "LOC")]] * 4
TOPICS = ["news", "weather", "news", "place"] * 4
FAST = {"epochs": 2, "hidden": 8, "cache": False}
FACTS = {"metric": "F1", "score": 70.0, "low": 60.0, "high": 79.0, "examples": 60, "parts": 5}
CURVE = [[12, 40.0], [24, 58.0], [48, 70.0]]


@pytest.mark.parametrize("options", [{}, {"words": True}, {"calibrate": 2}], ids=["head", "words", "temperature"])
def test_every_example_is_answered_once_by_a_head_that_did_not_learn_it(tiny_pair, monkeypatch, options):
    trained, kept = estimating.train_on_parts, []

    def noted(fitted, parts):
        kept.extend(own for _, own in parts)
        return trained(fitted, parts)

    monkeypatch.setattr(estimating, "train_on_parts", noted)
    made = boustro.Classifier(tiny_pair, **FAST, **options).fit(TEXTS, TOPICS, cross_validate=1e6)
    found, full = made.record[KEY], kept[-5:]
    assert found["examples"] == 16 and found["parts"] == 5 and found["metric"] == "accuracy"
    assert found["low"] <= found["score"] <= found["high"] and len(found["curve"]) == 3
    left = [np.setdiff1d(np.arange(16), own) for own in full]
    assert sorted(np.concatenate(left).tolist()) == list(range(16))  # each is left out once
    for share, some in zip((0.25, 0.5), (kept[-15:-10], kept[-10:-5]), strict=True):
        pairs = list(zip(some, full, strict=True))
        assert all({*a.tolist()} < {*b.tolist()} and len(a) == round(share * len(b)) for a, b in pairs)


def test_a_part_is_answered_by_the_head_that_the_others_choose(tiny_pair, monkeypatch):
    """Ridge is right in parts 0, 1 and 2, mlp in 2, 3 and 4, so the better one on the others is right in one of five:
    not in three, as the one that is better on all."""
    rows = [{"text": text, "entities": [{"label": "X", "start": 0, "end": text.find(" ")}]}
            for text in numbered(np.random.default_rng(5), 20)]  # fmt: skip
    plan = boustro.Tagger(tiny_pair, "ridge", cache=False).plan.reading_alone()
    other = replace(plan, head_kind="mlp", head_options=head_kind("mlp").options())
    given = Examples(train=task_class("tag").read(rows))
    begun, data = begin_training(plan, given, 1)
    fitted = begun.fitted
    place = {n: part for part, (_, left) in enumerate(data.parts(5)) for n in left.tolist()}

    def answers(fitted, data, parts, share=1.0):
        right = {"ridge": (0, 1, 2), "mlp": (2, 3, 4)}[fitted.plan.head_kind]
        found = {n: Entity("X", 0, 1 + (place[n] not in right)) for _, left in parts for n in left.tolist()}
        return {n: Answer(entities=(entity,)) for n, entity in found.items()}

    for module in (choosing, estimating):
        monkeypatch.setattr(module, "answers_left_out", answers)
    assert "mlp was not tried: fewer than 50 labels" in choose_head([plan, other], given, 1).told
    monkeypatch.setattr(choosing, "LEAST_LABELS", 20)
    choice = choose_head([plan, other], given, 1)
    kinds = {place[n]: plan.head_kind for n, plan in enumerate(choice.heads)}
    assert choice.plan is plan and kinds == {0: "mlp", 1: "mlp", 2: "ridge", 3: "ridge", 4: "ridge"}
    assert "ridge 60.0, mlp 60.0" in choice.told
    assert estimating.estimate(fitted, data, 1.0, 1e6, choice.heads)[KEY]["score"] == 20
    assert estimating.estimate(fitted, data, 1.0, 1e6)[KEY]["score"] == 60


def test_it_takes_no_longer_than_it_may(tiny_pair, monkeypatch):
    tagger = boustro.Tagger(tiny_pair, **FAST)
    told = {}

    real = estimating.estimate

    def estimate(fitted, data, trained, seconds, heads, known):
        told["five"] = real(fitted, data, 1.0, 7.0)[KEY]
        told["one"] = real(fitted, data, 1.0, 6.9)[KEY]
        told["none"] = real(fitted, data, 1.0, 1.3)[KEY]
        return {}

    monkeypatch.setattr("boustro.tasks.fitting.choice.estimate", estimate)
    tagger.fit(TEXTS, NAMES, cross_validate=1)
    assert told["five"]["parts"] == 5 and told["five"]["examples"] == 16
    assert told["one"]["parts"] == 1 and 3 <= told["one"]["examples"] <= 4
    assert [*format_estimate(told["none"], "sentences")] == [
        "no cross-validation: it would take about 1 second, and may take 1; give it more with --cross-validate"
    ]


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [
        ((12.0, 3.0, 20.0), "more labels will probably help"),
        ((0.4, -1.0, 1.9), "more labels will hardly help"),
        ((3.0, -2.0, 8.0), "whether more labels would help cannot be told"),
    ],
)
def test_what_is_said(gain, verdict):
    facts = FACTS | {"curve": CURVE, "gain": dict(zip(("points", "low", "high"), gain, strict=True))}
    score, learned, last = format_estimate(facts, "sentences")
    assert score.startswith("cross-validated F1: 70.0 (95% interval 60.0 to 79.0) on 60 sentences")
    assert learned == "learned from 12 sentences: 40.0, 24 sentences: 58.0, 48 sentences: 70.0"
    assert last.startswith(verdict) and f"{signed(gain[0])} points" in last and "from 24 to 48" in last


def test_few_examples_never_say_that_labels_hardly_help_nor_a_sure_interval():
    flat = {"points": 0.0, "low": 0.0, "high": 0.0}
    facts = FACTS | {"low": 100.0, "high": 100.0, "groups": 12, "curve": CURVE, "gain": flat}
    score, *_, last = format_estimate(facts, "texts")
    assert "100.0 to 100.0" not in score and "too narrow to say from these examples" in score
    assert last.startswith("whether more labels would help cannot be told")
    assert interval_text(-0.3, 1.2, signs=True) == "95% interval −0.3 to +1.2"


def test_the_advice_looks_at_all_points_of_the_curve():
    facts = FACTS | {"curve": [[12, 88.9], [24, 84.1], [48, 88.4]], "gain": {"points": 4.3, "low": 0.4, "high": 9}}
    *_, last = format_estimate(facts | {"rise": {"points": -0.5, "low": -4, "high": 3}}, "sentences")
    assert last.startswith("whether more labels would help cannot be told")


def test_a_second_training_chooses_anew(tiny_lm, tmp_path, monkeypatch):
    """By the default kind of head again where there are too few."""
    monkeypatch.setattr(choosing, "LEAST_LABELS", 0)
    lm = str(tiny_lm("llama"))
    own = boustro.Tagger(lm).fit(TEXTS, NAMES)
    assert "of 2 by cross-validation" in own.record[CHOICE]
    own.save_pretrained(tmp_path / "made")
    made = boustro.Tagger.from_pretrained(tmp_path / "made")
    assert (own.plan.head_kind, own.record[CHOICE]) == (made.plan.head_kind, made.record[CHOICE])
    assert own.predict(TEXTS) == made.predict(TEXTS)
    assert own.fit(TEXTS[:4], NAMES[:4]).plan.head_kind == "ridge" and CHOICE not in own.record
    for asked in ({"head": "ridge"}, {"epochs": 1}):
        kept = boustro.Tagger(lm, **asked).fit(TEXTS, NAMES)
        assert CHOICE not in kept.record and kept.plan.head_kind == asked.get("head", "mlp")


def test_copies_are_no_further_examples(tiny_lm):
    """With case and punctuation changed, too; each three times, they choose what they choose once."""
    lm, texts, labels = str(tiny_lm("llama")), [f"w{n} v{n * 7 % 11} u" for n in range(40)], [*"abcb"] * 10
    copies = [*texts, *(f"{text.upper()}!" for text in texts), *texts]
    assert num_different(sentences(*copies)) == 40 and num_different(sentences(*copies), 7) == 7
    few = boustro.Classifier(lm, cache=False).fit(copies, labels * 3)
    assert few.plan.head_kind == "lda-pool" and few.config.words
    assert not boustro.Classifier(lm, cache=False).fit(copies[:12] * 3, labels[:12] * 3).config.words
    made = boustro.Tagger(lm, cache=False).fit(TEXTS[:5] * 3, NAMES[:5] * 3, cross_validate=60)
    assert CHOICE not in made.record and "has 5" in made.record[KEY]["why_not"]
    marked = [[(text.split()[0], "PER")] for text in copies]
    mixed = boustro.Tagger(lm, **FAST).fit(copies, marked, dev=(TEXTS * 2, NAMES * 2))
    assert not any(mixed.record["layer_weights"].values())
    assert mixed.record["notices"][COPIES] == len(TEXTS) and len(mixed.promise.probabilities) == sum(map(len, NAMES))


def test_few_examples_say_nothing(tiny_pair):
    made = boustro.Tagger(tiny_pair, **FAST).fit(TEXTS[:4], NAMES[:4], cross_validate=1e6)
    (line,) = format_estimate(made.record[KEY], "sentences")
    assert line == "no cross-validation: it needs 10 different examples, and has 4"
