"""Whatever is thrown at Boustro, it answers in a sentence, and what lies there stays.

A failure names its case, which runs alone with `BOUSTRO_FUZZ_SEED=… BOUSTRO_FUZZ_CASE=… pytest tests/test_fuzz.py`;
`BOUSTRO_FUZZ_CASES` changes how many there are.
"""

import contextlib
import faulthandler
import io
import os
import re
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file

from boustro.cli import COMMANDS, main
from boustro.pretrain.loop import Loop
from boustro.pretrain.trainer import PretrainTrainer
from boustro.store import kind_of, open_folder
from boustro.tasks.formats.conll import format_conll
from fuzzing import BYSTANDER, DATA, Case, World, snapshot
from labelled import UD, rows

SEED = int(os.environ.get("BOUSTRO_FUZZ_SEED", "0"))
CASES = int(os.environ.get("BOUSTRO_FUZZ_CASES", "2200"))
ALONE = os.environ.get("BOUSTRO_FUZZ_CASE")
BLOCK = 100
CASE_SECONDS, BLOCK_SECONDS = 60, 600
MEMORY = 3 * 2**30
"""How much more a case may take: what would take all is refused as on a small machine."""
LABELLED = [
    ("Ada Brandt left Vellmar .".split(), "B-PER I-PER O B-LOC O".split()),
    ("In Lisse it rained .".split(), "O B-LOC O O O".split()),
    ("Okonkwo sold boats .".split(), "B-PER O O O".split()),
    ("Nobody reads .".split(), "O O O".split()),
]


class TooLong(BaseException):
    """A case does not come to an end."""


class TooMuch(ValueError):
    """A run that would train longer than a test may; it has got as far as it is of interest."""


