"""boustro.lab.pretrain.run: all weights or the embeddings of another LM, and what is refused."""

import re

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from boustro.apps.cli.main import main
from boustro.lab.pretrain import run as warm_start
from boustro.lab.pretrain.run import refuse_other_pieces, start_embeddings_from, start_from
from pretraining import write_shards

FERRY = "The ferry to Vellmar leaves at seven. " * 20


def new_lm(folder, **options):
    """Random weights in the architecture of a folder, but for some options."""
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder, **options), dtype=torch.float32)


def differing(one, other) -> set[str]:
    ours, theirs = one.state_dict(), other.state_dict()
    return {name for name in ours if name not in theirs or not torch.equal(ours[name], theirs[name])}


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_all_weights_come_over(tiny_lm, kind):
    given = AutoModelForCausalLM.from_pretrained(tiny_lm(kind))
    lm = new_lm(tiny_lm(kind))
    assert differing(lm, given)
    start_from(lm, str(tiny_lm(kind)))
    assert not differing(lm, given)


def test_another_architecture_is_refused_with_the_tensors_that_differ(tiny_lm):
    folder = str(tiny_lm("gpt2"))
    lm = new_lm(folder, n_positions=32, n_layer=3)
    before = {name: tensor.clone() for name, tensor in lm.state_dict().items()}
    with pytest.raises(ValueError, match=r"h\.2\S+ \S+ here, absent there.*and 9 more.*Leave out --preset"):
        start_from(lm, folder)
    assert all(torch.equal(tensor, before[name]) for name, tensor in lm.state_dict().items())
    with pytest.raises(ValueError, match=r"transformer\.wpe\.weight 128x32 here, 64x32 there"):
        start_from(new_lm(folder, n_positions=128), folder)


def test_positions_and_padding_that_are_not_needed_stay_behind(tiny_lm, tmp_path):
    given = AutoModelForCausalLM.from_pretrained(tiny_lm("gpt2"))
    lm, llama = new_lm(tiny_lm("gpt2"), n_positions=32), new_lm(tiny_lm("llama"))
    given.resize_token_embeddings(464)
    given.save_pretrained(tmp_path)
    start_from(lm, str(tmp_path))
    assert differing(lm, given) == {"transformer.wpe.weight", "transformer.wte.weight", "lm_head.weight"}
    assert torch.equal(lm.transformer.wpe.weight, given.transformer.wpe.weight[:32])
    assert torch.equal(lm.transformer.wte.weight, given.transformer.wte.weight[:400])
    start_embeddings_from(llama, str(tmp_path))
    assert torch.equal(llama.get_input_embeddings().weight, given.get_input_embeddings().weight[:400])


@pytest.mark.parametrize(("tied", "changed"), [(True, {"embed_tokens", "lm_head"}), (False, {"embed_tokens"})])
def test_embeddings_come_over_with_a_tied_head_alone(tiny_lm, tied, changed):
    """From a GPT-2 into a Llama of the same width."""
    lm = new_lm(tiny_lm("llama"), tie_word_embeddings=tied)
    before = {name: tensor.clone() for name, tensor in lm.state_dict().items()}
    start_embeddings_from(lm, str(tiny_lm("gpt2")))
    given = AutoModelForCausalLM.from_pretrained(tiny_lm("gpt2")).get_input_embeddings().weight
    assert torch.equal(lm.get_input_embeddings().weight, given)
    assert torch.equal(lm.get_output_embeddings().weight, given) == tied
    found = {name for name, tensor in lm.state_dict().items() if not torch.equal(tensor, before[name])}
    assert {name.split(".")[-2] for name in found} == changed


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_of_an_lm_whose_embeddings_come_over_nothing_else_is_read(tiny_lm, kind, monkeypatch):
    monkeypatch.setattr(warm_start, "load_pretrained", lambda *given, **how: 1 / 0)
    lm = new_lm(tiny_lm("llama"))
    start_embeddings_from(lm, str(tiny_lm(kind)))
    with pytest.raises(ZeroDivisionError):
        start_from(lm, str(tiny_lm(kind)))


