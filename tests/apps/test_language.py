"""Any language in an hour, in seconds: Chinese without spaces and Arabic from right to left, stopped and continued."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import boustro
from boustro.apps.cli.main import main
from boustro.apps.studies.language import build as steps
from boustro.apps.studies.language.build import RESERVE, decide, reserve
from boustro.apps.studies.language.command import LanguageOptions

TEXTS = {
    "chinese": "艾达在利塞港工作。米拉住在维尔马。今天港口下雨，船没有来。\n图书馆下雪时关门。渔民在风大时补网。\n",
    "arabic": "تعمل ليلى في ميناء ليسة. تسكن ميرا في فلمار.\nهطل المطر اليوم ولم تصل السفينة. تغلق المكتبة أبوابها.\n",
}
LABELLED = {
    "chinese": [
        ("艾达在利塞港。", [[0, 2, "PER"], [3, 6, "LOC"]]),
        ("米拉住在维尔马。", [[0, 2, "PER"], [4, 7, "LOC"]]),
    ],
    "arabic": [("تعمل ليلى في ليسة.", [[5, 9, "PER"], [13, 17, "LOC"]]), ("تسكن ميرا في فلمار.", [[5, 9, "PER"]])],
}
SHAPE = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL = ["--vocabulary", "300", "--segment-length", "16", "--batch-segments", "2", "--passes", "2", "--epochs", "3"]
SMALL += ["--no-compile", "--minutes", "20"]


def make_files(folder, language):
    from transformers import AutoConfig

    AutoConfig.for_model("llama", vocab_size=300, max_position_embeddings=64, **SHAPE).save_pretrained(folder / "shape")
    (folder / "raw.txt").write_text((TEXTS[language] + "\n") * 12, "utf-8")
    rows = [{"text": text, "entities": entities} for text, entities in LABELLED[language] * 6]
    (folder / "gold.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    files = ["--text", "raw.txt", "--train", "gold.jsonl", "--dev", "gold.jsonl", "--preset", "shape/config.json"]
    return ["lab", "language", *files, *SMALL, "--out", "made"]


@pytest.mark.parametrize("language", ["chinese", pytest.param("arabic", marks=pytest.mark.long)])
def test_from_raw_text_to_a_report_and_on_after_a_stop(language, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = make_files(tmp_path, language)
    assert main([*command, "--dry-run"]) == 0
    assert "pieces for each LM" in capsys.readouterr().out and Path("made/plan.json").is_file()
    planned = Path("made/plan.json").read_text()

    with monkeypatch.context() as patch:  # stopped before the second LM
        original = steps.run_pretraining
        patch.setattr(
            steps, "run_pretraining", lambda config: original(config) if config.direction == "forward" else 1 / 0
        )
        assert main(command) == 101
    assert Path("made/forward/manifest.json").is_file() and not Path("made/backward").exists()
    capsys.readouterr()

    assert main([*command, "--json", "figures.json"]) == 0
    shown = capsys.readouterr()
    assert "made/shards: complete already" in shown.err and "made/forward: complete already" in shown.err
    figures = json.loads(Path("figures.json").read_text())
    assert Path("made/plan.json").read_text() == planned and figures["pieces"] == json.loads(planned)["tokens"]
    assert set(figures["seconds"]) == {"shards", "probe", "forward", "backward", "memory", "tagger", "report"}
    assert len(figures["systems"]) == 3 and Path("made/report/report.html").is_file()
    backward = json.loads(Path("made/backward/training.json").read_text())
    assert backward["config"]["init_from"] == "made/forward" and backward["config"]["direction"] == "backward"
    tagger = boustro.Tagger.from_pretrained("made/tagger")
    text = LABELLED[language][0][0]
    assert all(text[e.start : e.end] == e.text for e in tagger.predict(text))

    assert main(command) == 0
    assert capsys.readouterr().err.count("complete already") == 5
    Path("raw.txt").write_text("another text\n" * 200)
    assert main(command) == 1
    assert "begun with other files or options" in capsys.readouterr().err
    if language == "chinese":  # that nothing of the old text stays is a test of its own
        return
    assert main([*command, "--overwrite"]) == 0
    assert "another" in Path("made/memory/words.json").read_text()


def test_what_fits_the_budget():
    options = LanguageOptions(minutes=10, segment_length=100, batch_segments=10, passes=2)
    plan = decide("k", options, step_seconds=1.0, spent=20, num_pieces=90_000, num_documents=7)
    assert plan.steps == int((600 * (1 - RESERVE) - 20 - 60) / 2) and plan.tokens == plan.steps * 1000
    assert plan.documents == 7  # the memory reads 90 steps' pieces in 60 seconds
    assert decide("k", options, 1.0, 20, 30_000, 7).steps == 60  # two passes over the text
    long = decide("k", options, 1.0, 20, 270_000, 10)
    assert long.documents == 5 and long.steps == int((600 * (1 - RESERVE) - 20 - 90) / 2)  # half of 180 seconds
    assert reserve(1) == RESERVE and reserve(3) == pytest.approx(2.5 * RESERVE) and reserve(10) == 0.75
    several = replace(options, seeds=3)
    assert decide("k", several, 1.0, 20, 90_000, 7).steps == int((600 * (1 - reserve(3)) - 80) / 2)
    with pytest.raises(ValueError, match=r"10 are the least; give --minutes 36\.2"):
        decide("k", options, 60.0, 279, 1000, 1)


def test_folders_and_files_that_do_not_fit(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = make_files(tmp_path, "arabic")
    Path("made").mkdir()
    Path("made/notes.txt").write_text("mine")
    for more in ([], ["--overwrite"]):
        assert main([*command, *more]) == 1
        assert "was not begun by boustro lab language" in capsys.readouterr().err
    assert main([word.replace("raw.txt", "absent.txt") for word in command]) == 1
    assert "absent.txt: no such file; give a file" in capsys.readouterr().err


def test_folders_of_other_inputs_are_gone_before_a_plan_calls_them_its_own(tmp_path):
    """--overwrite with another text, killed in its first step: the next run must not find the old shards complete."""
    from boustro.apps.studies.language.build import Build, LanguagePlan
    from boustro.apps.studies.language.command import LanguageOptions
    from boustro.lab.adapt.backward import keep_plan
    from boustro.output import DEFAULT_RUN
    from boustro.store import write_folder

    keep_plan(tmp_path, LanguagePlan("old"))
    left = [tmp_path / name for name in ("shards", "forward", "memory", "tagger")]
    left.append(tmp_path / "backward.checkpoints" / "checkpoint-3")
    for path in left:
        with write_folder(path, "checkpoint" if path.name == "checkpoint-3" else "model") as folder:
            (folder / "weights.safetensors").write_bytes(b"old")
    plan = Build([], {}, tmp_path, LanguageOptions(), DEFAULT_RUN, "new")._begin(overwrite=True)
    assert plan.key == "new" and not any(path.exists() for path in left)
