"""What is said to command lines that are no use, whole: `messages.txt` has each with its exit code and its output.

`BOUSTRO_WRITE=1 pytest tests/apps/test_messages.py` writes the file anew; read what has changed.
"""

import json
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from boustro.apps.cli.arguments import WRITTEN
from boustro.apps.cli.known import COMMANDS
from boustro.apps.cli.listed import bare_types, list_options, notes_of
from boustro.text.places import Place
from labelled import rows
from world import LABELLED, format_conll, run

FILE = Path(__file__).with_name("messages.txt")
CASES = [part.split("\n", 1) for part in FILE.read_text("utf-8").split("$ boustro ")[1:]]
TEXT = "My order has not arrived.\nThe app crashes when I log in.\nThank you, it works again!\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder as a user has it: data in several forms, a tagger (its manifest alone), an LM's folder."""
    folder = tmp_path_factory.mktemp("messages")
    (folder / "train.conll").write_text(format_conll(LABELLED), "utf-8")
    (folder / "dev.conll").write_text(format_conll(LABELLED), "utf-8")
    (folder / "texts.txt").write_text(TEXT, "utf-8")
    (folder / "topics.csv").write_text("text,label\nMy order is late.,orders\nIt crashes.,app\n", "utf-8")
    (folder / "broken.jsonl").write_text(rows({"text": "Ada left.", "label": "news"}) + "{not json\n", "utf-8")
    (folder / "letter.pdf").write_bytes(b"%PDF-1.7\n")
    (folder / "orders.csv").write_text("id,message\n1,My order is late.\n2,It crashes.\n", "utf-8")
    (folder / "twice.csv").write_text("text,text\na,b\n", "utf-8")
    (folder / "nolabel.csv").write_text("text,label\nMy order is late.,\n", "utf-8")
    (folder / "empty.jsonl").write_text("")
    (folder / "empty.conll").write_text("\n\n")
    (folder / "unlabelled.jsonl").write_text(rows({"text": "Ada left."}), "utf-8")
    (folder / "noentity.jsonl").write_text(rows({"text": "It rained.", "entities": []}), "utf-8")
    (folder / "damaged").mkdir()
    (folder / "damaged" / "manifest.json").write_text("{bad")
    (folder / "recipe.yaml").write_text("epochs: 5\n", "utf-8")
    for name, inside in (
        ("topics.xlsx", "xl/workbook.xml"),
        ("data.zip", "train.conll"),
        ("letter.docx", "word/document.xml"),
    ):
        with zipfile.ZipFile(folder / name, "w") as file:
            file.writestr(inside, "")
    for name in ("ner", "my-backward"):
        (folder / name).mkdir()
    (folder / "ner" / "manifest.json").write_text(json.dumps({"kind": "tagger", "files": {}, "made_by": {}}), "utf-8")
    return folder


def outputs(place, monkeypatch, command):
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    code, out, errors = run(shlex.split(command))
    return f"{out}{errors}[{code}]\n"


@pytest.mark.parametrize(("command", "said"), CASES, ids=[command for command, _ in CASES])
def test_a_command_line_that_is_no_use_is_answered_so(place, monkeypatch, command, said):
    assert outputs(place, monkeypatch, command) == said.rstrip("\n") + "\n"


def test_a_new_option_with_a_path_is_said_to_be_read_or_written():
    """What is written may be no path that is read (`WRITTEN`); those that are read, and have no `Place`, are listed."""
    paths = {
        option.name
        for command in COMMANDS.values()
        for option in list_options(command.function()).options
        if Path in bare_types(option.item) and not any(isinstance(note, Place) for note in notes_of(option.hint))
    }
    assert paths - {*WRITTEN} == {"states", "token-file", "data", "onnxruntime-web", "folder"}


@pytest.mark.skipif("BOUSTRO_WRITE" not in os.environ, reason="writes the file")
def test_write(place, monkeypatch):
    parts = [f"$ boustro {command}\n{outputs(place, monkeypatch, command)}" for command, _ in CASES]
    FILE.write_text("\n".join(parts), "utf-8")


OFFLINE = {**os.environ, "HF_HUB_OFFLINE": "1"}
BEFORE_LOADING = (
    "predict ner texts.txt --out dev.conll",
    "predict my-backward texts.txt",
    "lab geometry map texts.txt --word boat --out ner",
    "lab geometry map texts.txt --word boat --out boat.html",
    "lab geometry measure texts.txt --word boat",
    "lab geometry measure texts.txt --pooling middle",
    "lab score texts.txt --encoder starter --by task",
    "lab score texts.txt --pmi",
    "fit --train dev.conll --out ner",
    "evaluate ner broken.jsonl",
    "label texts.txt --labels PER --out ner",
    "label texts.txt --labels PER --task nothing --out answers.jsonl",
    "compare --encoders starter --train dev.conll --dev dev.conll --out texts.txt",
    "export ner --out texts.txt",
    "distill ner --student starter-forward --texts texts.txt --out ner",
    "lab generate texts.txt --encoder starter-forward --steps 99",
    "label empty.conll --labels PER --out answers.jsonl",
    "label broken.jsonl --labels PER --out answers.jsonl",
    "label texts.txt --labels PER --train unlabelled.jsonl --out answers.jsonl",
    "label texts.txt --labels PER --out broken.jsonl",
    "label texts.txt --encoder nothing/like-this --out answers.jsonl",
    "compare --encoders starter --train empty.jsonl --dev dev.conll --out new",
    "compare --encoders starter --train noentity.jsonl --dev dev.conll --out new",
    "compare --encoders starter --train unlabelled.jsonl --dev dev.conll --out new",
    "compare --encoders starter,nothing --train dev.conll --dev dev.conll --out new",
    "fewshot --encoders starter --train noentity.jsonl --dev dev.conll --out new",
    "lab language --text texts.txt --train noentity.jsonl --dev dev.conll --out new",
    "similarity empty.jsonl --query Ada",
    "embed broken.jsonl --out new.npy",
    "distill ner --student starter-forward --texts texts.txt --dev empty.jsonl --out new",
    "backward nothing/like-this --text texts.txt --out new",
)


def test_nothing_is_loaded_before_options_and_targets_were_looked_at(place):
    code = (
        "import json, sys\nfrom boustro.apps.cli.main import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    assert main(words) in (1, 2) and not {'torch', 'transformers'} & {*sys.modules}, words\n"
    )
    lines = json.dumps([line.split() for line in BEFORE_LOADING])
    done = subprocess.run(
        [sys.executable, "-c", code, lines], cwd=place, capture_output=True, text=True, check=False, env=OFFLINE
    )
    assert done.returncode == 0 and done.stderr.count("boustro: ") == len(BEFORE_LOADING), done.stderr


def test_nothing_is_loaded_before_the_paths_were_looked_at(tmp_path):
    """No command imports torch for files that are not there."""
    lines = [list(shlex.split(known.examples[-1])) for known in COMMANDS.values() if known.group]
    lines = [words for words in lines if words[0] not in ("demo", "cache", "doctor")]
    code = (
        "import json, sys\nfrom boustro.apps.cli.main import main\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    assert main(words) == 1, words\n"
        "    assert not {'torch', 'transformers'} & {*sys.modules}, words\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(lines)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).count("no such") == len(lines)
