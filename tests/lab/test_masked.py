"""Masked LMs, packing and presets: the loss of transformers; encoders and decoders equal to those of transformers."""

import tempfile
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, GPT2Config
from transformers.masking_utils import create_bidirectional_mask, packed_sequence_mask_function

import boustro
from boustro.encoders.spec import load_encoder
from boustro.lab.masked import (
    MASKED_HEADS,
    MaskedLMWithLoss,
    encode,
    packed_attention,
    packed_positions,
    prediction_head,
)
from boustro.lab.objectives.examples import collate, keyed_generator
from boustro.lab.objectives.masked import masked
from boustro.lab.objectives.masking import Masking
from boustro.lab.presets import MASKED_PRESETS, make_config, make_generator_config, make_masked_config
from conftest import WORDS
from test_masked_objective import dense_targets


@pytest.mark.bf16
def test_every_layer_equals_plain_transformers(bert):
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert)
    batch = tokenizer(WORDS, is_split_into_words=True, return_tensors="pt")
    states = torch.stack(model(**batch, output_hidden_states=True).hidden_states, 1)[0]
    ids = batch.word_ids()
    first = [ids.index(w) for w in range(len(WORDS))]
    ((vectors,),) = load_encoder(f"masked:{bert}", pooling="first", dtype="float32").encode([WORDS])
    np.testing.assert_allclose(vectors, states[:, first].transpose(0, 1).detach(), atol=1e-5)


@pytest.mark.bf16
def test_padding_changes_nothing(bert):
    encoder = load_encoder(f"masked:{bert}", pooling="mean", dtype="float32")
    alone = next(encoder.encode([WORDS[:2]]))[0]
    together = list(encoder.encode([WORDS, WORDS[:2], WORDS * 3]))[1][0]
    np.testing.assert_allclose(alone, together, atol=1e-5)


@pytest.mark.bf16
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
    ((vectors,),) = encoder.encode([WORDS * 9])
    assert len(vectors) == 72 and np.abs(vectors).sum(-1).min() > 0 and sum(encoder.counts.values()) == 1


@pytest.mark.parametrize(
    ("options", "message"), [({}, "is a causal LM"), ({"start_piece": "eos"}, "start_piece is not read by masked")]
)
def test_what_does_not_fit_is_said(bert, tiny_lm, options, message):
    path = bert if options else tiny_lm("gpt2")
    with pytest.raises(ValueError, match=message):
        load_encoder(f"masked:{path}", **options)


@pytest.mark.bf16
def test_a_tagger_over_a_masked_lm_and_a_causal_one_is_saved_and_opened(bert, tiny_lm, tmp_path):
    data = [(WORDS, "B-PER I-PER O O O O B-LOC O".split())]
    tagger = boustro.Tagger(f"{tiny_lm('llama')}+masked:{bert}", "linear", epochs=1).fit(data, data)
    tagger.save_pretrained(tmp_path / "ner")
    assert boustro.Tagger.from_pretrained(tmp_path / "ner").tag([WORDS]) == tagger.tag([WORDS])
    assert f"masked:{bert.name}" in (tmp_path / "ner" / "README.md").read_text("utf-8")


VOCABULARY, END, MASK, PAD, LENGTH = 60, 0, 59, 58, 24
SPECIAL = np.isin(np.arange(VOCABULARY), [END, MASK])
MASKING = Masking(mask_id=MASK, end_id=END, special=SPECIAL, rate=0.3)
FAMILIES = [*dict.fromkeys(name.partition("-")[0] for name in MASKED_PRESETS)]
kinds = pytest.mark.parametrize("kind", FAMILIES)
heads = pytest.mark.parametrize("kind", MASKED_HEADS)


class Pieces(SimpleNamespace):
    """What a preset asks of a tokenizer."""

    def __len__(self) -> int:
        return VOCABULARY


