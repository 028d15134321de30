"""boustro lab pretrain survives kill -9 anywhere, SIGTERM, SIGINT; what a step reads follows from its number."""

import json
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import children
from boustro.apps.cli.main import main
from boustro.lab.pretrain import trainer
from boustro.lab.pretrain.checkpoints import load_steps
from boustro.lab.pretrain.segments import Segments, SegmentStream
from boustro.lab.pretrain.shards import Shards
from boustro.store import Artefact
from pretraining import pretrain_words, write_shards

STEPS, MICRO, ACCUMULATED = 6, 2, 2
LENGTH, BATCH = 16, MICRO * ACCUMULATED


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("resume")


@pytest.fixture(scope="module")
def shards(folder) -> Path:
    """13 or 14 segments and some pieces: batches of 4 do not fill an epoch, and the run has nearly two."""
    random = np.random.default_rng(0)
    made = write_shards(folder / "shards", ("".join(random.choice([*"abcd "], 118)) for _ in range(4)))
    assert len(Segments(Shards.open(made), LENGTH)) in (13, 14)
    return made


@pytest.fixture(scope="module")
def architecture(folder) -> Path:
    """A GPT-2 with its usual dropout."""
    shape = {"n_embd": 16, "n_layer": 2, "n_head": 2, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **shape}))
    return folder / "config.json"


@pytest.fixture(scope="module")
def command(shards, architecture):
    """command(out, *options) → a run of six steps of two micro-batches that saves after every step."""

    def make(out: Path, *options: object) -> list[str]:
        given = {"--shards": shards, "--out": out, "--preset": architecture, "--segment-length": LENGTH}
        given |= {"--batch-segments": BATCH, "--micro-batch-segments": MICRO, "--tokens": STEPS * BATCH * LENGTH}
        given |= {"--save-minutes": 0}
        return pretrain_words(given, ["--no-bf16", *options])

    return make


def result(out: Path) -> tuple[dict[str, torch.Tensor], list]:
    """The weights of a finished run, and its losses."""
    Artefact(out).check("model", verify=True)
    return load_file(out / "model.safetensors"), json.loads((out / "training.json").read_text())["history"]


@pytest.fixture(scope="module")
def straight(command, folder) -> tuple[dict[str, torch.Tensor], list]:
    """What an undisturbed run gives."""
    assert main(command(folder / "straight")) == 0
    return result(folder / "straight")


def assert_resumes(command, out: Path, straight, capsys, *options: str) -> str:
    """The run goes on to the undisturbed run's weights and losses, bit by bit; returns what it said."""
    capsys.readouterr()
    assert main(command(out, "--resume", *options)) == 0
    weights, history = result(out)
    assert [name for name in straight[0] if not torch.equal(straight[0][name], weights[name])] == []
    assert history == straight[1]
    assert [path.name for path in out.parent.iterdir() if path.suffix != ".err"] == [out.name]
    return capsys.readouterr().err


# kill -9


@pytest.mark.parametrize(
    ("number", "newest"),
    [(1, None), pytest.param(2, None, marks=pytest.mark.long), pytest.param(7, 3, marks=pytest.mark.long), (8, 3)],
)
def test_killed_in_a_micro_batch(command, straight, tmp_path, capsys, number, newest):
    process = children.start(children.killed_in_micro_batch, command(tmp_path / "lm"), tmp_path / "run.err", number)
    assert children.finish(process) == -9
    said = assert_resumes(command, tmp_path / "lm", straight, capsys)
    wanted = "starting from the beginning" if newest is None else f"resuming from {tmp_path}/lm.checkpoints/checkpoint-"
    assert f"{wanted}{newest or ''}\n" in said


def test_seconds_go_on_counting(command, tmp_path, monkeypatch):
    out = tmp_path / "lm"
    process = children.start(children.killed_in_micro_batch, command(out), tmp_path / "run.err", 7)
    assert children.finish(process) == -9
    kept = json.loads((tmp_path / "lm.checkpoints/checkpoint-3/optimizer.json").read_text())["seconds"]
    assert 0 < kept < 1000

    def load_later(*given):
        so_far = load_steps(*given)
        return {**so_far, "seconds": so_far["seconds"] + 1000}

    monkeypatch.setattr(trainer, "load_steps", load_later)
    assert main(command(out, "--resume")) == 0
    assert 1000 + kept < json.loads((out / "training.json").read_text())["seconds"] < 2000


