"""`Tagger.live`: text that arrives is tagged as whole text is, whatever the tagger and the chunks."""

import gc
import shutil
import tracemalloc
from copy import copy, deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from boustro import Tagger
from boustro.apps.live.stream import MOST_DELAY, Live, Word
from boustro.encoders.arriving import RowVectors, WordBuffer, WordRange, reads_incrementally
from boustro.encoders.spec import load_encoder
from boustro.features.training import Versions, cut_inputs
from boustro.text.alignment import guess_spaces
from boustro.types import Sentence
from labelled import DATA

TEXT = (
    "The ferry to Vellmar leaves at seven, and Ada Brandt is never on time. Mr Okonkwo sold 1,250 umbrellas in Port "
    "Lisse.\n“Nobody reads it,” said Ines Calloway (who didn't). Ada Brandt 中国 👩‍👩‍👧 flew to Vellmar; Ada left Lis"
    "se "
)
KINDS = {
    "pair": ("{pair}", "mlp", {"hidden": 16}),
    "forward only": ("{lm}", "mlp", {"hidden": 16}),
    "backward, by a threshold": ("{back}", "linear", {"threshold": 0.3}),
    "memory, bioes": ("memory:{memory}", "linear", {"tag_scheme": "bioes"}),
    "memory of the training data": ("{pair}", "linear", {"memory": True, "spelling": True}),
    "pooled mentions": ("{pair}", "linear", {"pool_mentions": True}),
    "without a CRF": ("{pair}", "linear", {"crf": False}),
    "best tag of each word": ("{pair}", "linear", {"crf": False, "decode": "argmax"}),
    "spans": ("{pair}", "span", {"hidden": 16}),
    "ridge": ("{pair}", "ridge", {}),
    "block": ("{pair}", "block", {"hidden": 16}),
    "bilstm": ("{pair}", "bilstm", {"hidden": 16}),
    "other places, io": ("{pair}", "linear", {"pooling": "mean+first", "tag_scheme": "io"}),
    "masked": ("masked:{masked}", "linear", {}),
    "unmasked": ("unmasked:{lm}", "linear", {}),
    "repeated": ("repeated:{lm}", "linear", {}),
    "fused": ("fused:{fusion}", "linear", {}),
    "elmo": ("elmo:{elmo}", "linear", {}),
    "adapted": ("unmasked:{adapted}", "linear", {}),
}
FEW = ("pair", "pooled mentions", "spans", "masked")
"""Those that are tried in all ways; with others, the further ways are marked `long`."""
REREADS = {"masked", "unmasked", "repeated", "fused", "elmo", "adapted"}


@pytest.fixture(scope="module")
def make(world, tiny_pair):
    """make(kind, context="document") → a tagger that has learned a little, made once."""
    made = {}

    def of(kind: str, context: str = "document") -> Tagger:
        if (kind, context) not in made:
            spec, head, options = KINDS[kind]
            steps = {} if head == "ridge" else {"epochs": 20, "lr": 1e-2}
            data = DATA if context == "sentence" else [_in_document(s) for s in Tagger.read(DATA)]
            spec = world.fill(spec.replace("{pair}", tiny_pair))
            made[kind, context] = Tagger(spec, head, context=context, cache=False, **steps, **options).fit(data, seed=1)
        return made[kind, context]

    return of


def _in_document(sentence):
    return replace(sentence, document="d")


def read(live, text, cuts=()):
    """All events; what is promised of each is checked."""
    events, covered = [], []
    for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
        before = live.safe
        events += (some := live.feed(text[start:stop]))
        assert before <= live.safe <= live.length == stop and live.kept <= live.safe
        assert live.text == text[live.kept : stop]
        for event in some:
            if event.kind == "final":
                assert before <= event.start < event.end <= live.safe
                covered.append(event)
            elif event.label:
                assert live.safe <= event.start
    events += live.end()
    assert live.safe == len(text) and not live.entities
    for event in events:
        assert event.text == text[event.start : event.end]
    return events