def make_pieces(**options) -> Pieces:
    none = dict.fromkeys(("pad_token_id", "sep_token_id", "cls_token_id"))
    return Pieces(**{**none, "mask_token_id": MASK, "eos_token_id": END, "bos_token_id": END, **options})


def make_tiny_config(kind: str):
    """A preset of one layer; what has no preset, from its config.json, ModernBERT with both kinds of block."""
    if kind in FAMILIES:
        config = make_masked_config(f"{kind}-tiny", make_pieces(), VOCABULARY, LENGTH)
        config.num_hidden_layers = 1
        return config
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    window = {"local_attention": 8, "global_attn_every_n_layers": 2} if kind == "modernbert" else {}
    with tempfile.TemporaryDirectory() as folder:
        AutoConfig.for_model(kind, **shape, **window).save_pretrained(folder)
        return make_masked_config(f"{folder}/config.json", make_pieces(pad_token_id=PAD), VOCABULARY, LENGTH)


def make_lm(kind: str, attention: str = "sdpa"):
    """A model of random weights, large enough for states to differ, in evaluation: no dropout."""
    torch.manual_seed(0)
    config = make_tiny_config(kind)
    lm = AutoModelForMaskedLM.from_config(config, dtype=torch.float32, attn_implementation=attention).eval()
    with torch.no_grad():
        for parameter in lm.parameters():
            parameter.normal_(0, 0.1)
    return lm


def make_batch(ends: tuple[int, ...] = (5, 12)) -> dict[str, torch.Tensor]:
    pieces = np.random.default_rng(0).integers(1, PAD, (3, LENGTH))
    pieces[:, list(ends)] = END
    return collate([masked(row, keyed_generator(0, 0, i), MASKING) for i, row in enumerate(pieces)])


@pytest.mark.usefixtures("small_chunks")
@heads
def test_the_loss_and_its_gradients_are_those_of_transformers(kind):
    """Without document boundaries there is nothing to keep apart, and labels say the same as positions."""
    lm, batch = make_lm(kind), make_batch(ends=())
    rows = zip(batch["positions"].numpy(), batch["targets"].numpy(), strict=True)
    labels = torch.from_numpy(np.stack([dense_targets(*row, LENGTH) for row in rows]))
    wanted = lm(input_ids=batch["input_ids"], labels=labels).loss
    wanted.backward()
    gradients = {
        name: parameter.grad.clone() for name, parameter in lm.named_parameters() if parameter.grad is not None
    }
    lm.zero_grad()
    found = MaskedLMWithLoss(lm)(**batch)["loss"]
    found.backward()
    torch.testing.assert_close(found, wanted)
    for name, parameter in lm.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], msg=name, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("kind", "attention"), [*zip(MASKED_HEADS, cycle(["sdpa", "eager"])), ("bert", "eager")])
def test_a_packed_document_gets_the_states_that_it_has_alone(kind, attention):
    lm, batch = make_lm(kind, attention), make_batch()
    with torch.no_grad():
        together = encode(lm, batch["input_ids"], batch["documents"])
        for start, stop in ((0, 6), (6, 13), (13, LENGTH)):
            alone = lm.base_model(input_ids=batch["input_ids"][:, start:stop]).last_hidden_state
            torch.testing.assert_close(together[:, start:stop], alone, rtol=1e-4, atol=1e-4)


