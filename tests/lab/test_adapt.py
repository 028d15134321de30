"""Adapted LMs: what trains, what is written, and what is read again as an encoder."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForCausalLM

import boustro
from boustro.apps.cli.main import main
from boustro.encoders.spec import Spec, load_encoder
from boustro.lab.adapt.adapters import make_next_masking
from boustro.lab.adapt.options import TextAdaptOptions
from boustro.lab.objectives.masked_next import masked_next
from boustro.lab.pretrain.segments import Segments
from boustro.lab.pretrain.shards import Shards
from boustro.models.lora import LoraShape, LoraWeights, adapter_fingerprint, add_lora, find_adaptation
from boustro.store import Artefact
from boustro.tasks.data.conll import format_conll
from labelled import DATA
from precision import tolerance
from pretraining import replacing, weeks, write_shards

KINDS = ("gpt2", "llama", "qwen3", "gpt_neox")
WORDS = ["Ada", "Brandt", "sold", "umbrellas", "in", "Vellmar", "."]
STEP_PIECES = 64


# The adapter


def test_what_stands_for_a_hidden_piece(tiny_lm):
    tokenizer = load_encoder(str(tiny_lm("llama"))).tokenizer
    blank = make_next_masking(tokenizer, TextAdaptOptions(), 410)
    assert tokenizer.convert_ids_to_tokens(blank.mask_id) == "_" and blank.special[blank.mask_id]
    assert blank.special[400:].all() and blank.special.sum() == 10 + 2  # padded rows, the end of text and the blank
    tokenizer.add_special_tokens({"mask_token": "<|mask|>"})
    assert make_next_masking(tokenizer, TextAdaptOptions(), 410).mask_id == tokenizer.mask_token_id
    chosen = make_next_masking(tokenizer, TextAdaptOptions(mask_piece="a"), 410)
    assert tokenizer.convert_ids_to_tokens(chosen.mask_id) == "a"


def random_adapter(path, **changed):
    """A transformer, and the same under an adapter whose weights are all drawn anew."""
    shape = LoraShape(**{"rank": 4, "alpha": 8.0, "dropout": 0.0, **changed})
    adapted = add_lora(AutoModel.from_pretrained(path), shape)
    torch.manual_seed(0)
    for parameter in LoraWeights(adapted).parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return AutoModel.from_pretrained(path), adapted


@pytest.mark.parametrize("kind", KINDS)
def test_all_linear_layers_of_the_blocks_are_adapted_and_nothing_else_trains(tiny_lm, kind):
    model, adapted = random_adapter(tiny_lm(kind))
    weights = LoraWeights(adapted)
    trained = {id(p) for p in adapted.parameters() if p.requires_grad}
    assert trained == {id(p) for p in weights.parameters()} and len(trained) > 0
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "emb" not in name and "wpe" not in name]
    matrices = [p for p in matrices if p is not model.get_input_embeddings().weight]
    assert sum(p.numel() for p in weights.parameters()) == sum(4 * sum(p.shape) for p in matrices)


@pytest.mark.parametrize(
    ("kind", "blocks"),
    [
        *((kind, "2") for kind in KINDS),
        ("llama", "none"),
        *(pytest.param(kind, "none", marks=pytest.mark.long) for kind in KINDS if kind != "llama"),
        *(pytest.param(kind, "1-2", marks=pytest.mark.long) for kind in KINDS),
    ],
)
@pytest.mark.bf16
def test_the_merged_encoder_equals_what_peft_itself_gives(tiny_lm, tmp_path, kind, blocks):
    from boustro.encoders.adapted import adaptation_facts
    from boustro.models.lora import ADAPTATION, save_adaptation
    from boustro.store import write_folder

    path = tiny_lm(kind, sentinel=True)
    plain = load_encoder(f"unmasked:{blocks}:{path}" if blocks != "none" else str(path), dtype="float32")
    _, adapted = random_adapter(path)
    with write_folder(tmp_path / "adapted", ADAPTATION) as folder:
        save_adaptation(folder, adapted, adaptation_facts(plain, str(path)))
    spec = f"{'' if blocks == 'none' else 'unmasked:'}{tmp_path / 'adapted'}"
    merged = load_encoder(spec, dtype="float32")
    ids = torch.randint(5, 300, (2, 9), generator=torch.manual_seed(0))

    import peft

    theirs = peft.PeftModel.from_pretrained(plain.model, tmp_path / "adapted").eval()
    with torch.no_grad():
        base = plain.model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        expected = theirs(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        with theirs.disable_adapter():
            off = theirs(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    torch.testing.assert_close(merged._hidden_states(ids, [9, 9])[-1], expected, atol=1e-4, rtol=1e-4)
    assert (expected - off).abs().max() > 0.1
    assert base.shape == expected.shape
    assert not any(p.requires_grad for p in merged.model.parameters()) and merged.spec == spec


# Training


@pytest.fixture(scope="module")
def text(lm, tmp_path_factory):
    """Folders of shards: weeks, over and over, from different days on."""
    folder = tmp_path_factory.mktemp("text")
    for name, starts in (("shards", range(40)), ("validation", range(3, 14))):
        write_shards(folder / name, weeks(starts), "--tokenizer", lm)
    return folder


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    (folder / "train.conll").write_text(format_conll(DATA), "utf-8")
    (folder / "dev.conll").write_text(format_conll(DATA[:8]), "utf-8")
    return folder


def from_text(lm, text, out, *options, steps=6):
    given = ["--lm", lm, "--shards", text / "shards", "--out", out, "--tokens", steps * STEP_PIECES]
    return replacing(["lab", "adapt", *given, "--segment-length", 16, "--batch-segments", 4], *options)


def from_labels(lm, labelled, out, *options):
    given = ["--lm", lm, "--train", labelled / "train.conll", "--dev", labelled / "dev.conll", "--out", out]
    return replacing(["lab", "adapt", *given, "--batch-pieces", 64], *options)


def training(folder):
    return json.loads((folder / "training.json").read_text())


@pytest.fixture(scope="module")
def adapted(lm, text, tmp_path_factory):
    """A folder adapted to running text."""
    out = tmp_path_factory.mktemp("adapted") / "lm"
    options = ["--validation", text / "validation", "--evaluations", 2, "--lr", 0.01, "--dropout", 0]
    assert main(from_text(lm, text, out, *options, steps=50)) == 0
    return out


@pytest.fixture(scope="module")
def adapted_to_labels(lm, labelled, tmp_path_factory):
    """A folder adapted to labelled sentences."""
    out = tmp_path_factory.mktemp("adapted") / "labels"
    assert main(from_labels(lm, labelled, out, "--epochs", 12, "--lr", 0.005, "--blocks", "2", "--dropout", 0)) == 0
    return out


@pytest.mark.bf16
def test_running_text_lowers_the_loss_and_writes_the_adapter_alone(adapted, lm):
    record = training(adapted)
    losses = [row["loss"] for row in record["history"] if "loss" in row]
    assert record["validation_loss"] < 0.6 * losses[0] and record["pieces_seen"] == 50 * STEP_PIECES
    assert record["mask_piece"] == "_" and record["objective"] == "masked-next"
    files = Artefact(adapted).check("low-rank adaptation", verify=True)["files"]
    assert set(files) == {"adapter_model.safetensors", "adapter_config.json", "adaptation.json", "training.json"}
    assert sum(t.numel() for t in load_file(adapted / "adapter_model.safetensors").values()) == record["num_parameters"]
    facts = find_adaptation(Artefact(adapted))
    assert (facts.base, facts.blocks, facts.direction) == (lm, "1-2", "forward")
    assert [path.name for path in adapted.parent.iterdir()] == ["lm"]  # no checkpoint stays


@pytest.mark.bf16
def test_the_validation_loss_is_that_of_the_folder_worked_out_with_transformers_alone(adapted, lm, text):
    from boustro.lab.objectives.examples import keyed_generator

    merged = load_encoder(f"unmasked:{adapted}", dtype="float32")
    whole = AutoModelForCausalLM.from_pretrained(lm)
    whole.model = merged.model
    segments = Segments(Shards.open(text / "validation"), 16, seed=None)
    hide = make_next_masking(merged.tokenizer, TextAdaptOptions(), 400)
    losses = []
    for n in range(len(segments)):
        example = masked_next(segments[n], keyed_generator(1, 0, n), hide, "forward", [merged.tokenizer.eos_token_id])
        with torch.no_grad():
            logits = whole(torch.from_numpy(example.input_ids)[None]).logits[0]
        labels = torch.from_numpy(example.targets)
        losses.append(torch.nn.functional.cross_entropy(logits[example.positions], labels).item())
    assert np.mean(losses) == pytest.approx(training(adapted)["validation_loss"], abs=tolerance(1e-3, 2e-2))


def test_one_reading_learns_what_a_second_one_gives(lm, text, tmp_path):
    """Without its mask the LM is further from it before the training than after."""
    options = ["--learn", "second-reading", "--validation", text / "validation", "--lr", 0.005, "--dropout", 0]
    assert main(from_text(lm, text, tmp_path / "out", *options, steps=60)) == 0
    record = training(tmp_path / "out")
    assert record["objective"] == "second-reading" and record["layers"] == [0, 1, 2]
    assert record["validation_loss"] < 0.5 * record["history"][0]["loss"]
    specs = f"repeated:{lm}", f"unmasked:{lm}", f"unmasked:{tmp_path / 'out'}"
    teacher, plain, adapted = (load_encoder(spec, dtype="float32") for spec in specs)
    segments = Segments(Shards.open(text / "validation"), 16, seed=None)
    texts = [segments[n].tolist() for n in range(len(segments))]
    with torch.no_grad():
        wanted = teacher.last_copy(texts)[:, :, 1:]
        rows = torch.tensor([[*adapted.start, *pieces] for pieces in texts])
        gaps = [
            (torch.stack(encoder._hidden_states(rows, [17] * len(rows))[1:], 2)[:, 1:] - wanted).square().mean().item()
            for encoder in (plain, adapted)
        ]
    assert gaps[1] < 0.5 * gaps[0]


def test_data_that_teach_nothing_are_refused(lm, file, tmp_path, capsys):
    path = file("plain.conll", "Ada\tO\nsold\tO\n\n")
    words = ["lab", "adapt", "--lm", lm, "--out", str(tmp_path / "out")]
    for given, said in (
        (["--train", str(path)], "there is nothing to learn"),
        ([], "give one of --shards FOLDER (running text), --train FILE"),
    ):
        assert main([*words, *given]) == 1
        assert said in capsys.readouterr().err


@pytest.mark.bf16
def test_labelled_sentences_lower_the_loss_and_the_own_head_is_scored(adapted_to_labels):
    record = training(adapted_to_labels)
    losses = [row["loss"] for row in record["history"] if "loss" in row]
    assert losses[-1] < 0.2 * losses[0] and record["validation_loss"] < 0.1
    assert record["dev_scores"]["f1"] == 100 and record["labels"] == ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]
    assert find_adaptation(Artefact(adapted_to_labels)).blocks == "2-2"
    assert record["num_parameters"] > sum(
        t.numel() for t in load_file(adapted_to_labels / "adapter_model.safetensors").values()
    )  # the head is trained and not kept


def test_a_tag_that_training_never_showed_is_an_error_of_the_score_and_no_part_of_the_loss(
    lm, labelled, file, tmp_path
):
    dev = file("dev.conll", "Ada\tB-SHIP\n\nNobody\tO\nreads\tO\n\n")
    options = ["--epochs", 1, "--dev", dev, "--batch-pieces", 8, "--context", "sentence"]
    assert main(from_labels(lm, labelled, tmp_path / "out", *options)) == 0
    record = training(tmp_path / "out")
    assert 0 < record["validation_loss"] < 10 and record["dev_scores"]["num_entities"] == 1


@pytest.mark.parametrize("way", ["text", "reading", "labels"])
@pytest.mark.bf16
def test_a_run_that_was_stopped_goes_on_to_the_same_bytes(lm, text, labelled, tmp_path, stopped_before, way):
    def command(name, *options):
        options = ["--dropout", 0.3, *options]
        if way != "labels":
            learn = {"text": "hidden-pieces", "reading": "second-reading"}[way]
            return from_text(lm, text, tmp_path / name, "--learn", learn, *options)
        return from_labels(lm, labelled, tmp_path / name, "--epochs", 1, *options)

    assert main(command("whole")) == 0
    with stopped_before(3):
        assert main(command("parts", "--save-minutes", 0)) == 101 and not (tmp_path / "parts").exists()
    saved = sum(f.stat().st_size for f in (tmp_path / "parts.checkpoints" / "checkpoint-3").iterdir())
    assert main(command("parts", "--rank", 8, "--resume")) == 1  # another run's checkpoint
    assert main(command("parts", "--resume")) == 0
    one, other = ((tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert one == other and saved < 10 * len(one)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


@pytest.mark.bf16
def test_no_training_is_the_lm_with_its_mask_removed(lm, text, tmp_path):
    for blocks in ("all", "2", "none"):
        assert main(from_text(lm, text, tmp_path / blocks, "--blocks", blocks, steps=0)) == 0
    specs = [f"unmasked:{tmp_path / 'all'}", f"unmasked:{tmp_path / '2'}", str(tmp_path / "none")]
    for spec, plain in zip(specs, [f"unmasked:{lm}", f"unmasked:2:{lm}", lm], strict=True):
        one, other = (load_encoder(s, dtype="float32").encode_all([WORDS]).streams[0] for s in (spec, plain))
        np.testing.assert_array_equal(one, other)


def test_dropout_is_on_in_training_alone_and_the_lm_has_none_of_its_own(tiny_lm):
    path = tiny_lm("gpt2")  # which has dropout in its config
    adapted = add_lora(AutoModel.from_pretrained(path), LoraShape(rank=2, alpha=2.0, dropout=0.5))
    weights = LoraWeights(adapted).train()
    assert all(p.training == name.endswith("default") for name, p in weights.parts.named_modules() if "drop" in name)
    on = [name for name, m in adapted.named_modules() if isinstance(m, torch.nn.Dropout) and m.training]
    assert on and all("lora_dropout" in name for name in on)
    assert not any(m.training for m in LoraWeights(adapted).eval().modules())


def test_an_lm_in_bf16_is_adapted_in_fp32_and_read_again(lm, labelled, tmp_path, monkeypatch):
    monkeypatch.setenv("BOUSTRO_BF16", "1")
    assert main(from_labels(lm, labelled, tmp_path / "out")) == 0
    weights = load_file(tmp_path / "out" / "adapter_model.safetensors").values()
    losses = [row["loss"] for row in training(tmp_path / "out")["history"] if "loss" in row]
    assert {w.dtype for w in weights} == {torch.float32} and np.isfinite(losses[-1])
    encoder = load_encoder(f"unmasked:{tmp_path / 'out'}")
    assert encoder.model.dtype == torch.bfloat16 and np.isfinite(encoder.encode_all([WORDS]).streams[0]).all()


# As an encoder


def test_it_is_cached_named_exactly_and_joined_to_others(adapted, adapted_to_labels, lm, tmp_path):
    spec = f"unmasked:{adapted}"
    live, cached = (load_encoder(spec, cache=cache) for cache in (None, tmp_path))
    assert cached.identity() == live.identity()
    for _ in range(2):
        for one, other in zip(live.encode_all([WORDS]).streams, cached.encode_all([WORDS]).streams, strict=True):
            np.testing.assert_array_equal(one, other)
    identities = [load_encoder(s).identity() for s in (spec, f"unmasked:{lm}", f"unmasked:{adapted_to_labels}")]
    assert len({identity.weights for identity in identities}) == 3
    assert len({str(Spec.parse(s).fingerprint()) for s in (spec, f"unmasked:{lm}", lm)}) == 3
    joined = load_encoder(f"{spec}+{lm}")
    assert Spec.parse(f"{spec}+{lm}").exact(joined.identity()) == f"{spec}+{lm}"
    copy = tmp_path / "copy"
    shutil.copytree(adapted, copy)
    assert load_encoder(f"unmasked:{copy}").identity() == identities[0]  # wherever it lies
    assert adapter_fingerprint(Artefact(copy)) == adapter_fingerprint(Artefact(adapted))


def test_a_tagger_over_an_adapted_lm_is_saved_and_opened_and_refuses_another(adapted, lm, text, tmp_path):
    out = tmp_path / "lm"
    shutil.copytree(adapted, out)
    data = [(WORDS, "B-PER I-PER O O O B-LOC O".split())]
    tagger = boustro.Tagger(f"unmasked:{out}", "linear", epochs=1).fit(data, data)
    tagger.save_pretrained(tmp_path / "ner")
    assert boustro.Tagger.from_pretrained(tmp_path / "ner").tag([WORDS]) == tagger.tag([WORDS])
    assert main(from_text(lm, text, out, "--overwrite", steps=2)) == 0  # adapted anew
    with pytest.raises(ValueError, match="is not the one that this head was trained on"):
        boustro.Tagger.from_pretrained(tmp_path / "ner")


def test_a_backward_lm_and_the_shipped_ones_are_adapted(tiny_lm, text, tmp_path):
    path = tiny_lm("llama", "backward", seed=1)
    silent = tmp_path / "silent"
    shutil.copytree(path, silent)
    config = json.loads((silent / "config.json").read_text())
    del config["direction"]
    (silent / "config.json").write_text(json.dumps(config))
    assert main(from_text(f"backward:{silent}", text, tmp_path / "adapted", "--blocks", "2", steps=2)) == 0
    facts = find_adaptation(Artefact(tmp_path / "adapted"))
    assert (facts.base, facts.direction, facts.blocks) == (str(silent), "backward", "2-2")
    encoder = load_encoder(f"unmasked:{tmp_path / 'adapted'}")
    assert encoder.backward and encoder.identity().direction == "backward"
    assert load_encoder(f"{tiny_lm('gpt2')}+unmasked:{tmp_path / 'adapted'}").streams[1].num_layers == 3


def test_rows_hold_every_word_once_where_the_encoder_reads_it(lm):
    for spec in (f"unmasked:{lm}", lm):
        encoder = load_encoder(spec, dtype="float32", layers="last", pooling="exit")
        texts = [WORDS, WORDS * 12, ["Lisse"]]  # the second is longer than the window
        found = {}
        for row in encoder.rows(texts):
            states = encoder._hidden_states(torch.tensor([row.ids]), [len(row.ids)])[-1][0]
            assert not set(found) & set(row.words.tolist())
            found |= zip(row.words.tolist(), states[torch.from_numpy(row.columns)].numpy(), strict=True)
        vectors = encoder.encode_all(texts).streams[0][:, 0]
        np.testing.assert_allclose(np.stack([found[w] for w in range(len(vectors))]), vectors, atol=1e-4)


# What does not fit


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--lm", "{bert}"], "is a masked LM (bert), which reads both ways already; name it masked:"),
        (["--lm", "{other}"], "was made with another tokenizer than that of the LM"),
        (["--lm", "starter"], "only a single causal LM can be adapted"),
        (["--lm", "unmasked:{lm}"], "its blocks with --blocks"),
        (["--lm", "{adapted}"], "a model folder is expected here"),
        (["--blocks", "2-3"], "no blocks 2-3, the model has 1 to 2; a range is first-last"),
        (["--blocks", "upper"], "no blocks upper"),
        (["--segment-length", 64], "reads segments of 2 to 63 pieces"),
        (["--mask-piece", "<blank>"], "has no piece '<blank>'"),
        (["--epochs", 2], "--train takes --dev, --epochs, --batch-pieces, --context; --things takes --text-key"),
        (["--out", "{text}"], "is not a low-rank adaptation folder"),
        (["--learn", "second-reading", "--mask-rate", 0.3], "mask_rate and mask_piece are for learn"),
        (["--learn", "second-reading", "--segment-length", 40], "reads texts of up to 31 pieces twice"),
    ],
)
def test_what_does_not_fit_is_said(lm, text, adapted, tiny_lm, bert, tmp_path, capsys, changed, message):
    names = {"bert": str(bert), "lm": lm, "adapted": adapted, "text": text, "other": tiny_lm("llama", vocab=420)}
    changed = [str(c).format(**names) for c in changed]
    assert main(from_text(lm, text, tmp_path / "out", *changed)) in (1, 2)
    captured = capsys.readouterr()
    assert message in " ".join(captured.err.split()) and captured.out == "" and not (tmp_path / "out").exists()


def test_without_peft_one_sentence_says_what_to_install(lm, adapted, text, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    assert main(from_text(lm, text, tmp_path / "out")) == 1
    assert "an adapted LM needs peft; install it with: pip install 'boustro[adapt]'" in capsys.readouterr().err
    with pytest.raises(ImportError, match="pip install"):
        load_encoder(f"unmasked:{adapted}")
    load_encoder(f"unmasked:{lm}")  # needs no peft


def test_a_folder_that_does_not_fit_is_refused(adapted, lm, text, tmp_path):
    for spec, message in (
        (str(adapted), "was adapted without its mask in blocks 1-2; name it unmasked:"),
        (f"unmasked:2:{adapted}", "was adapted without its mask in blocks 1-2; name it unmasked:"),
        (f"repeated:{adapted}", "a model folder is expected here"),
    ):
        with pytest.raises(ValueError, match=message):
            load_encoder(spec)
    assert main(from_text(lm, text, tmp_path / "kept", "--blocks", "none", steps=1)) == 0
    with pytest.raises(ValueError, match="was adapted with its mask kept; name it without"):
        load_encoder(f"unmasked:{tmp_path / 'kept'}")
    base = tmp_path / "base"
    shutil.copytree(lm, base)
    assert main(from_text(str(base), text, tmp_path / "mine", steps=1)) == 0
    load_encoder(f"unmasked:{tmp_path / 'mine'}")
    weights = load_file(base / "model.safetensors")
    next(iter(weights.values())).add_(1)
    from safetensors.torch import save_file

    save_file(weights, base / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="has changed since it was adapted"):
        load_encoder(f"unmasked:{tmp_path / 'mine'}")
    shutil.rmtree(base)
    with pytest.raises(FileNotFoundError, match=r"adapts .*: no model could be loaded"):
        load_encoder(f"unmasked:{tmp_path / 'mine'}")
