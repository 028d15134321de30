"""Batches without end: rows of every form, files that grow and are resumed, the callable on columns, and shards."""

import gzip
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from boustro.apps.batch.growing import grow
from boustro.apps.batch.job import in_batches
from boustro.apps.cli.main import main
from boustro.tasks.rows import read_rows
from boustro.tasks.tagger import Tagger
from boustro.text.columnar import Types, write_columns
from boustro.text.columns import ColumnReader
from boustro.text.files import IN_COLUMNS, DataFile
from children import CONTEXT, finish, start
from served import TAGGED, plain, same

pa = pytest.importorskip("pyarrow")

TEXTS = [" ".join(TAGGED[n % 4]["words"][: 1 + n % 5]) + f" {n}" for n in range(300)]
RAY_ROWS = int(os.environ.get("BOUSTRO_TEST_RAY_ROWS", "60"))  # a shard; 500 takes minutes
BATCH = 85  # rows: `TEXTS` are several batches


@pytest.fixture(autouse=True)
def several_batches(monkeypatch):
    monkeypatch.setattr("boustro.apps.batch.predict.ROWS", BATCH)


@pytest.fixture(scope="module")
def folder(tiny_lm, tmp_path_factory):
    path = tmp_path_factory.mktemp("batches") / "ner"
    Tagger(str(tiny_lm("llama")), cache=False, epochs=8, lr=0.01).fit(TAGGED, seed=1).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def tagger(folder):
    return Tagger.from_pretrained(folder, cache=False)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def ran(*arguments: object) -> int:
    return main([*map(str, arguments)])


def run(*arguments: object) -> None:
    assert ran(*arguments, "--quiet") == 0, arguments


def expect(tagger: Tagger, texts: list[str]) -> list[dict]:
    found = [plain([e.to_dict() for e in own]) for own in tagger.predict(texts)]
    return [{"text": t, "entities": own} for t, own in zip(texts, found, strict=True)]


def write_records(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts)), "utf-8")
    return path


def values(path):
    """The rows of a parquet or Arrow file."""
    return [dict(value) for _, value in DataFile(path).open("columns")]


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.txt", "text"), ("a.jsonl", "json"), ("a.b.CONLL", "conll"), ("x.conllu", "conllu"), ("a.TSV", "separated")],
)
def test_forms_are_those_of_the_endings(name, form, file):
    assert DataFile(file(name, "Ada left. It rained.\n")).form() == form


COLUMNS = {
    "conll": [
        "Ada B-PER\nleft O\n\nLisse B-LOC\n",
        "Ada\tPER\nleft\tO\n",
        "-DOCSTART- -X- O\n\nIt PRP O\nhails V O\n",
    ],
    "conllu": ["# text = Ada\n1\tAda\tAda\tPROPN\t_\t_\t0\troot\t_\t_\n"],
    None: ["blood type O\n", "Ada left\nIt rained\n", "Ada\tleft O\nIt\tis\n", "", '{"text": "a O"}\n', "a,b\nA,O\n"],
}
"""Files of any name by what they are."""


@pytest.mark.parametrize("name", ["a.txt", "train", "a.tsv", "a.txt.gz"])
def test_columns_of_words_are_known_as_such_under_any_name(name, file):
    """A table whose first line is no head of a text is not asked for columns."""
    for form, contents in COLUMNS.items():
        for content in contents:
            packed = gzip.compress(content.encode()) if name.endswith(".gz") else content.encode()
            assert (DataFile(file(name, packed)).form(words=True) in IN_COLUMNS) == (form is not None)


def test_sentences_of_columns_with_their_documents(file):
    conll = "-DOCSTART- -X- O\n\n# a comment\nAda NNP B-PER\nleft VBD O\n\nIt O O\n\n-DOCSTART- -X- O\n\n# O O\nEnd O O"
    rows = list(read_rows([str(file("a.conll", conll))]))
    assert [row.value.words for row in rows] == [("Ada", "left"), ("It",), ("#", "End")]
    assert [row.opens for row in rows] == [True, False, True]
    documents = [row.value.document for row in rows]
    assert documents[0] == documents[1] != documents[2]
    ud = "# newdoc\n# global.columns = ID XPOS FORM\n1-2\t_\tdon't\n1\t_\tdo\n2\t_\tn't\n2.1\t_\tx\n\nx\t_\tgo\n"
    whole, cut = read_rows([str(file("a.conllu", ud))])
    assert whole.value.words == ("do", "n't") and whole.value.spaces == (True, False) and whole.opens
    assert "a.conllu:8: expected 3 columns separated by tabs, first a word's number, got 'x" in cut.problem
    broken = list(read_rows([str(file("b.conll", b"Ada O\n\n\xff O\nx O\n\nIt O\n"))]))
    assert [bool(row.problem) for row in broken] == [False, True, False] and ":3: byte 0xff" in broken[1].problem


