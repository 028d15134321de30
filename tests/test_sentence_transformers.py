"""The module for sentence-transformers: its users' code gives the vectors of the sentence encoder, saved ones too."""

import builtins
import importlib
import sys

import numpy as np
import pytest

import boustro
from conftest import SENTENCES

sentence_transformers = pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def encoder(tiny_pair):
    return boustro.SentenceEncoder(tiny_pair, "statistics", cache=False, dtype="float32").fit(SENTENCES)


def test_a_round_trip(encoder, tmp_path):
    from boustro.apps.integrations.sentence_transformers import BoustroModule

    model = sentence_transformers.SentenceTransformer(modules=[BoustroModule(encoder)], device="cpu")
    vectors = model.encode(SENTENCES, batch_size=3, normalize_embeddings=True)
    np.testing.assert_allclose(vectors, encoder.encode(SENTENCES, normalize_embeddings=True), atol=1e-5)
    assert model.get_embedding_dimension() == encoder.width and model.encode("").shape == (encoder.width,)
    np.testing.assert_allclose(
        model.similarity(vectors[:2], vectors[2:4]), encoder.similarity(vectors[:2], vectors[2:4]), atol=1e-5
    )
    model.save_pretrained(str(tmp_path / "st"))
    opened = sentence_transformers.SentenceTransformer(str(tmp_path / "st"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(opened.encode(SENTENCES), encoder.encode(SENTENCES), atol=1e-5)
    encoder.save_pretrained(tmp_path / "own")
    np.testing.assert_allclose(
        BoustroModule(tmp_path / "own").encoder.encode("Ada."), encoder.encode("Ada."), atol=1e-5
    )


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest, **options):
        if name.startswith("sentence_transformers"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.delitem(sys.modules, "boustro.apps.integrations.sentence_transformers", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"pip install 'boustro\[sentence-transformers\]'"):
        importlib.import_module("boustro.apps.integrations.sentence_transformers")
