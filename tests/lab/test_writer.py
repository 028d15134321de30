"""boustro.Writer, boustro lab generate and boustro lab score: any batch, any order, streams, and what is refused."""

import io
import json
import math
import shutil
from itertools import cycle

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import boustro
from boustro.apps.cli.main import main
from boustro.lab.generation import writer as writer_module
from boustro.lab.generation.models import open_lm
from generators import write_masked_lm

PROMPTS = ["The ferry to Vellmar", "Ada", "Nobody reads the harbour bulletin, said", "Professor Ines Calloway"]
PAIRS = [(PROMPTS[0], " leaves at seven."), ("Ada", " left"), ("Nobody", " reads the harbour bulletin."), ("It", " x")]
STRATEGIES = [
    {"strategy": "mask-predict", "steps": 3},
    {"strategy": "mask-predict", "num_length_candidates": 3},
    {"strategy": "blocks", "block_length": 2, "steps": 1},
    {"strategy": "gibbs", "steps": 2},
    {"strategy": "left-to-right", "temperature": 1.0, "top_p": 0.9},
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tiny_tokenizer, tiny_lm):
    """A masked LM with the prefix mask, one without, a causal one and a backward one."""
    place = tmp_path_factory.mktemp("lms")
    for attention in ("prefix", "full"):
        write_masked_lm(place / attention, tiny_tokenizer, attention)
    shutil.copytree(tiny_lm("llama", sentinel=True), place / "causal")
    shutil.copytree(tiny_lm("llama", "backward", 1, sentinel=True), place / "back")
    return place


@pytest.fixture(scope="module")
def prefix(folders):
    return str(folders / "prefix")


@pytest.mark.parametrize("options", STRATEGIES, ids=lambda given: "-".join(map(str, given.values())))
def test_batches_and_order_change_nothing(prefix, options, monkeypatch):
    writer = boustro.Writer(prefix, length=6, **options)
    found = writer.write(PROMPTS)
    assert [result.prompt for result in found] == PROMPTS and all(result.text for result in found)
    alone = [writer.write([prompt], first=row)[0] for row, prompt in enumerate(PROMPTS)]
    monkeypatch.setattr(writer_module, "BATCH", 1)
    for other in (alone, writer.write(PROMPTS)):
        assert [result.text for result in other] == [result.text for result in found]
        assert [r.log_prob for r in other] == pytest.approx([r.log_prob for r in found], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "pmi"),
    zip(["duel", "left-to-right", "one-shot", "gold-order", "pseudo-log-likelihood", "bound"], cycle([False, True])),
)
def test_scores_do_not_depend_on_the_texts_beside(prefix, name, pmi):
    writer = boustro.Writer(prefix, score=name, pmi=pmi)
    found = writer.score(PAIRS)
    alone = [writer.score([pair], first=row)[0] for row, pair in enumerate(PAIRS)]
    assert [result.log_prob for result in found] == pytest.approx([result.log_prob for result in alone], abs=1e-4)
    assert [(result.prompt, result.text) for result in found] == PAIRS


def test_pmi_is_the_score_less_that_of_the_text_alone(prefix):
    plain, pmi = (boustro.Writer(prefix, score="left-to-right", pmi=given) for given in (False, True))
    model = plain.model
    for pair, whole, less in zip(PAIRS, plain.score(PAIRS), pmi.score(PAIRS), strict=True):
        pieces, total = model.pieces(pair[1]), 0.0
        for place, piece in enumerate(pieces):
            ids = torch.tensor([pieces[:place] + [model.mask_id] * (len(pieces) - place)])
            logits = model.lm(input_ids=ids).logits[0, place].masked_fill(~model.writable, -torch.inf)
            total += logits.log_softmax(-1)[piece].item()
        assert whole.log_prob - less.log_prob == pytest.approx(total, abs=1e-3)


def test_a_text_written_in_an_order_has_its_likelihood_as_score(prefix):
    """What left-to-right, and blocks with a step for each place, report is what the scores of that order say."""
    for options, score in (({"strategy": "left-to-right"}, "left-to-right"), ({"strategy": "blocks"}, "duel")):
        writer = boustro.Writer(prefix, length=5, block_length=5, score=score, **options)
        for prompt, written in zip(PROMPTS, writer.write(PROMPTS), strict=True):
            pieces = _pieces_written(writer, prompt)
            (total,), _ = writer.score_pieces([writer.model.pieces(prompt)], [pieces])
            assert total == pytest.approx(written.log_prob, abs=1e-4)


def _pieces_written(writer: boustro.Writer, prompt: str) -> list[int]:
    return writer._write([writer.model.pieces(prompt)], [0], writer.writing.length)[0].pieces


def test_of_several_lengths_the_surest_is_kept(prefix):
    several = boustro.Writer(prefix, length=6, num_length_candidates=3).write(PROMPTS)
    single = [boustro.Writer(prefix, length=length).write(PROMPTS) for length in (2, 4, 6)]
    for row, best in enumerate(several):
        means = [results[row].log_prob / length for results, length in zip(single, (2, 4, 6), strict=True)]
        assert best.text == single[means.index(max(means))][row].text
    assert len({best.steps for best in several}) > 1, "not always the same length"