def test_columns_that_arrive_are_answered_when_a_sentence_is_whole():
    """Also the first one, which says what the columns are; a single number does not."""
    lines = [(1, "1\tAda\tO", ""), (2, "", ""), None, (3, "1\tIt\tO", ""), (4, "2\thails\tO", ""), (5, "", ""), None]
    read = [found and found.words for found in ColumnReader("a").read(lines)]
    assert read == [None, ["Ada"], ["It", "hails"], None]
    lines = [(1, "Ada\tO", ""), (2, "", ""), None, (3, "It\tO", "")]
    assert [found and found.words for found in ColumnReader("a").read(lines)] == [["Ada"], None, ["It"]]


def test_batches_end_where_documents_do(file):
    conll = "".join(f"-DOCSTART- O\n\n{'word O' + chr(10) * 2}" * 1 + "word O\n\n" * n for n in range(6))
    batches = list(in_batches(read_rows([str(file("a.conll", conll))]), 4))
    assert sum(map(len, batches)) == 21 and all(batch[0].opens for batch in batches)


def test_json_lines_conll_and_tables_come_out_as_they_went_in(folder, tagger, tmp_path):
    source = write_records(tmp_path / "in.jsonl", TEXTS)
    expected = [{"id": n, **record} for n, record in enumerate(expect(tagger, TEXTS))]
    assert any(record["entities"] for record in expected)
    (tmp_path / "in.json").write_text(json.dumps(lines(source), indent=2))
    for given in (source, tmp_path / "in.json"):
        run("predict", folder, given, "--out", tmp_path / f"{given.name}.jsonl")
        assert same(lines(tmp_path / f"{given.name}.jsonl"), expected)
    for name in ("a.parquet", "a.arrow"):
        run("predict", folder, source, "--out", tmp_path / name)
        assert same(values(tmp_path / name), expected)
        run("predict", folder, tmp_path / name, "--out", tmp_path / f"{name}.jsonl")
        twice = [record | {"answer_entities": record["entities"]} for record in expected]
        assert same(lines(tmp_path / f"{name}.jsonl"), twice)
    words = [record["words"] for record in TAGGED[:4]]
    (tmp_path / "in.conll").write_text("\n\n".join("\n".join(sentence) for sentence in words) + "\n")
    run("predict", folder, tmp_path / "in.conll", "--out", tmp_path / "out.conll")
    found = [block.split("\n") for block in (tmp_path / "out.conll").read_text().strip().split("\n\n")]
    tags = [[*zip(sentence, own, strict=True)] for sentence, own in zip(words, tagger.tag(words), strict=True)]
    assert [[tuple(line.split("\t")) for line in block] for block in found] == tags


def test_a_table_has_the_columns_of_all_rows(tmp_path):
    records = [{"a": [], "b": None}] * 1500 + [{"a": [{"x": 1, "y": "z"}], "b": 0.5, "c": "late", "d": 2**70}]
    types = Types()
    for some in (records[:1000], records[1000:]):
        types.see(some, "x.jsonl")
    for form in ("parquet", "arrow"):
        write_columns(types.schema, [types.table(records)], tmp_path / "t", form)
        found = values(tmp_path / "t")
        assert found[0] == {"a": [], "b": None, "c": None, "d": None} and found[-1] == records[-1]
    with pytest.raises(ValueError, match=r"x\.jsonl: the values under 'a' do not fit into one table"):
        types.see([{"a": {"b": 1}}], "x.jsonl")
    (tmp_path / "t").write_text("text")
    with pytest.raises(ValueError, match="the file is damaged"):
        values(tmp_path / "t")


