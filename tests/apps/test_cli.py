"""The command line as a user meets it: streams, exit codes, JSON, and errors that say what to do."""

import gzip
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from boustro.apps.cli.arguments import Line, check_places
from boustro.apps.cli.known import COMMANDS, LAB_GROUPS, called, usage
from boustro.apps.cli.main import main, set_environment
from boustro.apps.export.folder import write_export_card
from boustro.lab.adapt.backward import BackwardConfig
from boustro.lab.adapt.backward import _card as card_of_backward
from boustro.output import console
from boustro.tasks.data import read_data
from boustro.tasks.data.conll import format_conll, format_document
from boustro.tasks.data.schemes import gold_entities
from boustro.tasks.tagger import Tagger
from boustro.text.files import DataFile
from conftest import ROOT

DATA = [
    (["Ada", "said", "boats", "cost", "3", "million", "."], ["B-PER", "O", "O", "O", "O", "O", "O"]),
    (["Vellmar", "closes", "on", "Mondays", "."], ["B-LOC", "O", "O", "O", "O"]),
] * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_pair):
    """Labelled files, and a tagger trained on them through the command line."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "train.conll").write_text(format_conll(DATA), "utf-8")
    (folder / "dev.conll").write_text(format_conll(DATA[:2]), "utf-8")
    data = ["--train", folder / "train.conll", "--dev", folder / "dev.conll", "--out", folder / "ner"]
    small = "--epochs 40 --lr 0.01 --dropout 0 --hidden 32 --no-crf".split()
    assert ran("fit", "--encoder", tiny_pair, *data, *small) == 0
    return folder


def ran(*arguments):
    """The exit code of a command."""
    return main([str(a) for a in arguments])


def fails(capsys, *arguments):
    """The one sentence on standard error of a command that must exit with 1."""
    assert ran(*arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "Traceback" not in captured.err
    return captured.err.strip().splitlines()[-1]


def test_a_terminal_is_shown_texts_and_no_markup(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    for text in ("Array[/b] is [red]", ":warning: 1.5"):
        console(wrap=False).print(text)
    assert capsys.readouterr().out == "Array[/b] is [red]\n:warning: 1.5\n"


def test_every_command_prints_through_one_console():
    files = ROOT.joinpath("src").rglob("*.py")
    assert [file.name for file in files if "import Console" in file.read_text("utf-8")] == ["output.py"]


@pytest.mark.slow
def test_without_torch_it_is_said_how_to_get_it(folder):
    code = (
        "import sys; sys.modules['torch'] = None; import boustro; from boustro.apps.cli.main import main\n"
        "for call in (lambda: boustro.Tagger(), lambda: boustro.SentenceEncoder(), lambda: boustro.load('names')):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
        "sys.exit(main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    advice = "torch is not installed; `pip install boustro` brings it, and only exported folders run without it"
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{advice}\n" * 3, f"boustro: {advice}\n")


def test_all_help_is_printed_without_importing_what_is_slow():
    code = (
        "import sys; from boustro.apps.cli.main import main; [main([*name.split(), '--help']) for name in sys.argv[1:]]"
    )
    code += "; print(*sys.modules, file=sys.stderr)"
    names = ["", *map(called, COMMANDS)]
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=False)
    shown = done.stdout.removeprefix(f"{usage()}\n")
    assert re.findall(r"^usage: boustro ((?:lab )?\S+)", shown, re.MULTILINE) == names[1:] and shown != done.stdout
    assert not {"torch", "transformers"} & {*done.stderr.split()}
    for name, command in COMMANDS.items():
        assert (f"\n  {name} " in usage()) != (f"\n  {name} " in usage(lab=True)) == command.is_of_lab
    assert len(re.findall(r"^  \w", usage(), re.MULTILINE)) == 20
    assert re.findall(r"^([A-Z]\w+)\n  ", usage(lab=True), re.MULTILINE) == [*LAB_GROUPS]


def test_commands_of_the_lab_are_behind_one_word(capsys):
    told = []
    for words in (["lab", "score", "--help"], ["help", "lab", "score"], ["lab"], ["help", "lab"]):
        assert main(words) == (2 if words == ["lab"] else 0)
        told.append(capsys.readouterr())
    assert told[0].out == told[1].out and "usage: boustro lab score " in told[0].out
    assert told[2].out == told[3].out == usage(lab=True) + "\n"
    assert [shown.err for shown in told] == [""] * 4
    for words in (["score", "--help"], ["help", "score"], ["scor"], ["lab", "scor"]):
        assert main(words) == 2 and "did you mean 'lab score'?" in capsys.readouterr().err
    assert main(["lab", "fit"]) == 2 and "did you mean 'fit'?" in capsys.readouterr().err
    assert main([]) == 2


def test_help_prints_a_page_of_the_documentation(capsys):
    pages = {"training": "# Train\n", "export.md": "# Without PyTorch\n", "export": "  boustro export "}
    for page, shown in pages.items():
        assert main(["help", page]) == 0 and capsys.readouterr().out.startswith(shown)


def test_every_extra_is_told_of():
    page = (ROOT / "docs/install.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert [e for e in project["optional-dependencies"] if f"boustro[{e}]" not in page] == ["docs", "dev"]


MOST_FILES = 111
"""Of ours, which a command imports that needs a model of the package."""


@pytest.mark.parametrize(
    "words", ["predict names t.csv --out o.csv", "redact t.csv --out o.csv", "fit --train x.jsonl --out d --no-cache"]
)
def test_a_command_imports_little_besides_what_it_uses(words, tmp_path):
    (tmp_path / "t.csv").write_text("id,text\n1,Ask Peter Novak.\n2,We met in Oslo.\n", "utf-8")
    (tmp_path / "x.jsonl").write_text('{"text": "We met in Oslo.", "entities": [[10, 14, "PLACE"]]}\n', "utf-8")
    code = "import sys; from boustro.apps.cli.main import main; code = main(sys.argv[1:])"
    code += "; print(code, *(n for n, m in sys.modules.items() if n[:7] == 'boustro' and getattr(m, '__file__', 0)))"
    run = [sys.executable, "-c", code, *words.split()]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    code, *files = done.stdout.splitlines()[-1].split()
    assert code == "0" and len(files) <= MOST_FILES, done.stderr


def test_a_first_answer_imports_nothing_that_it_does_not_use(tmp_path):
    """Neither colours, nor processes, nor operators of exports; and the package's own files are not read for hashes."""
    (tmp_path / "line.txt").write_text("Ask Peter Novak.\n", "utf-8")
    code = "import sys, hashlib, boustro.store as store; from boustro.apps.cli.main import main\n"
    code += "store.hash_file = None; main(['predict', 'names', 'line.txt']); print(*sys.modules)\n"
    code += "import torch; print(hasattr(torch.ops.boustro, 'both_ways'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    answer, modules, has_operator = done.stdout.splitlines()
    assert answer == "Ask [Peter Novak PERSON]." and has_operator == "False"
    assert not {"rich", "numpy.random", "concurrent.futures.process", "transformers"} & {*modules.split()}


