"""`boustro pack`: codes that lose nothing twice, first blocks that read as in the whole model, and what is refused."""

import json
import platform
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast, T5Config

from architectures import write_model
from boustro import Tagger
from boustro.apps.cli.main import main
from boustro.encoders import precision
from boustro.encoders.arriving import IncrementalReader
from boustro.encoders.cache import CachedEncoder
from boustro.encoders.lm import LMEncoder
from boustro.encoders.spec import load_encoder
from boustro.given import as_sentences
from boustro.lab.pretrain.run import read_embeddings
from boustro.models.packed import BLOCK_VALUES, PACKED_FILE, StoredWeights, narrowed, pack_tensors
from boustro.models.products import ENGINE, INT8, works
from boustro.names import CHANNELS_FILE
from boustro.store import write_manifest
from boustro.text.alignment import guess_spaces
from boustro.text.tokenizers import with_special_pieces
from conftest import SENTENCES
from labelled import DATA

WORDS = [text.split() for text in SENTENCES]
MODULES = [("", "sentence_transformers.models.Transformer"), ("1_Pooling", "sentence_transformers.models.Pooling")]


def of_codes(kind: str, blocks: int = 400) -> torch.Tensor:
    """Values as a GGUF file of this kind gives them; in some blocks neither the first nor the last code is used."""
    rng = np.random.default_rng(5)
    scale = (rng.uniform(0.001, 0.1, (blocks, 1)) * rng.choice([1, 1e-3], (blocks, 1))).astype(np.float16)
    scale = scale.astype(np.float32)
    if kind == "q8_0":
        codes = rng.integers(-127, 128, (blocks, BLOCK_VALUES))
        codes[:, 3] = 127  # of the largest value
        return torch.from_numpy(scale * codes.astype(np.float32))
    codes = rng.integers(0, 16, (blocks, BLOCK_VALUES))
    if kind.startswith("q4_0"):
        codes[:, 7] = 0
        scale = -scale if "turned" in kind else scale
        return torch.from_numpy(scale * (codes - 8).astype(np.float32))
    codes[::3] = codes[::3] // 2 + 4  # 4 to 11
    codes[1::3, :2] = 0, 15
    minimum = rng.normal(0, 0.3, (blocks, 1)).astype(np.float16).astype(np.float32)
    return torch.from_numpy(scale * codes.astype(np.float32) + minimum)


def stored(tmp_path: Path, weights: dict[str, torch.Tensor], bits: int) -> StoredWeights:
    tensors, facts = pack_tensors(weights, bits)
    tmp_path.mkdir(exist_ok=True)
    save_file(tensors, tmp_path / PACKED_FILE, facts)
    return StoredWeights(tmp_path)


@pytest.mark.parametrize(("kind", "bits"), [("q4_1", 4), ("q4_0", 4), ("q4_0 turned", 4), ("q8_0", 8)])
def test_values_that_came_of_codes_are_kept_exactly(kind, bits, tmp_path):
    given = of_codes(kind)
    assert torch.equal(stored(tmp_path, {"w": given}, bits).read("w"), given)


def test_other_values_have_less_error_than_from_lowest_to_highest(tmp_path):
    given = torch.randn(50, 33, generator=torch.Generator().manual_seed(2))  # 1,650 values: the last block is filled up
    errors = {}
    for bits in (4, 8):
        packed = stored(tmp_path / str(bits), {"w": given, "norm": given[0]}, bits)
        assert packed.read("w").shape == given.shape and packed.read("norm").dtype == torch.float16
        errors[bits] = (packed.read("w") - given).square().mean().sqrt().item()
        assert packed.path.stat().st_size < given.numel() * (bits + 1) / 8 + 600
    x = torch.nn.functional.pad(given.flatten(), (0, 14), value=given[-1, -1].item()).view(-1, BLOCK_VALUES)
    low, step = x.amin(1, True), (x.amax(1, True) - x.amin(1, True)) / 15
    plain = (((x - low) / step).round() * step + low - x).square().mean().sqrt().item()
    assert errors[4] < 0.95 * plain and errors[8] < errors[4] / 14
    with pytest.raises(ValueError, match="w has values beyond the range of float16"):
        pack_tensors({"w": given * 1e6}, 4)


