"""Folders of sentence-transformers: the vectors of that library, words for taggers, one block of a classifier."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import boustro
from boustro.encoders import sentences, transformer
from boustro.encoders.options import ReadingOptions
from boustro.encoders.sentences import CUT_TEXTS
from boustro.encoders.spec import Spec, load_encoder, open_encoder, with_cache
from boustro.heads.lda_pool import _logistic
from boustro.heads.options import TextOptions
from boustro.heads.registry import make_head
from boustro.models.bert import BertBody
from boustro.models.body import Found
from boustro.models.packed import PACKED_FILE
from boustro.models.products import INT8, works
from boustro.names import CHANNELS_FILE, packaged
from boustro.tasks.data.texts import whole_text

TEXTS = [
    "Ada sold umbrellas in Vellmar.",
    "Brandt in Vellmar",
    "Umbrellas, umbrellas: ADA sold 1,250 of them in Vellmar, Brandt none.",
    "in",
]
TOPICS = [*[f"Ada sold {n} umbrellas" for n in range(6)], *[f"in Vellmar . in {n}" for n in range(6)]]
LABELS = ["sale"] * 6 + ["place"] * 6
POOLINGS = ["cls", "mean", "max", "mean_sqrt_len_tokens", "lasttoken", "weightedmean"]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def made(library, bert, tmp_path_factory):
    """Save a folder with these modules behind its Transformer; the folder, and the model itself."""
    modules = library.sentence_transformer.modules
    base = library.base.modules

    def make(pooling=("mean",), layers=(), lower=False, longest=None, include_prompt=True, **named):
        torch.manual_seed(0)
        first = base.Transformer(str(bert), max_seq_length=longest, do_lower_case=lower)
        pooled = modules.Pooling(32, pooling_mode=tuple(pooling), include_prompt=include_prompt)
        behind = [layer(pooled.get_embedding_dimension(), base, modules) for layer in layers]
        model = library.SentenceTransformer(modules=[first, pooled, *behind], device="cpu", **named)
        folder = tmp_path_factory.mktemp("folder") / "model"
        model.save_pretrained(str(folder))
        return folder, model

    return make


@pytest.fixture(scope="module")
def folder(made):
    return made(layers=[UNIT])[0]


def DENSE(width, base, modules):
    return base.Dense(width, 8)


def RESIDUAL(width, base, modules):
    return base.Dense(width, 6, bias=False, activation_function=torch.nn.GELU(), use_residual=True)


def NORM(width, base, modules):
    return modules.LayerNorm(width)


def UNIT(width, base, modules):
    return base.Normalize()


def encode(folder, texts=TEXTS):
    return boustro.SentenceEncoder(str(folder), "statistics", cache=False, dtype="float32").encode(texts)


@pytest.mark.parametrize(
    "how",
    [
        *({"pooling": [pooling]} for pooling in POOLINGS),
        {"pooling": POOLINGS, "layers": [NORM, DENSE, UNIT]},
        {"layers": [RESIDUAL]},
        {"lower": True},
        {"longest": 7},
        {"prompts": {"topic": "Ada sold "}, "default_prompt_name": "topic"},
        *({"pooling": [pooling], "include_prompt": False, "prompts": {"topic": "in Vellmar: "},
           "default_prompt_name": "topic"} for pooling in ("cls", "mean", "weightedmean", "lasttoken")),
    ],
    ids=lambda how: "-".join(map(str, how)),
)  # fmt: skip
def test_the_vectors_are_those_of_the_library(made, how):
    folder, model = made(**how)
    np.testing.assert_allclose(encode(folder), model.encode(TEXTS), rtol=1e-3, atol=2e-3)


def test_a_text_goes_to_the_tokenizer_as_it_was_given(library, tiny_lm, tmp_path, monkeypatch):
    """Byte-level BPE has pieces for white space, which words do not keep; in the cache, too, each text has its own."""
    model = library.SentenceTransformer(str(tiny_lm("gpt2")), device="cpu")
    model.tokenizer.pad_token = model.tokenizer.eos_token
    model.save_pretrained(str(tmp_path / "folder"))
    texts = ["in\n\nVellmar", "in Vellmar", " in Vellmar", "in  Vellmar\t", "in\u00a0Vellmar", "in\r\nVellmar\n"]
    expected = model.encode(texts)
    assert len(np.unique(expected.round(4), axis=0)) == len(texts)
    np.testing.assert_allclose(encode(tmp_path / "folder", texts), expected, rtol=1e-3, atol=2e-3)
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))
    how = ReadingOptions(dtype="float32")
    for text, vector in zip(texts, expected, strict=True):
        cached = open_encoder(str(tmp_path / "folder"), how, reads="text", cache=True)
        sentence = whole_text(text).sentence
        for read in (sentence, sentence):
            np.testing.assert_allclose(cached.read_all([read]).streams[0][0, 0], vector, rtol=1e-3, atol=2e-3)
    assert whole_text(texts[0]).sentence.without(0).text is None


def test_a_folder_of_early_versions_is_read(made, tmp_path):
    """The Transformer in a folder of its own, a flag for each pooling, and types without their modules."""
    folder, model = made(["cls", "mean"])
    old = tmp_path / "old"
    shutil.copytree(folder, old / "0_Transformer", ignore=lambda *_: ["1_Pooling", "modules.json"])
    flags = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}
    (old / "1_Pooling").mkdir()
    (old / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **flags}))
    kinds = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling")]
    (old / "modules.json").write_text(
        json.dumps([{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds])
    )
    np.testing.assert_allclose(encode(old), model.encode(TEXTS), rtol=1e-3, atol=2e-3)
    Spec.parse(str(old)).check()


def test_the_encoder_of_an_encoder_decoder_gives_vectors_and_no_words(library, bert, tmp_path):
    from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(bert)
    config = T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    tokenizer.save_pretrained(tmp_path / "t5")
    model = library.SentenceTransformer(str(tmp_path / "t5"), device="cpu")
    model.save_pretrained(str(tmp_path / "folder"))
    np.testing.assert_allclose(encode(tmp_path / "folder"), model.encode(TEXTS), rtol=1e-3, atol=2e-3)
    with pytest.raises(ValueError, match=r"its Transformer is a t5, whose words are not read"):
        load_encoder(str(tmp_path / "folder"))


def test_taggers_read_the_words_and_texts_both(folder):
    words = [whole_text(text).sentence for text in TEXTS]
    options = {"layers": "0,last", "pooling": "mean", "dtype": "float32"}
    plain = load_encoder(f"masked:{folder}", **options).encode_all(words)
    ((only,), (states, vectors)) = (
        open_encoder(str(folder), ReadingOptions(**options), reads=reads).read_all(words).streams
        for reads in ("words", "both")
    )
    np.testing.assert_allclose(only, plain.streams[0], atol=1e-6)
    np.testing.assert_allclose(states, plain.streams[0], atol=1e-6)
    expected = np.repeat(encode(folder), [len(text) for text in words], axis=0)
    np.testing.assert_allclose(vectors[:, 0], expected, rtol=1e-3, atol=1e-3)
    tagger = boustro.Tagger(str(folder), cache=False)
    assert [stream.whole for stream in tagger.encoder().streams] == [False]


def test_what_is_cut_is_counted(made):
    encoder = boustro.SentenceEncoder(str(made(longest=4)[0]), "statistics", cache=False)
    encoder.encode(TEXTS)
    assert encoder.notices()[CUT_TEXTS] == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"modules.json": "[1]"}, "expected a list of modules, each with its type"),
        ({"modules.json": '[{"type": "sentence_transformers.models.BoW"}]'}, "its modules begin with BoW"),
        ({"modules.json": '[{"type": "mine.Reader"}]'}, "its modules begin with mine.Reader"),
        ({"1_Pooling/config.json": '{"pooling_mode": "median"}'}, "unknown pooling 'median'"),
        ({"2_Dense/config.json": '{"out_features": 8}'}, "lacks what a Dense needs"),
        ({"2_Dense/config.json": '{"in_features": 32, "out_features": 8, "activation_function": "os.system"}'},
         r"its activation os.system is none of torch.nn"),
        ({"2_Dense/config.json": '{"in_features": 32, "out_features": 9}'}, "are not those of its config.json"),
        ({"2_Dense/config.json": '{"module_input_name": "token_embeddings"}'}, "is about token_embeddings"),
        ({"2_Dense/model.safetensors": None}, "no model.safetensors"),
        ({"config_sentence_transformers.json": '{"default_prompt_name": "topic"}'}, "default prompt is 'topic'"),
        ({"sentence_bert_config.json": '{"transformer_task": "fill-mask"}'}, "made for fill-mask"),
    ],
)  # fmt: skip
def test_what_is_not_read_as_it_was_made_is_refused(made, tmp_path, change, message):
    folder = shutil.copytree(made(layers=[DENSE])[0], tmp_path / "folder")
    for name, content in change.items():
        (folder / name).unlink() if content is None else (folder / name).write_text(content)
    with pytest.raises(ValueError, match=message) as raised:
        encode(folder)
    assert str(folder) in str(raised.value)


def test_another_module_is_refused_by_name(folder, tmp_path):
    changed = shutil.copytree(folder, tmp_path / "folder")
    modules = json.loads((changed / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.LSTM"
    (changed / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=r"its module LSTM \(2_Normalize\) is not read"):
        boustro.Classifier(str(changed), cache=False).fit(TOPICS, LABELS)
    with pytest.raises(ValueError, match=r"no modules\.json, so this is no folder of sentence-transformers"):
        load_encoder(f"sentences:{tmp_path}")


def head_over(texts, states, vectors, ids, count):
    """An lda-pool head that learned texts of two words with these states (S, d) and vectors (S, v)."""
    streams = [np.repeat(array, 2, 0)[:, None] for array in (states, vectors) if array is not None]
    shapes = [(1, states.shape[1])] if states is not None else []
    shapes += [(1, vectors.shape[1], None, True)]
    head = make_head("lda-pool", TextOptions(), shapes, [str(n) for n in range(count)])
    head.mixes.fit(streams)
    mixed = head.mix([torch.from_numpy(stream) for stream in streams])
    lengths = torch.full((texts,), 2)
    head.solve(head.pool(mixed, lengths), torch.from_numpy(ids), lengths)

    def answer(states, vectors):
        given = [np.repeat(array, 2, 0)[:, None] for array in (states, vectors) if array is not None]
        words = head.mix([torch.from_numpy(array) for array in given])
        return np.stack(head.predict(words, torch.full((len(vectors),), 2)))

    return answer


@pytest.fixture(scope="module")
def topics():
    """Unit vectors around the centre of each of five topics, two or twenty examples of each, and others to judge by."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5, 24))

    def draw(each):
        ids = np.tile(np.arange(5), each)
        vectors = centres[ids] + 1.3 * rng.normal(size=(len(ids), 24))
        noise = rng.normal(size=(len(ids), 40)).astype(np.float32)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), noise, ids

    return draw


