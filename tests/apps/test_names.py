"""Names of models: shipped ones work wherever a model is named, misspelt ones suggest them, `~` is the home folder."""

import json
import shutil
import socket
from pathlib import Path

import pytest
from huggingface_hub import constants

from boustro import names
from boustro.apps.cli.main import main
from boustro.encoders.spec import Spec, SpecPart, load_encoder
from boustro.names import locate_model
from boustro.text.tokenizers import load_tokenizer
from pretraining import write_shards

TEXT = "\n\n".join(["The ferry to Vellmar leaves at seven, and Ada Brandt is never on time."] * 40)


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    return write_shards(tmp_path_factory.mktemp("names") / "shards", [TEXT], "--tokenizer", "starter-forward")


def test_the_shipped_pair_has_one_tokenizer_under_every_name_of_it():
    vocabularies = [load_tokenizer(name).get_vocab() for name in ("starter", "starter-forward", "starter-backward")]
    assert vocabularies[0] == vocabularies[1] == vocabularies[2] and len(vocabularies[0]) > 1000


@pytest.mark.parametrize("option", ["--init-from", "--init-embeddings-from"])
def test_a_run_begins_with_a_shipped_lm(shards, tmp_path, option):
    from safetensors.torch import load_file

    words = [
        "lab",
        "pretrain",
        "--shards",
        str(shards),
        option,
        "starter-forward",
        "--segment-length",
        "32",
        "--tokens",
        "0",
    ]
    assert main([*words, "--batch-segments", "1", "--no-compile", "--out", str(tmp_path / "lm")]) == 0
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


@pytest.mark.parametrize("name", ["starter-foward", "starter-backwards", "startr", "Starter-forward"])
def test_a_misspelt_shipped_name_is_suggested_and_the_hub_is_not_asked(name, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(names, "prepare_hub", lambda: pytest.fail("the hub was asked"))
    with pytest.raises(FileNotFoundError, match=rf"{name}: no such folder.*did you mean starter"):
        Spec.parse(f"starter-forward+{name}").check()
    with pytest.raises(FileNotFoundError, match="did you mean starter"):
        load_tokenizer(name)
    (tmp_path / "text.txt").write_text(TEXT)
    assert (
        main(["lab", "tokenize", str(tmp_path / "text.txt"), "--tokenizer", name, "--out", str(tmp_path / "out")]) == 1
    )
    assert "did you mean starter" in capsys.readouterr().err


def test_the_home_folder_is_meant_by_a_tilde(tiny_lm, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    lm = Path(shutil.copytree(tiny_lm("llama"), tmp_path / "lm"))
    there = load_encoder("~/lm").identity()
    assert there == load_encoder(str(lm)).identity()
    assert Spec.parse("~/lm").exact(there) == str(lm)
    load_encoder("backward:~/lm+~/lm")
    with pytest.raises(FileNotFoundError, match="none"):
        load_encoder("~/none")


@pytest.mark.parametrize("use", [Spec.parse, load_encoder])
def test_a_folder_has_no_revision(tiny_lm, use):
    for path in (str(tiny_lm("llama")), "starter-forward"):
        for kind in ("", "backward:"):
            with pytest.raises(ValueError, match="is a folder here, which has no revision; leave out @abc123"):
                use(f"{kind}{path}@abc123")
    assert SpecPart.parse("backward:some/lm@abc123") == SpecPart(
        "backward:some/lm@abc123", "backward:", "some/lm", "abc123"
    )


def test_where_the_hub_cannot_be_reached_its_client_is_told_once(monkeypatch):
    """Otherwise it tries for half a minute, file by file."""
    asked = []

    def refuse(address, timeout):
        asked.append((address, timeout))
        raise OSError("no route")

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(names, "getproxies", dict)
    monkeypatch.setattr(socket, "create_connection", refuse)
    names.prepare_hub.cache_clear()
    try:
        for _ in range(2):
            assert locate_model("some/lm") == "some/lm"
        assert [address[1] for address, _ in asked] == [443] and constants.HF_HUB_OFFLINE
    finally:
        names.prepare_hub.cache_clear()