def test_the_prefix_cache_changes_no_text(prefix, folders, monkeypatch):
    cached = [[r.text for r in boustro.Writer(prefix, length=6, **how).write(PROMPTS)] for how in STRATEGIES]
    monkeypatch.setattr("boustro.lab.generation.models.MaskedLM.has_prefix_cache", False)
    assert cached == [[r.text for r in boustro.Writer(prefix, length=6, **how).write(PROMPTS)] for how in STRATEGIES]
    monkeypatch.undo()
    assert boustro.Writer(str(folders / "full"), length=3).write(PROMPTS)


def test_a_causal_lm_writes_as_transformers_does(folders):
    writer = boustro.Writer(str(folders / "causal"), length=5)
    lm = AutoModelForCausalLM.from_pretrained(folders / "causal", dtype=torch.float32).eval()
    for prompt, written in zip(PROMPTS, writer.write(PROMPTS), strict=True):
        ids = torch.tensor([[0, *writer.model.pieces(prompt)]])
        wanted = lm.generate(input_ids=ids, max_new_tokens=5, do_sample=False)[0, ids.shape[1] :].tolist()
        wanted = wanted[: wanted.index(0)] if 0 in wanted else wanted
        assert written.text == writer.model.text(wanted) and written.steps == len(wanted)
        scored = writer.score([(prompt, written.text)])[0]
        if writer.model.pieces(written.text) == wanted:
            assert scored.log_prob == pytest.approx(written.log_prob, abs=1e-4)


def test_a_causal_lm_samples_by_seed(folders):
    def write(seed: int, prompts: list[str], first: int = 0) -> list[str]:
        model = boustro.Writer(str(folders / "causal"), length=6, temperature=1.5, seed=seed)
        return [result.text for result in model.write(prompts, first)]

    whole = write(1, PROMPTS)
    assert whole == write(1, PROMPTS[:2]) + write(1, PROMPTS[2:], first=2)
    assert whole != write(2, PROMPTS)


# The commands


def run(capsys, *words: object) -> list[dict]:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("form", ["txt", "jsonl"])
def test_generate_writes_json_lines_in_the_order_of_the_prompts(capsys, tmp_path, prefix, form):
    lines = [json.dumps({"source": p, "id": n}) for n, p in enumerate(PROMPTS)] if form == "jsonl" else PROMPTS
    (tmp_path / f"prompts.{form}").write_text("\n".join(lines) + "\n")
    key = ["--prompt-key", "source"] if form == "jsonl" else []
    found = run(capsys, "lab", "generate", "--encoder", prefix, tmp_path / f"prompts.{form}", "--length", 4, *key)
    wanted = boustro.Writer(prefix, length=4).write(PROMPTS)
    for row, (record, result) in enumerate(zip(found, wanted, strict=True)):
        assert record == ({"id": row, "source": result.prompt} if key else {}) | result.to_dict()
        assert set(result.to_dict()) == {"prompt", "text", "log_prob", "steps"} and math.isfinite(record["log_prob"])


def test_numbers_of_rows_go_on_over_the_lines_read_together(capsys, tmp_path, prefix, monkeypatch):
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    command = ["lab", "generate", "--encoder", prefix, tmp_path / "prompts.txt", "--length", 4, "--temperature", 1]
    whole = run(capsys, *command)
    monkeypatch.setattr("boustro.apps.cli.generate.LINES", 1)
    assert [row["text"] for row in run(capsys, *command)] == [row["text"] for row in whole]


def test_score_reads_standard_input(capsys, monkeypatch, prefix, tmp_path):
    (tmp_path / "in").write_text("".join(json.dumps({"prompt": p, "text": t}) + "\n" for p, t in PAIRS))
    with (tmp_path / "in").open() as given:
        monkeypatch.setattr("sys.stdin", given)
        found = run(capsys, "lab", "score", "--encoder", prefix, "--score", "bound", "--samples", 3)
    wanted = boustro.Writer(prefix, score="bound", samples=3).score(PAIRS)
    assert found == [result.to_dict() for result in wanted]


