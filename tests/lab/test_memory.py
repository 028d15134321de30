"""`boustro lab memory` and `memory:DIR`: the mean vectors of words in raw text, read by a tagger; tables of words."""

import itertools
import json
import os
import shutil
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import boustro
import boustro.lab.adapt.table
from boustro.apps.cli.main import main
from boustro.encoders.extended import ExtendedEncoder, with_mentions
from boustro.encoders.spec import Spec, load_encoder
from boustro.encoders.word_means import (
    MEMORY_FILE,
    CodedVectors,
    MeanSums,
    WordMeans,
    join_means,
    load_means,
    read_means,
)
from boustro.encoders.word_table import load_table
from boustro.features.training import MEMORY_ONLY
from boustro.heads.inputs import HeadInputs
from boustro.lab import adapt
from boustro.store import Artefact
from boustro.tasks.fitting.training import UNREAD
from boustro.text.words import split_text
from boustro.types import Sentence
from damage import vouch
from labelled import TAGGED

TEXTS = ["Vellmar won. Ada left Vellmar.", "Ada saw it rain in Lisse.", "It rained."]


def command_of(folder, spec, out, *more):
    return ["lab", "memory", str(folder / "corpus.jsonl"), "--encoder", spec, *more, "--out", str(out)]


@pytest.fixture(scope="module")
def given(tiny_pair, tmp_path_factory):
    """A folder with a corpus and a pair's memory of it; to be read only."""
    folder = tmp_path_factory.mktemp("memory")
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), "utf-8")
    assert main(command_of(folder, tiny_pair, folder / "memory")) == 0
    return folder


@pytest.fixture
def memory(given, tiny_pair, tmp_path):
    """The folder of a copy of that memory, and the command that wrote it."""
    shutil.copytree(given / "memory", tmp_path / "memory")
    return tmp_path / "memory", command_of(given, tiny_pair, tmp_path / "memory")


def read_alone(pair):
    """By word: its vectors of the last layer in `TEXTS`, each text read as a document, one list per stream."""
    encoder = load_encoder(pair, "last", dtype="float32", context="document")
    found: dict[str, list[list[np.ndarray]]] = {}
    for number, text in enumerate(TEXTS):
        sentences = [part.sentence for part in split_text(text, str(number))]
        words = [word for sentence in sentences for word in sentence.words]
        for stream, vectors in enumerate(encoder.encode_all(sentences).streams):
            for word, vector in zip(words, vectors[:, -1], strict=True):
                found.setdefault(word, [[], []])[stream].append(vector.astype(np.float32))
    return found


def test_the_folder_has_the_counts_and_means_of_all_words(memory, tiny_pair, capsys):
    known, config = load_means(Artefact(memory[0]))
    wanted = read_alone(tiny_pair)
    assert config["record"] == {"words": 17, "different": 12, "kept": 12}
    assert known.rows.keys() == wanted.keys() and next(iter(known.rows)) == "."
    for word, row in known.rows.items():
        for means, vectors in zip(known.means, wanted[word], strict=True):
            assert known.counts[row] == len(vectors)
            np.testing.assert_allclose(means[row], np.mean(vectors, 0), atol=2e-3)


