"""Everything that computes, on a second device that is only pretended: no tensor may stay behind on the CPU."""

from pathlib import Path

import numpy as np
import pytest
import torch

import boustro
from boustro.apps.cli.own_lms import adapt, fuse
from boustro.encoders.spec import load_encoder
from boustro.heads.registry import HEADS
from boustro.lab.adapt.elmo import train_elmo
from boustro.lab.adapt.options import AdaptConfig, ElmoConfig, FuseConfig, LabelAdaptOptions, TextAdaptOptions
from boustro.lab.pretrain.config import PretrainConfig
from boustro.lab.pretrain.run import run_pretraining
from boustro.lab.pretrain.shards import tokenize
from boustro.lab.pretrain.trainer import PretrainTrainer
from boustro.tasks.data.conll import format_conll
from labelled import DATA, with_own
from second_device import second_device

SMALL = {"epochs": 2, "mix_epochs": 1, "hidden": 16, "batch_sentences": 8}
FUSED = {"fused": {}, "fused, linear": {"kind": "linear"}}
WORDS = [words for words, _ in DATA]
ASKING = ("boustro.lab.adapt.fuse", "boustro.lab.adapt.elmo", "boustro.hardware")  # last what the others import from


@pytest.fixture
def device(request, monkeypatch):
    """The best device is a pretended one, a GPU unless the test says which."""
    kind = getattr(request, "param", "cuda")
    monkeypatch.setenv("BOUSTRO_BF16", "0")
    for module in ASKING:
        monkeypatch.setattr(f"{module}.best_device", lambda: torch.device(kind))
    with second_device(kind) as pretended:
        for whose in ("transformers.TrainingArguments", "accelerate.Accelerator"):
            monkeypatch.setattr(f"{whose}.device", pretended)
        yield pretended


@pytest.fixture(scope="module")
def pair(tiny_lm):
    return str(tiny_lm("llama", sentinel=True)), str(tiny_lm("gpt2", "backward", seed=1))


