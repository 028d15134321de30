"""The harness itself: the network is shut, the caches are temporary, the tiny models are what they say."""

import json
import os
import socket
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer


def test_a_connection_to_the_outside_is_refused():
    with socket.socket() as client, pytest.raises(RuntimeError, match=r"tried to reach 192\.0\.2\.1"):
        client.connect(("192.0.2.1", 80))


def test_a_name_is_not_looked_up():
    with pytest.raises(RuntimeError, match=r"tried to look up example\.org"):
        socket.create_connection(("example.org", 80))


def test_a_local_connection_is_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


def test_the_cache_is_a_temporary_folder_and_the_hub_is_offline():
    assert "boustro-tests-" in os.environ["BOUSTRO_CACHE"]
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_the_tiny_tokenizer_has_all_its_pieces(tiny_tokenizer):
    assert len(AutoTokenizer.from_pretrained(tiny_tokenizer)) == 400


@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen3", "gpt_neox"])
def test_a_tiny_lm_is_a_model_folder_of_its_family(tiny_lm, kind):
    folder = tiny_lm(kind, direction="backward", sentinel=True)
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["direction"], config["sentinel"]) == (kind, "backward", True)
    lm = AutoModelForCausalLM.from_pretrained(folder)
    assert (lm.config.hidden_size, lm.config.num_hidden_layers, lm.config.max_position_embeddings) == (32, 2, 64)
    assert lm.get_input_embeddings().weight.shape == (len(AutoTokenizer.from_pretrained(folder)), 32)
    assert 0.25 < lm.get_input_embeddings().weight.std().item() < 0.35


def test_a_tiny_lm_depends_on_its_seed_alone(tiny_lm):
    def weights(folder: Path) -> bytes:
        return (folder / "model.safetensors").read_bytes()

    assert weights(tiny_lm("llama")) == weights(tiny_lm("llama", direction="backward"))
    assert weights(tiny_lm("llama")) != weights(tiny_lm("llama", seed=1))


def test_a_tiny_lm_can_have_another_vocabulary(tiny_lm):
    assert len(AutoTokenizer.from_pretrained(tiny_lm("gpt2", vocab=300))) == 300


@pytest.mark.shared_data
def test_the_shared_data_are_found(shared_data):
    assert (shared_data / "README.md").is_file()