def test_only_the_most_frequent_words_are_kept_and_chunks_change_nothing(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("boustro.encoders.word_means.SUMMED_WORDS", 1)
    assert main([*memory[1][:-1], str(tmp_path / "small"), "--words", "3"]) == 0
    (small, _), (whole, _) = load_means(Artefact(tmp_path / "small")), load_means(Artefact(memory[0]))
    assert list(small.rows) == list(whole.rows)[:3] == [".", "Vellmar", "Ada"]
    np.testing.assert_array_equal(small.counts, whole.counts[:3])
    for some, everything in zip(small.means, whole.means, strict=True):
        np.testing.assert_allclose(some, everything[:3], atol=2e-3)


@pytest.mark.parametrize("cached", [False, True])
def test_the_streams_are_those_of_the_encoder_and_means_over_the_text_and_the_word(memory, tiny_pair, tmp_path, cached):
    """Beside another LM the means still belong to theirs."""
    reading = {"layers": "0,last", "dtype": "float32", "cache": tmp_path / "cache" if cached else None}
    lm = tiny_pair.partition("+")[0]
    encoder, plain = load_encoder(f"memory:{memory[0]}+{lm}", **reading), load_encoder(tiny_pair, **reading)
    features, base = encoder.encode_all(TAGGED), plain.encode_all(TAGGED)
    assert encoder.streams_by_lm == [[0, 2], [1, 3], [4]]
    assert [s.num_layers for s in encoder.streams] == [2, 2, 1, 1, 2]
    np.testing.assert_allclose(features.streams[4], base.streams[0], atol=1e-5)
    known, _ = load_means(Artefact(memory[0]))
    words = [word for sentence in TAGGED for word in sentence.words]
    for number, own in enumerate(features.streams[:2]):
        np.testing.assert_array_equal(own, base.streams[number])
        for row, word in enumerate(words):
            counts, means = list(join_means([known], [word]))[number]
            wanted = (own[row, -1] + counts * means[0]) / (1 + counts)
            np.testing.assert_allclose(features.streams[2 + number][row, 0], wanted, atol=1e-3)
    for one, other in zip(encoder.encode(TAGGED), features.sentences(), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


def test_mentions_of_the_document_count_too_where_they_are_pooled(memory):
    plain = load_encoder(f"memory:{memory[0]}", "last", context="document")
    pooled = with_mentions(plain, True, "document")
    assert isinstance(pooled, ExtendedEncoder) and len(pooled.streams) == len(plain.streams) == 4
    assert pooled.identity() != plain.identity() and with_mentions(plain, True, "sentence") is plain
    alone, shared = plain.encode_all(TAGGED).streams[2], pooled.encode_all(TAGGED).streams[2]
    np.testing.assert_array_equal(shared[0], shared[5])  # Vellmar, twice in one document
    assert np.any(alone[0] != alone[5])


def test_a_tagger_is_saved_and_opened_and_refuses_another_memory(memory, tmp_path, capsys):
    folder, command = memory
    spec = f"memory:{folder}"
    Spec.parse(spec).check()
    tagger = boustro.Tagger(spec, "mlp", epochs=3, cache=False).fit(TAGGED, TAGGED, seed=1)
    assert Spec.parse(spec).exact(tagger.encoder().identity()) == f"memory:{folder.resolve()}"
    tagger.save_pretrained(tmp_path / "ner")
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner", cache=False)
    assert opened.tag(TAGGED) == tagger.tag(TAGGED)
    before = Spec.parse(spec).fingerprint()
    assert main([*command, "--words", "5", "--overwrite"]) == 0
    assert Spec.parse(spec).fingerprint() != before
    with pytest.raises(ValueError, match="is not the one that this head was trained on"):
        boustro.Tagger.from_pretrained(tmp_path / "ner", cache=False).tag(TAGGED)


def read_one_by_one(monkeypatch, stop=lambda: None, at=0):
    """Each document is a chunk, and `stop` is called while number `at` is read."""
    monkeypatch.setattr("boustro.encoders.word_means.SUMMED_WORDS", 1)
    add, chunks = MeanSums.add, itertools.count(1)

    def add_and_stop(*given):
        add(*given)
        if next(chunks) == at:
            stop()

    monkeypatch.setattr(MeanSums, "add", add_and_stop)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "manifest.json"}


@pytest.fixture(scope="module")
def undisturbed(given, tiny_pair):
    """What the memory's files hold when its documents are read one by one."""
    with pytest.MonkeyPatch.context() as patched:
        read_one_by_one(patched)
        assert main(command_of(given, tiny_pair, given / "undisturbed")) == 0
    return contents(given / "undisturbed")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_leaves_a_checkpoint_which_resume_completes(
    memory, undisturbed, tmp_path, monkeypatch, capfd, name, code
):
    command, sums = [*memory[1][:-1], str(tmp_path / "again")], tmp_path / "again.checkpoints" / "sums"
    for at in (1, 2):
        with monkeypatch.context() as patched:
            read_one_by_one(patched, lambda: signal.raise_signal(getattr(signal, name)), at)
            assert main(command) == code
        assert sums.exists() == (at == 2)
    told = capfd.readouterr().err
    assert f"{name}: stopped; nothing was completed since the start" in told
    assert f"stopped after 14 of 17 words; {sums} is complete. To continue, give the same command with --resume" in told
    assert main(command) == 1
    assert "give --resume to continue it, or --overwrite to start again" in capfd.readouterr().err
    assert main([*command, "--resume", "--words", "5"]) == 1
    assert f"{sums} is of a run with another words; give --overwrite" in capfd.readouterr().err
    read_one_by_one(monkeypatch)
    assert main([*command, "--resume"]) == 0
    assert f"resuming from {sums} after 14 words" in capfd.readouterr().err
    assert contents(tmp_path / "again") == undisturbed
    assert not sums.parent.exists()


@pytest.mark.parametrize("damaged", [False, True])
def test_after_a_kill_the_last_checkpoint_is_continued_unless_it_is_damaged(
    memory, undisturbed, tmp_path, monkeypatch, capsys, damaged
):
    command = [*memory[1][:-1], str(tmp_path / "again"), "--save-minutes", "0"]
    saved = tmp_path / "again.checkpoints" / "sums" / MEMORY_FILE

    def die():
        raise MemoryError

    with monkeypatch.context() as patched:
        read_one_by_one(patched, die, at=3)
        assert main(command) == 1
    if damaged:
        saved.write_bytes(saved.read_bytes()[:-8])
    read_one_by_one(monkeypatch)
    assert main([*command, "--resume"]) == 0
    told = capsys.readouterr().err
    assert [said in told for said in ("skipped an incomplete checkpoint", "resuming from")] == [damaged, not damaged]
    assert contents(tmp_path / "again") == undisturbed


def test_a_finished_memory_is_left_unchanged_by_resume_and_not_replaced_unasked(memory, capsys):
    before = contents(memory[0])
    for more, code, said in (
        ([], 1, "--overwrite"),
        (["--resume"], 0, "this run is finished; nothing to do"),
        (["--resume", "--words", "5"], 1, "is of a run with another words; give --overwrite in place of --resume to"),
    ):
        assert main([*memory[1], *more]) == code
        assert said in capsys.readouterr().err and contents(memory[0]) == before


def test_a_dry_run_tells_the_cost_and_writes_nothing(memory, tmp_path, capsys):
    assert main([*memory[1][:-1], str(tmp_path / "dry"), "--dry-run"]) == 0
    told = capsys.readouterr().err
    assert "dry run: 17 words, 12 different; about 0 seconds" in told
    assert "a checkpoint has" in told
    assert not list(tmp_path.glob("dry*"))


@pytest.mark.parametrize(
    ("reading", "other"),
    [
        ({"pooling": "first", "layers": "0"}, "layers, pooling"),
        ({"spacing": "always"}, "spacing"),
        ({"start_piece": "none"}, "frame"),
    ],
)
def test_an_encoder_that_reads_otherwise_is_refused(given, reading, other):
    with pytest.raises(ValueError, match=f"read the text of this memory with other {other}; read in the same way"):
        load_encoder(f"memory:{given / 'memory'}", **reading)


def test_another_encoder_and_vectors_of_another_width_are_refused(memory, tiny_lm):
    folder, arrays = memory[0], load_file(memory[0] / MEMORY_FILE)
    told = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(told | {"encoder": str(tiny_lm("gpt2"))}), "utf-8")
    vouch(folder)
    with pytest.raises(ValueError, match="with other parts"):
        load_encoder(f"memory:{folder}")
    save_file({**arrays, "0": arrays["0"][:, :4].copy()}, folder / MEMORY_FILE)
    with pytest.raises(ValueError, match="write the folder again"):
        load_encoder(f"memory:{folder}")


