"""boustro lab seq2seq: batches by hand, losses against transformers, training that learns, resume, and rate."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig

import boustro
from boustro.apps.cli.main import main
from boustro.lab.adapt.seq2seq import PromptPair, make_batch, pair_loss
from boustro.lab.generation.models import LengthHead, likeliest_lengths, open_lm
from boustro.lab.objectives.examples import IGNORED
from generators import write_masked_lm
from pretraining import replacing

PAIRS = [
    ("umbrellas", " Ada left"),
    ("ferry boats", " It rained on Vellmar"),
    ("bulletin", " Nobody"),
    ("seven", " a b"),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tiny_tokenizer, tiny_lm):
    place = tmp_path_factory.mktemp("seq2seq")
    for attention in ("prefix", "full"):
        write_masked_lm(place / attention, tiny_tokenizer, attention)
    rows = [json.dumps({"prompt": prompt, "target": [target, "other"]}) + "\n" for prompt, target in PAIRS]
    (place / "pairs.jsonl").write_text("".join(rows))
    return {"causal": tiny_lm("llama", sentinel=True), "place": place} | {n: place / n for n in ("prefix", "full")}


def command(folders, kind: str, out, *options) -> list[str]:
    words = ["lab", "seq2seq", "--lm", folders[kind], "--train", folders["place"] / "pairs.jsonl", "--out", out]
    return replacing([*words, "--batch-pairs", 3, "--epochs", 2], *options)


def test_a_masked_batch_by_hand(folders):
    """Prompts end with the end-of-text piece; padding is no document; hidden places ask for their piece."""
    model = open_lm(str(folders["prefix"]))
    pairs = [(PromptPair([5, 9, 0], [7, 8]), (1, 1, 0)), (PromptPair([6, 0], [4]), (1, 1, 1))]
    batch, mask = make_batch(model, pairs), model.mask_id
    assert batch["documents"].tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, -1, -1]]
    assert batch["suffix"].long().tolist() == [[0, 0, 0, 1, 1], [0, 0, 1, 0, 0]]
    assert batch["lengths"].tolist() == [2, 1]
    assert batch["input_ids"][1].tolist() == [6, 0, mask, mask, mask], "of one piece, one is hidden; then padding"
    assert batch["wanted"][1].tolist() == [IGNORED, IGNORED, 4, IGNORED, IGNORED]
    hidden = batch["wanted"] != IGNORED
    assert hidden.any(1).all() and not hidden[0, :3].any()
    assert (batch["input_ids"][hidden] == mask).all()
    assert batch["input_ids"][0, :3].tolist() == [5, 9, 0]


def test_shares_of_hidden_pieces_are_uniform(folders):
    model = open_lm(str(folders["prefix"]))
    counts = torch.zeros(11)
    for index in range(1000):
        found = make_batch(model, [(PromptPair([5, 0], list(range(1, 11))), (0, 0, index))])
        counts[int((found["wanted"] != IGNORED).sum())] += 1
    assert counts[0] == 0 and counts[1:].min() > 30, "at least one, and every number of them"
    assert abs((counts * torch.arange(11)).sum() / 1000 / 10 - 0.5) < 0.04


def test_a_causal_batch_is_transformers_own_loss(folders):
    model = open_lm(str(folders["causal"]))
    pairs = [
        (PromptPair([0, 5, 9, 0], [7, 8, 3], end=(0,)), (1, 1, 0)),
        (PromptPair([0, 6, 0], [4], end=(0,)), (1, 1, 1)),
    ]
    found = pair_loss(model, None, make_batch(model, pairs))
    labels = [[-100, -100, -100, -100, 7, 8, 3, 0], [-100, -100, -100, 4, 0, -100, -100, -100]]
    ids = [[0, 5, 9, 0, 7, 8, 3, 0], [0, 6, 0, 4, 0, 0, 0, 0]]
    wanted = model.lm(input_ids=torch.tensor(ids), labels=torch.tensor(labels)).loss
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_the_length_head_reads_the_mean_state_of_the_prompt():
    head = LengthHead(2, 3)
    with torch.no_grad():
        head.scores.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]))
        head.scores.bias.zero_()
    states = torch.tensor([[[9.0, 9.0], [2.0, 0.0], [4.0, 2.0]]])
    seen = torch.tensor([[False, True, True]])
    torch.testing.assert_close(head(states, seen), torch.tensor([[3.0, 1.0, -3.0]]))
    assert likeliest_lengths(head, states, seen, 2, 3) == [[1, 2]]
    assert likeliest_lengths(head, states, seen, 5, 1) == [[1]]


@pytest.mark.parametrize("kind", ["prefix", pytest.param("full", marks=pytest.mark.long), "causal"])
def test_a_model_learns_its_pairs_and_writes_them(folders, tmp_path, kind, capsys):
    options = ["--epochs", 100, "--batch-pairs", 6, "--lr", 1e-2]
    assert main(command(folders, kind, tmp_path / "lm", *options)) == 0
    capsys.readouterr()
    known = kind == "prefix"
    assert (tmp_path / "lm" / "length_head.safetensors").exists() == known
    assert AutoConfig.from_pretrained(tmp_path / "lm").prompt_end
    pieces, right = open_lm(str(folders[kind])).pieces, 0
    for prompt, target in PAIRS:
        given = {"causal": {"length": 12}, "full": {"length": len(pieces(target))}, "prefix": {}}[kind]
        given |= {} if kind == "causal" else {"strategy": "left-to-right"}
        (written,) = boustro.Writer(str(tmp_path / "lm"), **given).write([prompt])
        right += written.text == target
    assert right >= 3, "a random model gets none"


def test_a_run_that_was_stopped_ends_in_the_same_weights(folders, tmp_path, stopped_before):
    assert main(command(folders, "prefix", tmp_path / "straight")) == 0
    with stopped_before(2), pytest.raises(RuntimeError):
        from boustro.apps.cli.own_lms import seq2seq
        from boustro.lab.adapt.options import Seq2SeqConfig

        given = {"train": (folders["place"] / "pairs.jsonl",), "out": tmp_path / "lm", "lm": str(folders["prefix"])}
        seq2seq(Seq2SeqConfig(**given, batch_pairs=3, epochs=2, save_minutes=0.0))
    assert main([*command(folders, "prefix", tmp_path / "lm"), "--resume"]) == 0
    for name in ("model.safetensors", "length_head.safetensors"):
        one, other = load_file(tmp_path / "lm" / name), load_file(tmp_path / "straight" / name)
        assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_prompts_are_cut_only_on_request_and_counted(folders, tmp_path, capsys):
    (tmp_path / "long.jsonl").write_text(json.dumps({"prompt": "ferry " * 80, "target": " Ada"}) + "\n")
    words = command(folders, "prefix", tmp_path / "lm", "--dev", tmp_path / "long.jsonl")
    words[words.index("--train") + 1] = str(tmp_path / "long.jsonl")
    assert main(words) == 1
    errors = capsys.readouterr().err
    assert "1 pairs are longer than the window of 64 pieces and left out" in errors and "give --prompt-pieces" in errors
    assert main([*words, "--prompt-pieces", "20"]) == 0
    assert "1 prompts were cut to their first 20 pieces" in capsys.readouterr().err
    (tmp_path / "p.txt").write_text("ferry " * 80 + "\nAda\n")
    asked = ["lab", "generate", "--encoder", str(tmp_path / "lm"), str(tmp_path / "p.txt")]
    assert main([*asked, "--prompt-pieces", "20"]) == 0
    assert "note: 1 prompt was cut to its first 20 pieces" in capsys.readouterr().err


# boustro lab score


def test_rate_prints_the_texts_beside_both_controls(tmp_path, capsys):
    rows = [
        {"prompt": "Ada left. It rained.", "text": "Ada left", "target": ["Ada left", "nobody"]},
        {"prompt": "Boats cost more. Why?", "text": "boats boats", "target": ["Boats cost more."]},
    ]
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert (
        main(["lab", "score", str(tmp_path / "out.jsonl"), "--train", str(tmp_path / "out.jsonl"), "--json", "-"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == {"texts", "lead-1", "constant"}
    assert found["texts"]["repetition"] == 50 and found["texts"]["rouge1"] == pytest.approx(70, abs=0.01)
    assert found["lead-1"]["rouge1"] == 100 and found["constant"]["distinct1"] == 50


@pytest.mark.parametrize(
    ("command", "line", "message"),
    [
        ("seq2seq", '{"prompt": "a"}', "x.jsonl:1: no text under the key 'target'; name it with --target-key"),
        ("seq2seq", '{"prompt": 3, "target": "b"}', "no text under the key 'prompt'; name it with --prompt-key"),
        ("seq2seq", "{", "x.jsonl:1: not a JSON object"),
        ("seq2seq", '{"prompt": "", "target": "b"}', "x.jsonl:1: the prompt is empty"),
        ("seq2seq", '{"prompt": "a", "target": ""}', "x.jsonl:1: the target is empty"),
        ("seq2seq", "", "there is no pair in this file"),
        ("score", "[]", "x.jsonl:1: expected a JSON object"),
        ("score", '{"text": "a"}', "x.jsonl:1: no text under the key 'target' (found: text)"),
        ("score", '{"text": "a", "target": []}', "x.jsonl:1: no text under the key 'target'"),
        ("score", '{"text": "a", "target": ["b", " "]}', "a target under the key 'target' is empty; remove it"),
        ("score", '{"text": "a", "target": ""}', "x.jsonl:1: a target under the key 'target' is empty; remove it"),
        ("score", "x", "x.jsonl:1: not a JSON object"),
    ],
)
def test_pairs_that_cannot_be_read_or_rated_are_refused(folders, tmp_path, capsys, command, line, message):
    (tmp_path / "x.jsonl").write_text(line + "\n")
    words = ["lab", command, str(tmp_path / "x.jsonl")]
    if command == "seq2seq":
        words = ["lab", command, "--lm", str(folders["prefix"]), "--train", words[2], "--out", str(tmp_path / "lm")]
    assert main(words) == 1
    assert message in capsys.readouterr().err