def test_rows_that_cannot_be_read_are_written_down_and_the_rest_goes_on(folder, tagger, tmp_path, capsys):
    source = tmp_path / "in.jsonl"
    faults = b'nonsense\n{"id": 3}\n"\\ud800"\n\xff\n\n{"text": 7}\n'
    source.write_bytes(b'{"text": "Ada left"}\n' + faults + b'{"text": "It rained"}\n')
    out = ["--out", tmp_path / "out.jsonl", "--errors", tmp_path / "bad.jsonl"]
    assert ran("predict", folder, source, *out) == 0
    assert "note: 5 rows without an answer" in capsys.readouterr().err
    assert same(lines(tmp_path / "out.jsonl"), expect(tagger, ["Ada left", "It rained"]))
    assert [problem["place"] for problem in lines(tmp_path / "bad.jsonl")] == [f"{source}:{n}" for n in (2, 3, 4, 5, 7)]


def test_an_input_at_which_the_model_fails_is_a_row_without_an_answer(folder, tmp_path, monkeypatch):
    original = Tagger.answer_checked

    def fails(self, inputs):
        if any("poison" in text for text in inputs):
            raise RuntimeError("too odd")
        return original(self, inputs)

    monkeypatch.setattr(Tagger, "answer_checked", fails)
    source = write_records(tmp_path / "in.jsonl", ["Ada left", "poison", "It rained"])
    run("predict", folder, source, "--out", tmp_path / "out.jsonl", "--errors", tmp_path / "bad.jsonl")
    assert [record["id"] for record in lines(tmp_path / "out.jsonl")] == [0, 2]
    assert lines(tmp_path / "bad.jsonl") == [{"place": f"{source}:2", "error": "too odd"}]


def test_several_processes_keep_the_order(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("boustro.apps.batch.job.get_context", lambda kind: CONTEXT)  # no new interpreters
    source = write_records(tmp_path / "in.jsonl", TEXTS)
    run("predict", folder, source, "--out", tmp_path / "one.jsonl")
    run("predict", folder, source, "--out", tmp_path / "two.jsonl", "--workers", "2")
    found = lines(tmp_path / "one.jsonl")
    assert same(lines(tmp_path / "two.jsonl"), found) and len(found) == 300


def killed_in_batch(number: int, fast: bool = True) -> None:
    """kill -9 in the middle of the batch of this number, with the state saved after every batch."""
    from boustro.apps.batch import growing, predict

    growing.SAVE_SECONDS, predict.ROWS = 0.0, BATCH
    original, calls = Tagger.answer_checked, []

    def fatal(self, inputs):
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, inputs)

    Tagger.answer_checked = fatal


@pytest.mark.parametrize("ending", [pytest.param("jsonl", marks=pytest.mark.long), "parquet"])
def test_a_killed_run_goes_on_where_it_was(folder, tmp_path, ending):
    source = write_records(tmp_path / "in.jsonl", TEXTS)
    with source.open("a") as file:
        file.write("nonsense\n" + json.dumps({"id": 300, "text": "Ada left"}) + "\n")
    whole, out = tmp_path / f"whole.{ending}", tmp_path / f"out.{ending}"
    run("predict", folder, source, "--out", whole, "--errors", tmp_path / "whole.bad")
    command = [*map(str, ("predict", folder, source, "--out", out, "--errors", tmp_path / "bad")), "--quiet"]
    assert finish(start(killed_in_batch, command, tmp_path / "errors", 3)) == -signal.SIGKILL
    state = json.loads((tmp_path / f"out.{ending}.progress").read_text())
    assert state["rows"] == 2 * BATCH and not out.exists()
    part = tmp_path / f"out.{ending}.part"
    with part.open("a") as file:
        file.write('{"id": 170, "te')  # what a kill leaves of a line
    code = finish(start(killed_in_batch, [*command, "--resume"], tmp_path / "errors", 3))
    assert code == 0, (tmp_path / "errors").read_text()
    assert out.read_bytes() == whole.read_bytes()
    assert (tmp_path / "bad").read_bytes() == (tmp_path / "whole.bad").read_bytes()
    assert not part.exists() and not (tmp_path / f"out.{ending}.progress").exists()


