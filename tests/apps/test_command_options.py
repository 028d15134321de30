"""Options on the command line: refused by name before anything is loaded, and printed commands that run."""

import re
import shlex
from pathlib import Path

import pytest

from boustro.apps.cli.arguments import Line
from boustro.apps.cli.known import COMMANDS
from boustro.apps.cli.main import main, next_command
from boustro.choose import nearest
from boustro.tasks.data.conll import format_conll

DATA = [(["Ada", "left", "Vellmar", "."], ["B-PER", "O", "B-LOC", "O"])] * 4
FIT = ["fit", "--encoder", "no/such-model", "--train", "{data}", "--out", "{out}"]
COMPARE = ["compare", "--encoders", "starter-forward", "--train", "{data}", "--dev", "{data}", "--out", "{out}"]
FEWSHOT = ["fewshot", *COMPARE[1:]]
PRETRAIN = ["lab", "pretrain", "--shards", "no/such-shards", "--out", "{out}"]
FUSE = ["lab", "fuse", "--forward", "a", "--backward", "b", "--shards", "no/such-shards", "--out", "{out}"]
ELMO = ["lab", "elmo", "{data}", "--out", "{out}"]
ADAPT = ["lab", "adapt", "--lm", "no/such-model", "--out", "{out}", "--shards", "no/such-shards"]
LABELS = ["lab", "adapt", "--lm", "no/such-model", "--out", "{out}", "--train", "{data}"]
TOKENIZE = ["lab", "tokenize", "{data}", "--out", "{out}"]


@pytest.mark.parametrize(
    ("command", "option", "values"),
    [
        (FIT, "--epochs", "-1 0"), (FIT, "--batch-sentences", "-1 0"),
        (FIT, "--hidden", "0 -1 99999999999"), (FIT, "--dropout", "2 nan -0.1"), (FIT, "--lr", "inf nan 0 -1"),
        (FIT, "--seed", "-1 99999999999999999999"), (FIT, "--max-span", "0"),
        (COMPARE, "--seeds", "0 -1 99999999"), (COMPARE, "--train-sentences", "-1 0"), (COMPARE, "--epochs", "0"),
        (COMPARE, "--vary", "epochs=0,1 hidden=-1 combine=sum lr=nan"),
        (FEWSHOT, "--shots", "-1 0"), (FEWSHOT, "--seeds", "0 -1"), (FEWSHOT, "--budget", "0"),
        (FEWSHOT, "--lr", "nan"),
        (PRETRAIN, "--tokens", "-5"), (PRETRAIN, "--warmup", "2 nan -1"), (PRETRAIN, "--decay", "-0.5 2"),
        (PRETRAIN, "--segment-length", "0 -1 1 99999999999"), (PRETRAIN, "--batch-segments", "0"),
        (PRETRAIN, "--micro-batch-segments", "0"), (PRETRAIN, "--lr", "inf"), (PRETRAIN, "--mask-rate", "0 2 nan"),
        (PRETRAIN, "--seed", "-1 4294967296"), (PRETRAIN, "--evaluations", "-1"),
        (PRETRAIN, "--save-minutes", "nan"), (PRETRAIN, "--validation-pieces", "0"), (PRETRAIN, "--alpha", "nan -1"),
        (FUSE, "--width", "0"), (FUSE, "--lr", "nan"), (FUSE, "--segment-length", "0"),
        (FUSE, "--tokens", "-5"),
        (ELMO, "--width", "0"), (ELMO, "--cells", "-1"), (ELMO, "--words", "-1"), (ELMO, "--batch-words", "0"),
        (ELMO, "--letter-window", "0 8"),
        (ELMO, "--max-documents", "0 -1"),
        (ADAPT, "--rank", "0 99999999"), (ADAPT, "--dropout", "1"),
        (ADAPT, "--tokens", "-1"),
        (ADAPT, "--mask-rate", "0"), (LABELS, "--epochs", "-1"), (LABELS, "--batch-pieces", "0"),
        (TOKENIZE, "--workers", "0 -1 99999999"), (TOKENIZE, "--train-tokenizer", "0 256 99999999999"),
        (TOKENIZE, "--near-duplicates", "0 2 nan"),
        (["demo", "--out", "{out}"], "--seeds", "0 -1"),
    ],
)  # fmt: skip
def test_the_command_line_names_the_option_before_anything_is_loaded(command, option, values, tmp_path, capsys):
    (tmp_path / "data.conll").write_text(format_conll(DATA), "utf-8")
    places = {"data": tmp_path / "data.conll", "out": tmp_path / "out"}
    for value in values.split():
        arguments = [*(word.format(**places) for word in command), f"{option}={value}"]
        assert main(arguments) == 2
        said = " ".join(capsys.readouterr().err.replace("│", "").split())
        varied = value.partition("=")[0] if option == "--vary" else None
        assert f" {option} must be " in said or f"--vary {varied}: " in said or f" {varied} must be " in said, said
        assert "Traceback" not in said and not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [name for name, known in COMMANDS.items() if known.next])