def finals(events):
    return sorted((e.start, e.end, e.label) for e in events if e.kind == "final")


def whole(tagger, text):
    return sorted((e.start, e.end, e.label) for e in tagger.predict(text))


def both_ways(one, other, kinds=tuple(KINDS)):
    """Every kind in one way, and `FEW` in the other one too."""
    for kind in kinds:
        yield kind, one
        yield pytest.param(kind, other, marks=() if kind in FEW else pytest.mark.long)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_delay_the_end_gives_what_predict_gives(make, kind):
    tagger = make(kind)
    events = read(Live(tagger, None), TEXT, [3, 40, 41, 90, 150, 151])
    assert [(e.label, e.start, e.end, e.text, e.score) for e in events if e.kind == "final"] == [
        (e.label, e.start, e.end, e.text, e.score) for e in tagger.predict(TEXT)
    ]
    assert not any(e.kind == "final" for e in Live(tagger, None).feed(TEXT))


@pytest.mark.parametrize(
    ("kind", "context"),
    [*both_ways("document", "sentence", [kind for kind in KINDS if kind not in REREADS])],
)
def test_with_the_whole_right_side_it_finds_what_predict_finds(make, kind, context):
    tagger = make(kind, context)
    live = Live(tagger, MOST_DELAY)
    events = read(live, TEXT, [3, 40, 41, 90, 150, 151])
    assert finals(events) == whole(tagger, TEXT)
    assert finals(events) or kind in ("spans", "bilstm")
    scores = {(e.start, e.end): e.score for e in tagger.predict(TEXT)}
    assert all(abs(scores[e.start, e.end] - e.score) < 2e-3 for e in events if e.kind == "final")
    assert not live.rereads and not live.notice


@pytest.mark.parametrize("kind", ["pair", "masked"])
@pytest.mark.parametrize("delay", [None, 8, MOST_DELAY])
def test_a_long_word_is_no_more_to_read_than_its_ends(make, monkeypatch, kind, delay):
    tagger, read_pieces, given = make(kind), 0, torch.nn.Embedding.forward

    def count(self, ids):
        nonlocal read_pieces
        read_pieces += ids.numel()
        return given(self, ids)

    monkeypatch.setattr(torch.nn.Embedding, "forward", count)
    work = []
    for times in (33, 33, 2_000):  # a model is tried when it first reads
        text = f"Ada Brandt sent {'xY/+' * times}== to Ines Calloway in Port Lisse. "
        read_pieces = 0
        found = finals(read(Live(tagger, delay), text, range(7, len(text), 7)))
        work.append(read_pieces)
        assert delay == 8 or found == whole(tagger, text)
    assert work[1] == work[2] > 0


@pytest.mark.parametrize(("kind", "delay"), [*both_ways(3, 0)])
def test_chunks_change_nothing_that_is_final(make, kind, delay):
    tagger, text = make(kind), TEXT[60:230]
    at_once = finals(read(Live(tagger, delay), text))
    assert finals(read(Live(tagger, delay), text, list(range(1, len(text))))) == at_once
    assert finals(read(Live(tagger, delay), text, list(range(5, len(text), 17)))) == at_once


@given(st.lists(st.integers(0, len(TEXT)), max_size=12), st.sampled_from([0, 1, 2, 8]), st.sampled_from(sorted(KINDS)))
def test_nothing_is_called_safe_too_early(make, cuts, delay, kind):
    read(Live(make(kind), delay), TEXT, sorted(cuts))


@pytest.mark.parametrize("kind", sorted(REREADS))
def test_encoders_that_read_both_ways_say_that_they_read_anew(make, kind):
    live = Live(make(kind), 2)
    assert live.rereads and "read anew" in live.notice


