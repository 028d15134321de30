"""lab.pretrain.shards, segments, mixtures: ids on disk that decode to the corpus; tokenizers of very long words."""

import json
import random
import shutil
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from boustro.lab.pretrain import shards as shards_module
from boustro.lab.pretrain.mixture import Mixture, interleave, smoothed_shares
from boustro.lab.pretrain.segments import SegmentExample, Segments, SegmentStream
from boustro.lab.pretrain.shards import Shards, tokenize, write_shards
from boustro.store import Artefact
from boustro.text.documents import read_documents
from boustro.text.tokenizers import (
    CUT_TO_TRAIN,
    END_OF_TEXT,
    LONGEST_WORD,
    TO_WORDS,
    cut_long_words,
    load_tokenizer,
    save_tokenizer,
    train_tokenizer,
)
from conftest import SENTENCES

DOCUMENTS = ["Ada Brandt sold 40 boats.", "Nobody in Vellmar reads\nthe harbour bulletin.", "Élodie: “no!” 🙂 \t x"]


def write_corpus(path: Path, documents=DOCUMENTS) -> Path:
    path.write_text("\n\n".join(documents), "utf-8")
    return path


def documents_of(shards: Shards) -> list[list[int]]:
    """The ids of each document, with the end-of-text piece."""
    found = []
    for pieces, ends in zip(shards.pieces, shards.ends, strict=True):
        found += [part.tolist() for part in np.split(pieces, ends.astype(np.int64)[:-1])]
    return found


def decode(shards: Shards) -> list[str]:
    tokenizer = load_tokenizer(shards.tokenizer_path)
    return [tokenizer.decode(ids[:-1]) for ids in documents_of(shards)]


def write_words_tokenizer(folder: Path, size: int) -> Path:
    """A tokenizer of whole words: `w5` is piece 5."""
    words = {END_OF_TEXT: 0} | {f"w{i}": i for i in range(1, size)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=END_OF_TEXT))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    save_tokenizer(tokenizer, folder)
    return folder


@pytest.fixture
def many_shards(monkeypatch):
    """Batches of a sentence or two, and shards of about 300 pieces."""
    monkeypatch.setattr(shards_module, "BATCH_CHARACTERS", 60)
    monkeypatch.setattr(shards_module, "SHARD_PIECES", 300)


# Shards


