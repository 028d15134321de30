"""The start piece: every family of LMs is read as plain transformers reads it, by all that reads with an LM."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from architectures import BYTES, FAMILIES, Family, write_family, write_model
from boustro import load_encoder
from boustro.encoders.fused import lms_of, towers_of
from boustro.lab.generation.both_ends.pair import LMPair
from boustro.lab.generation.models import open_lm
from boustro.lab.generation.writer import Writer
from boustro.lab.judges import open_judge
from boustro.lab.prompting import PromptClassifier
from boustro.models.fusion import load_fusion
from boustro.models.lora import find_adaptation
from boustro.store import Artefact
from boustro.text.start import RUN_UP, between_documents, start_pieces
from boustro.types import Sentence
from conftest import SENTENCES
from world import run

TEXT = ("Ada", "left", "Paris", "on", "Friday", ".")


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory) -> tuple[Family, Path]:
    family = FAMILIES[request.param]
    return family, write_family(tmp_path_factory.mktemp("family"), family)


def reading_of(family: Family, path: Path) -> tuple[Sentence, list[int]]:
    """A sentence and its pieces for plain transformers, less what stands before and after a text."""
    marks = family.split is not BYTES
    ids = AutoTokenizer.from_pretrained(path)(" ".join(TEXT[:-1]) + ".", add_special_tokens=False)["input_ids"]
    return Sentence(TEXT, spaces=(marks, True, True, True, True, False)), ids


def plain_states(path: Path, ids: list[int]) -> list[torch.Tensor]:
    lm = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        return [state[0] for state in lm(torch.tensor([ids]), output_hidden_states=True).hidden_states]


@pytest.mark.parametrize("prefix", ["none", "auto", pytest.param("Two words:", marks=pytest.mark.long)])
def test_features_are_those_of_plain_transformers(family, prefix):
    """After the start piece, and after a run-up, whose keys and values are computed once for all texts."""
    (own, path), pooling = family, "exit+before"
    sentence, text = reading_of(own, path)
    tokenizer = AutoTokenizer.from_pretrained(path)
    run_up = {"none": "", "auto": RUN_UP + "\n"}.get(prefix, prefix + "\n")
    before = tokenizer.convert_tokens_to_ids(own.start) + tokenizer(run_up, add_special_tokens=False)["input_ids"]
    encoder = load_encoder(str(path), pooling=pooling, dtype="float32", prefix=prefix)
    (row,) = encoder.rows([sentence])
    ids = before + text
    assert row.ids == ids and encoder.start == tokenizer.convert_tokens_to_ids(own.start)
    assert (encoder.run_up is None) == (len(before) < 2) and encoder.before == before
    (vectors,) = next(encoder.encode([sentence]))
    for layer, state in enumerate(plain_states(path, ids)):
        found = vectors[:, layer].reshape(len(TEXT), 2, -1)[:, 0]
        wanted = state[torch.tensor(row.columns)].numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


def test_a_score_is_that_of_plain_transformers(family):
    """Of the pieces that can be written: special pieces have no share."""
    own, path = family
    writer, text = Writer(str(path)), " left Paris on Friday." if own.split is BYTES else "left Paris on Friday."
    (found,) = writer.score([("Ada", text)])
    prompt, written = (writer.model.pieces(part) for part in ("Ada", text))
    ids = [*writer.model.tokenizer.convert_tokens_to_ids(own.start), *prompt, *written]
    lm = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        logits = lm(torch.tensor([ids])).logits[0, -len(written) - 1 : -1]
    logits[:, ~writer.model.writable] = -torch.inf
    wanted = logits.log_softmax(-1).gather(1, torch.tensor(written)[:, None]).sum()
    assert found.log_prob == pytest.approx(float(wanted), rel=1e-3)


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    """A forward LM whose tokenizer begins and ends texts, and a backward LM of ours over its vocabulary."""
    folder = tmp_path_factory.mktemp("llama")
    path = write_family(folder, FAMILIES["a tokenizer that ends texts too"])
    tokenizer = AutoTokenizer.from_pretrained(path)
    backward = write_model(folder / "backward", "llama", path, bos_token_id=tokenizer.eos_token_id)
    config = json.loads((backward / "config.json").read_text("utf-8"))
    (backward / "config.json").write_text(json.dumps(config | {"direction": "backward", "sentinel": True}), "utf-8")
    return folder


def test_all_that_reads_with_an_lm_begins_as_it_was_trained(llama):
    path, backward = llama / "lm", llama / "backward"
    tokenizer = AutoTokenizer.from_pretrained(path)
    start, end = [tokenizer.bos_token_id], [tokenizer.eos_token_id]
    for spec in ("", "unmasked:", "repeated:"):
        assert load_encoder(f"{spec}{path}").start == start
    pair = load_encoder(f"{path}+{backward}", dtype="float32")
    assert [part.start for part in pair.parts] == [start, end], "ours keeps what its config records"
    assert towers_of(*lms_of(pair)).starts == (start, end)
    ends = LMPair.load(f"{path}+{backward}")
    assert ends.forward.frame([7]) == [*start, 7] and ends.backward.frame([7, 8]) == [*end, 8, 7]
    assert open_lm(str(path)).before == tuple(start)
    assert load_encoder(f"backward:{path}").start == [], "a backward LM of others is given nothing"
    assert start_pieces(tokenizer, AutoConfig.for_model("llama", sentinel=[3, 4])) == [3, 4]
    judge = open_judge(f"{path}+{backward}", None, None)
    assert judge.forward.frame([]) == start and judge.backward.frame([]) == end


def test_the_option_overrides_and_changes_the_identity_only_where_the_piece_changes(llama):
    path = str(llama / "lm")
    tokenizer = AutoTokenizer.from_pretrained(path)
    read = {wanted: load_encoder(path, start_piece=wanted) for wanted in ("auto", "none", "bos", "<s>", "eos", "▁")}
    pieces = {wanted: encoder.start for wanted, encoder in read.items()}
    begin = [tokenizer.bos_token_id]
    assert pieces == {
        **dict.fromkeys(("auto", "bos", "<s>"), begin),
        "none": [],
        "eos": [tokenizer.eos_token_id],
        "▁": [tokenizer.convert_tokens_to_ids("▁")],
    }
    identities = {wanted: encoder.identity().to_dict() for wanted, encoder in read.items()}
    assert identities["auto"] == identities["bos"] == identities["<s>"]
    for wanted in ("none", "eos", "▁"):
        differing = {key for key, value in identities[wanted].items() if value != identities["auto"][key]}
        assert {"frame"} <= differing <= {"frame", "window"}
    unknown = (
        "the start piece '<S>' is not in the vocabulary of .*: give auto, none, bos, eos or a piece, such as .*<s>"
    )
    with pytest.raises(ValueError, match=unknown):
        load_encoder(path, start_piece="<S>")


@pytest.mark.parametrize(
    ("roles", "config", "wanted"),
    [
        ({"eos": "<|endoftext|>"}, {}, "<|endoftext|>"),  # GPT-2, OLMo, Pythia
        ({"unk": "<|endoftext|>", "bos": "<|im_start|>", "eos": "<|im_end|>"}, {}, "<|endoftext|>"),  # SmolLM2
        ({"pad": "<|endoftext|>", "eos": "<|im_end|>"}, {}, "<|endoftext|>"),  # Qwen
        ({"eos": "</s>", "bos": "<s>"}, {"bos_token_id": None}, "<s>"),
        ({"eos": "</s>"}, {"bos_token_id": 1}, "</s>"),  # the config names a piece that is none of the special ones
        ({}, {}, None),
    ],
)
def test_the_piece_between_documents_is_known_by_its_name(roles, config, wanted):
    tokenizer = BYTES([" ".join(words) for words in SENTENCES])
    tokenizer.eos_token = tokenizer.bos_token = tokenizer.unk_token = tokenizer.pad_token = None
    tokenizer.add_special_tokens({f"{role}_token": piece for role, piece in roles.items()})
    found = between_documents(tokenizer, AutoConfig.for_model("llama", **{"bos_token_id": None, **config}))
    assert tokenizer.convert_ids_to_tokens(found) == ([wanted] if wanted else [])


def test_a_run_up_is_for_lms_of_others_and_read_by_all_of_their_words(llama):
    path, backward = str(llama / "lm"), str(llama / "backward")
    assert load_encoder(path).before[len(load_encoder(path).start) :] == load_encoder(path, prefix=RUN_UP).before[1:]
    assert load_encoder(backward).before == load_encoder(backward).start, "ours read as they were trained"
    behind = load_encoder(f"{path}+{backward}", prefix="Ada left").parts[1].before[1:]
    assert behind[::-1] == load_encoder(path, prefix="Ada left").before[1:], "a backward LM reads it first, reversed"
    for kind in ("repeated:", "unmasked:"):
        encoder = load_encoder(kind + path, dtype="float32")
        (row,) = encoder.rows([Sentence(TEXT)])
        assert row.ids[: len(encoder.before)] == load_encoder(path).before
        assert bool(encoder.run_up) == (kind == "repeated:"), "without a mask the run-up sees the text"


def test_a_masked_lm_that_writes_takes_none_either(tiny_tokenizer, tmp_path):
    from generators import write_masked_lm

    path = str(write_masked_lm(tmp_path / "lm", tiny_tokenizer))
    for load in (Writer, PromptClassifier):
        given = {"template": "sentiment"} if load is PromptClassifier else {}
        with pytest.raises(ValueError, match="is a masked LM, which has no start piece; remove --start-piece bos"):
            load(path, **given, start_piece="bos")


@pytest.fixture(scope="module")
def asked(llama):
    """Commands that read with an LM."""
    pair = f"{llama / 'lm'}+{llama / 'backward'}"
    (llama / "prompts.jsonl").write_text('{"prompt": "Ada", "text": "left Paris on Friday."}\n', "utf-8")
    (llama / "gaps.txt").write_text("Ada left ___ on Friday.\n", "utf-8")
    question = {"question": "Ada left", "choices": ["Paris on Friday", "it"], "answer": 0}
    (llama / "openbookqa-train.jsonl").write_text(json.dumps(question) + "\n", "utf-8")
    return {
        "generate": ["--encoder", str(llama / "lm"), str(llama / "prompts.jsonl"), "--length", "6"],
        "score": ["--encoder", str(llama / "lm"), str(llama / "prompts.jsonl")],
        "infill": [str(llama / "gaps.txt"), "--encoder", pair, "--format", "jsonl", "--read-on", "2"],
        "prompt": ["--encoder", str(llama / "lm"), str(llama / "gaps.txt"), "--template", "sentiment"],
    }


@pytest.mark.parametrize("command", ["generate", "score", "infill", "prompt"])
def test_the_option_of_a_command_changes_what_it_prints(asked, command):
    def printed(*options):
        code, out, errors = run(["lab", command, *asked[command], *options])
        assert code == 0, errors
        return out

    found = {piece: printed("--start-piece", piece) for piece in ("auto", "bos", "none", "eos")}
    assert found["auto"] == printed() and found["bos"] == printed("--start-piece", "<s>")
    if command == "infill":  # the backward LM, ours, has a record of its own, which bos overrides too
        assert len({*found.values()}) == 4
    else:
        assert found["auto"] == found["bos"] and len({*found.values()}) == 3
    code, _, errors = run(["lab", command, *asked[command], "--start-piece", "<S>"])
    assert code == 1 and errors.count("\n") == 1 and "the start piece '<S>' is not in the vocabulary" in errors


def test_the_harness_takes_the_option(llama):
    pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness: pip install 'boustro[harness]'")
    from boustro.lab.harness.run import BoustroLM

    spec, end = str(llama / "lm"), AutoTokenizer.from_pretrained(llama / "lm").eos_token_id
    assert BoustroLM(spec, start_piece="eos").judge.forward.frame([7]) == [end, 7]
    assert BoustroLM(spec, start_piece="none").judge.forward.frame([7]) == [7]
    arguments = ["lab", "harness", "--tasks", "openbookqa", "--data", str(llama), "--encoder", spec, "--start-piece"]
    code, _, errors = run([*arguments, "<S>"])
    assert code == 1 and "the start piece '<S>' is not in the vocabulary" in errors


@pytest.fixture(scope="module")
def shards(llama):
    (llama / "corpus.txt").write_text("\n\n".join(map(" ".join, SENTENCES * 3)), "utf-8")
    given = ["--tokenizer", str(llama / "lm"), "--workers", "1", "--out", str(llama / "shards")]
    assert run(["lab", "tokenize", str(llama / "corpus.txt"), *given])[0] == 0
    return llama / "shards"


def test_what_is_trained_with_a_start_piece_is_read_with_it(llama, shards, tmp_path):
    end = AutoTokenizer.from_pretrained(llama / "lm").eos_token_id
    small = ["--shards", str(shards), "--tokens", "32", "--segment-length", "16", "--batch-segments", "2"]
    pair = ["--forward", str(llama / "lm"), "--backward", str(llama / "backward"), "--width", "8"]
    start = ["--out", str(tmp_path / "fusion"), "--start-piece", "eos"]
    assert run(["lab", "fuse", *small, *pair, *start])[0] == 0
    assert load_fusion(Artefact(tmp_path / "fusion"))[1]["starts"] == [[end], [end]]
    fused = load_encoder(f"fused:{tmp_path / 'fusion'}")
    assert [lm.start for lm in fused.lms] == [[end], [end]] == list(fused.towers.starts)
    assert load_encoder(f"fused:{tmp_path / 'fusion'}", start_piece="none").lms[0].start == []
    code, _, errors = run(["lab", "fuse", *small, *pair, "--out", str(tmp_path / "other"), "--start-piece", "none"])
    assert code == 1 and "a fusion needs a piece before every text" in errors

    pytest.importorskip("peft", reason="needs peft: pip install 'boustro[adapt]'")
    given = ["--lm", str(llama / "lm"), "--out", str(tmp_path / "adapted"), "--start-piece", "eos", "--mask-piece", "▁"]
    code, _, errors = run(["lab", "adapt", *small, *given])
    assert code == 0, errors
    assert find_adaptation(Artefact(tmp_path / "adapted")).start_piece == "eos"
    assert load_encoder(f"unmasked:{tmp_path / 'adapted'}").start == [end]
    assert load_encoder(f"unmasked:{tmp_path / 'adapted'}", start_piece="bos").start != [end]