def test_what_gives_no_memory_is_one_sentence(tiny_pair, tmp_path, capsys):
    with pytest.raises(FileNotFoundError, match="no such folder; a memory folder is expected here"):
        load_encoder(f"memory:{tmp_path / 'none'}")
    (tmp_path / "empty.txt").write_text("\n")
    os.mkfifo(tmp_path / "pipe")
    for corpus, said in (
        ([str(tmp_path / "empty.txt")], "the corpus has no words"),
        ([], "no text given"),
        ([str(tmp_path / "pipe")], "can be read only once, and a memory reads its text twice"),
    ):
        assert main(["lab", "memory", *corpus, "--encoder", tiny_pair, "--out", str(tmp_path / "m")]) == 1
        assert said in capsys.readouterr().err


def test_the_words_of_labelled_files_are_read_and_their_labels_are_not(tiny_pair, file, tmp_path):
    other = file("train.conll", "-DOCSTART- O\n\nVellmar B-ORG\nwon O\n\nAda B-PER\nleft O\nVellmar B-LOC\n\n")
    same = file("words.jsonl", '{"words": ["It", "rained"], "tags": null, "document": "x"}\n')
    out = tmp_path / "memory"
    assert main(["lab", "memory", "--data", f"{other},{same}", "--encoder", tiny_pair, "--out", str(out)]) == 0
    known, _ = load_means(Artefact(out))
    counts = {"Vellmar": 2, "won": 1, "Ada": 1, "left": 1, "It": 1, "rained": 1}
    assert dict(zip(known.rows, known.counts.tolist(), strict=True)) == counts
    sentences = [Sentence(("Vellmar", "won"), document="d"), Sentence(("Ada", "left", "Vellmar"), document="d")]
    own = load_encoder(tiny_pair, "last", context="document").encode_all(sentences).streams[0][:, -1]
    np.testing.assert_allclose(known.means[0][known.rows["Vellmar"]], (own[0] + own[4]) / 2, atol=2e-3)