@pytest.fixture(scope="module")
def shards(pair, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("devices")
    (folder / "text.txt").write_text("\n\n".join(" ".join(words) for words in WORDS * 3))
    tokenize((str(folder / "text.txt"),), folder / "shards", tokenizer=pair[0], workers=1)
    return folder / "shards"


# The pretence itself


def test_what_a_gpu_refuses_is_refused():
    with second_device("cuda") as device:
        there, here = torch.ones(3, device=device), torch.ones(3)
        rows = torch.tensor([0, 1])
        for mixed in (
            lambda: there + here,
            lambda: torch.cat([there, here]),
            lambda: torch.stack([there.sum(), here.sum()]),
            lambda: here[rows.to(device)],
            lambda: there.gather(0, rows),
            lambda: there.index_select(0, rows),
            lambda: torch.nn.functional.embedding(rows, torch.ones(2, 2, device=device)),
            lambda: there.masked_fill(here > 0, 0.0),
            lambda: there.normal_(generator=torch.Generator()),
            lambda: there.index_copy(0, rows, here[:2]),
        ):
            with pytest.raises(RuntimeError, match=r"same device|device type for generator"):
                mixed()
        for unreadable in (there.numpy, lambda: np.asarray(there)):
            with pytest.raises(TypeError, match="numpy"):
                unreadable()


def test_what_a_gpu_takes_is_taken_and_known_to_be_there():
    with second_device("cuda") as device:
        there = torch.ones(3, device=device)
        for made in (
            there * torch.tensor(2.0),
            there[torch.tensor([0, 1])],
            there[1:].double(),
            there.new_zeros(2),
            torch.arange(2, device=there.device),
            torch.zeros(3).to(there),
            torch.zeros(3).copy_(there).to(device),
        ):
            assert made.device == device
        assert there.cpu().device.type == torch.zeros(3).copy_(there).device.type == "cpu"
        module = torch.nn.Linear(3, 2).to(device)
        module(there).sum().backward()
        assert {p.grad.device for p in module.parameters()} == {device}


def test_mps_has_no_float64():
    with second_device("mps") as device, pytest.raises(TypeError, match="float64"):
        torch.ones(3, device=device).double()


# Taggers


def heads_and_devices():
    """Every head on the device that takes least (mps has no float64), options on the other; the rest is `long`."""
    heads = [head for head, made in HEADS.items() if made.labelling in ("tags", "spans")]
    without = [(head, {"crf": False}) for head in heads if HEADS[head].has("crf")]
    ways = [("linear", {"combine": "concat"}), ("mlp", {"decode": "argmax", "crf": False})]
    ways += [("mlp", {"standardise": False, "layers": "last"}), ("bilstm", {"tag_scheme": "bioes"})]
    for device in ("cuda", "mps"):
        for head, options in [*((head, {}) for head in heads), *without, *ways]:
            usual = not options if device == "mps" else (head, options) in ways
            yield pytest.param(device, head, options, marks=() if usual else pytest.mark.long)


@pytest.mark.parametrize(("device", "head", "options"), heads_and_devices(), indirect=["device"])
def test_a_tagger_is_trained_opened_and_used_there(pair, device, tmp_path, head, options):
    small = with_own(head, SMALL)
    if options.get("combine") == "concat":
        small.pop("mix_epochs")
    tagger = boustro.Tagger("+".join(pair), head, **small, **options, cache=tmp_path / "cache").fit(DATA, DATA[:9])
    assert {p.device.type for p in tagger.fitted.head.parameters()} == {device.type}
    assert len(tagger.predict(["Ada sold umbrellas.", ""])) == 2
    tagger.save_pretrained(tmp_path / "ner")
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner")
    assert opened.answer(WORDS) == tagger.answer(WORDS)


# Encoders, and what trains them


@pytest.fixture
def make(pair, shards, bert, tmp_path):
    """make(kind) → the spec of an encoder of that kind, trained here if it has to be."""
    steps = {"tokens": 64, "segment_length": 16, "batch_segments": 2, "validation": shards}

    def make(kind: str) -> str:
        out = tmp_path / "out"
        forward, backward = pair
        given = {"forward": forward, "backward": backward, "shards": shards, "out": out, **steps}
        if kind in FUSED:
            fuse(FuseConfig(**given, **FUSED[kind]))
            return f"fused:{out}"
        if kind == "elmo":
            train_elmo(WORDS, WORDS[:5], ElmoConfig(out=out, width=8, cells=16, letter_window=2, batch_words=40))
            return f"elmo:{out}"
        if kind == "adapted to text":
            adapt(AdaptConfig(lm=forward, out=out, rank=2, text=TextAdaptOptions(shards=shards, **steps)))
            return f"unmasked:{out}"
        if kind == "adapted to labels":
            (tmp_path / "train.conll").write_text(format_conll(DATA))
            labels = LabelAdaptOptions(train=tmp_path / "train.conll", dev=tmp_path / "train.conll", epochs=1)
            adapt(AdaptConfig(lm=forward, out=out, rank=2, blocks="2", labels=labels))
            return f"unmasked:{out}"
        return kind.format(forward=forward, backward=backward, bert=bert)

    return make


@pytest.mark.parametrize(
    "kind",
    ["{forward}+{backward}", "unmasked:2:{backward}", "repeated:{forward}", "masked:{bert}", "fused",
     pytest.param("fused, linear", marks=pytest.mark.long), "elmo",
     pytest.param("adapted to text", marks=pytest.mark.long), "adapted to labels"],
)  # fmt: skip
def test_an_encoder_reads_there_what_it_reads_on_the_cpu(make, device, kind):
    options = {"pooling": "exit+before+mean", "dtype": "float32"}
    spec = make(kind)
    there, here = (load_encoder(spec, device=where, **options) for where in (device.type, "cpu"))
    for one, other in zip(there.encode_all(WORDS).streams, here.encode_all(WORDS).streams, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert {parameter.device.type for parameter in parameters_of(there)} == {device.type}


def parameters_of(encoder) -> list[torch.Tensor]:
    models = [getattr(part, name, None) for part in getattr(encoder, "parts", [encoder])
              for name in ("model", "_fusion", "_elmo")]  # fmt: skip
    return [parameter for model in models if model is not None for parameter in model.parameters()]


# Pretraining


@pytest.fixture
def train(shards, device, tmp_path):
    """train(objective, preset, **options) → the folder and the validation loss of a short run there."""

    def make(objective: str, preset: str, **options: object) -> tuple[Path, float]:
        data = {"shards": (shards,), "validation": shards, "out": tmp_path / "lm", "evaluations": 2}
        size = {"tokens": 2 * 4 * 24, "segment_length": 24, "batch_segments": 4, "micro_batch_segments": 2}
        how = {"objective": objective, "preset": preset, "save_minutes": 0.0, "compile": False}
        return tmp_path / "lm", run_pretraining(PretrainConfig(**data, **how, **size | options))["validation_loss"]

    return make


@pytest.mark.parametrize(
    ("objective", "preset"),
    [("causal", "tiny"), ("masked", "eurobert-tiny"), pytest.param("masked", "electra-tiny", marks=pytest.mark.long),
     pytest.param("span", "bert-tiny", marks=pytest.mark.long), ("replaced", "electra-tiny"),
     pytest.param("sentence-pair", "bert-tiny", marks=pytest.mark.long)],
)  # fmt: skip
def test_an_objective_is_trained_there(train, objective, preset):
    folder, loss = train(objective, preset)
    assert 0 < loss < 1000 and (folder / "model.safetensors").is_file()


@pytest.mark.parametrize("optimizer", ["muon", pytest.param("adamw", marks=pytest.mark.long)])
def test_a_run_goes_on_there_from_its_checkpoint(train, monkeypatch, optimizer):
    """The second step is interrupted."""
    compute, calls = PretrainTrainer.compute_loss, []

    def interrupted(trainer, *args, **kwargs):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return compute(trainer, *args, **kwargs)

    monkeypatch.setattr(PretrainTrainer, "compute_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train("causal", "tiny", optimizer=optimizer, tokens=4 * 4 * 24)
    _, loss = train("causal", "tiny", optimizer=optimizer, tokens=4 * 4 * 24, resume=True)
    assert 0 < loss < 1000 and len(calls) == 4 + 6


def test_a_fusion_goes_on_there_from_its_checkpoint(pair, shards, device, tmp_path, stopped_before):
    given = {"forward": pair[0], "backward": pair[1], "shards": shards, "out": tmp_path / "out", "save_minutes": 0.0}
    given |= {"tokens": 4 * 32, "segment_length": 16, "batch_segments": 2}
    with stopped_before(2), pytest.raises(RuntimeError, match="stopped"):
        fuse(FuseConfig(**given))
    assert fuse(FuseConfig(**given, resume=True))["history"][-1]["step"] == 4