def test_labels_of_vectors_count_the_same_as_in_scikit_learn(topics):
    (x, _, ids), (others, _, _) = topics(4), topics(50)
    unequal = np.arange(len(ids)) % 5 <= np.arange(len(ids)) // 5 + 1
    weight, bias = _logistic(x[unequal], ids[unequal], np.zeros((5, 24), np.float32), np.zeros(5))
    model = LogisticRegression(C=10, tol=1e-8, max_iter=2000, fit_intercept=False, class_weight="balanced")
    expected = model.fit(x[unequal], ids[unequal]).decision_function(others)
    np.testing.assert_allclose(others @ weight.T + bias, expected, atol=5e-3)  # it ends a little earlier


@pytest.mark.parametrize(("each", "draws"), [(2, 5), (16, 2)])
def test_states_that_say_nothing_take_nothing_from_the_vector(topics, each, draws):
    right = []
    for _ in range(draws):
        (x, noise, ids), (others, other_noise, gold) = topics(each), topics(60)
        alone = LogisticRegression(C=10, max_iter=2000).fit(x, ids).score(others, gold)
        scores = head_over(len(x), noise, x, ids, 5)(other_noise, others)
        right.append((alone, (scores.argmax(1) == gold).mean()))
    alone, both = np.mean(right, 0)
    assert both > alone - 0.02


