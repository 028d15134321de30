"""The cache, costs and encoders, as the command line shows and makes them."""

import re
from pathlib import Path

import pytest

import boustro
from boustro import progress
from boustro.apps.cli.main import main
from boustro.encoders.spec import load_encoder
from boustro.tasks.tagger import Tagger
from conftest import SENTENCES
from labelled import RECORDS, rows
from served import TAGGED

WORDS = [text.split() for text in SENTENCES]


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("??/*"))


def test_what_a_killed_run_left_is_listed_and_cleared(tiny_lm, tmp_path, capsys):
    load_encoder(str(tiny_lm("llama")), cache=tmp_path).encode_all(WORDS)
    staging = entries(tmp_path)[0].with_name(".0123456789abcdef0123.0123abcd.staging")
    staging.mkdir()
    (staging / "features.bin").write_bytes(b"0" * 2**20)
    assert main(["cache", "list", "--folder", str(tmp_path)]) == 0
    assert "1.0 MB  left incomplete by a run that was killed" in capsys.readouterr().out
    assert main(["cache", "clear", "--folder", str(tmp_path)]) == 0
    assert "1 entry" in capsys.readouterr().out
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.fixture
def sentence_encoder(bert, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    pooling, base = library.sentence_transformer.modules.Pooling(32, pooling_mode=("mean",)), library.base.modules
    modules = [base.Transformer(str(bert)), pooling, base.Normalize()]
    library.SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(tmp_path / "vectors"))
    return str(tmp_path / "vectors")


def test_an_export_is_refused_in_a_sentence(sentence_encoder, tmp_path, capsys):
    boustro.Classifier(sentence_encoder, cache=False).fit(RECORDS["classify"]).save_pretrained(tmp_path / "topics")
    assert main(["export", str(tmp_path / "topics"), "--out", str(tmp_path / "out")]) != 0
    assert ": the vector of a text, of " in capsys.readouterr().err


def test_doctor_says_how_a_text_is_read(sentence_encoder, capsys):
    assert main(["doctor", "--encoder", sentence_encoder]) == 0
    said = capsys.readouterr().out
    assert "Transformer → Pooling (mean) → Normalize" in said and "[CLS] [SEP]" in said


@pytest.mark.parametrize("cache", [True, False])
def test_a_dry_run_tells_the_cost_and_writes_nothing(tiny_lm, file, tmp_path, monkeypatch, capsys, cache):
    monkeypatch.setenv("BOUSTRO_CACHE", str(tmp_path / "cache"))
    train, dev = file("train.txt", "Ada B-PER\nleft O\n\nIt O\nrained O\nagain O\n"), file("dev.txt", "Ada B-PER\n")
    options = ("--encoder", str(tiny_lm("llama")), "--epochs", "1", *(() if cache else ("--no-cache",)))
    command = ["fit", "--train", str(train), "--dev", str(dev), "--out", str(tmp_path / "out"), *options]

    def dry_run(*more: str) -> str:
        assert main([*command, "--dry-run", *more]) == 0
        return capsys.readouterr().out

    place = re.escape(f"MB to write to {tmp_path / 'cache'}" if cache else "MB in memory")
    assert re.search(rf": 6 words to read, 384 bytes each; 0\.0 {place}, about \d+ seconds", dry_run())
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob("cache/??"))
    assert main(command) == 0
    capsys.readouterr()
    if cache:
        monkeypatch.setattr("boustro.encoders.cache.words_per_second", lambda *_: pytest.fail("all is there"))
        assert "6 words to read" in dry_run("--overwrite")


@pytest.fixture
def at_once(monkeypatch):
    """A line with every update, in place of every half minute."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)


@pytest.fixture(scope="module")
def files(tiny_lm, tmp_path_factory):
    """A corpus, training data, a tagger and an LM."""
    place = tmp_path_factory.mktemp("progress")
    (place / "corpus.txt").write_text("Ada left Paris.\n\nIt rained in Rome.\n" * 20)
    (place / "train.jsonl").write_text(rows(*TAGGED))
    (place / "names.jsonl").write_text(rows({"text": "Ada", "label": "PER"}))
    Tagger(str(tiny_lm("llama")), cache=False, epochs=2).fit(TAGGED, seed=1).save_pretrained(place / "ner")
    return place


FIT = "fit --train {p}/train.jsonl --encoder {lm} --out {t}/new --epochs 2"
TOKENIZE = "lab tokenize {p}/corpus.txt --train-tokenizer 300 --out {t}/shards --workers 1"
COMPARE = "compare --train {p}/train.jsonl --dev {p}/train.jsonl --encoders {lm} --seeds 1 --epochs 1 --out {t}/study"
COMMANDS = {
    "predict": ("predict {p}/ner {p}/corpus.txt", "labelling: [0-9]+ of 60 rows"),
    "predict --out": ("predict {p}/ner {p}/corpus.txt --out {t}/out.jsonl", "labelling: [0-9]+ of 60 rows"),
    "predict --resume": ("predict {p}/ner {p}/corpus.txt --out {t}/out.jsonl --resume", "labelling: [0-9]+ of 60 rows"),
    "evaluate": ("evaluate {p}/ner {p}/train.jsonl --no-cache", r"{lm}: [\d,]+ of [\d,]+ words"),
    "fit, encoding": (FIT, r"{lm}: [\d,]+ of [\d,]+ words"),
    "fit, training": (FIT, r"training: \d+ of \d+ steps"),
    "predict, a folder": ("predict {p}/ner {p}/in --out {t}/answers", "answering: 1 of 1 file,"),
    "embed": ("embed {p}/corpus.txt --out {t}/v.npy --encoder {lm}", "embedding: 60 of 60 texts"),
    "tokenize": (TOKENIZE, "training the tokenizer: "),
    "tokenize, pieces": (TOKENIZE, "tokenizing: "),
    "memory": ("lab memory {p}/corpus.txt --encoder {lm} --out {t}/memory", r"reading: [\d,]+ of [\d,]+ words"),
    "weak": ("weak {p}/corpus.txt --gazetteer {p}/names.jsonl --out {t}/silver.jsonl", "labelling: [0-9]+ texts"),
    "score": ("lab score {p}/pairs.jsonl --encoder {lm}", "scoring: 2 of 2 texts"),
    "compare": (COMPARE, "computing: 1 of 1 cell,"),
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