@pytest.mark.parametrize("bits", [4, 8])
def test_small_values_have_the_error_of_others_and_leave_scales_of_sixteen_bits_to_these(bits, tmp_path):
    given = torch.randn(64, 32, generator=torch.Generator().manual_seed(2))
    sizes = {"ones": 1.0, "hundredths": 1e-2, "millionths": 1e-6, "least": 1e-20}
    rows = given.clone()
    rows[3] *= 1e-7
    beside = 0.5 + given * 1e-7  # a large minimum with a small range: what float16 rounds of the former is more
    weights = {name: given * size for name, size in sizes.items()} | {"one row": rows, "nothing": given * 0}
    tensors, _ = pack_tensors(weights | {"beside": beside}, bits)
    packed = stored(tmp_path, weights, bits)
    for name, weight in weights.items():
        for one, back in zip(weight.double(), packed.read(name).double(), strict=True):
            assert (back - one).norm() <= (0.15 if bits == 4 else 0.01) * one.norm(), name
    wide = {name for name in tensors if name.endswith("scales") and tensors[name].dtype == torch.float32}
    assert wide - {"millionths:scales"} == {"least:scales", "one row:scales"} and len(wide) == 3 - (bits == 4)


def test_sixteen_bits_are_of_the_type_that_has_the_values():
    values = torch.tensor([0.1, 3.0])
    for dtype in (torch.bfloat16, torch.float16):
        assert narrowed(values.to(dtype)).dtype == narrowed(values.to(dtype).float()).dtype == dtype
    assert narrowed(torch.tensor([1e6, 1.0])).dtype == torch.bfloat16


def states(spec: str | Path, layers: str = "all", **options) -> list[np.ndarray]:
    encoder = load_encoder(str(spec), layers, pooling="exit", dtype="float32", cache=False, **options)
    return [streams[0] for streams in encoder.encode(WORDS)]


def in_wordpiece(folder: Path) -> Path:
    """A BERT of its own pieces."""
    pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] x a ##a b ##b ab ##ab abb ##c".split()
    backend = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    roles = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=backend, **roles).save_pretrained(folder.parent / "own")
    return write_model(folder, "bert", folder.parent / "own")


def test_a_vocabulary_is_cut_to_the_longest_pieces_of_a_text(lms, tmp_path, capsys):
    source, text, made = in_wordpiece(tmp_path / "source"), tmp_path / "a.txt", tmp_path / "made"
    text.write_text("abab ab a\n")
    command = ["pack", "--texts", str(text), "--bits", "16", "--out", str(made)]
    assert main([*command, str(source)]) == 0
    assert main(["pack", "--bits", "16", "--out", str(tmp_path / "whole"), str(source)]) == 0
    assert AutoTokenizer.from_pretrained(made).tokenize("abab abb c") == ["ab", "##ab", "ab", "##b", "[UNK]"]
    model = AutoModel.from_pretrained(made)
    assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(made)) == 13  # all but abb
    given = (load_encoder(f"masked:{f}", "all", dtype="float32", cache=False) for f in (tmp_path / "whole", made))
    assert_equal(*([s[0] for s in e.encode([["abab", "ab"], ["a"]])] for e in given), rtol=0, atol=0)
    for model, said in ((lms("llama"), "which predicts all its pieces"), (lms("bert"), "is of the kind BPE")):
        assert main([*command, str(model), "--overwrite"]) == 1
        assert said in capsys.readouterr().err


def assert_equal(ours, theirs, **near) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, **(near or {"rtol": 1e-3, "atol": 1e-3}))


