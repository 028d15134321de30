"""boustro lab pretrain in two processes (gloo, CPU): the same run as in one, under DDP, two launchers, and FSDP2."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import children
from boustro.apps.cli.main import main
from boustro.lab.pretrain.trainer import MuonAdamW
from boustro.store import Artefact
from generators import write_masked_lm
from pretraining import pretrain_words, write_shards

STEPS, LENGTH, BATCH = 6, 16, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def shards(folder) -> Path:
    random = np.random.default_rng(0)
    return write_shards(folder / "shards", ("".join(random.choice([*"abcd "], 90)) for _ in range(4)))


@pytest.fixture(scope="module")
def command(shards, folder):
    shape = {"n_embd": 16, "n_layer": 2, "n_head": 2}  # and the usual dropout
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **shape}))

    def make(out: Path, *options: object) -> list[str]:
        given = {"--shards": shards, "--out": out, "--preset": folder / "config.json", "--segment-length": LENGTH}
        given |= {"--batch-segments": BATCH, "--micro-batch-segments": 2, "--tokens": STEPS * BATCH * LENGTH}
        given |= {"--validation": shards, "--evaluations": 2, "--validation-pieces": 7 * LENGTH}
        return pretrain_words(given, ["--no-bf16", *options])

    return make


@pytest.fixture(scope="module")
def alone(command, folder) -> Path:
    """The model of one process that makes four micro-batches a step."""
    assert main(command(folder / "alone")) == 0
    return folder / "alone"


def together(command: list[str] | None, errors: Path, *targets) -> list[int]:
    """The exit codes of two processes, each broken by its target, as a launcher would start them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    started = []
    for rank, (target, *rest) in enumerate(targets or [(children.undisturbed,)] * 2):
        place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        started.append(children.start(target, command, errors.with_suffix(f".{rank}.err"), *rest, **place))
    return [children.finish(process) for process in started]


def assert_same_run(out: Path, alone: Path) -> None:
    """The same losses, learning rates and weights but for rounding: sums over processes have another order."""
    ours, theirs = (json.loads((path / "training.json").read_text())["history"] for path in (out, alone))
    assert [row["step"] for row in ours] == [row["step"] for row in theirs]
    for row, wanted in zip(ours, theirs, strict=True):
        assert row == pytest.approx(wanted, rel=1e-5)
    one, other = (load_file(path / "model.safetensors") for path in (out, alone))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=2e-5, msg=name)


def test_two_processes_compute_what_one_does(command, alone, folder):
    """Dropout, Muon, gradient accumulation and validation included; and only the first process says anything."""
    assert together(command(folder / "two"), folder / "two") == [0, 0]
    assert_same_run(folder / "two", alone)
    assert "on 2 x cpu" in (folder / "two.0.err").read_text()
    assert (folder / "two.1.err").read_text() == ""


def test_one_process_goes_on_where_two_were_killed(command, alone, folder):
    """kill -9 in the second micro-batch of step 4, of two a process."""
    out, deaths = folder / "fewer", [(children.killed_in_micro_batch, 8)] * 2
    assert together(command(out, "--save-minutes", 0), folder / "fewer", *deaths) == [-9, -9]
    assert main(command(out, "--resume")) == 0
    assert_same_run(out, alone)


def test_a_signal_to_one_process_stops_both_after_the_same_step_and_two_go_on(command, alone, folder):
    out, signalled = folder / "stopped", (children.signalled_in_micro_batch, 7, "SIGTERM")
    assert together(command(out), folder / "stopped", (children.undisturbed,), signalled) == [143, 143]
    checkpoint = folder / "stopped.checkpoints" / "checkpoint-3"
    said = (folder / "stopped.0.err").read_text().splitlines()[-1]
    assert said.startswith(f"stopped by SIGTERM after step 3 of 6; {checkpoint} is complete.")
    assert together(command(out, "--resume"), folder / "stopped") == [0, 0]
    assert f"resuming from {checkpoint}" in (folder / "stopped.0.err").read_text()
    assert_same_run(out, alone)


@pytest.mark.parametrize(("options", "words"), [
    (["--batch-segments", 7], "7 is not a multiple of --micro-batch-segments 2 in each of 2 processes"),
    (["--resume", "--lr", 1], "run with another lr"),
])  # fmt: skip
def test_what_is_refused_is_refused_by_all(command, alone, folder, options, words):
    out = "alone" if "--resume" in options else "refused"
    assert together(command(folder / out, *options), folder / "refused") == [1, 1]
    assert words in (folder / "refused.0.err").read_text()


# FSDP2: on a CPU the Trainer would run DDP in its place, so its parts are put together here


@pytest.mark.parametrize("kind", [pytest.param("llama", marks=pytest.mark.long), "biglm"])
def test_spread_over_two_processes_a_step_is_the_same(tiny_lm, tiny_tokenizer, folder, kind):
    """Three steps and three more from the checkpoint: sharded then whole, whole then sharded, against six in one."""
    lm = str(write_masked_lm(folder / "biglm", tiny_tokenizer) if kind == "biglm" else tiny_lm(kind))
    names = {name: str(folder / f"{kind}-{name}" / "checkpoint-1") for name in ("two", "one", "two-one", "one-two")}

    def in_two(name: str, checkpoint: str, steps: list[int]) -> list[float]:
        sharded = (children.sharded_training, lm, names[name], checkpoint, steps)
        assert together(None, folder / f"{kind}-{name}", sharded, sharded) == [0, 0]
        return Artefact(names[name]).check("checkpoint", verify=True)["made_by"]["losses"]

    def in_one(name: str, checkpoint: str, steps: list[int]) -> list[float]:
        module = children.make_module(lm)
        return children.train_steps(module, MuonAdamW(module.lm, lr=0.02, bf16=False), names[name], checkpoint, steps)

    first, rest = [0, 1, 2], [3, 4, 5]
    wanted = in_one("one", "", first)
    assert in_two("two", "", first) == pytest.approx(wanted, rel=1e-5)
    wanted = in_one("two-one", names["two"], rest)
    assert in_two("one-two", names["one"], rest) == pytest.approx(wanted, rel=1e-5)
    for name in ("weights.safetensors", "optimizer.safetensors"):
        one, other = (load_file(Path(names[path]) / name) for path in ("two-one", "one-two"))
        assert one.keys() == other.keys()
        for key, tensor in one.items():
            torch.testing.assert_close(tensor, other[key], rtol=1e-3, atol=1e-5, msg=key)


# The launchers themselves

LAUNCHERS = {
    "torchrun": ["torch.distributed.run", "--nproc-per-node", "2", "--master-port"],
    "accelerate": ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port"],
    "fsdp2": [
        *("accelerate.commands.launch", "--use_fsdp", "--fsdp_version", "2"),
        *("--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "--num_processes", "2", "--main_process_port"),
    ],
}
ON_CPU = {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher", [pytest.param(name, marks=() if name == "torchrun" else pytest.mark.long) for name in LAUNCHERS]
)
def test_a_launcher_starts_it(command, alone, folder, launcher):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    words = [sys.executable, "-m", *LAUNCHERS[launcher], port, "-m", "boustro", *command(folder / launcher)]
    run = subprocess.run(words, env={**os.environ, **ON_CPU}, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count(f"{folder / launcher}: done") == 1 and "on 2 x cpu" in run.stderr
    assert_same_run(folder / launcher, alone)