def test_padding_changes_nothing_and_makes_no_nan():
    lm, batch = make_lm("bert"), make_batch(ends=())
    documents = batch["documents"].clone()
    documents[:, 15:] = -1
    with torch.no_grad():
        found = encode(lm, batch["input_ids"], documents)
        alone = lm.base_model(input_ids=batch["input_ids"][:, :15]).last_hidden_state
    assert found.isfinite().all()
    torch.testing.assert_close(found[:, :15], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_mask_is_what_transformers_builds(attention):
    lm, documents = make_lm("eurobert", attention), make_batch()["documents"]
    wanted = create_bidirectional_mask(
        config=lm.config,
        inputs_embeds=torch.zeros(*documents.shape, 8),
        attention_mask=None,
        and_mask_function=packed_sequence_mask_function(documents),
    )
    assert torch.equal(packed_attention(documents, lm.config), wanted)


def test_positions_begin_anew_with_each_document():
    assert packed_positions(torch.tensor([[0, 0, 1, 1, 1], [3, -1, -1, -1, -1]])).tolist() == [
        [0, 1, 0, 1, 2],
        [0, 0, 1, 2, 3],
    ]


def test_an_attention_that_takes_no_mask_is_refused():
    config = make_lm("bert").config
    config._attn_implementation_internal = "flash_attention_2"
    with pytest.raises(ValueError, match="would leak under attention 'flash_attention_2'"):
        packed_attention(make_batch()["documents"], config)


@kinds
def test_a_preset_is_of_the_width_and_depth_of_the_causal_one(kind):
    for size in ("tiny", "mini", "small"):
        ours, causal = (
            make_masked_config(f"{kind}-{size}", make_pieces(), VOCABULARY, 128),
            make_config(size, VOCABULARY, 128, END),
        )
        shape = "hidden_size num_hidden_layers num_attention_heads max_position_embeddings vocab_size"
        for name in shape.split():
            assert getattr(ours, name) == getattr(causal, name), name
        if kind == "eurobert":
            assert ours.intermediate_size == causal.intermediate_size
        assert ours.mask_token_id == MASK and ours.tie_word_embeddings


@pytest.mark.parametrize(("kind", "pad"), [*zip(FAMILIES, cycle([None, 7, END])), (FAMILIES[0], 7)])
def test_a_piece_that_is_read_is_no_padding_piece(kind, pad):
    config = make_masked_config(f"{kind}-tiny", make_pieces(pad_token_id=pad), VOCABULARY, LENGTH)
    assert config.pad_token_id == (kept := None if pad == END else pad)
    assert AutoModelForMaskedLM.from_config(config).get_input_embeddings().padding_idx == kept


def test_a_generator_is_narrower_and_shares_the_embeddings_width():
    config = make_masked_config("electra-mini", make_pieces(), VOCABULARY, LENGTH)
    generator = make_generator_config(config)
    assert (generator.hidden_size, generator.num_attention_heads, generator.intermediate_size) == (64, 1, 256)
    assert generator.embedding_size == config.embedding_size == 256
    assert generator.vocab_size == config.vocab_size and generator.num_hidden_layers == 4


def test_a_config_of_transformers_is_fitted_to_tokenizer_and_window():
    config = make_tiny_config("roberta")
    assert (config.vocab_size, config.max_position_embeddings) == (VOCABULARY, PAD + 1 + LENGTH)
    assert (config.pad_token_id, config.eos_token_id, config.mask_token_id) == (PAD, END, MASK)
    config = make_tiny_config("modernbert")
    assert config.max_position_embeddings == LENGTH and set(config.layer_types) == {
        "full_attention",
        "sliding_attention",
    }


def test_roberta_needs_a_padding_piece(tmp_path):
    AutoConfig.for_model("roberta").save_pretrained(tmp_path)
    for pad in (None, END):
        with pytest.raises(ValueError, match="roberta counts positions from its padding piece"):
            make_masked_config(str(tmp_path), make_pieces(pad_token_id=pad), VOCABULARY, LENGTH)


def test_unknown_names_and_unfit_tokenizers_are_refused():
    with pytest.raises(ValueError, match="did you mean 'bert-mini'"):
        make_masked_config("bert-minni", make_pieces(), VOCABULARY, 128)
    with pytest.raises(ValueError, match="needs a tokenizer with a mask piece"):
        make_masked_config("bert-mini", make_pieces(mask_token_id=None), VOCABULARY, 128)
    with pytest.raises(ValueError, match="no masked-LM head is known for 'gpt2'"):
        prediction_head(AutoModelForCausalLM.from_config(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=1)))
