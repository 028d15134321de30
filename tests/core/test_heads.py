"""Heads of the tagger: each learns and is opened the same; each sentence gets what it would get alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

import boustro
from boustro.heads.bodies import BiLSTM, Block
from boustro.heads.layout import by_length, edges, in_batch_order, pad, time_major
from boustro.heads.options import HiddenOptions, SequenceOptions, TagOptions
from boustro.heads.registry import HEADS, make_head
from boustro.metrics.labels import LabelScore
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
@pytest.mark.bf16
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


@pytest.mark.bf16
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
        ("Classifier", "ridge-pool", {"hidden": 4}, "^hidden is not an option of a ridge-pool head; auto-pool, "),
        ("QuestionAnswerer", "answer", {"crf": False}, "^unknown option 'crf'$"),
    ],
)
def test_an_option_belongs_to_heads(task, kind, option, message):
    with pytest.raises(ValueError, match=message):
        getattr(boustro, task)("no/such-model", kind, **option)


def test_a_preset_is_for_all_heads():
    linear, ridge = (boustro.Tagger("no/such-model", kind, preset="paper") for kind in ("linear", "ridge"))
    assert linear.plan.head_options == SequenceOptions(
        standardise=False, crf=False, decode="argmax", dropout=0.1, epochs=20, batch_sentences=32
    )
    assert ridge.plan.head_options == TagOptions(standardise=False) and ridge.config.layers == "last"


def test_a_span_head_wants_entities(tiny_pair):
    with pytest.raises(ValueError, match="plain labels"):
        boustro.Tagger(tiny_pair, "span").fit([(["Ada"], ["PROPN"])], scheme="labels")


WIDTH, NUM_TAGS = 12, 5
BODIES = [Block, BiLSTM]
batches = st.lists(st.integers(0, 6), max_size=8)
bodies = pytest.mark.parametrize("kind", BODIES)


def make(kind, hidden: int | None = 8, dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    body = kind(WIDTH, NUM_TAGS, HiddenOptions(hidden=hidden, dropout=dropout)).eval()
    with torch.no_grad():
        for parameter in body.parameters():  # larger than usual, so that what should differ differs
            parameter.normal_(0, 0.3)
    return body


def words(lengths, seed: int = 0) -> torch.Tensor:
    return torch.randn(sum(lengths), WIDTH, generator=torch.Generator().manual_seed(seed))


def test_the_layouts_by_hand():
    rows = torch.tensor([[0], [1], [2], [10], [20], [21]])  # a0 a1 a2 b0 c0 c1
    lengths = torch.tensor([3, 0, 1, 2])
    (first, second) = by_length(lengths, 6, max_sentences=2)
    assert rows[first.rows].squeeze(1).tolist() == [0, 1, 2, 20, 21] and first.lengths.tolist() == [3, 2]
    assert rows[second.rows].squeeze(1).tolist() == [10] and second.lengths.tolist() == [1]
    padded, mask = pad(rows, lengths)
    assert padded.squeeze(2).tolist() == [[0, 1, 2], [0, 0, 0], [10, 0, 0], [20, 21, 0]]
    assert mask.sum(1).tolist() == [3, 0, 1, 2]
    order = time_major(first.lengths)
    assert rows[first.rows[order.rows]].squeeze(1).tolist() == [0, 20, 1, 21, 2]
    assert rows[first.rows[order.flipped]].squeeze(1).tolist() == [2, 21, 1, 20, 0]
    assert order.sizes.tolist() == [2, 2, 1]
    at = edges(lengths, 6)
    assert (at.first.tolist(), at.last.tolist(), at.followed.tolist()) == ([0, 3, 4], [2, 3, 5], [0, 1, 4])


@given(batches, st.integers(1, 9))
def test_padding_and_grouping_can_be_undone(lengths, max_sentences):
    x, sizes = words(lengths), torch.tensor(lengths, dtype=torch.int64)
    padded, mask = pad(x, sizes)
    assert torch.equal(padded[mask], x)
    groups = by_length(sizes, len(x), max_sentences)
    assert torch.equal(in_batch_order([x[group.rows] for group in groups], groups), x)
    assert torch.cat([group.lengths for group in groups]).tolist() == sorted(filter(None, lengths), reverse=True)


@bodies
@given(lengths=batches, seed=st.integers(0, 1000))
def test_a_sentence_gets_the_same_alone_in_any_company_and_order(kind, lengths, seed):
    body, x, sizes = make(kind), words(lengths, seed), torch.tensor(lengths, dtype=torch.int64)
    together = body(x, sizes)
    assert together.shape == (len(x), NUM_TAGS)
    parts, found = x.split(lengths), together.split(lengths)
    for part, scores in zip(parts, found, strict=True):
        torch.testing.assert_close(body(part, torch.tensor([len(part)])), scores, rtol=1e-4, atol=1e-5)
    order = torch.randperm(len(lengths), generator=torch.Generator().manual_seed(seed)).tolist()
    shuffled = body(torch.cat([parts[i] for i in order] or [x]), sizes[order])
    torch.testing.assert_close(shuffled, torch.cat([found[i] for i in order] or [together]), rtol=1e-4, atol=1e-5)


@bodies
def test_more_sentences_than_attention_takes_at_once_change_nothing(kind):
    lengths = [1 + i % 7 for i in range(75)]
    body, x = make(kind), words(lengths)
    alone = torch.cat([body(part, torch.tensor([len(part)])) for part in x.split(lengths)])
    torch.testing.assert_close(body(x, torch.tensor(lengths)), alone, rtol=1e-4, atol=1e-5)


@bodies
@pytest.mark.parametrize("changed", [0, 2, 4])
def test_every_word_sees_every_other_word_of_its_sentence_and_no_other(kind, changed):
    lengths = [3, 5, 1, 4]
    body, x, sizes = make(kind), words(lengths), torch.tensor(lengths)
    other = x.clone()
    other[3 + changed] += 1
    moved = (body(other, sizes) - body(x, sizes)).abs().amax(1)
    assert (moved[3:8] > 1e-4).all()
    assert (torch.cat([moved[:3], moved[8:]]) < 1e-6).all()


def test_the_block_has_no_positions_of_its_own_and_the_lstm_reads_in_order():
    x, lengths = words([6]), torch.tensor([6])
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    block, lstm = make(Block), make(BiLSTM)
    torch.testing.assert_close(block(x[order], lengths), block(x, lengths)[order], rtol=1e-4, atol=1e-5)
    assert (lstm(x[order], lengths) - lstm(x, lengths)[order]).abs().max() > 0.01


def test_the_block_is_a_layer_of_bert():
    hidden = 128
    block = make(Block, hidden)
    config = BertConfig(hidden_size=hidden, num_attention_heads=2, intermediate_size=4 * hidden)
    config._attn_implementation = "eager"
    bert = BertLayer(config).eval()
    heads = bert.attention.self
    pairs = [
        (bert.attention.output.dense, block.attended[0]),
        (bert.attention.output.LayerNorm, block.attended_norm),
        (bert.intermediate.dense, block.feed_forward[0]),
        (bert.output.dense, block.feed_forward[2]),
        (bert.output.LayerNorm, block.norm),
    ]
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())
    for name in ("weight", "bias"):
        chunks = getattr(block.queries_keys_values, name).chunk(3)
        for projection, chunk in zip((heads.query, heads.key, heads.value), chunks, strict=True):
            getattr(projection, name).data.copy_(chunk)
    lengths = [7, 1, 4]
    x = words(lengths)
    wanted = []
    for part in x.split(lengths):
        out = bert(block.enter(part)[None])
        wanted.append(block.leave((out if isinstance(out, torch.Tensor) else out[0])[0]))
    torch.testing.assert_close(block(x, torch.tensor(lengths)), torch.cat(wanted), rtol=1e-4, atol=1e-5)


def test_the_bilstm_is_torchs_sentence_by_sentence():
    body, lengths = make(BiLSTM), [2, 6, 0, 1, 6]
    x = words(lengths)
    wanted = [body.leave(body.lstm(part)[0]) for part in x.split(lengths) if len(part)]
    torch.testing.assert_close(body(x, torch.tensor(lengths)), torch.cat(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("hidden", "num_heads"), [(768, 12), (256, 4), (64, 1), (32, 1), (96, 2), (100, 2), (130, 5), (67, 67)]
)
def test_heads_are_64_wide_where_that_divides_and_else_as_wide_as_can_be(hidden, num_heads):
    assert Block(WIDTH, NUM_TAGS, HiddenOptions(hidden=hidden)).num_heads == num_heads


@bodies
def test_the_width_of_the_input_is_the_hidden_width_unless_it_is_given(kind):
    wide, narrow = (kind(WIDTH, NUM_TAGS, HiddenOptions(hidden=hidden)) for hidden in (None, 4))
    assert wide.leave[1].in_features == WIDTH and narrow.leave[1].in_features == 4


@bodies
def test_gradients_reach_every_parameter_and_the_words(kind):
    body, lengths = make(kind, dropout=0.1).train(), [3, 0, 5, 1]
    x = words(lengths).requires_grad_()
    nn.functional.cross_entropy(body(x, torch.tensor(lengths)), torch.arange(9) % NUM_TAGS).backward()
    assert x.grad is not None and (x.grad.abs().sum(1) > 0).all()
    for name, parameter in body.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name


@bodies
def test_dropout_is_at_work_in_training_only_and_follows_the_seed(kind):
    body, x, lengths = make(kind, dropout=0.3), words([4, 3]), torch.tensor([4, 3])
    assert torch.equal(body(x, lengths), body(x, lengths))
    body.train()
    torch.manual_seed(1)
    first = body(x, lengths)
    torch.manual_seed(1)
    assert torch.equal(body(x, lengths), first) and not torch.equal(body(x, lengths), first)


def test_passes_hang_on_the_number_of_examples():
    options, sizes = SequenceOptions(), (0, 99, 100, 8000, 14041, 131767)
    assert [options.passes(n) for n in sizes] == [20, 20, 20, 20, 12, 10]
    assert [options.mix_passes(n) for n in sizes] == [0, 0, 4, 4, 2, 1]
    chosen = SequenceOptions(epochs=3, mix_epochs=1)
    assert {(chosen.passes(n), chosen.mix_passes(n)) for n in sizes} == {(3, 1)}


def test_a_cpu_learns_few_examples_in_float32_unless_told_otherwise(monkeypatch):
    from boustro.heads import training

    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    monkeypatch.setattr(training, "uses_bf16", lambda device: True)
    monkeypatch.delenv("BOUSTRO_BF16", raising=False)
    assert [training.learns_in_bf16(cpu, n) for n in (99, 100)] == [False, True] and training.learns_in_bf16(gpu, 99)
    assert training.learns_in_bf16(cpu, 9, True) and not training.learns_in_bf16(cpu, 100, False)
    monkeypatch.setenv("BOUSTRO_BF16", "1")
    assert training.learns_in_bf16(cpu, 99)
