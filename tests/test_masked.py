"""A masked LM as an encoder: equal to plain transformers, whatever the batch, and refused where it does not fit."""

import numpy as np
import pytest
import torch

import boustro
from boustro.encoders.spec import load_encoder

WORDS = ["Ada", "Brandt", "sold", "1,250", "umbrellas", "in", "Vellmar", "."]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A tiny BERT with a WordPiece vocabulary of its own."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    trained = BertWordPieceTokenizer(lowercase=False)
    trained.train_from_iterator([" ".join(WORDS)] * 3, vocab_size=60)
    tokenizer = BertTokenizerFast(tokenizer_object=trained._tokenizer)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_every_layer_equals_plain_transformers(bert):
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert)
    batch = tokenizer(WORDS, is_split_into_words=True, return_tensors="pt")
    states = torch.stack(model(**batch, output_hidden_states=True).hidden_states, 1)[0]
    ids = batch.word_ids()
    first = [ids.index(w) for w in range(len(WORDS))]
    ((vectors,),) = load_encoder(f"masked:{bert}", pooling="first", dtype="float32").encode([WORDS])
    np.testing.assert_allclose(vectors, states[:, first].transpose(0, 1).detach(), atol=1e-5)


def test_padding_changes_nothing(bert):
    encoder = load_encoder(f"masked:{bert}", pooling="mean", dtype="float32")
    alone = next(encoder.encode([WORDS[:2]]))[0]
    together = list(encoder.encode([WORDS, WORDS[:2], WORDS * 3]))[1][0]
    np.testing.assert_allclose(alone, together, atol=1e-5)


def test_a_word_knows_both_its_sides(bert):
    encoder = load_encoder(f"masked:{bert}", layers="last", dtype="float32")
    plain, left, right = (x for (x,) in encoder.encode([WORDS, ["Vellmar", *WORDS[1:]], [*WORDS[:-1], "sold"]]))
    assert abs(plain[4] - left[4]).max() > 1e-3 and abs(plain[4] - right[4]).max() > 1e-3


def test_a_window_has_no_room_where_positions_begin_after_the_padding_piece(bert, tmp_path):
    """RoBERTa's: no piece is read at the number of the padding piece, or below."""
    from transformers import AutoTokenizer, RobertaConfig, RobertaForMaskedLM

    tokenizer = AutoTokenizer.from_pretrained(bert)
    tokenizer.save_pretrained(tmp_path)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    pad = {"pad_token_id": tokenizer.pad_token_id, "max_position_embeddings": 20 + tokenizer.pad_token_id}
    RobertaForMaskedLM(RobertaConfig(vocab_size=len(tokenizer), **pad, **shape)).save_pretrained(tmp_path)
    encoder = load_encoder(f"masked:{tmp_path}")
    assert encoder.max_pieces == 19
    assert [len(x) for (x,) in encoder.encode([WORDS * 9])] == [72]


def test_a_long_text_is_read_in_windows_that_leave_no_word_out(bert):
    encoder = load_encoder(f"masked:{bert}", layers="last", dtype="float32")
    ((vectors,),) = encoder.encode([WORDS * 40])
    assert np.abs(vectors).sum(-1).min() > 0
    assert sum(encoder.counts.values()) == 1


def test_a_masked_lm_and_a_causal_one_join_over_different_vocabularies(bert, tiny_lm):
    encoder = load_encoder(f"{tiny_lm('llama')}+masked:{bert}", layers="last")
    assert [s.width for s in encoder.streams] == [64, 64]


@pytest.mark.parametrize(
    ("options", "message"), [({}, "is a causal LM"), ({"start_piece": "eos"}, "start_piece is not read by masked")]
)
def test_what_does_not_fit_is_said(bert, tiny_lm, options, message):
    path = bert if options else tiny_lm("gpt2")
    with pytest.raises(ValueError, match=message):
        load_encoder(f"masked:{path}", **options)


def test_a_tagger_over_a_masked_lm_and_a_causal_one_is_saved_and_opened(bert, tiny_lm, tmp_path):
    data = [(WORDS, "B-PER I-PER O O O O B-LOC O".split())]
    tagger = boustro.Tagger(f"{tiny_lm('llama')}+masked:{bert}", "linear", epochs=1).fit(data, data)
    tagger.save_pretrained(tmp_path / "ner")
    assert boustro.Tagger.from_pretrained(tmp_path / "ner").tag([WORDS]) == tagger.tag([WORDS])
    assert f"masked:{bert.name}" in (tmp_path / "ner" / "README.md").read_text("utf-8")
