"""Every head of the tagger: it learns, and saved and opened it answers the same, with the same probabilities."""

from dataclasses import fields

import pytest
import torch

import boustro
from boustro.apps.cli.arguments import refuse_other_heads
from boustro.heads.options import SequenceOptions, TagOptions
from boustro.heads.registry import HEADS, make_head
from boustro.metrics.labels import LabelScore
from boustro.tasks import TASKS
from boustro.types import Entity, Sentence
from labelled import with_own
from precision import tolerance

PEOPLE, PLACES = ("Ada Brandt", "Ines Calloway", "Okonkwo"), ("Vellmar", "Port Lisse", "Zürich")
TEMPLATES = ("{0} left {1} .", "In {1} it rained .", "{0} said so .", "Nobody reads {1} , said {0} .")


def tagged(template: str, person: str, place: str) -> tuple[list[str], list[str]]:
    words, tags = [], []
    for part in template.split():
        name, label = {"{0}": (person, "PER"), "{1}": (place, "LOC")}.get(part, (part, ""))
        for i, word in enumerate(name.split()):
            words.append(word)
            tags.append(("I-" if i else "B-") + label if label else "O")
    return words, tags


DATA = [tagged(t, person, place) for t in TEMPLATES for person in PEOPLE for place in PLACES]
FAST = {"epochs": 15, "lr": 5e-3, "hidden": 64, "dropout": 0.1, "batch_sentences": 8}
KINDS = [(kind, {}) for kind, made in HEADS.items() if made.labelling in ("tags", "spans")] + [
    ("mlp", {"crf": True}),
    ("bilstm", {"crf": True, "tag_scheme": "bioes"}),
    ("mlp", {"tag_scheme": "io"}),
    ("mlp", {"combine": "concat"}),
]


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=lambda x: "-".join(x) if isinstance(x, dict) else x)
def test_a_head_learns_and_opens_as_it_was_saved(tiny_pair, tmp_path, kind, options):
    tagger = boustro.Tagger(tiny_pair, kind, **with_own(kind, FAST), **options).fit(DATA, DATA)
    assert tagger.evaluate(DATA).f1 > 95
    tagger.save_pretrained(tmp_path / "ner")
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner")
    sentences = [words for words, _ in DATA]
    assert opened.answer(sentences) == tagger.answer(sentences)
    (alone,) = opened.answer(sentences[:1])
    assert alone.tags == tagger.answer(sentences)[0].tags
    assert alone.scores == pytest.approx(tagger.answer(sentences)[0].scores, abs=tolerance(1e-4, 5e-3))


def test_word_by_word_decoding_may_say_what_no_sequence_allows():
    heads = [
        make_head("linear", SequenceOptions(crf=False, decode=decode), ((1, 2),), ("O", "B-X", "I-X"))
        for decode in ("argmax", "valid")
    ]
    for head in heads:
        with torch.no_grad():
            head.body[1].weight.copy_(torch.tensor([[0.0, 0], [1, 0], [2, 0]]))
            head.body[1].bias.zero_()
    vectors, lengths = torch.tensor([[1.0, 0], [1, 0]]), torch.tensor([2])
    with torch.inference_mode():
        ids = [head.eval().predict(vectors, lengths)[0][0].tolist() for head in heads]
    assert ids == [[2, 2], [1, 2]]  # I-X I-X, and B-X I-X


def test_nested_entities_are_found_whole(tiny_pair):
    data = [
        Sentence(
            ("University", "of", place, "won", "."),
            ("B-ORG", "I-ORG", "I-ORG", "O", "O"),
            entities=(Entity("LOC", 2, 3), Entity("ORG", 0, 3)),
        )
        for place in ("Vellmar", "Lisse", "Zürich", "Vellmar")
    ]
    data += [Sentence((place, "won", "."), ("B-LOC", "O", "O")) for place in ("Vellmar", "Lisse", "Zürich")]
    tagger = boustro.Tagger(tiny_pair, "span", **FAST | {"epochs": 40}).fit(data, data)
    assert tagger.evaluate(data).f1 == 100
    (answer,) = tagger.answer(data[:1])
    assert [(e.label, e.start, e.end) for e in answer.entities] == [("ORG", 0, 3), ("LOC", 2, 3)]


