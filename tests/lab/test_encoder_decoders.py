"""Encoder-decoders are named for what they are, wherever a model is named, before any weights are read."""

import shutil
from itertools import cycle
from pathlib import Path

import pytest
from transformers import AutoConfig, BartConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from boustro.apps.cli.main import main
from boustro.encoders.spec import load_encoder
from boustro.lab.generation.both_ends.pair import LMPair
from boustro.lab.generation.models import open_lm
from boustro.lab.judges import open_judge
from boustro.lab.pretrain.recipes import fitting_objectives
from boustro.models.pretrained import architecture_kind, describe_architecture

KINDS = ("t5", "mt5", "umt5", "longt5", "switch_transformers", "t5gemma", "m2m_100", "nllb-moe")
ALSO_CALLED_LMS = ("bart", "mbart", "mvp", "marian", "pegasus", "blenderbot", "plbart", "prophetnet", "bigbird_pegasus")
"""transformers lists these among its masked LMs, its causal LMs, or both."""


def write(folder: Path, kind: str, tokenizer: Path) -> Path:
    """A folder without weights."""
    shutil.copytree(tokenizer, folder)
    AutoConfig.for_model(kind).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", [*KINDS, *ALSO_CALLED_LMS])
def test_an_encoder_decoder_is_neither_a_causal_nor_a_masked_lm(kind):
    config = AutoConfig.for_model(kind)
    assert architecture_kind(config) is None and describe_architecture(config) == f"an encoder-decoder ({kind})"
    assert fitting_objectives(config) == []


def test_the_list_of_those_that_transformers_calls_lms_is_complete():
    listed = {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_MASKED_LM_MAPPING_NAMES}
    assert listed.issuperset(ALSO_CALLED_LMS) and listed.isdisjoint(KINDS)


def test_a_decoder_taken_from_one_is_a_causal_lm():
    """As `BartForCausalLM` writes its config."""
    assert architecture_kind(BartConfig(is_decoder=True, is_encoder_decoder=False)) == "causal"


@pytest.mark.parametrize(
    ("spec", "kind"),
    zip(["{}", "backward:{}", "unmasked:{}", "repeated:{}", "masked:{}"], cycle(["t5", "bart", "marian"])),
)
def test_no_encoder_reads_one(tiny_tokenizer, tmp_path, kind, spec):
    folder = write(tmp_path / "model", kind, tiny_tokenizer)
    wanted = "masked" if spec.startswith("masked") else "causal"
    with pytest.raises(ValueError, match=rf"model is an encoder-decoder \({kind}\), not a {wanted} LM; name a"):
        load_encoder(spec.format(folder))


@pytest.mark.parametrize(
    ("kind", "load"),
    [("t5", open_lm), ("bart", LMPair.load), ("marian", lambda path: open_judge(path, None, None))],
)
def test_no_writer_filler_or_judge_takes_one(tiny_tokenizer, tmp_path, kind, load):
    path = str(write(tmp_path / "model", kind, tiny_tokenizer))
    spec = f"{path}+backward:{path}" if load == LMPair.load else path
    with pytest.raises(ValueError, match=rf"model is an encoder-decoder \({kind}\), n"):
        load(spec)


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_commands_refuse_one_with_a_sentence(tiny_tokenizer, tmp_path, capsys, kind):
    """Fitting, scoring and embedding."""
    folder, text = str(write(tmp_path / "model", kind, tiny_tokenizer)), tmp_path / "text.txt"
    text.write_text("Ada sold boats.\nNobody reads.\n")
    train = tmp_path / "train.conll"
    train.write_text("Ada B-PER\nslept O\n\n")
    for command in (
        ["fit", "--train", str(train), "--encoder", folder, "--out", str(tmp_path / "tagger")],
        ["fit", "--train", str(train), "--encoder", f"masked:{folder}", "--out", str(tmp_path / "tagger")],
        ["lab", "score", "--encoder", folder, str(text)],
        ["embed", str(text), "--encoder", folder, "--out", str(tmp_path / "vectors")],
    ):
        assert main(command) == 1
        assert f"is an encoder-decoder ({kind})" in capsys.readouterr().err
