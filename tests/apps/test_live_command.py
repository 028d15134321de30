"""`boustro predict --live`: events as JSON lines, each as soon as it is known."""

import json
import os
import subprocess
import sys

import pytest

from boustro import Classifier, Tagger
from boustro.apps.cli.main import main
from boustro.apps.live.stream import Live
from served import plain
from world import run

TEXT = "Ada Brandt left Vellmar .\nIn Lisse it rained . “Ada” 👩‍👧 sold boats ."


@pytest.mark.parametrize("delay", [0, 2, 8])
def test_a_file_gives_what_live_gives(tagger_folder, file, delay):
    code, out, errors = run(["predict", str(tagger_folder), str(file("a.txt", TEXT)), "--live", "--delay", str(delay)])
    live = Live(Tagger.from_pretrained(tagger_folder), delay)
    expected = [event.to_dict() for event in (*live.feed(TEXT), *live.end())]
    assert (code, errors) == (0, "") and [*map(json.loads, out.splitlines())] == plain(expected)
    assert expected or not delay


@pytest.mark.slow
def test_events_come_while_the_text_does(tagger_folder):
    text = f"{TEXT} Nobody reads the bulletin . É"
    events = Live(Tagger.from_pretrained(tagger_folder), 2).feed(text)
    assert any(event.kind == "final" for event in events)  # else nothing would come, and the test would wait
    command = [sys.executable, "-m", "boustro", "predict", str(tagger_folder), "--live", "--delay", "2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ}) as process:
        assert process.stdin and process.stdout
        process.stdin.write(text.encode()[:-1])
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["label"]  # and the text has not ended
        process.stdin.write(text.encode()[-1:])
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--delay", "2"], "--delay is read with --live alone"),
        (["--live", "--format", "text"], "writes JSON lines"),
        (["--live", "--out", "a.jsonl"], "--out is not read with --live"),
        (["--state-layers", "1"], "read with --states alone"),
        (["--live", "--delay", "300"], "at most 256"),
        (["--live", "--delay", "few"], "delay"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(tagger_folder, file, arguments, message):
    code, out, errors = run(["predict", str(tagger_folder), str(file("a.txt", TEXT)), *arguments])
    assert code == 2 and not out and message in errors and "Traceback" not in errors


@pytest.mark.parametrize(
    ("content", "message"), [(b"Ada \xff left", "no UTF-8"), ("Ada é".encode()[:-1], "within a character")]
)
def test_bytes_that_are_no_text_are_an_error(tagger_folder, file, capsys, content, message):
    assert main(["predict", str(tagger_folder), str(file("a.txt", content)), "--live"]) == 1
    assert message in capsys.readouterr().err


def test_rows_are_no_text_that_arrives(tagger_folder, file, capsys):
    for name, content in {"rows.json": '[\n {"text": "Ada left."}\n]', "train.txt": "Ada B-PER\nleft O\n"}.items():
        assert main(["predict", str(tagger_folder), str(file(name, content)), "--live"]) == 2
        assert f"{name} holds rows of data" in capsys.readouterr().err


def test_a_model_of_another_task_cannot_stream(tiny_pair, tmp_path, file):
    model = Classifier(tiny_pair, epochs=1, cache=False).fit(["Ada left.", "It rained."], ["a", "b"], seed=1)
    model.save_pretrained(tmp_path / "topics")
    code, out, errors = run(["predict", str(tmp_path / "topics"), str(file("a.txt", TEXT)), "--live"])
    assert code == 2 and not out and "--live is for taggers, and this is a Classifier" in errors
