"""boustro lab pretrain, from the command line: what a run writes, how it goes on when interrupted, what it refuses.

Presets are covered here too.
"""

import json
import logging
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig

import boustro
from boustro.apps.cli.main import main
from boustro.lab.objectives.causal import causal
from boustro.lab.presets import PRESETS, make_config
from boustro.lab.pretrain.config import PretrainConfig
from boustro.lab.pretrain.recipes import RECIPES
from boustro.lab.pretrain.segments import Segments
from boustro.lab.pretrain.shards import Shards
from boustro.lab.pretrain.trainer import PretrainTrainer, training_arguments
from boustro.models.loss import LMWithLoss
from boustro.store import Artefact
from boustro.text.tokenizers import load_tokenizer
from pretraining import pretrain_words, weeks, write_shards

LENGTH, BATCH = 32, 2
STEP_PIECES = LENGTH * BATCH
STEPS = 9


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    return write_shards(tmp_path_factory.mktemp("data") / "train", weeks(range(40)))


@pytest.fixture(scope="module")
def validation(shards) -> Path:
    return write_shards(
        shards.with_name("validation"), weeks(range(3, 17), 9), "--tokenizer", str(shards / "tokenizer")
    )


def command(shards: Path, out: Path, *options: object, steps: int = STEPS) -> list[str]:
    """A run of `steps` steps of the tiny preset. A later option takes the place of an earlier one of its name."""
    given = {"--shards": shards, "--out": out, "--preset": "tiny", "--segment-length": LENGTH}
    given |= {"--batch-segments": BATCH, "--tokens": steps * STEP_PIECES}
    return pretrain_words(given, options)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


# What a run writes


