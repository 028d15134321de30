"""boustro pretrain --objective: each is trained, killed, resumed bit by bit, measured exactly, read as an encoder."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig

import boustro
import children
from boustro.cli import main
from boustro.pretrain.objectives import RECIPES
from boustro.store import open_folder
from boustro.text.shards import Shards
from boustro.text.tokenizers import load_tokenizer

STEPS, LENGTH, BATCH, MICRO = 4, 24, 4, 2
PRESETS = {"masked": "eurobert-tiny", "span": "bert-tiny", "replaced": "electra-tiny", "sentence-pair": "bert-tiny"}
BESIDE = {"span": "boundary.", "replaced": "generator."}
"""What is trained beside the LM, by the objectives that do so."""
objectives = pytest.mark.parametrize("objective", PRESETS)
WORDS = "ada brandt sold umbrellas in port lisse and nobody there read the harbour bulletin".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("objectives")


@pytest.fixture(scope="module")
def shards(folder) -> Path:
    """Documents of very different lengths, so that segments differ in what they can be asked for."""
    random = np.random.default_rng(0)
    documents = [" ".join(random.choice(WORDS, n)) + "." for n in (1, 2, 1, 1, 40, 3, 1, 90, 1, 1, 2, 30)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    words = ["tokenize", str(folder / "text.txt"), "--out", str(folder / "shards"), "--workers", "1"]
    assert main([*words, "--train-tokenizer", "320"]) == 0
    return folder / "shards"


@pytest.fixture(scope="module")
def command(shards):
    """command(objective, out, *options) → four steps of two micro-batches; a later option replaces one of its name."""

    def make(objective: str, out: Path, *options: object) -> list[str]:
        given = {"--objective": objective, "--preset": PRESETS.get(objective, "mini"), "--shards": shards, "--out": out}
        given |= {"--segment-length": LENGTH, "--batch-segments": BATCH, "--micro-batch-segments": MICRO}
        given |= {"--tokens": STEPS * BATCH * LENGTH, "--hide": "word", "--mask-rate": 0.3, "--bf16": False}
        given |= {"--validation": shards, "--evaluations": 2}
        for name in set(given) & set(options):
            given.pop(name)
        return ["pretrain", "--no-compile", *(str(word) for pair in given.items() for word in pair), *map(str, options)]

    return make


@pytest.fixture(scope="module")
def straight(command, folder):
    """straight(objective) → the folder of an undisturbed run, made once."""

    def make(objective: str) -> Path:
        out = folder / objective
        if not out.exists():
            assert main(command(objective, out)) == 0
        return out

    return make


def history(out: Path) -> list[dict[str, float]]:
    open_folder(out, "model", verify=True)
    return json.loads((out / "training.json").read_text())["history"]


def assert_same_run(out: Path, other: Path) -> None:
    ours, theirs = (load_file(path / "model.safetensors") for path in (out, other))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert history(out) == history(other)


def test_every_recipe_is_tested_here():
    assert RECIPES.keys() - {"causal"} == PRESETS.keys()


@objectives
def test_a_run_that_was_killed_ends_in_the_same_weights_and_losses(command, straight, tmp_path, capsys, objective):
    """kill -9 in the second micro-batch of step 4; what is trained beside the LM is in the checkpoint."""
    words = command(objective, tmp_path / "lm", "--save-minutes", 0)
    process = children.start(children.killed_in_micro_batch, words, tmp_path / "run.err", 8)
    assert children.finish(process) == -9
    newest = tmp_path / "lm.checkpoints" / "checkpoint-3"
    beside = load_file(newest / "rest.safetensors").keys() if (newest / "rest.safetensors").exists() else []
    prefix = BESIDE.get(objective)
    assert all(name.startswith(prefix) for name in beside) and bool(beside) == bool(prefix)
    wanted = straight(objective)
    capsys.readouterr()
    assert main([*words, "--resume"]) == 0
    assert f"going on from {newest}" in capsys.readouterr().err
    assert_same_run(tmp_path / "lm", wanted)


@objectives
def test_what_stands_beside_the_lm_is_trained(command, straight, tmp_path, objective):
    if objective not in BESIDE:
        pytest.skip("nothing does")
    words = command(objective, tmp_path / "lm", "--save-minutes", 0)
    process = children.start(children.killed_in_micro_batch, words, tmp_path / "run.err", 2 * STEPS)
    assert children.finish(process) == -9
    first, last = (
        load_file(tmp_path / "lm.checkpoints" / f"checkpoint-{n}" / "rest.safetensors") for n in (STEPS - 2, STEPS - 1)
    )
    assert [name for name in first if torch.equal(first[name], last[name])] == []


@objectives
def test_the_folder_holds_the_lm_alone_and_reads_words(straight, shards, objective):
    out = straight(objective)
    recipe = RECIPES[objective]
    lm = recipe.model.from_config(AutoConfig.from_pretrained(out))
    saved = load_file(out / "model.safetensors")
    assert saved.keys() <= lm.state_dict().keys()
    tokenizer = load_tokenizer(out)
    assert tokenizer.mask_token_id == Shards.open(shards).config["vocab_size"]
    assert lm.get_input_embeddings().num_embeddings == len(tokenizer)
    encoder = boustro.load_encoder(f"masked:{out}")
    one, other = (encoder.encode_all([["ada", "sold", last]]).streams[0] for last in ("umbrellas", "bulletin"))
    assert np.isfinite(one).all() and not np.allclose(one[0], other[0], atol=1e-4)


# Means over all targets, whoever computes them


@objectives
def test_the_size_of_a_micro_batch_changes_nothing_but_rounding(command, tmp_path, objective, monkeypatch):
    """Losses of micro-batches with few and many targets; each target counts the same."""
    preset = {"bert-tiny": tmp_path / "config.json"}.get(PRESETS[objective], PRESETS[objective])
    (tmp_path / "config.json").write_text(json.dumps(WITHOUT_DROPOUT))
    for name, micro in (("one", 1), ("all", BATCH)):
        assert main(command(objective, tmp_path / name, "--micro-batch-segments", micro, "--preset", preset)) == 0
    one, all_ = (history(tmp_path / name) for name in ("one", "all"))
    assert len(one) == len(all_) >= STEPS
    for row, wanted in zip(one, all_, strict=True):
        assert row == pytest.approx(wanted, rel=2e-4)


WITHOUT_DROPOUT = {
    "model_type": "bert",
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 128,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