@pytest.fixture(scope="module")
def lms(tiny_tokenizer, tmp_path_factory):
    """lms(kind) → a folder of four blocks whose weights are of 16 bits."""
    made: dict[str, Path] = {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = folder = tmp_path_factory.mktemp("whole") / kind
            with_special_pieces(tiny_tokenizer, ["mask", "cls", "sep", "pad"]).save_pretrained(folder.parent / "pieces")
            write_model(folder, kind, folder.parent / "pieces" if kind == "bert" else tiny_tokenizer)
            for file in folder.glob("*.safetensors"):
                save_file({n: t.bfloat16().float() for n, t in load_file(file).items()}, file, {"format": "pt"})
        return made[kind]

    return make


def test_an_uncut_lm_in_16_bits_is_an_ordinary_folder_with_the_same_numbers(lms, tmp_path, capsys):
    whole = lms("llama")
    assert main(["pack", str(whole), "--bits", "16", "--out", str(tmp_path / "made")]) == 0
    assert "all 4 blocks in 16 bits" in capsys.readouterr().out
    weights = load_file(tmp_path / "made/model.safetensors")
    theirs = {name: tensor for file in whole.glob("*.safetensors") for name, tensor in load_file(file).items()}
    assert weights.keys() == theirs.keys() and all(torch.equal(weights[n].float(), theirs[n]) for n in weights)
    assert AutoModel.from_pretrained(tmp_path / "made").config.num_hidden_layers == 4
    assert_equal(states(tmp_path / "made"), states(whole))


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gemma", "gpt2", "bert"])
def test_first_blocks_have_the_states_of_the_whole_lm(lms, kind, tmp_path):
    whole, prefix = lms(kind), "masked:" if kind == "bert" else ""
    assert main(["pack", str(whole), "--blocks", "2", "--bits", "16", "--out", str(tmp_path / "made")]) == 0
    ours, theirs = states(f"{prefix}{tmp_path / 'made'}"), states(f"{prefix}{whole}", "0,1,2")
    assert_equal([words[:, :2] for words in ours], [words[:, :2] for words in theirs])
    for one, other in zip(ours, theirs, strict=True):
        last = other[:, 2] - other[:, 2].mean(1, keepdims=True) * (kind == "gpt2")
        size = np.sqrt((last**2).mean(1, keepdims=True)) if kind != "bert" else 1
        np.testing.assert_allclose(one[:, 2], last / size, rtol=1e-3, atol=1e-3)


def test_a_packed_lm_is_read_by_our_own_code_as_by_transformers_and_packed_again(lms, tmp_path, capsys):
    made, again = tmp_path / "made", tmp_path / "again"
    assert main(["pack", str(lms("llama")), "--blocks", "3", "--out", str(made)]) == 0
    said = "the first 3 of 4 blocks in 4 bits; the states of its layers are those of the whole model but for the bits; "
    said += "layer 3, the last, comes after a norm without scale"
    assert said in capsys.readouterr().out and said in (made / "README.md").read_text()
    opened: list[Any] = [load_encoder(str(made), "all", dtype="float32", cache=False) for _ in range(2)]
    encoder, theirs = opened
    assert type(theirs.model).__name__ == "LlamaModel" and type(encoder.body.new_cache()).__name__ == "KeyValues"
    assert encoder.identity() == theirs.identity() and encoder.run_up  # the start piece and the run-up
    assert_equal([s[0] for s in encoder.encode(WORDS)], [s[0] for s in theirs.encode(WORDS)])
    assert encoder.model is encoder.body.model  # read by transformers from now on
    assert_equal([s[0] for s in encoder.encode(WORDS)], [s[0] for s in theirs.encode(WORDS)])
    assert torch.equal(read_embeddings(str(made)), StoredWeights(made).read("model.embed_tokens.weight"))
    assert main(["pack", str(made), "--blocks", "2", "--out", str(again)]) == 0
    assert "the first 2 of 4 blocks" in capsys.readouterr().out
    ours, given = StoredWeights(again), StoredWeights(made)
    assert ours.shapes.keys() < given.shapes.keys() and all(
        torch.equal(ours.read(n), given.read(n)) for n in ours.shapes
    )
    assert main(["doctor", "--encoder", str(made)]) == 0
    assert said in capsys.readouterr().out
    assert main(["lab", "score", "texts.txt", "--encoder", str(made)]) == 1
    for command in (
        ["lab", "generate", "--encoder", str(made), "x.txt"],
        ["pack", str(made), "--blocks", "9", "--out", "x"],
    ):
        assert main(command) == 1


def test_a_sentence_encoder_keeps_its_folder_its_licence_and_its_vectors(lms, tmp_path, capsys):
    source, made = tmp_path / "source", tmp_path / "made"
    shutil.copytree(lms("bert"), source)
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (source / "modules.json").write_text(json.dumps([{"path": p, "type": t} for p, t in MODULES]))
    (source / "README.md").write_text("---\nlicense: apache-2.0\n---\n# A model\n")
    (source / "NOTICE").write_text("made by others")
    (source / "photo.png").write_bytes(b"x")
    assert main(["pack", str(source), "--bits", "8", "--out", str(made)]) == 0
    kept = {"modules.json", "1_Pooling/config.json", "NOTICE", "README.source.md", "tokenizer.json"}
    assert kept <= json.loads((made / "manifest.json").read_text())["files"].keys()
    card = (made / "README.md").read_text()
    assert "license: apache-2.0" in card and "NOTICE" in card and "photo.png" in card and str(source) not in card
    said, matrix = capsys.readouterr().out, "bert.encoder.layer.3.output.dense.weight"
    assert said.endswith(f"as an encoder {made}\n") and ", most in " in said and f"\n| {matrix} | 0." in card
    for reads in ("text", "words"):
        both = (states(folder, "last", reads=reads) for folder in (source, made))
        assert min(np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(*both, strict=True)) > 0.999


@pytest.fixture
def packed(lms, tmp_path):
    assert main(["pack", str(lms("llama")), "--blocks", "2", "--out", str(tmp_path / "made")]) == 0
    return tmp_path / "made"


def test_a_torn_or_wrong_packed_file_is_refused_by_name(packed, capsys):
    file, whole = packed / PACKED_FILE, (packed / PACKED_FILE).read_bytes()

    def refused(match: str) -> None:
        for read in (lambda: load_encoder(str(packed)), lambda: read_embeddings(str(packed))):
            with pytest.raises(ValueError, match=match):
                read()

    file.write_bytes(whole[:-100])
    refused(f"{PACKED_FILE} holds {len(whole) - 100} bytes")
    file.write_bytes(whole[:-100] + bytes(100))
    refused(f"{PACKED_FILE} has changed")
    file.write_bytes(whole)
    tensors = load_file(file)
    codes = next(name for name in tensors if name.endswith(":codes"))
    (packed / "manifest.json").unlink()
    refused("no manifest.json")
    save_file(tensors | {codes: tensors[codes][1:]}, file, {"layout": json.dumps({codes[:-6]: [4, 32, 32]})})
    write_manifest(packed, "model")
    refused(f"{PACKED_FILE}: damaged")


def test_what_cannot_be_packed_or_cut_is_refused_by_name(lms, tiny_tokenizer, tmp_path, capsys):
    def error(*arguments: str) -> str:
        assert main(["pack", *arguments, "--out", str(tmp_path / "made")]) == 1
        return capsys.readouterr().err

    T5Config().save_pretrained(tmp_path / "t5")
    assert "is an encoder-decoder (t5)" in error(str(tmp_path / "t5"))
    other = write_model(tmp_path / "other", "stablelm", tiny_tokenizer)
    assert "is a causal LM (stablelm), of which it is not known" in error(str(other), "--blocks", "2")
    assert "--blocks 5: " in error(str(lms("llama")), "--blocks", "5")
    assert main(["pack", str(other), "--out", str(tmp_path / "made")]) == 0  # in bits alone
    assert "already holds" in error(str(other)) and main(["pack", str(other), "--out", str(tmp_path / "made")]) == 1


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="fbgemm is for x86 alone")
def test_torch_has_what_products_in_int8_are_made_of():
    """torch says that its quantised tensors will go; without them packed models go on, slower, in another type."""
    ops = "linear_prepack", "linear_with_input_q_dq_qweight_dq_output_fp32"
    missing = [f"torch.ops.quantized.{op}" for op in ops if not hasattr(torch.ops.quantized, op)]
    missing += ["torch._make_per_channel_quantized_tensor"] * (not hasattr(torch, "_make_per_channel_quantized_tensor"))
    missing += [f"the engine {ENGINE}"] * (ENGINE not in torch.backends.quantized.supported_engines)
    assert not missing, f"torch {torch.__version__} lacks {', '.join(missing)}: give models/products.py another op"
    assert works(), f"torch {torch.__version__} computes other products in int8: see models/products.py"