def test_a_masked_lm_starts_from_the_embeddings_of_its_own_kind_only(tiny_lm, tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    given, ours = (AutoModelForMaskedLM.from_config(AutoConfig.for_model("bert", **sizes)) for _ in range(2))
    given.save_pretrained(tmp_path)
    start_embeddings_from(ours, str(tmp_path))
    assert torch.equal(ours.get_input_embeddings().weight, given.get_input_embeddings().weight)
    with pytest.raises(ValueError, match="is a bert and the model to train a llama"):
        start_embeddings_from(new_lm(tiny_lm("llama")), str(tmp_path))


def test_wider_embeddings_come_over_by_their_principal_components(tiny_lm):
    """No other 24 directions keep more of the inner products than the singular value decomposition does."""
    lm = new_lm(tiny_lm("llama"), hidden_size=24, num_attention_heads=2)
    start_embeddings_from(lm, str(tiny_lm("gpt2")))
    ours = lm.get_input_embeddings().weight
    given = AutoModelForCausalLM.from_pretrained(tiny_lm("gpt2")).get_input_embeddings().weight
    left, sizes, _ = torch.linalg.svd(given, full_matrices=False)
    best = (left[:, :24] * sizes[:24]) @ (left[:, :24] * sizes[:24]).T
    torch.testing.assert_close(ours @ ours.T, best, atol=5e-5, rtol=0)


def test_narrower_embeddings_are_refused_with_both_widths(tiny_lm):
    lm = new_lm(tiny_lm("llama"), hidden_size=48)
    with pytest.raises(ValueError, match=r"are 32 wide, those of the model to train 48"):
        start_embeddings_from(lm, str(tiny_lm("gpt2")))


def test_another_tokenizer_is_refused(tiny_lm):
    with pytest.raises(ValueError, match="different pieces; tokenize the corpus again"):
        refuse_other_pieces(str(tiny_lm("gpt2", vocab=380)), tiny_lm("gpt2"))


@pytest.fixture(scope="module")
def command(tiny_lm, tmp_path_factory):
    """A step at a learning rate of nothing."""
    lm = str(tiny_lm("gpt2"))
    shards = write_shards(tmp_path_factory.mktemp("warm") / "shards", [FERRY], "--tokenizer", lm)
    words = ["lab", "pretrain", "--no-compile", "--shards", str(shards), "--preset", lm]
    return [*words, "--segment-length", "64", "--batch-segments", "1", "--tokens", "64", "--lr", "0"]


def test_an_lm_is_like_the_one_that_it_starts_from(command, tiny_lm, tmp_path, capsys):
    words = [word for word in command if word not in ("--preset", str(tiny_lm("gpt2")))]
    given = AutoModelForCausalLM.from_pretrained(tiny_lm("gpt2"))
    for name, some in (("lm", words), ("preset", command)):
        assert main([*some, "--out", str(tmp_path / name), "--init-from", str(tiny_lm("gpt2"))]) == 0
        lm = AutoModelForCausalLM.from_pretrained(tmp_path / name)
        assert lm.config.n_layer == given.config.n_layer and lm.config.direction == "backward"
        assert not differing(lm, given)
    assert main([*words, "--out", str(tmp_path / "lm2"), "--init-from", "no/such-lm"]) == 1
    assert re.search(r"no/such-lm: no (model|config) could be loaded from this path or name", capsys.readouterr().err)


@pytest.fixture(scope="module")
def causal(tmp_path_factory):
    """The words of a run at a learning rate of nothing, and the causal LM that it made."""
    folder = tmp_path_factory.mktemp("causal")
    shards = ["--shards", str(write_shards(folder / "shards", [FERRY])), "--segment-length", "64"]
    run = ["lab", "pretrain", "--no-compile", "--lr", "0", *shards, "--batch-segments", "1", "--tokens", "64"]
    assert main([*run, "--direction", "forward", "--preset", "tiny", "--out", str(folder / "lm")]) == 0
    return run, folder / "lm"


@pytest.mark.parametrize(
    ("option", "preset"),
    [
        ("--init-from", "eurobert-tiny"),
        ("--init-embeddings-from", "bert-tiny"),
        pytest.param("--init-embeddings-from", "eurobert-tiny", marks=pytest.mark.long),
    ],
)
def test_a_masked_lm_starts_from_a_causal_one_and_its_mask_from_nothing(causal, tmp_path, option, preset):
    """The blocks of a EuroBERT are a Llama's without the mask."""
    run, lm = causal
    masked = [*run, "--objective", "masked", "--seed", "2", "--preset", preset, "--out"]
    given = AutoModelForCausalLM.from_pretrained(lm).state_dict()
    pieces, rows = given["model.embed_tokens.weight"].shape[0], ("model.embed_tokens.weight", "lm_head.weight")
    assert main([*masked, str(tmp_path / "made"), option, str(lm)]) == 0
    made = AutoModelForMaskedLM.from_pretrained(tmp_path / "made")
    embeddings = made.get_input_embeddings().weight
    assert torch.equal(embeddings[:pieces], given[rows[0]]) and len(embeddings) == pieces + 1
    if option == "--init-from":
        state = made.state_dict()
        assert state.keys() == given.keys()
        assert all(torch.equal(state[name], given[name]) for name in given if name not in rows)
        again = [option, str(tmp_path / "made")]  # which has the mask piece already
        assert main([*masked, str(tmp_path / "again"), *again]) == 0
        assert not differing(AutoModelForMaskedLM.from_pretrained(tmp_path / "again"), made)


def test_a_masked_lm_of_another_architecture_is_refused(causal, tmp_path, capsys):
    words = ["--objective", "masked", "--preset", "bert-tiny", "--out", str(tmp_path / "made"), "--init-from"]
    assert main([*causal[0], *words, str(causal[1])]) == 1
    assert "has another architecture" in capsys.readouterr().err


def test_rotary_positions_that_turn_otherwise_are_refused(tiny_lm):
    lm = new_lm(tiny_lm("llama"), rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    with pytest.raises(ValueError, match=r"rotary positions .*500\.0.* here, .*10000\.0.* there"):
        start_from(lm, str(tiny_lm("llama")))


def test_both_at_once_are_refused(command, tiny_lm, tmp_path, capsys):
    names = ["--init-from", str(tiny_lm("gpt2")), "--init-embeddings-from", str(tiny_lm("gpt2"))]
    assert main([*command, "--out", str(tmp_path / "lm"), *names]) == 1
    assert "not both" in capsys.readouterr().err
