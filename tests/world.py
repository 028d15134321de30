"""One small valid thing of every kind that Boustro reads or writes, made by its commands: tests damage copies of it."""

import contextlib
import io
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from boustro.apps.cli.known import COMMANDS, called
from boustro.apps.cli.main import main
from boustro.lab.pretrain.trainer import PretrainTrainer
from boustro.tasks.data.conll import format_conll
from boustro.text.tokenizers import with_special_pieces
from labelled import UD, rows

LABELLED = [
    ("Ada Brandt left Vellmar .".split(), "B-PER I-PER O B-LOC O".split()),
    ("In Lisse it rained .".split(), "O B-LOC O O O".split()),
    ("Okonkwo sold boats .".split(), "B-PER O O O".split()),
    ("Nobody reads .".split(), "O O O".split()),
]
DATA = ("train.conll", "train.conllu", "train.jsonl", "train.json", "spans.jsonl")
TEXTS = ("corpus.txt", "corpus.jsonl", "gaps.txt")
STUDY = "--train {train.conll} --dev {train.conll} --out {out} --encoders {lm}"
STEPS = "--tokens 64 --segment-length 16 --batch-segments 2"
GOOD = {
    "demo": "--out {out}",
    "tokenize": "{corpus.txt} --out {out} --tokenizer {lm} --workers 1",
    "pretrain": f"--shards {{shards}} --out {{out}} --preset {{lm}}/config.json --no-compile {STEPS}",
    "backward": "{lm} --text {corpus.jsonl} --out {out} --preset {lm}/config.json --no-compile --segment-length 16 "
    "--batch-segments 1 --passes 1 --sampled-pieces 20 --workers 1",
    "fuse": f"--forward {{lm}} --backward {{back}} --shards {{shards}} --out {{out}} --width 8 {STEPS}",
    "adapt": f"--lm {{lm}} --shards {{shards}} --out {{out}} {STEPS}",
    "memory": "{corpus.txt} --encoder {lm} --out {out}",
    "names": "{train.conll} --encoder {lm} --epochs 1 --out {out}",
    "distill-words": "{corpus.txt} --encoder {lm} --words 20 --parts 5 --texts 4 --epochs 1 --code-bytes 0 --out {out}",
    "elmo": "{corpus.txt} --out {out} --width 8 --cells 16 --words 50 --letter-window 1",
    "pack": "{lm} --out {out}",
    "fit": "--train {train.conll} --out {out} --encoder {lm} --head linear --epochs 1",
    "distill": "{tagger} --student {lm} --texts {corpus.jsonl} --out {out} --epochs 1",
    "language": "--text {corpus.txt} --train {train.conll} --dev {train.conll} --out {out} --vocabulary 300 --preset "
    "{lm}/config.json --segment-length 8 --batch-segments 1 --minutes 30 --passes 1 --epochs 1 --no-compile",
    "weak": "{corpus.txt} --gazetteer {names.tsv} --out {out}.jsonl",
    "harness": "--tasks openbookqa --data {choices} --encoder {lm}+{back}",
    "infill": "{gaps.txt} --encoder {lm}+{back} --read-on 4",
    "evaluate": "{tagger} {train.conll}",
    "predict": "{tagger} {corpus.txt}",
    "redact": "{corpus.txt} --model {tagger} --out {out}",
    "export": "{tagger} --out {out} --sentences 20 --agreement 0",
    "serve": "{tagger} --port 0",
    "label": "{corpus.txt} --out {out} --labels PER --encoder {lm} --port 0 --no-browser",
    "embed": "{corpus.txt} --out {out} --encoder {lm}",
    "similarity": "{corpus.txt} --query Ada --encoder {lm}",
    "generate": "--encoder {biglm} {prompts.jsonl} --length 3 --steps 2",
    "score": "--encoder {biglm} {prompts.jsonl}",
    "seq2seq": "--lm {biglm} --train {prompts.jsonl} --target-key text --out {out} --epochs 1",
    "prompt": "{labelled.jsonl} --encoder {lm} --template sentiment",
    "rate": "{prompts.jsonl} --target-key text",
    "scaling": "--shards {shards} --validation {shards} --out {out} --sizes tiny --budgets 32 --segment-length 16 "
    "--batch-segments 2 --objectives causal --no-compile --validation-pieces 64",
    "compare": f"{STUDY} --heads linear --seeds 1 --epochs 1",
    "fewshot": f"{STUDY} --heads ridge --shots 1 --seeds 1",
    "geometry": "measure {corpus.txt} --encoder {lm}",
    "cache": "list --folder {cache}",
    "check": "{train.conll}",
    "doctor": "",
}
"""Arguments with which a command does little, and does it well."""


class BrokenOff(ValueError):
    """A run that is stopped on purpose."""