def test_states_that_know_more_are_read_beside_the_vector(topics):
    (x, noise, ids), (others, other_noise, gold) = topics(8), topics(60)
    told, other_told = (
        np.concatenate([3 * np.eye(5, dtype=np.float32)[n], e], 1) for n, e in ((ids, noise), (gold, other_noise))
    )
    scores = head_over(len(x), told, x, ids, 5)(other_told, others)
    assert (scores.argmax(1) == gold).mean() > LogisticRegression(C=10).fit(x, ids).score(others, gold) + 0.05


@pytest.mark.parametrize("joined", ["", "+starter-words"])
def test_a_classifier_is_cached_saved_and_opened(folder, tmp_path, monkeypatch, joined):
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))
    classifier = boustro.Classifier(f"{folder}{joined}").fit(TOPICS, LABELS)
    assert [stream.whole for stream in classifier.encoder().streams][:2] == [False, True]
    classifier.save_pretrained(tmp_path / "topics")
    opened = boustro.Classifier.from_pretrained(tmp_path / "topics")
    assert [answer.label for answer in opened.predict(TOPICS)] == LABELS
    for a, b in zip(opened.predict_proba(TEXTS), classifier.predict_proba(TEXTS), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    assert boustro.SentenceEncoder(f"{folder}{joined}", "statistics").fit(TOPICS).encode("Ada left").any()


def test_words_stand_beside_a_vector_of_a_text_only_where_there_are_many(folder):
    texts, labels = [f"{text} {n}" for n in range(4) for text in TOPICS], LABELS * 4
    few = boustro.Classifier(str(folder), cache=False).fit(texts, labels)
    assert len(texts) >= 20 and few.plan.head_kind == "lda-pool" and not few.config.words
    other = boustro.Classifier(f"masked:{folder}", cache=False).fit(texts, labels)
    many = boustro.Classifier(str(folder), "mlp-pool", cache=False, epochs=1).fit(texts, labels)
    assert other.config.words and many.config.words


def test_pairs_and_several_labels_read_both(folder):
    several = [(text, [label]) for text, label in zip(TOPICS, LABELS, strict=True)]
    many = boustro.Classifier(str(folder), cache=False, epochs=1).fit(several)
    pairs = [
        (a, b, str(LABELS[n] == LABELS[-n - 1])) for n, (a, b) in enumerate(zip(TOPICS, TOPICS[::-1], strict=True))
    ]
    pairs += [(a, a, "True") for a in TOPICS]
    compared = boustro.PairClassifier(str(folder), cache=False, epochs=1).fit(pairs)
    for model in (many, compared):
        assert [stream.whole for stream in model.encoder().streams] == [False, True]


@pytest.mark.parametrize("reads", ["words", "text", "both"])
def test_each_file_of_a_packed_folder_is_opened_once(reads, tmp_path, monkeypatch):
    folder, opened = tmp_path / "texts", Counter[str]()
    shutil.copytree(packaged("starter-texts").path, folder)
    real = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *given, **how: opened.update([path.name]) or real(path, *given, **how)
    )
    open_encoder(str(folder), ReadingOptions(), reads=reads)
    assert opened[PACKED_FILE] == opened[CHANNELS_FILE] == opened["tokenizer.json"] == 1
    assert {name: count for name, count in opened.items() if count > 1} == {"config.json": 2}  # also that of a module


