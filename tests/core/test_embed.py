"""Sentence embeddings: pooling by hand, transforms, folders, refusals, and the module for sentence-transformers."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA

import boustro
from boustro.heads.embedding import contrast, cosent, first_component, pool_words, remove_component
from boustro.heads.transforms import TRANSFORMS, Standardised, TopRemoved, Whitened, shrunk_covariance
from boustro.store import write_folder
from boustro.tasks.data.texts import whole_text
from boustro.tasks.embed.data import neighbours, read_texts_in_order
from boustro.tasks.embed.labelling import UNKNOWN_TEXTS, ZERO_VECTORS, WordFrequencies, cosines
from boustro.tasks.embed.task import SentenceEncoder, nearest_texts
from boustro.types import Sentence
from conftest import SENTENCES
from embedding import MORE, PAIRS, TEXTS, statistics

FAST = {"epochs": 3, "hidden": 8, "dropout": 0.0, "lr": 3e-3}


def embedding(spec, **options):
    """One with a head that is trained in a moment."""
    return boustro.SentenceEncoder(spec, cache=False, dtype="float32", **FAST | options)


@pytest.fixture(scope="module")
def fitted(tiny_pair):
    return statistics(tiny_pair).fit(TEXTS)


@pytest.fixture(scope="module")
def trained(tiny_pair):
    return embedding(tiny_pair, layers="0,2").fit(PAIRS, dev=PAIRS[:12], seed=1)


def test_sif_by_hand():
    frequencies = WordFrequencies.fit([Sentence(("the", "cat")), Sentence(("The", "dog"))])
    sentence = Sentence(("The", "cat", "ran"))
    weights = frequencies.weights(sentence, smoothing=0.5)  # p: 2/4, 1/4, 0
    np.testing.assert_allclose(weights, [0.5 / 1.0, 0.5 / 0.75, 1.0], rtol=1e-6)
    vectors = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 6.0]], np.float16)
    np.testing.assert_allclose(pool_words(vectors, weights), [(0.5 + 2.0) / 3, (1.0 + 6.0) / 3], rtol=1e-3)


def test_the_first_component_is_that_of_an_svd_and_is_gone():
    rows = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32) + 2
    u = first_component(rows)
    expected = np.linalg.svd(rows, full_matrices=False)[2][0]
    np.testing.assert_allclose(np.abs(u @ expected), 1, atol=1e-5)
    np.testing.assert_allclose(remove_component(rows, u) @ u, 0, atol=1e-4)
    np.testing.assert_allclose(remove_component(rows, u), rows - np.outer(rows @ expected, expected), atol=1e-4)


def test_the_whole_of_sif_from_the_vectors_of_words(tiny_pair):
    encoder = statistics(tiny_pair, transform="raw").fit(TEXTS)
    features = boustro.load_encoder(tiny_pair, layers="0", pooling="exit", dtype="float32")
    read = [whole_text(text).sentence for text in TEXTS]
    words = [word.lower() for sentence in read for word in sentence.words]
    share = {word: words.count(word) / len(words) for word in words}
    means = []
    for sentence, arrays in zip(read, features.encode(read), strict=True):
        joined = np.concatenate([array[:, 0] for array in arrays], axis=1)
        means.append(sum(1e-3 / (1e-3 + share[w.lower()]) * x for w, x in zip(sentence.words, joined, strict=True)))
        means[-1] = means[-1] / len(sentence)
    u = np.linalg.svd(np.stack(means), full_matrices=False)[2][0]
    np.testing.assert_allclose(encoder.encode(TEXTS), np.stack(means) - np.outer(np.stack(means) @ u, u), atol=1e-3)


def test_mean_needs_no_texts_and_is_the_mean(tiny_pair):
    encoder = statistics(tiny_pair, text_pooling="mean", transform="raw", layers="last")
    (vector,) = encoder.encode(["Ada Brandt left."])
    streams = next(boustro.load_encoder(tiny_pair, layers="last", pooling="exit", dtype="float32").encode(
        [whole_text("Ada Brandt left.").sentence]))  # fmt: skip
    np.testing.assert_allclose(vector, np.concatenate([x[:, 0] for x in streams], axis=1).mean(0), atol=1e-3)


def test_order_and_batch_size_change_nothing(fitted, trained):
    for encoder in (fitted, trained):
        expected = encoder.encode(TEXTS)
        assert expected.shape == (len(TEXTS), encoder.width) and expected.dtype == np.float32
        np.testing.assert_allclose(encoder.encode(TEXTS[::-1], batch_size=7)[::-1], expected, atol=2e-4)
        np.testing.assert_allclose(encoder.encode(iter(TEXTS), batch_size=1), expected, atol=2e-4)


def test_encode_has_the_arguments_of_sentence_transformers(fitted):
    one, several = fitted.encode("Ada left."), fitted.encode(["Ada left."])
    assert one.shape == (fitted.width,) and np.array_equal(one, several[0])
    unit = fitted.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-5)
    assert isinstance(fitted.encode(TEXTS[:2], convert_to_tensor=True), torch.Tensor)
    assert [type(x) for x in fitted.encode(TEXTS[:2], convert_to_numpy=False)] == [torch.Tensor] * 2
    assert fitted.encode([]).shape == (0, fitted.width)
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        fitted.encode(TEXTS, batch_size=0)


def test_similarity_takes_texts_and_vectors(fitted):
    from_texts = fitted.similarity(TEXTS[:3], TEXTS[1:5])
    np.testing.assert_allclose(from_texts, fitted.similarity(fitted.encode(TEXTS[:3]), fitted.encode(TEXTS[1:5])))
    assert from_texts.shape == (3, 4) and from_texts[1, 0] == pytest.approx(1, abs=1e-5)
    assert fitted.similarity(TEXTS[0], torch.from_numpy(fitted.encode(TEXTS[:2]))).shape == (1, 2)
    assert cosines(np.zeros((1, 2)), np.ones((1, 2))).tolist() == [[0.0]]


def test_an_empty_text_is_a_zero_vector_and_is_counted(tiny_pair, trained):
    for encoder in (statistics(tiny_pair).fit(TEXTS), trained):
        before = encoder.notices().get(ZERO_VECTORS, 0)
        vectors = encoder.encode(["Ada left.", "", " \n "])
        assert vectors[0].any() and not vectors[1:].any() and encoder.notices()[ZERO_VECTORS] == before + 2


@pytest.mark.parametrize("options", [{}, {"transform": "whitened"}])
def test_a_text_of_unknown_words_is_a_zero_vector_and_is_counted(options):
    """Whatever a transform would make of it; such a text is like no query, and such a query like no text."""
    texts = ["The parcel came late.", "Где мой заказ", "My card was charged.", "Where is my order?"]
    encoder = SentenceEncoder("starter-words", head="statistics", cache=False, **options).fit(texts)
    vectors = encoder.encode(texts)
    assert vectors.any(1).tolist() == [True, False, True, True] and encoder.notices() == {UNKNOWN_TEXTS: 1}
    (found,) = nearest_texts(encoder, texts, ["my parcel"], 10)
    assert sorted(row for _, row, _ in found.texts) == [1, 3, 4]
    with pytest.raises(ValueError, match=r"query 2, .*: the table knows none of its words"):
        nearest_texts(encoder, texts, ["my parcel", "Где заказ"], 10)


def test_a_long_text_is_read_in_windows(fitted):
    vector = fitted.encode(" ".join(SENTENCES * 3))
    assert np.isfinite(vector).all() and any("windows" in what for what in fitted.notices())


def test_cosent_against_a_double_loop():
    generator = torch.Generator().manual_seed(1)
    cosines, scores = torch.rand(9, generator=generator), torch.randint(0, 3, (9,), generator=generator).float()
    total = sum(torch.exp(5 * (cosines[j] - cosines[i])) for i in range(9) for j in range(9) if scores[i] > scores[j])
    torch.testing.assert_close(cosent(cosines, scores, 5.0), torch.log(1 + total))
    assert cosent(cosines, torch.ones(9), 5.0) == 0


def test_contrast_against_a_double_loop():
    generator = torch.Generator().manual_seed(1)
    u, v = (torch.randn(4, 3, generator=generator) for _ in range(2))
    cosine = [[torch.cosine_similarity(a, b, dim=0) * 7 for b in v] for a in u]
    rows = -sum(cosine[i][i] - torch.logsumexp(torch.stack(cosine[i]), 0) for i in range(4)) / 4
    columns = -sum(cosine[i][i] - torch.logsumexp(torch.stack([r[i] for r in cosine]), 0) for i in range(4)) / 4
    torch.testing.assert_close(contrast(u, v, 7.0), (rows + columns) / 2)


def test_correlations_are_those_of_scipy(trained):
    scores = trained.evaluate(PAIRS).to_dict()
    both = trained.encode([a for a, _, _ in PAIRS]), trained.encode([b for _, b, _ in PAIRS])
    found, gold = np.diag(cosines(*both)), [score for _, _, score in PAIRS]
    assert scores["spearman"] == pytest.approx(100 * spearmanr(found, gold).statistic, abs=0.01)
    assert scores["pearson"] == pytest.approx(100 * pearsonr(found, gold).statistic, abs=0.01)


def test_training_on_pairs_learns_and_begins_at_the_whitened_mean(tiny_pair, trained):
    assert trained.record["losses"][-1] < trained.record["losses"][0]
    assert trained.evaluate(PAIRS[:12]).to_dict() == trained.record["dev_scores"]
    start = embedding(tiny_pair, lr=1e-9).fit(PAIRS)
    mean = start.encode(MORE)[:, : -2 * FAST["hidden"]]
    np.testing.assert_allclose(mean.mean(0) * np.sqrt(mean.shape[1]), 0, atol=0.6)  # centred, before the division
    again = embedding(tiny_pair, layers="0,2").fit(PAIRS, dev=PAIRS[:12], seed=1)
    np.testing.assert_allclose(again.encode(MORE), trained.encode(MORE), atol=1e-5)


def test_neighbours_alone_and_before_pairs(tiny_pair, files):
    (files / "documents.txt").write_text("".join(f"{a} {b}\n" for a, b in zip(MORE[::2], MORE[1::2], strict=True)))
    source = f"neighbours:{files / 'documents.txt'}"
    encoder = embedding(tiny_pair, epochs=10).fit(source, seed=1)
    assert encoder.record["losses"][-1] < encoder.record["losses"][0] and encoder.record["train"]["name"] == source
    both = embedding(tiny_pair).fit(PAIRS, weak=source, weak_weight=1.0)
    assert both.record["weak"]["sentences"] == len(MORE) // 2
    assert not np.allclose(both.encode(MORE), embedding(tiny_pair).fit(PAIRS).encode(MORE))


def test_neighbours_follow_each_other_and_are_in_one_pair():
    document = "Ada left the town. Brandt came by boat. Oh! Mira sold her old house. It rained all day long."
    found = neighbours([document, "A single sentence without another."])
    pairs = [(pair.first.words[0], pair.second.words[0]) for pair in found]
    assert found[0].texts == ("Ada left the town.", "Brandt came by boat.")
    assert pairs == [("Ada", "Brandt"), ("Mira", "It")]
    with pytest.raises(ValueError, match="no two neighbouring sentences"):
        neighbours(["Ada left."])


NOTHING = {"text_pooling": "mean", "transform": "raw"}


@pytest.mark.parametrize("options", [{}, NOTHING, NOTHING | {"transform": "standardised"}, {"transform": "raw"}])
def test_a_folder_opens_as_it_was_saved(tiny_pair, tmp_path, options):
    encoder = statistics(tiny_pair, **options)
    if options != NOTHING:
        encoder.fit(TEXTS)
    before = encoder.encode(TEXTS)
    encoder.save_pretrained(tmp_path / "e")
    opened = boustro.SentenceEncoder.from_pretrained(tmp_path / "e")
    np.testing.assert_array_equal(opened.encode(TEXTS), before)
    assert opened.config == encoder.config


def test_a_trained_folder_opens_and_agrees(trained, tmp_path):
    trained.save_pretrained(tmp_path / "e")
    opened = boustro.SentenceEncoder.from_pretrained(tmp_path / "e")
    texts = ["Ada left.", "It rained."]
    np.testing.assert_allclose(opened.encode(texts), trained.encode(texts), atol=1e-5)
    card = (tmp_path / "e/README.md").read_text("utf-8")
    assert "pipeline_tag: sentence-similarity" in card and "boustro.SentenceEncoder.from_pretrained" in card
    assert opened.record == json.loads(json.dumps(trained.record))


def test_what_is_refused(tiny_pair, tiny_lm, fitted, tmp_path):
    with pytest.raises(ValueError, match="not trained yet"):
        statistics(tiny_pair).encode("Ada left.")
    with pytest.raises(ValueError, match=r"a text alone, .*\(--head statistics\)"):
        embedding(tiny_pair).fit(TEXTS)
    with pytest.raises(ValueError, match="no score"):
        fitted.evaluate([("Ada left.", "It rained.")])
    with pytest.raises(ValueError, match=r"text 2 is nan, which is not a string \(a missing value\?\)"):
        fitted.encode(["Ada left.", float("nan")])
    for texts in (["Ada left.", ""], ["Ada left."] * 2):
        with pytest.raises(ValueError, match="two different texts with words at least; got 1"):
            statistics(tiny_pair).fit(texts)
    with pytest.raises(ValueError, match="text_pooling must be one of sif, mean"):
        statistics(tiny_pair, text_pooling="maximum")
    with pytest.raises(ValueError, match="all pairs have the same score"):
        embedding(tiny_pair).fit([("a b", "c d", 1), ("a", "b", 1)])
    with pytest.raises(FileNotFoundError, match="no such folder"):
        boustro.SentenceEncoder.from_pretrained(tmp_path / "none")
    with write_folder(tmp_path / "tagger", "tagger"):
        pass
    with pytest.raises(ValueError, match="is a tagger folder; a sentence_encoder folder is expected here"):
        boustro.SentenceEncoder.from_pretrained(tmp_path / "tagger")
    fitted.save_pretrained(tmp_path / "e")
    other = f"{tiny_lm('llama', seed=5, sentinel=True)}+{tiny_lm('llama', 'backward', seed=1, sentinel=True)}"
    with pytest.raises(ValueError, match="is not the one that this head was trained on"):
        boustro.SentenceEncoder.from_pretrained(tmp_path / "e", encoder=other)


def test_rows_keep_their_order_and_empty_lines(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"sentence": ""}\n')
    assert list(read_texts_in_order(tmp_path / "a.txt")) == ["one", "", "two"]
    assert list(read_texts_in_order(tmp_path / "a.jsonl")) == ["one", ""]
    with pytest.raises(FileNotFoundError, match=r"did you mean 'a\.txt'"):
        list(read_texts_in_order(tmp_path / "b.txt"))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join([*TEXTS[:8], "", *TEXTS[8:]]) + "\n")
    rows = [{"sentence1": a, "sentence2": b, "score": s} for a, b, s in PAIRS]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return tmp_path


def sample(size: int, width: int = 12) -> np.ndarray:
    """Correlated dimensions of different scale and mean, one of them far from the others."""
    generator = np.random.default_rng(3)
    mixed = generator.normal(size=(size, width)) @ (np.eye(width) + 0.2 * generator.normal(size=(width, width)))
    mixed[:, 4] = mixed[:, 4] * 20 + 300
    return mixed.astype(np.float32)


def test_standardised_vectors_have_mean_0_and_variance_1():
    x = sample(9000)
    y = TRANSFORMS["standardised"].fit(x).apply(x)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(y.std(0), 1, atol=1e-3)


def test_a_constant_dimension_is_only_centred():
    x = sample(50)
    x[:, 2] = 7
    y = Standardised.fit(x).apply(np.vstack([x, x[:1] + 1]))
    assert np.all(y[:50, 2] == 0) and y[50, 2] == 1


def test_top_components_are_those_of_pca():
    x = sample(200)
    found = TopRemoved.fit_components(x, 3)
    oracle = PCA(3).fit(x)
    np.testing.assert_allclose(np.abs(found.components @ oracle.components_.T), np.eye(3), atol=1e-3)
    y = found.apply(x)
    np.testing.assert_allclose(y @ oracle.components_.T, 0, atol=0.05)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-3)
    assert TRANSFORMS["top-removed"].fit(x).arrays()["components"].shape == (1, 12)


def test_the_shrinkage_is_ledoit_and_wolfs():
    for size in (8, 30, 5000):
        x = sample(size)
        _, covariance, shrinkage = shrunk_covariance(x)
        _, oracle = ledoit_wolf(x.astype(float))
        np.testing.assert_allclose(covariance, np.cov(x.T.astype(float), bias=True), rtol=1e-6)
        assert shrinkage == pytest.approx(oracle, abs=1e-9)


def test_whitened_vectors_are_uncorrelated():
    x = sample(20_000)
    y = Whitened.fit(x).apply(x)
    covariance = np.cov(y.T)
    assert abs(covariance - np.diag(np.diag(covariance))).max() < 0.02
    np.testing.assert_allclose(np.diag(covariance), 1, atol=0.01)


def test_whitening_few_vectors_keeps_them_finite_and_apart():
    x = sample(5)
    y = Whitened.fit(x).apply(sample(7))
    assert np.isfinite(y).all() and np.linalg.matrix_rank(y) > 4
    same = np.ones((3, 4), np.float32)
    assert np.isfinite(Whitened.fit(same).apply(same)).all()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_is_its_arrays(name: str):
    x = sample(40)
    transform = TRANSFORMS[name].fit(x)
    again = TRANSFORMS[name].from_arrays({**transform.arrays(), "other": x})
    np.testing.assert_array_equal(transform.apply(x), again.apply(x))
    assert all(array.dtype == np.float32 for array in transform.arrays().values())
    one = transform.apply(x[3])
    np.testing.assert_allclose(one, transform.apply(x)[3], rtol=1e-4, atol=1e-4)
    assert transform.apply(x.reshape(4, 10, 12)).shape == (4, 10, 12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_vectors_are_refused(name: str):
    for bad in (np.zeros((0, 4)), np.zeros(4), np.zeros((2, 3, 4))):
        with pytest.raises(ValueError, match=r"vectors \(n, d\)"):
            TRANSFORMS[name].fit(bad)


@pytest.fixture(scope="module")
def encoder(tiny_pair):
    return boustro.SentenceEncoder(tiny_pair, "statistics", cache=False, dtype="float32").fit(SENTENCES)