@dataclass(frozen=True)
class World:
    """Where everything lies, by its name: `lm`, `tagger`, `shards`, `train.conll` …"""

    folder: Path

    @cached_property
    def options(self) -> dict[str, list[str]]:
        """The options of every command."""
        told = {name: _good([*called(name).split(), "--help-all"]) for name in COMMANDS}
        return {name: re.findall(r"(?<!\S)--[a-z][a-z0-9-]+", text) for name, text in told.items()}

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    def fill(self, text: str, out: str = "out") -> str:
        """`"masked:{lm}"` → the same with the path; `{out}` is a place to write to."""
        return re.sub(r"\{([\w.]+)\}", lambda match: out if match[1] == "out" else self[match[1]], text)

    def command(self, name: str, out: str = "out") -> list[str]:
        """A command that does little, and does it well."""
        return [*called(name).split(), *(self.fill(word, out) for word in GOOD[name].split())]


def make_world(folder: Path, tiny_lm: Callable[..., Path]) -> None:
    """One of every kind, in `folder`; `tiny_lm` is the fixture."""
    world = World(folder)
    folder.mkdir()
    for name, lm in (("lm", tiny_lm("llama", sentinel=True)), ("back", tiny_lm("llama", "backward", 1, sentinel=True))):
        shutil.copytree(lm, world[name])
    _write_texts(folder)
    _write_masked(folder / "masked", folder / "lm")
    made = {"shards": "tokenize", "model": "pretrain", "fusion": "fuse", "adapted": "adapt", "elmo": "elmo"}
    made["memory"] = "memory"
    for name, command in {**made, "study": "compare", "shots": "fewshot"}.items():
        _good(world.command(command, world[name]))
    biglm = "--objective prefix-suffix --least-pieces 2 --preset biglm-tiny --no-compile"
    _good(["lab", "pretrain", "--shards", world["shards"], "--out", world["biglm"], *f"{biglm} {STEPS}".split()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOUSTRO_CACHE", world["cache"])
        _good(world.command("fit", world["tagger"]))
    span = ["span" if word == "linear" else word for word in world.command("fit", world["span_tagger"])]
    _good([*span, "--hidden", "8"])
    for command, name, step in (
        ("pretrain", "stopped", (PretrainTrainer, "training_step")),
        ("fuse", "halted", (PretrainTrainer, "training_step")),
    ):
        with _broken_off(*step):
            _good([*world.command(command, world[name]), "--save-minutes", "0"], code=1)


def run(arguments: list[str]) -> tuple[int, str, str]:
    """The exit code of a command, and what it writes to standard output and to standard error."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", how) for how in ("strict", "backslashreplace"))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    for stream in (out, errors):
        stream.seek(0)
    return code, out.read(), errors.read()


def _good(arguments: list[str], code: int = 0) -> str:
    found, out, errors = run(arguments)
    assert found == code, (arguments, errors)
    return out


def _write_texts(folder: Path) -> None:
    texts = [" ".join(words) for words, _ in LABELLED] * 8
    nested = [{"text": "Ada left Port Lisse.", "entities": [[0, 3, "PER"], [9, 19, "LOC"], [14, 19, "PER"]]}] * 3
    records = [{"words": words, "labels": tags, "document": f"d{n // 2}"} for n, (words, tags) in enumerate(LABELLED)]
    contents = [format_conll(LABELLED), UD, rows(*records), f"[{','.join(rows(*records).splitlines())}]", rows(*nested)]
    contents += ["\n\n".join(texts), rows(*({"text": text} for text in texts)), "Ada left ___ .\n___ reads ___.\n"]
    for name, content in zip((*DATA, *TEXTS), contents, strict=True):
        (folder / name).write_text(content, "utf-8")
    asked = {"question": "Ada left", "choices": [".", "Vellmar"], "answer": 0}
    (folder / "choices").mkdir()
    (folder / "choices" / "openbookqa-train.jsonl").write_text(rows(asked, asked), "utf-8")
    (folder / "texts").mkdir()
    shutil.copy(folder / TEXTS[1], folder / "texts")
    sensed = [{"words": words, "senses": [[0, words[0], "NN", [f"{words[0]}-1"]]]} for words, _ in LABELLED]
    (folder / "senses.jsonl").write_text(rows(*sensed), "utf-8")
    (folder / "names.tsv").write_text("Ada Brandt\tPER\nVellmar\tLOC\n", "utf-8")
    prompts = [{"prompt": words[0], "text": f" {words[1]}"} for words, _ in LABELLED]
    (folder / "prompts.jsonl").write_text(rows(*prompts), "utf-8")
    judged = [{"text": words[0], "label": number % 2} for number, (words, _) in enumerate(LABELLED)]
    (folder / "labelled.jsonl").write_text(rows(*judged), "utf-8")


def _write_masked(folder: Path, tokenizer: Path) -> None:
    from transformers import AutoConfig, AutoModel

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 404, "num_attention_heads": 2}
    shape |= {"intermediate_size": 16, "max_position_embeddings": 64}
    AutoModel.from_config(AutoConfig.for_model("bert", **shape)).save_pretrained(folder)
    with_special_pieces(tokenizer, ["mask", "cls", "sep", "pad"]).save_pretrained(folder)


@contextlib.contextmanager
def _broken_off(owner: type, method: str) -> Iterator[None]:
    """The run raises in place of its second step, after the checkpoint of the first."""
    original, calls = getattr(owner, method), []

    def breaks(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            raise BrokenOff("broken off")
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, method, breaks)
        yield