def test_another_run_is_not_resumed_and_nothing_is_replaced(folder, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    source = write_records(tmp_path / "in.jsonl", TEXTS[:3])
    with pytest.raises(KeyboardInterrupt), grow(out, "other") as growing:
        growing.add(1, ["x\n"], [])
        growing.save()
        raise KeyboardInterrupt
    arguments = ["predict", str(folder), str(source), "--out", str(out)]
    assert main([*arguments, "--resume"]) == 1 and "begun with another model" in capsys.readouterr().err
    assert main(arguments) == 1 and "1 row is done: --resume goes on" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0  # anew
    assert main(arguments) == 1 and "--overwrite" in capsys.readouterr().err
    before = out.read_bytes()
    assert main([*arguments, "--overwrite"]) == 0 and out.read_bytes() == before
    with grow(tmp_path / "held", "x"), ThreadPoolExecutor(1) as elsewhere:  # a thread may take its own lock again
        assert elsewhere.submit(main, [*arguments[:-1], str(tmp_path / "held"), "--format", "jsonl"]).result() == 1
    assert "another run is writing here" in capsys.readouterr().err
    for place in ("/dev/null", str(tmp_path)):  # a device would become a file
        assert main([*arguments[:-1], place, "--overwrite", "--format", "jsonl"]) == 1
    assert not Path("/dev/null").is_file()
    for option in ("--out", "--errors"):
        assert main([*arguments, "--overwrite", option, str(source)]) == 2
    assert main(["predict", str(folder), str(source), "--errors", str(out)]) == 1
    assert out.read_bytes() == before and len(lines(source)) == 3
    assert main(["predict", str(folder), str(source), "--resume"]) == 2
    assert main(["predict", str(folder), "-", "--out", str(out), "--resume"]) == 2
    assert main(["predict", str(folder), str(source), "--out", str(tmp_path / "x.parquet"), "--format", "text"]) == 2


def signalled_in_batch(number: int, name: str) -> None:
    """A signal in the middle of the batch of this number, with the state saved once a second."""
    from boustro.apps.batch import predict

    predict.ROWS = BATCH
    original, calls = Tagger.answer_checked, []

    def signalled(self, inputs):
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.Signals[name])
        return original(self, inputs)

    Tagger.answer_checked = signalled


@pytest.mark.parametrize(("name", "code"), [pytest.param("SIGINT", 130, marks=pytest.mark.long), ("SIGTERM", 143)])
def test_an_interrupted_run_says_what_is_kept_and_is_not_begun_again_unasked(folder, tmp_path, capsys, name, code):
    source, out, log = write_records(tmp_path / "in.jsonl", TEXTS), tmp_path / "out.jsonl", tmp_path / "errors"
    run("predict", folder, source, "--out", tmp_path / "whole.jsonl")
    command = ["predict", str(folder), str(source), "--out", str(out)]
    assert finish(start(signalled_in_batch, command, log, 3, name)) == code
    assert log.read_text() == "boustro: interrupted: 170 rows are kept; the same command with --resume goes on\n"
    assert main(command) == 1
    assert f"{out}: 170 rows are done: --resume goes on, --overwrite starts again" in capsys.readouterr().err
    assert finish(start(signalled_in_batch, [*command, "--overwrite"], log, 1, name)) == code
    assert log.read_text() == "boustro: interrupted: no result was written\n"
    assert main([*command, "--resume"]) == 0
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes() and not list(tmp_path.glob("out.jsonl.*"))