def test_a_memory_of_codes_is_that_of_the_vectors_they_stand_for(memory, tmp_path, capsys):
    folder, command = memory
    given = [*command[:-1], str(tmp_path / "small"), "--code-bytes"]
    assert main([*given, "8"]) == 0
    (small, _), (whole, _) = load_means(Artefact(tmp_path / "small")), load_means(Artefact(folder))
    assert small.rows == whole.rows
    for coded, exact in zip(small.means, whole.means, strict=True):
        assert isinstance(coded, CodedVectors)
        np.testing.assert_allclose(coded[np.arange(len(exact))], exact, atol=5e-3)
    plain, other = (load_encoder(f"memory:{f}", "last", context="document") for f in (folder, tmp_path / "small"))
    for a, b in zip(plain.encode_all(TAGGED).streams, other.encode_all(TAGGED).streams, strict=True):
        np.testing.assert_allclose(a, b, atol=5e-3)
    for nothing in ([], [Sentence(())]):  # also of codes
        assert [len(s) for s in other.encode_all(nothing).streams] == [0] * len(other.streams)
    assert main([*given, "1000", "--overwrite"]) == 1
    assert "bytes, not 1000" in capsys.readouterr().err


def test_a_tagger_remembers_its_training_data_as_a_memory_of_it_would(tiny_pair, tmp_path, monkeypatch):
    file = tmp_path / "train.jsonl"
    rows = ({"words": s.words, "tags": s.tags, "document": s.document} for s in TAGGED)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert main(["lab", "memory", "--data", str(file), "--encoder", tiny_pair, "--out", str(tmp_path / "memory")]) == 0
    how = {"epochs": 3, "pool_mentions": True}
    monkeypatch.setattr("boustro.features.training.FORGOTTEN", 0.0)
    other = boustro.Tagger(f"memory:{tmp_path / 'memory'}", **how, cache=False).fit(file, file, seed=1)
    for cache in (False, tmp_path / "cache"):
        tagger = boustro.Tagger(tiny_pair, memory=True, **how, cache=cache).fit(file, file, seed=1)
        assert tagger.record["losses"] == other.record["losses"] and len(tagger.fitted.head.widths) == 4
        assert tagger.answer(TAGGED) == other.answer(TAGGED)
    tagger.save_pretrained(tmp_path / "ner")
    assert load_file(tmp_path / "ner" / MEMORY_FILE)["counts"].tolist() == [2, 2, *[1] * 7]
    assert "words of the training data" in (tmp_path / "ner/README.md").read_text("utf-8")
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner", cache=False)
    assert opened.answer(TAGGED) == tagger.answer(TAGGED) and len(opened.encoder().extenders[0].learned.rows) == 9


