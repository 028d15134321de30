"""How far commands are: a line every half minute where standard error is no terminal, a bar where it is one."""

import io
import json
import re
import subprocess
import sys

import pytest

from boustro import progress
from boustro.apps.cli.main import main
from boustro.output import duration
from boustro.progress import Progress
from boustro.tasks.tagger import Tagger
from served import TAGGED


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook(io.StringIO):
    """What standard error is in a notebook."""

    __module__ = "ipykernel.iostream"


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def at_once(monkeypatch):
    """A line with every update, in place of every half minute."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)


def test_a_line_every_half_minute_has_what_is_done_how_fast_and_how_long_still(clock, capsys):
    with Progress("labelling", "rows", total=10_000) as bar:
        for second in range(0, 100, 10):
            clock[0] = float(second)
            bar.update(400)
    assert capsys.readouterr().err.splitlines() == [
        "labelling: 1,600 of 10,000 rows, 53 rows/s, about 2.6 minutes left",
        "labelling: 2,800 of 10,000 rows, 47 rows/s, about 2.6 minutes left",
        "labelling: 4,000 of 10,000 rows, 44 rows/s, about 2.2 minutes left",
    ]


def test_what_was_done_before_counts_for_the_total_and_not_for_the_speed(clock, capsys):
    bar = Progress("labelling", "rows", total=10_000, done=5_000)
    bar.skip(1_000)
    bar.update(10)
    clock[0] = 40.0
    bar.update(10, "loss 0.5")
    assert capsys.readouterr().err == "labelling: 6,020 of 10,000 rows, 0.5 rows/s, about 2.2 hours left, loss 0.5\n"
    bar = Progress("splitting", "documents")
    clock[0] = 80.0
    assert [*bar.over("ab")] == ["a", "b"]
    assert capsys.readouterr().err == "splitting: 1 documents, 0.025 documents/s\n"
    assert duration(5400) == "about 90 minutes"


def test_nothing_is_foretold_by_the_first_batch(clock, capsys, monkeypatch):
    bar = Progress("encoding", "words", total=120_000, done=8)
    bar.skip(4)
    clock[0] = 31.0
    bar.update(11)  # eleven words in half a minute: the model was loaded
    clock[0] = 62.0
    bar.update(60_000)
    first, second = capsys.readouterr().err.splitlines()
    assert "left" not in first and second.endswith("about 62 seconds left")
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("encoding", "words", total=120_000) as bar:
        shown = []
        for number in (11, 60_000):
            bar.update(number)
            shown.append(str(bar._bar))
    assert "<" not in shown[0] and "<" in shown[1]


def test_a_terminal_and_a_notebook_have_a_bar_and_no_lines_and_a_log_no_bar(at_once, monkeypatch):
    monkeypatch.setattr(progress, "BAR_SECONDS", 0.0)
    for shown in (None, False, True):
        for stream in (Terminal(), Notebook(), io.StringIO()):
            monkeypatch.setattr(sys, "stderr", stream)
            with Progress("labelling", "rows", total=2, shown=shown) as bar:
                bar.update()
            said = stream.getvalue()
            watched = type(stream) is not io.StringIO
            assert ("\r" in said) == (shown or (shown is None and watched)), (shown, stream)
            assert ("labelling: 1 of 2 rows" in said) == (shown is None and not watched)


def test_a_library_without_its_bars_for_notebooks_does_not_warn():
    """huggingface_hub imports those of tqdm, which want ipywidgets."""
    code = (
        "import sys; from types import SimpleNamespace as Own; here = Own(get_ipython=lambda: Own()); "
        "sys.modules.update({'IPython': here, 'ipykernel.zmqshell': here, 'ipywidgets': None}); "
        "import boustro, tqdm.auto"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.fixture(scope="module")
def files(tiny_lm, tmp_path_factory):
    """A corpus, training data, a tagger and an LM."""
    place = tmp_path_factory.mktemp("progress")
    (place / "corpus.txt").write_text("Ada left Paris.\n\nIt rained in Rome.\n" * 20)
    (place / "train.jsonl").write_text("".join(json.dumps(record) + "\n" for record in TAGGED))
    names = [{"text": "Ada", "label": "PER"}]
    (place / "names.jsonl").write_text("".join(json.dumps(record) + "\n" for record in names))
    Tagger(str(tiny_lm("llama")), cache=False, epochs=2).fit(TAGGED, seed=1).save_pretrained(place / "ner")
    return place


TOKENIZE = "lab tokenize {p}/corpus.txt --train-tokenizer 300 --out {t}/shards --workers 1"
FIT = "fit --train {p}/train.jsonl --encoder {lm} --out {t}/new --epochs 2"
COMMANDS = {
    "predict": ("predict {p}/ner {p}/corpus.txt", "labelling: [0-9]+ of 60 rows"),
    "predict --out": ("predict {p}/ner {p}/corpus.txt --out {t}/out.jsonl", "labelling: [0-9]+ of 60 rows"),
    "predict --resume": ("predict {p}/ner {p}/corpus.txt --out {t}/out.jsonl --resume", "labelling: [0-9]+ of 60 rows"),
    "evaluate": ("evaluate {p}/ner {p}/train.jsonl --no-cache", r"{lm}: [\d,]+ of [\d,]+ words"),
    "fit, encoding": (FIT, r"{lm}: [\d,]+ of [\d,]+ words"),
    "fit, training": (FIT, r"training: \d+ of \d+ steps"),
    "predict, a folder": ("predict {p}/ner {p}/in --out {t}/answers", "answering: 1 of 1 files"),
    "embed": ("embed {p}/corpus.txt --out {t}/v.npy --encoder {lm}", "embedding: 60 of 60 texts"),
    "tokenize": (
        "lab tokenize {p}/corpus.txt --train-tokenizer 300 --out {t}/shards --workers 1",
        "training the tokenizer: ",
    ),
    "tokenize, pieces": (
        "lab tokenize {p}/corpus.txt --train-tokenizer 300 --out {t}/shards --workers 1",
        "tokenizing: ",
    ),
    "memory": ("lab memory {p}/corpus.txt --encoder {lm} --out {t}/memory", r"reading: [\d,]+ of [\d,]+ words"),
    "weak": ("weak {p}/corpus.txt --gazetteer {p}/names.jsonl --out {t}/silver.jsonl", "labelling: [0-9]+ texts"),
    "score": ("lab score {p}/pairs.jsonl --model {lm}", "scoring: 2 of 2 texts"),
    "compare": (
        "compare --train {p}/train.jsonl --dev {p}/train.jsonl --encoders {lm} --seeds 1 --epochs 1 --out {t}/study",
        "computing: 1 of 1 cells",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_how_far_it_is(name, files, tiny_lm, tmp_path, capsys, at_once, monkeypatch):
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))
    (files / "in").mkdir(exist_ok=True)
    (files / "in" / "a.txt").write_text("Ada left.\n")
    (files / "pairs.jsonl").write_text('{"prompt": "Ada", "text": " left"}\n' * 2)
    words, said = COMMANDS[name]
    lm = str(tiny_lm("llama"))
    command = words.format(p=files, t=tmp_path, lm=lm).split()
    assert main(command) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    assert re.search(f"^{said.replace('{lm}', re.escape(lm))}", err, re.MULTILINE), err
    assert "steps/s" not in out and "/s," not in out
    if "--quiet" not in command and name in ("predict", "fit, training", "compare"):
        assert main([*command, "--quiet", *(["--overwrite"] if name.startswith("fit") else [])]) == 0
        assert capsys.readouterr().err == ""