def test_provisional_entities_are_revised_and_become_final(make):
    live = Live(make("pair"), 2, wait=0)
    standing = set()
    for character in TEXT:
        for e in live.feed(character):
            key = (e.label, e.start, e.end)
            if e.was:
                standing.remove(e.was)
            elif e.kind == "final":
                standing.discard(key)
            if e.kind != "final" and e.label:
                assert key not in standing
                standing.add(key)
        assert standing == {(e.label, e.start, e.end) for e in live.entities}


def test_an_entity_is_told_when_enough_words_follow(make):
    """Whatever is told for now is what stands, when it has so many words behind it."""
    early, late = Live(make("pair"), 8, wait=0), Live(make("pair"), 8, wait=3)
    for n, word in enumerate(TEXT.split(" ")):
        for live in (early, late):
            live.feed(f"{word} ")
        if n > 4:
            words = late._engine.words
            shown = {(e.label, e.start, e.end) for e in early.entities}
            expected = {e for e in shown if sum(w.start >= e[2] for w in words.between(words.base, words.stop)) >= 3}
            assert {(e.label, e.start, e.end) for e in late.entities} == expected


def test_memory_does_not_grow(make):
    live = Live(make("pair"), 2)
    for _ in range(4):
        live.feed(TEXT)
    tracemalloc.start()
    for _ in range(2):  # what is in memory rises and falls by two texts
        live.feed(TEXT)
    gc.collect()
    early = tracemalloc.get_traced_memory()[0]
    for _ in range(5):
        live.feed(TEXT)
    gc.collect()
    late = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert late - early < 100_000  # five texts that stay are 210,000