@pytest.fixture(scope="module")
def trained(shards, validation, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "lm"
    assert main(command(shards, out, "--validation", validation, "--evaluations", 2, steps=40)) == 0
    return out


def test_the_folder_is_complete_opens_and_says_how_it_reads(trained, shards):
    assert "training.json" in Artefact(trained).check("model", verify=True)["files"]
    assert [path.name for path in trained.parent.iterdir()] == ["lm"]
    config = json.loads((trained / "config.json").read_text())
    assert (config["direction"], config["sentinel"]) == ("backward", True)
    lm = AutoModelForCausalLM.from_pretrained(trained)
    assert lm.config.max_position_embeddings == LENGTH and lm.dtype == torch.float32
    assert lm.get_input_embeddings().num_embeddings == lm.config.vocab_size == Shards.open(shards).config["vocab_size"]
    ours, theirs = (AutoTokenizer.from_pretrained(path) for path in (trained, shards / "tokenizer"))
    assert ours.get_vocab() == theirs.get_vocab()
    assert ours.decode(ours("monday tuesday")["input_ids"]) == "monday tuesday"


@pytest.mark.bf16
def test_the_loss_falls_on_a_pattern_and_is_measured_as_often_as_asked_for(trained, shards):
    training = json.loads((trained / "training.json").read_text())
    losses = [row["loss"] for row in training["history"] if "loss" in row]
    uniform = math.log(Shards.open(shards).config["vocab_size"])
    assert abs(losses[0] - uniform) < 1.5 and losses[-1] < 0.3 * uniform
    assert training["config"]["direction"] == "backward" and training["config"]["shards"] == [str(shards)]
    assert training["pieces_seen"] == 40 * STEP_PIECES
    assert training["num_parameters"] == sum(tensor.numel() for tensor in weights(trained).values())
    # not once more at the end of every epoch: the run has five
    assert [row["step"] for row in training["history"] if "eval_loss" in row] == [20, 40]


@pytest.mark.bf16
def test_the_validation_loss_is_that_of_the_saved_model_reading_backwards(trained, validation):
    training = json.loads((trained / "training.json").read_text())
    held_out = Shards.open(validation)
    segments = torch.from_numpy(np.stack(list(Segments(held_out, LENGTH, seed=None))))
    lm = LMWithLoss(AutoModelForCausalLM.from_pretrained(trained)).eval()
    with torch.no_grad():
        backward, forward = (
            lm(*causal(segments, direction, held_out.config["end_of_text_id"]))["loss"].item()
            for direction in ("backward", "forward")
        )
    assert training["validation_loss"] == pytest.approx(backward, rel=0.02)  # bf16 where it is fast
    assert training["validation_perplexity"] == pytest.approx(math.exp(training["validation_loss"]))
    assert backward < forward - 0.5


def test_a_forward_model_says_so_and_keeps_the_precision_asked_for(shards, tmp_path):
    options = ["--direction", "forward", "--save-dtype", "float16", "--optimizer", "adamw", "--schedule", "cosine"]
    assert main(command(shards, tmp_path / "lm", *options, steps=3)) == 0
    lm = AutoModelForCausalLM.from_pretrained(tmp_path / "lm")
    assert (lm.config.direction, lm.config.sentinel, lm.dtype) == ("forward", True, torch.float16)


def test_a_dry_run_says_what_a_run_would_cost_and_leaves_nothing(shards, validation, tmp_path, capsys):
    options = ("--validation", validation, "--dry-run", "--save-minutes", 0)
    assert main(command(shards, tmp_path / "lm", *options, steps=500)) == 0
    said = capsys.readouterr().err
    assert "dry run: 500 steps of " in said and "MB of weights" in said
    assert not list(tmp_path.iterdir())


def test_several_corpora_are_read_by_their_shares(shards, validation, tmp_path, capsys):
    both = ["--shards", f"{shards},{validation}"]
    assert main(command(shards, tmp_path / "by-share", *both, "--shares", "1,3", steps=2)) == 0
    assert main(command(shards, tmp_path / "by-size", *both, steps=2)) == 0
    runs = [json.loads((tmp_path / name / "training.json").read_text()) for name in ("by-share", "by-size")]
    assert runs[0]["config"]["shares"] == [1, 3]
    assert runs[0]["run"]["shards"] != runs[1]["run"]["shards"]
    assert not torch.equal(*(weights(tmp_path / n)["model.embed_tokens.weight"] for n in ("by-share", "by-size")))
    refused(command(shards, tmp_path / "none", *both, "--shares", 1), capsys, "2 corpora need as many shares")


def test_the_size_of_a_micro_batch_changes_nothing(shards, tmp_path):
    losses = []
    for micro in (1, 4):
        options = ["--batch-segments", 4, "--micro-batch-segments", micro, "--no-bf16"]
        assert main(command(shards, tmp_path / str(micro), *options, steps=8)) == 0
        history = json.loads((tmp_path / str(micro) / "training.json").read_text())["history"]
        losses.append([row["loss"] for row in history])
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.bf16
def test_no_mixed_precision_means_the_steps_of_muon_too(shards, tmp_path, monkeypatch):
    runs = {}
    for forced, options in (("0", []), ("1", ["--no-bf16"]), ("1", [])):
        monkeypatch.setenv("BOUSTRO_BF16", forced)
        out = tmp_path / f"{forced}{len(options)}"
        assert main(command(shards, out, *options, steps=2)) == 0
        runs[out.name] = weights(out)["model.layers.0.mlp.up_proj.weight"]
    assert torch.equal(runs["00"], runs["11"]) and not torch.equal(runs["00"], runs["10"])


def test_any_architecture_is_trained_from_its_config(shards, tiny_lm, tmp_path):
    config = tiny_lm("gpt_neox") / "config.json"
    assert main(command(shards, tmp_path / "lm", "--preset", config, steps=2)) == 0
    lm = AutoModelForCausalLM.from_pretrained(tmp_path / "lm")
    assert (lm.config.model_type, lm.config.max_position_embeddings) == ("gpt_neox", LENGTH)
    assert lm.config.vocab_size == Shards.open(shards).config["vocab_size"]


# Going on after an interruption


@pytest.fixture(scope="module")
def straight(shards, tmp_path_factory) -> Path:
    """The model of a run that nothing interrupted."""
    out = tmp_path_factory.mktemp("straight") / "lm"
    assert main(command(shards, out)) == 0
    return out


def interrupt(arguments: list[str], call: int) -> None:
    """Run a command that saves after each step, and interrupt it in the step of this number."""
    step, calls = PretrainTrainer.training_step, []

    def interrupted_step(self, *arguments, **options):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return step(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PretrainTrainer, "training_step", interrupted_step)
        assert main([*arguments, "--save-minutes", "0"]) == 130


@pytest.fixture(scope="module")
def interrupted(shards, tmp_path_factory) -> Path:
    """The folder of a run that was interrupted in its seventh step; it saved a checkpoint after each."""
    folder = tmp_path_factory.mktemp("interrupted")
    interrupt(command(shards, folder / "lm"), call=7)
    return folder


@pytest.fixture
def broken_off(interrupted, tmp_path) -> Path:
    """A copy of it, to go on in."""
    shutil.copytree(interrupted, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_an_interrupted_run_leaves_its_last_two_checkpoints_and_no_model(interrupted):
    assert [path.name for path in interrupted.iterdir()] == ["lm.checkpoints"]
    checkpoints = sorted((interrupted / "lm.checkpoints").iterdir())
    assert [path.name for path in checkpoints] == ["checkpoint-5", "checkpoint-6"]
    for checkpoint in checkpoints:
        files = Artefact(checkpoint).check("checkpoint", verify=True)["files"]
        assert files.keys() == {"weights.safetensors", "optimizer.safetensors", "optimizer.json", "trainer_state.json"}


@pytest.mark.bf16
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(shards, straight, broken_off, capsys):
    assert main(command(shards, broken_off / "lm", "--resume")) == 0
    assert f"resuming from {broken_off / 'lm.checkpoints' / 'checkpoint-6'}" in capsys.readouterr().err
    assert_same_weights(broken_off / "lm", straight)
    assert [path.name for path in broken_off.iterdir()] == ["lm"]


def test_a_damaged_checkpoint_is_named_and_passed_over(shards, straight, broken_off, capsys):
    """By its hashes: the size is right."""
    newest = broken_off / "lm.checkpoints" / "checkpoint-6"
    data = (newest / "weights.safetensors").read_bytes()
    (newest / "weights.safetensors").write_bytes(data[:-1] + bytes([data[-1] ^ 0xFF]))
    assert main(command(shards, broken_off / "lm", "--resume")) == 0
    messages = capsys.readouterr().err.splitlines()
    assert [line for line in messages if line.startswith("skipped an incomplete checkpoint") and str(newest) in line]
    assert f"resuming from {newest.with_name('checkpoint-5')}" in messages
    assert_same_weights(broken_off / "lm", straight)


def test_with_no_complete_checkpoint_a_run_starts_from_the_beginning_and_says_so(shards, straight, broken_off, capsys):
    for checkpoint in (broken_off / "lm.checkpoints").iterdir():
        (checkpoint / "manifest.json").unlink()
    assert main(command(shards, broken_off / "lm", "--resume")) == 0
    assert "no complete checkpoint, starting from the beginning" in capsys.readouterr().err
    assert_same_weights(broken_off / "lm", straight)


def test_a_half_written_checkpoint_does_not_push_out_a_complete_one(shards, broken_off):
    """Two are kept: a folder that nobody can go on from is none of them."""
    newest = broken_off / "lm.checkpoints" / "checkpoint-6"
    (newest / "manifest.json").unlink()
    newest.rename(newest.with_name("checkpoint-8"))
    interrupt([*command(shards, broken_off / "lm"), "--resume"], call=3)
    complete = {path.name for path in newest.parent.iterdir() if (path / "manifest.json").is_file()}
    assert complete == {"checkpoint-6", "checkpoint-7"}


def test_without_resume_a_run_is_refused_unless_it_may_begin_anew(shards, straight, broken_off, capsys):
    (broken_off / "new.checkpoints").mkdir()  # as a full disk leaves it: it holds nothing to lose
    assert main(command(shards, broken_off / "new", steps=1)) == 0
    said = refused(command(shards, broken_off / "lm"), capsys, "--resume", "--overwrite")
    where = broken_off / "lm.checkpoints"
    assert f"{where} has the checkpoints of a run that was stopped after step 6; give --resume" in said
    refused(command(shards, broken_off / "lm", "--resume", "--overwrite"), capsys, "not both")
    assert main(command(shards, broken_off / "lm", "--overwrite")) == 0
    assert "going on" not in capsys.readouterr().err
    assert_same_weights(broken_off / "lm", straight)


def test_a_finished_model_is_replaced_only_if_that_is_asked_for(shards, straight, tmp_path, capsys):
    shutil.copytree(straight, tmp_path / "lm")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "lm").iterdir()}
    refused(command(shards, tmp_path / "lm"), capsys, "already holds a model folder; give --overwrite")
    (tmp_path / "lm" / "notes.txt").write_text("years of work")
    refused(command(shards, tmp_path / "lm", "--overwrite"), capsys, "notes.txt, which Boustro did not write")
    (tmp_path / "lm" / "notes.txt").unlink()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "lm").iterdir()} == before
    assert main(command(shards, tmp_path / "lm", "--overwrite")) == 0
    assert_same_weights(tmp_path / "lm", straight)


