"""lab.pretrain.projected: frozen embeddings through a projection, folded into an ordinary LM when it is saved."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from boustro.apps.cli.main import main
from boustro.lab.pretrain.projected import fold, project_embeddings, standardised
from boustro.lab.pretrain.run import read_embeddings
from pretraining import write_shards

FERRY = "The ferry to Vellmar leaves at seven. " * 40
NARROW = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def make_lm(**options) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**{**NARROW, "vocab_size": 50, "tie_word_embeddings": True, **options}))


def test_the_axes_are_those_of_running_text_and_standardised():
    torch.manual_seed(0)
    turn = torch.linalg.qr(torch.randn(8, 8))[0]
    table, counts = (torch.randn(30, 8) * torch.arange(1, 9)) @ turn, torch.randint(100, (30,))
    found, weights = standardised(table, counts, power=1.0), (counts + 1) / (counts + 1).sum()
    torch.testing.assert_close((found * weights[:, None]).T @ found, torch.eye(8), atol=1e-4, rtol=1e-4)
    turned = standardised(table, counts, power=0.0)
    variances = (turned**2 * weights[:, None]).sum(0)
    assert (variances.diff() <= 0).all() and variances.mean() == pytest.approx(1.0, abs=1e-4)
    torch.testing.assert_close(torch.corrcoef(turned @ turned.T), torch.corrcoef(table @ table.T), atol=1e-4, rtol=1e-4)


def test_the_folded_lm_computes_what_the_projected_one_does():
    lm, table = make_lm(), torch.randn(50, 24)
    project_embeddings(lm, table, torch.zeros(50, dtype=torch.int64))
    with torch.no_grad():
        lm.get_input_embeddings().projection.add_(torch.randn(24, 16))
    ids = torch.randint(50, (2, 7))
    assert sum(p.numel() for p in lm.parameters()) < 5000 and not any(p.shape[0] == 50 for p in lm.parameters())
    plain = make_lm()
    plain.load_state_dict(fold(lm, lm.state_dict()))
    torch.testing.assert_close(plain(ids).logits, lm(ids).logits, atol=1e-4, rtol=1e-4)


def test_only_the_projection_learns_and_the_table_is_in_no_checkpoint():
    lm = make_lm()
    project_embeddings(lm, torch.randn(50, 24), torch.zeros(50, dtype=torch.int64))
    lm(torch.tensor([[1, 2]]), labels=torch.tensor([[1, 2]])).loss.backward()
    assert lm.get_input_embeddings().projection.grad.abs().sum() > 0
    assert not lm.get_input_embeddings().table.requires_grad
    assert not any("table" in name for name in lm.state_dict())


def test_a_head_of_its_own_becomes_a_tied_one():
    lm = make_lm(tie_word_embeddings=False)
    project_embeddings(lm, torch.randn(50, 24), torch.zeros(50, dtype=torch.int64))
    assert lm.config.tie_word_embeddings and lm.lm_head.projection is lm.get_input_embeddings().projection


def test_a_table_that_is_narrower_than_the_lm_is_refused():
    with pytest.raises(ValueError, match="8 wide, the model to train 16"):
        project_embeddings(make_lm(), torch.randn(50, 8), torch.zeros(50, dtype=torch.int64))


@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen3", "gpt_neox"])
def test_the_embeddings_of_a_folder_are_those_of_the_model(kind, tiny_lm, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(tiny_lm(kind))
    wanted = model.get_input_embeddings().weight
    torch.testing.assert_close(read_embeddings(str(tiny_lm(kind))), wanted)
    model.base_model.save_pretrained(tmp_path / "body")  # names without the prefix
    torch.testing.assert_close(read_embeddings(str(tmp_path / "body")), wanted)
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    torch.testing.assert_close(read_embeddings(str(tmp_path / "shards")), wanted)


def pretrain(tiny_lm, folder, *more) -> int:
    shards = write_shards(folder / "shards", [FERRY] * 30, "--tokenizer", str(tiny_lm("llama")))
    AutoConfig.for_model("llama", vocab_size=400, tie_word_embeddings=True, **NARROW).save_pretrained(folder / "shape")
    own = ["--preset", str(folder / "shape" / "config.json"), "--embeddings-of", str(tiny_lm("llama"))]
    sizes = ["--segment-length", "16", "--batch-segments", "4", "--tokens", "1920", "--no-compile"]
    return main(["lab", "pretrain", "--shards", str(shards), *own, *sizes, "--sampled-pieces", "50", *more])


def test_a_run_learns_and_writes_an_ordinary_lm(tiny_lm, tmp_path):
    measured = ["--validation", str(tmp_path / "shards"), "--validation-pieces", "160", "--evaluations", "1"]
    assert pretrain(tiny_lm, tmp_path, *measured, "--lr", "0.05", "--out", str(tmp_path / "lm")) == 0
    record = json.loads((tmp_path / "lm" / "training.json").read_text())
    first, last = record["history"][0]["loss"], record["validation_loss"]
    assert last < first - 0.5
    lm = AutoModelForCausalLM.from_pretrained(tmp_path / "lm")
    assert lm.get_input_embeddings().weight.shape == (400, 16) and lm.config.direction == "backward"
    assert record["num_parameters"] < 5000


def test_the_sampled_loss_is_for_causal_lms_only(tmp_path, capsys):
    shards = write_shards(tmp_path / "shards", [FERRY] * 30)
    arguments = ["--objective", "masked", "--preset", "eurobert-tiny", "--segment-length", "16", "--no-compile"]
    arguments += ["--shards", str(shards), "--out", str(tmp_path / "lm")]
    assert main(["lab", "pretrain", *arguments, "--sampled-pieces", "5"]) == 1
    assert "--sampled-pieces is for --objective causal, not masked" in capsys.readouterr().err
