"""Token shards: a corpus as piece ids on disk, memory-mapped, with the bounds of its documents.

    config.json          largest id + 1 (vocab_size), dtype, end-of-text piece, counts
    pieces-00000.bin     piece ids, uint16 (uint32 for ids above 65,535): documents one after another,
                         each followed by the end-of-text piece
    documents-00000.bin  where each document ends in that shard, uint64
    tokenizer/           the tokenizer, which is copied into every model trained on the shards

Documents are tokenized in batches by one process per core and written in order, so memory does not grow with the
corpus.

Byte-level BPE is done by tiktoken: exactly the pieces of a Hugging Face tokenizer, several times faster. tiktoken has a
faster regex engine and computes no offsets. That the result is the same is checked:

    merges       a tokenizer merges pairs (a, b) in the order of its rules, tiktoken any pair that makes the piece a·b.
                 Both agree if every piece, given alone, is encoded as itself: two neighbours c, d with c·d = a·b and
                 another border than a|b then never meet, since c or d would have crossed the border of a|b, which the
                 merges of a·b alone respect. The whole vocabulary is checked.
    characters   the regex engines may know different versions of Unicode. Every new character is tried in both, beside
                 a letter, a digit and so on; a text with one that they split differently goes to the tokenizer itself.
    coverage     tiktoken leaves out what no branch of a pattern matches: the bytes are counted.

`ByteBPE.make` returns None for any other kind of tokenizer (SentencePiece, WordPiece, a space added before the text,
added pieces that are not special).
"""

import contextlib
import itertools
import json
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tiktoken
from tokenizers import Tokenizer, models

from boustro.given import chunk_by_size
from boustro.options import Positional, Range, ShareAboveZero, Workers, check_options
from boustro.progress import Progress
from boustro.store import Artefact, claim, write_folder
from boustro.text import tokenizers
from boustro.text.documents import Split, is_stream, read_documents
from boustro.text.duplicates import NearDuplicates
from boustro.text.places import Corpus
from boustro.text.tokenizers import GPT2_PATTERN, LEAST_PIECES, MOST_PIECES, end_of_text_id, load_tokenizer, num_ids

SHARD_PIECES = 1 << 27  # 256 MB of two-byte ids: a file that every system maps and copies
BATCH_CHARACTERS = 1 << 21  # a message between processes; smaller ones cost more than they carry
COUNTED_PIECES = 1 << 24  # frequencies are settled by the first 16M pieces


@dataclass(frozen=True)
class Shards:
    """An opened folder of shards; `pieces[i]` and `ends[i]` are memory maps of shard i."""

    path: Path
    config: dict[str, Any]
    pieces: Sequence[np.ndarray]
    ends: Sequence[np.ndarray]
    fingerprint: str

    @classmethod
    def open(cls, path: str | Path) -> "Shards":
        """Open a complete folder; `ValueError` if it is damaged or incomplete."""
        path, folder = Path(path), Artefact(path)
        with folder.opened("shards"):
            config = folder.config()
            names = range(config["num_shards"])
            pieces = [np.memmap(path / f"pieces-{i:05d}.bin", dtype=config["dtype"], mode="r") for i in names]
            ends = [np.memmap(path / f"documents-{i:05d}.bin", dtype=np.uint64, mode="r") for i in names]
            if config["num_pieces"] != sum(map(len, pieces)) or [e[-1] for e in ends] != [*map(len, pieces)]:
                raise ValueError("the counts do not agree")
            if not 0 <= config["end_of_text_id"] < config["vocab_size"] <= 1 << 8 * pieces[0].itemsize:
                raise ValueError("the pieces do not agree")
        return cls(path, config, pieces, ends, folder.fingerprint)

    @property
    def tokenizer_path(self) -> Path:
        return self.path / "tokenizer"

    def read(self, shard: int, start: int, stop: int) -> np.ndarray:
        """Piece ids of a shard, as int64; `ValueError` for one that is not in the vocabulary."""
        pieces = self.pieces[shard][start:stop].astype(np.int64)
        if pieces.max(initial=0) >= self.config["vocab_size"]:
            raise ValueError(
                f"{self.path / f'pieces-{shard:05d}.bin'}: piece {pieces.max():,} of a vocabulary of "
                f"{self.config['vocab_size']:,}: damaged; write the shards folder again"
            )
        return pieces

    def counts(self, vocab_size: int) -> np.ndarray:
        """Return (vocab_size,) how often each piece occurs in the first 16.8M pieces."""
        return np.bincount(self.read(0, 0, COUNTED_PIECES), minlength=vocab_size)