@pytest.fixture
def in_int8(monkeypatch):
    """Packed models compute in int8, whatever is fastest here."""
    if not works():
        pytest.skip("no products in int8 here")
    monkeypatch.delenv("BOUSTRO_BF16", raising=False)
    monkeypatch.setattr(precision, "fastest_type", lambda device, packed: INT8 if packed else torch.float32)


def sentence_folder(source: Path, folder: Path) -> Path:
    """A BERT without its head as a folder of sentence-transformers."""
    AutoModel.from_pretrained(source, add_pooling_layer=False).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "modules.json").write_text(json.dumps([{"path": p, "type": t} for p, t in MODULES]))
    return folder


def test_an_lm_is_packed_into_the_same_bytes_each_time(lms, tmp_path):
    """The metadata of safetensors have no order, so one try in two would differ."""
    source = sentence_folder(lms("bert"), tmp_path / "source")
    for number in range(4):
        assert main(["pack", str(source), "--out", str(tmp_path / str(number))]) == 0
    for name in ("packed.safetensors", CHANNELS_FILE, "config.json"):
        assert len({(tmp_path / str(number) / name).read_bytes() for number in range(4)}) == 1


def test_inner_values_beyond_float16_keep_their_channels_in_int8(lms, in_int8, tmp_path):
    """Of the last product of each block, whose weights are as small as its inputs are large."""
    source, made = shutil.copytree(lms("llama"), tmp_path / "source"), tmp_path / "made"
    for file in source.glob("*.safetensors"):
        weights = load_file(file)
        for name in weights:
            weights[name] *= 1e3 if "gate_proj" in name or "up_proj" in name else 1e-6 if "down_proj" in name else 1
        save_file(weights, file, {"format": "pt"})
    assert main(["pack", str(source), "--out", str(made)]) == 0
    channels = load_file(made / CHANNELS_FILE)
    assert all(rows.isfinite().all() for rows in channels.values())
    wide = {name for name, rows in channels.items() if rows.max() > 1e5}
    assert wide and all("down_proj" in name for name in wide)
    assert {rows.dtype for name, rows in channels.items() if name not in wide} == {torch.float16}
    near = states(made)

    def in_int8_now():
        return [s[0] for s in load_encoder(str(made), "all", pooling="exit", cache=False).encode(WORDS)]

    for ours, theirs in zip(in_int8_now(), near, strict=True):
        assert np.linalg.norm(ours - theirs) < 0.2 * np.linalg.norm(theirs)
    save_file({name: rows.half() for name, rows in channels.items()}, made / CHANNELS_FILE)  # as they once were
    write_manifest(made, "model")
    for ours in in_int8_now():
        assert np.isfinite(ours).all()


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_products_in_int8_give_a_text_alone_in_a_batch_and_word_by_word_the_same(kind, lms, in_int8, tmp_path):
    source = sentence_folder(lms("bert"), tmp_path / "source") if kind == "bert" else lms(kind)
    for bits in ("4", "8"):
        assert main(["pack", str(source), "--bits", bits, "--out", str(tmp_path / bits)]) == 0
    made: Any = str(tmp_path / "4")
    shared: Any = {} if kind == "llama" else {"reads": "both"}
    ours, exact = (load_encoder(made, "all", dtype=dtype, cache=False, **shared) for dtype in (None, "float32"))
    (eight,) = load_encoder(str(tmp_path / "8"), cache=False).identity().lms
    (one,), (other,) = ours.identity().lms, exact.identity().lms
    types = [lm.rest["dtype"][0] for lm in (one, other, eight)]
    assert types == ["torch.int8", "torch.float32", "torch.float32"] and one.weights == other.weights
    batch = list(ours.encode(WORDS))
    for words, together, near in zip(WORDS, batch, exact.encode(WORDS), strict=True):
        for stream, alone in zip(together, next(ours.encode([words])), strict=True):
            np.testing.assert_array_equal(stream, alone)
        for stream, theirs in zip(together, near, strict=True):
            assert 0 < np.linalg.norm(stream - theirs) < 0.2 * np.linalg.norm(theirs)
    if isinstance(ours, LMEncoder):
        assert ours.run_up and ours.num_parameters == exact.num_parameters
        reader = IncrementalReader(ours)
        for words, (whole,) in zip(WORDS[:4], batch, strict=False):
            reader.begin()
            spaces = guess_spaces(words)
            parts = [reader.append([word], [space]) for word, space in zip(words, spaces, strict=True)]
            np.testing.assert_array_equal(np.concatenate(parts), whole)
        cached = [CachedEncoder(encoder, tmp_path / "cache") for encoder in (ours, exact)]
        assert len({encoder.entry(as_sentences(WORDS)) for encoder in cached}) == 2