@pytest.mark.parametrize(
    ("command", "content", "message"),
    [
        ("generate", "Ada\n\nIt", "prompts.txt:2: the prompt is empty"),
        ("generate", '{"prompt": ""}', "prompts.txt:1: the prompt is empty"),
        ("generate", '{"prompt": 3}', "prompts.txt:1: no text under the key 'prompt' (found: prompt)"),
        ("generate", f"Ada\n{'ferry ' * 60}", "prompts.txt:2: the prompt and the text have"),
        ("score", "Ada", "prompts.txt:1: expected a JSON object such as"),
        ("score", '{"prompt": "Ada"}', "no text under the key 'text' (found: prompt)"),
        ("score", '{"prompt": "Ada", "text": ""}', "prompts.txt:1: the text is empty"),
        ("score", '{"prompt": "Ada", "text": "<|endoftext|>"}', "prompts.txt:1: the text has special pieces"),
        ("score", json.dumps({"prompt": "Ada", "text": " left" * 60}), "the window of"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(capsys, tmp_path, prefix, command, content, message):
    (tmp_path / "prompts.txt").write_text(content + "\n")
    options = ["--length", "4"] if command == "generate" else []
    assert main(["lab", command, "--encoder", prefix, str(tmp_path / "prompts.txt"), *options]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--encoder", "starter"], 1, "starter is several models side by side, and one writes or scores; name one"),
        (["--encoder", "{back}"], 1, "is a backward LM, which cannot continue a text"),
        (["--encoder", "{causal}", "--strategy", "gibbs"], 1, "'gibbs' writes with a masked LM"),
        (["--encoder", "{prefix}", "--steps", "5", "--length", "4"], 2, "steps must be at most length, 4, not 5"),
        (["--encoder", "{missing}"], 1, "missing: no such folder; a model is expected here"),
        (["--encoder", "{unmasked}"], 1, "its tokenizer has no mask piece, so it cannot hide what is to be written"),
        (["--encoder", "{other}"], 1, "ids go up to"),
    ],
)
def test_models_and_options_that_do_not_fit_are_refused(capsys, tmp_path, folders, options, code, message):
    (tmp_path / "prompts.txt").write_text("Ada\n")
    names = {name: str(folders / name) for name in ("prefix", "full", "causal", "back", "missing")}
    for name in ("unmasked", "other"):
        names[name] = str(tmp_path / name)
        shutil.copytree(folders / "prefix", tmp_path / name)
    _give_tokenizer(tmp_path / "unmasked", open_lm(names["causal"]).tokenizer)
    _give_tokenizer(tmp_path / "other", _larger(open_lm(names["prefix"]).tokenizer))
    words = [word.format(**names) for word in options]
    assert main(["lab", "generate", str(tmp_path / "prompts.txt"), *words]) == code
    assert message in capsys.readouterr().err


def _give_tokenizer(folder, tokenizer) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    tokenizer.save_pretrained(folder)
    (folder / "manifest.json").unlink(missing_ok=True)


def _larger(tokenizer):
    tokenizer.add_tokens([f"<more {n}>" for n in range(9)])
    return tokenizer


def test_a_missing_file_and_a_folder_are_refused(capsys, tmp_path, prefix):
    assert main(["lab", "generate", "--encoder", prefix, str(tmp_path / "none.txt")]) == 1
    assert "none.txt: no such file" in capsys.readouterr().err
    assert main(["lab", "score", "--encoder", prefix, str(tmp_path)]) == 1
    assert "is a folder; name a file in it" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "message"), [("Ada", "expected prompts, got str"), ([""], "prompt 1: .* is empty")])
def test_what_is_no_prompt_and_no_option_is_refused(prefix, given, message):
    with pytest.raises(ValueError, match=message):
        boustro.Writer(prefix).write(given)
    with pytest.raises(TypeError, match="Writer has no option temprature"):
        boustro.Writer(prefix, temprature=1.0)


@pytest.mark.parametrize("score", ["duel", "bound", "gold-order"])
def test_a_causal_lm_has_one_score(folders, score):
    with pytest.raises(ValueError, match=f"score '{score}' needs a masked LM, and .* is a causal one"):
        boustro.Writer(str(folders / "causal"), score=score)
    with pytest.raises(ValueError, match=r"unknown score 'dual': .*did you mean 'duel'"):
        boustro.Writer(str(folders / "causal"), score="dual")


def test_nothing_to_write_is_nothing_written(capsys, monkeypatch, prefix):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert boustro.Writer(prefix).write([]) == boustro.Writer(prefix).score([]) == []


def test_an_lm_that_float16_cannot_hold_is_refused_before_it_writes(folders, tmp_path, capsys):
    """It would write nothing, with the likelihood 1."""
    for name in ("causal", "back", "prefix"):
        for file in shutil.copytree(folders / name, tmp_path / name).glob("*.safetensors"):
            weights = {key: part * (1e7 if "embed" in key else 1) for key, part in load_file(file).items()}
            save_file(weights, file, {"format": "pt"})
    said = r"beyond the range of float16.*give --dtype bfloat16 or float32"
    for name in ("causal", "prefix"):
        with pytest.raises(ValueError, match=said):
            boustro.Writer(str(tmp_path / name), dtype="float16")
        assert boustro.Writer(str(tmp_path / name), dtype="bfloat16")
    with pytest.raises(ValueError, match=said):
        boustro.Infiller(f"{tmp_path / 'causal'}+{tmp_path / 'back'}", dtype="float16")
    (tmp_path / "prompts.txt").write_text("Ada\n")
    command = ["lab", "generate", str(tmp_path / "prompts.txt"), "--encoder", str(tmp_path / "causal")]
    assert main([*command, "--dtype", "float16"]) == 1
    assert "give --dtype bfloat16 or float32" in capsys.readouterr().err
