"""The other roads to bidirectionality over one causal LM: its mask removed, or its text repeated.

Who sees whom is tested by changing a piece and looking which states follow, and block by block by gradients.
"""

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel

from boustro.encoders.base import Identity
from boustro.encoders.spec import Spec, SpecPart, load_encoder
from boustro.models.blocks import find_blocks
from boustro.types import Sentence

KINDS = ("gpt2", "llama", "qwen3", "gpt_neox")
WORDS = ["Ada", "Brandt", "sold", "umbrellas", "in", "Vellmar", "."]
LAST = [*WORDS[:-2], "Lisse", "."]
SENTENCES = [WORDS, ["Vellmar"], ["The", "harbour", "master", "of", "Port", "Lisse", "snores", "."], WORDS[:3]]


def read(spec, *sentences, **options):
    encoder = load_encoder(spec, **{"dtype": "float32", "pooling": "exit", "spacing": "always", **options})
    return [vectors for (vectors,) in encoder.encode(sentences)]


def follows(one, other):
    """Which layers' states of the first words changed when a later word did: one boolean a layer."""
    return (np.abs(one[:5] - other[:5]).max((0, 2)) > 1e-4).tolist()


# The mask removed


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.bf16
def test_without_a_mask_every_state_above_the_embeddings_knows_what_follows(tiny_lm, kind, direction):
    path = tiny_lm(kind, direction, sentinel=True)
    changed = LAST if direction == "forward" else ["Lisse", *WORDS[1:]]
    part = slice(0, 5) if direction == "forward" else slice(2, 7)
    for spec, expected in ((f"unmasked:{path}", [False, True, True]), (str(path), [False, False, False])):
        one, other = (vectors[part] for vectors in read(spec, WORDS, changed))
        assert follows(one, other) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_range_of_blocks_leaves_the_others_causal(tiny_lm, kind):
    path = tiny_lm(kind)
    assert follows(*read(f"unmasked:2:{path}", WORDS, LAST)) == [False, False, True]
    np.testing.assert_array_equal(*(read(f"unmasked:{name}{path}", WORDS)[0] for name in ("", "1-2:")))
    np.testing.assert_allclose(*(read(f"{name}{path}", WORDS)[0][:, :2] for name in ("", "unmasked:2:")), atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "blocks", "attention"),
    [(kind, blocks, ("sdpa", "eager")[(n + len(blocks)) % 2]) for n, kind in enumerate(KINDS) for blocks in ("", "1")]
    + [(kind, "2", ("sdpa", "eager")[n % 2]) for n, kind in enumerate(KINDS)],
)
def test_each_block_sees_exactly_what_its_range_says_and_never_the_padding(tiny_lm, kind, blocks, attention):
    encoder = load_encoder(f"unmasked:{blocks + ':' if blocks else ''}{tiny_lm(kind)}", dtype="float32")
    encoder.model.set_attn_implementation(attention)
    leaves, outputs = [], []
    for block in find_blocks(encoder.model, 2):
        block.register_forward_pre_hook(lambda _, given: (leaves.append(leaf(given[0])) or leaves[-1], *given[1:]))
        block.register_forward_hook(lambda _, given, made: outputs.append(made[0] if isinstance(made, tuple) else made))
    encoder._hidden_states(torch.randint(5, 300, (2, 6), generator=torch.manual_seed(0)), [6, 4])
    for number, (entered, left) in enumerate(zip(leaves, outputs, strict=True), 1):
        both = not blocks or number == int(blocks)
        for row, length in enumerate((6, 4)):
            for i in range(length):
                (gradient,) = torch.autograd.grad(left[row, i].sum(), entered, retain_graph=True)
                seen = (gradient[row].abs().amax(-1) > 0).nonzero().flatten().tolist()
                assert seen == list(range(length if both else i + 1))
                assert gradient[1 - row].abs().max() == 0


def leaf(states):
    return states.detach().requires_grad_()