def test_a_command_ends_its_process_after_what_was_to_be_done_at_its_end(tmp_path):
    (tmp_path / "line.txt").write_text("Ask Peter Novak.\n", "utf-8")
    code = "import atexit, sys, threading, time; from boustro.__main__ import main; sys.argv[1:] = sys.argv[2:]\n"
    code += "atexit.register(print, 'at exit'); atexit.register(time.sleep, 0)\n"
    code += "threading.Thread(target=lambda: (time.sleep(3), print('thread'))).start(); main(); print('not reached')"
    words = [sys.executable, "-c", code, "-", "predict", "names", "line.txt"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == sorted(["Ask [Peter Novak PERSON].", "thread", "at exit"])


def test_a_signal_that_is_ignored_stays_so():
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); from boustro.__main__ import main"
    code += "; sys.argv[1:] = ['version']; main(); print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"


def test_the_hubs_progress_bars_and_warnings_are_shown_to_those_who_ask(monkeypatch):
    """In a terminal the variable of bars is not set at all: set to 0, it makes the hub's client warn at every run."""
    for is_terminal, bars, given, verbosity in ((True, None, {}, "error"), (False, "1", {VERBOSITY: "info"}, "info")):
        monkeypatch.setattr(sys.stderr, "isatty", lambda given=is_terminal: given)
        environment = dict(given)
        set_environment(environment)
        assert (environment.get("HF_HUB_DISABLE_PROGRESS_BARS"), environment[VERBOSITY]) == (bars, verbosity)