def test_some_words_are_forgotten_in_training_only(tiny_pair, monkeypatch):
    known = WordMeans({str(n): n for n in range(1000)}, np.ones(1000, np.float32), [np.ones((1000, 2), np.float16)])
    rest = known.in_training(0.3, seed=1)
    assert 650 < len(rest.rows) < 750 and all(known.rows[word] == row for word, row in rest.rows.items())
    assert rest.rows == known.in_training(0.3, seed=1).rows != known.in_training(0.3, seed=2).rows
    assert rest.in_training(0.3, seed=3).rows.items() < rest.rows.items()
    tagger = boustro.Tagger(tiny_pair, memory=True, epochs=1, cache=False)
    monkeypatch.setattr("boustro.features.training.FORGOTTEN", 1.0)
    given = []
    monkeypatch.setattr(HeadInputs, "__init__", spied(HeadInputs.__init__, given))
    tagger.fit(TAGGED, TAGGED, seed=1)
    trained, scored = given[0][0], next(streams for streams, *_ in given[1:] if streams is not given[0][0])
    np.testing.assert_array_equal(trained[2][0, 0], trained[0][0, -1])  # Vellmar by itself
    assert np.any(scored[2][0, 0] != scored[0][0, -1])  # and by its two mentions


def test_a_training_sentence_counts_once(tiny_pair, monkeypatch):
    """In training a word is the mean over the training data; it is among them, and not a mention beside them."""
    monkeypatch.setattr("boustro.features.training.FORGOTTEN", 0.0)
    given = []
    monkeypatch.setattr(HeadInputs, "__init__", spied(HeadInputs.__init__, given))
    tagger = boustro.Tagger(tiny_pair, memory=True, pool_mentions=True, epochs=1, cache=False).fit(TAGGED, seed=1)
    streams, words = given[0][0], [word for s in TAGGED for word in s.words]
    assert max(map(words.count, words)) > 1
    for plain, pooled in ((streams[0], streams[2]), (streams[1], streams[3])):
        for place, word in enumerate(words):
            mentions = [plain[n, -1].astype(np.float32) for n, other in enumerate(words) if other == word]
            np.testing.assert_allclose(pooled[place, 0], np.mean(mentions, 0), atol=2e-3)
    before = tagger.answer(TAGGED)  # and what it learned from last is all that it remembers
    tagger.fit(TAGGED[2:], seed=1)
    assert len(tagger.encoder().extenders[0].learned.rows) == 4
    assert tagger.fit(TAGGED, seed=1).answer(TAGGED) == before


def spied(function, calls):
    """The function, which keeps the arguments of its calls."""

    def call(self, *given, **named):
        calls.append(given)
        return function(self, *given, **named)

    return call


def test_sentences_without_labels_are_remembered_too(tiny_pair, tmp_path, capsys):
    train, texts = tmp_path / "train.jsonl", tmp_path / "texts.txt"
    train.write_text(json.dumps({"words": ["Ada", "left", "."], "tags": ["B-PER", "O", "O"]}) + "\n")
    texts.write_text("It rained. Ada left.\nVellmar won. Vellmar left.\n")
    how = ["--train", str(train), "--documents", str(texts), "--encoder", tiny_pair, "--epochs", "1", "--no-cache"]
    for memory, said in (("--no-memory", None), ("--memory", f"2 {MEMORY_ONLY}")):
        assert main(["fit", *how, memory, "--out", str(tmp_path / "ner"), "--overwrite"]) == 0
        told = capsys.readouterr().err
        assert "1 sentence of documents around them, read as context only" in told
        assert (said or "") in told and UNREAD not in told
    known = read_means(Artefact(tmp_path / "ner"))
    assert dict(zip(known.rows, known.counts.tolist(), strict=True)) == {
        ".": 4, "left": 2, "Vellmar": 2, "It": 1, "rained": 1, "Ada": 1, "won": 1
    }  # fmt: skip