@pytest.mark.parametrize(
    "place", [pytest.param("first file", marks=pytest.mark.long), "manifest", "made visible", "model folder"]
)
def test_killed_while_writing(command, straight, tmp_path, capsys, place, folder):
    """The third checkpoint breaks off in the middle, or is complete but not yet visible; or the model does."""
    syncs = sync_counts(command, folder)
    first = 2 * syncs  # those of two checkpoints
    number = {"first file": first + 1, "manifest": first + syncs - 2, "made visible": first + syncs}.get(place)
    number = number or STEPS * syncs + 2
    process = children.start(children.killed_in_sync, command(tmp_path / "lm"), tmp_path / "run.err", number)
    assert children.finish(process) == -9
    said = assert_resumes(command, tmp_path / "lm", straight, capsys)
    newest = {"made visible": 3, "model folder": STEPS}.get(place, 2)
    assert re.search(rf"resuming from \S*/checkpoint-{newest}\n", said)
    half_written = [line for line in said.splitlines() if line.startswith("skipped a half-written checkpoint")]
    assert len(half_written) == (newest == 2), said


def sync_counts(command, folder: Path) -> int:
    """How many syncs a checkpoint costs: one a file, and those of the manifest and of two folders."""
    out = folder / "counted"
    if not out.with_name("counted.checkpoints").exists():
        errors = folder / "counted.err"
        assert children.finish(children.start(children.killed_in_micro_batch, command(out), errors, 3)) == -9
    return len(list((folder / "counted.checkpoints" / "checkpoint-1").iterdir())) + 2


@pytest.mark.long
def test_killed_again_and_again(command, straight, tmp_path, capsys):
    """Every process makes two steps and dies in the next."""
    for _ in range(2):
        words = command(tmp_path / "lm", "--resume")
        process = children.start(children.killed_in_micro_batch, words, tmp_path / "run.err", 2 * ACCUMULATED + 1)
        assert children.finish(process) == -9
    assert "checkpoint-4" in assert_resumes(command, tmp_path / "lm", straight, capsys)


def test_the_history_goes_on_between_two_of_its_lines(command, tmp_path):
    """40 steps, a line every two, killed in the second of a pair: the line still tells of both."""
    long = ["--tokens", 40 * BATCH * LENGTH, "--save-minutes"]
    assert main(command(tmp_path / "straight", *long, 10)) == 0
    words = command(tmp_path / "lm", *long, 0)
    process = children.start(children.killed_in_micro_batch, words, tmp_path / "run.err", 3 * ACCUMULATED + 1)
    assert children.finish(process) == -9
    assert (tmp_path / "lm.checkpoints" / "checkpoint-3").is_dir()
    assert main(command(tmp_path / "lm", *long, 10, "--resume")) == 0
    histories = [result(tmp_path / name)[1] for name in ("straight", "lm")]
    assert histories[0] == histories[1] and histories[0][1]["step"] == 4


def test_a_finished_run_is_left_as_it_is(command, tmp_path, capsys):
    assert main(command(tmp_path / "lm")) == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "lm").iterdir()}
    (tmp_path / "lm.checkpoints" / "checkpoint-6").mkdir(parents=True)  # killed at its very end
    capsys.readouterr()
    assert main(command(tmp_path / "lm", "--resume")) == 0
    assert capsys.readouterr().err.startswith(f"{tmp_path}/lm: this run is finished; nothing to do\nnext: boustro fit ")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "lm").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["lm"]
    assert main(command(tmp_path / "lm", "--resume", "--lr", "0.1")) == 1
    assert "run with another lr" in capsys.readouterr().err


# SIGTERM and SIGINT


