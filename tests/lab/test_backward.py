"""`boustro backward`: from an LM and raw text to a backward LM, stopped and continued, and what is refused."""

import json
import signal
from pathlib import Path

import pytest
from transformers import AutoConfig, AutoModelForCausalLM

from boustro.apps.cli.main import main
from boustro.encoders.spec import load_encoder
from boustro.lab.adapt import backward as steps
from boustro.lab.pretrain.trainer import PretrainTrainer
from conftest import SENTENCES
from pretraining import replacing

SHAPE = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture
def command(tiny_lm, tmp_path, monkeypatch):
    """command(*more) → exit code of a run on forty short documents."""
    monkeypatch.chdir(tmp_path)
    Path("lm").symlink_to(tiny_lm("qwen3"))
    AutoConfig.for_model("llama", tie_word_embeddings=True, **SHAPE).save_pretrained("shape")
    Path("raw.jsonl").write_text("".join(json.dumps({"text": f"{n}. {t}"}) + "\n" for n in range(8) for t in SENTENCES))
    small = ["--preset", "shape/config.json", "--segment-length", "16", "--batch-segments", "2", "--passes", "1"]
    small += ["--sampled-pieces", "50", "--no-compile", "--workers", "1", "--minutes", "5"]

    def run(*more: str, text: str = "raw.jsonl", model: str = "lm") -> int:
        return main(replacing(["backward", model, "--text", text, "--out", "made", *small], *more))

    return run


def test_the_pair_reads_what_the_command_wrote(command, capsys):
    assert command() == 0
    out, err = capsys.readouterr()
    assert out == "lm+made\n" and "plan: at most" in err
    record = json.loads(Path("made/training.json").read_text())
    assert record["validation_loss"] < record["history"][0]["loss"]
    assert AutoModelForCausalLM.from_pretrained("made").config.direction == "backward"
    assert not Path("made.work").exists() and not Path("made.checkpoints").exists()
    assert "lm+made" in Path("made/README.md").read_text()
    pair = load_encoder("lm+made")
    assert [stream.width for stream in pair.streams] == [64, 32]  # exit and before
    (features,) = pair.encode([["Ada", "left", "Vellmar"]])
    assert [len(stream) for stream in features] == [3, 3]

    assert command() == 0
    assert "complete already" in capsys.readouterr().err
    assert command("--seed", "2") == 1
    assert "already holds a model folder" in capsys.readouterr().err
    Path("made.work").mkdir()
    Path("made.work/notes.txt").write_text("mine")
    assert command("--seed", "2", "--overwrite") == 0
    assert [path.name for path in Path("made.work").iterdir()] == ["notes.txt"]


def test_a_stopped_run_goes_on_with_its_plan(command, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(steps, "_train", lambda *given: 1 / 0)
        assert command() == 101
    planned = Path("made.work/plan.json").read_text()
    assert command("--seed", "2") == 1
    assert "begun with other files or options" in capsys.readouterr().err
    monkeypatch.setattr(steps, "measure", lambda *given: pytest.fail("measured again"))
    with monkeypatch.context() as patch:
        patch.setattr(steps, "run_pretraining", lambda *given: 1 / 0)
        assert command() == 101
    shards = Path("made.work/shards/pieces-00000.bin").stat().st_mtime_ns
    original = steps.run_pretraining

    def checked(*given):
        assert Path("made.work/plan.json").read_text() == planned
        assert Path("made.work/shards/pieces-00000.bin").stat().st_mtime_ns == shards
        return original(*given)

    monkeypatch.setattr(steps, "run_pretraining", checked)
    assert command("--minutes", "9") == 0


def test_a_run_that_is_stopped_says_that_the_same_command_goes_on(command, capsys, monkeypatch):
    original = PretrainTrainer.training_step

    def stops(self, *given, **named):
        if self.state.global_step == 3 and not self.config.dry_run:  # the first steps are measured
            self.signals.received = signal.SIGTERM
        return original(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(PretrainTrainer, "training_step", stops)
        assert command() == 143
    said = capsys.readouterr().err
    assert "checkpoint-3 is complete. To continue, give the same command\n" in said and "--resume" not in said
    assert command() == 0
    assert "resuming from made.checkpoints/checkpoint-3" in capsys.readouterr().err
    Path("made.work").mkdir()  # killed between the last two steps
    assert command() == 0 and not Path("made.work").exists()


def test_a_dry_run_tells_the_plan_and_leaves_nothing(command, capsys):
    assert command("--dry-run") == 0
    assert "plan: at most" in capsys.readouterr().err
    assert {path.name for path in Path().iterdir()} == {"lm", "shape", "raw.jsonl"}


def test_held_out_documents_are_not_trained_on(command, monkeypatch):
    seen = {}
    original = steps.write_shards

    def write(documents, folder, workers):
        texts = seen[Path(folder).name.strip(".").split(".")[0]] = [*documents]
        return original(texts, folder, workers)

    monkeypatch.setattr(steps, "write_shards", write)
    assert command() == 0
    held_out, trained = seen.values()
    assert len(held_out) == 4 and len(trained) == 76 and not set(held_out) & set(trained)


@pytest.mark.parametrize(
    ("more", "given", "message"),
    [
        ((), {"model": "shape"}, "no tokenizer"),
        ((), {"model": "absent"}, "absent"),
        ((), {"model": "masked"}, "masked is a masked LM (bert), not a causal LM"),
        ((), {"text": "absent.txt"}, "absent.txt: no such file"),
        ((), {"text": "one.txt"}, "fewer than two documents"),
        (("--minutes", "0.0001"), {}, "--minutes 0.0001 is too short"),
        (("--preset", "bert-mini"), {}, "bert-mini"),
    ],
)
def test_what_cannot_work_is_one_sentence(more, given, message, command, capsys):
    Path("one.txt").write_text("One document. " * 20)
    AutoConfig.for_model("bert", **SHAPE).save_pretrained("masked")
    assert command(*more, **given) == 1
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err