def test_ids_in_shards_decode_back_to_the_documents(tmp_path, tiny_tokenizer):
    tokenize((str(write_corpus(tmp_path / "a.txt")),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    shards = Shards.open(tmp_path / "shards")
    assert decode(shards) == DOCUMENTS
    assert shards.config["num_documents"] == 3
    assert shards.config["num_pieces"] == sum(map(len, documents_of(shards)))


def test_each_document_ends_in_the_end_of_text_piece_and_holds_no_other(tmp_path, tiny_tokenizer):
    """Not even where the text spells it out."""
    corpus = write_corpus(tmp_path / "a.txt", [*DOCUMENTS, f"They wrote {END_OF_TEXT} in the minutes."])
    tokenize((str(corpus),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    shards = Shards.open(tmp_path / "shards")
    end = load_tokenizer(tiny_tokenizer).eos_token_id
    assert shards.config["end_of_text_id"] == end
    for ids in documents_of(shards):
        assert ids[-1] == end and end not in ids[:-1]
    assert decode(shards)[-1] == f"They wrote {END_OF_TEXT} in the minutes."


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_any_text_comes_back(tmp_path_factory, tiny_tokenizer, monkeypatch, documents):
    monkeypatch.setattr(shards_module, "BATCH_CHARACTERS", 20)
    monkeypatch.setattr(shards_module, "SHARD_PIECES", 30)
    folder = tmp_path_factory.mktemp("shards")
    shutil.copytree(tiny_tokenizer, folder / "tokenizer")
    config = write_shards(documents, folder, workers=1)
    names = range(config["num_shards"])
    pieces = [np.fromfile(folder / f"pieces-{i:05d}.bin", config["dtype"]) for i in names]
    ends = [np.fromfile(folder / f"documents-{i:05d}.bin", np.uint64) for i in names]
    assert decode(Shards(folder, config, pieces, ends, "")) == documents
    assert config["num_documents"] == len(documents)


def test_a_corpus_is_spread_over_several_shards(tmp_path, tiny_tokenizer, many_shards):
    documents = [f"Boat {i} left Vellmar with {i * i} crates." for i in range(60)]
    corpus = write_corpus(tmp_path / "a.txt", documents)
    tokenize((str(corpus),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    shards = Shards.open(tmp_path / "shards")
    assert shards.config["num_shards"] == len(shards.pieces) > 2
    assert [int(ends[-1]) for ends in shards.ends] == [len(pieces) for pieces in shards.pieces]
    assert decode(shards) == documents


def test_one_and_two_workers_write_the_same_folder(tmp_path, tiny_tokenizer, many_shards):
    corpus = write_corpus(tmp_path / "a.txt", [f"Boat {i} left Vellmar with {i * i} crates." for i in range(60)])
    for workers in (1, 2):
        tokenize((str(corpus),), tmp_path / str(workers), tokenizer=str(tiny_tokenizer), workers=workers)
    one, two = (Artefact(tmp_path / name).check("shards", verify=True)["files"] for name in ("1", "2"))
    assert one == two
    assert Shards.open(tmp_path / "1").fingerprint == Shards.open(tmp_path / "2").fingerprint


@pytest.mark.parametrize(("size", "dtype"), [(300, "uint16"), (1 << 16, "uint16"), ((1 << 16) + 1, "uint32")])
def test_ids_take_two_bytes_where_the_vocabulary_fits(tmp_path, size, dtype):
    tokenizer = write_words_tokenizer(tmp_path / "tokenizer", size)
    corpus = write_corpus(tmp_path / "a.txt", [f"w1 w{size - 1}", "w2"])
    tokenize((str(corpus),), tmp_path / "shards", tokenizer=str(tokenizer), workers=1)
    shards = Shards.open(tmp_path / "shards")
    assert shards.config["dtype"] == dtype and shards.pieces[0].dtype == dtype
    assert shards.config["vocab_size"] == size
    assert documents_of(shards) == [[1, size - 1, 0], [2, 0]]


def test_a_tokenizer_is_learned_from_the_corpus_and_lies_beside_the_shards(tmp_path):
    tokenize((str(write_corpus(tmp_path / "a.txt")),), tmp_path / "shards", train_tokenizer=290, workers=1)
    shards = Shards.open(tmp_path / "shards")
    assert shards.config["vocab_size"] == len(load_tokenizer(shards.tokenizer_path)) == 290
    assert decode(shards) == DOCUMENTS


def test_the_output_says_how_much_there_is(tmp_path, tiny_tokenizer, capsys):
    tokenize((str(write_corpus(tmp_path / "a.txt")),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    pieces = Shards.open(tmp_path / "shards").config["num_pieces"]
    assert f"3 documents, {pieces} pieces, uint16" in capsys.readouterr().out


def test_a_truncated_shard_is_refused(tmp_path, tiny_tokenizer):
    tokenize((str(write_corpus(tmp_path / "a.txt")),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    file = tmp_path / "shards" / "pieces-00000.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-2])
    with pytest.raises(ValueError, match=rf"pieces-00000\.bin holds {len(whole) - 2} bytes, not {len(whole)}"):
        Shards.open(tmp_path / "shards")


def test_a_missing_shard_is_refused(tmp_path, tiny_tokenizer):
    tokenize((str(write_corpus(tmp_path / "a.txt")),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    (tmp_path / "shards" / "documents-00000.bin").unlink()
    with pytest.raises(ValueError, match=r"documents-00000\.bin is missing"):
        Shards.open(tmp_path / "shards")


@pytest.mark.parametrize("options", [{"train_tokenizer": 300}, {"tokenizer": "tiny"}])
def test_a_corpus_without_text_is_refused_and_leaves_nothing(tmp_path, tiny_tokenizer, options):
    options = {"tokenizer": str(tiny_tokenizer)} if "tokenizer" in options else options
    with pytest.raises(ValueError, match="the corpus holds no text"):
        tokenize((str(write_corpus(tmp_path / "a.txt", ["", " "])),), tmp_path / "shards", **options, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_an_error_in_the_corpus_leaves_nothing(tmp_path, tiny_tokenizer):
    (tmp_path / "a.txt").write_bytes(b"one\n\ncaf\x81\n")
    with pytest.raises(ValueError, match=r"a\.txt:3"):
        tokenize((str(tmp_path / "a.txt"),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_exactly_one_way_to_a_tokenizer_is_asked_for(tmp_path, tiny_tokenizer):
    corpus = (str(write_corpus(tmp_path / "a.txt")),)
    for options in ({}, {"tokenizer": str(tiny_tokenizer), "train_tokenizer": 300}):
        with pytest.raises(ValueError, match="give either --tokenizer NAME_OR_PATH or --train-tokenizer SIZE"):
            tokenize(corpus, tmp_path / "shards", **options)


def test_a_tokenizer_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OSError, match="absent: no tokenizer"):
        tokenize((str(write_corpus(tmp_path / "a.txt")),), tmp_path / "shards", tokenizer=str(tmp_path / "absent"))
    assert not (tmp_path / "shards").exists()


def test_a_byte_level_vocabulary_cannot_be_smaller_than_the_bytes(tmp_path):
    with pytest.raises(ValueError, match="train_tokenizer must be at least 257 and at most 4,000,000, not 100"):
        tokenize((str(write_corpus(tmp_path / "a.txt")),), tmp_path / "shards", train_tokenizer=100)


@pytest.mark.shared_data
def test_a_piece_of_a_real_corpus_comes_back(tmp_path, tiny_tokenizer, shared_data):
    source = sorted((shared_data / "novels").glob("*.jsonl*"))[0]
    documents = [text[:3000] for text in islice(read_documents([str(source)]), 10)]
    corpus = tmp_path / "a.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    tokenize((str(corpus),), tmp_path / "shards", tokenizer=str(tiny_tokenizer), workers=1)
    assert decode(Shards.open(tmp_path / "shards")) == documents


# Segments


def in_memory(shards: list[list[list[int]]]) -> Shards:
    """Shards of documents of ids, without a disk."""
    pieces = [np.concatenate([np.array(ids, np.uint16) for ids in documents]) for documents in shards]
    ends = [np.cumsum([len(ids) for ids in documents]).astype(np.uint64) for documents in shards]
    return Shards(Path("invented"), {"vocab_size": 10**6}, pieces, ends, "")


@st.composite
def corpora(draw) -> list[list[list[int]]]:
    """Shards of documents whose pieces all differ: document d holds 100·d + 1, 100·d + 2, …, then 0."""
    lengths = draw(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=6), min_size=1, max_size=4))
    numbers = iter(range(1, 1000))
    return [[[*(100 * next(numbers) + np.arange(1, n)), 0] for n in shard] for shard in lengths]


def read_stream(segments: Segments) -> list[int]:
    return [int(piece) for segment in segments for piece in segment]


def split_documents(stream: list[int]) -> list[list[int]]:
    documents, document = [], []
    for piece in stream:
        document.append(piece)
        if piece == 0:
            documents.append(document)
            document = []
    return [*documents, document]


@given(corpora(), st.integers(1, 12), st.none() | st.integers(0, 5))
def test_every_piece_stands_in_exactly_one_segment_apart_from_those_left_out(shards, length, seed):
    whole = [piece for documents in shards for ids in documents for piece in ids]
    assume(len(whole) >= length)
    segments = Segments(in_memory(shards), length, seed)
    stream = read_stream(segments)
    assert all(segment.shape == (length,) and segment.dtype == np.int64 for segment in segments)
    assert segments.num_left_out == len(whole) - len(stream) < length
    named = [piece for piece in stream if piece]
    assert len(named) == len(set(named)) and set(named) <= set(whole)


@given(corpora(), st.integers(1, 12), st.integers(0, 5))
def test_documents_stay_whole_and_in_order_within_themselves(shards, length, seed):
    known = {tuple(map(int, ids)) for documents in shards for ids in documents}
    assume(sum(map(len, known)) >= length)
    *whole, cut = split_documents(read_stream(Segments(in_memory(shards), length, seed)))
    assert all(tuple(document) in known for document in whole)
    assert not cut or any(tuple(cut) == ids[: len(cut)] for ids in known)


@given(corpora(), st.integers(1, 12))
def test_without_a_seed_the_corpus_keeps_its_order(shards, length):
    whole = [int(piece) for documents in shards for ids in documents for piece in ids]
    assume(len(whole) >= length)
    assert read_stream(Segments(in_memory(shards), length, seed=None)) == whole[: len(whole) // length * length]


def test_segments_worked_by_hand():
    shards = in_memory([[[5, 7, 9, 0], [4, 0]], [[8, 0]]])
    segments = Segments(shards, 3, seed=None)
    assert [segment.tolist() for segment in segments] == [[5, 7, 9], [0, 4, 0]]
    assert len(segments) == 2 and segments.num_left_out == 2


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    shards = in_memory([[[10 * i + j for j in range(1, 6)] + [0] for i in range(1, 40)]])
    one, same, other = (read_stream(Segments(shards, 8, seed)) for seed in (3, 3, 4))
    assert one == same != other
    assert one != read_stream(Segments(shards, 8, seed=None))


def test_documents_of_different_shards_are_mixed():
    shards = in_memory([[[i, 0] for i in range(100 * s + 1, 100 * s + 51)] for s in range(2)])
    first_half = read_stream(Segments(shards, 100, seed=0))[:100]
    assert any(piece > 100 for piece in first_half) and any(0 < piece <= 50 for piece in first_half)


def test_a_corpus_shorter_than_a_segment_is_refused():
    with pytest.raises(ValueError, match="invented holds 6 pieces, fewer than one segment of 7"):
        Segments(in_memory([[[5, 7, 9, 0], [4, 0]]]), 7)


@pytest.mark.parametrize("index", [2, -1, 100])
def test_an_index_outside_raises(index):
    with pytest.raises(IndexError):
        Segments(in_memory([[[5, 7, 9, 0], [4, 0]]]), 3)[index]


class Numbers:
    """Segments that hold their own number, and 100 times the corpus's."""

    def __init__(self, corpus: int, size: int) -> None:
        self.corpus, self.size = corpus, size

    def __len__(self) -> int:
        return self.size

    def example(self, epoch: int, index: int) -> SegmentExample:
        return SegmentExample(epoch, index, np.array([100 * self.corpus + index]))


def mixture(sizes, shares, length=60):
    return Mixture([SegmentStream(Numbers(i, n), 1, length) for i, n in enumerate(sizes)], shares)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=5), st.integers(1, 300))
def test_every_beginning_of_a_run_holds_the_shares(shares, length):
    owners = interleave(shares, length)
    assert len(owners) == length
    counts = np.cumsum(np.eye(len(shares))[owners], 0)
    wanted = np.arange(1, length + 1)[:, None] * np.array(shares) / sum(shares)
    assert np.abs(counts - wanted).max() <= len(shares)


def test_two_thirds_and_one_third():
    assert interleave([2, 1], 6).tolist() == [0, 1, 0, 0, 1, 0]


def test_a_small_corpus_begins_again_and_a_large_one_goes_on():
    examples = [mixture([40, 5], [1, 1])[i] for i in range(60)]
    small = [e for e in examples if e.pieces[0] >= 100]
    large = [e for e in examples if e.pieces[0] < 100]
    assert len(small) == len(large) == 30
    assert len({e.index for e in large}) == 30 and {e.epoch for e in large} == {0}
    for epoch in range(6):
        assert sorted(e.index for e in small if e.epoch == epoch) == [40, 41, 42, 43, 44]
    assert [e.index for e in small[:5]] != [e.index for e in small[5:10]]
    assert all(e.pieces[0] == e.index if e.index < 40 else e.pieces[0] == 100 + e.index - 40 for e in examples)


def test_shares_by_size_smoothed():
    assert smoothed_shares([900, 100], 1) == pytest.approx([0.9, 0.1])
    assert smoothed_shares([900, 100], 0.5) == pytest.approx([0.75, 0.25])
    assert smoothed_shares([900, 100], 0) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("shares", [[1.0], [1.0, 0.0], [1.0, -1.0]])
def test_shares_that_do_not_fit_are_refused(shares):
    with pytest.raises(ValueError, match="2 corpora need as many shares"):
        mixture([3, 3], shares)
    with pytest.raises(ValueError, match="alpha"):
        smoothed_shares([1], -1)


LONG = 3 * LONGEST_WORD + 7


def random_dna(num_letters: int) -> str:
    return "".join(random.Random(0).choices("ACGT", k=num_letters))


@pytest.mark.parametrize("unit", ["x", "ж", "日", "क", "é", "=", " ", "\n", "🙂"])
def test_no_part_has_a_longer_word_and_nothing_is_lost(unit):
    """Letters of one to four bytes, signs, spaces and line ends; before and after them are other words."""
    text, counts = f"Ada sold {unit * LONG} boats. {unit * LONG}", Counter()
    parts = list(cut_long_words([text, "Nobody reads."], counts))
    assert "".join(parts) == text + "Nobody reads." and parts[-1] == "Nobody reads."
    words = [word for part in parts for word, _ in TO_WORDS.pre_tokenize_str(part)]
    assert max(map(len, words)) == LONGEST_WORD and counts == {CUT_TO_TRAIN: 2}


@pytest.mark.parametrize("length", [LONGEST_WORD - 1, LONGEST_WORD])
def test_what_is_not_longer_is_not_touched(length):
    counts = Counter()
    texts = ["x" * length, "日，" * LONG, "12345678" * LONG, " ".join(["word"] * LONG)]
    assert list(cut_long_words(texts, counts)) == texts and not counts


def test_the_tokenizer_of_ordinary_text_is_the_same(monkeypatch):
    trained = train_tokenizer(SENTENCES, 400).to_str()
    monkeypatch.setattr("boustro.text.tokenizers.cut_long_words", lambda documents, counts: documents)
    assert train_tokenizer(SENTENCES, 400).to_str() == trained


def test_a_sequence_of_letters_is_trained_on_in_time_that_grows_with_its_length(tmp_path, capsys):
    """300,000 letters took half a minute and four times as many sixteen times as long."""
    (tmp_path / "dna.txt").write_text(dna := random_dna(300_000))
    begun = time.monotonic()
    tokenize((str(tmp_path / "dna.txt"),), tmp_path / "shards", train_tokenizer=1000, workers=1)
    assert time.monotonic() - begun < 15
    assert f"; 1 {CUT_TO_TRAIN}" in capsys.readouterr().out
    shards = Shards.open(tmp_path / "shards")
    pieces = shards.pieces[0][:-1].tolist()
    assert load_tokenizer(shards.tokenizer_path).decode(pieces) == dna and len(pieces) < len(dna) / 3


def test_nothing_is_reported_where_nothing_is_cut(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n\n".join(SENTENCES))
    tokenize((str(tmp_path / "a.txt"),), tmp_path / "shards", train_tokenizer=300, workers=1)
    assert "cut" not in capsys.readouterr().out