INTERRUPTED = """
import os, signal, sys
from boustro.choose import named
place, method, number = sys.argv[1].split()
owner, calls = named(place), []
original = getattr(owner, method)
def acting(*arguments, **options):
    calls.append(1)
    if len(calls) == int(number):
        os.kill(os.getpid(), signal.SIGINT)
    return original(*arguments, **options)
setattr(owner, method, acting)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
del sys.argv[1]
from boustro.__main__ import main
sys.exit(main())
"""
ON_TICK = "uvicorn:Server on_tick 1"
GOES_ON = "rows are kept; the same command with --resume goes on"
FIT = "fit --train texts.jsonl --encoder starter-words --head mlp --cross-validate 0 --no-cache --quiet"
PRETRAIN = "lab pretrain --shards shards --preset config.json --segment-length 16 --batch-segments 4 --tokens 512"
PRETRAIN += " --save-minutes 0 --no-compile"
ANSWERED, FOUND = "boustro.tasks.tagger:Tagger answer_checked 2", "boustro.apps.live.structured:Checker regions 2"
NOTHING, UNFINISHED = "no result was written", ("a.jsonl.part", "a.jsonl.progress")
STEP, CHECKPOINTS = "boustro.lab.pretrain.trainer:PretrainTrainer compute_loss 3", ("a.checkpoints",)
CTRL_C = {
    "predict names texts.jsonl": (ANSWERED, "1,024 rows are printed", ()),
    "predict names texts.jsonl --out a.jsonl": (ANSWERED, f"1,024 {GOES_ON}", UNFINISHED),
    "redact texts.jsonl": (FOUND, "256 rows are printed", ()),
    "redact texts.jsonl --out a.jsonl": (FOUND, f"256 {GOES_ON}", UNFINISHED),
    f"{FIT} --out a": ("boustro.heads.training:AdamW step 3", NOTHING, ()),
    "embed texts.jsonl --out a.npy": ("boustro.tasks.embed.task:SentenceEncoder encode 1", NOTHING, ()),
    "evaluate names texts.jsonl": ("boustro.tasks.base:Task answer 1", NOTHING, ()),
    f"{PRETRAIN} --out a": (STEP, "the same command with --resume", CHECKPOINTS),
    "label texts.txt --labels PER --port 0 --out a.jsonl": (ON_TICK, "a.jsonl: 0 answers", ()),
    "serve names --port 0": (ON_TICK, "(Ctrl+C stops)", ()),
}
"""Commands with the call in which Ctrl-C comes, what they say last, and the files that are left."""
SEEN = ("predict", "redact", "embed", "serve", "lab pretrain")
"""Commands whose interruption another test sees, in its own process or a forked one."""


@pytest.fixture(scope="module")
def long_work(tmp_path_factory):
    """A folder with what the commands of `CTRL_C` read."""
    place = tmp_path_factory.mktemp("work")
    write_records(place / "texts.jsonl", [f"Ada left {n} times." for n in range(1030)])
    labelled = ({**record, "entities": [[0, 3, "PERSON"]]} for record in lines(place / "texts.jsonl"))
    (place / "texts.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in labelled))
    (place / "texts.txt").write_text("Ada left.\n" * 400)
    (place / "config.json").write_text('{"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 1}')
    assert ran("lab", "tokenize", place / "texts.txt", "--tokenizer", "starter-forward", "--out", place / "shards") == 0
    return place


@pytest.mark.parametrize(
    "words", [pytest.param(words, marks=[pytest.mark.long] * words.startswith(SEEN)) for words in CTRL_C]
)
def test_ctrl_c_ends_every_long_command_with_a_line_that_says_what_is_kept(words, long_work, tmp_path):
    """In a process of its own, as from a shell."""
    for path in long_work.iterdir():
        (tmp_path / path.name).symlink_to(path)
    place, said, kept = CTRL_C[words]
    command = [sys.executable, "-c", INTERRUPTED, place, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == (0 if place == ON_TICK else 130) and "Traceback" not in done.stderr, done.stderr
    assert said in done.stderr.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.glob("a*")) == [*kept]
    if "--resume" in said:
        again = [sys.executable, "-m", "boustro", *words.split(), "--resume"]
        subprocess.run(again, cwd=tmp_path, capture_output=True, timeout=120, check=True)
        assert [path.name for path in tmp_path.glob("a*")] == [words.split()[-1]]


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_an_interrupted_folder_says_what_is_kept_and_goes_on(folder, tmp_path, workers):
    source, log = make_shards(tmp_path / "in", 3, 40), tmp_path / "errors"
    command = ["predict", str(folder), str(source), "--out", str(tmp_path / "out")]
    run(*command[:4], tmp_path / "whole")
    process = start(signalled_after_a_shard, [*command, "--workers", workers], log)
    assert finish(process) == 130
    said = r"(answering: .+\n)*boustro: interrupted: [1-3] of 3 files are answered; --resume goes on\n"
    assert re.fullmatch(said, log.read_text()), log.read_text()
    assert main([*command, "--quiet", "--resume"]) == 0
    for path in (tmp_path / "whole").glob("*.jsonl"):
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def signalled_after_a_shard() -> None:
    """Ctrl-C when a shard is answered, and before the next is begun."""
    from boustro.apps.batch import job, shards

    job.get_context = lambda kind: get_context("fork")  # an interpreter for each worker takes long
    original = shards.run_shards

    def signalled(work, engine, workers):
        found = original(work, engine, workers)
        yield next(found)
        os.kill(os.getpid(), signal.SIGINT)
        yield from found

    shards.run_shards = signalled


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs the memory of a process at a moment")
def test_memory_is_the_same_after_five_thousand_rows_and_after_fifty_thousand(folder, tmp_path):
    """Of words that all differ: what is kept of each word is what grows. Siblings: `batch`, `evaluate`, `embed`."""
    source, log = tmp_path / "in.txt", tmp_path / "memory"
    with source.open("w") as file:
        file.writelines(" ".join(f"{n}.{k}" for k in range(4)) + "\n" for n in range(50_000))
    command = ["predict", str(folder), str(source), "--out", str(tmp_path / "out.jsonl"), "--quiet"]
    assert finish(start(held, command, tmp_path / "errors", str(log), 5_000, 50_000)) == 0
    few, many = map(int, log.read_text().split())
    assert (many - few) / 2**20 < 40, (few, many)


def held(log: str, *rows: int) -> None:
    """The memory in use, in bytes, is written down after so many rows."""
    import ctypes
    import gc

    from boustro.apps.batch.growing import Growing

    add, left = Growing.add, list(rows)

    def adding(self, *arguments):
        add(self, *arguments)
        if left and self.done >= left[0]:
            left.pop(0)
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)  # what is free is not in use
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            with Path(log).open("a") as file:
                file.write(f"{pages * os.sysconf('SC_PAGE_SIZE')}\n")

    Growing.add = adding