def test_a_trained_folder_is_read_in_the_precision_of_its_training_or_says_so(
    packed, in_int8, tmp_path, monkeypatch, capsys
):
    def opened() -> tuple[str, str]:
        tagger = Tagger.from_pretrained(tmp_path / "ner")
        (lm,) = tagger.encoder().identity().lms
        return lm.rest["dtype"][0], capsys.readouterr().err

    Tagger(str(packed), "ridge", cache=False).fit(DATA, DATA[:2]).save_pretrained(tmp_path / "ner")
    capsys.readouterr()
    monkeypatch.setattr(precision, "fastest_type", lambda device, packed: torch.float32)
    assert opened() == ("torch.int8", "")
    monkeypatch.setattr(precision, "works", lambda: False)
    dtype, said = opened()
    assert dtype == "torch.float32" and "computed in int8 when this was trained, and does in fp32 here" in said
    monkeypatch.setattr(precision, "works", works)
    monkeypatch.setenv("BOUSTRO_BF16", "0")
    precision._SAID.clear()
    dtype, said = opened()
    assert dtype == "torch.float32" and "as BOUSTRO_BF16 says" in said


@pytest.mark.parametrize(
    ("milliseconds", "chosen"),
    [((10, 9, 5), INT8), ((10, 4, 3.5), torch.bfloat16), ((10, 9, 9), torch.float32), ((10, 4, 3), INT8)],
)
def test_the_fastest_type_is_taken_and_the_more_exact_of_two_that_are_nearly_as_fast(milliseconds, chosen):
    names = ("torch.float32", "torch.bfloat16", "torch.int8")
    assert precision.choose_type(dict(zip(names, milliseconds, strict=True))) is chosen
    assert precision.choose_type({"torch.float32": 1}) is torch.float32


def test_speeds_are_tried_once_on_a_machine_and_told_by_doctor(tmp_path, monkeypatch, capsys):
    tried: list[int] = []
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path))
    monkeypatch.setattr(precision, "_try", lambda: tried.append(1) or {"torch.float32": 0.002, "torch.int8": 0.001})
    for _ in range(2):
        precision.speeds.cache_clear()
        assert precision.speeds(1)["torch.int8"] == 0.001
    (tmp_path / precision.SPEEDS_FILE).write_text("damaged")
    precision.speeds.cache_clear()
    assert precision.speeds(1) and len(tried) == 2
    monkeypatch.delenv("BOUSTRO_BF16", raising=False)
    assert main(["doctor", "--device", "cpu"]) == 0
    assert "int8 is used; a product takes 2.0 ms in fp32, 1.0 ms in int8" in capsys.readouterr().out
    precision.speeds.cache_clear()