def test_a_tagger_has_its_memory_beside_that_of_its_encoder(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("boustro.features.training.FORGOTTEN", 0.0)
    tagger = boustro.Tagger(f"memory:{memory[0]}", memory=True, epochs=2, context="sentence", cache=False)
    tagger.fit(TAGGED, seed=1).fit(TAGGED, seed=1)
    encoder, vectors = tagger.encoder(), []
    plain = encoder.base.encode_all(TAGGED).streams[0][:, -1].astype(np.float32)
    for memory_of in (encoder.extenders[0].known, encoder.extenders[0].learned):
        counts, means = next(join_means([memory_of], ["Vellmar"]))
        vectors += [means[0].astype(np.float32)] * int(counts[0])
    assert len(vectors) == 4
    wanted = np.mean([*vectors, plain[0]], 0)
    np.testing.assert_allclose(encoder.encode_all(TAGGED).streams[2][0, 0], wanted, atol=2e-3)
    tagger.save_pretrained(tmp_path / "ner")
    opened = boustro.Tagger.from_pretrained(tmp_path / "ner", cache=False)
    assert opened.answer(TAGGED) == tagger.answer(TAGGED)


# Tables of words


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "texts.jsonl"
    texts = [f"The {a} of Lisse {b} the {c}." for a in ("harbour", "mayor") for b in ("sees", "buys") for c in "xyz"]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts * 3))
    return path


def distill(corpus, spec, out, *more):
    return ["lab", "distill-words", str(corpus), "--encoder", spec, "--out", str(out), "--parts", "5", *more]


def test_distilled_words_come_near_the_vectors_of_texts_and_are_an_encoder(corpus, tiny_pair, tmp_path, capsys):
    spec = tiny_pair.split("+")[0]
    assert main(distill(corpus, spec, tmp_path / "table", "--epochs", "3", "--code-bytes", "4")) == 0
    table = load_table(str(tmp_path / "table"))
    told = json.loads((tmp_path / "table/config.json").read_text())
    assert told["record"]["cosines"][-1] >= told["record"]["cosines"][0] and "harbour" in table.rows
    encoder = load_encoder(f"table:{tmp_path / 'table'}", dtype="float32")
    (stream,) = encoder.encode_all([["The", "harbour"], ["Lisse"]]).streams
    np.testing.assert_allclose(stream[:2, 0].mean(0), table.means([["The", "harbour"]])[0], rtol=1e-5)
    assert len(load_encoder(f"{tiny_pair}+table:{tmp_path / 'table'}").streams) == 3
    vectors = boustro.SentenceEncoder(f"table:{tmp_path / 'table'}", "statistics", cache=False)
    np.testing.assert_allclose(vectors.encode("The harbour"), table.means([["The", "harbour"]])[0], rtol=1e-2)
    assert main(distill(corpus, spec, tmp_path / "none", "--dry-run")) == 0 and not (tmp_path / "none").exists()
    (tmp_path / "table/words.json").write_text("[]")
    with pytest.raises(ValueError, match=r"words\.json"):
        load_encoder(f"table:{tmp_path / 'table'}")


def test_a_table_that_was_stopped_goes_on_and_ends_with_the_same_bytes(corpus, tiny_pair, tmp_path, monkeypatch):
    spec = tiny_pair.split("+")[0]
    whole, again = tmp_path / "whole", tmp_path / "again"
    monkeypatch.setattr(adapt.table, "CHUNK_TEXTS", 7)
    assert main(distill(corpus, spec, whole)) == 0
    read = adapt.table._vectors
    left = [2]

    def stop(*given):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return read(*given)

    monkeypatch.setattr(adapt.table, "_vectors", stop)
    assert main(distill(corpus, spec, again)) == 143
    monkeypatch.setattr(adapt.table, "_vectors", read)
    assert main(distill(corpus, spec, again, "--resume")) == 0
    for name in ("words.json", "table.safetensors"):
        assert (whole / name).read_bytes() == (again / name).read_bytes()
    assert main(distill(corpus, spec, again, "--resume")) == 0  # finished