def test_next_commands_are_of_their_command_and_quoted(name):
    """What a command says next, with the names of its own line, is read by the command that it names."""
    line = Line.read(COMMANDS[name].function(), [], name)
    values = {word: Path(f"it's {word} 1") for word in ("out", "folder", "lm")}
    values |= {word: (Path(f"it's {word} 1"), Path("second")) for word in ("data", "corpus", "shards")}
    words = shlex.split(next_command(COMMANDS[name].next, values))
    words = words[words[1] == "lab" :]
    assert words[0] in ("boustro", "lab") and words[1] in COMMANDS
    given = re.findall(r"{(\w+)", COMMANDS[name].next)
    assert given and all(any(f"it's {word} 1" in other for other in words) for word in given)
    assert not any("Path(" in word for word in words)
    assert line is not None and Line.read(COMMANDS[words[1]].function(), words[2:], words[1])


def test_every_printed_command_runs(tmp_path, monkeypatch, capsys):
    """From a folder whose name and files have spaces and quotes; each command is run as it stands."""
    home = tmp_path / "Ada's own data"
    home.mkdir()
    monkeypatch.chdir(home)
    texts = [(f"the ferry to Vellmar is late again {n}", "ferry") for n in range(6)]
    texts += [(f"my invoice number {n} is wrong", "money") for n in range(6)]
    rows = "".join(f"{n};{text};{label}\n" for n, (text, label) in enumerate(texts))
    (home / "the data.csv").write_text(f"Nr;The Text;The Topic\n{rows}")
    tags = "Ada B-PER\nleft O\nVellmar B-PLACE\n\nBo B-PER\nslept O\nthere O\n\n"
    (home / "two words.conll").write_text(tags * 3)
    (home / "it's text.txt").write_text("Ada left Vellmar in the evening.\nBo slept.\nNobody knew where she was.\n")
    (home / "the names.tsv").write_text("Ada\tPER\n")
    small = ["--encoder", "starter-words", "--no-cache"]
    topics = [*small, "--head", "ridge-pool", "--cross-validate", "0"]
    names = [*small, "--head", "ridge", "--cross-validate", "0"]
    columns = ["--text-column", "The Text", "--label-column", "The Topic"]
    filled = {"FILE": "it's text.txt", "TEXT": "ferry", "GOLD": "two words.conll"}
    commands = [
        (["check", "the data.csv", *columns], [*topics, "--overwrite"]),
        (["check", "two words.conll"], [*names, "--overwrite"]),
        (["fit", "--train", "two words.conll", *names, "--out", "a tagger's"], []),
        (["evaluate", "a tagger's", "two words.conll"], []),
        (["predict", "a tagger's", "it's text.txt", "--out", "the answers.csv"], None),
        (
            ["weak", "it's text.txt", "--gazetteer", "the names.tsv", "--out", "silver ones.jsonl"],
            [*small, *("--head", "mlp", "--epochs", "1", "--weak-weight", "0.1")],
        ),
        (["embed", "the data.csv", "--text-column", "The Text", "--out", "the vectors.npy"], []),
        (["check", "it's text.txt"], None),
        (["predict", "a tagger's", "."], None),
        (
            [
                *("compare", "--encoders", "starter-words", "--heads", "ridge-pool", "--train", "the data.csv"),
                *(*columns, "--dev", "the data.csv", "--seeds", "1", "--out", "the comparison"),
            ],
            ["--no-cache", "--overwrite"],
        ),
    ]
    for number, (words, then) in enumerate(commands):
        filled["MODEL"] = f"my model's folder {number}"
        main(words)
        shown = capsys.readouterr()
        found = re.findall(r"(?:next|first|of them): (boustro .*)", shown.out + shown.err)
        assert found, (words, shown)
        for said in found:
            parts = [filled.get(word, word) for word in shlex.split(said)]
            values = Line.read(COMMANDS[parts[1]].function(), parts[2:], parts[1])
            assert values, said
            if then is not None:
                assert main([*parts[1:], *then]) == 0, (said, capsys.readouterr().err)
                capsys.readouterr()


@pytest.mark.parametrize("name", COMMANDS)
def test_two_letters_that_are_swapped_are_read_as_the_option_in_every_command(name):
    named = Line.read(COMMANDS[name].function(), [], name).table.named
    for option in named:
        for at in range(len(option) - 1):
            typed = option[:at] + option[at + 1] + option[at] + option[at + 2 :]
            assert typed in named or nearest(typed, named) == option


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fit --rl 1", "no option --rl; did you mean --lr?"),
        ("fit --cross 5", "no option --cross; did you mean --cross-validate?"),
        ("redact a.txt --same", "no option --same; did you mean --same-everywhere?"),
        ("redact a.txt --column text", "no option --column; did you mean --text-column?"),
        ("redact a.txt -overwrite", "no option -overwrite; options begin with two dashes, such as --overwrite;"),
        ("redact a.txt -output b.txt", "no option -output; options begin with two dashes, such as --out;"),
        ("redact a.txt --zzz", "no option --zzz; `boustro redact --help`"),
    ],
)
def test_an_option_is_suggested_for_its_beginning_and_for_a_part_of_it(words, said, capsys):
    assert main(words.split()) == 2 and said in capsys.readouterr().err