def test_memory_does_not_grow_with_the_file(folder, tmp_path):
    """A file of fifty megabytes, most of it in one field, is never in memory whole."""
    source, log = tmp_path / "in.jsonl", tmp_path / "memory"
    with source.open("w") as file:
        for n in range(1500):
            file.write(json.dumps({"text": "Ada left", "more": "x" * 35_000, "id": n}) + "\n")
    command = ["predict", str(folder), str(source), "--out", str(tmp_path / "out.jsonl"), "--quiet"]
    assert finish(start(measured, command, tmp_path / "errors", str(log))) == 0
    first, *_, last = map(int, log.read_text().split())
    assert (last - first) / 1024 < 40 and (tmp_path / "out.jsonl").stat().st_size > 50_000_000


def measured(log: str) -> None:
    """The peak of memory, in kB, is written down after every batch."""
    import resource

    from boustro.apps.batch.growing import Growing

    add = Growing.add

    def adding(self, *arguments):
        add(self, *arguments)
        with Path(log).open("a") as file:
            file.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}\n")

    Growing.add = adding


def test_the_predictor_is_a_callable_on_columns_of_data_sets_and_of_the_partitions_of_dask(folder, tagger, tmp_path):
    import datasets
    import pandas
    import pyarrow

    from boustro import Predictor

    predictor = pickle.loads(pickle.dumps(Predictor(folder)))
    columns = {"id": list(range(8)), "text": TEXTS[:8]}
    expected = [record["entities"] for record in expect(tagger, TEXTS[:8])]
    found = predictor(columns)
    assert found["id"] == columns["id"] and same(found["entities"], expected)
    assert "model" not in pickle.loads(pickle.dumps(predictor)).__dict__
    mapped = datasets.Dataset.from_dict(columns).map(predictor, batched=True, batch_size=3)
    assert same(list(mapped["entities"]), expected) and mapped.column_names == ["id", "text", "entities"]
    assert predictor({"text": []}) == {"text": []}
    assert same(predictor(pyarrow.table(columns))["entities"], expected)
    assert same(Predictor(folder, text="body")({"body": TEXTS[:2]})["entities"], expected[:2])
    with pytest.raises(ValueError, match="not one of the folders"):
        Predictor(tmp_path)
    frames = pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame(columns)
    meta = pandas.DataFrame(predictor(frame.head(1))).iloc[:0]
    parts = frames.from_pandas(frame, npartitions=3)
    found = parts.map_partitions(lambda part: pandas.DataFrame(predictor(part)), meta=meta).compute()
    assert found["text"].tolist() == TEXTS[:8] and same(found["entities"].tolist(), expected)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java")