@pytest.fixture(scope="module")
def measured(command, shards, folder) -> tuple[list[str], tuple[dict[str, torch.Tensor], list]]:
    """Options of a run that measures its validation loss every other step, and what it gives undisturbed."""
    options = ["--validation", str(shards), "--evaluations", "3", "--save-minutes", "10"]
    assert main(command(folder / "measured", *options)) == 0
    return options, result(folder / "measured")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_leaves_a_checkpoint_and_says_how_to_go_on(command, measured, tmp_path, capsys, name, code):
    """In the first of the two micro-batches of step 4."""
    options, undisturbed = measured
    words = command(tmp_path / "lm", *options)
    process = children.start(children.signalled_in_micro_batch, words, tmp_path / "run.err", 7, name)
    while process.is_alive() and f"{name}:" not in (tmp_path / "run.err").read_text():
        time.sleep(0.01)
    signalled = time.monotonic()
    assert children.finish(process) == code
    assert time.monotonic() - signalled < 10
    newest = tmp_path / "lm.checkpoints" / "checkpoint-3"
    assert [path.name for path in newest.parent.iterdir()] == [newest.name]
    Artefact(newest).check("checkpoint", verify=True)
    assert (tmp_path / "run.err").read_text().splitlines()[-2:] == [
        f"{name}: writing a checkpoint after this batch, then stopping",
        f"stopped by {name} after step 3 of 6; {newest} is complete. To continue, give the same command with --resume",
    ]
    assert f"resuming from {newest}" in assert_resumes(command, tmp_path / "lm", undisturbed, capsys, *options)


def test_a_signal_during_validation_is_heeded_and_the_validation_made_up_for(command, measured, tmp_path, capsys):
    """The fifth pass through the model is the first of the validation after step 2."""
    options, undisturbed = measured
    words = command(tmp_path / "lm", *options)
    process = children.start(children.signalled_in_validation, words, tmp_path / "run.err")
    assert children.finish(process) == 143
    assert "checkpoint-2" in assert_resumes(command, tmp_path / "lm", undisturbed, capsys, *options)


@pytest.mark.parametrize("target", [children.signalled_in_micro_batch, children.signalled_in_a_destructor])
def test_before_the_first_step_there_is_nothing_to_save(command, tmp_path, target):
    """A signal that comes in a destructor is not lost either."""
    place = (1, "SIGTERM") if target is children.signalled_in_micro_batch else ()
    process = children.start(target, command(tmp_path / "lm"), tmp_path / "run.err", *place)
    assert children.finish(process) == 143
    said = "nothing to save" if place else "after step 0 of 6; there was nothing to save"
    assert said in (tmp_path / "run.err").read_text()
    assert list(tmp_path.glob("lm*/*")) == []


def test_two_interrupts_do_not_wait(command, tmp_path):
    words = command(tmp_path / "lm", "--save-minutes", 10)
    process = children.start(children.interrupted_twice, words, tmp_path / "run.err", 7)
    assert children.finish(process) == 130
    assert (tmp_path / "run.err").read_text().endswith("boustro: interrupted: no result was written\n")
    assert list(tmp_path.glob("lm*/*")) == []


# The order of the data


@given(st.integers(0, 1000))
def test_an_epoch_holds_every_segment_once_in_an_order_of_its_own(shards, seed):
    segments = Segments(Shards.open(shards), LENGTH, seed)
    size = len(segments)
    stream = SegmentStream(segments, seed, 3 * size + 2)
    read = [(example.epoch, example.index) for example in (stream[i] for i in range(len(stream)))]
    for epoch in range(3):
        assert Counter(read[epoch * size : (epoch + 1) * size]) == Counter((epoch, index) for index in range(size))
    assert len({tuple(index for _, index in read[e * size : (e + 1) * size]) for e in range(3)}) == 3
    again = SegmentStream(Segments(Shards.open(shards), LENGTH, seed), seed, len(stream))
    assert [stream[i].index for i in range(size)] == [again[i].index for i in range(size)]
    backwards = [(again[i].epoch, again[i].index) for i in reversed(range(len(again)))]
    assert backwards == read[::-1]
    other = SegmentStream(segments, seed + 1, size)
    assert [other[i].index for i in range(size)] != [index for _, index in read[:size]]
