"""The fusion of two LMs: what its states know, how it is trained, saved, resumed and read as an encoder."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import boustro
import children
from boustro.apps.cli.main import main
from boustro.encoders.fused import lms_of, towers_of
from boustro.encoders.spec import Spec, load_encoder
from boustro.lab.adapt.training import lr_share
from boustro.models.fusion import CLOZE, READING, Cloze, TiedHead, load_fusion
from boustro.store import Artefact, write_manifest
from precision import tolerance
from pretraining import weeks, write_shards

STEP = ["--segment-length", 16, "--batch-segments", 2]
STEP_PIECES = 32


@pytest.fixture(scope="module")
def pair(tiny_lm):
    """The specs of a forward and a backward LM over one vocabulary."""
    return str(tiny_lm("llama", sentinel=True)), str(tiny_lm("gpt2", "backward", seed=1))


# Training


@pytest.fixture(scope="module")
def shards(pair, tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("data") / "train", weeks(range(30)), "--tokenizer", pair[0])


@pytest.fixture(scope="module")
def validation(pair, shards):
    return write_shards(shards.with_name("validation"), weeks(range(3, 12)), "--tokenizer", pair[0])


def command(pair, shards, out, *options, steps=8):
    given = ["--forward", pair[0], "--backward", pair[1], "--shards", shards, "--out", out]
    return ["lab", "fuse", *map(str, given), *map(str, STEP), "--tokens", str(steps * STEP_PIECES), *map(str, options)]


@pytest.fixture(scope="module")
def trained(pair, shards, validation, tmp_path_factory):
    out = tmp_path_factory.mktemp("fused") / "fusion"
    assert main(command(pair, shards, out, "--validation", validation, "--evaluations", 2, "--lr", 0.01, steps=60)) == 0
    return out


@pytest.mark.bf16
def test_training_lowers_the_validation_loss_and_leaves_a_complete_folder(trained):
    training = json.loads((trained / "training.json").read_text())
    losses = [row["loss"] for row in training["history"] if "loss" in row]
    assert training["validation_loss"] < 0.75 * losses[0]
    assert [row["step"] for row in training["history"] if "eval_loss" in row] == [30, 60]
    assert training["pieces_seen"] == 60 * STEP_PIECES
    assert set(Artefact(trained).check("fusion", verify=True)["files"]) >= {"fusion.safetensors", "config.json"}
    assert [path.name for path in trained.parent.iterdir()] == [trained.name]


@pytest.mark.bf16
def test_the_validation_loss_is_that_of_the_saved_weights(trained, pair, validation):
    from safetensors.torch import load_file

    from boustro.lab.pretrain.segments import Segments
    from boustro.lab.pretrain.shards import Shards

    fusion, config = load_fusion(Artefact(trained))
    forward, backward = lms_of(load_encoder(f"{config['forward']}+{config['backward']}", dtype="float32"))
    head = TiedHead(fusion.width, forward.model.get_input_embeddings().weight)
    weights = load_file(trained / "fusion.safetensors")
    head.load_state_dict(
        {n.removeprefix("head."): w for n, w in weights.items() if n.startswith("head.")}, strict=False
    )
    segments = Segments(Shards.open(validation), 16, seed=None)
    pieces = torch.from_numpy(np.stack([segments[i] for i in range(len(segments))]))
    with torch.no_grad():
        states = towers_of(forward, backward).states(pieces, torch.full((len(pieces),), 16))
        loss = Cloze(fusion, head)(states, pieces).item()
    said = json.loads((trained / "training.json").read_text())["validation_loss"]
    assert loss == pytest.approx(said, abs=tolerance(1e-4, 5e-3))


def test_what_stands_at_out_is_not_lost(pair, shards, tmp_path, stopped_before, capsys):
    """A finished run is left alone with --resume, refused without, replaced with --overwrite; so are checkpoints."""
    given = command(pair, shards, tmp_path / "f", "--save-minutes", 0)
    with stopped_before(5):
        assert main(given) == 101
    assert main(given) == 1 and "give --resume to continue it, or --overwrite" in capsys.readouterr().err
    assert main([*given, "--overwrite"]) == 0
    before = (tmp_path / "f" / "training.json").read_bytes()
    assert main(given) == 1 and "give --overwrite to replace it" in capsys.readouterr().err
    assert main([*given, "--resume"]) == 0 and "this run is finished; nothing to do" in capsys.readouterr().err
    assert main([*given, "--resume", "--seed", "7"]) == 1 and "run with another seed" in capsys.readouterr().err
    assert (tmp_path / "f" / "training.json").read_bytes() == before
    assert main([*given, "--seed", "7", "--overwrite"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_loss_that_is_not_finite_ends_the_run_and_writes_nothing(pair, shards, tmp_path, capsys):
    assert main(command(pair, shards, tmp_path / "f", "--lr", "1e30")) == 1
    assert "nothing was written. Try a lower --lr" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_folder_with_lms_that_were_trained_along_is_read_by_them(pair, trained, tiny_lm, tmp_path):
    """As earlier versions wrote it."""
    out, own = tmp_path / "fusion", tiny_lm("gpt2", "backward", seed=5)
    shutil.copytree(trained, out)
    shutil.copytree(own, out / "backward")
    config = json.loads((out / "config.json").read_text())
    config["towers"]["weights"][1] = None
    (out / "config.json").write_text(json.dumps({**config, "trained": ["backward"]}))
    (out / "manifest.json").unlink()
    write_manifest(out, "fusion")
    forward, backward, _ = load_encoder(f"fused:{out}", dtype="float32", layers="last").encode_all([WORDS]).streams
    plain = [load_encoder(spec, dtype="float32", layers="last") for spec in (pair[0], str(own))]
    for one, other in zip((forward, backward), plain, strict=True):
        np.testing.assert_array_equal(one, other.encode_all([WORDS]).streams[0])


@pytest.mark.bf16
def test_a_run_that_was_stopped_goes_on_to_the_same_weights(pair, shards, tmp_path, stopped_before):
    options = ("--save-minutes", 0)
    assert main(command(pair, shards, tmp_path / "whole", *options)) == 0
    with stopped_before(5, ValueError("stopped")):
        assert main(command(pair, shards, tmp_path / "parts", *options)) == 1 and not (tmp_path / "parts").exists()
    parts = command(pair, shards, tmp_path / "parts", *options, "--resume")
    assert main([*parts, "--lr", "0.1"]) == 1  # another run's checkpoint
    assert main(parts) == 0
    whole, parts = ((tmp_path / run / "fusion.safetensors").read_bytes() for run in ("whole", "parts"))
    assert whole == parts
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_sigterm_leaves_a_checkpoint_and_several_processes_are_refused(pair, shards, tmp_path, capsys, monkeypatch):
    process = children.start(
        children.signalled_in_micro_batch, command(pair, shards, tmp_path / "f"), tmp_path / "run.err", 4, "SIGTERM"
    )
    assert children.finish(process) == 143
    assert "checkpoint-3 is complete. To continue, give the same command" in (tmp_path / "run.err").read_text()
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(command(pair, shards, tmp_path / "other")) == 1
    assert "runs in one process" in capsys.readouterr().err


def test_no_training_leaves_the_first_weights_which_the_seed_decides(pair, shards, validation, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        options = ("--seed", seed, "--validation", validation)
        assert main(command(pair, shards, tmp_path / name, *options, steps=0)) == 0
    a, b, c = (load_fusion(Artefact(tmp_path / name))[0].state_dict() for name in "abc")
    assert all(torch.equal(a[name], b[name]) for name in a) and not torch.equal(a["out.weight"], c["out.weight"])
    training = json.loads((tmp_path / "a" / "training.json").read_text())
    assert training["pieces_seen"] == 0 and training["validation_loss"] > 1


def test_a_dry_run_says_what_a_run_would_cost_and_leaves_nothing(pair, shards, tmp_path, capsys):
    for steps, said in ((700, "dry run: 700 steps of "), (1, "dry run: 1 steps, too few to time one")):
        assert main([*command(pair, shards, tmp_path / "fusion", steps=steps), "--dry-run"]) == 0
        assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_learning_rate_rises_stays_and_falls():
    shares = [lr_share(step, 10, 0.2, 0.4) for step in range(10)]
    assert shares == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    assert lr_share(0, 1, 0.0, 0.0) == 1


# As an encoder


WORDS = ["monday", "Ada", "sold", "umbrellas", "in", "Vellmar", "sunday"]


@pytest.mark.bf16
def test_the_encoder_gives_both_lms_and_the_fusion_of_the_same_words(trained, pair):
    encoder = load_encoder(f"fused:{trained}", dtype="float32", layers="last")
    plain = load_encoder("+".join(pair), dtype="float32", layers="last")
    *lms, fused = encoder.encode_all([WORDS, WORDS[:2]]).streams
    for one, other in zip(lms, plain.encode_all([WORDS, WORDS[:2]]).streams, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [(s.num_layers, s.width) for s in encoder.streams] == [(1, 64), (1, 64), (1, 64)]
    fusion, _ = load_fusion(Artefact(trained))
    towers = towers_of(*lms_of(plain))
    (pieces,) = encoder.parts[0]._aligner.align([(WORDS, None)])
    ids, lengths = torch.from_numpy(pieces.ids)[None], torch.tensor([len(pieces.ids)])
    states = torch.cat([fusion(*towers.states(ids, lengths), lengths, nearest)[0] for nearest in (CLOZE, READING)], -1)
    for word, (start, stop) in enumerate(zip(pieces.bounds[:-1], pieces.bounds[1:], strict=True)):
        np.testing.assert_allclose(fused[word, 0], states[start:stop].mean(0), atol=1e-5)


@pytest.mark.bf16
def test_the_first_half_of_a_fused_state_does_not_know_its_piece_and_the_second_does(trained):
    encoder = load_encoder(f"fused:{trained}", dtype="float32", spacing="always")
    pieces = sorted(p[1:] for p in encoder.tokenizer.get_vocab() if p[0] == "Ġ" and p[1:].isalpha() and p[1:].isascii())
    a, b, c, d, x = pieces[:5]  # words of one piece each
    texts = [[a, b, c], [a, b, d], [x, b, c], [a, b, c]]
    a, b, c, same = (streams[2] for streams in encoder.encode(texts))
    half = a.shape[-1] // 2
    assert np.abs(a - same).max() == 0
    for one, other, word in ((a, b, 2), (a, c, 0)):
        change = np.abs(one - other)[:, 0].reshape(3, 2, half).max(-1)
        assert change[word, 0] < 1e-5 and change[word, 1] > 1e-3
        assert np.delete(change, word, 0).min() > 1e-4


@pytest.mark.parametrize("pooling", [None, "exit+before+first"])
@pytest.mark.bf16
def test_batches_change_nothing_and_long_texts_are_read_whole(trained, pooling, monkeypatch):
    texts = [WORDS, WORDS[:1], WORDS * 15]
    encoder = load_encoder(f"fused:{trained}", dtype="float32", pooling=pooling)
    together = [streams[2] for streams in encoder.encode(texts)]
    monkeypatch.setattr("boustro.encoders.reading.PieceEncoder.batch_pieces", 1)
    for one, (_, _, other) in zip(together, encoder.encode(texts), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert np.abs(together[2]).max((1, 2)).min() > 0


def test_it_is_cached_named_exactly_and_joined_to_others(trained, pair, tmp_path):
    spec = f"fused:{trained}"
    live, cached = (load_encoder(spec, cache=cache) for cache in (None, tmp_path))
    assert cached.identity() == live.identity()
    for _ in range(2):
        for one, other in zip(live.encode_all([WORDS]).streams, cached.encode_all([WORDS]).streams, strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(list(tmp_path.glob("??/*"))) == 3
    joined = load_encoder(f"{spec}+unmasked:{pair[0]}")
    assert len(joined.streams) == 4
    assert Spec.parse(f"{spec}+unmasked:{pair[0]}").exact(joined.identity()) == f"{spec}+unmasked:{pair[0]}"


def test_a_tagger_over_a_fusion_is_saved_and_opened(trained, tmp_path):
    data = [(WORDS, "B-DAY B-PER O O O B-LOC B-DAY".split())]
    tagger = boustro.Tagger(f"fused:{trained}", "linear", epochs=1).fit(data, data)
    tagger.save_pretrained(tmp_path / "ner")
    assert boustro.Tagger.from_pretrained(tmp_path / "ner").tag([WORDS]) == tagger.tag([WORDS])
    assert "mean" in (tmp_path / "ner" / "README.md").read_text("utf-8")


def test_what_does_not_fit_is_said(trained, pair, shards, tiny_lm, tmp_path, capsys):
    lm = str(tiny_lm("llama", vocab=420))
    moved = tmp_path / "moved"
    shutil.copytree(pair[1], moved)
    for changed, message in (
        (["--backward", pair[0]], "expected a forward LM and a backward LM, in this order"),
        (["--forward", lm, "--backward", f"backward:{lm}"], "was made with another tokenizer"),
        (["--segment-length", 64], "read 63 pieces together"),
        (["--width", 30], "width of 30 cannot be divided among 4 heads"),
        (["--forward", "./none"], "no such folder"),
    ):
        given = command(pair, shards, tmp_path / "out")
        for name in changed[::2]:
            if name in given:
                del given[given.index(name) : given.index(name) + 2]
        assert main([*given, *map(str, changed)]) == 1
        assert message in capsys.readouterr().err
    assert main(command((pair[0], str(moved)), shards, tmp_path / "own", steps=0)) == 0
    shutil.copy(Path(tiny_lm("gpt2", "backward", seed=5)) / "model.safetensors", moved)
    with pytest.raises(ValueError, match="have changed since it was trained"):
        load_encoder(f"fused:{tmp_path / 'own'}")
    shutil.rmtree(moved)
    with pytest.raises(FileNotFoundError, match=r"is a fusion of .*no model could be loaded"):
        load_encoder(f"fused:{tmp_path / 'own'}")
    for path, message in ((pair[0], "incomplete or was not written by Boustro"), ("./none", "no such folder")):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            load_encoder(f"fused:{path}")
    with pytest.raises(ValueError, match="has no option revision"):
        load_encoder(f"fused:{trained}", revision="main")
    with pytest.raises(ValueError, match="is a fusion folder; a model folder is expected"):
        load_encoder(str(trained))