def test_the_predictor_in_spark_s_map_in_pandas(folder, tagger, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    import pandas

    from boustro import Predictor

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    predictor = Predictor(folder)
    entity = "struct<label:string,start:int,end:int,text:string,score:double>"
    rows = spark.createDataFrame([(text,) for text in TEXTS[:8]], "text string").coalesce(1)
    answered = rows.mapInPandas(
        lambda parts: (pandas.DataFrame(predictor(part)) for part in parts), f"text string, entities array<{entity}>"
    )
    found = [[e.asDict() for e in row.entities] for row in answered.collect()]
    spark.stop()
    assert same(found, [record["entities"] for record in expect(tagger, TEXTS[:8])])


def make_shards(place: Path, count: int, rows: int) -> Path:
    place.mkdir()
    for number in range(count):
        write_records(place / f"part-{number:03}.jsonl", [f"{text} {number}" for text in TEXTS[:rows]])
    (place / "part-001.jsonl").open("a").write("poison\n")
    return place


def test_shards_are_answered_each_once_and_another_model_is_refused(folder, tagger, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("boustro.apps.batch.job.get_context", lambda kind: CONTEXT)  # no new interpreters
    source, out = make_shards(tmp_path / "in", 3, 40), tmp_path / "out"
    (source / "more").mkdir()
    (source / "more" / "words.conll").write_text("Ada\nleft\n")
    (source / ".hidden").write_text("x")
    assert ran("predict", folder, source, "--out", out) == 0
    assert f"{out}: 4 of 4 files answered now, 122 rows" in capsys.readouterr().err
    found = lines(out / "part-002.jsonl")
    assert same([{k: r[k] for k in ("text", "entities")} for r in found], expect(tagger, [r["text"] for r in found]))
    problems = [(problem["shard"], problem["place"]) for problem in lines(out / "errors.jsonl")]
    assert problems == [("part-001.jsonl", f"{source / 'part-001.jsonl'}:41")]
    assert lines(out / "more" / "words.jsonl")[0].keys() == {"words", "tags", "entities"}
    before = {path: path.stat().st_mtime_ns for path in out.rglob("part*.jsonl")}
    (out / "part-000.jsonl").unlink()
    whole = lines(out / "part-002.jsonl")
    assert ran("predict", folder, source, "--out", out) == 1 and "--resume goes on with them" in capsys.readouterr().err
    assert ran("predict", folder, source, "--out", out, "--workers", "2", "--resume") == 0
    assert "1 of 4 files answered now" in capsys.readouterr().err and lines(out / "part-002.jsonl") == whole
    assert {p: t for p, t in before.items() if p.stat().st_mtime_ns != t}.keys() == {out / "part-000.jsonl"}
    assert ran("predict", folder, source, "--out", out, "--resume") == 0
    assert "all files are answered; nothing is left to do" in capsys.readouterr().err
    other = tmp_path / "other"
    Tagger.from_pretrained(folder, cache=False).fit(TAGGED[:4], seed=2).save_pretrained(other)
    assert ran("predict", other, source, "--out", out, "--resume") == 1
    assert "holds the answers of another model" in capsys.readouterr().err
    assert ran("predict", folder, source, "--out", out, "--format", "parquet", "--resume") == 1
    write_records(source / "part-002.ndjson", ["x"])
    assert ran("predict", folder, source, "--out", tmp_path / "new") == 1
    assert "would both be written to" in capsys.readouterr().err


def test_cells_of_a_workbook_in_a_folder_are_texts_as_those_of_one_file(folder, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book, source = openpyxl.Workbook(), tmp_path / "in" / "a.xlsx"
    for row in (("id", "message"), (1, "Ada left."), (2, None), (3, 4711)):
        book.active.append(row)
    source.parent.mkdir()
    book.save(source)
    for given, out in ((source.parent, tmp_path / "out"), (source, tmp_path / "a.jsonl")):
        assert main(["predict", str(folder), str(given), "--text-column", "message", "--out", str(out)]) == 0
    assert lines(tmp_path / "out" / "a.jsonl") == lines(tmp_path / "a.jsonl")
    assert not (tmp_path / "out" / "errors.jsonl").exists()


def test_vectors_of_lines_of_text_in_a_table(tiny_lm, tmp_path):
    from boustro import SentenceEncoder

    encoder = SentenceEncoder(str(tiny_lm("llama")), head="statistics").fit(TEXTS[:50])
    encoder.save_pretrained(tmp_path / "vectors")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("\n".join(TEXTS[:5]) + "\n\xff\n", "latin-1")
    write_records(tmp_path / "in" / "b.jsonl", TEXTS[:5]).open("a").write('{"id": 5}\n')
    (tmp_path / "in" / "c.pdf").write_bytes(b"%PDF-1.7\n")  # the others are answered all the same
    run("predict", tmp_path / "vectors", tmp_path / "in", "--out", tmp_path / "out", "--format", "parquet")
    expected = encoder.encode(TEXTS[:5]).tolist()
    for name in ("a", "b"):
        rows = values(tmp_path / "out" / f"{name}.parquet")
        assert [row["text"] for row in rows] == TEXTS[:5] and same([row["vector"] for row in rows], expected, 1e-2)
    assert [problem["shard"] for problem in lines(tmp_path / "out" / "errors.jsonl")] == ["a.txt", "b.jsonl", "c.pdf"]


@pytest.mark.long
def test_ray_does_what_one_process_does_although_an_actor_and_the_driver_are_killed(folder, tmp_path):
    pytest.importorskip("ray", reason="needs boustro[ray]")
    source = make_shards(tmp_path / "in", 40, RAY_ROWS)
    run("predict", folder, source, "--out", tmp_path / "local")
    command = ["predict", str(folder), str(source), "--out", str(tmp_path / "out"), "--engine", "ray", "--workers", "2"]
    log = tmp_path / "done"
    beside = (os.environ.get("PYTHONPATH", ""), Path(__file__).parent, Path(__file__).parents[1])
    inherited = {"PYTHONPATH": ":".join(map(str, beside)), "OMP_NUM_THREADS": "1"}
    driver = start(logged_job, command, tmp_path / "errors", str(log), **inherited)
    finished = lambda: len(list((tmp_path / "out").glob("part-*.jsonl")))  # noqa: E731

    def wait(number: int) -> None:
        end = time.monotonic() + 240
        while finished() < number:
            assert driver.is_alive() and time.monotonic() < end, (tmp_path / "errors").read_text()
            time.sleep(0.02)

    wait(10)
    os.kill(int(log.read_text().split()[-1].split("/")[1]), signal.SIGKILL)  # the actor that ended a shard last
    wait(20)
    driver.kill()
    finish(driver)
    time.sleep(2)  # its actors end with it
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*.jsonl")}
    assert 20 <= len(before) < 40
    again = start(logged_job, [*command, "--resume"], tmp_path / "errors", str(log), **inherited)
    assert finish(again) == 0, (tmp_path / "errors").read_text()
    for path in (tmp_path / "local").glob("*.jsonl"):
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    shards, actors = zip(*(word.split("/") for word in log.read_text().split()), strict=True)
    assert len(shards) == len({*shards}) and len({*actors}) >= 4
    assert len(shards) >= 40 - 3  # each of the three killed actors may have written a shard that it did not log
    assert len({*shards} | {path.name for path in before}) == 40
    assert [problem["shard"] for problem in lines(tmp_path / "out" / "errors.jsonl")] == ["part-001.jsonl"]


def logged_job(log: str) -> None:
    """Jobs that write down every shard that they have finished, and their process."""
    os.environ["BOUSTRO_TEST_LOG"] = log
    from boustro.apps.batch import shards

    shards.Worker = LoggedWorker


class LoggedWorker:
    """`shards.Worker`, and a line in a file for every shard."""

    def __init__(self, job) -> None:
        from boustro.apps.batch.shards import Worker

        self.worker, self.log = Worker(job), os.environ["BOUSTRO_TEST_LOG"]

    def __call__(self, batch):
        done = self.worker(batch)
        for text in done["done"]:
            record = json.loads(text)
            if record["rows"]:
                with Path(self.log).open("a") as file:
                    file.write(f"{record['shard']}/{record['process']}\n")
        return done


def test_without_ray_the_command_says_what_to_install(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    source = make_shards(tmp_path / "in", 2, 2)
    assert main(["predict", str(folder), str(source), "--out", str(tmp_path / "out"), "--engine", "ray"]) == 1
    assert "pip install 'boustro[ray]'" in capsys.readouterr().err