def open_shards_of(path: Path, vocabulary: dict[str, int], owner: str, whose: str) -> Shards:
    """Shards with the vocabulary of `owner`; `ValueError` for others, saying to use the tokenizer of `whose`."""
    shards = Shards.open(path)
    if load_tokenizer(shards.tokenizer_path).get_vocab() != vocabulary:
        raise ValueError(
            f"{path} was made with another tokenizer than that of {owner}; make it again: boustro lab tokenize ... "
            f"--tokenizer with the folder or name of {whose}"
        )
    return shards


def tokenize(
    corpus: Positional[tuple[Corpus, ...]],
    out: Path,
    tokenizer: str | None = None,
    train_tokenizer: Annotated[int, Range(LEAST_PIECES, MOST_PIECES)] | None = None,
    text_key: str = "text",
    split: Split = "blank-line",
    near_duplicates: ShareAboveZero | None = None,
    workers: Workers | None = None,
    overwrite: bool = False,
) -> None:
    """Turn a corpus into token shards, on all cores.

    Args:
        corpus: Files of text, JSON, CSV, TSV, parquet or Arrow (.gz, .bz2, .xz, .zst too), folders of them, or names of
            datasets on the Hub.
        out: Folder to write the shards to.
        tokenizer: A Hugging Face tokenizer: name or folder.
        train_tokenizer: Train a byte-level BPE tokenizer with this vocabulary size on the corpus instead.
        text_key: Key or column of the text in files that are not plain text, and in datasets.
        split: What ends a document in a text file.
        near_duplicates: Leave out documents whose similarity to an earlier one is at least this, such as 0.8
            (Jaccard similarity of their runs of five words).
        workers: Number of processes. By default one per core.
        overwrite: Replace existing shards in OUT.
    """
    check_options(tokenize, locals())
    if (tokenizer is None) == (train_tokenizer is None):
        raise ValueError("give either --tokenizer NAME_OR_PATH or --train-tokenizer SIZE")
    if not corpus:
        raise ValueError("no corpus given; name at least one file, folder or dataset")
    stream = next(filter(is_stream, corpus), None)
    if stream and train_tokenizer is not None:
        raise ValueError(
            f"{stream} is a stream, and --train-tokenizer reads the corpus twice; write it to a file first"
        )
    sieve = NearDuplicates(near_duplicates) if near_duplicates is not None else None

    def documents() -> Iterator[str]:
        texts = read_documents(corpus, text_key, split)
        return sieve.filter(texts) if sieve else texts

    counts: Counter[str] = Counter()
    made_by = {"corpora": list(corpus), "near_duplicates": near_duplicates}
    with claim(out, "shards", overwrite), write_folder(out, "shards", made_by) as folder:
        if train_tokenizer is not None:
            shown = Progress("training the tokenizer", "documents").over(documents())
            trained = tokenizers.train_tokenizer(shown, train_tokenizer, counts)
            tokenizers.save_tokenizer(trained, folder / "tokenizer")
        else:
            load_tokenizer(str(tokenizer)).save_pretrained(folder / "tokenizer")
        config = write_shards(documents(), folder, workers or os.cpu_count() or 1)
    if sieve:
        counts["near-duplicates left out"] = sieve.left_out
    told = "".join(f"; {count:,} {what}" for what, count in counts.items())
    print(f"{out}: {config['num_documents']:,} documents, {config['num_pieces']:,} pieces, {config['dtype']}{told}")