@pytest.fixture(scope="module")
def world(tiny_lm, tmp_path_factory) -> World:
    """One valid thing of every kind, made by the commands themselves."""
    folder = tmp_path_factory.mktemp("world")
    for name, lm in (("lm", tiny_lm("llama", sentinel=True)), ("back", tiny_lm("llama", "backward", 1, sentinel=True))):
        shutil.copytree(lm, folder / name)
    _write_texts(folder)
    _write_masked(folder / "masked", folder / "lm")
    options = {name: re.findall(r"(?<!\S)--[a-z][a-z0-9-]+", _said([name, "--help"])) for name in COMMANDS}
    made = World(folder, options)
    lm, back, data, corpus, out = (made[name] for name in ("lm", "back", "train.conll", "corpus.txt", "shards"))
    _said(["tokenize", corpus, "--out", out, "--tokenizer", lm, "--workers", "1"])
    run = ["--shards", out, "--tokens", "64", "--segment-length", "16", "--batch-segments", "2", "--save-minutes", "0"]
    pair, short = ["--forward", lm, "--backward", back], ["--width", "8", "--num-heads", "2"]
    fit = ["--train", data, "--encoder", lm, "--epochs", "1"]
    plain = ["pretrain", *run, "--preset", f"{lm}/config.json", "--no-compile"]
    _said([*plain, "--out", made["model"]])
    _said(["fuse", *pair, *run, *short, "--out", made["fusion"]])
    _said(["adapt", "--lm", lm, *run, "--out", made["adapted"]])
    _said(["elmo", corpus, "--width", "8", "--cells", "16", "--words", "50", "--letter-window", "1", "--out", made["elmo"]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOUSTRO_CACHE", made["cache"])
        _said(["fit", *fit, "--head", "linear", "--out", made["tagger"]])
    _said(["fit", *fit, "--head", "span", "--hidden", "8", "--out", made["span_tagger"]])
    study = ["--train", data, "--dev", data, "--encoders", lm]
    _said(["compare", *study, "--heads", "linear", "--seeds", "1", "--epochs", "1", "--out", made["study"]])
    _said(["fewshot", *study, "--shots", "1", "--draws", "1", "--heads", "ridge", "--out", made["shots"]])
    with _broken_off(Loop, "_advance"):
        _said(["fuse", *pair, *run, *short, "--out", made["halted"]], code=1)
    with _broken_off(PretrainTrainer, "training_step"):
        _said([*plain, "--out", made["stopped"]], code=1)
    shutil.rmtree(folder / "stopped", ignore_errors=True)
    return made


def _write_texts(folder: Path) -> None:
    texts = [" ".join(words) for words, _ in LABELLED] * 8
    nested = [{"text": "Ada left Port Lisse.", "entities": [[0, 3, "PER"], [9, 19, "LOC"], [14, 19, "PER"]]}] * 3
    records = [{"words": words, "labels": tags, "document": f"d{n // 2}"} for n, (words, tags) in enumerate(LABELLED)]
    for name, content in {
        "train.conll": format_conll(LABELLED),
        "train.conllu": UD,
        "train.jsonl": rows(*records),
        "train.json": f"[{','.join(rows(*records).splitlines())}]",
        "spans.jsonl": rows(*nested),
        "corpus.txt": "\n\n".join(texts),
        "corpus.jsonl": rows(*({"text": text} for text in texts)),
    }.items():
        (folder / name).write_text(content, "utf-8")
    assert all((folder / name).is_file() for name in DATA)


def _write_masked(folder: Path, tokenizer: Path) -> None:
    from transformers import AutoConfig, AutoModel

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 400, "num_attention_heads": 2}
    shape |= {"intermediate_size": 16, "max_position_embeddings": 64}
    AutoModel.from_config(AutoConfig.for_model("bert", **shape)).save_pretrained(folder)
    for file in tokenizer.glob("token*"):
        shutil.copy(file, folder)


@contextlib.contextmanager
def _broken_off(owner: type, method: str) -> Iterator[None]:
    """The run raises in place of its second step, after the checkpoint of the first."""
    original, calls = getattr(owner, method), []

    def breaks(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise TooMuch("broken off")
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, breaks)
        yield


def _said(arguments: list[str], code: int = 0) -> str:
    out, errors, found = _run(arguments)
    assert found == code, (arguments, errors)
    return out


def _run(arguments: list[str]) -> tuple[str, str, int]:
    """What a command writes to standard output and to standard error, and its exit code."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", how, write_through=True) for how in ("strict", "backslashreplace"))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    return *(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, errors)), code  # type: ignore[attr-defined]


@pytest.fixture
def no_training(monkeypatch):
    """Runs stop where long work would begin."""
    import boustro.studies.demo
    import boustro.tasks.tagger
    import boustro.text.shards

    def refuse(*arguments, **options):
        raise TooMuch("this far and no further")

    train_head, run, train = boustro.tasks.tagger.train_head, Loop.run, PretrainTrainer.train
    monkeypatch.setattr(boustro.studies.demo, "run_grid", refuse)
    monkeypatch.setattr(boustro.text.shards, "ProcessPoolExecutor", refuse)
    monkeypatch.setattr(Loop, "run", lambda self: run(self) if self.steps <= 4 else refuse())

    def train_little(self, **given):
        return refuse() if self.args.max_steps > 4 or self.args.torch_compile else train(self, **given)

    monkeypatch.setattr(PretrainTrainer, "train", train_little)
    monkeypatch.setattr(
        boustro.tasks.tagger, "train_head", lambda *given: train_head(*given) if given[4].epochs <= 2 else refuse()
    )


@pytest.fixture
def small_machine():
    """Memory is short, and who hangs is found out."""
    used = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024  # type: ignore[index]
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limits[1]))
    faulthandler.dump_traceback_later(BLOCK_SECONDS, exit=True, file=sys.__stderr__)

    def ring(number, frame):
        raise TooLong(f"still running after {CASE_SECONDS} s")

    former = signal.signal(signal.SIGALRM, ring)
    yield
    signal.signal(signal.SIGALRM, former)
    faulthandler.cancel_dump_traceback_later()
    resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.mark.parametrize("first", [int(ALONE)] if ALONE else range(0, CASES, BLOCK))
def test_nothing_that_is_thrown_does_harm(world, first, no_training, small_machine, tmp_path, monkeypatch, capsys):
    before = snapshot(world.folder)
    failures = []
    for number in range(first, first + (1 if ALONE else min(BLOCK, CASES - first))):
        folder = tmp_path / f"case-{number}" / "work"
        folder.mkdir(parents=True)
        (folder.parent / BYSTANDER).write_text("mine")
        case = Case(Random(f"{SEED}/{number}"), world, folder)
        monkeypatch.chdir(folder)
        with pytest.MonkeyPatch.context() as patch:
            wrong = _throw(case, patch)
        if snapshot(world.folder) != before:
            wrong.append("something outside of its folder is gone or changed")
        failures += [f"BOUSTRO_FUZZ_SEED={SEED} BOUSTRO_FUZZ_CASE={number}: {case.said}\n    {w}" for w in wrong]
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(folder.parent, ignore_errors=True)
    assert not failures, "\n" + "\n".join(failures)


def _throw(case: Case, patch: pytest.MonkeyPatch) -> list[str]:
    """Run one case; returns what it did wrong."""
    thrown = case.draw()
    for name, value in case.environment.items():
        patch.setenv(name, value)
    before = snapshot(case.folder.parent)
    signal.alarm(CASE_SECONDS)
    wrong: list[str] = []
    code = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(thrown, list):
                _, errors, code = _run(thrown)
                wrong += _misbehaved(code, errors)
            else:
                thrown()
    except (ValueError, OSError, ImportError):
        pass
    except TooLong as error:
        wrong.append(f"{error}\n{traceback.format_exc(limit=-3)}")
    except BaseException:
        wrong.append(traceback.format_exc(limit=-6))
    finally:
        signal.alarm(0)
    return wrong + _damage(case, before, code)


def _misbehaved(code: int, errors: str) -> list[str]:
    lines = errors.strip().splitlines()
    if code == 101:
        log = re.search(r"report it with (\S+)", errors)
        return ["\n".join(Path(log[1]).read_text("utf-8").splitlines()[-14:]) if log else errors]
    if code not in (0, 1, 2):
        return [f"exit code {code}: {errors}"]
    if "Traceback" in errors:
        return [f"a traceback: {errors}"]
    if code == 1 and not (lines and lines[-1].startswith("boustro: ") and len(lines[-1]) > 12):
        return [f"no sentence at the end of {errors!r}"]
    return []


def _damage(case: Case, before: dict, code: int | None) -> list[str]:
    """What a case did to files that are not its own, and what it left."""
    after = snapshot(case.folder.parent)
    mine = [Path(os.path.normpath(place)) for place in case.mine]
    wrong = []
    for path, content in before.items():
        free = path.name != BYSTANDER and any(path == place or place in path.parents for place in mine)
        if after.get(path) != content and not free:
            wrong.append(f"{path.relative_to(case.folder.parent)} is {'changed' if path in after else 'gone'}")
    for path in after:
        if path not in before and re.search(r"\.(staging|retired|lock)$", path.name):
            wrong.append(f"left {path.relative_to(case.folder.parent)}")
        if path.name == "manifest.json" and after[path] != before.get(path):
            wrong += _not_finite(path.parent)
    return wrong


def _not_finite(folder: Path) -> list[str]:
    open_folder(folder, kind_of(folder) or "", verify=True)
    files = [load_file(path) for path in folder.glob("*.safetensors")]
    bad = [name for tensors in files for name, tensor in tensors.items() if not torch.isfinite(tensor.float()).all()]
    return [f"{folder.name} is complete, and not finite: {', '.join(bad)}"] if bad else []