def test_no_pieces_train_nothing(shards, tmp_path):
    """As for the other kinds of runs: the first weights are written, here those of the seed."""
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        given = ["--tokens", "0", "--seed", str(seed), "--validation", str(shards)]
        assert main(command(shards, tmp_path / name, *given)) == 0
    assert_same_weights(tmp_path / "one", tmp_path / "same")
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "one", tmp_path / "other")
    result = json.loads((tmp_path / "one" / "training.json").read_text())
    assert result["pieces_seen"] == 0 and result["validation_loss"] > 5


def test_another_run_s_checkpoint_is_refused(shards, broken_off, capsys):
    """What decides the weights differs: going on would give neither run's model."""
    refused(command(shards, broken_off / "lm", "--resume", "--direction", "forward"), capsys, "direction")


# What a run refuses


def refused(arguments: list[str], capsys, *words: str) -> str:
    """Exit code 1, one sentence with these words on stderr, and nothing written. Returns the sentence."""
    out = Path(arguments[arguments.index("--out") + 1])
    before = sorted(out.parent.rglob("*"))
    capsys.readouterr()
    assert main(arguments) == 1
    output, errors = capsys.readouterr()
    assert output == "" and errors.startswith("boustro: ") and errors.count("\n") == 1, errors
    assert [word for word in words if word not in errors] == [], errors
    assert sorted(out.parent.rglob("*")) == before
    return errors


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shards", "{absent}"], ["{absent}", "no such folder"]),
        (["--shards", "{trained}"], ["{trained} is a model folder", "shards folder is expected"]),
        (["--segment-length", 100_000], ["{shards}", "100,000"]),
        (["--batch-segments", "{more}"], ["{more}", "{shards}"]),  # too few for a batch: not trained on nothing
        (["--batch-segments", 4, "--micro-batch-segments", 3], ["--batch-segments 4", "--micro-batch-segments 3"]),
        (["--objective", "casual"], ["'casual'", "did you mean 'causal'?"]),
        (["--objective", "masked", "--preset", "bret-mini"], ["'bert-mini'"]),
        (["--preset", "{bert}"], ["which fits: masked"]),
        (["--out", "{taken}"], ["{taken} exists and is not a model folder"]),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_computed(shards, trained, tmp_path, capsys, options, words):
    places = {"absent": tmp_path / "absent", "trained": trained, "shards": shards, "taken": tmp_path / "taken"}
    places["more"] = len(Segments(Shards.open(shards), LENGTH)) + 1
    places["bert"] = tmp_path / "config.json"
    places["bert"].write_text(BertConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=1).to_json_string())
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "chapter.txt").write_text("years of work")
    given, expected = ([str(one).format(**places) for one in some] for some in (options, words))
    refused(command(shards, tmp_path / "lm", *given), capsys, *expected)