@pytest.mark.parametrize(("kind", "delay"), [("pair", 0), ("forward only", 3), ("block", 3), ("without a CRF", 3)])
def test_an_entity_without_an_end_is_final_in_parts(make, monkeypatch, kind, delay):
    monkeypatch.setattr("boustro.apps.live.engine.SENTENCE_WORDS", 20)
    tagger = deepcopy(make(kind))
    last = [m for m in tagger.fitted.head.body.modules() if isinstance(m, torch.nn.Linear)][-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.fill_(-1e3)
        last.bias[[tagger.fitted.head.labels.index(tag) for tag in ("B-PER", "I-PER")]] = torch.tensor([0.0, 1e3])
    live, events = Live(tagger, delay), []
    for n in range(100):
        events += live.feed(f"word{n} ")
        assert live.length - live.safe < 8 * (20 + delay + 2)
        assert sum(len(track.vectors) for track in live._engine._tracks) <= 20 + delay + 1
    events += live.end()
    parts = [e for e in events if e.kind == "final"]
    assert {e.label for e in parts} == {"PER"} and len(parts) >= 5
    assert "".join(e.text for e in parts).replace(" ", "") == "".join(f"word{n}" for n in range(100))


@pytest.mark.parametrize("delay", [-1, 257, 2.5, "8", True])
def test_a_bad_delay_is_an_error(make, delay):
    with pytest.raises(ValueError, match="words from 0 to 256"):
        Live(make("pair"), delay)
    with pytest.raises(ValueError, match="wait is"):
        Live(make("pair"), 2, wait=delay)


def test_a_tagger_that_needs_the_whole_text_cannot_stream(make):
    promising = copy(make("pair"))
    promising._lists = SimpleNamespace(recall=0.9)
    with pytest.raises(ValueError, match="cannot stream: a promise of recall"):
        Live(promising)


def test_nothing_comes_after_the_end(make):
    live = Live(make("pair"))
    live.end()
    for call in (live.end, lambda: live.feed("a")):
        with pytest.raises(ValueError, match="has ended"):
            call()
    with pytest.raises(ValueError, match="expected text"):
        Live(make("pair")).feed(b"bytes")
    with pytest.raises(ValueError, match="not trained"):
        Live(Tagger("starter"))


def test_states_of_another_shape_are_an_error(make):
    class Wrong:
        def append(self, words):
            return np.zeros((len(words), 1, 7), np.float16)

    with pytest.raises(ValueError, match="words x layers x width"):
        Live(make("pair"), 2, states=Wrong()).feed("Ada left Lisse")


def test_the_first_lm_reads_a_text_longer_than_its_window(make):
    text = TEXT * 3
    tagger = make("forward only")
    assert finals(read(Live(tagger, 4), text, [200, 201, 400])) == whole(tagger, text)


@pytest.mark.parametrize("head", ["mlp", "span", "ridge"])
def test_a_head_can_learn_with_fewer_words_behind(tiny_pair, tmp_path, head):
    steps = {} if head == "ridge" else {"epochs": 20, "lr": 1e-2, "hidden": 16}
    tagger = Tagger(tiny_pair, head, live=True, cache=False, **steps).fit(DATA, DATA, seed=1)
    assert tagger.fitted.head.side == 7
    assert tagger.record["notices"]["training sentences read with fewer words behind each word"]
    tagger.save_pretrained(tmp_path / "ner")
    again = Tagger.from_pretrained(tmp_path / "ner")
    assert whole(again, TEXT) == whole(tagger, TEXT)
    for delay in (0, 2):
        assert finals(read(Live(again, delay), TEXT)) == finals(read(Live(tagger, delay), TEXT, [9, 99]))
    assert finals(read(Live(again, MOST_DELAY), TEXT)) == whole(tagger, TEXT)


def test_what_is_cut_is_what_a_stream_reads(tiny_pair):
    """Training words with two words behind them have the vectors of words that become final with a delay of 2."""
    tagger = Tagger(tiny_pair, "linear", epochs=1, cache=False).fit(DATA, seed=1)
    sentences = [Sentence(tuple(TEXT.split()[:12]))]
    encoder = tagger.encoder()
    inputs = tagger.fitted.inputs(sentences)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("boustro.features.training.DELAYS", (2,))
        cut, counts = cut_inputs(encoder, "sentence", sentences, inputs, seed=1)
    assert list(counts.values()) == [1]
    whole_spaces = guess_spaces(sentences[0].words)
    for way, last in enumerate((12, 1, 3)):  # words that are there, from each word on
        for number in range(13 - last if way else 12):
            stop = min(number + last, 12)
            seen = Sentence(sentences[0].words[:stop], spaces=tuple(whole_spaces[:stop]))
            for stream, own in zip(cut.streams, encoder.encode_all([seen]).streams, strict=True):
                np.testing.assert_allclose(stream[12 * way + number], own[number], atol=2e-2)
    sides = {tuple(np.argmax(cut.batch(np.array([0])).side.numpy(), 1)) for _ in range(50)}  # type: ignore[union-attr]
    assert sides == {(6,) * 12, (0,) * 12, (2,) * 10 + (6, 6)}


def test_a_batch_has_one_version_of_a_sentence():
    """Two sentences, of 3 words and of 1, in two ways."""
    features, sides = np.arange(8, dtype=np.float32).reshape(8, 1, 1), np.repeat([[0.0], [1.0]], 4, axis=0)
    inputs = Versions([features], np.array([3, 1]), sides, seed=1)
    seen = set()
    for _ in range(50):
        rows, lengths, side = inputs.arrays(np.array([1, 0]))
        assert lengths.tolist() == [1, 3] and side is not None and side[:, 0].tolist() == (rows >= 4).tolist()
        seen.add(tuple(rows.tolist()))
    assert seen == {(3, 0, 1, 2), (3, 4, 5, 6), (7, 0, 1, 2), (7, 4, 5, 6)}
    for part in (inputs.select(np.array([1])), inputs.keep(np.array([1]))):
        rows = {part.arrays(np.array([0]))[0].item() for _ in range(50)}
        assert {part.streams[0][row, 0, 0] for row in rows} == {3, 7} and part.side_width == 1 and len(part) == 1


@pytest.mark.parametrize("kind", ["memory of the training data", "pooled mentions"])
def test_a_text_is_cut_as_an_engine_reads_it_word_by_word(make, kind, monkeypatch):
    """In blocks as alone; of the mentions of a word those count that are final, near enough, and in its row."""
    monkeypatch.setattr("boustro.features.training.DELAYS", (2,))
    monkeypatch.setattr("boustro.features.training.MEMORY_BLOCK_WORDS", 20)
    monkeypatch.setattr("boustro.encoders.arriving.MENTION_WORDS", 6)
    texts = ["Ada left Lisse .", "Ada saw Ada and Lisse .", "Ada and Ada left ."]
    sentences = [Sentence(tuple(text.split()), document="d") for text in texts]
    flat = [word for sentence in sentences for word in sentence.words]
    tagger = make(kind)
    encoder = tagger.encoder()
    cut, _ = cut_inputs(encoder, "document", sentences, tagger.fitted.inputs(sentences), seed=1)
    words, single = WordBuffer(), []
    vectors = RowVectors(encoder, words, by_sentence=False)
    spaces = [space for sentence in sentences for space in guess_spaces(sentence.words)]
    starts = {0, 4, 10}
    for number, (word, space) in enumerate(zip(flat, spaces, strict=True)):
        words.append(Word(word, 0, 0, space, number in starts))
        vectors.append(number)
        streams = vectors.read([WordRange(max(number - 2, 0), number + 1, number >= 2)])
        if number >= 2:
            single.append(streams)
    for number, streams in enumerate(single):
        for stream, own in zip(cut.streams, streams, strict=True):
            np.testing.assert_allclose(stream[2 * len(flat) + number], own[0], atol=2e-2)
    if kind == "pooled mentions":
        for number, streams in enumerate(single):
            near = [n for n in range(max(number - 6, 0), number) if flat[n] == flat[number]]
            here = [k for k in range(3) if flat[number + k] == flat[number]]
            for stream, pooled in zip(streams[:2], streams[2:], strict=True):
                index = next(k for k, s in enumerate(streams) if s is stream)
                mentions = [*(single[n][index][0, -1] for n in near), *(stream[k, -1] for k in here)]
                np.testing.assert_allclose(pooled[0, 0], np.mean(mentions, axis=0, dtype=np.float32), atol=2e-2)


def test_words_whose_vectors_stay_are_scored_once(make, monkeypatch):
    tagger, scored = make("forward only"), []
    head = tagger.fitted.head
    scores = head.scores
    monkeypatch.setattr(
        head, "scores", lambda vectors, lengths: scored.append(len(vectors)) or scores(vectors, lengths)
    )
    live = Live(tagger, 8)
    for word in "Ada Brandt left Port Lisse on Monday and saw Ines Calloway there".split():
        live.feed(f"{word} ")
    live.end()
    assert sum(scored) == 12


@pytest.mark.parametrize(("spec", "options"), [("{lm}", {}), ("masked:{masked}", {}), ("{lm}", {"memory": True})])
def test_what_cannot_be_cut_is_an_error_before_it_is_read(world, spec, options, monkeypatch):
    monkeypatch.setattr("boustro.features.reader.Reader.read", lambda *given, **how: pytest.fail("read"))
    with pytest.raises(ValueError, match="live"):
        Tagger(world.fill(spec), "linear", live=True, cache=False, epochs=1, **options).fit(DATA, seed=1)


def test_an_lm_whose_cache_gives_other_states_is_not_read_piece_by_piece(tiny_tokenizer, tmp_path):
    """Mamba's cache is for single pieces: several at once are a few thousandths off, less than its largest value is."""
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 400, "state_size": 4}
    AutoModelForCausalLM.from_config(AutoConfig.for_model("mamba", **shape)).save_pretrained(tmp_path / "mamba")
    shutil.copytree(tiny_tokenizer, tmp_path / "mamba", dirs_exist_ok=True)
    encoder = load_encoder(str(tmp_path / "mamba"), "all", dtype="float32", cache=False)
    assert not reads_incrementally(encoder)
