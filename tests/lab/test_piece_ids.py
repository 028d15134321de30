"""Ids of pieces that leave some numbers out: every reader counts to the largest id, not the pieces."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from boustro.apps.cli.main import main
from boustro.encoders.spec import load_encoder
from boustro.lab.generation.both_ends.pair import LMPair
from boustro.lab.generation.models import open_lm
from boustro.lab.objectives.masking import make_masking, special_pieces
from boustro.lab.objectives.words import sentence_ends, word_starts
from boustro.lab.pretrain import shards as shards_module
from boustro.lab.pretrain.config import PretrainConfig, pretrain
from boustro.lab.pretrain.mixture import Corpora
from boustro.lab.pretrain.run import refuse_other_pieces
from boustro.lab.pretrain.shards import Shards, tokenize
from boustro.text.tokenizers import load_tokenizer, num_ids, with_special_pieces
from conftest import SENTENCES

HOLES = 40
"""Ids left out before the last 100 pieces."""


def spread(tokenizer: Path, folder: Path, holes: int, mask: bool = False) -> Path:
    """The tokenizer with `holes` ids left out before its last 100 pieces, and a mask piece if asked."""
    shutil.copytree(tokenizer, folder)
    file = folder / "tokenizer.json"
    spec = json.loads(file.read_text("utf-8"))
    vocabulary = spec["model"]["vocab"]
    first = len(vocabulary) - 100
    spec["model"]["vocab"] = {p: i if i < first else i + holes for p, i in vocabulary.items()}
    if mask:  # a piece that occurs in no text here, in place of a new one
        spec["model"]["vocab"]["<|mask|>"] = first + holes - 1
        added = {"id": first + holes - 1, "content": "<|mask|>", "special": True}
        spec["added_tokens"].append({**spec["added_tokens"][0], **added})
        settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"mask_token": "<|mask|>"}), "utf-8")
    file.write_text(json.dumps(spec), "utf-8")
    return folder


@pytest.fixture
def holes(tiny_tokenizer, tmp_path) -> Path:
    return spread(tiny_tokenizer, tmp_path / "holes", HOLES)


def write_lm(folder: Path, tokenizer: Path, rows: int, direction: str = "forward") -> Path:
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = AutoConfig.for_model("llama", vocab_size=rows, bos_token_id=0, eos_token_id=0, **shape)
    config.update({"direction": direction, "sentinel": True})
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    load_tokenizer(tokenizer).save_pretrained(folder)
    return folder


def write_shards(tokenizer: Path, out: Path, **options) -> Shards:
    corpus = out.with_suffix(".txt")
    corpus.write_text("\n\n".join(SENTENCES), "utf-8")
    tokenize((str(corpus),), out, tokenizer=str(tokenizer), workers=1, overwrite=True, **options)
    return Shards.open(out)


def texts_of(shards: Shards) -> list[str]:
    tokenizer = load_tokenizer(shards.tokenizer_path)
    bounds = shards.ends[0].astype(int)[:-1]
    return [tokenizer.decode(part[:-1].tolist()) for part in np.split(np.asarray(shards.pieces[0]), bounds)]


@pytest.mark.parametrize(("left_out", "near_duplicates"), [(0, None), (1, 0.9), (HOLES, 0.9), (70_000, None)])
def test_shards_hold_the_pieces_of_the_texts_whatever_ids_are_left_out(
    tiny_tokenizer, tmp_path, left_out, near_duplicates
):
    if near_duplicates is not None:
        pytest.importorskip("datasketch")
    tokenizer = spread(tiny_tokenizer, tmp_path / "tokenizer", left_out)
    shards = write_shards(tokenizer, tmp_path / "shards", near_duplicates=near_duplicates)
    assert shards.config["vocab_size"] == num_ids(load_tokenizer(tokenizer)) == 400 + left_out
    assert shards.config["dtype"] == ("uint32" if left_out > 1 << 16 else "uint16")
    assert texts_of(shards) == SENTENCES
    assert len(shards.counts(400 + left_out)) == 400 + left_out


@pytest.mark.parametrize("slow", [False, True], ids=["tiktoken", "tokenizers"])
def test_an_id_beyond_the_list_of_pieces_is_refused_not_wrapped(tiny_tokenizer, tmp_path, monkeypatch, slow):
    tokenizer = spread(tiny_tokenizer, tmp_path / "tokenizer", 70_000)
    monkeypatch.setattr(shards_module, "num_ids", len)
    if slow:
        monkeypatch.setattr(shards_module.ByteBPE, "make", lambda tokenizer: None)
    with pytest.raises(ValueError, match=r"the tokenizer gave the id 70,\d+, and its list of pieces ends at 399"):
        write_shards(tokenizer, tmp_path / "shards")


def test_tables_over_the_vocabulary_have_an_entry_for_every_id(holes):
    """Word starts, sentence ends, special pieces and a masking."""
    tokenizer = load_tokenizer(holes)
    last = max(tokenizer.get_vocab().values())
    assert len(word_starts(tokenizer)) == len(sentence_ends(tokenizer)) == len(special_pieces(tokenizer)) == last + 1
    special = special_pieces(tokenizer)
    assert special[300 : 300 + HOLES].all() and not special[300 + HOLES :].any()


def test_a_masking_of_ids_with_holes_draws_no_hole(tiny_tokenizer, tmp_path):
    tokenizer = load_tokenizer(spread(tiny_tokenizer, tmp_path / "tokenizer", HOLES, mask=True))
    masking = make_masking(tokenizer, 0, "word")
    drawn = masking.draw(4000, np.random.default_rng(0))
    assert set(drawn) <= set(tokenizer.get_vocab().values()) and drawn.max() > 400


@pytest.mark.parametrize("names", [["mask"], ["mask", "cls", "sep", "pad"]])
def test_no_new_piece_is_given_the_id_of_another(holes, names):
    with pytest.raises(ValueError, match=r"no mask.*400 pieces with ids up to 439.*would be given the id of another"):
        with_special_pieces(holes, names)


def test_special_pieces_that_are_there_need_no_new_id(tiny_tokenizer, tmp_path):
    folder = spread(tiny_tokenizer, tmp_path / "tokenizer", HOLES, mask=True)
    assert with_special_pieces(folder, ["mask"]).mask_token_id == 300 + HOLES - 1


@pytest.mark.parametrize("load", [load_encoder, open_lm], ids=["encoder", "generation"])
def test_a_model_with_a_row_for_every_piece_but_not_for_every_id_is_refused(holes, tmp_path, load):
    folder = write_lm(tmp_path / "lm", holes, 400)
    with pytest.raises(ValueError, match=r"lm: the tokenizer's ids go up to 439, and the model has only 400 rows"):
        load(str(folder))


def test_a_pair_writes_no_id_that_is_left_out(holes, tmp_path):
    forward = write_lm(tmp_path / "forward", holes, 440)
    backward = write_lm(tmp_path / "backward", holes, 440, "backward")
    pair = LMPair.load(f"{forward}+{backward}")
    assert not pair.writable[300 : 300 + HOLES].any() and pair.writable[400:].any()
    assert pair.spaced[400:].any()


TINY = {"segment_length": 16, "batch_segments": 2, "tokens": 32, "compile": False}


@pytest.mark.parametrize(
    ("objective", "preset"), [("causal", "tiny"), ("masked", "tiny"), ("masked", "bert-tiny"), ("replaced", "tiny")]
)
def test_a_model_is_trained_with_a_row_for_every_id(tiny_tokenizer, tmp_path, objective, preset):
    """Presets of every kind, by a causal and by masked objectives; and an LM starts from another of such pieces."""
    tokenizer = spread(tiny_tokenizer, tmp_path / "tokenizer", HOLES, mask=True)
    shards = write_shards(tokenizer, tmp_path / "shards").path
    other = write_shards(tokenizer, tmp_path / "other").path
    assert len(Corpora.open([shards, other]).shards) == 2
    pretrain(PretrainConfig(shards=(shards, other), out=tmp_path / "lm", objective=objective, preset=preset, **TINY))
    assert AutoConfig.from_pretrained(tmp_path / "lm").vocab_size == 440
    refuse_other_pieces(str(tmp_path / "lm"), shards / "tokenizer")


def test_the_roads_over_shards_read_every_id(holes, tmp_path, capsys):
    """Fusion, adaptation and a memory; an ELMo reads letters, which have no such ids."""
    forward, backward = write_lm(tmp_path / "forward", holes, 440), write_lm(tmp_path / "back", holes, 440, "backward")
    shards = str(write_shards(holes, tmp_path / "shards").path)
    steps = "--tokens 64 --segment-length 16 --batch-segments 2".split()
    lms = ["--forward", str(forward), "--backward", str(backward)]
    fused = ["lab", "fuse", *lms, "--shards", shards, "--out", str(tmp_path / "fused"), "--width", "8"]
    assert main([*fused, *steps]) == 0
    remember = ["lab", "memory", str(tmp_path / "shards.txt"), "--encoder", str(forward)]
    assert main([*remember, "--out", str(tmp_path / "memory")]) == 0
    adapt = ["lab", "adapt", "--lm", str(forward), "--shards", shards]
    assert main([*adapt, "--out", str(tmp_path / "adapted"), *steps]) == 0
