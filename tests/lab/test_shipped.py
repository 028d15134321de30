"""Shipped LMs by their names: a run begins with one, a fusion and an adaptation name theirs."""

import json
from pathlib import Path

import pytest

from boustro.apps.cli.main import main
from boustro.encoders.spec import load_encoder
from boustro.names import locate_model
from pretraining import write_shards

TEXT = "\n\n".join(["The ferry to Vellmar leaves at seven, and Ada Brandt is never on time."] * 40)


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    return write_shards(tmp_path_factory.mktemp("names") / "shards", [TEXT], "--tokenizer", "starter-forward")


@pytest.mark.parametrize("option", ["--init-from", "--init-embeddings-from"])
def test_a_run_begins_with_a_shipped_lm(shards, tmp_path, option):
    from safetensors.torch import load_file

    words = ["lab", "pretrain", "--shards", str(shards), option, "starter-forward", "--segment-length", "32"]
    words += ["--tokens", "0", "--batch-segments", "1", "--no-compile"]
    assert main([*words, "--out", str(tmp_path / "lm")]) == 0
    name = "model.embed_tokens.weight"
    ours, theirs = (
        load_file(Path(p) / "model.safetensors")[name] for p in (tmp_path / "lm", locate_model("starter-forward"))
    )
    assert ours.shape == theirs.shape and (ours - theirs.float()).abs().max() == 0


def test_a_fusion_and_an_adaptation_of_shipped_lms_name_them(shards, tmp_path):
    given = ["--shards", str(shards), "--tokens", "0", "--segment-length", "32", "--batch-segments", "1"]
    pair = ["--forward", "starter-forward", "--backward", "starter-backward"]
    assert main(["lab", "fuse", *pair, *given, "--out", str(tmp_path / "fusion")]) == 0
    assert main(["lab", "adapt", "--lm", "starter-forward", *given, "--out", str(tmp_path / "adapted")]) == 0
    assert json.loads((tmp_path / "fusion" / "config.json").read_text())["forward"] == "starter-forward"
    assert json.loads((tmp_path / "adapted" / "adaptation.json").read_text())["base"] == "starter-forward"
    load_encoder(f"fused:{tmp_path / 'fusion'}+unmasked:{tmp_path / 'adapted'}")
