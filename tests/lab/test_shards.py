"""lab.pretrain.shards, segments, mixtures: ids on disk that decode to the corpus; tokenizers of very long words."""

import random
import shutil
import time
from collections import Counter
from itertools import pairwise
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


@pytest.fixture
def made(tmp_path, tiny_tokenizer):
    """made(documents, …) → the folder of their shards."""

    def make(documents=DOCUMENTS, name="shards", workers=1, **options) -> Path:
        options = options or {"tokenizer": str(tiny_tokenizer)}
        corpus = write_corpus(tmp_path / "a.txt", documents)
        tokenize((str(corpus),), tmp_path / name, workers=workers, **options)
        return tmp_path / name

    return make


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


def test_ids_in_shards_decode_back_to_the_documents(made, tiny_tokenizer, capsys):
    """Each document ends in the end-of-text piece, and holds no other even where the text spells it out."""
    documents = [*DOCUMENTS, f"They wrote {END_OF_TEXT} in the minutes."]
    shards = Shards.open(made(documents))
    end = load_tokenizer(tiny_tokenizer).eos_token_id
    assert decode(shards) == documents and shards.config["end_of_text_id"] == end
    assert all(ids[-1] == end and end not in ids[:-1] for ids in documents_of(shards))
    assert shards.config["num_documents"] == 4
    assert shards.config["num_pieces"] == (pieces := sum(map(len, documents_of(shards))))
    assert f"4 documents, {pieces} pieces, uint16" in capsys.readouterr().out


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


def test_one_and_two_workers_write_the_same_folder_of_several_shards(made, many_shards):
    documents = [f"Boat {i} left Vellmar with {i * i} crates." for i in range(60)]
    folders = [made(documents, str(workers), workers) for workers in (1, 2)]
    one, two = (Artefact(folder).check("shards", verify=True)["files"] for folder in folders)
    shards, other = map(Shards.open, folders)
    assert one == two and shards.fingerprint == other.fingerprint
    assert shards.config["num_shards"] == len(shards.pieces) > 2
    assert [int(ends[-1]) for ends in shards.ends] == [len(pieces) for pieces in shards.pieces]
    assert decode(shards) == documents


@pytest.mark.parametrize(("size", "dtype"), [(300, "uint16"), (1 << 16, "uint16"), ((1 << 16) + 1, "uint32")])
def test_ids_take_two_bytes_where_the_vocabulary_fits(made, tmp_path, size, dtype):
    tokenizer = write_words_tokenizer(tmp_path / "tokenizer", size)
    shards = Shards.open(made([f"w1 w{size - 1}", "w2"], tokenizer=str(tokenizer)))
    assert shards.config["dtype"] == dtype and shards.pieces[0].dtype == dtype
    assert shards.config["vocab_size"] == size
    assert documents_of(shards) == [[1, size - 1, 0], [2, 0]]


def test_a_tokenizer_is_learned_from_the_corpus_and_lies_beside_the_shards(made):
    shards = Shards.open(made(train_tokenizer=290))
    assert shards.config["vocab_size"] == len(load_tokenizer(shards.tokenizer_path)) == 290
    assert decode(shards) == DOCUMENTS


def test_a_truncated_shard_is_refused(made):
    file = made() / "pieces-00000.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-2])
    with pytest.raises(ValueError, match=rf"pieces-00000\.bin holds {len(whole) - 2} bytes, not {len(whole)}"):
        Shards.open(file.parent)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"\n\n \n", {"tokenizer": "{tiny}"}, "the corpus holds no text"),
        (b"\n\n \n", {"train_tokenizer": 300}, "the corpus holds no text"),
        (b"one\n\ncaf\x81\n", {"tokenizer": "{tiny}"}, r"a\.txt:3"),
        (b"one", {}, "give either --tokenizer NAME_OR_PATH or --train-tokenizer SIZE"),
        (b"one", {"tokenizer": "{tiny}", "train_tokenizer": 300}, "give either --tokenizer NAME_OR_PATH or --train"),
        (b"one", {"tokenizer": "./absent"}, "absent: no tokenizer"),
        (b"one", {"train_tokenizer": 100}, "train_tokenizer must be at least 257 and at most 4,000,000, not 100"),
    ],
)
def test_what_gives_no_shards_is_refused_and_leaves_nothing(tmp_path, tiny_tokenizer, content, options, message):
    (tmp_path / "a.txt").write_bytes(content)
    options = {k: v.format(tiny=tiny_tokenizer) if isinstance(v, str) else v for k, v in options.items()}
    with pytest.raises((ValueError, OSError), match=message):
        tokenize((str(tmp_path / "a.txt"),), tmp_path / "shards", **options, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


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


@given(corpora(), st.integers(1, 12), st.none() | st.integers(0, 5))
def test_every_piece_stands_in_one_segment_apart_from_those_left_out_and_documents_stay_whole(shards, length, seed):
    known = [tuple(map(int, ids)) for documents in shards for ids in documents]
    whole = [piece for ids in known for piece in ids]
    assume(len(whole) >= length)
    segments = Segments(in_memory(shards), length, seed)
    stream = read_stream(segments)
    assert all(segment.shape == (length,) and segment.dtype == np.int64 for segment in segments)
    assert segments.num_left_out == len(whole) - len(stream) < length
    if seed is None:
        assert stream == whole[: len(stream)]
    ends = [place for place, piece in enumerate(stream, start=1) if piece == 0]
    *read, cut = (tuple(stream[a:b]) for a, b in pairwise([0, *ends, len(stream)]))
    assert not Counter(read) - Counter(known)  # each document once, however many pieces it has
    assert not cut or any(cut == ids[: len(cut)] for ids in (Counter(known) - Counter(read)))


def test_segments_worked_by_hand():
    shards = in_memory([[[5, 7, 9, 0], [4, 0]], [[8, 0]]])
    segments = Segments(shards, 3, seed=None)
    assert [segment.tolist() for segment in segments] == [[5, 7, 9], [0, 4, 0]]
    assert len(segments) == 2 and segments.num_left_out == 2
    for index in (2, -1, 100):
        with pytest.raises(IndexError):
            segments[index]
    with pytest.raises(ValueError, match="invented holds 8 pieces, fewer than one segment of 9"):
        Segments(shards, 9)


def test_the_same_seed_gives_the_same_order_and_another_seed_another():
    shards = in_memory([[[10 * i + j for j in range(1, 6)] + [0] for i in range(1, 40)]])
    one, same, other = (read_stream(Segments(shards, 8, seed)) for seed in (3, 3, 4))
    assert one == same != other
    assert one != read_stream(Segments(shards, 8, seed=None))


def test_documents_of_different_shards_are_mixed():
    shards = in_memory([[[i, 0] for i in range(100 * s + 1, 100 * s + 51)] for s in range(2)])
    first_half = read_stream(Segments(shards, 100, seed=0))[:100]
    assert any(piece > 100 for piece in first_half) and any(0 < piece <= 50 for piece in first_half)


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