def write_shards(documents: Iterable[str], folder: Path, workers: int) -> dict[str, Any]:
    """Write shards of `documents` into `folder`, which already contains `tokenizer/`; returns their config."""
    tokenizer = load_tokenizer(folder / "tokenizer")
    end = end_of_text_id(tokenizer)
    vocab_size = num_ids(tokenizer)
    dtype = np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)  # two bytes halve a corpus on disk
    num_pieces = num_documents = num_shards = written = 0
    with contextlib.ExitStack() as files, Progress("tokenizing", "pieces") as bar:
        for pieces, lengths in _encode_batches(documents, folder / "tokenizer", end, vocab_size, dtype, workers):
            if not num_shards or written >= SHARD_PIECES:
                files.close()
                paths = (folder / f"{name}-{num_shards:05d}.bin" for name in ("pieces", "documents"))
                pieces_file, ends_file = (files.enter_context(path.open("wb")) for path in paths)
                num_shards, written = num_shards + 1, 0
            pieces_file.write(pieces)
            ends_file.write((written + np.cumsum(lengths, dtype=np.uint64)).astype(np.uint64).tobytes())
            size = int(lengths.sum())
            written, num_pieces, num_documents = written + size, num_pieces + size, num_documents + len(lengths)
            bar.update(size)
    if not num_shards:
        raise ValueError("the corpus holds no text; check its path and --text-key")
    counts = {"num_shards": num_shards, "num_documents": num_documents, "num_pieces": num_pieces}
    config = {**counts, "dtype": dtype.name, "vocab_size": vocab_size, "end_of_text_id": end}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return config


def _encode_batches(
    documents: Iterable[str], tokenizer: Path, end: int, vocab_size: int, dtype: np.dtype, workers: int
) -> Iterator[tuple[bytes, np.ndarray]]:
    """Yield (ids as bytes, lengths) of each batch, in the documents' order, computed a few batches ahead."""
    arguments = (str(tokenizer), end, vocab_size, dtype.name)
    if workers == 1:
        _start_worker(*arguments)
        yield from map(_encode_batch, chunk_by_size(documents, len, BATCH_CHARACTERS))
        return
    pending: deque[Future] = deque()
    with ProcessPoolExecutor(workers, get_context("spawn"), _start_worker, arguments) as pool:
        for batch in chunk_by_size(documents, len, BATCH_CHARACTERS):
            pending.append(pool.submit(_encode_batch, batch))
            if len(pending) > 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


_worker: dict[str, Any] = {}


def _start_worker(tokenizer: str, end: int, vocab_size: int, dtype: str) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    file = Path(tokenizer) / "tokenizer.json"
    if file.is_file():  # without transformers, whose import takes seconds
        from tokenizers import Tokenizer

        loaded = Tokenizer.from_file(str(file))
        loaded.encode_special_tokens = True
        loaded.no_truncation()
        loaded.no_padding()
        plain = lambda texts: [e.ids for e in loaded.encode_batch_fast(texts, add_special_tokens=False)]  # noqa: E731
        fast = ByteBPE.make(loaded)
        encode = fast.encode_batch if fast else plain
    else:
        slow = load_tokenizer(tokenizer)
        encode = lambda texts: slow(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]  # noqa: E731
    _worker.update(encode=encode, end=end, vocab_size=vocab_size, dtype=np.dtype(dtype))


def _encode_batch(batch: list[str]) -> tuple[bytes, np.ndarray]:
    end = _narrow([_worker["end"]])
    ids = [np.concatenate([_narrow(document), end]) for document in _worker["encode"](batch)]
    return np.concatenate(ids).tobytes(), np.array([len(document) for document in ids], np.int64)


def _narrow(ids: Any) -> np.ndarray:
    """Convert ids to the shards' type; `ValueError` for one that no piece of the tokenizer has."""
    wide, size = np.asarray(ids, np.int64), _worker["vocab_size"]
    if wide.max(initial=0) >= size:
        raise ValueError(f"the tokenizer gave the id {wide.max():,}, and its list of pieces ends at {size - 1:,}")
    return wide.astype(_worker["dtype"])


LONG_TEXT, LONG_RUNS = 100_000, tuple(500 * space for space in " \n\t")
"""Texts where tiktoken's regex might fail: it panics at some hundred thousand spaces in a row."""
UNTRIED, SPLIT_ALIKE, SPLIT_UNLIKE = 0, 1, 2
TRIED_BESIDE = "a1. '\n"


