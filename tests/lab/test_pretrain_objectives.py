"""boustro lab pretrain --objective: each is trained, killed, resumed to the bit, measured, read as an encoder."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig

import boustro
import children
import test_processes
from boustro.apps.cli.main import main
from boustro.lab.pretrain.batches import Pairs
from boustro.lab.pretrain.recipes import RECIPES
from boustro.lab.pretrain.segments import SegmentStream
from boustro.lab.pretrain.shards import Shards
from boustro.store import Artefact
from boustro.text.tokenizers import load_tokenizer, with_special_pieces
from pretraining import pretrain_words, write_shards
from tokenizer_kinds import TINY

STEPS, LENGTH, BATCH, MICRO = 4, 24, 4, 2
PRESETS = {name: f"{recipe.family}-tiny" for name, recipe in RECIPES.items() if recipe.family}
PRESETS |= {"span": "bert-tiny", "prefix-suffix": "eurobert-tiny"}  # of those that any masked LM can learn
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
    return write_shards(folder / "shards", documents, "--train-tokenizer", "320")


@pytest.fixture(scope="module")
def command(shards):
    """command(objective, out, *options) → four steps of two micro-batches; a later option replaces one of its name."""

    def make(objective: str, out: Path, *options: object) -> list[str]:
        unit = RECIPES[objective].units[-1] if objective in RECIPES else "word"
        given = {"--objective": objective, "--preset": PRESETS.get(objective, "mini"), "--shards": shards, "--out": out}
        given |= {"--segment-length": LENGTH, "--batch-segments": BATCH, "--micro-batch-segments": MICRO}
        given |= {"--tokens": STEPS * BATCH * LENGTH, "--hide": unit, "--mask-rate": 0.3}
        given |= {"--validation": shards, "--evaluations": 2}
        return pretrain_words(given, ["--no-bf16", *options])

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
    Artefact(out).check("model", verify=True)
    return json.loads((out / "training.json").read_text())["history"]


def assert_same_run(out: Path, other: Path) -> None:
    ours, theirs = (load_file(path / "model.safetensors") for path in (out, other))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert history(out) == history(other)


def test_every_recipe_is_tested_here():
    assert RECIPES.keys() - PRESETS.keys() == {"causal"}


@pytest.mark.parametrize(
    "objective",
    [pytest.param(n, marks=() if n in (*BESIDE, "sentence-pair") else pytest.mark.long) for n in PRESETS],
)
def test_a_run_that_was_killed_ends_in_the_same_weights_and_losses(command, straight, tmp_path, capsys, objective):
    """kill -9 in the second micro-batch of step 4; what is trained beside the LM is in the checkpoint."""
    words = command(objective, tmp_path / "lm", "--save-minutes", 0)
    process = children.start(children.killed_in_micro_batch, words, tmp_path / "run.err", 8)
    assert children.finish(process) == -9
    newest = tmp_path / "lm.checkpoints" / "checkpoint-3"
    before, after = (load_file(newest.with_name(f"checkpoint-{n}") / "weights.safetensors") for n in (2, 3))
    beside = [name for name in after if not name.startswith("lm.")]
    prefix = BESIDE.get(objective)
    assert all(name.startswith(prefix) for name in beside) and bool(beside) == bool(prefix)
    assert [name for name in beside if torch.equal(before[name], after[name])] == []
    wanted = straight(objective)
    capsys.readouterr()
    assert main([*words, "--resume"]) == 0
    assert f"resuming from {newest}" in capsys.readouterr().err
    assert_same_run(tmp_path / "lm", wanted)


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


@pytest.fixture(scope="module")
def undropped(folder):
    """undropped(objective) → the options of an architecture without dropout."""

    def make(objective: str) -> list[object]:
        kind = PRESETS[objective].split("-")[0]
        shape = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 128}
        dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_key_value_heads": 1}
        path = folder / f"{kind}.json"
        path.write_text(json.dumps({"model_type": kind, "embedding_size": 64, **shape, **dropout}))
        return ["--preset", path]

    return make


@objectives
def test_the_size_of_a_micro_batch_changes_nothing_but_rounding(command, undropped, tmp_path, objective):
    """Every target of a step counts the same, whether it stands in an example with few or with many."""
    for micro in (1, BATCH):
        own = [*undropped(objective), "--optimizer", "adamw"]  # Muon's directions magnify rounding
        assert main(command(objective, tmp_path / str(micro), *own, "--micro-batch-segments", micro)) == 0
    single, whole = (history(tmp_path / str(micro)) for micro in (1, BATCH))
    assert len(single) == len(whole) == STEPS + 2
    for row, wanted in zip(single, whole, strict=True):
        assert row == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    "objective",
    ["replaced", *(pytest.param(name, marks=pytest.mark.long) for name in ("sentence-pair", "prefix-suffix"))],
)
def test_two_processes_compute_what_one_does(command, straight, tmp_path, objective):
    """Dropout, the shared embeddings and the count of targets included."""
    assert test_processes.together(command(objective, tmp_path / "two"), tmp_path / "two") == [0, 0]
    test_processes.assert_same_run(tmp_path / "two", straight(objective))


# Sentence pairs as a source


def test_over_an_epoch_no_chunk_comes_twice_and_none_is_missed(shards):
    opened = Shards.open(shards)
    pairs, room = Pairs(opened, 5, seed=3), 5
    stream = SegmentStream(pairs, 3, 2 * len(pairs) + 1)
    end = opened.config["end_of_text_id"]
    documents = np.split(opened.pieces[0].astype(int), opened.ends[0].astype(int))[:-1]
    wanted = Counter()
    for document in documents:
        text = document[:-1].tolist()
        assert end not in text
        wanted.update(tuple(text[i : i + room]) for i in range(0, len(text), room) if len(text) - i > 1)
    for epoch in range(2):
        read = [stream[epoch * len(pairs) + i] for i in range(len(pairs))]
        assert {example.epoch for example in read} == {epoch}
        assert Counter(tuple(example.chunk.tolist()) for example in read) == wanted
    assert pairs.plan.num_left_out == sum((len(document) - 1) % room == 1 for document in documents) > 0


def test_a_pair_follows_from_seed_epoch_and_index_alone(shards):
    opened = Shards.open(shards)

    def read(pairs: Pairs, epoch: int, order) -> dict[int, tuple]:
        examples = [pairs.example(epoch, index) for index in order]
        return {e.index: (e.chunk.tolist(), e.other.tolist()) for e in examples}

    one = Pairs(opened, 9, seed=1)
    numbers = range(len(one))
    assert read(one, 0, numbers) == read(Pairs(opened, 9, seed=1), 0, reversed(numbers))
    others = [
        [other for _, other in read(Pairs(opened, 9, s), e, numbers).values()] for s, e in ((1, 0), (1, 1), (2, 0))
    ]
    assert others[0] != others[1] and others[0] != others[2]


def test_a_pair_is_read_in_the_frame_that_it_was_trained_in(straight):
    tokenizer = load_tokenizer(straight("sentence-pair"))
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    one, two = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (" ada", " sold"))
    framed = tokenizer(" ada", " sold", return_token_type_ids=True)
    assert framed["input_ids"] == [cls, *one, sep, *two, sep]
    assert framed["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert len({tokenizer.pad_token_id, tokenizer.mask_token_id, cls, sep, tokenizer.eos_token_id}) == 5


@pytest.mark.parametrize(("kind", "has_frame"), [("sentence_piece", False), ("word_piece", True)])
def test_a_tokenizer_gets_the_pieces_and_the_frame_that_it_lacks(tmp_path, kind, has_frame):
    tokenizer = TINY[kind]([" ".join(WORDS)] * 3)
    tokenizer.save_pretrained(tmp_path / "before")
    made = with_special_pieces(tmp_path / "before", ("mask", "cls", "sep", "pad"))
    made.save_pretrained(tmp_path / "after")
    again, size = load_tokenizer(tmp_path / "after"), len(tokenizer)
    ids = [again.mask_token_id, again.cls_token_id, again.sep_token_id, again.pad_token_id]
    assert (max(ids) < size) if has_frame else (ids == [size, size + 1, size + 2, size + 3])
    plain = tokenizer("ada sold", add_special_tokens=False)["input_ids"]
    assert again("ada sold")["input_ids"] == [again.cls_token_id, *plain, again.sep_token_id]


@pytest.mark.parametrize("objective", [pytest.param("masked", marks=pytest.mark.long), "span"])
def test_an_architecture_is_trained_from_its_config(command, tmp_path, objective):
    """ModernBERT, whose local blocks see four pieces to either side."""
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 1, "intermediate_size": 96}
    window = {"local_attention": 8, "global_attn_every_n_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "modernbert", **shape, **window}))
    assert main(command(objective, tmp_path / "lm", "--preset", tmp_path / "config.json")) == 0
    made = AutoConfig.from_pretrained(tmp_path / "lm")
    assert (made.model_type, made.max_position_embeddings) == ("modernbert", LENGTH)
    assert made.layer_types == ["full_attention", "sliding_attention"]
    encoder = boustro.load_encoder(f"masked:{tmp_path / 'lm'}")
    assert np.isfinite(encoder.encode_all([WORDS]).streams[0]).all()


# What is refused


@pytest.mark.parametrize(
    ("objective", "options", "words"),
    [
        ("replaced", ["--preset", "bert-tiny"], ["needs the heads of electra, not of 'bert'", "span, sentence-pair"]),
        ("sentence-pair", ["--preset", "eurobert-tiny"], ["needs the heads of bert, not of 'eurobert'"]),
        ("span", ["--preset", "gpt2-base"], ["'gpt2-base' is a causal LM", "one such as eurobert-mini"]),
        ("causal", ["--preset", "bert-mini"], ["'bert-mini' is a masked LM", "give --objective masked"]),
        ("span", ["--preset", "eurobret-mini"], ["did you mean 'eurobert-mini'?"]),
        ("sentence-pair", ["--segment-length", 4], ["--segment-length 4: a pair of texts needs at least 5 pieces"]),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(command, tmp_path, capsys, objective, options, words):
    capsys.readouterr()
    assert main(command(objective, tmp_path / "lm", *options)) == 1
    errors = capsys.readouterr().err
    assert [word for word in words if word not in errors] == [], errors
    assert list(tmp_path.iterdir()) == []


def test_pairs_of_a_single_document_are_refused(command, tmp_path, capsys):
    one = write_shards(tmp_path / "one", [" ".join(WORDS * 9)])
    assert main(command("sentence-pair", tmp_path / "lm", "--shards", one, "--validation", one)) == 1
    assert "needs two documents of at least 2 pieces, and there are 1" in capsys.readouterr().err
