"""Names of models: shipped ones work wherever a model is named, misspelt ones suggest them, `~` is the home folder."""

import shutil
import socket
from pathlib import Path

import pytest
from huggingface_hub import constants

from boustro import names
from boustro.encoders.spec import Spec, SpecPart, load_encoder
from boustro.names import locate_model
from boustro.text.tokenizers import load_tokenizer


def test_the_shipped_pair_has_one_tokenizer_under_every_name_of_it():
    vocabularies = [load_tokenizer(name).get_vocab() for name in ("starter", "starter-forward", "starter-backward")]
    assert vocabularies[0] == vocabularies[1] == vocabularies[2] and len(vocabularies[0]) > 1000


@pytest.mark.parametrize("name", ["starter-foward", "starter-backwards", "startr", "Starter-forward"])
def test_a_misspelt_shipped_name_is_suggested_and_the_hub_is_not_asked(name, monkeypatch):
    monkeypatch.setattr(names, "prepare_hub", lambda: pytest.fail("the hub was asked"))
    with pytest.raises(FileNotFoundError, match=rf"{name}: no such folder.*did you mean starter"):
        Spec.parse(f"starter-forward+{name}").check()
    with pytest.raises(FileNotFoundError, match="did you mean starter"):
        load_tokenizer(name)


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
            assert str(locate_model("some/lm")) == "some/lm"
        assert [address[1] for address, _ in asked] == [443] and constants.HF_HUB_OFFLINE
    finally:
        names.prepare_hub.cache_clear()