VERBOSITY = "TRANSFORMERS_VERBOSITY"
INTERRUPTED = """
import os, signal, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
sys.meta_path.insert(0, Finder)
moment = sys.argv.pop(1)
from boustro.__main__ import main
sys.exit(main())
"""


LONG = pytest.mark.long
LATER_MODULES = ("apps.cli.main", "store", "apps.label.answers")


@pytest.mark.parametrize(
    "moment",
    ["dataclasses", "numpy", *(pytest.param(f"boustro.{name}", marks=LONG) for name in LATER_MODULES)],
)
def test_ctrl_c_leaves_no_traceback_while_modules_are_imported(tmp_path, moment):
    """While those of a command are, and before that; what is imported may swallow an exception, or turn it into one."""
    (tmp_path / "a.txt").write_text("Ada left.\n")
    words = [sys.executable, "-c", INTERRUPTED, moment, "label", "a.txt", "--out", "b.jsonl", "--port", "0"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 130 and done.stdout == ""
    assert re.fullmatch(r"boustro: interrupted(: no result was written)?\n", done.stderr), done.stderr


def test_too_little_memory_is_no_bug_of_ours(monkeypatch, capsys):
    def doctor() -> None:
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr("boustro.apps.cli.doctor.doctor", doctor)
    assert "not enough memory (Unable to allocate 9 TiB)" in fails(capsys, "doctor")


def test_warnings_of_a_command_are_notes_each_said_once(monkeypatch, capsys):
    def doctor() -> None:
        for _ in range(2):
            warnings.warn("a.jsonl: 2 texts without a word", stacklevel=1)
            print("then", file=sys.stderr)

    monkeypatch.setattr("boustro.apps.cli.doctor.doctor", doctor)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().err == "note: a.jsonl: 2 texts without a word\nthen\nthen\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [(KeyError("x"), "KeyError: 'x'"), (AssertionError(), "AssertionError"), (RuntimeError("a\nb "), "b")],
)
def test_a_bug_of_ours_exits_with_101_says_its_last_line_and_saves_its_traceback(monkeypatch, capsys, error, said):
    def bug() -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "doctor", COMMANDS["doctor"]._replace(place="boustro.types:bug"))
    monkeypatch.setattr("boustro.types.bug", bug, raising=False)
    assert main(["doctor"]) == 101
    shown = capsys.readouterr().err
    assert f"an internal error ({said}); please report it" in shown and shown.count("\n") == 1
    log = Path(shown.split()[-1])
    assert type(error).__name__ in log.read_text()
    log.unlink()


def test_evaluate_writes_the_agreed_json(folder, capsys):
    given = "evaluate", folder / "ner", folder / "dev.conll", "--json"
    assert ran(*given, "-") == 0
    written = json.loads(capsys.readouterr().out)
    assert {"f1", "precision", "recall", "per_type", "num_sentences", "num_entities"} <= written.keys()
    assert written["f1"] == 100 and written["num_sentences"] == 2 and written["num_entities"] == 2
    assert set(written["per_type"]) == {"PER", "LOC"}
    assert ran(*given, folder / "s.json") == 0 and "100.00" in capsys.readouterr().out
    assert json.loads((folder / "s.json").read_text()) == written


def test_predict_in_every_format(folder, capsys):
    text = folder / "text.txt"
    text.write_text("Ada said boats cost 3 million .\n\nVellmar closes on Mondays .\n", "utf-8")

    def output(format):
        assert ran("predict", folder / "ner", text, "--format", format) == 0
        return capsys.readouterr().out

    assert output("text") == "[Ada PER] said boats cost 3 million .\n\n[Vellmar LOC] closes on Mondays .\n"
    rows = [json.loads(line) for line in output("jsonl").splitlines()]
    assert [len(r["entities"]) for r in rows] == [1, 0, 1]
    entity = rows[2]["entities"][0]
    assert (entity["label"], entity["start"], entity["end"], entity["text"]) == ("LOC", 0, 7, "Vellmar")
    assert 0 < entity["score"] <= 1
    assert output("conll").startswith("-DOCSTART-\tO\n\nAda\tB-PER\nsaid\tO\n")
    assert "<mark" in output("html")