@pytest.mark.skipif(not works(), reason="products in int8 are not right here")
@pytest.mark.parametrize("cached", [False, True])
def test_a_text_is_read_once_where_its_words_have_its_pieces(tmp_path, monkeypatch, cached):
    """A piece that frames a text is letters in a word; of a text 256 pieces are read, of words 510."""
    for module in (sentences, transformer):
        monkeypatch.setattr(module, "compute_type", lambda *given, **named: INT8)
    others = ["[SEP] Ada", "in " * 300]
    words = [whole_text(text).sentence for text in (*TEXTS, TEXTS[0], *others)]
    how = ReadingOptions(layers="0,last")
    (alone,) = open_encoder("starter-texts", how, reads="text").read_all(words).streams
    encoder, read = open_encoder("starter-texts", how, reads="both"), []
    encoder.identity()  # looks at states, too
    encoder = with_cache(encoder, tmp_path) if cached else encoder
    states = BertBody.states
    monkeypatch.setattr(BertBody, "states", lambda self, ids, mask: read.extend(ids) or states(self, ids, mask))
    for _ in range(1 if cached else 2):
        read.clear()
        _, vectors = encoder.read_all(words).streams
        np.testing.assert_array_equal(vectors, alone)
        assert len(read) == len(TEXTS) + 2 * len(others)


@pytest.mark.parametrize("reads", ["words", "text", "both"])
def test_the_folder_of_the_package_has_the_states_of_transformers_without_it(reads, monkeypatch):
    how = ReadingOptions(layers="0,50%,last", dtype="float32")
    encoder = open_encoder("starter-texts", how, reads=reads)
    for module in (transformer, sentences):
        monkeypatch.setattr(module, "find_own", Found)
    theirs = open_encoder("starter-texts", how, reads=reads)
    assert encoder.identity() == theirs.identity() and encoder.num_parameters < theirs.num_parameters  # its pooler
    words = [whole_text(text).sentence for text in TEXTS]
    for own, other in zip(encoder.read(words), theirs.read(words), strict=True):
        for one, two in zip(own, other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_states_that_float16_cannot_hold_are_refused(folder):
    encoder = load_encoder(str(folder), dtype="float16", reads="text")
    encoder.body.last = lambda ids, mask: torch.full((*ids.shape, 32), torch.inf, dtype=torch.float16)
    with pytest.raises(ValueError, match="give --dtype bfloat16 or float32"):
        encoder.encode_all([["Ada", "left"]])