@pytest.mark.parametrize(
    ("kind", "spec"), zip(KINDS, ["unmasked:{}", "unmasked:2:{}", "repeated:{}", "repeated:3:{}"], strict=True)
)
@pytest.mark.bf16
def test_batches_and_padding_change_nothing(tiny_lm, kind, spec, monkeypatch):
    spec = spec.format(tiny_lm(kind, sentinel=True))
    together = read(spec, *SENTENCES, pooling="exit+before+mean")
    monkeypatch.setattr("boustro.encoders.reading.PieceEncoder.batch_pieces", 1)
    for one, other in zip(together, read(spec, *SENTENCES, pooling="exit+before+mean"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.bf16
def test_without_a_mask_equals_plain_transformers_with_a_mask_that_lets_all_see_all(tiny_lm, kind):
    model, encoder = (
        AutoModel.from_pretrained(tiny_lm(kind)).eval(),
        load_encoder(f"unmasked:{tiny_lm(kind)}", dtype="float32"),
    )
    ids, everything = torch.tensor([[5, 6, 7, 8]]), torch.ones(1, 1, 4, 4, dtype=torch.bool)
    plain = model(input_ids=ids, attention_mask=everything, output_hidden_states=True).hidden_states
    for one, other in zip(encoder._hidden_states(ids, [4]), plain, strict=True):
        torch.testing.assert_close(one, other)


# The text repeated


@pytest.mark.parametrize(
    ("copies", "between", "direction"),
    [(1, "\n", "backward"), (2, "\n", "forward"), (2, "", "backward"), (3, " again:", "backward"), (3, "", "forward")],
)
def test_the_last_copy_is_read_where_its_pieces_stand(tiny_lm, copies, between, direction):
    path = tiny_lm("llama", direction, sentinel=True)
    plain = load_encoder(str(path), dtype="float32", spacing="always")
    (pieces,) = plain._aligner.align([(WORDS[:4], None)])
    once = pieces.ids.tolist()[:: -1 if direction == "backward" else 1]
    middle = plain.tokenizer(between)["input_ids"] if between else []
    row = [plain.tokenizer.eos_token_id, *(once + middle) * (copies - 1), *once]
    states = torch.stack(plain._hidden_states(torch.tensor([row]), [len(row)]))[:, 0, -len(once) :]
    repeated = load_encoder(f"repeated:{copies}:{path}", dtype="float32", between=between)
    torch.testing.assert_close(repeated.last_copy([once, once])[1], states.transpose(0, 1), atol=1e-5, rtol=0)
    if direction == "backward":
        states = states.flip(1)
    for place, ends in (("first", pieces.bounds[:-1]), ("last", pieces.bounds[1:] - 1)):
        (vectors,) = read(f"repeated:{copies}:{path}", WORDS[:4], pooling=place, between=between)
        np.testing.assert_allclose(vectors, states[:, ends].transpose(0, 1), atol=1e-5)


@pytest.mark.parametrize("sentinel", [False, True])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.bf16
def test_one_copy_is_the_lm_itself(tiny_lm, direction, sentinel):
    path = tiny_lm("gpt2", direction, sentinel=sentinel)
    long = [WORDS * 20, *SENTENCES]
    for one, other in zip(
        read(f"repeated:1:{path}", *long, pooling="exit+before"),
        read(str(path), *long, pooling="exit+before"),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_copy_knows_what_follows_a_word(tiny_lm, kind):
    path = tiny_lm(kind)
    assert follows(*read(f"repeated:{path}", WORDS, LAST)) == [False, True, True]
    before, changed = (v[0] for v in read(f"repeated:{path}", WORDS, LAST, pooling="before"))
    assert np.abs(before - changed).max() > 1e-4  # the first word has something before it: the copy before


def test_a_long_text_is_read_in_windows_that_hold_all_copies(tiny_lm):
    for copies in (2, 3):
        encoder = load_encoder(f"repeated:{copies}:{tiny_lm('gpt2', sentinel=True)}", dtype="float32")
        ((vectors,),) = encoder.encode([WORDS * 12])
        assert np.abs(vectors).max((1, 2)).min() > 0 and sum(encoder.counts.values()) == 1
    with pytest.raises(ValueError, match=r"window of 64 pieces cannot hold 40 copies"):
        load_encoder(f"repeated:40:{tiny_lm('gpt2')}")


# What both share


@pytest.mark.parametrize("spec", ["{}", "unmasked:{}", "unmasked:1:{}", "repeated:{}"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.bf16
def test_an_early_exit_computes_no_block_above_and_changes_nothing(tiny_lm, kind, spec):
    spec = spec.format(tiny_lm(kind))
    every = load_encoder(spec, dtype="float32").encode_all(SENTENCES).streams[0]
    for layers in ([1], [0], [1, 0]):
        encoder = load_encoder(spec, layers=layers, dtype="float32", whole=True)
        ran = []
        for number, block in enumerate(find_blocks(encoder.model, 2), 1):
            block.register_forward_hook(lambda *_, number=number, ran=ran: ran.append(number))
        np.testing.assert_array_equal(encoder.encode_all(SENTENCES).streams[0], every[:, layers])
        assert set(ran) == set(range(1, max(layers) + 1))


def test_what_changes_the_numbers_changes_the_identity(tiny_lm):
    path = tiny_lm("llama")
    specs = ["{}", "unmasked:{}", "unmasked:2:{}", "repeated:{}", "repeated:3:{}"]
    identities = [load_encoder(spec.format(path)).identity() for spec in specs]
    identities += [load_encoder(f"repeated:{path}", between=" ").identity()]
    assert len({str(i) for i in identities}) == len(identities)
    assert load_encoder(f"unmasked:1-2:{path}").identity() == identities[1]


def test_each_road_joins_others_and_takes_documents(tiny_lm):
    path = tiny_lm("llama", sentinel=True)
    encoder = load_encoder(f"{path}+unmasked:{path}+repeated:{path}", context="document")
    named = [Sentence(tuple(s), document="a") for s in SENTENCES]
    assert [stream.shape for stream in encoder.encode_all(named).streams] == [(19, 3, 64)] * 3


def test_a_spec_is_split_into_kind_number_path_and_revision(tmp_path, monkeypatch):
    exact, local = (Identity(weights=weights, vocabulary="v", pooling="exit") for weights in ("a/b@607", "0"))
    assert SpecPart.parse("unmasked:3-4:a/b") == SpecPart("unmasked:3-4:a/b", "unmasked:3-4:", "a/b", None)
    assert SpecPart.parse("repeated:a/b") == SpecPart("repeated:a/b", "repeated:", "a/b", None)
    assert SpecPart.parse("gpt2") == SpecPart("gpt2", "", "gpt2", None)
    assert SpecPart.parse("backward:a/b@v1.0") == SpecPart("backward:a/b@v1.0", "backward:", "a/b", "v1.0")
    assert SpecPart.parse("backward:3:a") == SpecPart("backward:3:a", "backward:", "3:a", None)  # takes no number
    assert SpecPart.parse("repeated:3:a/b@607a30d") == SpecPart(
        "repeated:3:a/b@607a30d", "repeated:3:", "a/b", "607a30d"
    )
    assert Spec.parse("unmasked:3-4:a/b@main").exact(exact) == "unmasked:3-4:a/b@607"
    assert Spec.parse("repeated:starter-forward").exact(local) == "repeated:starter-forward"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm@home").mkdir()
    assert SpecPart.parse("backward:lm@home") == SpecPart("backward:lm@home", "backward:", "lm@home", None)
    assert Spec.parse("repeated:3:lm").exact(local) == f"repeated:3:{tmp_path / 'lm'}"


def test_the_shipped_lms_are_read_on_every_road():
    for spec in ("unmasked:starter-forward", "unmasked:3-4:starter-backward", "repeated:starter-forward"):
        assert load_encoder(spec, layers="last").encode_all(SENTENCES).streams[0].shape == (19, 1, 512)


@pytest.fixture(scope="module")
def others(tmp_path_factory, tiny_tokenizer):
    """Folders of models that do not fit: a masked LM, an encoder-decoder, and one without attention."""
    import shutil

    shape = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 400}
    configs = {
        "bert": {**shape, "num_attention_heads": 2, "intermediate_size": 64},
        "t5": {"d_model": 32, "num_layers": 2, "num_heads": 2, "d_ff": 64, "vocab_size": 400},
        "mamba": {**shape, "state_size": 4},
    }
    folders = {}
    for kind, given in configs.items():
        folders[kind] = tmp_path_factory.mktemp(kind) / "model"
        AutoModel.from_config(AutoConfig.for_model(kind, **given)).save_pretrained(folders[kind])
        for file in tiny_tokenizer.iterdir():
            shutil.copy(file, folders[kind])
    return folders


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("unmasked:{bert}", {}, r"is a masked LM .bert., which reads both ways already; name it masked:"),
        ("repeated:{bert}", {}, r"name it masked:"),
        ("{bert}", {}, r"name it masked:"),
        ("repeated:{t5}", {}, r"is an encoder-decoder \(t5\), not a causal LM"),
        ("unmasked:{mamba}", {}, r"architecture .mamba. cannot be removed in block 1: a piece still .*repeated:"),
        ("unmasked:2:{mamba}", {}, "cannot be removed in block 2: its blocks take no mask over pairs of pieces"),
        ("unmasked:./no/such/model", {}, "no model could be loaded"),
        ("unmasked:starter", {}, "side by side; name one LM: unmasked:starter-forward or unmasked:starter-back"),
        ("unmaskd:x", {}, "did you mean unmasked:x"),
        ("unmasked:2-3:{lm}", {}, "no blocks 2-3, the model has 1 to 2; a range is first-last"),
        ("unmasked:2-1:{lm}", {}, "no blocks 2-1"),
        ("unmasked:1-2-3:{lm}", {}, "no blocks 1-2-3"),
        ("repeated:0:{lm}", {}, "number of copies is a whole number such as 2 or 3, not '0'"),
        ("repeated:2-3:{lm}", {}, "number of copies .* not '2-3'"),
        ("repeated:{lm}", {"blocks": "2"}, "has no option blocks"),
        ("{lm}", {"between": ""}, "has no option between"),
    ],
)
def test_what_does_not_fit_is_said_in_one_sentence(tiny_lm, others, spec, options, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_encoder(spec.format(lm=tiny_lm("llama"), **others), **options)