def test_the_format_changes_nothing_of_what_is_answered(tiny_pair, monkeypatch, capsys, tmp_path):
    first, last = (
        "Ada said boats cost 3 million . Vellmar closes on Mondays .",
        "Vellmar said so . Ada closes on Mondays .",
    )
    (tmp_path / "text").write_text(f"{first}\n\n{last}")
    (tmp_path / "train").write_text("".join(format_document(DATA[i : i + 2]) for i in range(0, len(DATA), 2)))
    data = ["--train", tmp_path / "train", "--out", tmp_path / "ner", "--epochs", 5, "--cross-validate", 0]
    assert ran("fit", "--encoder", tiny_pair, *data) == 0
    asked, answer = [], Tagger._answer
    monkeypatch.setattr(Tagger, "_answer", lambda self, given, *kept: asked.append(given) or answer(self, given, *kept))
    printed = {}
    for form in ("text", "jsonl", "conll", "html"):
        assert ran("predict", tmp_path / "ner", tmp_path / "text", "--format", form) == 0
        printed[form] = capsys.readouterr().out
    assert asked[0] == asked[1] == asked[2] == asked[3]
    (tmp_path / "answered").write_text(printed["conll"])
    again = read_data(tmp_path / "answered")
    parts = [[s.words for s in group] for _, group in itertools.groupby(again, key=lambda s: s.document)]
    assert parts == [[s.words for s in group] for _, group in itertools.groupby(asked[0], key=lambda s: s.document)]
    assert len(parts) == 2 and len(parts[0]) == 2
    told = [[e["label"] for e in json.loads(row)["entities"]] for row in printed["jsonl"].splitlines()]
    assert told == [[e.label for s in part for e in gold_entities(s)] for part in (again[:2], [], again[2:])]
    assert ran("evaluate", tmp_path / "ner", tmp_path / "answered", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["f1"] == 100


def test_several_files_and_streams_are_read_one_after_the_other(folder, capsys, tmp_path):
    (tmp_path / "a").write_text("Ada said .\nVellmar closes .\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"Ada said boats .\rOld Mac ."))
    reader, writer = os.pipe()
    os.write(writer, b"In a stream .\n")
    os.close(writer)
    files = [str(tmp_path / "a"), str(tmp_path / "b.gz"), f"/dev/fd/{reader}"]
    assert main(["predict", str(folder / "ner"), *files, "--format", "jsonl"]) == 0
    os.close(reader)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    texts = ["Ada said .", "Vellmar closes .", "Ada said boats .", "Old Mac .", "In a stream ."]
    assert [row["text"] for row in rows] == texts
    assert [row["file"] for row in rows] == [files[i] for i in (0, 0, 1, 1, 2)]


def test_files_are_read_in_large_batches_and_a_pipe_as_its_lines_arrive(tmp_path):
    (tmp_path / "a.txt").write_text("one\n" * 600)
    assert [len(batch) for batch in DataFile(tmp_path / "a.txt").batches()] == [256, 256, 88]
    reader, writer = os.pipe()
    batches = DataFile(f"/dev/fd/{reader}").batches()
    for text in (["one"], ["two", "three"]):
        os.write(writer, "".join(f"{line}\n" for line in text).encode())
        assert [item.value for item in next(batches)] == text
    os.close(writer)
    assert list(batches) == []
    os.close(reader)


@pytest.mark.slow
def test_a_line_of_standard_input_is_answered_in_utf_8_before_the_next_one_is_written(folder):
    command = [sys.executable, "-m", "boustro", "predict", str(folder / "ner"), "--format", "jsonl"]
    how = {"env": {**os.environ, "PYTHONIOENCODING": "latin-1"}, "encoding": "utf-8"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how) as process:
        for line in ("Ada <b> said .", "Straße [/b] €"):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == line
        process.stdin.close()
        assert process.wait() == 0


def test_standard_error_holds_no_word_when_quiet(folder, capsys, tmp_path):
    (tmp_path / "long").write_text("Ada said " * 2000)
    (tmp_path / "dev").write_text("Ada\tB-PER\nleft\tO\nThe\tB-BOAT\nLisse\tB-BOAT\n")
    unknown = "2 gold labels that the head does not know, so they are never right: BOAT"
    notes = {"long": "overlapping windows", "dev": unknown}
    for command, data in (("predict", "long"), ("evaluate", "dev")):
        assert ran(command, folder / "ner", tmp_path / data) == 0
        loud = capsys.readouterr()
        assert "note: " in loud.err and notes[data] in loud.err
        assert ran(command, folder / "ner", tmp_path / data, "--quiet") == 0
        quiet = capsys.readouterr()
        assert quiet.err == "" and quiet.out == loud.out
    assert "no such file" in fails(capsys, "evaluate", folder / "ner", tmp_path / "x", "--quiet")


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_device_that_is_not_here_is_named(command, folder, capsys):
    said = fails(capsys, command, folder / "ner", folder / "dev.conll", "--device", "abacus")
    assert "device 'abacus' cannot be used here" in said and "the best one is" in said
    assert ran(command, folder / "ner", folder / "dev.conll", "--device", "cpu") == 0


def shell(line):
    """The last line on standard error, and the exit code, of a line that calls {boustro}."""
    line = line.replace("{boustro}", f"{sys.executable} -m boustro")
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    return done.stderr, done.returncode


FULL = ("boustro: standard output: No space left on device\n", 1)


OUTPUTS = [(command, how) for command in ("--help", "check {data}", "--version", "check --help") for how in ("", "1")]


@pytest.mark.parametrize(
    ("command", "unbuffered"),
    [*OUTPUTS[:4:2], OUTPUTS[3], *(pytest.param(*o, marks=LONG) for o in OUTPUTS[1:2] + OUTPUTS[4:])],
)
def test_output_that_cannot_be_written_is_said_in_a_sentence(folder, command, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    given, command = command, command.replace("{data}", str(folder / "dev.conll"))
    assert shell(f"{{boustro}} {command} >/dev/full") == FULL
    assert shell(f"{{boustro}} {command} | true") == ("", 141)
    said, code = shell(f"{{boustro}} {command} >&-")
    assert code == 0 and said.startswith("next: boustro fit" if "{data}" in given else "") and said.count("\n") <= 1


@pytest.mark.parametrize(("end", "said"), [("| head -1", ("", 141)), pytest.param(">/dev/full", FULL, marks=LONG)])
def test_a_full_disk_and_a_closed_pipe_end_the_answers_of_predict(folder, tmp_path, end, said):
    (tmp_path / "text").write_text("Ada said boats cost 3 million .\n" * 3000)  # more than a pipe holds
    assert shell(f"{{boustro}} predict {folder / 'ner'} {tmp_path / 'text'} {end}") == said


def test_a_closed_standard_input_is_named(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    said = fails(capsys, "predict", folder / "ner")
    assert said == "boustro: standard input is closed; name a file to read"


def test_an_existing_folder_that_is_not_ours_is_left_alone(folder, tiny_pair, capsys, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    data = ("--train", folder / "train.conll", "--epochs", "1", "--out", tmp_path)
    assert "choose another name" in fails(capsys, "fit", "--encoder", tiny_pair, *data)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


@pytest.mark.parametrize("forced", ["1", "0", "", "yes"])
def test_doctor_prints_markdown_with_the_dtype_that_is_forced(capsys, monkeypatch, forced):
    monkeypatch.setenv("BOUSTRO_BF16", forced)
    assert main(["doctor"]) == (forced == "yes")
    out, errors = capsys.readouterr()
    if forced == "yes":
        assert "neither 1 (compute in bf16) nor 0" in errors
        return
    assert out.startswith("| what | here |\n|---|---|\n| boustro |")
    said = {"1": "bf16 is used, as BOUSTRO_BF16=1 says", "0": "fp32 is used, as"}
    assert said[forced] in out if forced else "BOUSTRO_BF16" not in out


@pytest.mark.parametrize(
    ("first", "given", "spin"),
    [
        ("import boustro", {}, "5000"),
        ("import boustro", {"GOMP_SPINCOUNT": "7"}, "7"),
        ("import boustro", {"OMP_WAIT_POLICY": "active"}, None),
        ("import torch, boustro", {}, None),
    ],
)
def test_threads_do_not_wait_long_in_a_loop_unless_the_user_says_how(first, given, spin):
    """Unless torch is there already, which has read it."""
    environment = {name: os.environ[name] for name in {*os.environ} - {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}}
    look = f"{first}, os, sys; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", look], env=environment | given, capture_output=True, text=True)
    assert printed.stdout.split() == [str(spin), str("torch" in first)]


def test_booleans_are_spelt_one_way(capsys):
    """Every one is --x or --no-x, also one that is the preset's unless it is given; no boolean takes a word."""
    assert main(["fit", "--help-all"]) == 0
    told = capsys.readouterr().out
    assert "--crf, --no-crf" in told and "--cache, --no-cache" in told and "  --overwrite  " in told
    assert main(["fit", "--train", "a", "--out", "b", "--crf", "False"]) == 2
    assert "--crf takes no value" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_examples_that_the_command_takes_and_shows_what_is_used_first(name, capsys):
    """And no default or type is shown as Python has it."""
    command, words = COMMANDS[name], called(name).split()
    assert main([*words, "--help"]) == 0
    short = capsys.readouterr().out
    assert short.splitlines()[:3] == [*(f"  boustro {example}" for example in command.examples), ""]
    assert main([*words, "--help-all"]) == 0
    told = capsys.readouterr().out
    assert not re.search(r"default: (None|True|False|)\)|Range\(|True,False|\{None", told)
    options = set(re.findall(r"^  (--[a-z0-9-]+)", told, re.MULTILINE))
    used = {f"--{option.rstrip('_').replace('_', '-')}" for option in command.first.split()}
    assert used <= options and set(re.findall(r"^  (--[a-z0-9-]+)", short, re.MULTILINE)) >= used
    for example in command.examples:
        assert example.startswith(f"{called(name)} ") or example == name
        line = Line.read(command.function(), shlex.split(example)[len(words) :], name)
        assert line.table.call_with(line.values(name, example))


def test_help_and_version_are_words_too(capsys):
    told = []
    for words in (["help"], ["--help"], ["help", "fit"], ["fit", "--help"], ["version"], ["--version"]):
        assert main(words) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] and told[2] == told[3] and told[4] == told[5]
    assert main(["train", "--help"]) == 0
    assert capsys.readouterr().out == told[2]


def test_the_home_folder_is_filled_in_wherever_a_path_stands(tmp_path, monkeypatch, folder, capsys):
    """The home of nobody is the name of a file."""
    monkeypatch.setenv("HOME", str(folder))
    assert main(["check", "~/dev.conll", "--json=~/found.json"]) == 0
    assert (folder / "found.json").is_file() and capsys.readouterr()
    said = fails(capsys, "fit", "--train", "~nobody-here/a.conll", "--out", tmp_path / "ner")
    assert "~nobody-here/a.conll: no such file" in said


def test_a_tagger_whose_lm_has_moved_says_what_to_do(tiny_lm, tmp_path, folder, capsys):
    lm, ner, dev = shutil.copytree(tiny_lm("llama"), tmp_path / "lm"), tmp_path / "ner", folder / "dev.conll"
    given = ["--train", folder / "train.conll", "--out", ner, *"--epochs 1 --cross-validate 0".split()]
    assert ran("fit", "--encoder", lm, *given) == 0
    lm.rename(tmp_path / "moved")
    capsys.readouterr()
    said = fails(capsys, "evaluate", ner, dev)
    assert f"{ner}: its encoder was not found" in said and said.endswith("name it with --encoder")
    assert ran("evaluate", ner, dev, "--encoder", tmp_path / "moved") == 0


def test_the_sample_is_copied_and_files_of_others_are_kept(tmp_path, capsys):
    """Its messages can be labelled, and the same ones are there with entities and with topics."""
    sample = tmp_path / "sample"
    for _ in range(2):
        assert main(["demo", "--copy-sample", str(sample)]) == 0
    messages, *others = (
        (sample / name).read_text("utf-8").splitlines() for name in ("messages.txt", "messages.jsonl", "topics.jsonl")
    )
    for lines in others:
        assert [json.loads(line)["text"] for line in lines] == messages
    (sample / "messages.txt").write_text("mine\n")
    assert "messages.txt exists and is not the sample's" in fails(capsys, "demo", "--copy-sample", sample)
    assert (sample / "messages.txt").read_text() == "mine\n"


MADE = {"distill": "tagger", "predict": "tagger", "tokenize": "shards"}
MADE |= {"pretrain": "model", "memory": "memory", "fuse": "fusion", "adapt": "adapted", "elmo": "elmo"}
MADE |= {"backward": "back", "seq2seq": "biglm", "language": "", "scaling": ""}
"""What the world has of a command; what it has not is made."""
SAY = {"fewshot": "shots", "export": "made"}
"""The commands that say themselves what comes next; of one the world has what it writes."""
ELSEWHERE = {"check", "fit", "evaluate", "weak", "embed", "compare"}
"""Those whose next commands `test_every_printed_command_runs` runs."""
SEGMENTS = "--dry-run --no-compile --segment-length 16 --batch-segments 2 --preset tiny"


def test_commands_in_messages_and_cards_are_taken(world, exported, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, model = tmp_path / "my 'texts'", shutil.copytree(exported, tmp_path / "my model")
    given.mkdir()
    (given / "a.txt").write_text("The ferry to Vellmar left late.\nIt rained there again, and nobody came.\n")
    (given / "b.jsonl").write_text('{"text": "Ada left."}\n')
    write_export_card(model, model.name)
    trained = BackwardConfig(model=world["lm"], text=("corpus.txt",), out=shutil.copytree(world["back"], "a backward"))
    result = {"validation_perplexity": 9.0, "pieces_seen": 9, "num_parameters": 9}
    said = [(model / "README.md").read_text(), card_of_backward(trained, result)]
    failing = (["check", str(given / "a.txt")], ["check", str(given / "b.jsonl")], ["predict", model.name, str(given)])
    for words in (*failing, ["demo", "--copy-sample", "my sample"]):
        main(words)
        said.append("".join(capsys.readouterr()))
    (tmp_path / "texts.txt").write_text("Ada left.\n")
    commands = [command for text in said for command in re.findall(r"boustro ((?:predict|label|fit) .+)$", text, re.M)]
    assert len(commands) >= len(said)
    for name in ("train.conll", "dev.conll"):
        shutil.copy(world["train.conll"], name)
    for name, *words in map(shlex.split, commands):
        line = Line.read(COMMANDS[name].function(), words, "")
        check_places(line, line.values("", ""), "")
        assert name != "predict" or main([name, *words]) == 0


@pytest.mark.parametrize("name", sorted({*(name for name, known in COMMANDS.items() if known.next), *SAY} - ELSEWHERE))
def test_what_a_command_names_as_the_next_one_is_taken(name, world, tmp_path, capsys):
    given = {"out": world[MADE.get(name, "")], "folder": world["tagger"], "lm": world["lm"], "shards": world["shards"]}
    said = COMMANDS[name].next.format(corpus=[""], data=[world["train.conll"]], **given)
    if name not in MADE:
        out = tmp_path / SAY.get(name, "made")
        if Path(world[out.name]).is_dir():
            shutil.copytree(world[out.name], out)
        assert main(world.command(name, str(out))) == 0
        said = capsys.readouterr().err.rpartition("next: boustro ")[2]
    meant = {"DATA": "train.conll", "GOLD": "train.conll", "FILE": "corpus.txt", "PROMPTS": "prompts.jsonl"}
    words = [world[meant[word]] if word in meant else {"TEXT": "Ada"}.get(word, word) for word in shlex.split(said)]
    more = {"fit": "--epochs 1 --head linear", "generate": "--length 2", "pretrain": SEGMENTS}
    words = [str(tmp_path / word) if word in ("MODEL", "LM") else word.replace("SIZE", "tiny") for word in words]
    others = more.get(words[words[0] == "lab"], "")
    for option in re.findall(r"--\S+ [^-]\S*", others):  # in place of what is said
        if (name := option.split()[0]) in words:
            del words[words.index(name) : words.index(name) + 2]
    words += others.split()
    if words[0] == "serve":
        assert Line.read(COMMANDS["serve"].function(), words[1:], "").values("", "")
    else:
        assert main(words) == 0


def test_a_command_that_waits_for_standard_input_says_so():
    code = "import sys; from boustro.apps.cli.main import main; sys.exit(main(['redact', '--model', 'names']))"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, stderr=-1, text=True) as waiting:
        assert waiting.stderr.readline() == "reading standard input\n"
        out, _ = waiting.communicate("Ask Peter Novak.\n")
    assert out == "Ask [PERSON_1].\n" and waiting.returncode == 0