@pytest.mark.parametrize("same_size", [False, True])
def test_validation_shards_of_another_tokenizer_are_refused(shards, tmp_path, capsys, same_size):
    """The ids would mean other pieces, and the loss nothing."""
    size = Shards.open(shards).config["vocab_size"]
    lake = ["the otter swims across a quiet lake while herons wait in reeds " * 30]
    other = write_shards(tmp_path / "other", lake, "--train-tokenizer", str(size if same_size else 280))
    found = Shards.open(other).config["vocab_size"]
    assert (found == size) == same_size
    words = [str(other)] if same_size else [str(other), str(shards), f"{size}", f"{found}", "tokenize both with one"]
    refused(command(shards, tmp_path / "lm", "--validation", other), capsys, *words)


# Presets


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_fitted_to_the_vocabulary_and_the_window(preset):
    config = make_config(preset, vocab_size=321, max_pieces=77, end_of_text_id=5)
    assert (config.vocab_size, config.max_position_embeddings) == (321, 77)
    assert (config.bos_token_id, config.eos_token_id) == (5, 5)
    with torch.device("meta"):
        lm = AutoModelForCausalLM.from_config(config)
    assert lm.get_output_embeddings().weight is lm.get_input_embeddings().weight


def test_gpt2_base_is_the_model_of_the_paper_and_the_others_are_smaller():
    with torch.device("meta"):
        sizes = [
            AutoModelForCausalLM.from_config(make_config(name, 50257, 1024, 50256)).num_parameters()
            for name in ("gpt2-base", "small", "mini", "tiny")
        ]
    assert sizes[0] == 124_439_808 and sizes == sorted(set(sizes), reverse=True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gpt2base", r"unknown preset 'gpt2base'.*path to a config\.json; did you mean 'gpt2-base'\?"),
        ("Tiny", r"did you mean 'tiny'\?"),
        ("xyzzy", r"known are gpt2-base, tiny, mini, small, or a path to a config\.json$"),
    ],
)
def test_an_unknown_preset_suggests_the_nearest_and_lists_those_there_are(name, message):
    with pytest.raises(ValueError, match=message):
        make_config(name, 300, 32, 0)


