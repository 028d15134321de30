"""Letters and their marks apart (NFD), as in files of macOS, are read as one character."""

import unicodedata

import numpy as np
import pytest

from boustro import Classifier
from boustro.encoders.spec import load_encoder
from boustro.tasks.data import read_data
from boustro.tasks.label_names import given_labels
from boustro.types import Sentence

TEXT = "José García met Zoë Côté in Münster."


def apart(text):
    made = unicodedata.normalize("NFD", text)
    assert made != text
    return made


def test_encoders_give_both_forms_the_same_vectors(tiny_lm):
    encoder = load_encoder(str(tiny_lm("llama")))
    rows = list(encoder.encode([["Zoë", "left", "Münster"], [apart("Zoë"), "left", apart("Münster")]]))
    np.testing.assert_array_equal(rows[0][0], rows[1][0])
    alone = encoder.encode_all([Sentence((apart("Côté"),), text=apart("Côté"))])
    np.testing.assert_array_equal(alone.streams[0], encoder.encode_all([["Côté"]]).streams[0])


def test_both_forms_of_a_label_are_one(tmp_path):
    (tmp_path / "t.conll").write_text(f"Ada B-{apart('Größe')}\n\nBo B-Größe\n", "utf-8")
    assert {tag for s in read_data(tmp_path / "t.conll") for tag in s.tags} == {"B-Größe"}
    (marked,) = read_data([(apart(TEXT), [("Zoë Côté", apart("Größe"))])])
    assert marked.tags.count("B-Größe") == 1 and marked.tags[3:5] == ("B-Größe", "I-Größe")
    texts = [("It rained.", apart("Größe")), ("We won.", "Größe")]
    assert {text.label for text in Classifier.read(texts)} == {"Größe"}
    with pytest.raises(ValueError, match="given twice"):
        given_labels(["Größe", apart("Größe")])