def test_labels_of_words_are_scored_by_accuracy(tiny_pair, tmp_path):
    data = [(["Ada", "left", "Vellmar", "."], ["PROPN", "VERB", "PROPN", "PUNCT"])] * 3
    tagger = boustro.Tagger(tiny_pair, "mlp", **FAST).fit(data, data, scheme="labels")
    score = tagger.evaluate(data, scheme="labels")
    assert isinstance(score, LabelScore) and score.accuracy == 100
    tagger.save_pretrained(tmp_path / "pos")
    found = boustro.Tagger.from_pretrained(tmp_path / "pos").predict("Ada left Vellmar.")
    assert [(e.text, e.label) for e in found] == [
        ("Ada", "PROPN"),
        ("left", "VERB"),
        ("Vellmar", "PROPN"),
        (".", "PUNCT"),
    ]


def test_spans_longer_than_the_head_can_find_are_counted(tiny_pair):
    tagger = boustro.Tagger(tiny_pair, "span", **FAST | {"epochs": 1, "max_span": 1}).fit(DATA)
    longer = sum(
        tag[0] == "B" and after[:1] == "I" for _, t in DATA for tag, after in zip(t, [*t[1:], "O"], strict=True)
    )
    assert tagger.record["notices"]["gold spans of more than 1 words"] == longer > 0


@pytest.mark.parametrize(
    ("task", "kind", "option", "message"),
    [
        ("Tagger", "mpl", {}, "did you mean 'mlp'"),
        ("Tagger", "span", {"crf": True}, "^crf is not an option of a span head; linear, mlp, block, bilstm have it$"),
        ("Tagger", "ridge", {"dropout": 0.1}, "^dropout is not an option of a ridge head; linear, mlp, "),
        ("Tagger", "linear", {"hidden": 4}, "^hidden is not an option of a linear head; mlp, block, bilstm, span have"),
        ("Tagger", "mlp", {"symmetric": True}, "^unknown option 'symmetric'$"),
        ("Tagger", "pair", {}, "^a pair head is not for this task, whose heads are linear, mlp, "),
        ("Classifier", "ridge-pool", {"hidden": 4}, "^hidden is not an option of a ridge-pool head; mlp-pool, "),
        ("QuestionAnswerer", "answer", {"crf": False}, "^unknown option 'crf'$"),
    ],
)
def test_an_option_belongs_to_heads(task, kind, option, message):
    with pytest.raises(ValueError, match=message):
        getattr(boustro, task)("no/such-model", kind, **option)


def test_a_preset_is_for_all_heads():
    linear, ridge = (boustro.Tagger("no/such-model", kind, preset="paper") for kind in ("linear", "ridge"))
    assert linear.head_options == SequenceOptions(
        standardise=False, crf=False, decode="argmax", dropout=0.1, batch_sentences=32
    )
    assert ridge.head_options == TagOptions(standardise=False) and ridge.config.layers == "last"


def test_heads_of_one_task_have_the_same_defaults_or_are_not_trained_at_once():
    for name, task in TASKS.items():
        defaults = [(f.name, f.default) for kind in task.config.heads() for f in fields(HEADS[kind].options)]
        if len({*defaults}) > len({option for option, _ in defaults}):
            with pytest.raises(ValueError, match="other defaults of --standardise; train them in two runs"):
                refuse_other_heads(name, task.config.heads(), [])
        else:
            refuse_other_heads(name, task.config.heads(), [])


def test_a_span_head_wants_entities(tiny_pair):
    with pytest.raises(ValueError, match="plain labels"):
        boustro.Tagger(tiny_pair, "span").fit([(["Ada"], ["PROPN"])], scheme="labels")