class ByteBPE:
    """Encodes texts as `tokenizer` does, without special pieces; `make` makes it."""

    def __init__(self, tokenizer: Tokenizer, pattern: str, pieces: dict[bytes, int]) -> None:
        """`pieces` are the byte strings in the order of their merges, with their ids."""
        self._tokenizer, self._pattern = tokenizer, pattern
        self._ids = np.fromiter(pieces.values(), np.uint32)
        self._num_bytes = np.fromiter(map(len, pieces), np.int64)
        ranks = {piece: rank for rank, piece in enumerate(pieces)}
        self._fast = tiktoken.Encoding("byte-level", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        self._characters, self._any_unlike = np.full(0x110000, UNTRIED, np.uint8), False

    @classmethod
    def make(cls, tokenizer: Tokenizer) -> "ByteBPE | None":
        """None for a tokenizer whose pieces tiktoken would not reproduce."""
        spec = json.loads(tokenizer.to_str())
        pattern, model = _pattern(spec["pre_tokenizer"]), spec["model"]
        if pattern is None or model["type"] != "BPE" or not all(added["special"] for added in spec["added_tokens"]):
            return None
        try:
            return None if (pieces := _pieces(model)) is None else cls(tokenizer, pattern, pieces)
        except ValueError:  # a pattern that only the other engine supports
            return None

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids of each text."""
        normalizer = self._tokenizer.normalizer
        normal = texts if normalizer is None else [normalizer.normalize_str(text) for text in texts]
        characters = [np.frombuffer(text.encode("utf-32-le"), np.uint32) for text in normal]
        untried = [text_characters[self._characters[text_characters] == UNTRIED] for text_characters in characters]
        if any(map(len, untried)):
            self._try(np.unique(np.concatenate(untried)))
        return [self._encode(*each) for each in zip(normal, characters, texts, strict=True)]

    def _encode(self, text: str, characters: np.ndarray, given: str) -> np.ndarray:
        long = len(text) > LONG_TEXT and any(run in text for run in LONG_RUNS)
        if not long and not (self._any_unlike and (self._characters[characters] == SPLIT_UNLIKE).any()):
            places = self._fast.encode_ordinary(text)
            if self._num_bytes[places].sum() == len(text.encode()):
                return self._ids[places]
        return np.array(self._tokenizer.encode(given, add_special_tokens=False).ids, np.uint32)

    def _try(self, characters: np.ndarray) -> None:
        """Find out whether both engines split these characters from the same neighbours."""
        pairs = {c: {p for o in (chr(c), *TRIED_BESIDE) for p in (o + chr(c), chr(c) + o)} for c in characters.tolist()}
        whole = {text.encode(): number for number, text in enumerate(itertools.chain(*pairs.values()), 256)}
        ranks = {bytes([byte]): byte for byte in range(256)} | whole  # a word that is a piece needs no merges
        probe = tiktoken.Encoding("probe", pat_str=self._pattern, mergeable_ranks=ranks, special_tokens={})
        split: Any = self._tokenizer.pre_tokenizer
        for character, texts in pairs.items():
            theirs = [probe.encode_ordinary(text) == [whole[text.encode()]] for text in texts]
            splits_alike = [len(split.pre_tokenize_str(text)) == 1 for text in texts]
            self._characters[character] = SPLIT_ALIKE if theirs == splits_alike else SPLIT_UNLIKE
            self._any_unlike |= theirs != splits_alike


def _pattern(pre_tokenizer: dict[str, Any] | None) -> str | None:
    """Return the pattern that splits words, if nothing else but byte-level encoding follows."""
    parts = (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer])
    last = parts[-1] or {}
    if last.get("type") != "ByteLevel" or last["add_prefix_space"]:
        return None
    if len(parts) == 1:
        return GPT2_PATTERN if last["use_regex"] else None
    split = parts[0]
    whole = len(parts) == 2 and not last["use_regex"] and split["type"] == "Split"
    return split["pattern"].get("Regex") if whole and split["behavior"] == "Isolated" and not split["invert"] else None


def _pieces(model: dict[str, Any]) -> dict[bytes, int] | None:
    """Bytes and merged pieces in order, with their ids; None if another order of merges would matter."""
    others = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    vocabulary, alphabet = model["vocab"], _alphabet()
    if any(model.get(name) for name in others) or not alphabet.keys() <= vocabulary.keys():
        return None
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    words = [*alphabet, *dict.fromkeys(a + b for a, b in merges)]
    merging = models.BPE(vocabulary, merges)
    if any([piece.id for piece in merging.tokenize(word)] != [vocabulary[word]] for word in words):
        return None
    if model.get("ignore_merges") and len(words) < len(vocabulary):  # whole words could be pieces that no merge makes
        return None
    return {bytes(alphabet[c] for c in word): vocabulary[word] for word in words}


def _alphabet() -> dict[str, int]:
    """GPT-2's characters for the 256 bytes: printable ones are themselves, the others follow from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}