# Objectives


def test_a_further_objective_is_one_entry(shards, tmp_path, monkeypatch):
    """To predict the pieces that are read; a batch has the keys of its examples."""
    keys = []

    def echo(examples, run):
        keys.extend((example.epoch, example.index) for example in examples)
        pieces = torch.from_numpy(np.stack([example.pieces for example in examples]))
        return {"input_ids": pieces, "targets": pieces}

    monkeypatch.setitem(RECIPES, "echo", replace(RECIPES["causal"], make_batch=echo))
    assert main(command(shards, tmp_path / "lm", "--objective", "echo", steps=2)) == 0
    assert len(set(keys)) == 2 * BATCH and {epoch for epoch, _ in keys} == {0}


@pytest.mark.parametrize("preset", [pytest.param("bert-tiny", marks=pytest.mark.long), "eurobert-tiny"])
def test_a_masked_lm_learns_the_pattern_and_reads_words(shards, tmp_path, preset):
    options = ["--objective", "masked", "--preset", preset, "--mask-rate", 0.3, "--validation", shards]
    assert main(command(shards, tmp_path / "lm", *options, "--lr", 0.01, steps=40)) == 0
    training = json.loads((tmp_path / "lm" / "training.json").read_text())
    uniform = math.log(Shards.open(shards).config["vocab_size"])
    assert training["validation_loss"] < 0.6 * uniform
    tokenizer = load_tokenizer(tmp_path / "lm")
    assert tokenizer.mask_token_id == len(tokenizer) - 1 == Shards.open(shards).config["vocab_size"]
    encoder = boustro.load_encoder(f"masked:{tmp_path / 'lm'}")
    one, other = (encoder.encode_all([["monday", "then", last]]).streams[0] for last in ("tuesday", "friday"))
    assert not np.allclose(one[0], other[0], atol=1e-2)  # the first word's state follows from the last word


def test_a_loss_that_is_no_number_ends_the_run(shards, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("boustro.models.loss.lm_loss", lambda states, *rest, **named: states.sum() * math.nan)
    assert main(command(shards, tmp_path / "lm", steps=2)) == 1
    assert "the loss at step 1 is nan; nothing was written. Try a lower --lr" in capsys.readouterr().err


def test_nothing_is_said_of_compiling_without_a_gpu(tmp_path, caplog):
    config = PretrainConfig(shards=(tmp_path,), out=tmp_path / "out")
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    with patch.dict(os.environ):  # where transformers writes what is to be compiled
        training_arguments(config, 1, validate=False, torch_compile=True)
    logger.removeHandler(caplog.handler)
    assert not caplog.records
